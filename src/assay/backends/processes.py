"""Processes: workers on this machine, started fresh, each with a pipe of its own.

A pool of the standard library breaks as a whole when one of its processes is killed; here the others go
on, and a new one takes over the shard.
"""

import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

from assay.backends.engine import ATTEMPTS, Broken, Stopping
from assay.backends.job import Job
from assay.backends.shards import Shard
from assay.backends.work import Scored, score_shard
from assay.errors import RubricError
from assay.wording import described

PATIENCE = 0.2
"""Seconds after which a driver that waits looks whether it is to stop."""


@dataclass
class Processes:
    """So many processes on this machine; as many as there are processors unless said otherwise."""

    workers: int = field(default_factory=lambda: os.cpu_count() or 1)
    name: str = "processes"

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise RubricError(f"{self.workers} workers score nothing: give 1 or more")

    def run(
        self, job: Job, shards: Sequence[Shard], stopping: Stopping
    ) -> Iterator[Scored | Broken]:
        crew = _Crew(job, shards)
        try:
            crew.hire(min(self.workers, len(shards)))
            yield from crew.work(stopping)
        finally:
            crew.dismiss()


class _Worker:
    """A process, and the shard it has."""

    def __init__(self, job: Job) -> None:
        # Never forked: a driver may have threads, whose locks a child would inherit for ever.
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process: BaseProcess = context.Process(target=_serve, args=(theirs, job), daemon=True)
        self.process.start()
        theirs.close()
        self.shard: Shard | None = None

    def give(self, shard: Shard) -> None:
        self.shard = shard
        self.pipe.send(shard)

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        self.process.close()
        self.pipe.close()


class _Crew:
    """The workers of one run."""

    def __init__(self, job: Job, shards: Sequence[Shard]) -> None:
        self._job = job
        self._waiting = deque(shards)
        self._tries: dict[int, int] = {}
        self._workers: list[_Worker] = []

    def hire(self, count: int) -> None:
        for _ in range(count):
            self._workers.append(_Worker(self._job))
            self._occupy(self._workers[-1])

    def dismiss(self) -> None:
        for worker in self._workers:
            worker.end()
        self._workers.clear()

    def work(self, stopping: Stopping) -> Iterator[Scored | Broken]:
        while any(worker.shard is not None for worker in self._workers):
            if stopping():
                self._waiting.clear()
            by_pipe = {worker.pipe: worker for worker in self._workers if worker.shard is not None}
            for ready in wait(list(by_pipe), timeout=PATIENCE):
                worker = by_pipe[ready]  # pyright: ignore[reportArgumentType]
                result = self._result(worker)
                if result is not None:
                    yield result

    def _occupy(self, worker: _Worker) -> None:
        worker.shard = None
        if self._waiting:
            shard = self._waiting.popleft()
            self._tries[shard.number] = self._tries.get(shard.number, 0) + 1
            try:
                worker.give(shard)
            except OSError:
                worker.shard = shard  # it is gone already, which the next look at its pipe tells

    def _result(self, worker: _Worker) -> Scored | Broken | None:
        assert worker.shard is not None
        try:
            result: Scored | Broken = worker.pipe.recv()
        except (EOFError, OSError):
            return self._replace(worker)
        self._occupy(worker)
        return result

    def _replace(self, worker: _Worker) -> Broken | None:
        """A worker has died: its shard goes to a new one, unless it has killed several."""
        shard = worker.shard
        assert shard is not None
        worker.process.join()
        code = worker.process.exitcode
        self._workers.remove(worker)
        worker.end()
        broken = None
        if self._tries[shard.number] < ATTEMPTS:
            self._waiting.appendleft(shard)
        else:
            died = _how_it_died(code)
            broken = Broken(shard.number, f"{ATTEMPTS} workers died of it, the last {died}")
        if self._waiting:
            self.hire(1)
        return broken


def _how_it_died(code: int | None) -> str:
    if code is None or code >= 0:
        return f"with exit code {code}"
    return f"by {signal.Signals(-code).name}"


def _serve(pipe: "Connection[Any, Any]", job: Job) -> None:
    """A worker's life: shards in, parts written, word sent back."""
    # Ctrl-C goes to everybody at the terminal; only the driver decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        try:
            shard: Shard = pipe.recv()
        except (EOFError, OSError):
            return  # the driver is gone
        try:
            result: Scored | Broken = score_shard(job, shard)
        except Exception as error:  # noqa: BLE001 - told to the driver, which counts it
            result = Broken(shard.number, described(error))
        pipe.send(result)
