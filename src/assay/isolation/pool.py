"""Run functions in worker processes.

A pool has threads. Each thread takes a task, gives it to a worker process, and waits for the answer or
the deadline. It replaces a worker that dies, misses a deadline or misbehaves; no other task is affected.
"""

import asyncio
import os
import threading
import weakref
from collections import Counter
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final, NotRequired, Self, TypedDict, Unpack

from assay.concurrency import run_sync
from assay.isolation.process import (
    Outcome,
    PoolTask,
    TemplateConnection,
    WorkerLostError,
    WorkerProcess,
)
from assay.isolation.protocol import Function, WorkerSettings, pack_arguments, pack_function
from assay.isolation.work_budget import current_work_budget
from assay.redaction import get_logger
from assay.wording import describe_error, format_value

logger = get_logger("assay")

DEFAULT_MEMORY: Final = 1 << 30  # bytes that a worker may use: 1 GiB
IDLE_SECONDS: Final = 60.0  # how long a worker without work stays alive
# How many workers a task may lose, if it is not certain that the task is the cause.
MAX_ATTEMPTS: Final = 2
# How often in a row a worker, or the process that forks workers, may fail to start.
MAX_STARTS: Final = 3


@dataclass(frozen=True, slots=True)
class PoolStats:
    """The workers and tasks of a pool."""

    workers: int  # living worker processes
    running: int  # tasks in progress, also those whose worker is just being started
    queued: int  # tasks waiting for a worker
    started: int  # workers started so far
    # Workers killed at a deadline, for misbehaviour, or because their task was cancelled.
    killed: int
    # Workers replaced after many tasks, or because a task left threads, processes or memory behind.
    recycled: int


class CallOptions(TypedDict):
    """How a function is called."""

    timeout: float  # seconds that it may work
    # Seconds from its start after which it is stopped, whether it worked or not.
    hard_timeout: NotRequired[float | None]
    keywords: NotRequired[Mapping[str, Any]]  # its arguments by name


class _LostError(Exception):
    """A task cannot be done: no worker could be started, it was cancelled, or the pool is closed."""


