"""Run functions in worker processes: the pool, its queue, and one thread for each worker.

A thread takes one task after another, gives it to its worker process and waits for the answer or the deadline. A
worker that dies, misses a deadline or misbehaves is replaced by the thread that had it, and disturbs no other.
"""

import asyncio
import atexit
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, InvalidStateError, wait
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from assay.isolation import process
from assay.isolation.packing import Function, Functions, packed_arguments
from assay.isolation.process import (
    EndedError,
    MisbehavedError,
    Outcome,
    Spawner,
    Template,
    Work,
    WorkerProcess,
)
from assay.isolation.protocol import ClockKind, Settings
from assay.redaction import logger_of
from assay.wording import described, short_repr

logger = logger_of("assay")

Result = TypeVar("Result")

MEMORY: Final = 1 << 30
"""Bytes that a worker may take, unless said otherwise: 1 GiB."""
ATTEMPTS: Final = 2
"""How many workers a task may lose that need not be its own fault."""
STARTS: Final = 3
"""How often in a row a worker or a template may fail to start before its task is lost."""
LOOK_UP: Final = 0.5
"""Seconds after which a caller that waits looks up: Python does not see a signal that comes just before it waits."""
CLOSED: Final = "the pool is closed: make a new one"
UNDONE: Final = "RuntimeError: the pool was closed before this was done"


@dataclass(frozen=True, slots=True)
class PoolStats:
    """How a pool is doing."""

    workers: int
    """Worker processes there are."""
    running: int
    """Tasks being worked on."""
    queued: int
    """Tasks waiting for a worker."""
    waiting: int
    """Tasks that wait because the queue is full."""
    started: int
    """Workers started, all told."""
    killed: int
    """Workers killed at a deadline, for misbehaviour, or because their task was given up."""
    recycled: int
    """Workers replaced after many tasks, or because of what a task left behind."""


