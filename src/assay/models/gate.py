"""Gate: how many calls to one endpoint are under way at once. It finds out how many is good.

Calls are looked at in rounds of about as many as may be under way. A round without refusals, at
full use and not slower than before, lets the limit grow; refusals halve it. Some endpoints refuse
at random, whatever we do: a halving that only halved what gets through is taken back, and refusals
are put up with for a while. TCP knows no such case, and would stand still there.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from assay.models.line import Line

Outcome: TypeAlias = Literal["answered", "refused", "failed"]
"""What came of a call: an answer, a plea to be left alone (429, 503), or anything else."""

START, MOST = 16, 256
SHORTEST_ROUND = 8
SLOWER = 2.0
"""A round this much slower than the fastest is no reason to ask for more at once."""
COSTLY = 0.75
"""A halving after which less than this share gets through was for nothing."""
PATIENT_ROUNDS = 16
"""How long refusals are put up with after that."""


@dataclass(slots=True)
class _Round:
    start: float
    answered: int = 0
    refused: int = 0
    failed: int = 0
    seconds: float = 0.0
    full: bool = False
    """Whether somebody had to wait."""

    @property
    def calls(self) -> int:
        return self.answered + self.refused + self.failed


class Gate:
    """Lets so many through at once; use `enter` and `leave` around every attempt."""

    def __init__(
        self, concurrency: int | None = None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._lock = threading.Lock()
        self._line = Line(self._vacate)
        self._clock = clock
        self._round = _Round(clock())
        self._fastest = float("inf")
        self._before: tuple[float, float] | None = None
        self._patience = 0
        self._steep = True
        self.active = 0
        self.bound(concurrency)

    def bound(self, concurrency: int | None) -> None:
        """Allow this many at most; None leaves it to what the endpoint bears."""
        self.most = float(concurrency or MOST)
        self.limit = self.most if concurrency else float(START)
        """How many may be under way now."""

    @property
    def waiting(self) -> int:
        """How many wait to be let through."""
        return len(self._line)

    async def enter(self) -> None:
        """Wait for a place."""
        with self._lock:
            if self.active < int(self.limit):
                self.active += 1
                return
            self._round.full = True
            place = self._line.join()
        await self._line.wait(place)

    def leave(self, outcome: Outcome | None, seconds: float = 0.0) -> None:
        """Free the place again and tell what came of it; None when it was not used."""
        if outcome is not None:
            with self._lock:
                self._count(outcome, seconds)
        self._vacate()

    def _vacate(self) -> None:
        """One place less in use; whoever waits takes it, and more if the limit has grown."""
        with self._lock:
            self.active -= 1
            while self.active < int(self.limit) and self._line.serve():
                self.active += 1

    def _count(self, outcome: Outcome, seconds: float) -> None:
        current = self._round
        if outcome == "answered":
            current.answered += 1
            current.seconds += seconds
        elif outcome == "refused":
            current.refused += 1
        else:
            current.failed += 1
        if current.calls >= max(int(self.limit), SHORTEST_ROUND):
            now = self._clock()
            self._adapt(current, now)
            self._round = _Round(now, full=self.waiting > 0)

    def _adapt(self, done: _Round, now: float) -> None:
        through = done.answered / max(now - done.start, 1e-9)
        if self._before is not None:
            limit, earlier = self._before
            self._before = None
            if through < COSTLY * earlier:
                self.limit, self._patience = min(limit, self.most), PATIENT_ROUNDS
                return
        if done.refused:
            self._steep = False
            if self._patience:
                self._patience -= 1
            elif self.limit > 1:
                self._before = (self.limit, through)
                self.limit = max(1.0, self.limit // 2)
        elif done.full and self._is_fast(done):
            self.limit = min(self.most, self.limit * 2 if self._steep else self.limit + 1)

    def _is_fast(self, done: _Round) -> bool:
        if not done.answered:
            return False
        mean = done.seconds / done.answered
        # Forgets slowly: an endpoint that was fast once must not be held to it for ever.
        self._fastest = min(mean, self._fastest * 1.02)
        return mean <= SLOWER * self._fastest
