"""Pace: so many requests and tokens a minute, and no more."""

import threading
import time
from collections.abc import Callable

BURST = 6.0
"""Seconds' worth of allowance that may be used at once after a rest."""


class Pace:
    """An allowance that fills up evenly. What it lacks is waited for; one call may overdraw it.

    >>> pace = Pace(per_minute=60, clock=lambda: 0.0)
    >>> [pace.take(1) for _ in range(9)]
    [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 2.0]
    """

    def __init__(
        self, per_minute: float | None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._lock = threading.Lock()
        self._clock = clock
        self.bound(per_minute)

    def bound(self, per_minute: float | None) -> None:
        """Allow this much a minute; None is no limit."""
        self.rate = None if per_minute is None else per_minute / 60
        # The time at which the allowance is as full as it gets, less what was taken since.
        self._full_at = float("-inf")

    def take(self, amount: float) -> float:
        """Take some of the allowance; the seconds to wait before using it."""
        if self.rate is None:
            return 0.0
        with self._lock:
            now = self._clock()
            start = max(self._full_at, now)
            self._full_at = start + amount / self.rate
            return max(0.0, start - now - BURST)

    def give_back(self, amount: float) -> None:
        """Correct what was taken by a guess; negative when it was too little."""
        if self.rate is not None:
            with self._lock:
                self._full_at -= amount / self.rate
