"""Run functions in worker processes: the pool, its queue, and one thread for each worker.

A thread takes one task after another, gives it to its worker process and waits for the answer or the deadline. A
worker that dies, misses a deadline or misbehaves is replaced by the thread that had it, and disturbs no other.
"""

import asyncio
import atexit
import os
import threading
import weakref
from collections import Counter
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, InvalidStateError, wait
from contextlib import closing, suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any, Final, NotRequired, Self, TypedDict, Unpack

from assay.isolation.process import EndedError, MisbehavedError, Outcome, Template, Work, WorkerProcess
from assay.isolation.protocol import ClockKind, Function, Functions, WorkerSettings, packed_arguments
from assay.redaction import logger_of
from assay.wording import described, short_repr

logger = logger_of("assay")

MEMORY: Final = 1 << 30  # bytes that a worker may take, unless said otherwise: 1 GiB
IDLE: Final = 60.0  # seconds that a worker stays without work
ATTEMPTS: Final = 2  # how many workers a task may lose that need not be its own fault
STARTS: Final = 3  # how often in a row a worker or a template may fail to start before its task is lost
LOOK_UP: Final = 0.5
"""Seconds after which a caller that waits looks up: Python does not see a signal that comes just before it waits."""
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
    started: int
    """Workers started, all told."""
    killed: int
    """Workers killed at a deadline, for misbehaviour, or because their task was given up."""
    recycled: int
    """Workers replaced after many tasks, or because of what a task left behind."""


