"""Run functions in worker processes: the pool, its threads, and the workers they use.

A thread takes one task after another, gives it to a worker process and waits for the answer or the deadline. A worker
that dies, misses a deadline or misbehaves is replaced by the thread that had it, and disturbs no other.
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
from assay.isolation.protocol import Function, WorkerSettings, packed, packed_arguments
from assay.isolation.work_budget import current_work_budget
from assay.redaction import get_logger
from assay.wording import describe_error, format_value

logger = get_logger("assay")

MEMORY: Final = 1 << 30  # bytes that a worker may take, unless said otherwise: 1 GiB
IDLE: Final = 60.0  # seconds that a worker stays without work
ATTEMPTS: Final = 2  # how many workers a task may lose that need not be its own fault
STARTS: Final = (
    3  # how often in a row a worker or a template may fail to start before its task is lost
)


@dataclass(frozen=True, slots=True)
class PoolStats:
    """How a pool is doing."""

    workers: int  # worker processes there are
    running: int  # tasks being worked on
    queued: int  # tasks waiting for a worker
    started: int  # workers started, all told
    killed: (
        int  # workers killed at a deadline, for misbehaviour, or because their task was given up
    )
    recycled: int  # workers replaced after many tasks, or because of what a task left behind


class CallOptions(TypedDict):
    """How a function is called."""

    timeout: float  # seconds that it may work
    hard_timeout: NotRequired[
        float | None
    ]  # seconds from its start after which it ends in any case
    keywords: NotRequired[Mapping[str, Any]]  # its arguments by name


class _LostError(Exception):
    """A task has no worker: none could be started, its caller has given it up, or the pool was closed."""


class Pool:
    """Runs functions in worker processes, each call with a deadline that holds.

    The deadline counts work: not the wait for a worker, nor for a processor. At the deadline the
    worker is killed and replaced. Workers start when there is work, at most `max_workers` (as many
    as there are processors), and go when there is none. `preload` names modules that workers have
    from birth. `memory` is what a worker may take, in bytes. After `recycle_after` tasks it is replaced.

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
        self._max_workers = processors() if max_workers is None else max_workers
        self._recycle_after = recycle_after
        for name, value in (
            ("max_workers", max_workers),
            ("memory", memory),
            ("recycle_after", recycle_after),
        ):
            if value is not None and not value >= 1:
                raise ValueError(f"{name} is {format_value(value)}: give 1 or more")
        self._preload = tuple(dict.fromkeys(preload))
        self._settings = WorkerSettings(self._preload, memory, IDLE, counts_waiting())
        self.closed = False  # whether it takes no more calls
        self.begin_anew()
        _pools.add(self)

    def begin_anew(self) -> None:
        """Have no workers and no threads, and get them when they are needed."""
        self.owner = os.getpid()
        self._executor = ThreadPoolExecutor(self._max_workers, "assay-isolation")
        self._unfinished: set[Future[Outcome]] = set()
        self._tasks: set[PoolTask] = set()  # which threads are at work on
        self._counts = Counter[str]()
        self._lock = (
            threading.Lock()
        )  # held to change anything here, and to close what another thread may interrupt
        self._idle: list[WorkerProcess] = []  # workers without a task; the last one is used first
        self.template: TemplateConnection | None = None  # which forks workers
        self.templates: list[
            TemplateConnection
        ] = []  # this one, and those before it, which end when their last worker has
        # A thread holds its pool only while it has a task, so that one which is used no more is collected.
        self.finalizer = weakref.finalize(self, _end, self._idle, self.templates)
        self.finalizer.atexit = False

    def submit(
        self, function: Function, *args: Any, **options: Unpack[CallOptions]
    ) -> "Future[Outcome]":
        """The future outcome of a call of a function, or of the one at `package.module:function`.

        A lambda, or what is defined in `__main__`, needs the package cloudpickle. An async function is awaited in the
        worker. Raises `TypeError` for what cannot be sent to a worker.
        """
        return self._submitted(function, args, options)[0]

    def call(self, function: Function, *args: Any, **options: Unpack[CallOptions]) -> Outcome:
        """The outcome of a call, as `run` gives it, for code that waits."""
        return run_sync(self.run(function, *args, **options))

    async def run(self, function: Function, *args: Any, **options: Unpack[CallOptions]) -> Outcome:
        """The outcome of a call, as `submit` makes it. When the caller is cancelled, the worker is killed.

        Raises `TimeoutError` if a work budget is set and the call takes more than is left of it.
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
        future, task = self._submitted(function, args, options)
        try:
            return await asyncio.wrap_future(future)
        except BaseException:
            self._abandon(future, task)
            raise

    def _submitted(
        self, function: Function, args: tuple[Any, ...], options: CallOptions
    ) -> "tuple[Future[Outcome], PoolTask]":
        timeout, hard_timeout = options["timeout"], options.get("hard_timeout")
        for name, value in (("timeout", timeout), ("hard_timeout", hard_timeout)):
            if value is not None and not 0 < value < float("inf"):
                raise ValueError(
                    f"{name} is {format_value(value)}: give a number of seconds above 0"
                )
        sent = packed(function)
        arguments = packed_arguments(args, options.get("keywords", {}), sent.name)
        task = PoolTask(sent, arguments, timeout, hard_timeout)
        if self.closed:
            raise RuntimeError("the pool is closed: make a new one")
        future = self._executor.submit(self._outcome, task)
        self._unfinished.add(future)
        future.add_done_callback(self._unfinished.discard)
        return future, task

    def _abandon(self, future: "Future[Outcome]", task: PoolTask) -> None:
        """Give a task up; if it is being worked on, its worker is killed."""
        if not future.cancel():
            task.is_abandoned = True
            with self._lock:
                if task.worker is not None:
                    task.worker.interrupt()

    def preload(self, *modules: str) -> None:
        """Let workers have these modules from birth too. Those that are busy end their tasks without."""
        with self._lock:
            wanted = tuple(dict.fromkeys((*self._preload, *modules)))
            if wanted != self._preload:
                self._preload, self._settings = wanted, self._settings._replace(preload=wanted)
                if self.template is not None:
                    self.template.let_go()
                    self.template = None

    def stats(self) -> PoolStats:
        """How many workers and tasks there are, and what became of workers so far."""
        with self._lock:
            used = sum(task.worker is not None for task in self._tasks)
            workers = used + sum(worker.is_fit() for worker in self._idle)
            running = len(self._tasks)
        queued = sum(not (future.running() or future.done()) for future in [*self._unfinished])
        return PoolStats(
            workers,
            running,
            queued,
            *(self._counts[each] for each in ("started", "killed", "recycled")),
        )

    def close(self) -> None:
        """End all workers. What is not done comes back as lost."""
        self.closed = True
        with self._lock:
            for task in self._tasks:
                if task.worker is not None:
                    task.worker.interrupt()
        is_ours = threading.current_thread().name.startswith(
            "assay-isolation"
        )  # a callback of a task
        self._executor.shutdown(wait=not is_ours)
        if not is_ours:
            _end(self._idle, self.templates)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Close the pool: after all is done, or at once when something was raised."""
        with closing(self):
            if kind is None:
                wait([*self._unfinished])

    # What a thread does.

    def _outcome(self, task: PoolTask) -> Outcome:
        """The outcome of a task, from a second worker when the first was lost and that need not be the task's fault."""
        with self._lock:
            self._tasks.add(task)
        try:
            attempt = 0
            while True:
                attempt += 1
                worker = self._given(task)
                try:
                    outcome = worker.answer(task)
                except WorkerLostError as error:
                    self._refuse_to_go_on(task)
                    self._end_worker(task, "killed" if error.is_misbehaviour else "")
                    if error.is_final or attempt >= ATTEMPTS:
                        return error.outcome()
                    continue
                if worker.is_busy:
                    self._end_worker(task, "killed")
                elif worker.is_spent or worker.tasks >= self._recycle_after:
                    self._end_worker(task, "recycled")
                return outcome
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
            with self._lock:  # free before the caller is told, who may call again at once
                self._tasks.discard(task)
                if task.worker is not None:
                    self._idle.append(task.worker)
                    task.worker = None

    def _refuse_to_go_on(self, task: PoolTask) -> None:
        """Raise `_LostError` when nothing can come of a task any more."""
        if task.is_abandoned:
            raise _LostError("CancelledError: it was given up")
        if self.closed:
            raise _LostError("RuntimeError: the pool was closed before this was done")

    def _given(self, task: PoolTask) -> WorkerProcess:
        """The worker that was sent the task: one without work that is fit for it, else a new one."""
        for _ in range(STARTS):
            while task.worker is None and self._idle:
                with self._lock:
                    worker = task.worker = self._idle.pop() if self._idle else None
                if worker is not None and worker.template is not self.template:
                    self._end_worker(task)  # others are born with more modules
                elif worker is not None and not worker.is_fit():
                    self._end_worker(task, "recycled")
            worker = task.worker or self._started(task)
            self._refuse_to_go_on(task)
            try:
                worker.give(task)
                return worker
            except OSError:
                self._end_worker(task)
        raise _LostError("RuntimeError: workers are gone before they can be given a task")

    def _started(self, task: PoolTask) -> WorkerProcess:
        """Give a task a new worker that is there. Raises `_LostError`."""
        tries, why = 0, ""
        while tries < STARTS:
            self._refuse_to_go_on(task)
            template, lost_template, why = (
                None,
                True,
                "RuntimeError: the process that forks workers ended",
            )
            try:
                with self._lock:
                    template = self.template = self.template or self._new_template()
                    worker = task.worker = WorkerProcess(template)
                    self._counts["started"] += 1
                self._refuse_to_go_on(task)
                worker.await_birth()
                return worker
            except WorkerLostError as error:
                if error.status is not None:
                    lost_template, why = (
                        False,
                        f"RuntimeError: workers end as they start, with status {error.status}",
                    )
            except TimeoutError:
                why = "TimeoutError: a worker was asked for, and never came"
            except (BrokenPipeError, ConnectionResetError):
                pass  # it ended before it could be asked
            except OSError as error:
                why = describe_error(error)
            self._end_worker(task)
            self._refuse_to_go_on(task)
            with self._lock:
                is_current = (
                    self.template is template
                )  # else it was given up for one with more modules
                tries += is_current
                if template is None or not (lost_template and is_current):
                    continue
                self.template = None
                self.templates.remove(template)
                if not template.is_loaded and self._settings.preload:
                    # Perhaps one of the modules ended it, or hangs: the next one has none of them.
                    self._settings = self._settings._replace(preload=())
                    logger.warning("workers are started without preloaded modules (%s)", why)
            template.close()
        raise _LostError(f"RuntimeError: no worker could be started ({why})")

    def _new_template(self) -> TemplateConnection:
        self.templates.append(TemplateConnection(self._settings))
        return self.templates[-1]

    def _end_worker(self, task: PoolTask, why: str = "") -> None:
        """End the worker of a task, if it has one; `why` is what it is counted under."""
        with self._lock:
            if task.worker is not None:
                task.worker.end()
                task.worker = None
                self._counts[why] += 1


