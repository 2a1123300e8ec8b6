"""Run the reward server on uvicorn: in worker processes that are replaced when they die, or in a thread."""

import asyncio
import faulthandler
import gc
import logging
import multiprocessing
import os
import resource
import signal
import socket
import tempfile
import threading
import time
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager, suppress
from contextvars import copy_context
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, Final, Self, cast

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.supervisors import Multiprocess

from assay.errors import AssayError
from assay.integrations.monitor import RewardMonitor
from assay.models import Ledger, budget
from assay.redaction import get_logger, redact
from assay.rubric import Rubric
from assay.server.app import RewardApp
from assay.server.metrics import Metrics
from assay.server.reload import Published, RubricLoader, ServerFolder, follow_file
from assay.server.settings import Judge, Settings, SettingsError
from assay.wording import describe_error

logger = get_logger("assay.server")

BEAT: Final = (
    0.5  # seconds between two looks of a worker at its supervisor and at what was published
)
GRACE: Final = 5.0  # seconds beyond the deadline of a rollout for which the event loop of a worker may stand still
# Seconds that an idle connection is kept: longer than clients keep theirs, so that they close it first.
KEEP_ALIVE: Final = 120
# How long a worker may take to start, or to answer its supervisor. `_Worker` itself sees to an event loop that stands
# still: uvicorn has a thread answer, which goes on turning.
HEALTH_SECONDS: Final = 30
LONGEST_HEAD: Final = 64 << 10  # bytes of the line and headers of a request
NEW_SECONDS: Final = (
    1.0  # how long a worker that ends waits for the first request of a connection that it has taken
)


class ServeError(AssayError):
    """The server could not start."""


def serve(
    rubric: str,
    settings: Settings | None = None,
    judge: Judge | None = None,
    *,
    allow_code: bool = False,
    started: Callable[[str], None] | None = None,
) -> None:
    """Serve a rubric file, or the `module:object` of one made in Python, until told to stop.

    `started` is told the address once all workers are up. Workers are processes that import the program which calls
    this, so call it under `if __name__ == "__main__":`, and from the main thread, which is the one that gets signals.
    """
    settings = settings if settings is not None else Settings()
    judge = judge if judge is not None else Judge()
    source = Published.at(rubric, allow_code=allow_code)
    loader = RubricLoader(judge)
    try:
        loader.rubric(
            source
        )  # here first, so that workers need not find out one by one what is wrong with it
    except Exception as error:
        raise ServeError(redact(str(error)) or describe_error(error)) from error
    with suppress(
        ValueError, OSError
    ):  # every connection is an open file; workers inherit the limit
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    stop = threading.Event()
    with ExitStack() as stack:
        stack.callback(loader.close)
        listening = stack.enter_context(bound(settings))
        place = stack.enter_context(tempfile.TemporaryDirectory(prefix="assay-server-"))
        folder = ServerFolder(Path(place), settings.workers)
        folder.publish(source)
        # Workers inherit it; prometheus_client reads it when they import it.
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = place
        stack.callback(os.environ.pop, "PROMETHEUS_MULTIPROC_DIR", None)
        url = replace(settings, port=listening.getsockname()[1]).url

        def look_after() -> None:
            """Say when all workers are up, and follow the rubric file from then on."""
            while folder.status().workers_ready < settings.workers:
                if stop.wait(0.02):
                    return
            if started is not None:
                started(url)
            follow_file(folder, loader, stop)

        beside = threading.Thread(target=look_after, name="assay-serve")
        beside.start()
        try:
            app = partial(worker_app, settings, judge, folder)
            Multiprocess(_config(app, settings, factory=True), sockets=[listening]).run()
        finally:
            stop.set()
            beside.join()
            for number, handler in handlers.items():
                signal.signal(number, handler)


def worker_app(settings: Settings, judge: Judge, folder: ServerFolder) -> RewardApp:
    """The application of a worker process."""
    logging.basicConfig(format="%(levelname)s %(name)s: %(message)s")
    logging.getLogger("assay").addFilter(lambda record: False)  # replies and metrics say it all
    return _Worker(settings, judge, folder).app


