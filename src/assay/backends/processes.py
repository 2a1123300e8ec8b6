"""Processes scores shards in new processes on this machine, with a pipe to each.

A process pool of the standard library breaks as a whole if one of its processes is killed. Here the
others continue, and a new process takes over the shard.
"""

import logging
import multiprocessing
import os
import signal
import threading
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
        """Return a context with the number of workers; `run` starts them when there is a task."""
        return nullcontext(self.workers)

    def run(self, job: Job, take_task: TakeTask) -> Results:
        """Yield the results of tasks until there are none left, or None when nothing has happened.

        A worker that died is removed, so that a new process takes its place for the next task.
        """
        workers: list[_Worker] = []
        try:
            while True:
                for worker in workers:
                    if worker.task is None:
                        task = take_task()
                        if task is not None:
                            worker.start_task(task)
                while len(workers) < self.workers:
                    task = take_task()
                    if task is None:
                        break
                    workers.append(_Worker(job, task))
                if all(worker.task is None for worker in workers):
                    return
                # Wait until a worker has sent a message, or has died.
                ready_pipes = wait([worker.pipe for worker in workers], timeout=WAIT_SECONDS)
                ready_workers = [worker for worker in workers if worker.pipe in ready_pipes]
                for worker in ready_workers:
                    result = worker.receive()
                    if worker.is_dead:
                        workers.remove(worker)
                    if result is not None:
                        yield result
                if not ready_workers:
                    yield None
        finally:
            for worker in workers:
                if not worker.is_dead:
                    worker.end()


class _Worker:
    """A worker process, as the driver sees it: its pipe, and the task that it is working on."""

    def __init__(self, job: Job, task: Task) -> None:
        """Start the process, and send it its first task."""
        # Not forked: a child would inherit locks that threads of this process hold.
        context = multiprocessing.get_context("spawn")
        self.pipe, pipe_of_worker = context.Pipe()
        self.process: BaseProcess = context.Process(target=_serve_tasks, args=(pipe_of_worker, job))
        # Ctrl-C must not end the worker before it can ignore the signal, so the signal is blocked here
        # while the worker starts: a new process inherits the mask of blocked signals.
        earlier_mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            self.process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, earlier_mask)
        pipe_of_worker.close()
        self.is_ready = False  # whether the process has told us that it has started
        self.is_dead = False
        self.task: Task | None = None  # None while it is idle
        self.start_task(task)  # the task waits in the pipe until the process is ready

    def start_task(self, task: Task) -> None:
        """Send the worker a task."""
        self.task = task
        # If the worker is dead already, sending fails, and `receive` will report it.
        with suppress(OSError):
            self.pipe.send(task)

    def receive(self) -> ShardResult | ShardFailure | None:
        """Receive one message. Return the result of the task, or its failure if the worker has died.

        Return None if there is neither: the first message of a worker only says that it is ready.
        """
        try:
            message: ShardResult | ShardFailure | None = self.pipe.recv()
        except (EOFError, OSError):
            return self._handle_death()
        self.is_ready = True
        if message is not None:
            self.task = None
        return message

    def _handle_death(self) -> ShardFailure | None:
        """Return the failure of the task of a dead worker; None if it had no task.

        Raise `RunError` if the process exited by itself while it started, because that would happen
        to every worker. One that was killed is not such a case: it may succeed next time.
        """
        self.process.join()
        exit_code = self.end()  # frees the pipe and the process
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
        if self.task is None:
            return None
        return ShardFailure(self.task.shard.number, cause, died=True)

    def end(self) -> int:
        """End the process, and return its exit code, which is negative for a signal.

        An idle worker ends by itself when its pipe is closed; one that is at work is killed.
        """
        self.is_dead = True
        if self.task is not None or not self.is_ready:
            self.process.kill()
        self.pipe.close()
        self.process.join(END_SECONDS)
        if self.process.exitcode is None:  # it has not ended in time
            self.process.kill()
            self.process.join()
        exit_code = self.process.exitcode or 0
        self.process.close()
        return exit_code


def _serve_tasks(pipe: "Connection[Any, Any]", job: Job) -> None:
    """Receive tasks, score them, and send back the results, until the driver closes the pipe.

    This is the main function of a worker process.
    """
    collect_garbage_less_often()
    # Ctrl-C is sent to all processes of a terminal, but only the driver may react to it. The driver
    # has blocked the signal until here.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # The driver has blocked the signal until now, when this process can ignore it.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    # Errors are saved with the rows, so workers do not print them.
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
    """Wait until the driver has ended, and then end this worker process.

    If it lived on, it would keep its shard locked when the run is resumed.
    """
    driver = multiprocessing.parent_process()
    if driver is not None:
        wait([driver.sentinel])  # becomes ready when the process ends
        os._exit(1)