class Pool:
    """Runs functions in worker processes, each call with a deadline that holds.

    The deadline counts work: not the wait for a worker, nor for a processor. At the deadline the
    worker is killed and replaced. Workers start when there is work, at most `max_workers` (as many
    as there are processors), and go when there is none. `preload` names modules that workers have
    from birth. `memory` is what a worker may take, in bytes. When `queue_size` tasks wait for a worker,
    the next `submit` waits too.

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
        queue_size: int = 1024,
        recycle_after: int = 5000,
        idle_seconds: float = 60.0,
    ) -> None:
        workers = processors() if max_workers is None else max_workers
        _refuse_below(1, max_workers=workers, queue_size=queue_size, recycle_after=recycle_after)
        _refuse_below(0, idle_seconds=idle_seconds)
        if memory is not None:
            _refuse_below(1, memory=memory)
        self._settings = Settings(tuple(dict.fromkeys(preload)), memory, clock_kind())
        self._limits = _Limits(workers, queue_size, recycle_after, idle_seconds)
        self._closed = False
        self.begin_anew()
        _pools.add(self)

    def submit(
        self,
        function: Function,
        *args: Any,
        timeout: float,
        hard_timeout: float | None = None,
        keywords: Mapping[str, Any] | None = None,
    ) -> Future[Outcome]:
        """The future outcome of a call. Waits while the queue is full.

        `function` is a function, or names one as `package.module:function`. A lambda, or what is
        defined in `__main__`, needs the package cloudpickle. An async function is awaited in the
        worker. `timeout` is how many seconds it may work; `hard_timeout` is when it ends in any
        case, in seconds from its start. Raises `TypeError` for what cannot be sent to a worker.
        """
        crew = self._crew_now()
        task = self._task(crew, function, args, keywords, timeout, hard_timeout)
        try:
            crew.put(task)
            crew.await_room(task)
        except BaseException:
            task.abandon()
            raise
        return task

    def call(
        self,
        function: Function,
        *args: Any,
        timeout: float,
        hard_timeout: float | None = None,
        keywords: Mapping[str, Any] | None = None,
    ) -> Outcome:
        """The outcome of a call, as `submit` makes it; waits for it."""
        crew = self._crew_now()
        task = self._task(crew, function, args, keywords, timeout, hard_timeout)
        try:
            done = _Bell()
            task.add_done_callback(lambda _: done.ring())
            crew.put(task)
            while not task.done():
                done.wait(LOOK_UP)
            return task.result()
        except BaseException:
            task.abandon()
            raise

    async def run(
        self,
        function: Function,
        *args: Any,
        timeout: float,  # noqa: ASYNC109 - not how long to wait, but how long it may work
        hard_timeout: float | None = None,
        keywords: Mapping[str, Any] | None = None,
    ) -> Outcome:
        """The outcome of a call, as `submit` makes it. The event loop goes on meanwhile.

        When the caller is cancelled, the call is given up and its worker killed.
        """
        crew = self._crew_now()
        task = self._task(crew, function, args, keywords, timeout, hard_timeout)
        try:
            crew.put(task)
            return await _awaited(task)
        except BaseException:
            task.abandon()
            raise

    def preload(self, *modules: str) -> None:
        """Let workers have these modules from birth too. Those that are there go on without."""
        with self._lock:
            known = self._settings.preload
            wanted = tuple(dict.fromkeys((*known, *modules)))
            if wanted == known:
                return
            self._settings = self._settings._replace(preload=wanted)
            if self._crew is not None:
                self._crew.preload(wanted[len(known) :])

    def start(self) -> None:
        """Load what is to be preloaded now, so that the first call need not wait for it."""
        with suppress(OSError):  # the first task will say what is wrong
            self._crew_now().template()

    def stats(self) -> PoolStats:
        """How many workers and tasks there are, and what became of workers so far."""
        crew = self._crew
        return PoolStats(0, 0, 0, 0, 0, 0, 0) if crew is None else crew.stats()

    def close(self) -> None:
        """End all workers. What is not done comes back as lost."""
        self._closed = True
        if self._crew is not None:
            self._crew.close()

    @property
    def closed(self) -> bool:
        """Whether it takes no more calls."""
        return self._closed

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the pool: after all is done, or at once when something was raised."""
        try:
            if kind is None and self._crew is not None:
                wait(self._crew.unfinished())
        finally:
            self.close()

    def begin_anew(self) -> None:
        """Have no workers and no threads, and get them when they are needed."""
        self._lock = threading.Lock()
        self._functions = Functions()
        self._crew: _Crew | None = None

    def _task(
        self,
        crew: "_Crew",
        function: Function,
        args: tuple[Any, ...],
        keywords: Mapping[str, Any] | None,
        timeout: float,
        hard_timeout: float | None,
    ) -> "_Task":
        for name, value in (("timeout", timeout), ("hard_timeout", hard_timeout)):
            if value is not None and not 0 < value < float("inf"):
                raise ValueError(f"{name} is {short_repr(value)}: give a number of seconds above 0")
        packed = self._functions.packed(function)
        if packed.home is None:
            self.preload("cloudpickle")
        arguments = packed_arguments(args, keywords or {}, packed.name)
        return _Task(Work(packed, arguments, timeout, hard_timeout), self, crew)

    def _crew_now(self) -> "_Crew":
        crew = self._crew
        if crew is not None and not crew.closing:
            return crew
        with self._lock:
            if self._closed:
                raise RuntimeError(CLOSED)
            if self._crew is None or self._crew.closing:
                self._crew = _Crew(self._settings, self._limits)
                _crews.add(self._crew)
                weakref.finalize(self, self._crew.dismiss).atexit = False
            return self._crew


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


class _Task(Future[Outcome]):
    """One call on its way through a pool, and the future of its outcome."""

    def __init__(self, work: Work, pool: Pool, crew: "_Crew") -> None:
        super().__init__()
        self.work = work
        self.is_abandoned = False
        """Whether its caller has given it up."""
        self._crew = crew
        self._pool: Pool | None = pool  # which lives as long as this has no outcome

    def cancel(self) -> bool:
        """Give up what has not begun. What has begun goes on to its end or its deadline."""
        if not super().cancel():
            return False
        self._pool = None
        self._crew.withdraw(self)
        return True

    def abandon(self) -> None:
        """Give it up; if it is being worked on, its worker is killed."""
        if not self.cancel():
            self.is_abandoned = True
            self._crew.withdraw(self)

    def settle(self, outcome: Outcome) -> None:
        """Tell the caller."""
        self._pool = None
        with suppress(InvalidStateError):  # cancelled, or told already
            self.set_result(outcome)


@dataclass(frozen=True, slots=True)
class _Limits:
    max_workers: int
    queue_size: int
    recycle_after: int
    idle_seconds: float


class _NoWorkerError(Exception):
    """No worker could be started; the message says why."""


class _GivenUpError(Exception):
    """The caller has given the task up, or the pool was closed; the message says which."""


