"""Processes: workers on this machine, started fresh, each with a pipe of its own.

A pool of the standard library breaks as a whole when one of its processes is killed; here the others go
on, and a new one takes over the shard.
"""

import logging
import multiprocessing
import os
import signal
import threading
from collections import Counter, deque
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

from assay.backends.engine import ATTEMPTS, PATIENCE, Broken, Results, Site, Stopping
from assay.backends.job import Job
from assay.backends.permits import HOST
from assay.backends.shards import Shard
from assay.backends.work import Scored, score_shard
from assay.errors import RubricError
from assay.runs.folder import RunError
from assay.wording import described

FAREWELL_SECONDS = 10.0
"""How long a worker that is done may take to end: its cache may have something to write."""

_CAN_MASK = hasattr(signal, "pthread_sigmask")  # Windows cannot


def _processors() -> int:
    """Those that we may use, which in a container are fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass(frozen=True)
class Processes:
    """So many processes on this machine; as many as there are processors unless said otherwise."""

    workers: int = field(default_factory=_processors)

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise RubricError(f"{self.workers} workers score nothing: give 1 or more")

    @contextmanager
    def opened(self) -> Generator[Site]:
        yield Site(HOST, self.workers)

    def run(self, job: Job, shards: Sequence[Shard], stopping: Stopping) -> Results:
        crew = _Crew(job, shards, self.workers)
        try:
            yield from crew.work(stopping)
        finally:
            crew.dismiss()


class _Worker:
    """A process, and the shard it has."""

    def __init__(self, job: Job) -> None:
        # Never forked: a driver may have threads, whose locks a child would inherit for ever.
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process: BaseProcess = context.Process(target=_serve, args=(theirs, job))
        with _without_interrupts():
            self.process.start()
        theirs.close()
        self.shard: Shard | None = None
        self.is_ready = False

    def give(self, shard: Shard) -> None:
        self.shard = shard
        try:
            self.pipe.send(shard)
        except OSError:
            return  # it is gone already, which the next look at its pipe tells

    def ended(self) -> int | None:
        """End it, now; the exit code, negative when it was a signal."""
        if self.shard is not None or not self.is_ready:
            self.process.kill()
        self.pipe.close()
        self.process.join(FAREWELL_SECONDS)
        if self.process.exitcode is None:
            self.process.kill()
            self.process.join()
        code = self.process.exitcode
        self.process.close()
        return code


class _Crew:
    """The workers of one run, and what is left for them."""

    def __init__(self, job: Job, shards: Sequence[Shard], most: int) -> None:
        self._job = job
        self._waiting = deque(shards)
        self._most = most
        self._workers: list[_Worker] = []
        self._deaths: Counter[int] = Counter()
        """How many workers died of a shard; under -1, before they had one."""

    def work(self, stopping: Stopping) -> Results:
        while self._waiting or any(worker.shard for worker in self._workers):
            if stopping():
                self._waiting.clear()
            self._occupy()
            by_pipe = {worker.pipe: worker for worker in self._workers}
            ready = wait(list(by_pipe), timeout=PATIENCE)
            for pipe in ready:
                yield from self._heard(by_pipe[pipe])  # pyright: ignore[reportArgumentType]
            if not ready:
                yield None

    def dismiss(self) -> None:
        for worker in self._workers:
            worker.ended()
        self._workers.clear()

    def _occupy(self) -> None:
        """Give everybody something to do, and hire whom there is something to do for."""
        for worker in self._workers:
            if self._waiting and worker.is_ready and worker.shard is None:
                worker.give(self._waiting.popleft())
        starting = sum(not worker.is_ready for worker in self._workers)
        more = min(self._most - len(self._workers), len(self._waiting) - starting)
        for _ in range(more):
            self._workers.append(_Worker(self._job))

    def _heard(self, worker: _Worker) -> Iterator[Scored | Broken]:
        try:
            said: Scored | Broken | None = worker.pipe.recv()
        except (EOFError, OSError):
            yield from self._bury(worker)
            return
        worker.is_ready = True
        if said is not None:
            worker.shard = None
            yield said

    def _bury(self, worker: _Worker) -> Iterator[Broken]:
        """A worker has died: its shard goes to another one, unless it has killed several."""
        shard, was_ready = worker.shard, worker.is_ready
        self._workers.remove(worker)
        worker.process.join()
        code = worker.ended()
        number = -1 if shard is None else shard.number
        self._deaths[number] += 1
        if not was_ready:
            self._refuse_stillborn(code)
        if shard is None:
            return
        if self._deaths[number] < ATTEMPTS:
            self._waiting.appendleft(shard)
        else:
            died = f"{ATTEMPTS} workers died of it, the last {_how_it_died(code)}"
            yield Broken(number, died)

    def _refuse_stillborn(self, code: int | None) -> None:
        """Raise when workers cannot even begin. A signal may come at any time; an exit is their own doing."""
        if (code or 0) >= 0 or self._deaths[-1] >= ATTEMPTS:
            raise RunError(
                f"a worker ended {_how_it_died(code)} before it could begin; what it said stands above. "
                'A script has to call this under `if __name__ == "__main__":`, for workers import it'
            )


def _how_it_died(code: int | None) -> str:
    if code is None or code >= 0:
        return f"with exit code {code}"
    return f"by {signal.Signals(-code).name}"


@contextmanager
def _without_interrupts() -> Generator[None]:
    """Start children that do not hear Ctrl-C, not even before they can say so themselves."""
    if not _CAN_MASK:
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _serve(pipe: "Connection[Any, Any]", job: Job) -> None:
    """A worker's life: shards in, parts written, word sent back."""
    # Ctrl-C goes to everybody at the terminal; only the driver decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if _CAN_MASK:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    # What goes wrong stands on the rows; that every worker says it too would drown the terminal.
    logging.getLogger("assay").setLevel(logging.CRITICAL)
    threading.Thread(target=_end_with_driver, name="assay-driver-watch", daemon=True).start()
    pipe.send(None)  # ready
    while True:
        try:
            shard: Shard = pipe.recv()
        except (EOFError, OSError):
            return  # there is nothing left to do
        try:
            result: Scored | Broken = score_shard(job, shard)
        except Exception as error:  # noqa: BLE001 - told to the driver, which counts it
            result = Broken(shard.number, described(error))
        pipe.send(result)


def _end_with_driver() -> None:
    """Without the driver nobody counts what is done here, and whoever resumes wants the shard."""
    driver = multiprocessing.parent_process()
    if driver is not None:
        wait([driver.sentinel])
        os._exit(1)
