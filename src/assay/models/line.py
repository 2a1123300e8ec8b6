"""Line: tasks that wait their turn, from any event loop of the process.

Limits belong to an endpoint, and event loops come and go: a sync door runs its own, a notebook has
another. An asyncio lock belongs to one loop and is dead with it, so the waiting is done here.
"""

import asyncio
from collections import deque
from collections.abc import Callable


class Line:
    """Tasks in the order they came, but for those let ahead, each served once.

    The caller locks around `serve`.
    """

    __slots__ = ("_give_back", "_waiting")

    def __init__(self, give_back: Callable[[], None]) -> None:
        """`give_back` is called when somebody was served who has left meanwhile."""
        self._give_back = give_back
        self._waiting: deque[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def join(self, *, first: bool = False) -> "asyncio.Future[None]":
        """A place at the end, or at the head, to be given to `wait`. Callers join under their lock."""
        loop = asyncio.get_running_loop()
        place: asyncio.Future[None] = loop.create_future()
        if first:
            self._waiting.appendleft((loop, place))
        else:
            self._waiting.append((loop, place))
        return place

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
            loop, place = self._waiting.popleft()
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


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
