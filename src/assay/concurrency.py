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

    A few tasks walk through the items together, and a further task starts only when all that run
    are waiting: work that never waits costs no task of its own.
    """
    if len(items) == 1:
        return [await work(items[0])]
    return await _Walk(work, items, limit).run() if items else []


class _Walk:
    def __init__(
        self, work: Callable[[Any], Awaitable[Any]], items: Sequence[Any], limit: int
    ) -> None:
        self.work = work
        self.queue = iter(enumerate(items))
        self.results: list[Any] = [None] * len(items)
        self.left = len(items)
        self.limit = min(limit, len(items))
        self.loop = asyncio.get_running_loop()
        self.tasks: list[asyncio.Task[None]] = []
        self.finished: asyncio.Future[None] = self.loop.create_future()

    async def run(self) -> list[Any]:
        self.ramp()
        try:
            await self.finished
        finally:
            for task in self.tasks:
                task.cancel()
            if self.left:
                # Let cancelled siblings unwind before the caller goes on.
                await asyncio.gather(*self.tasks, return_exceptions=True)
        return self.results

    def ramp(self) -> None:
        """Double the walkers; runs again as soon as all of them wait."""
        if self.finished.done() or not self.left:
            return
        for _ in range(min(max(1, len(self.tasks)), self.limit - len(self.tasks))):
            task = self.loop.create_task(self.walk())
            task.add_done_callback(self.ended)
            self.tasks.append(task)
        if len(self.tasks) < self.limit:
            self.loop.call_soon(self.ramp)

    async def walk(self) -> None:
        for index, item in self.queue:
            self.results[index] = await self.work(item)
            self.left -= 1

    def ended(self, task: asyncio.Task[None]) -> None:
        if self.finished.done():
            return
        if task.cancelled():
            self.finished.cancel()
        elif error := task.exception():
            self.finished.set_exception(error)
        elif not self.left:
            self.finished.set_result(None)


async def together(
    first: Coroutine[Any, Any, Item], second: Coroutine[Any, Any, Result]
) -> tuple[Item, Result]:
    """Both results. When one fails the other is cancelled, and waited for, before the error goes on."""
    task = asyncio.get_running_loop().create_task(first)
    try:
        result = await second
        return await task, result
    finally:
        if not task.done():
            task.cancel()
        await asyncio.gather(task, return_exceptions=True)


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
