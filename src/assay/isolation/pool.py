"""Pool: worker processes for code that must not hang."""

import asyncio
import os
import threading
import weakref
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from assay.isolation.clock import clock_kind
from assay.isolation.dispatcher import Dispatcher, Limits
from assay.isolation.lifetime import watch_dispatcher, watch_pool
from assay.isolation.outcome import Outcome
from assay.isolation.packing import Function, Functions, packed_arguments
from assay.isolation.settings import Settings
from assay.isolation.task import Task, Work
from assay.wording import shown

Result = TypeVar("Result")

MEMORY: Final = 1 << 30
"""Bytes that a worker may take, unless said otherwise: 1 GiB."""
LOOK_UP: Final = 0.5
"""Seconds after which a thread that waits looks whether somebody pressed Ctrl-C."""


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
    """Callers waiting because the queue is full."""
    started: int
    """Workers started, all told."""
    killed: int
    """Workers killed at a deadline, or because nobody waited any more."""
    recycled: int
    """Workers replaced after many tasks, or because they had taken much memory."""


class Pool:
    """Runs functions in worker processes, each call with a deadline that holds.

    The deadline counts work: not the wait for a worker, nor for a processor. At the deadline the
    worker is killed and replaced. Workers start when there is work, at most `max_workers` (as many
    as there are processors), and go when there is none. `preload` names modules that workers have
    from birth. `memory` is what a worker may take, in bytes. Whoever submits more than
    `queue_size` tasks that nobody works on yet waits.

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
        modules = tuple(dict.fromkeys(preload))
        self._settings = Settings(preload=modules, memory=memory, clock=clock_kind())
        self._limits = Limits(workers, queue_size, recycle_after, idle_seconds)
        self._closed = False
        self.begin_anew()
        watch_pool(self)

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
        dispatcher = self._dispatcher_now()
        task = self._task(dispatcher, function, args, keywords, timeout, hard_timeout)
        try:
            # Whoever calls from the callback of a future is in the one thread that makes room.
            turn = None if dispatcher.is_own_thread() else dispatcher.room.enter(task)
            if turn is not None:
                _waited(turn)
            dispatcher.put(task)
        except BaseException:
            dispatcher.abandon(task)
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
        task = self.submit(
            function, *args, timeout=timeout, hard_timeout=hard_timeout, keywords=keywords
        )
        try:
            return _waited(task)
        except BaseException:
            self._abandon(task)
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
        dispatcher = self._dispatcher_now()
        task = self._task(dispatcher, function, args, keywords, timeout, hard_timeout)
        try:
            turn = dispatcher.room.enter(task)
            if turn is not None:
                await _awaited(turn)
            dispatcher.put(task)
            return await _awaited(task)
        except BaseException:
            dispatcher.abandon(task)
            raise

    def preload(self, *modules: str) -> None:
        """Let workers have these modules from birth too. Those there are do without."""
        with self._lock:
            known = self._settings.preload
            wanted = tuple(dict.fromkeys((*known, *modules)))
            if wanted == known:
                return
            self._settings = replace(self._settings, preload=wanted)
            if self._dispatcher is not None:
                self._dispatcher.settings = self._settings

    def start(self) -> None:
        """Load what is to be preloaded now, so that the first call need not wait for it."""
        self._dispatcher_now().start()

    def stats(self) -> PoolStats:
        """How many workers and tasks there are, and what became of workers so far."""
        dispatcher = self._dispatcher
        if dispatcher is None:
            return PoolStats(0, 0, 0, 0, 0, 0, 0)
        crew = dispatcher.crew
        handles = [*crew.handles.values()]
        return PoolStats(
            workers=len(handles),
            running=sum(handle.task is not None for handle in handles),
            queued=dispatcher.queued(),
            waiting=dispatcher.room.waiting,
            started=crew.started,
            killed=crew.killed,
            recycled=crew.recycled,
        )

    def close(self) -> None:
        """End all workers. What is not done comes back as lost."""
        self._closed = True
        dispatcher = self._dispatcher
        if dispatcher is not None:
            dispatcher.close()

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
        dispatcher = self._dispatcher
        try:
            if kind is None and dispatcher is not None:
                wait(dispatcher.unfinished())
        finally:
            self.close()

    def begin_anew(self) -> None:
        """Have no workers and no thread, and get them when they are needed."""
        self._lock = threading.Lock()
        self._functions = Functions()
        self._dispatcher: Dispatcher | None = None

    def _task(
        self,
        dispatcher: Dispatcher,
        function: Function,
        args: tuple[Any, ...],
        keywords: Mapping[str, Any] | None,
        timeout: float,
        hard_timeout: float | None,
    ) -> Task:
        _refuse_no_time(timeout=timeout, hard_timeout=hard_timeout)
        packed = self._functions.packed(function)
        if packed.home is None:
            self.preload("cloudpickle")
        arguments = packed_arguments(args, keywords or {}, packed.name)
        work = Work(packed, arguments, timeout, hard_timeout)
        return Task(work, self, dispatcher.withdraw)

    def _abandon(self, task: Any) -> None:
        if self._dispatcher is not None:
            self._dispatcher.abandon(task)

    def _dispatcher_now(self) -> Dispatcher:
        dispatcher = self._dispatcher
        if dispatcher is not None and not dispatcher.closed:
            return dispatcher
        with self._lock:
            if self._closed:
                raise RuntimeError("the pool is closed: make a new one")
            if self._dispatcher is None or self._dispatcher.closed:
                self._dispatcher = Dispatcher(self._settings, self._limits)
                watch_dispatcher(self._dispatcher)
                # It may run anywhere, so it takes no lock and waits for nothing.
                weakref.finalize(self, self._dispatcher.close, wait=False).atexit = False
            return self._dispatcher


def processors() -> int:
    """How many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _waited(future: "Future[Result]") -> Result:
    """What a future of another thread holds, once it does."""
    while True:
        try:
            # Python does not see a signal that comes just before it waits, so it must look up.
            return future.result(LOOK_UP)
        except TimeoutError:
            if future.done():
                return future.result()


async def _awaited(future: "Future[Result]") -> Result:
    """What a future of another thread holds, once it does."""
    loop = asyncio.get_running_loop()
    waiter: asyncio.Future[None] = loop.create_future()

    def wake() -> None:
        if not waiter.done():
            waiter.set_result(None)

    def tell(_: object) -> None:
        with suppress(RuntimeError):  # the loop is closed, so nobody waits
            loop.call_soon_threadsafe(wake)

    future.add_done_callback(tell)
    await waiter
    return future.result()


def _refuse_below(least: float, **values: float) -> None:
    for name, value in values.items():
        if not value >= least:
            raise ValueError(f"{name} is {shown(value)}: give {least:g} or more")


def _refuse_no_time(**values: float | None) -> None:
    for name, value in values.items():
        if value is not None and not 0 < value < float("inf"):
            raise ValueError(f"{name} is {shown(value)}: give a number of seconds above 0")
