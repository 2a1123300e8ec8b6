"""Run functions in worker processes: the pool, its threads, and the workers they use.

Each thread takes a task, gives it to a worker process, and waits for the answer or the deadline. The
thread replaces a worker that dies, misses a deadline or misbehaves; no other task is affected.
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

MEMORY: Final = 1 << 30  # bytes that a worker may use by default: 1 GiB
IDLE: Final = 60.0  # seconds without work after which a worker ends
ATTEMPTS: Final = 2  # workers that a task may lose for which it may not be to blame
# How often in a row a worker or a template may fail to start before the task is lost.
STARTS: Final = 3


@dataclass(frozen=True, slots=True)
class PoolStats:
    """The workers and tasks of a pool."""

    workers: int  # living worker processes
    running: int  # tasks in progress
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
    """No worker could be started for a task, its caller has cancelled it, or the pool is closed."""


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
        memory: int | None = MEMORY,
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
            preload=self._preload, memory=memory, idle=IDLE, counts_waiting=counts_waiting()
        )
        self.closed = False  # whether it refuses new calls
        self.reset()
        _pools.add(self)

    def reset(self) -> None:
        """Set the pool to its initial state, without workers and threads, in this process."""
        self.owner = os.getpid()
        self._executor = ThreadPoolExecutor(self._max_workers, "assay-isolation")
        self._unfinished: set[Future[Outcome]] = set()
        self._tasks: set[PoolTask] = set()  # in progress in a thread
        self._counts = Counter[str]()
        # Held to change anything here, and to close what another thread may interrupt.
        self._lock = threading.Lock()
        self._idle: list[WorkerProcess] = []  # workers without a task; the last one is used first
        self.template: TemplateConnection | None = None  # the process that forks workers
        # The current template, and earlier ones, which end with their last worker.
        self.templates: list[TemplateConnection] = []
        # A thread refers to its pool only while it has a task, so an unused pool can be collected.
        self.finalizer = weakref.finalize(self, _end, self._idle, self.templates)
        self.finalizer.atexit = False

    def submit(
        self, function: Function, *args: Any, **options: Unpack[CallOptions]
    ) -> "Future[Outcome]":
        """Call a function, or the one at `package.module:function`; return the future outcome.

        A lambda, or a function in `__main__`, needs the package cloudpickle. An async function is
        awaited in the worker. Raises `TypeError` if something cannot be sent to a worker.
        """
        future, _ = self._submit_task(function, args, options)
        return future

    def call(self, function: Function, *args: Any, **options: Unpack[CallOptions]) -> Outcome:
        """Call a function as `run` does, and wait for the outcome."""
        return run_sync(self.run(function, *args, **options))

    async def run(self, function: Function, *args: Any, **options: Unpack[CallOptions]) -> Outcome:
        """Call a function as `submit` does. If the caller is cancelled, the worker is killed.

        Raises `TimeoutError` if a work budget is set and the call needs more than the rest of it.
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
            budget.spent = max(budget.spent, budget.seconds)
            budget.raise_if_spent()
        return outcome

    async def _run(
        self, function: Function, args: tuple[Any, ...], options: CallOptions
    ) -> Outcome:
        future, task = self._submit_task(function, args, options)
        try:
            return await asyncio.wrap_future(future)
        except BaseException:
            self._abandon(future, task)
            raise

    def _submit_task(
        self, function: Function, args: tuple[Any, ...], options: CallOptions
    ) -> "tuple[Future[Outcome], PoolTask]":
        timeout = options["timeout"]
        hard_timeout = options.get("hard_timeout")
        for name, value in (("timeout", timeout), ("hard_timeout", hard_timeout)):
            if value is not None and not 0 < value < float("inf"):
                raise ValueError(
                    f"{name} is {format_value(value)}: give a number of seconds above 0"
                )
        packed = pack_function(function)
        arguments = pack_arguments(args, options.get("keywords", {}), packed.name)
        task = PoolTask(packed, arguments, timeout, hard_timeout)
        if self.closed:
            raise RuntimeError("the pool is closed: make a new one")
        future = self._executor.submit(self._do_task, task)
        self._unfinished.add(future)
        future.add_done_callback(self._unfinished.discard)
        return future, task

    def _abandon(self, future: "Future[Outcome]", task: PoolTask) -> None:
        """Cancel a task; if it is in progress, kill its worker."""
        if not future.cancel():
            task.is_abandoned = True
            with self._lock:
                if task.worker is not None:
                    task.worker.interrupt()

    def preload(self, *modules: str) -> None:
        """Import these modules, too, before workers are forked. Busy workers finish their tasks without."""
        with self._lock:
            all_modules = tuple(dict.fromkeys((*self._preload, *modules)))
            if all_modules != self._preload:
                self._preload = all_modules
                self._settings = self._settings._replace(preload=all_modules)
                if self.template is not None:
                    self.template.end_when_idle()
                    self.template = None

    def stats(self) -> PoolStats:
        """Return the numbers of workers and tasks."""
        with self._lock:
            busy = sum(task.worker is not None for task in self._tasks)
            idle = sum(worker.is_fit() for worker in self._idle)
            running = len(self._tasks)
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
        """End all workers. The outcome of unfinished tasks is `lost`."""
        self.closed = True
        with self._lock:
            for task in self._tasks:
                if task.worker is not None:
                    task.worker.interrupt()
        # A callback of a task runs in a thread of the pool, which cannot wait for itself.
        is_in_pool_thread = threading.current_thread().name.startswith("assay-isolation")
        self._executor.shutdown(wait=not is_in_pool_thread)
        if not is_in_pool_thread:
            _end(self._idle, self.templates)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Close the pool: when all tasks are done, or at once after an exception."""
        with closing(self):
            if kind is None:
                wait([*self._unfinished])

    # The following methods run in a thread of the pool.

    def _do_task(self, task: PoolTask) -> Outcome:
        """Return the outcome of a task, and free its worker."""
        with self._lock:
            self._tasks.add(task)
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
            # Before the caller gets the outcome, since it may call again at once.
            with self._lock:
                self._tasks.discard(task)
                if task.worker is not None:
                    self._idle.append(task.worker)
                    task.worker = None

    def _try_workers(self, task: PoolTask) -> Outcome:
        """Return the outcome of a task. If its worker is lost, and it may not be to blame, try another."""
        attempt = 0
        while True:
            attempt += 1
            worker = self._give_task(task)
            try:
                outcome = worker.answer(task)
            except WorkerLostError as error:
                self._raise_if_given_up(task)
                self._end_worker(task, "killed" if error.is_misbehaviour else "")
                if error.is_final or attempt >= ATTEMPTS:
                    return error.outcome()
                continue
            if worker.is_busy:
                self._end_worker(task, "killed")
            elif worker.is_spent or worker.tasks >= self._recycle_after:
                self._end_worker(task, "recycled")
            return outcome

    def _raise_if_given_up(self, task: PoolTask) -> None:
        """Raise `_LostError` if a task was cancelled or the pool is closed."""
        if task.is_abandoned:
            raise _LostError("CancelledError: it was given up")
        if self.closed:
            raise _LostError("RuntimeError: the pool was closed before this was done")

    def _give_task(self, task: PoolTask) -> WorkerProcess:
        """Send a task to an idle worker or to a new one, and return the worker."""
        for _ in range(STARTS):
            worker = self._take_idle_worker(task) or self._start_worker(task)
            self._raise_if_given_up(task)
            try:
                worker.give(task)
                return worker
            except OSError:
                self._end_worker(task)
        raise _LostError("RuntimeError: workers are gone before they can be given a task")

    def _take_idle_worker(self, task: PoolTask) -> WorkerProcess | None:
        """Assign an idle worker to a task; None if there is none that is fit."""
        while True:
            with self._lock:
                if not self._idle:
                    return None
                worker = task.worker = self._idle.pop()
            if worker.template is not self.template:
                self._end_worker(task)  # new workers have more modules
            elif not worker.is_fit():
                self._end_worker(task, "recycled")
            else:
                return worker

    def _start_worker(self, task: PoolTask) -> WorkerProcess:
        """Start a worker for a task, and wait until it is ready. Raises `_LostError`."""
        failures = 0
        reason = ""
        while failures < STARTS:
            self._raise_if_given_up(task)
            template: TemplateConnection | None = None
            is_template_lost = True
            reason = "RuntimeError: the process that forks workers ended"
            try:
                with self._lock:
                    if self.template is None:
                        self.template = TemplateConnection(self._settings)
                        self.templates.append(self.template)
                    template = self.template
                    worker = task.worker = WorkerProcess(template)
                    self._counts["started"] += 1
                self._raise_if_given_up(task)
                worker.wait_until_ready()
                return worker
            except WorkerLostError as error:
                if error.status is not None:
                    is_template_lost = False
                    reason = f"RuntimeError: workers end as they start, with status {error.status}"
            except TimeoutError:
                reason = "TimeoutError: a worker was asked for, and never came"
            except (BrokenPipeError, ConnectionResetError):
                pass  # the template has ended
            except OSError as error:
                reason = describe_error(error)
            self._end_worker(task)
            self._raise_if_given_up(task)
            # If the template was replaced meanwhile, by one with more modules, this is not a failure.
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
                # Perhaps one of the modules ended it, or hangs, so the next one imports none.
                self._settings = self._settings._replace(preload=())
                logger.warning("workers are started without preloaded modules (%s)", reason)
        template.close()

    def _end_worker(self, task: PoolTask, counted_as: str = "") -> None:
        """End the worker of a task, if it has one."""
        with self._lock:
            if task.worker is not None:
                task.worker.end()
                task.worker = None
                self._counts[counted_as] += 1


def _end(workers: list[WorkerProcess], templates: list[TemplateConnection]) -> None:
    """End idle workers, and then their templates.

    This takes no lock, since the garbage collector calls it.
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
    """Return the pool of this process, which is made at the first call. Workers import `preload`.

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
    """Return how many processors this process may use; in a container, not all of the machine's."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def counts_waiting() -> bool:
    """Return whether this system counts how long a process has waited for a processor."""
    return os.path.exists("/proc/self/schedstat")  # noqa: PTH110


_pools: "weakref.WeakSet[Pool]" = weakref.WeakSet()


def _end_all() -> None:
    """Close all pools when the interpreter ends."""
    for pool in [*_pools]:
        if pool.owner == os.getpid():
            pool.close()


# Functions of `atexit` run after executors have waited for their threads, which wait for workers.
_register_at_exit: Any = vars(threading)["_register_atexit"]
_register_at_exit(_end_all)


def _after_fork() -> None:
    """Reset all pools in a forked child, which has no threads, and whose workers are the parent's."""
    global _shared_lock
    _shared_lock = threading.Lock()  # another thread may have held the old one
    for pool in [*_pools]:
        pool.finalizer.detach()
        for template in pool.templates:
            template.disown()
        pool.reset()


os.register_at_fork(after_in_child=_after_fork)
