"""Waiting for the future of another thread, in a thread or in an event loop."""

import asyncio
from concurrent.futures import Future
from contextlib import suppress
from typing import Final, TypeVar

Result = TypeVar("Result")

LOOK_UP: Final = 0.5
"""Seconds after which a thread that waits looks whether somebody pressed Ctrl-C."""


def waited(future: "Future[Result]") -> Result:
    """What a future holds, once it does."""
    while True:
        try:
            # Python does not see a signal that comes just before it waits, so it must look up.
            return future.result(LOOK_UP)
        except TimeoutError:
            if future.done():
                return future.result()


async def awaited(future: "Future[Result]") -> Result:
    """The same, while the event loop goes on."""
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
