"""Run coroutines side by side, cheaply, and from anywhere."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar, cast

Item = TypeVar("Item")
Result = TypeVar("Result")

SIDE_BY_SIDE = 1024
"""How many pieces of work are under way at once unless said otherwise."""


async def side_by_side(
    work: Callable[[Item], Awaitable[Result]], items: Sequence[Item], *, limit: int = SIDE_BY_SIDE
) -> list[Result]:
    """The results of `work` on each item, in order. The first exception cancels the rest.

    The caller itself walks through the items; further walkers join only once it has to wait, so
    work that never waits costs no task at all.
    """
    if len(items) == 1:
        return [await work(items[0])]
    walk = _Walk(work, items, limit)
    try:
        async with asyncio.TaskGroup() as walk.group:
            joining = asyncio.get_running_loop().call_soon(walk.join)
            await walk.on()
            joining.cancel()
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
    if walk.broken:
        raise asyncio.CancelledError
    return walk.results


class _Walk:
    """Items that several walkers take one by one from a shared queue."""

    __slots__ = ("broken", "group", "left", "limit", "queue", "results", "walkers", "work")

    group: asyncio.TaskGroup

    def __init__(
        self, work: Callable[[Any], Awaitable[Any]], items: Sequence[Any], limit: int
    ) -> None:
        self.work = work
        self.queue = iter(enumerate(items))
        self.results: list[Any] = [None] * len(items)
        self.left = len(items)
        """Items that nobody has taken yet."""
        self.limit = min(limit, len(items))
        self.walkers = 1
        self.broken = False

    async def on(self) -> None:
        work, results = self.work, self.results
        try:
            for index, item in self.queue:
                self.left -= 1
                results[index] = await work(item)
        except BaseException:
            # A task group passes over a cancelled member; a missing result must not be passed over.
            self.broken, self.left = True, 0
            raise

    def join(self) -> None:
        """Double the walkers; again as soon as all of them wait."""
        more = min(self.walkers, self.limit - self.walkers, self.left)
        for _ in range(more):
            self.group.create_task(self.on())
        self.walkers += more
        if self.left and self.walkers < self.limit:
            asyncio.get_running_loop().call_soon(self.join)


async def together(
    first: Coroutine[Any, Any, Item], second: Coroutine[Any, Any, Result]
) -> tuple[Item, Result]:
    """Both results. When one fails the other is cancelled, and waited for, before the error goes on."""
    try:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(first)
            result = await second
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return task.result(), result


def run_sync(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """The result of a coroutine, from synchronous code; also inside a running loop (a notebook)."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coroutine)
    return _run_in_thread(coroutine)


def _run_in_thread(coroutine: Coroutine[Any, Any, Result]) -> Result:
    outcome: dict[str, Any] = {}

    def target() -> None:
        try:
            outcome["result"] = asyncio.run(coroutine)
        except BaseException as error:  # noqa: BLE001 - handed to the caller's thread
            outcome["error"] = error

    thread = threading.Thread(target=target, name="assay-sync-door")
    thread.start()
    thread.join()
    if "error" in outcome:
        raise outcome["error"]
    return cast("Result", outcome["result"])