class Pool:
    """Runs functions in worker processes, each call with a strict deadline.

    The deadline counts working time, without waiting for a worker or a processor. At the deadline
    the worker is killed and replaced. Workers start when there is work, at most `max_workers` (by
    default one per processor), and end when there is none. `preload` names modules that are imported
    before workers are forked. `memory` is the limit of a worker in bytes. A worker is replaced after
    `recycle_after` tasks.

    >>> with Pool(max_workers=1) as pool:
    ...     pool.call("math:sqrt", 16.0, timeout=5).value
    4.0
    """

    def __init__(
        self,
        *,
        max_workers: int | None = None,
        preload: Iterable[str] = (),
        memory: int | None = DEFAULT_MEMORY,
        recycle_after: int = 5000,
    ) -> None:
        limits = {"max_workers": max_workers, "memory": memory, "recycle_after": recycle_after}
        for name, value in limits.items():
            if value is not None and not value >= 1:
                raise ValueError(f"{name} is {format_value(value)}: give 1 or more")
        self._max_workers = processors() if max_workers is None else max_workers
        self._recycle_after = recycle_after
        self._preload = tuple(dict.fromkeys(preload))
        self._settings = WorkerSettings(
            preload=self._preload,
            memory=memory,
            idle=IDLE_SECONDS,
            counts_waiting=counts_waiting(),
        )
        self.closed = False  # whether it refuses new calls
        self.reset()
        _pools.add(self)

    def reset(self) -> None:
        """Set the pool to its initial state, without workers and threads.

        A process that was forked calls this for the pools of its parent, too.
        """
        self.owner = os.getpid()  # the process that uses this pool
        self._executor = ThreadPoolExecutor(self._max_workers, "assay-isolation")
        self._unfinished: set[Future[Outcome]] = set()  # of tasks that wait or are in progress
        self._running_tasks: set[PoolTask] = set()  # those that a thread works on
        self._counts = Counter[str]()  # of workers: "started", "killed" and "recycled"
        # Held to change the following fields or the worker of a task, and to close a worker that
        # another thread may interrupt.
        self._lock = threading.Lock()
        self._idle_workers: list[WorkerProcess] = []  # the last one is used first
        # The process that forks workers; None until one is needed.
        self.template: TemplateConnection | None = None
        # The current template, and earlier ones, which end with their last worker.
        self.templates: list[TemplateConnection] = []
        # If the program no longer refers to the pool, the garbage collector ends its processes. Threads
        # do not prevent that, because they refer to the pool only while they work on a task.
        self.finalizer = weakref.finalize(self, _end_processes, self._idle_workers, self.templates)
        self.finalizer.atexit = False  # `_close_pools` is called at exit

    def submit(
        self, function: Function, *args: Any, **options: Unpack[CallOptions]
    ) -> "Future[Outcome]":
        """Call a function, or the one at `package.module:function`; return a future of its outcome.

        A lambda, or a function in `__main__`, needs the package cloudpickle. An async function is
        awaited in the worker. Raises `TypeError` if something cannot be sent to a worker.
        """
        future, _ = self._submit_task(function, args, options)
        return future

    def call(self, function: Function, *args: Any, **options: Unpack[CallOptions]) -> Outcome:
        """Call a function as `run` does, and wait for the outcome."""
        return run_sync(self.run(function, *args, **options))

    async def run(self, function: Function, *args: Any, **options: Unpack[CallOptions]) -> Outcome:
        """Call a function as `submit` does, and return the outcome.

        If the caller is cancelled, the worker is killed. If a work budget is set, the call may not work
        longer than what is left of it. Raises `TimeoutError` if that is not enough.
        """
        budget = current_work_budget.get()
        if budget is None:
            return await self._run(function, args, options)
        async with budget.lock:
            budget.raise_if_spent()
            timeout = options["timeout"]
            options["timeout"] = min(timeout, budget.remaining)
            outcome = await self._run(function, args, options)
            budget.spent += outcome.seconds
        if outcome.kind == "timeout" and options["timeout"] < timeout:
            # The budget has stopped the call, and not its own timeout: report the budget.
            budget.spent = max(budget.spent, budget.seconds)
            budget.raise_if_spent()
        return outcome

    async def _run(
        self, function: Function, args: tuple[Any, ...], options: CallOptions
    ) -> Outcome:
        """Call a function and return the outcome; if the caller is cancelled, cancel the call."""
        future, task = self._submit_task(function, args, options)
        try:
            return await asyncio.wrap_future(future)
        except BaseException:
            self._cancel(future, task)
            raise

    def _submit_task(
        self, function: Function, args: tuple[Any, ...], options: CallOptions
    ) -> "tuple[Future[Outcome], PoolTask]":
        """Let a thread of the pool do a call. Return the future of its outcome, and the task."""
        timeout = options["timeout"]
        hard_timeout = options.get("hard_timeout")
        for name, value in (("timeout", timeout), ("hard_timeout", hard_timeout)):
            if value is not None and not 0 < value < float("inf"):
                raise ValueError(
                    f"{name} is {format_value(value)}: give a number of seconds above 0"
                )
        packed_function = pack_function(function)
        keywords = options.get("keywords", {})
        task = PoolTask(
            function=packed_function,
            arguments=pack_arguments(args, keywords, packed_function.name),
            timeout=timeout,
            hard_timeout=hard_timeout,
        )
        if self.closed:
            raise RuntimeError("the pool is closed: make a new one")
        future = self._executor.submit(self._run_task, task)
        self._unfinished.add(future)
        future.add_done_callback(self._unfinished.discard)
        return future, task

    def _cancel(self, future: "Future[Outcome]", task: PoolTask) -> None:
        """Cancel a task; if it is in progress, kill its worker."""
        if not future.cancel():  # it is in progress, or done
            task.is_cancelled = True
            with self._lock:
                if task.worker is not None:
                    task.worker.interrupt()

    def preload(self, *modules: str) -> None:
        """Import these modules, too, before workers are forked.

        Workers that were forked before are no longer used after their present task.
        """
        with self._lock:
            all_modules = tuple(dict.fromkeys((*self._preload, *modules)))
            if all_modules != self._preload:
                self._preload = all_modules
                self._settings = self._settings._replace(preload=all_modules)
                # The next worker that is needed starts a new template with these settings.
                if self.template is not None:
                    self.template.end_when_idle()
                    self.template = None

    def stats(self) -> PoolStats:
        """Return the numbers of workers and tasks."""
        with self._lock:
            busy = sum(task.worker is not None for task in self._running_tasks)
            idle = sum(worker.is_usable() for worker in self._idle_workers)
            running = len(self._running_tasks)
        queued = sum(not (future.running() or future.done()) for future in [*self._unfinished])
        return PoolStats(
            workers=busy + idle,
            running=running,
            queued=queued,
            started=self._counts["started"],
            killed=self._counts["killed"],
            recycled=self._counts["recycled"],
        )

    def close(self) -> None:
        """End all workers at once. The outcome of unfinished tasks has the kind "lost"."""
        self.closed = True
        with self._lock:
            for task in self._running_tasks:
                if task.worker is not None:
                    task.worker.interrupt()
        # A callback of a task runs in a thread of the pool, which cannot wait for itself.
        is_in_pool_thread = threading.current_thread().name.startswith("assay-isolation")
        self._executor.shutdown(wait=not is_in_pool_thread)
        if not is_in_pool_thread:
            _end_processes(self._idle_workers, self.templates)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Wait until all tasks are done, and close the pool; after an exception, close it at once."""
        with closing(self):
            if kind is None:  # no exception was raised in the block
                wait([*self._unfinished])

    # The following methods run in a thread of the pool.

    def _run_task(self, task: PoolTask) -> Outcome:
        """Return the outcome of a task. Its worker is then idle, or has ended."""
        with self._lock:
            self._running_tasks.add(task)
        try:
            return self._try_workers(task)
        except _LostError as error:
            self._end_worker(task, "killed")
            return Outcome(kind="lost", message=str(error))
        except Exception as error:
            logger.exception("a thread of the pool of workers failed; its task is lost")
            self._end_worker(task)
            return Outcome(kind="lost", message=describe_error(error))
        finally:
            if self.closed:
                self._end_worker(task)
            # Free the worker before the caller gets the outcome: its next call may need the worker.
            with self._lock:
                self._running_tasks.discard(task)
                if task.worker is not None:
                    self._idle_workers.append(task.worker)
                    task.worker = None

    def _try_workers(self, task: PoolTask) -> Outcome:
        """Return the outcome of a task.

        If its worker is lost, but not certainly because of the task, another worker tries it.
        """
        attempt = 0
        while True:
            attempt += 1
            worker = self._send_to_worker(task)
            try:
                outcome = worker.wait_for_outcome(task)
            except WorkerLostError as error:
                self._raise_if_cancelled(task)
                self._end_worker(task, counted_as="killed" if error.is_misbehaviour else "")
                if error.is_final or attempt >= MAX_ATTEMPTS:
                    return error.outcome()
                continue
            if worker.is_busy:  # its deadline has passed
                self._end_worker(task, counted_as="killed")
            elif worker.needs_replacement or worker.task_count >= self._recycle_after:
                self._end_worker(task, counted_as="recycled")
            return outcome

    def _raise_if_cancelled(self, task: PoolTask) -> None:
        """Raise `_LostError` if a task was cancelled or the pool is closed."""
        if task.is_cancelled:
            raise _LostError("CancelledError: it was given up")
        if self.closed:
            raise _LostError("RuntimeError: the pool was closed before this was done")

    def _send_to_worker(self, task: PoolTask) -> WorkerProcess:
        """Send a task to an idle worker or to a new one, and return the worker."""
        for _ in range(MAX_STARTS):
            worker = self._take_idle_worker(task) or self._start_worker(task)
            self._raise_if_cancelled(task)
            try:
                worker.send_task(task)
                return worker
            except OSError:  # the worker has just ended
                self._end_worker(task)
        raise _LostError("RuntimeError: workers are gone before they can be given a task")

    def _take_idle_worker(self, task: PoolTask) -> WorkerProcess | None:
        """Assign an idle worker to a task, and return it; None if no idle worker can be used.

        Idle workers that cannot be used are ended.
        """
        while True:
            with self._lock:
                if not self._idle_workers:
                    return None
                worker = self._idle_workers.pop()
                task.worker = worker
            if worker.template is not self.template:  # it does not have all preloaded modules
                self._end_worker(task)
            elif not worker.is_usable():
                self._end_worker(task, counted_as="recycled")
            else:
                return worker

    def _start_worker(self, task: PoolTask) -> WorkerProcess:
        """Start a worker for a task, wait until it is ready, and return it.

        If that fails, it is tried again, with a new template (the process that forks workers) if the
        template is the cause. Raises `_LostError` if it fails too often.
        """
        failures = 0
        reason = ""
        while failures < MAX_STARTS:
            self._raise_if_cancelled(task)
            template: TemplateConnection | None = None
            # What the errors below mean, unless they say something else.
            is_template_lost = True
            reason = "RuntimeError: the process that forks workers ended"
            try:
                with self._lock:
                    if self.template is None:
                        self.template = TemplateConnection(self._settings)
                        self.templates.append(self.template)
                    template = self.template
                    worker = WorkerProcess(template)
                    task.worker = worker
                    self._counts["started"] += 1
                self._raise_if_cancelled(task)
                worker.wait_until_ready()
                return worker
            except WorkerLostError as error:
                if error.status is not None:  # the template lives, and has reported it
                    is_template_lost = False
                    reason = f"RuntimeError: workers end as they start, with status {error.status}"
            except TimeoutError:
                reason = "TimeoutError: a worker was asked for, and never came"
            except (BrokenPipeError, ConnectionResetError):
                pass  # the template has ended
            except OSError as error:
                reason = describe_error(error)
            self._end_worker(task)
            self._raise_if_cancelled(task)
            # If another thread has replaced the template meanwhile, this was not a failure: the worker
            # has ended with its template.
            if self.template is template:
                failures += 1
                if is_template_lost:
                    self._discard_template(template, reason)
        raise _LostError(f"RuntimeError: no worker could be started ({reason})")

    def _discard_template(self, template: TemplateConnection | None, reason: str) -> None:
        """Close a template that failed, unless another thread has replaced it."""
        with self._lock:
            if template is None or self.template is not template:
                return
            self.template = None
            self.templates.remove(template)
            if not template.is_loaded and self._settings.preload:
                # Perhaps it ended, or hangs, because of a module that it imports. Let the next template
                # import none.
                self._settings = self._settings._replace(preload=())
                logger.warning("workers are started without preloaded modules (%s)", reason)
        template.close()

    def _end_worker(self, task: PoolTask, counted_as: str = "") -> None:
        """End the worker of a task, if it has one.

        `counted_as` is the number in `PoolStats` to increase: "killed" or "recycled", or empty.
        """
        with self._lock:
            if task.worker is not None:
                task.worker.end()
                task.worker = None
                self._counts[counted_as] += 1


def _end_processes(workers: list[WorkerProcess], templates: list[TemplateConnection]) -> None:
    """End idle workers and the templates that have forked them, and empty both lists.

    This takes no lock: the garbage collector may call it while any thread holds one.
    """
    for worker in workers:
        worker.end()
    for template in templates:
        template.close()
    workers.clear()
    templates.clear()


_shared_lock = threading.Lock()
_shared: Pool | None = None


def shared_pool(*preload: str) -> Pool:
    """Return the pool that all parts of this process share; it is made at the first call.

    Its workers import the modules `preload`, and those of earlier calls.

    >>> shared_pool() is shared_pool("json")
    True
    """
    global _shared
    with _shared_lock:
        if _shared is None or _shared.closed:
            _shared = Pool()
        _shared.preload(*preload)
        return _shared


def processors() -> int:
    """Return how many processors this process may use, which may be fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def counts_waiting() -> bool:
    """Return whether this system counts how long a process has waited for a processor."""
    return os.path.exists("/proc/self/schedstat")  # noqa: PTH110


_pools: "weakref.WeakSet[Pool]" = weakref.WeakSet()  # all pools that exist


def _close_pools() -> None:
    """Close all pools of this process. It is called when the interpreter ends."""
    for pool in [*_pools]:
        if pool.owner == os.getpid():
            pool.close()


# A function that is registered with `atexit` would be called too late: before that, the interpreter
# waits for the threads of executors, and these wait for workers. `threading` has a private function for
# this, which executors use themselves.
_register_at_exit: Any = vars(threading)["_register_atexit"]
_register_at_exit(_close_pools)


def _reset_pools_after_fork() -> None:
    """Reset all pools in a process that was just forked.

    It has none of the threads of its parent, and the workers belong to the parent.
    """
    global _shared_lock
    _shared_lock = threading.Lock()  # another thread may have held the old one
    for pool in [*_pools]:
        pool.finalizer.detach()
        for template in pool.templates:
            template.disown()
        pool.reset()


os.register_at_fork(after_in_child=_reset_pools_after_fork)
