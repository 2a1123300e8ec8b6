"""Breaker: when an endpoint is down, one call at a time finds out whether it is back.

Everybody else waits. When the outage lasts, they fail at once instead, with what went wrong last.
"""

import asyncio
import threading
import time
from collections.abc import Callable

from assay.errors import CircuitOpen

FAILURES = 8
"""So many failures in a row, and nothing but failures, are an outage."""
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 15.0
"""Seconds between two looks at whether it is back."""
GLANCE = 0.1
"""Seconds between two looks of a waiting call at what was found out."""


class Breaker:
    """Counts failures in a row; `admit` before every attempt, then `succeeded` or `failed`."""

    def __init__(
        self, where: str, outage: float, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.where = where
        self.outage = outage
        self._clock = clock
        self._lock = threading.Lock()
        self._failures = 0
        self.is_open = False
        """Whether the endpoint is taken to be down."""
        self._down_since = 0.0
        self._next = 0.0
        self._pause = FIRST_PAUSE
        self._last = ""

    def succeeded(self) -> None:
        """An answer came, be it a refusal: the endpoint is there."""
        if self._failures:
            with self._lock:
                self._failures, self.is_open, self._pause = 0, False, FIRST_PAUSE

    def failed(self, why: str) -> None:
        """No answer, or the endpoint's own fault."""
        with self._lock:
            now = self._clock()
            self._failures += 1
            self._last = why
            if self.is_open:
                self._pause = min(LONGEST_PAUSE, self._pause * 2)
                self._next = now + self._pause
            elif self._failures >= FAILURES:
                self.is_open, self._down_since = True, now
                self._next = now + self._pause

    async def admit(self) -> bool:
        """Wait until the endpoint may be asked; whether to find out if it is back.

        Raises `CircuitOpen` when that is not to be expected soon.
        """
        while self.is_open:
            if self._may_probe():
                return True
            now = self._clock()
            if now - self._down_since > self.outage:
                raise CircuitOpen(
                    f"{self.where} has failed for {now - self._down_since:.0f} s, and is not asked "
                    f"for now; it was {self._last}: see whether it is up, and run again"
                )
            await asyncio.sleep(GLANCE)
        return False

    def _may_probe(self) -> bool:
        """Whether it is this call's turn to find out."""
        with self._lock:
            if self._clock() < self._next:
                return False
            # Also when this one is never heard of again: the next has its turn then.
            self._next = self._clock() + self._pause
            return True