class _Worker:
    """What a worker process does beside answering: it follows its supervisor, the rubric and its own event loop."""

    def __init__(self, settings: Settings, judge: Judge, folder: ServerFolder) -> None:
        self._folder, self._loader = folder, RubricLoader(judge)
        source = folder.published()
        self._text = source.text
        self._supervisor = multiprocessing.parent_process()
        self._limit = settings.bounds.item_seconds + GRACE
        self._interrupted = False
        self._draining: asyncio.Task[None] | None = None
        rubric = self._loader.rubric(source)
        share = None if judge.budget is None else judge.budget / settings.workers
        self._budget = budget(dollars=share)  # kept, since it would end with its last reference
        self._spent: Ledger = self._budget.__enter__()
        metrics = Metrics(folder.status, str(folder.path))
        self.app = RewardApp(
            rubric, settings, status=folder.status, metrics=metrics, lifespan=self._lifespan
        )
        # Requests leave next to no cycles of garbage, and looking for them often costs a tenth of the whole.
        gc.collect()
        gc.freeze()
        gc.set_threshold(20_000, 20, 20)

    @asynccontextmanager
    async def _lifespan(self, app: object) -> AsyncGenerator[None]:
        stops = (signal.SIGINT, signal.SIGTERM)
        self._exit: dict[int, Any] = {
            number: signal.signal(number, self._told_to_stop) for number in stops
        }
        tasks = [asyncio.create_task(self._beat()), asyncio.create_task(self._follow())]
        signal.signal(
            signal.SIGHUP, signal.SIG_IGN
        )  # for the supervisor, which replaces all workers then
        if self._folder.mark_worker():
            logger.warning("a worker has ended, and process %d takes its place", os.getpid())
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            self.app.write_metrics()
            self.app.metrics.count_judge(self._spent)
            self._loader.close()

    def _told_to_stop(self, number: int, frame: FrameType | None) -> None:
        """Finish what is under way before uvicorn ends; a second Ctrl-C ends at once."""
        # The first comes twice where a terminal sends it to all processes: from there, and from the supervisor.
        if number == signal.SIGINT and self._interrupted:
            for _ in range(2):  # the second time uvicorn waits for nothing
                self._exit[number](number, frame)
        self._interrupted = self._interrupted or number == signal.SIGINT
        asyncio.get_running_loop().call_soon_threadsafe(self._begin_to_stop)

    def _begin_to_stop(self) -> None:
        async def stop() -> None:
            await self.app.drain()
            self._exit[signal.SIGTERM](signal.SIGTERM, None)

        if self._draining is None:
            self._draining = asyncio.create_task(stop())

    async def _beat(self) -> None:
        """Twice a second, show that the event loop turns, and write down what changes slowly."""
        # Where a check that never returns holds it up, the process ends with a traceback that names the check, and
        # the supervisor starts another.
        while True:
            faulthandler.dump_traceback_later(self._limit, exit=True)
            if self._supervisor is not None and not self._supervisor.is_alive():
                self._begin_to_stop()
            self.app.write_metrics()
            self.app.metrics.count_judge(self._spent)
            await asyncio.sleep(BEAT)

    async def _follow(self) -> None:
        """Take over what the supervisor publishes. A rubric is made in a thread: requests must not wait."""
        while True:
            await asyncio.sleep(BEAT)
            source = self._folder.published()
            if source.text == self._text:
                continue
            self._text = source.text
            try:
                self.app.serve(await asyncio.to_thread(self._loader.rubric, source))
                self.app.reload_error = ""
            except Exception as error:  # noqa: BLE001 - a rubric file may run anything
                self.app.reload_error = redact(str(error)) or describe_error(error)