class CallOptions(TypedDict):
    """How a function is called."""

    timeout: float
    """Seconds that it may work."""
    hard_timeout: NotRequired[float | None]
    """Seconds from its start after which it ends in any case."""
    keywords: NotRequired[Mapping[str, Any]]
    """Its arguments by name."""


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
        most = processors() if max_workers is None else max_workers
        for name, value in (("max_workers", most), ("memory", memory), ("recycle_after", recycle_after)):
            if value is not None and not value >= 1:
                raise ValueError(f"{name} is {short_repr(value)}: give 1 or more")
        self._settings = WorkerSettings(tuple(dict.fromkeys(preload)), memory, clock_kind())
        self._limits = most, recycle_after
        self.closed = False  # whether it takes no more calls
        self.begin_anew()
        _pools.add(self)

    def begin_anew(self) -> None:
        """Have no workers and no threads, and get them when they are needed."""
        self._functions = Functions()
        self.unfinished: set[PoolTask] = set()
        self.crew = _Crew(self._settings, *self._limits)
        weakref.finalize(self, self.crew.dismiss).atexit = False

    def submit(self, function: Function, *args: Any, **options: Unpack[CallOptions]) -> "PoolTask":
        """The future outcome of a call of a function, or of the one at `package.module:function`.

        A lambda, or what is defined in `__main__`, needs the package cloudpickle. An async function is awaited in the
        worker. Raises `TypeError` for what cannot be sent to a worker.
        """
        timeout, hard_timeout = options["timeout"], options.get("hard_timeout")
        for name, value in (("timeout", timeout), ("hard_timeout", hard_timeout)):
            if value is not None and not 0 < value < float("inf"):
                raise ValueError(f"{name} is {short_repr(value)}: give a number of seconds above 0")
        packed = self._functions.packed(function)
        arguments = packed_arguments(args, options.get("keywords", {}), packed.name)
        task = PoolTask(Work(packed, arguments, timeout, hard_timeout), self)
        try:
            self.crew.put(task)
        except BaseException:
            task.abandon()
            raise
        return task

    def call(self, function: Function, *args: Any, **options: Unpack[CallOptions]) -> Outcome:
        """The outcome of a call, as `submit` makes it; waits for it."""
        task = self.submit(function, *args, **options)
        try:
            while True:
                with suppress(TimeoutError):
                    return task.result(LOOK_UP)
        except BaseException:
            task.abandon()
            raise

    async def run(self, function: Function, *args: Any, **options: Unpack[CallOptions]) -> Outcome:
        """The outcome of a call, as `submit` makes it. When the caller is cancelled, the worker is killed."""
        task = self.submit(function, *args, **options)
        try:
            return await asyncio.wrap_future(task)
        except BaseException:
            task.abandon()
            raise

    def preload(self, *modules: str) -> None:
        """Let workers have these modules from birth too. Those that are busy end their tasks without."""
        with self.crew.lock:
            wanted = tuple(dict.fromkeys((*self._settings.preload, *modules)))
            if wanted == self._settings.preload:
                return
            self._settings = self._settings._replace(preload=wanted)
            self.crew.settings = self._settings
        self.crew.drop_template()

    def stats(self) -> PoolStats:
        """How many workers and tasks there are, and what became of workers so far."""
        threads = [*self.crew.threads]
        workers = sum(thread.worker is not None for thread in threads)
        running = sum(thread.task is not None for thread in threads)
        counted = (self.crew.counts[name] for name in ("started", "killed", "recycled"))
        return PoolStats(workers, running, max(len(self.unfinished) - running, 0), *counted)

    def close(self) -> None:
        """End all workers. What is not done comes back as lost."""
        self.closed = True
        self.crew.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Close the pool: after all is done, or at once when something was raised."""
        with closing(self):
            if kind is None:
                wait([*self.unfinished])


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


class PoolTask(Future[Outcome]):
    """One call on its way through a pool, and the future of its outcome."""

    def __init__(self, work: Work, pool: Pool) -> None:
        super().__init__()
        self.work = work
        self.is_abandoned = False  # whether its caller has given it up
        self.thread: _WorkerThread | None = None  # what works on it
        self._pool: Pool | None = pool  # which lives as long as this has no outcome
        pool.unfinished.add(self)

    def cancel(self) -> bool:
        """Give up what has not begun. What has begun goes on to its end or its deadline."""
        return super().cancel() and self._finished()

    def abandon(self) -> None:
        """Give it up; if it is being worked on, its worker is killed."""
        if not self.cancel():
            self.is_abandoned = True
            thread = self.thread
            if thread is not None:
                with thread.crew.lock:  # it may have gone on to another task
                    if thread.task is self and thread.worker is not None:
                        thread.worker.interrupt()

    def settle(self, outcome: Outcome) -> None:
        """Tell the caller."""
        self._finished()
        with suppress(InvalidStateError):  # cancelled, or told already
            self.set_result(outcome)

    def _finished(self) -> bool:
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.unfinished.discard(self)
        return True


class _LostError(Exception):
    """A task has no worker: none could be started, its caller has given it up, or the pool was closed."""


class _Crew:
    """The threads of a pool with their workers, and the tasks that wait for them."""

    # It does not know its pool, so that a pool which is used no more can be collected, and dismisses its crew.

    def __init__(self, settings: WorkerSettings, max_workers: int, recycle_after: int) -> None:
        self.owner = os.getpid()
        self.settings = settings
        self.recycle_after = recycle_after
        self.is_ending = False  # whether it takes no more tasks, and its threads end when there is nothing left to do
        self.is_closed = False  # whether what is not done is lost
        self.threads: set[_WorkerThread] = set()
        self.counts = Counter[str]()
        self.lock = threading.Lock()
        """Held to change anything here, and to close a socket that another thread might interrupt."""
        self.template: Template | None = None
        self._max_workers = max_workers
        # Safe to put into from the garbage collector, whatever this thread is doing at that moment.
        self._queue: SimpleQueue[PoolTask | None] = SimpleQueue()
        self._waiting = 0  # how many tasks in the queue no thread has taken
        self.idle = 0  # how many threads have nothing to do

    # Tasks.

    def put(self, task: PoolTask) -> None:
        """Have a task done when a worker has time for it."""
        with self.lock:
            if self.is_ending:
                raise RuntimeError("the pool is closed: make a new one")
            self._queue.put(task)
            self._waiting += 1
            if self._waiting > self.idle and len(self.threads) < self._max_workers:
                thread = _WorkerThread(self)
                self.threads.add(thread)
                self.idle += 1
                try:
                    thread.start()
                except RuntimeError:  # the system allows no more threads
                    self.threads.discard(thread)
                    self.idle -= 1
                    if not self.threads:
                        raise

    def take(self, thread: "_WorkerThread") -> PoolTask | None:
        """The next task for an idle thread; None when there was none for long, and the thread is to end."""
        while True:
            task = None
            with suppress(Empty):
                task = self._queue.get(timeout=0 if self.is_ending else IDLE)
            with self.lock:
                if task is not None:
                    self._waiting -= 1
                    self.idle -= 1
                    thread.task, task.thread = task, thread
                    return task
                if not self._waiting:
                    self.idle -= 1
                    self.threads.discard(thread)
                    return None

    # Workers.

    def start_worker(self, thread: "_WorkerThread") -> WorkerProcess:
        """Give a thread a worker that is there. Raises `_LostError`."""
        tries, why = 0, ""
        while tries < STARTS:
            thread.refuse_to_go_on()
            try:
                with self.lock:
                    template = self.template = self.template or Template(self.settings)
            except OSError as error:
                why = described(error)
                break
            lost_template = True
            try:
                template.await_loaded()
                worker = template.start()
                with self.lock:
                    thread.worker = worker
                    self.counts["started"] += 1
                thread.refuse_to_go_on()
                worker.await_birth()
                return worker
            except EndedError as error:
                lost_template = error.status is None
                what = "the process that forks workers ended" if lost_template else "workers end as they start"
                why = f"RuntimeError: {what}" + ("" if lost_template else f", with status {error.status}")
            except TimeoutError:
                why = "TimeoutError: a worker was asked for, and never came"
            except OSError as error:
                why = described(error)
            self.end_worker(thread)
            thread.refuse_to_go_on()
            with self.lock:
                is_current = self.template is template  # else it was given up for one with more modules
                tries += is_current
                if lost_template and is_current and not template.is_loaded and self.settings.preload:
                    # Perhaps one of the modules ended it, or hangs: the next one has none of them.
                    self.settings = self.settings._replace(preload=())
                    logger.warning("workers are started without preloaded modules (%s)", why)
            if lost_template:
                self.drop_template(template)
        raise _LostError(f"RuntimeError: no worker could be started ({why})")

    def end_worker(self, thread: "_WorkerThread", why: str = "") -> None:
        """End a thread's worker, if it has one; `why` is what it is counted under."""
        with self.lock:
            worker, thread.worker = thread.worker, None
            if worker is None:
                return
            worker.end()
            if why:
                self.counts[why] += 1
            others = [each.worker.template for each in self.threads if each.worker is not None]
        if worker.template is not self.template and worker.template not in others:
            worker.template.close()

    def drop_template(self, lost: Template | None = None) -> None:
        """Have the next worker come from another template; one that is not lost goes on until its workers end."""
        with self.lock:
            template = self.template
            if template is None or lost not in (None, template):
                return
            self.template = None
            is_used = any(each.worker is not None and each.worker.template is template for each in self.threads)
        if lost is not None or not is_used:
            template.close()

    # The end.

    def dismiss(self) -> None:
        """Have the threads end when all is done. Takes no lock, since the garbage collector calls it."""
        self.is_ending = True
        threads = [*self.threads]
        for _ in threads:
            self._queue.put(None)
        if not threads:
            self.end_template()

    def close(self) -> None:
        """End all workers and threads, and wait for that; what is not done is lost."""
        self.is_closed = True
        self.dismiss()
        with self.lock:
            threads = [*self.threads]
            for thread in threads:
                if thread.worker is not None:
                    thread.worker.interrupt()
            if self.template is not None and not self.template.is_loaded:
                self.template.interrupt()
        if threading.current_thread() in threads:
            return
        for thread in threads:
            thread.join()
        with suppress(Empty):
            while True:
                task = self._queue.get_nowait()
                if task is not None:
                    task.settle(Outcome(kind="lost", message=UNDONE))
        self.end_template()

    def end_template(self) -> None:
        """End the template once the last thread has ended its worker."""
        template, self.template = self.template, None
        if template is not None:
            template.close()

    def disown(self) -> None:
        """Let go of everything without touching it, in a forked child: it is the parent's."""
        self.is_ending = True
        held = [thread.worker for thread in self.threads if thread.worker is not None]
        for each in (*held, *(worker.template for worker in held), self.template):
            if each is not None:
                each.disown()
        self.template = None