class _Crew:
    """The threads of a pool with their workers, and the tasks that wait for them.

    It does not know its pool, so that a pool which is used no more can be collected, and dismisses its crew.
    """

    def __init__(self, settings: Settings, limits: _Limits) -> None:
        self.limits = limits
        self.owner = os.getpid()
        self.closing = False
        self._settings = settings
        self._lock = threading.Lock()
        """Held to change anything below, and to close a socket that another thread might interrupt."""
        self._started = self._killed = self._recycled = 0
        self._threads: set[_WorkerThread] = set()
        self._idle: list[_WorkerThread] = []
        self._queue: dict[_Task, None] = {}
        self._room: set[_Bell] = set()
        """What rings for callers that found the queue full, whenever a task leaves it."""
        self._unsettled: set[_Task] = set()
        self._template: Template | None = None

    # Tasks.

    def put(self, task: _Task) -> None:
        """Have a task done, by a worker that is idle, by a new one, or when one has time for it."""
        with self._lock:
            if self.closing:
                raise RuntimeError(CLOSED)
            if self._idle:
                self._idle.pop().hand(task)  # the latest to be idle, so that others can go
            elif len(self._threads) >= self.limits.max_workers or not self._add_thread(task):
                self._queue[task] = None
            self._unsettled.add(task)
        task.add_done_callback(self._settled)

    def _add_thread(self, task: _Task) -> bool:
        thread = _WorkerThread(self, task)
        self._threads.add(thread)
        try:
            thread.start()
        except RuntimeError:  # the system allows no more threads
            self._threads.discard(thread)
            if not self._threads:
                raise
            return False
        return True

    def await_room(self, task: _Task) -> None:
        """Wait until a task is under way, or the queue is no fuller than it should be."""
        if threading.current_thread() in self._threads:
            return  # in the callback of a future, which keeps one of those busy that make room
        room = _Bell()
        self._room.add(room)
        try:
            while task in self._queue and len(self._queue) > self.limits.queue_size:
                room.wait(LOOK_UP)
        finally:
            self._room.discard(room)

    def next_task(self, thread: "_WorkerThread") -> _Task | None:
        """What a thread does next; when there is nothing, it is idle from now on."""
        with self._lock:
            task = thread.task = next(iter(self._queue), None)
            if task is None:
                self._idle.append(thread)
            else:
                self._take_out(task)
            return task

    def withdraw(self, task: _Task) -> None:
        """Give up a task: take it out of the queue, or kill the worker that works on it."""
        with self._lock:
            self._take_out(task)
            for thread in self._threads:
                if thread.task is task and thread.worker is not None:
                    thread.worker.interrupt()

    def lose_queued(self, message: str) -> None:
        """Give up every task that waits for a worker."""
        with self._lock:
            tasks = [*self._queue]
            self._take_out(*tasks)
        for task in tasks:
            task.settle(Outcome(kind="lost", message=message))

    def _take_out(self, *tasks: _Task) -> None:
        for task in tasks:
            self._queue.pop(task, None)
        for room in [*self._room]:
            room.ring()

    def unfinished(self) -> list[_Task]:
        """Every task that has no outcome yet."""
        with self._lock:
            return [*self._unsettled]

    def _settled(self, task: Any) -> None:
        with self._lock:
            self._unsettled.discard(task)

    def stats(self) -> PoolStats:
        with self._lock:
            queued = min(len(self._queue), self.limits.queue_size)
            return PoolStats(
                workers=sum(thread.worker is not None for thread in self._threads),
                running=sum(thread.task is not None for thread in self._threads),
                queued=queued,
                waiting=len(self._queue) - queued,
                started=self._started,
                killed=self._killed,
                recycled=self._recycled,
            )

    # Workers.

    def template(self, *, bare: bool = False) -> Template:
        """What forks workers, started when first needed; a bare one without preloaded modules."""
        with self._lock:
            if self._template is None:
                settings = self._settings._replace(preload=()) if bare else self._settings
                self._template = (Template if process.FORKS else Spawner)(settings)
            return self._template

    def preload(self, modules: tuple[str, ...]) -> None:
        """Have workers born with these modules too, as soon as those are loaded."""
        with self._lock:
            known = self._settings.preload
            self._settings = self._settings._replace(preload=known + modules)
            if self._template is not None:
                self._template.preload(modules)

    def start_worker(self, thread: "_WorkerThread") -> WorkerProcess:
        """Give a thread a worker that is there. Raises `_NoWorkerError`."""
        why, bare = "", False
        for _ in range(STARTS):
            thread.refuse_to_go_on()
            try:
                template = self.template(bare=bare)
            except OSError as error:
                raise _NoWorkerError(described(error)) from None
            try:
                worker = template.start()
                with self._lock:
                    thread.worker = worker
                    self._started += 1
                thread.refuse_to_go_on()
                worker.await_birth()
                return worker
            except EndedError as error:
                lost_template = error.status is None
                why = f"RuntimeError: workers end as they start, with status {error.status}"
                if lost_template:
                    why = "RuntimeError: the process that forks workers ended"
            except TimeoutError:
                why, lost_template = "TimeoutError: a worker was asked for, and never came", True
            except OSError as error:
                why, lost_template = described(error), True
            self.end_worker(thread)
            thread.refuse_to_go_on()
            if lost_template:
                # Perhaps one of the modules ended it, or hangs: the next one has none of them.
                bare = bare or not template.loaded_batches()
                self._drop(template)
                if bare:
                    logger.warning("workers are started without preloaded modules (%s)", why)
        raise _NoWorkerError(why)

    def _drop(self, template: Template) -> None:
        """Use a template no more that has ended, or hangs."""
        with self._lock:
            if self._template is not template:
                return
            self._template = None
        template.close()

    def end_worker(
        self, thread: "_WorkerThread", *, killed: bool = False, recycled: bool = False
    ) -> None:
        """End a thread's worker, if it has one."""
        with self._lock:
            if thread.worker is not None:
                thread.worker.end()
                thread.worker = None
                self._killed += killed
                self._recycled += recycled

    # The end.

    def retires(self, thread: "_WorkerThread", *, is_rested: bool) -> bool:
        """Whether a thread that has nothing to do may end, since it has rested or the pool is closing."""
        with self._lock:
            if thread.task is not None or not (is_rested or self.closing):
                return False
            self._idle.remove(thread)
            return True

    def leave(self, thread: "_WorkerThread") -> _Task | None:
        """Let a thread end, unless there is a task for it now. The last one of a closing crew ends the template."""
        with self._lock:
            task = thread.task = next(iter(self._queue), None)
            if task is not None:
                self._take_out(task)
                return task
            self._threads.discard(thread)
        if self.closing and not self._threads:
            self._end()
        return None

    def close(self) -> None:
        """End all workers and threads, and wait for that; what is not done is lost."""
        threads = self.dismiss()
        with self._lock:
            for thread in threads:
                if thread.worker is not None:
                    thread.worker.interrupt()
        if threading.current_thread() not in threads:
            for thread in threads:
                thread.join()
            self._end()

    def dismiss(self) -> "list[_WorkerThread]":
        """Have the threads end when they have nothing to do. Takes no lock, since the garbage collector calls it."""
        self.closing = True
        threads = [*self._threads]
        for thread in threads:
            thread.bell.ring()
        if not threads:
            self._end()
        return threads

    def _end(self) -> None:
        template, self._template = self._template, None
        if template is not None:
            template.close()

    def disown(self) -> None:
        """Let go of everything without touching it, in a forked child: it is the parent's."""
        self.closing = True
        for thread in self._threads:
            if thread.worker is not None:
                thread.worker.disown()
        if self._template is not None:
            self._template.disown()


