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
# Returns whether more work would be served now, for work that ends up in a bottleneck such as a
# rate-limited model. Work that starts too early only waits there.
HasRoom: TypeAlias = Callable[[], bool] | None

MAX_CONCURRENT = 1024  # the default limit of concurrent pieces of work
# How many workers may start per turn of the event loop if there is a `Room`; starting more at once
# would delay everything else in the loop.
STARTS_PER_TURN = 2
ROOM_POLL_SECONDS = 0.005  # how often `Room` is asked again after it said no
MAX_BUSY_SECONDS = 0.002  # how long `each` works before it lets the event loop do other work
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
    """Return True if an error means that this code has to stop, and not that other code failed."""
    if not isinstance(error, asyncio.CancelledError):
        # Closing a coroutine raises GeneratorExit in it.
        return isinstance(error, KeyboardInterrupt | GeneratorExit)
    try:
        task = asyncio.current_task()
    except RuntimeError:  # there is no event loop, so nothing of ours can be cancelled
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

    At most `limit` run at the same time. The first exception cancels the rest and is raised.
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
    """Run up to `limit` calls of `process`, which share the indices from 0 to `count` - 1.

    The caller's task runs the first call; more are started only when it waits. So work that never
    waits needs no task. The first exception cancels the rest and is raised.
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
                # Runs as soon as the caller's task waits for the first time.
                first_growth = self._loop.call_soon(self._grow)
                await self._work()
                first_growth.cancel()
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None
        # A task group ignores a task that was cancelled, but then a result is missing.
        if self._has_failed:
            raise asyncio.CancelledError

    async def _work(self) -> None:
        try:
            await self._process(self._indices)
        except BaseException:
            self._has_failed = True
            raise

    def _grow(self) -> None:
        """Start as many new workers as there are, and again in the next turn of the event loop."""
        remaining = length_hint(self._indices)
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
    """Return the results of a function for all items, with pauses for the event loop."""
    results: list[Result] = []
    pause_at = time.perf_counter() + MAX_BUSY_SECONDS
    for item in items:
        results.append(function(item))
        if time.perf_counter() > pause_at:
            await asyncio.sleep(0)
            pause_at = time.perf_counter() + MAX_BUSY_SECONDS
    return results


def run_without_waiting(coroutine: Coroutine[Any, Any, Result]) -> Result | None:
    """Return the result of a coroutine that does not have to wait; None if it has to.

    The coroutine runs outside any task, so it must not use `asyncio.current_task`.
    """
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value
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
    """Run blocking work in a daemon thread, so that it cannot keep the program from exiting."""
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