class _WorkerThread(threading.Thread):
    """Does one task after another, in a worker process of its own."""

    def __init__(self, crew: _Crew) -> None:
        super().__init__(name="assay-isolation", daemon=True)
        self.task: PoolTask | None = None
        """What it does, changed only under the crew's lock: giving a task up must not hit the next one."""
        self.worker: WorkerProcess | None = None
        self.crew = crew

    def run(self) -> None:
        crew = self.crew
        while (task := crew.take(self)) is not None:
            outcome = self._outcome(task) if task.set_running_or_notify_cancel() else None
            with crew.lock:  # idle before the caller is told, who may call again at once
                self.task = None
                crew.idle += 1
            if outcome is not None:
                task.settle(outcome)
            del (task, outcome)  # or the pool would live as long as this thread has nothing else to do
        crew.end_worker(self)
        if crew.is_ending and not crew.threads:
            crew.end_template()

    def refuse_to_go_on(self) -> None:
        """Raise `_LostError` when nothing can come of its task any more."""
        if self.task is not None and self.task.is_abandoned:
            raise _LostError("CancelledError: it was given up")
        if self.crew.is_closed:
            raise _LostError(UNDONE)

    def _outcome(self, task: PoolTask) -> Outcome:
        """The outcome of a task, from a second worker when the first was lost and that need not be the task's fault."""
        attempt, outcome = 0, None
        try:
            while outcome is None:
                attempt += 1
                outcome = self._answer(task.work, is_last=attempt >= ATTEMPTS)
            return outcome
        except _LostError as error:
            self.crew.end_worker(self, "killed")
            return Outcome(kind="lost", message=str(error))
        except Exception as error:
            logger.exception("a thread of the pool of workers failed; its task is lost")
            self.crew.end_worker(self)
            return Outcome(kind="lost", message=described(error))

    def _answer(self, work: Work, *, is_last: bool) -> Outcome | None:
        """What a worker makes of the task; None when the worker was lost, and another may do it."""
        crew, worker = self.crew, self._given(work)
        try:
            outcome = worker.answer(work)
        except EndedError as error:
            self.refuse_to_go_on()
            crew.end_worker(self)
            return error.outcome(work, is_last=is_last)
        except MisbehavedError as error:
            crew.end_worker(self, "killed")
            text = f"RuntimeError: its worker was ended since {error}, and so was a second one"
            return Outcome(kind="crashed", message=text) if is_last else None
        if worker.is_busy:
            crew.end_worker(self, "killed")
        elif worker.is_spent or worker.tasks >= crew.recycle_after:
            crew.end_worker(self, "recycled")
        return outcome

    def _given(self, work: Work) -> WorkerProcess:
        """The worker that was sent the task: the thread's own if that is fit for it, else a new one."""
        crew = self.crew
        if self.worker is not None:
            if self.worker.template is not crew.template:
                crew.end_worker(self)  # others are born with more modules
            elif not self.worker.is_fit():
                crew.end_worker(self, "recycled")
        for _ in range(STARTS):
            worker = self.worker or crew.start_worker(self)
            self.refuse_to_go_on()
            try:
                worker.give(work)
                return worker
            except OSError:
                crew.end_worker(self)
        raise _LostError("RuntimeError: workers are gone before they can be given a task")


def processors() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def clock_kind() -> ClockKind:
    """The best way this machine has to count working time: see `forkserver.Clock`."""
    if os.path.exists("/proc/self/schedstat"):  # noqa: PTH110
        return "schedule"
    return "processor" if os.name == "posix" else "wall"


_pools: "weakref.WeakSet[Pool]" = weakref.WeakSet()


@atexit.register
def _end_all() -> None:
    """Leave no process behind when the interpreter ends."""
    crews = [pool.crew for pool in [*_pools] if pool.crew.owner == os.getpid()]
    for crew in crews:
        crew.dismiss()
    for crew in crews:
        crew.close()


def _after_fork() -> None:
    """Begin anew in a forked child: the threads are not here, and the workers are the parent's."""
    global _shared_lock
    _shared_lock = threading.Lock()  # another thread may have held the old one
    for pool in [*_pools]:
        pool.crew.disown()
        pool.begin_anew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