class _Bell:
    """Wakes the one thread that waits for it.

    A bare lock, which Ctrl-C and the garbage collector cannot leave in a state that blocks another thread.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    def ring(self) -> None:
        with suppress(RuntimeError):  # it has rung already
            self._lock.release()

    def wait(self, seconds: float) -> bool:
        """Whether it has rung since the last time, or does within so many seconds."""
        return self._lock.acquire(timeout=min(seconds, threading.TIMEOUT_MAX))


class _WorkerThread(threading.Thread):
    """Does one task after another, in a worker process of its own."""

    def __init__(self, crew: _Crew, task: _Task) -> None:
        super().__init__(name="assay-isolation", daemon=True)
        self.task: _Task | None = task
        """What it does, changed only under the crew's lock: whoever gives a task up must not hit the next one."""
        self.worker: WorkerProcess | None = None
        self.bell = _Bell()
        """Has it look for a task, or for the end."""
        self._crew = crew

    def hand(self, task: _Task) -> None:
        """Give it a task while it is idle."""
        self.task = task
        self.bell.ring()

    def run(self) -> None:
        task = self.task
        while task is not None:
            outcome = self._outcome(task) if task.set_running_or_notify_cancel() else None
            # Idle before the caller is told, who may call again at once.
            following = self._crew.next_task(self)
            if outcome is not None:
                task.settle(outcome)
            task = following or self._rest()
            if task is None:
                self._crew.end_worker(self)
                task = self._crew.leave(self)

    def _rest(self) -> _Task | None:
        """The next task, when there is one; None when there was none for long."""
        while self.task is None:
            rung = not self._crew.closing and self.bell.wait(self._crew.limits.idle_seconds)
            if self._crew.retires(self, is_rested=not rung):
                return None
        return self.task

    def _outcome(self, task: _Task) -> Outcome:
        try:
            return self._worked(task.work)
        except _GivenUpError as error:
            self._crew.end_worker(self, killed=True)
            return Outcome(kind="lost", message=str(error))
        except _NoWorkerError as error:
            message = f"RuntimeError: no worker could be started ({error})"
            self._crew.lose_queued(message)
            return Outcome(kind="lost", message=message)
        except Exception as error:
            logger.exception("a thread of the pool of workers failed; its task is lost")
            self._crew.end_worker(self)
            return Outcome(kind="lost", message=described(error))

    def _worked(self, work: Work) -> Outcome:
        """The outcome of a task, from a second worker when the first was lost and that need not be the task's fault."""
        for attempt in count(1):
            is_last = attempt >= ATTEMPTS
            worker = self._give(work)
            try:
                outcome = worker.answer(work)
                if worker.is_busy:
                    self._crew.end_worker(self, killed=True)
                elif worker.is_spent or worker.tasks >= self._crew.limits.recycle_after:
                    self._crew.end_worker(self, recycled=True)
            except EndedError as error:
                self.refuse_to_go_on()
                self._crew.end_worker(self)
                outcome = error.outcome(work, is_last=is_last)
            except MisbehavedError as error:
                self._crew.end_worker(self, killed=True)
                text = f"RuntimeError: its worker was ended since {error}, and so was a second one"
                outcome = Outcome(kind="crashed", message=text) if is_last else None
            if outcome is not None:
                return outcome
        raise AssertionError

    def _give(self, work: Work) -> WorkerProcess:
        """Send the task to a worker: its own if that is fit for it, else a new one."""
        if self.worker is not None and not self.worker.is_fit():
            self._crew.end_worker(self, recycled=True)
        for _ in range(STARTS):
            worker = self.worker or self._crew.start_worker(self)
            self.refuse_to_go_on()
            try:
                worker.give(work)
                return worker
            except OSError:
                self._crew.end_worker(self)
        raise _NoWorkerError("RuntimeError: workers are gone before they can be given a task")

    def refuse_to_go_on(self) -> None:
        """Raise `_GivenUpError` when nothing can come of its task any more."""
        if self.task is not None and self.task.is_abandoned:
            raise _GivenUpError("CancelledError: it was given up")
        if self._crew.closing:
            raise _GivenUpError(UNDONE)


