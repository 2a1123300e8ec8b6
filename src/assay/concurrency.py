"""Run coroutines concurrently at low cost, and from synchronous code."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextvars import ContextVar, copy_context
from operator import length_hint
from typing import Any, Final, Generic, TypeAlias, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")
# A function that returns whether more work should be started now. It is given for work that calls
# something with a limit, such as a model with a rate limit: work that starts too early only waits.
HasRoom: TypeAlias = Callable[[], bool] | None

MAX_CONCURRENT = 1024  # the default limit of concurrent pieces of work
# How many workers may start per turn of the event loop if there is a `has_room`; starting more at
# once would delay everything else in the loop.
STARTS_PER_TURN = 2
ROOM_POLL_SECONDS = 0.005  # how long to wait before `has_room` is called again after it said no
MAX_BUSY_SECONDS = 0.002  # how long `map_with_pauses` works before the event loop has its turn
# What the code of others may raise, including `exit()` and its own cancellation. A handler for this
# must re-raise an error for which `is_stop_request` is true.
FAILURES: Final = BaseException


class set_variable(Generic[Item]):  # noqa: N801 - used like a function; a generator takes 4 times as long
    """Context manager that sets a context variable inside the block."""

    def __init__(self, variable: ContextVar[Any], value: Item) -> None:
        self._variable = variable
        self._value = value

    def __enter__(self) -> Item:
        self._token = self._variable.set(self._value)
        return self._value

    def __exit__(self, *_: object) -> None:
        self._variable.reset(self._token)


def is_stop_request(error: BaseException) -> bool:
    """Return True if an error asks this code to stop; False if other code failed.

    A `CancelledError` asks this code to stop only if the current task was cancelled. Otherwise
    other code raised it.
    """
    if isinstance(error, KeyboardInterrupt | GeneratorExit):  # GeneratorExit: it is being closed
        return True
    if not isinstance(error, asyncio.CancelledError):
        return False
    try:
        task = asyncio.current_task()
    except RuntimeError:  # there is no event loop, so no task was cancelled
        return False
    return task is not None and task.cancelling() > 0


async def run_concurrently(
    work: Callable[[Item], Awaitable[Result]],
    items: Sequence[Item],
    *,
    limit: int = MAX_CONCURRENT,
    has_room: HasRoom = None,
) -> list[Result]:
    """Run `work` on all items concurrently and return the results in the order of the items.

    At most `limit` run at the same time. More are started only while `has_room` returns True. The
    first exception cancels the rest and is raised.
    """
    if len(items) == 1:
        return [await work(items[0])]
    results: list[Any] = [None] * len(items)

    async def process(indices: Iterator[int]) -> None:
        for index in indices:
            results[index] = await work(items[index])

    await run_workers(process, len(items), limit=limit, has_room=has_room)
    return results


async def run_workers(
    process: Callable[[Iterator[int]], Coroutine[Any, Any, None]],
    count: int,
    *,
    limit: int = MAX_CONCURRENT,
    has_room: HasRoom = None,
) -> None:
    """Run up to `limit` calls of `process` concurrently until all indices below `count` are used.

    All calls take their indices from one iterator over `range(count)`, so each index is processed
    by one of them. The caller's task runs the first call. More calls are started only when this
    one waits, and only while `has_room` returns True, so work that never waits needs no new task.
    The first exception cancels the rest and is raised.
    """
    await _WorkerGroup(process, count, limit, has_room).run()


class _WorkerGroup:
    """Workers that take indices from one shared iterator. Their number doubles while they wait."""

    def __init__(
        self,
        process: Callable[[Iterator[int]], Coroutine[Any, Any, None]],
        count: int,
        limit: int,
        has_room: HasRoom,
    ) -> None:
        self._process = process
        self._indices = iter(range(count))
        self._limit = min(limit, count)
        self._has_room = has_room
        self._worker_count = 1  # the caller's task is the first worker
        self._has_failed = False
        self._loop = asyncio.get_running_loop()
        self._tasks = asyncio.TaskGroup()

    async def run(self) -> None:
        """Return when all indices are processed; raise the first exception of a worker."""
        try:
            async with self._tasks:
                # The loop calls `_grow` as soon as this task waits for the first time. If it never
                # waits, all work is already done and the call is cancelled.
                first_growth = self._loop.call_soon(self._grow)
                await self._work()
                first_growth.cancel()
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None
        # The task group raises nothing if a worker was cancelled, but then a result is missing.
        if self._has_failed:
            raise asyncio.CancelledError

    async def _work(self) -> None:
        """Run one worker, and record if it fails or is cancelled."""
        try:
            await self._process(self._indices)
        except BaseException:
            self._has_failed = True
            raise

    def _grow(self) -> None:
        """Double the number of workers, and call this again in the next turn of the event loop.

        To start a task for every index at once would be a waste if the first workers finish all
        the work quickly.
        """
        remaining = length_hint(self._indices)  # the number of indices that no worker has taken
        if self._has_failed or remaining == 0:
            return
        if self._has_room is not None and not self._has_room():
            self._loop.call_later(ROOM_POLL_SECONDS, self._grow)
            return
        new_workers = min(self._worker_count, self._limit - self._worker_count, remaining)
        if self._has_room is not None:
            new_workers = min(new_workers, STARTS_PER_TURN)
        for _ in range(new_workers):
            self._tasks.create_task(self._work())
        self._worker_count += new_workers
        if self._worker_count < self._limit:
            self._loop.call_soon(self._grow)


async def map_with_pauses(
    function: Callable[[Item], Result], items: Iterable[Item]
) -> list[Result]:
    """Return the results of a synchronous function for all items, in order.

    It pauses every few milliseconds, so that the event loop can run other tasks.
    """
    results: list[Result] = []
    pause_at = time.perf_counter() + MAX_BUSY_SECONDS
    for item in items:
        results.append(function(item))
        if time.perf_counter() > pause_at:
            await asyncio.sleep(0)
            pause_at = time.perf_counter() + MAX_BUSY_SECONDS
    return results


def run_without_waiting(coroutine: Coroutine[Any, Any, Result]) -> Result | None:
    """Run a coroutine and return its result; if it has to wait, stop it and return None.

    The coroutine runs outside any task, so it must not use `asyncio.current_task`.
    """
    try:
        coroutine.send(None)  # runs the coroutine until it ends or waits
    except StopIteration as end:
        return end.value
    coroutine.close()
    return None


def run_sync(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine from synchronous code, also inside a running event loop (a notebook)."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coroutine)
    # This thread already runs a loop, so the coroutine gets a loop in another thread.
    return run_in_thread(lambda: asyncio.run(coroutine)).result()


def run_in_thread(work: Callable[[], Result]) -> Future[Result]:
    """Start blocking work in a new thread and return a future of its result.

    The thread is a daemon, so that the program can exit while the work runs. The work sees the
    context variables of the caller.
    """
    future: Future[Result] = Future()
    future.set_running_or_notify_cancel()  # from now on the future cannot be cancelled
    context = copy_context()

    def run_work() -> None:
        try:
            future.set_result(context.run(work))
        except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
            future.set_exception(error)

    threading.Thread(target=run_work, name="assay-in-thread", daemon=True).start()
    return future


class LoopThread:
    """An event loop in its own thread, so that blocking code does not stop other loops.

    The thread is a daemon: code that never returns does not keep the program from exiting.
    """

    def __init__(self) -> None:
        """Start the thread, and wait until its loop runs."""
        # The new thread hands over its loop, and the event that stops it.
        started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Future()

        async def run_until_stopped() -> None:
            stopped = asyncio.Event()
            started.set_result((asyncio.get_running_loop(), stopped))
            await stopped.wait()

        thread = threading.Thread(
            target=lambda: asyncio.run(run_until_stopped()),
            name="assay-loop",
            daemon=True,
        )
        thread.start()
        self._loop, self._stopped = started.result()

    def submit(self, coroutine: Coroutine[Any, Any, Result]) -> Future[Result]:
        """Start a coroutine in this loop and return a future that any thread can wait for."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def start(self, coroutine: Coroutine[Any, Any, Result]) -> "asyncio.Future[Result]":
        """Start a coroutine in this loop and return a future to await in the caller's loop."""
        return asyncio.wrap_future(self.submit(coroutine))

    def stop(self) -> None:
        """Cancel what is running, as soon as the loop is free, and end the thread."""
        self._loop.call_soon_threadsafe(self._stopped.set)


async def call_in_thread(work: Callable[[], Result]) -> Result:
    """Call a function in a thread of its own, and return its result. Context variables are copied.

    The thread is a daemon and not one of a pool: a few calls that never return would use a pool up.
    """
    future: Future[Result] = Future()
    context = copy_context()

    def run() -> None:
        if not future.set_running_or_notify_cancel():
            return
        try:
            future.set_result(context.run(work))
        except BaseException as error:  # noqa: BLE001 - the caller is told, whatever it is
            future.set_exception(error)

    threading.Thread(target=run, name="assay-call", daemon=True).start()
    return await asyncio.wrap_future(future)
