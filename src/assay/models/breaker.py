"""Breaker: when an endpoint is down, one call at a time finds out whether it is back.

An endpoint is down when different calls fail and none is answered. A call that fails while others are
answered has itself to blame, however often it is tried, and says nothing of the endpoint. While it is
down all other calls wait. When the outage lasts, they fail as soon as one more look has failed.

Where the endpoint answers, if only with 500, and each call that is left has failed already, the calls may be to
blame: texts that break a server are often the last of a batch. Those are not waited for as long.
"""

import asyncio
import itertools
import threading
import time
from collections.abc import Callable

from assay.errors import CircuitOpen

FAILURES = 8
"""So many different calls that fail, with no answer to any call between, are an outage."""
FIRST_PAUSE, LONGEST_PAUSE = 0.25, 2.0
"""Seconds between two looks at whether it is back."""
LEFT_SECONDS = 3.0
"""How long an outage may last when only calls are left that may be to blame for it."""
GLANCE = 0.05
"""Seconds between two looks of a waiting call at what was found out."""

_numbers = itertools.count()


class Call:
    """One call with all its attempts, as the breaker tells it from others."""

    __slots__ = ("answers_before", "looks_before", "number", "to_blame")

    def __init__(self) -> None:
        self.number = next(_numbers)
        self.answers_before: int | None = None
        """How many answers the endpoint had given when this call first failed."""
        self.to_blame = False
        """Whether it has failed again after others were answered."""
        self.looks_before: int | None = None
        """How many looks at whether it is back had failed when this call first waited for one."""


class Breaker:
    """Counts calls that fail; `admit` before every attempt, then `succeeded` or `failed`."""

    def __init__(
        self, where: str, outage: float, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.where = where
        self.outage = outage
        self._clock = clock
        self._lock = threading.Lock()
        self._answers = 0
        self._failing: set[int] = set()
        """The calls that have failed since the last answer."""
        self.is_open = False
        """Whether the endpoint is taken to be down."""
        self._down_since = 0.0
        self._next = 0.0
        self._pause = FIRST_PAUSE
        self._failed_looks = 0
        self._untried = 0
        """Calls that wait and have not failed themselves."""
        self._answers_badly = True
        """Whether it has answered, in its own way, each call that failed since the last answer."""
        self._last = ""

    def succeeded(self) -> None:
        """An answer came, be it a refusal: the endpoint is there."""
        with self._lock:
            self._answers += 1
            if self._failing or self.is_open:
                self._failing.clear()
                self._answers_badly = True
                self.is_open, self._pause = False, FIRST_PAUSE

    def failed(self, call: Call, why: str, *, looked: bool = False, answered: bool = False) -> None:
        """No answer, or the endpoint's own fault.

        `looked` when the call was to find out if it is back, `answered` when it did say something, such
        as 500, for which the call may be to blame.
        """
        with self._lock:
            self._last = why
            self._answers_badly = self._answers_badly and answered
            if call.answers_before is None:
                call.answers_before = self._answers
            elif call.answers_before < self._answers:
                call.to_blame = True
                return
            if self.is_open:
                if looked:
                    # Only these: calls that were under way when it went down say nothing new.
                    self._failed_looks += 1
                    self._pause = min(LONGEST_PAUSE, self._pause * 2)
                    self._next = self._clock() + self._pause
                return
            self._failing.add(call.number)
            if len(self._failing) >= FAILURES:
                self.is_open, self._down_since = True, self._clock()
                self._next = self._down_since + self._pause

    async def admit(self, call: Call) -> bool:
        """Wait until the endpoint may be asked; whether to find out if it is back.

        Raises `CircuitOpen` when the outage has lasted too long and one more look, since this call
        began to wait, has failed.
        """
        if call.looks_before is None:
            call.looks_before = self._failed_looks
        untried = call.answers_before is None
        self._untried += untried
        try:
            while self.is_open:
                if self._may_look():
                    return True
                if self._lasts_too_long() and self._failed_looks > call.looks_before:
                    raise CircuitOpen(
                        f"{self.where} has failed for {self._clock() - self._down_since:.0f} s, and is "
                        f"not asked for now; it was {self._last}: see whether it is up, and run again"
                    )
                await asyncio.sleep(GLANCE)
            return False
        finally:
            self._untried -= untried

    def _lasts_too_long(self) -> bool:
        calls_to_blame = self._answers_badly and not self._untried
        patience = min(self.outage, LEFT_SECONDS) if calls_to_blame else self.outage
        return self._clock() - self._down_since > patience

    def _may_look(self) -> bool:
        """Whether it is this call's turn to find out."""
        with self._lock:
            if self._clock() < self._next:
                return False
            # Also when this one is never heard of again: the next has its turn then.
            self._next = self._clock() + self._pause
            return True
