"""Supervisor: holds the listening socket, keeps worker processes running, and hands them new rubrics."""

import asyncio
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Final

from assay.errors import AssayError
from assay.redaction import logger_of
from assay.server.board import Board
from assay.server.control import Begin, Load, Note, Swap
from assay.server.handle import Handle
from assay.server.listening import bound
from assay.server.metrics import FAMILIES
from assay.server.refusing import refuse_waiting
from assay.server.settings import Judge, Settings
from assay.server.sources import Source
from assay.server.watch import Watch

logger = logger_of("assay.server")

LOOKS: Final = 0.5
"""Seconds between two looks at the rubric file."""
GRACE: Final = 5.0
"""Seconds beyond its time before a worker that hangs is killed."""
LONGEST_PAUSE: Final = 10.0
"""Seconds before a worker that keeps dying is started again, at most."""


class ServeError(AssayError, ValueError):
    """The server could not start; the message says what was wrong with what it was given."""


def serve(
    rubric: str,
    settings: Settings | None = None,
    judge: Judge | None = None,
    *,
    allow_code: bool = False,
    started: Callable[[str], None] | None = None,
) -> None:
    """Serve a rubric file, or `module:object`, until SIGTERM or SIGINT; then end without dropping anything.

    `started` is told the address once all workers are up. SIGHUP has the file read again at once.
    """
    source = Source.at(rubric, allow_code=allow_code)
    _allow_connections()
    asyncio.run(Supervisor(source, settings or Settings(), judge or Judge()).run(started))


class Supervisor:
    """The one process that never scores, so that it can look after those that do."""

    def __init__(self, source: Source, settings: Settings, judge: Judge) -> None:
        self._source = source
        self._settings = settings
        self._judge = judge
        self._rows = settings.workers + 1
        self._handles: dict[int, Handle] = {}
        self._number = 0
        self._error = ""
        self._stopping = asyncio.Event()
        self._hung_up = asyncio.Event()
        self._all_up = asyncio.Event()
        self._broken = ""

    async def run(self, started: Callable[[str], None] | None = None) -> None:
        """Serve until told to stop."""
        self._listening = bound(self._settings)
        self._board_file = Board.shared_file(FAMILIES, self._rows)
        self._row = Board.at(self._board_file, FAMILIES, self._rows).row(self._settings.workers)
        self._row.set("assay_workers", self._settings.workers)
        self._heed_signals()
        try:
            async with asyncio.TaskGroup() as group:
                for place in range(self._settings.workers):
                    group.create_task(self._keep(place))
                beside = [group.create_task(self._watch()), group.create_task(self._patrol())]
                await self._announce(started)
                await self._stopping.wait()
                for task in beside:
                    task.cancel()
                await self._end()
        finally:
            refuse_waiting(self._listening)
            self._listening.close()
            os.close(self._board_file)
        if self._broken:
            raise ServeError(self._broken)

    def _heed_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop)
        if hasattr(signal, "SIGHUP"):
            loop.add_signal_handler(signal.SIGHUP, self._hung_up.set)

    def _stop(self) -> None:
        if self._stopping.is_set():  # told twice: at once, then
            for handle in self._handles.values():
                handle.kill()
        self._stopping.set()
        self._all_up.set()  # nobody need wait for that any more

    async def _announce(self, started: Callable[[str], None] | None) -> None:
        await self._all_up.wait()
        if started is not None and not self._stopping.is_set():
            port = self._listening.getsockname()[1]
            started(replace(self._settings, port=port).url)

    def _count_ready(self) -> None:
        there = sum(handle.is_ready for handle in self._handles.values())
        self._row.set("assay_workers_ready", there)
        if there == self._settings.workers:
            self._all_up.set()

    async def _keep(self, place: int) -> None:
        """Have a worker in this place, and another one whenever it dies."""
        pause = 0.0
        while not self._stopping.is_set():
            handle = await self._start(place)
            lived = await handle.until_it_ends(self._welcome)
            self._count_ready()
            if self._stopping.is_set():
                return
            if not self._all_up.is_set():
                self._give_up(handle.error or f"worker {place} {handle.ending}")
                return
            logger.warning("worker %d %s: a new one is started", place, handle.ending)
            self._row.add("assay_worker_restarts_total")
            pause = 0.0 if lived > 1 else min(LONGEST_PAUSE, max(0.1, 2 * pause))
            await _unless(self._stopping, pause)

    async def _start(self, place: int) -> Handle:
        handle = await Handle.start(self._listening, self._board_file)
        handle.number = self._number
        self._handles[place] = handle
        handle.send(Begin(self._settings, self._judge, self._source, place, self._rows))
        if self._stopping.is_set():  # it was, while the process was made
            handle.terminate()
        return handle

    def _welcome(self, handle: Handle) -> None:
        """A worker is ready; what it has missed meanwhile is made up for."""
        self._count_ready()
        handle.send(Note(self._error))
        if handle.number != self._number:
            handle.send(Load(self._number, self._source))
            handle.send(Swap(self._number))
            handle.number = self._number

    def _give_up(self, error: str) -> None:
        self._broken = error
        self._stop()

    async def _end(self) -> None:
        for handle in self._handles.values():
            handle.terminate()
        patience = self._settings.bounds.drain_seconds + GRACE
        ended = [handle.process.wait() for handle in self._handles.values()]
        try:
            await asyncio.wait_for(asyncio.gather(*ended), patience)
        except TimeoutError:
            for handle in self._handles.values():
                handle.kill()

    async def _patrol(self) -> None:
        """Kill a worker whose loop has not turned for longer than a rollout may take."""
        patience = self._settings.bounds.item_seconds + GRACE
        while True:
            await asyncio.sleep(1)
            for place, handle in self._handles.items():
                if handle.is_ready and handle.silence() > patience:
                    logger.error("worker %d does not move: it is killed", place)
                    handle.kill()

    async def _watch(self) -> None:
        """Look at the rubric file, and hand on what changed."""
        if self._source.file is None:
            return
        watch = Watch(self._source.file)
        while True:
            await _unless(self._hung_up, LOOKS)
            text = watch.changed(at_once=self._hung_up.is_set())
            self._hung_up.clear()
            if text is not None:
                await self._hand_on(self._source.with_text(text))

    async def _hand_on(self, source: Source) -> None:
        """Have every worker make the new rubric ready; only if all could, have them serve it."""
        if source == self._source:
            self._note("")
            return
        number = self._number + 1
        handles = [handle for handle in self._handles.values() if handle.is_ready]
        errors = await asyncio.gather(*(handle.load(number, source) for handle in handles))
        error = next((error for error in errors if error), "")
        if error:
            logger.error("the rubric file changed and cannot be used: %s", error)
            self._row.add("assay_rubric_reload_failures_total")
            self._note(error)
            return
        self._number, self._source = number, source
        for handle in handles:
            handle.number = number
            handle.send(Swap(number))
        self._row.add("assay_rubric_reloads_total")
        logger.warning("the rubric file changed: the new rubric is served")
        self._note("")

    def _note(self, error: str) -> None:
        """Let everybody know what is wrong with the file, or that nothing is."""
        self._error = error
        self._row.set("assay_rubric_reload_failed", float(bool(error)))
        for handle in self._handles.values():
            handle.send(Note(error))


def _allow_connections() -> None:
    """Have as many files open as may be, for every connection is one; workers inherit it."""
    try:
        import resource
    except ImportError:  # not on Windows
        return
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


async def _unless(event: asyncio.Event, seconds: float) -> None:
    """Wait so long, but no longer than until the event."""
    with suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), seconds)
