"""Processes scores shards in new processes on this machine, with a pipe to each.

A process pool of the standard library breaks as a whole if one of its processes is killed. Here the
others continue, and a new process takes over the shard.
"""

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
from typing import Any, Final

from assay.backends.driver import WAIT_SECONDS, Results, TakeTask
from assay.backends.worker import Job, ShardFailure, ShardResult, Task, score_shard
from assay.errors import RubricError
from assay.garbage import collect_garbage_less_often
from assay.isolation.pool import processors
from assay.runs.run_errors import RunError
from assay.wording import describe_error

# How long a worker may take to end; it may still have to write its cache.
END_SECONDS: Final = 10.0


@dataclass(frozen=True)
class Processes:
    """Worker processes on this machine; by default as many as there are processors."""

    workers: int = field(default_factory=processors)

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise RubricError(f"workers is {self.workers}: give 1 or more")

    def open_workers(self) -> AbstractContextManager[int]:
        return nullcontext(self.workers)

    def run(self, job: Job, take_task: TakeTask) -> Results:
        workers: list[_Worker] = []
        try:
            while True:
                for worker in workers:
                    if worker.task is None:
                        worker.start_task(take_task())
                while len(workers) < self.workers:
                    task = take_task()
                    if task is None:
                        break
                    workers.append(_Worker(job, task))
                if all(worker.task is None for worker in workers):
                    return
                ready_pipes = wait([worker.pipe for worker in workers], timeout=WAIT_SECONDS)
                for worker in [worker for worker in workers if worker.pipe in ready_pipes]:
                    yield from worker.receive()
                    if worker.is_dead:
                        workers.remove(worker)
                if not ready_pipes:
                    yield None
        finally:
            for worker in workers:
                worker.end()


class _Worker:
    """A process, and the task that it is working on."""

    def __init__(self, job: Job, task: Task) -> None:
        # Not forked: a child would inherit locks that threads of this process hold.
        context = multiprocessing.get_context("spawn")
        self.pipe, pipe_of_worker = context.Pipe()
        self.process: BaseProcess = context.Process(target=_serve_tasks, args=(pipe_of_worker, job))
        # The worker must not get Ctrl-C before it can ignore it.
        earlier_mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            self.process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, earlier_mask)
        pipe_of_worker.close()
        self.is_ready = False
        self.is_dead = False
        self.task: Task | None = None
        self.start_task(task)

    def start_task(self, task: Task | None) -> None:
        """Give the worker a task, if there is one."""
        self.task = task
        if task is not None:
            # The worker may be dead already; then the pipe is ready, and `receive` finds out.
            with suppress(OSError):
                self.pipe.send(task)

    def receive(self) -> Iterator[ShardResult | ShardFailure]:
        """Yield the result of the task, or its failure if the worker has died.

        The first message of a worker is None, which says that it is ready.
        """
        try:
            message: ShardResult | ShardFailure | None = self.pipe.recv()
        except (EOFError, OSError):
            yield from self._report_death()
            return
        self.is_ready = True
        if message is not None:
            self.task = None
            yield message

    def _report_death(self) -> Iterator[ShardFailure]:
        """Yield the failure of the task. Raise `RunError` if the worker failed while it started.

        A worker that was killed may succeed next time, even if it was killed while it started.
        """
        self.process.join()
        exit_code = self.end() or 0
        was_killed = exit_code < 0
        if was_killed:
            cause = f"by {signal.Signals(-exit_code).name}"
        else:
            cause = f"with exit code {exit_code}"
        if not was_killed and not self.is_ready:
            raise RunError(
                f"a worker ended {cause} before it could begin; its message is above. A script "
                'must call this under `if __name__ == "__main__":`, because workers import it'
            )
        if self.task is not None:
            yield ShardFailure(self.task.shard.number, cause, died=True)

    def end(self) -> int | None:
        """End the process at once; return its exit code, which is negative for a signal."""
        if self.is_dead:
            return None
        self.is_dead = True
        if self.task is not None or not self.is_ready:
            self.process.kill()
        self.pipe.close()
        self.process.join(END_SECONDS)
        if self.process.exitcode is None:
            self.process.kill()
            self.process.join()
        exit_code = self.process.exitcode
        self.process.close()
        return exit_code


def _serve_tasks(pipe: "Connection[Any, Any]", job: Job) -> None:
    """Receive tasks, score them, and send back the results, until the pipe is closed."""
    collect_garbage_less_often()
    # Ctrl-C reaches all processes of a terminal; only the driver decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    # Errors are saved with the rows; every worker would print them again.
    logging.getLogger("assay").setLevel(logging.CRITICAL)
    threading.Thread(target=_end_with_driver, name="assay-driver-watch", daemon=True).start()
    pipe.send(None)  # says that the worker is ready
    while True:
        try:
            task: Task = pipe.recv()
        except (EOFError, OSError):
            return
        try:
            result: ShardResult | ShardFailure = score_shard(job, task)
        except Exception as error:  # noqa: BLE001 - reported to the driver, which counts it
            result = ShardFailure(task.shard.number, describe_error(error))
        pipe.send(result)


def _end_with_driver() -> None:
    """End this process once the driver is gone, so that the next driver can have the shard."""
    driver = multiprocessing.parent_process()
    if driver is not None:
        wait([driver.sentinel])
        os._exit(1)
