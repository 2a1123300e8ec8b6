"""Run coroutines side by side, cheaply, and from anywhere."""

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
# Whether more would get through the narrow place all work ends up in, where there is one: what begins too early only
# waits.
Room: TypeAlias = Callable[[], bool] | None

SIDE_BY_SIDE = 1024  # how many pieces of work are under way at once unless said otherwise
AT_ONCE = 2  # how many begin in one turn of the loop where there has to be room: more would hold up the rest
BREATH = 0.002  # seconds of work in one go that holds up nothing else in the loop
GLANCE = 0.005  # seconds between two looks at whether there is room
# What code that is not ours may fail with: also `exit()`, or a cancellation of its own. Look at `is_stop` before
# making light of one.
FAILURES: Final = BaseException


class setting(Generic[Item]):  # noqa: N801 - read as a function; a generator takes four times as long
    """Have a context variable hold a value inside the block."""

    def __init__(self, variable: ContextVar[Any], value: Item) -> None:
        self._variable, self._value = variable, value

    def __enter__(self) -> Item:
        self._token = self._variable.set(self._value)
        return self._value

    def __exit__(self, *_: object) -> None:
        self._variable.reset(self._token)


def is_stop(error: BaseException) -> bool:
    """Whether an error means that we are to stop, and not that something inside failed."""
    if isinstance(error, asyncio.CancelledError):
        try:
            task = asyncio.current_task()
        except RuntimeError:  # no loop, so nothing of ours is cancelled
            return False
        return task is not None and task.cancelling() > 0
    # A coroutine that is closed is told so by GeneratorExit.
    return isinstance(error, KeyboardInterrupt | GeneratorExit)


async def side_by_side(
    work: Callable[[Item], Awaitable[Result]],
    items: Sequence[Item],
    *,
    limit: int = SIDE_BY_SIDE,
    room: Room = None,
) -> list[Result]:
    """Return the results of `work` on each item, in order; the first exception cancels the rest."""
    if len(items) == 1:
        return [await work(items[0])]
    results: list[Any] = [None] * len(items)

    async def walk(places: Iterator[int]) -> None:
        for place in places:
            results[place] = await work(items[place])

    await walk_together(walk, len(items), limit=limit, room=room)
    return results


async def walk_together(
    walk: Callable[[Iterator[int]], Coroutine[Any, Any, None]],
    count: int,
    *,
    limit: int = SIDE_BY_SIDE,
    room: Room = None,
) -> None:
    """Have `walk` take every place from 0 to `count`, by as many walkers as there is waiting to do.

    The caller takes places itself, and walkers join only once it waits: work that never waits costs no task.
    """
    places = iter(range(count))
    limit = min(limit, count)
    number, broken = 1, False
    loop = asyncio.get_running_loop()

    async def walk_on() -> None:
        nonlocal broken
        try:
            await walk(places)
        except BaseException:
            # A task group passes over a cancelled member; a missing result must not be passed over.
            broken = True
            raise

    def join() -> None:
        """Double the walkers; again as soon as all of them wait, or when there is room."""
        nonlocal number
        left = 0 if broken else length_hint(places)
        if left and room is not None and not room():
            loop.call_later(GLANCE, join)
            return
        most = number if room is None else min(number, AT_ONCE)
        more = min(most, limit - number, left)
        for _ in range(more):
            group.create_task(walk_on())
        number += more
        if left and number < limit:
            loop.call_soon(join)

    try:
        async with asyncio.TaskGroup() as group:
            joining = loop.call_soon(join)
            await walk_on()
            joining.cancel()
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
    if broken:
        raise asyncio.CancelledError


async def each(function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """Return what a function gives for each item, with room in between for other work of the event loop."""
    results: list[Result] = []
    resume = time.perf_counter() + BREATH
    for item in items:
        results.append(function(item))
        if time.perf_counter() > resume:
            await asyncio.sleep(0)
            resume = time.perf_counter() + BREATH
    return results


def at_once(coroutine: Coroutine[Any, Any, Result]) -> Result | None:
    """Return what a coroutine gives without waiting, else None. It runs in no task, so it must not ask for one."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value
    coroutine.close()
    return None


def run_sync(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """The result of a coroutine, from synchronous code; also inside a running loop (a notebook)."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coroutine)
    # A loop is running here, so another one runs in a thread.
    return in_thread(lambda: asyncio.run(coroutine)).result()


def in_thread(work: Callable[[], Result]) -> Future[Result]:
    """The result of work that may block, from a daemon thread: if it never returns, the program can end all the same."""
    outcome: Future[Result] = Future()
    outcome.set_running_or_notify_cancel()  # from now on a caller can only stop waiting
    context = copy_context()

    def target() -> None:
        try:
            outcome.set_result(context.run(work))
        except BaseException as error:  # noqa: BLE001 - handed to the caller's thread
            outcome.set_exception(error)

    threading.Thread(target=target, name="assay-in-thread", daemon=True).start()
    return outcome


class LoopThread:
    """An event loop in a thread of its own, so that code which blocks holds up no other loop.

    The thread is a daemon: code that never returns does not keep the program from ending.
    """

    def __init__(self) -> None:
        started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Future()

        async def main() -> None:
            stopped = asyncio.Event()
            started.set_result((asyncio.get_running_loop(), stopped))
            await stopped.wait()

        threading.Thread(target=lambda: asyncio.run(main()), name="assay-loop", daemon=True).start()
        self._loop, self._stopped = started.result()

    def submit(self, coroutine: Coroutine[Any, Any, Result]) -> Future[Result]:
        """Start a coroutine there; the future may be waited for in any thread."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def start(self, coroutine: Coroutine[Any, Any, Result]) -> "asyncio.Future[Result]":
        """Start a coroutine there; the future belongs to the loop of the caller."""
        return asyncio.wrap_future(self.submit(coroutine))

    def stop(self) -> None:
        """Cancel what is under way as soon as the loop is free, and end the thread."""
        self._loop.call_soon_threadsafe(self._stopped.set)
