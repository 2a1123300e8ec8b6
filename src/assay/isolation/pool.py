"""Run functions in worker processes: the pool, its queue, and one thread for each worker.

A thread takes one task after another, gives it to its worker process and waits for the answer or the deadline. A
worker that dies, misses a deadline or misbehaves is replaced by the thread that had it, and disturbs no other.
"""

import asyncio
import atexit
import os
import threading
import weakref
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, InvalidStateError, wait
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import count
from queue import Empty, SimpleQueue
from typing import Any, Final, NotRequired, Self, TypedDict, Unpack

from assay.isolation.process import Outcome, Template, Work, WorkerLostError, WorkerProcess
from assay.isolation.protocol import Function, WorkerSettings, packed, packed_arguments
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
        self._settings = WorkerSettings(tuple(dict.fromkeys(preload)), memory, counts_waiting())
        self._limits = most, recycle_after
        self.closed = False  # whether it takes no more calls
        self.begin_anew()
        _pools.add(self)

    def begin_anew(self) -> None:
        """Have no workers and no threads, and get them when they are needed."""
        self.crew = _Crew(self._settings, *self._limits)
        self.finalizer = weakref.finalize(self, self.crew.dismiss)
        self.finalizer.atexit = False

    def submit(self, function: Function, *args: Any, **options: Unpack[CallOptions]) -> "PoolTask":
        """The future outcome of a call of a function, or of the one at `package.module:function`.

        A lambda, or what is defined in `__main__`, needs the package cloudpickle. An async function is awaited in the
        worker. Raises `TypeError` for what cannot be sent to a worker.
        """
        timeout, hard_timeout = options["timeout"], options.get("hard_timeout")
        for name, value in (("timeout", timeout), ("hard_timeout", hard_timeout)):
            if value is not None and not 0 < value < float("inf"):
                raise ValueError(f"{name} is {short_repr(value)}: give a number of seconds above 0")
        sent = packed(function)
        arguments = packed_arguments(args, options.get("keywords", {}), sent.name)
        task = PoolTask(Work(sent, arguments, timeout, hard_timeout), self)
        self.crew.put(task)
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
        wanted = tuple(dict.fromkeys((*self._settings.preload, *modules)))
        if wanted != self._settings.preload:
            self._settings = self.crew.settings = self._settings._replace(preload=wanted)
            self.crew.drop_template()

    def stats(self) -> PoolStats:
        """How many workers and tasks there are, and what became of workers so far."""
        crew = self.crew
        with crew.lock:
            workers = sum(thread.worker is not None for thread in crew.threads)
            running = sum(thread.task is not None for thread in crew.threads)
            queued = sum(not task.cancelled() for task in crew.queue)
        return PoolStats(workers, running, queued, *(crew.counts[name] for name in ("started", "killed", "recycled")))

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
                with self.crew.lock:
                    unfinished = [*self.crew.queue, *(thread.task for thread in self.crew.threads)]
                wait([task for task in unfinished if task is not None])


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
        self.crew = pool.crew
        self.pool: Pool | None = pool  # which lives as long as this has no outcome

    def abandon(self) -> None:
        """Give it up; if it is being worked on, its worker is killed."""
        if not self.cancel():
            self.is_abandoned = True
            with self.crew.lock:  # else the worker may have gone on to another task
                for thread in self.crew.threads:
                    if thread.task is self and thread.worker is not None:
                        thread.worker.interrupt()

    def settle(self, outcome: Outcome | None) -> None:
        """Tell the caller, unless it was cancelled."""
        self.pool = None
        if outcome is not None:
            with suppress(InvalidStateError):  # told already
                self.set_result(outcome)


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
        self.queue: deque[PoolTask] = deque()  # what waits for a thread
        self.threads: set[_WorkerThread] = set()
        self.idle: list[_WorkerThread] = []  # of these, those with nothing to do; the last one is used first
        self.counts = Counter[str]()
        self.lock = threading.Lock()
        """Held to change anything here, and to close a socket that another thread might interrupt."""
        self.template: Template | None = None
        self.dropped: list[Template] = []  # which end when their last worker has ended
        self._max_workers = max_workers

    def put(self, task: PoolTask) -> None:
        """Have a task done when a worker has time for it."""
        with self.lock:
            if self.is_ending:
                raise RuntimeError("the pool is closed: make a new one")
            if self.idle:
                self.idle.pop().give(task)
                return
            if len(self.threads) < self._max_workers:
                thread = _WorkerThread(self, task)
                try:
                    thread.start()
                    self.threads.add(thread)
                    return
                except RuntimeError:  # the system allows no more threads
                    if not self.threads:
                        raise
            self.queue.append(task)

    def start_worker(self, thread: "_WorkerThread") -> WorkerProcess:
        """Give a thread a worker that is there. Raises `_LostError`."""
        tries, why = 0, ""
        while tries < STARTS:
            thread.refuse_to_go_on()
            template, lost_template = None, True
            try:
                with self.lock:
                    template = self.template = self.template or Template(self.settings)
                worker = WorkerProcess(template)
                with self.lock:
                    thread.worker = worker
                    self.counts["started"] += 1
                thread.refuse_to_go_on()
                worker.await_birth()
                return worker
            except WorkerLostError as error:
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
                if template and lost_template and is_current and not template.is_loaded and self.settings.preload:
                    # Perhaps one of the modules ended it, or hangs: the next one has none of them.
                    self.settings = self.settings._replace(preload=())
                    logger.warning("workers are started without preloaded modules (%s)", why)
            if template and lost_template:
                self.drop_template(template)
        raise _LostError(f"RuntimeError: no worker could be started ({why})")

    def end_worker(self, thread: "_WorkerThread", why: str = "") -> None:
        """End a thread's worker, if it has one; `why` is what it is counted under."""
        with self.lock:
            if thread.worker is not None:
                thread.worker.end()
                thread.worker = None
                self.counts[why] += 1

    def drop_template(self, lost: Template | None = None) -> None:
        """Have the next worker come from another template; one that is not lost goes on until its workers end."""
        with self.lock:
            template = self.template
            if template is None or lost not in (None, template):
                return
            self.template = None
            if lost is None:
                template.let_go()
                self.dropped.append(template)
        if lost is not None:
            lost.close()

    def dismiss(self) -> None:
        """Have the threads end when all is done. Takes no lock, since the garbage collector calls it."""
        self.is_ending = True
        threads = [*self.threads]
        for thread in threads:
            thread.give(None)
        if not threads:
            self.end_templates()

    def close(self) -> None:
        """End all workers and threads, and wait for that; what is not done is lost."""
        self.is_closed = True
        self.dismiss()
        with self.lock:
            queue, threads = [*self.queue], [*self.threads]
            self.queue.clear()
            for thread in threads:
                if thread.worker is not None:
                    thread.worker.interrupt()
        for task in queue:
            task.settle(Outcome(kind="lost", message=UNDONE))
        if threading.current_thread() not in threads:
            for thread in threads:
                thread.join()
            self.end_templates()

    def end_templates(self) -> None:
        """End the templates once the last thread has ended its worker."""
        templates, self.template, self.dropped = [self.template, *self.dropped], None, []
        for template in templates:
            if template is not None:
                template.close()


