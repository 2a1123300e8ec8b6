"""Gate: how many scoring requests are under way, which more may come in, and what ends them all."""

import asyncio

from assay.server.refusals import AGAIN, Refusal
from assay.server.settings import Bounds


class Gate:
    """Counts requests and their bytes in and out. Health and metrics do not pass through it."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self.requests = 0
        self.bytes = 0
        self._came = 0
        self.draining = False
        """Whether what comes in now is refused, since the server is about to stop."""

    def enter(self, size: int) -> None:
        """Count a request of that size in, or refuse it."""
        if self.draining:
            raise stopping()
        # What never waits is done before the next comes in, and so never more than one under way.
        # Those who came at the same time are as many, though, and the last of them waits for all.
        if not self._came:
            asyncio.get_running_loop().call_soon(self._forget)
        self._came += 1
        if max(self.requests, self._came - 1) >= self._bounds.at_once:
            raise Refusal(429, f"{self._bounds.at_once} requests are under way: come back", AGAIN)
        if self.requests and self.bytes + size > self._bounds.all_bytes:
            raise Refusal(429, f"requests of {self.bytes} bytes are under way: come back", AGAIN)
        self.requests += 1
        self.bytes += size

    def _forget(self) -> None:
        self._came = 0

    def leave(self, size: int) -> None:
        """Count it out."""
        self.requests -= 1
        self.bytes -= size


def stopping() -> Refusal:
    """What is said to those who come too late, and to those who took too long."""
    return Refusal(503, "the server is stopping: ask again, perhaps another one", AGAIN)
