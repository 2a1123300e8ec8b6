"""Gate: how many calls to one endpoint are under way at once. It finds out how many is good.

It looks back every other moment. Without refusals, at full use and not slower than before, the
limit grows; with them it is halved, but not below the number of calls that are evidently being
served: some endpoints refuse at random however little is asked, and fewer places would only make
fewer answers there.
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
SHORTEST = 0.05
"""Seconds that it looks back at least."""
FEWEST = 8
"""Calls that it looks back on at least."""
SLOWER = 2.0
"""With calls this much slower than the fastest, more at once are of no use."""
REFUSED, OFTEN = 0.25, 0.5
"""With no more than this share of the time in use spent on refusals, and no more than that share of
calls refused, the refusals do not come from too many calls at once: an endpoint that is full refuses
nearly all that comes."""
STEP = 1 / 16
"""By how much it grows once it has been refused something."""
AHEAD = 4
"""So many times as many calls as may go in are inside, in line or announced before there is no room.
With half as many there are moments in which nobody is left in line."""
REST = 8
"""Looks back without a refusal before it grows again."""


@dataclass(slots=True)
class _Lookback:
    """What happened since a moment."""

    start: float
    answered: int = 0
    refused: int = 0
    failed: int = 0
    seconds: float = 0.0
    """Of the answered calls."""
    idle: float = 0.0
    """Place-seconds that were spent on refusals."""
    held: float = 0.0
    """Place-seconds in all."""
    full: bool = False
    """Whether somebody had to wait."""


class Gate:
    """Lets so many through at once; use `enter` and `leave` around every attempt."""

    def __init__(
        self, concurrency: int | None = None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._lock = threading.Lock()
        self._line = Line(self._vacate)
        self._clock = clock
        self._seen = _Lookback(clock())
        self._changed = clock()
        self._typical = self._fastest = float("inf")
        self._steep = True
        self._rest = 0
        self.active = 0
        self.announced = 0
        """Calls that will come, and keep others from being begun."""
        self.bound(concurrency)

    def bound(self, concurrency: int | None) -> None:
        """Allow this many at most; None leaves it to what the endpoint bears."""
        self.most = float(concurrency or MOST)
        self.limit = self.most if concurrency else float(START)
        """How many may be under way now."""

    def expect(self, calls: int) -> None:
        """Start from this many, where somebody knows that the endpoint bears it."""
        self.most = max(self.most, float(calls))
        self.limit = max(self.limit, float(calls))

    @property
    def waiting(self) -> int:
        """How many wait to be let through."""
        return len(self._line)

    @property
    def has_room(self) -> bool:
        """Whether calls that are begun now would soon go in."""
        return self.active + len(self._line) + self.announced < AHEAD * self.limit

    def announce(self, calls: int) -> None:
        """So many will come as soon as something else is answered; fewer, by a negative number."""
        with self._lock:
            self.announced += calls

    async def enter(self, *, again: bool = False) -> None:
        """Wait for a place; ahead of the others for a call that has had one before.

        At the end of a long line its deadline would pass, and all that failed once would be left for
        the end of a run.
        """
        with self._lock:
            if self.active < int(self.limit):
                self._count_held()
                if not self.active:
                    # What was before a pause says nothing, and its time would be counted.
                    self._seen = _Lookback(self._changed)
                self.active += 1
                return
            self._seen.full = True
            place = self._line.join(first=again)
        await self._line.wait(place)

    def leave(self, outcome: Outcome | None, seconds: float = 0.0) -> None:
        """Free the place again and tell what came of it; None when it was not used."""
        with self._lock:
            self._count_held()
            if outcome is not None:
                self._count(outcome, seconds)
            self._free_one()

    def _vacate(self) -> None:
        with self._lock:
            self._count_held()
            self._free_one()

    def _free_one(self) -> None:
        """One place less in use; whoever waits takes it, and more if the limit has grown."""
        self.active -= 1
        while self.active < int(self.limit) and self._line.serve():
            self.active += 1

    def _count_held(self) -> None:
        now = self._clock()
        self._seen.held += self.active * (now - self._changed)
        self._changed = now

    def _count(self, outcome: Outcome, seconds: float) -> None:
        seen = self._seen
        if outcome == "answered":
            seen.answered += 1
            seen.seconds += seconds
        elif outcome == "refused":
            seen.refused += 1
            seen.idle += seconds
        else:
            seen.failed += 1
        elapsed = self._changed - seen.start
        if seen.answered + seen.refused + seen.failed >= FEWEST and elapsed >= max(
            SHORTEST, 2 * self._typical_now(seen)
        ):
            self._adapt(seen, elapsed)
            self._seen = _Lookback(self._changed, full=self.waiting > 0)

    def _typical_now(self, seen: _Lookback) -> float:
        """Seconds that an answer takes; those before the first one do not count."""
        if seen.answered:
            self._typical = seen.seconds / seen.answered
        return self._typical if self._typical < float("inf") else 0.0

    def _adapt(self, seen: _Lookback, elapsed: float) -> None:
        served = (seen.held - seen.idle) / elapsed
        if not seen.refused:
            self._rest = max(0, self._rest - 1)
            if seen.full and not self._rest and self._is_fast(seen):
                self._grow()
            return
        self._steep = False
        # A refusal comes at once and an answer does not, so those under way count too.
        calls = seen.answered + seen.refused + seen.failed + self.active
        often = seen.refused > OFTEN * calls
        if often or seen.idle > REFUSED * seen.held:
            self.limit = max(1.0, self.limit // 2, served // 1)
            self._rest = REST
        elif seen.full:
            self._grow()

    def _grow(self) -> None:
        step = self.limit if self._steep else max(1.0, self.limit * STEP)
        self.limit = min(self.most, self.limit + step)

    def _is_fast(self, seen: _Lookback) -> bool:
        if not seen.answered:
            return False
        mean = seen.seconds / seen.answered
        # Forgets slowly: an endpoint that was fast once must not be held to it for ever.
        self._fastest = min(mean, self._fastest * 1.02)
        return mean <= SLOWER * self._fastest