class RewardServer:
    """Serves a rubric on 127.0.0.1 from a thread: for tests, notebooks, and rubrics made in code.

    There is one process and no reloading; `assay serve` is for more.

    >>> from assay import Rubric
    >>> from assay.server import RemoteRubric
    >>> with RewardServer(Rubric([lambda completion: completion == "4"])) as server:
    ...     RemoteRubric(server.url).score_rollout_sync(completion="4")
    {'check_1': 1.0, 'reward': 1.0}
    """

    def __init__(
        self, rubric: Rubric, settings: Settings | None = None, monitor: RewardMonitor | None = None
    ) -> None:
        """Without settings, it listens on any port that is free."""
        given = settings if settings is not None else Settings(port=0)
        self._listening = bound(given)
        self.settings = replace(given, port=self._listening.getsockname()[1])
        self.app = RewardApp(rubric, self.settings, monitor=monitor)
        self.url = self.settings.url  # the address of the server

    def __enter__(self) -> Self:
        self._server = uvicorn.Server(_config(self.app, self.settings))
        self._pool = ThreadPoolExecutor(1, "assay-reward-server")
        self._served = self._pool.submit(
            copy_context().run, self._run
        )  # checks may read context variables
        while not (self._server.started or self._served.done()):
            time.sleep(0.002)
        if not self._server.started:
            self._served.result()  # raises what went wrong
            raise RuntimeError("the server ended before it was up")
        return self

    def __exit__(self, *_: object) -> None:
        """Finish what is under way, and end."""
        asyncio.run_coroutine_threadsafe(self.app.drain(linger=0), self._loop).result()
        self._server.should_exit = True
        with self._pool:
            self._served.result()

    def _run(self) -> None:
        with asyncio.Runner() as runner:
            self._loop = runner.get_loop()
            runner.run(self._server.serve(sockets=[self._listening]))


def bound(settings: Settings) -> socket.socket:
    """A socket that listens where the settings say."""
    try:
        family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
        is_dual = family == socket.AF_INET6 and socket.has_dualstack_ipv6()  # `::` takes IPv4 too
        place = (settings.host, settings.port)
        return socket.create_server(place, family=family, backlog=2048, dualstack_ipv6=is_dual)
    except OSError as error:
        told = (
            f"the server cannot listen on {settings.host}, port {settings.port} ({error.strerror})"
        )
        raise SettingsError(
            f"{told}: is another server there? Give another --port, or 0 for any"
        ) from None


def _config(app: Any, settings: Settings, *, factory: bool = False) -> uvicorn.Config:
    # uvicorn tells of every connection that ends early, and of its own course; we say what matters.
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
    return uvicorn.Config(
        app,
        factory=factory,
        workers=settings.workers,
        http=_GuardedHttp,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=5,
        timeout_worker_healthcheck=HEALTH_SECONDS,
    )


class _JoinedWrites:
    """A transport that writes a reply when it is complete."""

    # uvicorn writes the head of a reply and its body one by one, and those two system calls were the most costly part
    # of a request.
    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport, self.is_closing = transport, transport.is_closing
        self._held: list[bytes] = []

    def write(self, data: bytes) -> None:
        self._held.append(data)
        if data.startswith(b"HTTP/1.1 100 "):  # the client waits for it before it sends the body
            self.write_held()

    def write_held(self) -> None:
        if self._held:
            self._transport.write(b"".join(self._held))
            self._held.clear()

    def close(self) -> None:
        self.write_held()
        self._transport.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class _GuardedHttp(HttpToolsProtocol):
    """uvicorn's HTTP, which closes a connection whose request head is too long, or too long in coming."""

    app: Any
    _timer: asyncio.TimerHandle | None = None
    _head = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(cast("asyncio.Transport", _JoinedWrites(transport)))
        self.app.tasks = self.tasks
        self.app.metrics.connections.inc()
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.app.metrics.connections.dec()
        self._have_head()

    def shutdown(self) -> None:
        # A request that is on its way to a connection just taken would find it closed; so it is told to come back.
        cycle: Any = self.cycle
        if cycle is None:
            self.loop.call_later(NEW_SECONDS, super().shutdown)
        else:
            super().shutdown()

    def on_response_complete(self) -> None:
        cast("_JoinedWrites", self.transport).write_held()
        super().on_response_complete()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        cycle: Any = self.cycle
        if cycle is not None and not cycle.response_complete:
            self._have_head()
            return
        self._head += len(data)
        if self._head > LONGEST_HEAD:
            self.transport.close()
        self._expect_head()

    def _expect_head(self) -> None:
        seconds = self.app.settings.bounds.body_seconds
        self._timer = self._timer or self.loop.call_later(seconds, self.transport.close)

    def _have_head(self) -> None:
        self._head = 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
