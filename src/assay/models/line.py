"""Line: tasks that wait their turn, from any event loop of the process.

Limits belong to an endpoint, and event loops come and go: a sync door runs its own, a notebook has
another. An asyncio lock belongs to one loop and is dead with it, so the waiting is done here.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import NamedTuple


class Line:
    """Tasks in the order they came, but for those let ahead, each served once.

    The caller locks around `serve`.
    """

    __slots__ = ("_give_back", "_waiting")

    def __init__(self, give_back: Callable[[], None]) -> None:
        """`give_back` is called when somebody was served who has left meanwhile."""
        self._give_back = give_back
        self._waiting: deque[_Place] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def join(self, *, first: bool = False, rank: int = 0) -> "asyncio.Future[None]":
        """A place to be given to `wait`: at the head, or behind all of the same or a lower rank.

        Callers join under their lock.
        """
        loop = asyncio.get_running_loop()
        place = _Place(loop, loop.create_future(), rank)
        if first:
            self._waiting.appendleft(place)
        elif not self._waiting or self._waiting[-1].rank <= rank:
            self._waiting.append(place)
        else:
            ahead = next(at for at, other in enumerate(self._waiting) if other.rank > rank)
            self._waiting.insert(ahead, place)
        return place.future

    async def wait(self, place: "asyncio.Future[None]") -> None:
        """Wait until served. Cancelled at the last moment, what was served is given back."""
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                self._give_back()
            raise

    def serve(self) -> bool:
        """Let the first go who still waits; whether there was anybody."""
        here = _running_loop()
        while self._waiting:
            loop, place, _ = self._waiting.popleft()
            if place.done():
                continue
            if loop is here:
                place.set_result(None)
                return True
            try:
                loop.call_soon_threadsafe(self._tell, place)
            except RuntimeError:
                # That loop is closed, and whoever waited in it is gone.
                continue
            return True
        return False

    def _tell(self, place: "asyncio.Future[None]") -> None:
        if place.done():
            self._give_back()
        else:
            place.set_result(None)


class _Place(NamedTuple):
    """Somebody who waits, and where."""

    loop: asyncio.AbstractEventLoop
    future: "asyncio.Future[None]"
    rank: int


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
