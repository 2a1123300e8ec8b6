"""Processes score shards in processes on this machine, started fresh, each with a pipe of its own."""
# A pool of the standard library breaks as a whole when one of its processes is killed; here the others go on, and a new
# process takes over the shard.

import logging
import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

from assay.backends.driver import PATIENCE, Results, TakeTask
from assay.backends.worker import Job, ShardFailure, ShardResult, Task, score_shard
from assay.errors import RubricError
from assay.isolation.pool import processors
from assay.runs.run_store import RunError
from assay.wording import describe_error

FAREWELL_SECONDS = (
    10.0  # how long a worker that is done may take to end: its cache may have something to write
)


@dataclass(frozen=True)
class Processes:
    """So many processes on this machine; as many as there are processors unless said otherwise."""

    workers: int = field(default_factory=processors)

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise RubricError(f"{self.workers} workers score nothing: give 1 or more")

    def opened(self) -> AbstractContextManager[int]:
        return nullcontext(self.workers)

    def run(self, job: Job, take: TakeTask) -> Results:
        workers: list[_Worker] = []
        try:
            while True:
                for worker in workers:
                    if worker.task is None and (task := take()) is not None:
                        worker.give(task)
                while len(workers) < self.workers and (task := take()) is not None:
                    workers.append(_Worker(job, task))
                if not any(worker.task for worker in workers):
                    return
                ready = wait([worker.pipe for worker in workers], timeout=PATIENCE)
                for worker in [worker for worker in workers if worker.pipe in ready]:
                    yield from worker.heard()
                    if worker.is_dead:
                        workers.remove(worker)
                if not ready:
                    yield None
        finally:
            for worker in workers:
                if not worker.is_dead:
                    worker.end()


class _Worker:
    """A process, and the task it has."""

    def __init__(self, job: Job, task: Task) -> None:
        # Never forked: a driver may have threads, whose locks a child would inherit for ever.
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process: BaseProcess = context.Process(target=_serve, args=(theirs, job))
        # So that it does not hear Ctrl-C, not even before it can say so itself.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            self.process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        theirs.close()
        self.is_ready = self.is_dead = False
        self.give(task)

    def give(self, task: Task) -> None:
        self.task: Task | None = task
        with suppress(OSError):  # it may be gone already, which the next look at its pipe tells
            self.pipe.send(task)

    def heard(self) -> Iterator[ShardResult | ShardFailure]:
        """What it says; when it has died, that its task failed."""
        try:
            said: ShardResult | ShardFailure | None = self.pipe.recv()
        except (EOFError, OSError):
            self.is_dead = True
            self.process.join()
            code = self.end() or 0
            how = f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
            # A signal may come at any time; an exit is a worker's own doing.
            if not self.is_ready and code >= 0:
                advice = 'A script has to call this under `if __name__ == "__main__":`, for workers import it'
                told = f"a worker ended {how} before it could begin; what it said stands above"
                raise RunError(f"{told}. {advice}") from None
            if self.task is not None:
                yield ShardFailure(self.task.shard.number, how, died=True)
            return
        self.is_ready = True
        if said is not None:
            self.task = None
            yield said

    def end(self) -> int | None:
        """End it, now; the exit code, negative when it was a signal."""
        if self.task is not None or not self.is_ready:
            self.process.kill()
        self.pipe.close()
        self.process.join(FAREWELL_SECONDS)
        if self.process.exitcode is None:
            self.process.kill()
            self.process.join()
        code = self.process.exitcode
        self.process.close()
        return code


def _serve(pipe: "Connection[Any, Any]", job: Job) -> None:
    """A worker's life: shards in, parts written, word sent back."""
    # Ctrl-C goes to all processes at the terminal; only the driver decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    # What goes wrong stands on the rows; that every worker says it too would drown the terminal.
    logging.getLogger("assay").setLevel(logging.CRITICAL)
    threading.Thread(target=_end_with_driver, name="assay-driver-watch", daemon=True).start()
    pipe.send(None)  # ready
    while True:
        try:
            task: Task = pipe.recv()
        except (EOFError, OSError):
            return  # there is nothing left to do
        try:
            result: ShardResult | ShardFailure = score_shard(job, task)
        except Exception as error:  # noqa: BLE001 - told to the driver, which counts it
            result = ShardFailure(task.shard.number, describe_error(error))
        pipe.send(result)


def _end_with_driver() -> None:
    """Without the driver nothing that is done here counts, and a driver that resumes needs the shard."""
    driver = multiprocessing.parent_process()
    if driver is not None:
        wait([driver.sentinel])
        os._exit(1)