class _WorkerThread(threading.Thread):
    """Does one task after another, in a worker process of its own."""

    def __init__(self, crew: _Crew, task: PoolTask) -> None:
        super().__init__(name="assay-isolation", daemon=True)
        self.task: PoolTask | None = task
        """What it does, changed only under the crew's lock: giving a task up must not hit the next one."""
        self.worker: WorkerProcess | None = None
        self.crew = crew
        # Safe to put into from the garbage collector, whatever this thread is doing at that moment.
        self._inbox: SimpleQueue[PoolTask | None] = SimpleQueue()

    def give(self, task: PoolTask | None) -> None:
        """Have it do a task; None has it look whether it is to end."""
        if task is not None:
            self.task = task
        self._inbox.put(task)

    def run(self) -> None:
        crew, task = self.crew, self.task
        while task is not None:
            outcome = self._outcome(task) if task.set_running_or_notify_cancel() else None
            with crew.lock:  # free before the caller is told, who may call again at once
                following = self.task = crew.queue.popleft() if crew.queue else None
                if following is None:
                    crew.idle.append(self)
            task.settle(outcome)
            del (task, outcome)  # or the pool would live as long as this thread has nothing else to do
            task = following or self._following()
        crew.end_worker(self)
        with crew.lock:
            crew.threads.discard(self)
        if crew.is_ending and not crew.threads:
            crew.end_templates()

    def _following(self) -> PoolTask | None:
        """The next task; None when there was none for long, or there will be none."""
        task = None
        with suppress(Empty):
            task = self._inbox.get(timeout=IDLE)
        with self.crew.lock:
            if task is None and self not in self.crew.idle:
                task = self.task  # given a moment ago
            elif task is None:
                self.crew.idle.remove(self)
        return task

    def refuse_to_go_on(self) -> None:
        """Raise `_LostError` when nothing can come of its task any more."""
        if self.task is not None and self.task.is_abandoned:
            raise _LostError("CancelledError: it was given up")
        if self.crew.is_closed:
            raise _LostError(UNDONE)

    def _outcome(self, task: PoolTask) -> Outcome:
        """The outcome of a task, from a second worker when the first was lost and that need not be the task's fault."""
        crew = self.crew
        try:
            for attempt in count(1):
                worker = self._given(task.work)
                try:
                    outcome = worker.answer(task.work)
                except WorkerLostError as error:
                    self.refuse_to_go_on()
                    crew.end_worker(self, "killed" if error.status is None and error.kind == "crashed" else "")
                    if error.is_final or attempt >= ATTEMPTS:
                        return error.outcome()
                    continue
                if worker.is_busy:
                    crew.end_worker(self, "killed")
                elif worker.is_spent or worker.tasks >= crew.recycle_after:
                    crew.end_worker(self, "recycled")
                return outcome
        except _LostError as error:
            crew.end_worker(self, "killed")
            return Outcome(kind="lost", message=str(error))
        except Exception as error:
            logger.exception("a thread of the pool of workers failed; its task is lost")
            crew.end_worker(self)
            return Outcome(kind="lost", message=described(error))
        raise AssertionError("unreachable")

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
    """How many processors this process may use: in a container, fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def counts_waiting() -> bool:
    """Whether this system tells how long a process has waited for a processor."""
    return os.path.exists("/proc/self/schedstat")  # noqa: PTH110


_pools: "weakref.WeakSet[Pool]" = weakref.WeakSet()


@atexit.register
def _end_all() -> None:
    """Leave no process behind when the interpreter ends."""
    for pool in [*_pools]:
        if pool.crew.owner == os.getpid():
            pool.crew.close()


def _after_fork() -> None:
    """Begin anew in a forked child: the threads are not here, and the workers are the parent's."""
    global _shared_lock
    _shared_lock = threading.Lock()  # another thread may have held the old one
    for pool in [*_pools]:
        pool.finalizer.detach()
        for template in (pool.crew.template, *pool.crew.dropped):
            if template is not None:
                template.disown()
        pool.begin_anew()


os.register_at_fork(after_in_child=_after_fork)