async def _awaited(future: "Future[Result]") -> Result:
    """What a future holds, once it does; the event loop goes on meanwhile."""
    loop = asyncio.get_running_loop()
    waiter: asyncio.Future[None] = loop.create_future()

    def wake() -> None:
        if not waiter.done():
            waiter.set_result(None)

    def tell(_: object) -> None:
        with suppress(RuntimeError):  # the loop is closed, so its task is gone
            loop.call_soon_threadsafe(wake)

    future.add_done_callback(tell)
    await waiter
    return future.result()


def processors() -> int:
    """How many processors this process may use."""
    count: Callable[[], int | None] | None = getattr(os, "process_cpu_count", None)
    if count is not None:  # since Python 3.13
        return count() or 1
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def clock_kind() -> ClockKind:
    """The best way this machine has to count working time: see `worker.Clock`."""
    if os.path.exists("/proc/self/schedstat"):  # noqa: PTH110
        return "schedule"
    return "processor" if os.name == "posix" else "wall"


def _refuse_below(least: float, **values: float) -> None:
    for name, value in values.items():
        if not value >= least:
            raise ValueError(f"{name} is {short_repr(value)}: give {least:g} or more")


_pools: "weakref.WeakSet[Pool]" = weakref.WeakSet()
_crews: "weakref.WeakSet[_Crew]" = weakref.WeakSet()


@atexit.register
def _end_all() -> None:
    """Leave no process behind when the interpreter ends."""
    mine = [crew for crew in [*_crews] if crew.owner == os.getpid()]
    for crew in mine:
        crew.dismiss()
    for crew in mine:
        crew.close()


def _after_fork() -> None:
    """Begin anew in a forked child: the threads are not here, and the workers are the parent's."""
    global _shared_lock
    _shared_lock = threading.Lock()  # another thread may have held the old one
    for crew in [*_crews]:
        crew.disown()
    _crews.clear()
    for pool in [*_pools]:
        pool.begin_anew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