def _end(workers: list[WorkerProcess], templates: list[TemplateConnection]) -> None:
    """End workers without a task, and then their templates. Takes no lock, since the garbage collector calls it."""
    for worker in workers:
        worker.end()
    for template in templates:
        template.close()
    workers.clear()
    templates.clear()


_shared_lock = threading.Lock()
_shared: Pool | None = None


def shared_pool(*preload: str) -> Pool:
    """The one pool of this process, made when first asked for. Workers will have `preload` too.

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
    """How many processors this process may use: in a container, fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def counts_waiting() -> bool:
    """Whether this system tells how long a process has waited for a processor."""
    return os.path.exists("/proc/self/schedstat")  # noqa: PTH110


_pools: "weakref.WeakSet[Pool]" = weakref.WeakSet()


def _end_all() -> None:
    """Leave no process behind when the interpreter ends."""
    for pool in [*_pools]:
        if pool.owner == os.getpid():
            pool.close()


# Not `atexit`, whose turn comes after the executors have waited for their threads, which wait for their workers.
_register_at_exit: Any = vars(threading)["_register_atexit"]
_register_at_exit(_end_all)


def _after_fork() -> None:
    """Begin anew in a forked child: the threads are not here, and the workers are the parent's."""
    global _shared_lock
    _shared_lock = threading.Lock()  # another thread may have held the old one
    for pool in [*_pools]:
        pool.finalizer.detach()
        for template in pool.templates:
            template.disown()
        pool.begin_anew()


os.register_at_fork(after_in_child=_after_fork)
