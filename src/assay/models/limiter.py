"""Limit the calls to one endpoint: how many go at once, how many a minute, and none while it is down."""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol, TypeAlias

from assay.errors import CircuitOpen

Outcome: TypeAlias = Literal["answered", "refused", "failed"]
"""What came of a call: an answer, a plea to be left alone (429, 503), or anything else."""

START, MOST = 16, 256
"""Calls at once to begin with, and at most, where no limit is given."""
SHORTEST_WINDOW, FEWEST_CALLS = 0.05, 8
"""Seconds and calls that the limiter looks back on at least before it changes the number of calls."""
SLOWER = 2.0
"""With calls this much slower than the fastest, more at once are of no use."""
REFUSED_TIME, REFUSED_CALLS = 0.25, 0.5
"""With no more than this share of the time in use spent on refusals, and no more than that share of
calls refused, the refusals do not come from too many calls at once: an endpoint that is full refuses
nearly all that comes."""
STEP = 1 / 16
"""By how much the number grows once something was refused."""
REST = 8
"""Windows without a refusal before it grows again."""
AHEAD = 4
"""So many times as many calls as may go at once are under way, waiting or announced before there is no
room. With half as many there are moments in which no call is left waiting."""
BURST = 6.0
"""Seconds' worth of a rate that may be used at once after a rest."""


@dataclass(frozen=True)
class Limits:
    """What one endpoint is asked at most, by everything in this process together.

    >>> Limits(concurrency=64, requests_per_minute=500).attempts
    10
    """

    concurrency: int | None = None
    """Calls under way at once, at most; fewer while the endpoint refuses. None finds it out."""
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    """Input and output tokens together."""
    timeout: float = 180.0
    """Seconds for one attempt. A call that hangs is given up then, and tried again."""
    deadline: float = 900.0
    """Seconds for a call with all its attempts, from the first on: waiting for its turn is free."""
    attempts: int = 10
    """Tries of one call in all."""
    outage: float = 60.0
    """Seconds that an endpoint may fail all calls before those that wait for it fail too."""

    def __post_init__(self) -> None:
        for name in ("concurrency", "attempts"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} is {value!r}: give 1 or more")
        for name in ("requests_per_minute", "tokens_per_minute", "timeout", "deadline"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"{name} is {value!r}: give more than 0")


class Turns(Protocol):
    """Gives calls their turn at an endpoint: a `Limiter`, or one that many processes share."""

    async def enter(self, tokens: int = 0, *, again: bool = False) -> None:
        """Wait for a turn; `tokens` is about how many the call will read and write.

        A call that has had a turn before goes ahead of the others: at the end of a long queue its deadline
        would pass, and all that failed once would be left for the end of a run.
        """
        ...

    def leave(self, outcome: Outcome | None, seconds: float = 0.0) -> None:
        """Give the turn back and tell what came of it; None when it was not used."""
        ...


class Limiter:
    """Lets so many calls go at once, and finds out how many is good.

    It looks back every other moment. Without refusals, at full use and not slower than before, the number
    grows; with them it is halved, but not below the number of calls that are evidently being served: some
    endpoints refuse at random however little is asked, and fewer places would only make fewer answers there.
    """

    def __init__(self, limits: Limits, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._lock = threading.Lock()
        self._queue = WaitQueue(self._vacate)
        self._clock = clock
        self._changed = clock()
        self._window = _Window(self._changed)
        self._typical = self._fastest = float("inf")
        self._is_steep = True
        self._rest = 0
        self.active = 0
        """Calls under way."""
        self.announced = 0
        """Calls that will come, and keep others from being begun."""
        self.bound(limits)

    def bound(self, limits: Limits) -> None:
        """Change the limits."""
        self.requests = RateLimit(limits.requests_per_minute, clock=self._clock)
        self.tokens = RateLimit(limits.tokens_per_minute, clock=self._clock)
        self._most = float(limits.concurrency or MOST)
        self.limit = float(limits.concurrency or START)
        """How many calls may be under way now."""

    def expect(self, calls: int) -> None:
        """Start from this many, where it is known that the endpoint bears it."""
        self._most = max(self._most, float(calls))
        self.limit = max(self.limit, float(calls))

    @property
    def waiting(self) -> int:
        """How many calls wait for a place."""
        return len(self._queue)

    @property
    def has_room(self) -> bool:
        """Whether calls that are begun now would soon go out."""
        return self.active + len(self._queue) + self.announced < AHEAD * self.limit

    def announce(self, calls: int) -> None:
        """So many will come as soon as something else is answered; fewer, by a negative number."""
        with self._lock:
            self.announced += calls

    async def enter(self, tokens: int = 0, *, again: bool = False) -> None:
        """Wait for the rates, then for a place."""
        pause = max(self.requests.take(1), self.tokens.take(tokens))
        if pause:
            await asyncio.sleep(pause)
        with self._lock:
            if self.active < int(self.limit):
                self._count_held()
                if not self.active:
                    # What was before a pause says nothing, and its time would be counted.
                    self._window = _Window(self._changed)
                self.active += 1
                return
            self._window.is_full = True
            place = self._queue.join(rank=-1 if again else 0)
        await self._queue.wait(place)

    def leave(self, outcome: Outcome | None, seconds: float = 0.0) -> None:
        """Free the place again and tell what came of it; None when it was not used."""
        with self._lock:
            self._count_held()
            if outcome is not None:
                self._window.count(outcome, seconds)
                self._look_back()
            self._free_one()

    def _vacate(self) -> None:
        self.leave(None)

    def _free_one(self) -> None:
        """One place less in use; calls that wait take it, and more places if the limit has grown."""
        self.active -= 1
        while self.active < int(self.limit) and self._queue.serve():
            self.active += 1

    def _count_held(self) -> None:
        now = self._clock()
        self._window.held += self.active * (now - self._changed)
        self._changed = now

    def _look_back(self) -> None:
        """Change the limit by what was seen in a window, once that is long enough, and begin another."""
        window = self._window
        if window.answered:
            self._typical = window.seconds / window.answered
        # Seconds before the first answer do not count.
        typical = self._typical if self._typical < float("inf") else 0.0
        elapsed = self._changed - window.start
        if window.calls < FEWEST_CALLS or elapsed < max(SHORTEST_WINDOW, 2 * typical):
            return
        if window.refused:
            self._adapt_to_refusals(window, elapsed)
        else:
            self._rest = max(0, self._rest - 1)
            if window.is_full and not self._rest and self._is_fast(window):
                self._grow()
        self._window = _Window(self._changed, is_full=self.waiting > 0)

    def _adapt_to_refusals(self, window: "_Window", elapsed: float) -> None:
        self._is_steep = False
        # A refusal comes at once and an answer does not, so those under way count too.
        often = window.refused > REFUSED_CALLS * (window.calls + self.active)
        if often or window.refused_seconds > REFUSED_TIME * window.held:
            served = (window.held - window.refused_seconds) / elapsed
            self.limit = max(1.0, self.limit // 2, served // 1)
            self._rest = REST
        elif window.is_full:
            self._grow()

    def _grow(self) -> None:
        step = self.limit if self._is_steep else max(1.0, self.limit * STEP)
        self.limit = min(self._most, self.limit + step)

    def _is_fast(self, window: "_Window") -> bool:
        if not window.answered:
            return False
        # Forgets slowly: an endpoint that was fast once must not be held to it for ever.
        self._fastest = min(self._typical, self._fastest * 1.02)
        return self._typical <= SLOWER * self._fastest


@dataclass(slots=True)
class _Window:
    """What happened at an endpoint since a moment."""

    start: float
    answered: int = 0
    refused: int = 0
    failed: int = 0
    seconds: float = 0.0
    """Of the answered calls."""
    refused_seconds: float = 0.0
    held: float = 0.0
    """Seconds of all calls that were under way, also of those not over."""
    is_full: bool = False
    """Whether a call had to wait."""

    @property
    def calls(self) -> int:
        return self.answered + self.refused + self.failed

    def count(self, outcome: Outcome, seconds: float) -> None:
        if outcome == "answered":
            self.answered += 1
            self.seconds += seconds
        elif outcome == "refused":
            self.refused += 1
            self.refused_seconds += seconds
        else:
            self.failed += 1


class RateLimit:
    """An allowance that fills up evenly. What it lacks is waited for; one call may overdraw it.

    >>> requests = RateLimit(60, clock=lambda: 0.0)
    >>> [requests.take(1) for _ in range(9)]
    [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 2.0]
    """

    def __init__(self, per_minute: float | None, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._lock = threading.Lock()
        self._clock = clock
        self._rate = None if per_minute is None else per_minute / 60
        # The time at which the allowance is as full as it gets, less what was taken since.
        self._full_at = float("-inf")

    def take(self, amount: float) -> float:
        """Take some of the allowance; the seconds to wait before using it."""
        if self._rate is None:
            return 0.0
        with self._lock:
            now = self._clock()
            start = max(self._full_at, now)
            self._full_at = start + amount / self._rate
            return max(0.0, start - now - BURST)

    def give_back(self, amount: float) -> None:
        """Correct what was taken by a guess; negative when it was too little."""
        if self._rate is not None:
            with self._lock:
                self._full_at -= amount / self._rate


class WaitQueue:
    """Tasks of any event loop that wait by rank, and in the order they came.

    Limits belong to an endpoint, and event loops come and go: a synchronous method runs its own, a notebook has
    another. An asyncio lock belongs to one loop and is dead with it, so the waiting is done here. The caller
    locks around `join` and `serve`.
    """

    __slots__ = ("_give_back", "_waiting")

    def __init__(self, give_back: Callable[[], None]) -> None:
        """`give_back` is called when a task was served that has left meanwhile."""
        self._give_back = give_back
        self._waiting: deque[_Place] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def join(self, *, rank: int = 0) -> "asyncio.Future[None]":
        """A place to be given to `wait`, behind all of the same or a lower rank."""
        loop = asyncio.get_running_loop()
        place = _Place(loop, loop.create_future(), rank)
        if not self._waiting or self._waiting[-1].rank <= rank:
            self._waiting.append(place)
        else:
            behind = next(at for at, other in enumerate(self._waiting) if other.rank > rank)
            self._waiting.insert(behind, place)
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
        """Let the first task go that still waits; whether there was one."""
        try:
            here = asyncio.get_running_loop()
        except RuntimeError:
            here = None
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
                # That loop is closed, and the tasks that waited in it are gone.
                continue
            return True
        return False

    def _tell(self, place: "asyncio.Future[None]") -> None:
        if place.done():
            self._give_back()
        else:
            place.set_result(None)


class _Place(NamedTuple):
    loop: asyncio.AbstractEventLoop
    future: "asyncio.Future[None]"
    rank: int


FAILURES = 8
"""So many different calls that fail, with no answer to any call between, are an outage."""
FIRST_PAUSE, LONGEST_PAUSE = 0.25, 2.0
"""Seconds between two probes of whether the endpoint is back."""
BLAMED_SECONDS = 3.0
"""How long an outage may last when only calls are left that may be to blame for it."""
GLANCE = 0.05
"""Seconds between two looks of a waiting call at what was found out."""


class CallRecord:
    """One call with all its attempts, as the circuit breaker tells it from others."""

    __slots__ = ("answers_before", "probes_before", "to_blame")

    def __init__(self) -> None:
        self.answers_before: int | None = None
        """How many answers the endpoint had given when this call first failed."""
        self.to_blame = False
        """Whether it has failed again after others were answered."""
        self.probes_before: int | None = None
        """How many probes had failed when this call first waited for one."""


class CircuitBreaker:
    """Holds calls back while an endpoint is down; one at a time probes whether it is back.

    An endpoint is down when different calls fail and none is answered. A call that fails while others are
    answered has itself to blame, however often it is tried, and says nothing of the endpoint. When an outage
    lasts, the calls that wait fail as soon as one more probe has failed.

    Where the endpoint answers, if only with 500, and each call that is left has failed already, the calls may
    be to blame: texts that break a server are often the last of a batch. Those are not waited for as long.
    """

    def __init__(self, where: str, outage: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.where = where
        self.outage = outage
        self._clock = clock
        self._lock = threading.Lock()
        self._answers = 0
        self._failing: set[CallRecord] = set()
        """The calls that have failed since the last answer."""
        self.is_open = False
        """Whether the endpoint is taken to be down."""
        self._down_since = 0.0
        self._next_probe = 0.0
        self.pause = FIRST_PAUSE
        self._failed_probes = 0
        self._untried = 0
        """Calls that wait and have not failed themselves."""
        self._answers_badly = True
        """Whether it has answered, in its own way, each call that failed since the last answer."""
        self._last_failure = ""

    def succeeded(self) -> None:
        """An answer came, be it a refusal: the endpoint is there."""
        with self._lock:
            self._answers += 1
            if self._failing or self.is_open:
                self._failing.clear()
                self._answers_badly = True
                self.is_open, self.pause = False, FIRST_PAUSE

    def failed(self, call: CallRecord, why: str, *, probed: bool = False, answered: bool = False) -> None:
        """No answer, or the endpoint's own fault.

        `probed` when the call was to find out if it is back, `answered` when it did say something, such
        as 500, for which the call may be to blame.
        """
        with self._lock:
            self._last_failure = why
            self._answers_badly = self._answers_badly and answered
            if call.answers_before is None:
                call.answers_before = self._answers
            elif call.answers_before < self._answers:
                call.to_blame = True
                return
            if self.is_open:
                if probed:
                    # Only these: calls that were under way when it went down say nothing new.
                    self._failed_probes += 1
                    self.pause = min(LONGEST_PAUSE, self.pause * 2)
                    self._next_probe = self._clock() + self.pause
                return
            self._failing.add(call)
            if len(self._failing) >= FAILURES:
                self.is_open, self._down_since = True, self._clock()
                self._next_probe = self._down_since + self.pause

    async def admit(self, call: CallRecord) -> bool:
        """Wait until the endpoint may be asked; whether to probe if it is back.

        Raises `CircuitOpen` when the outage has lasted too long and one more probe, since this call
        began to wait, has failed.
        """
        if call.probes_before is None:
            call.probes_before = self._failed_probes
        untried = call.answers_before is None
        self._untried += untried
        try:
            while self.is_open:
                if self.may_probe():
                    return True
                if self.lasts_too_long() and self._failed_probes > call.probes_before:
                    raise CircuitOpen(
                        f"{self.where} has failed for {self._clock() - self._down_since:.0f} s, and is "
                        f"not asked for now; it was {self._last_failure}: see whether it is up, and run again"
                    )
                await asyncio.sleep(GLANCE)
            return False
        finally:
            self._untried -= untried

    def lasts_too_long(self) -> bool:
        """Whether the outage is longer than the calls that are left wait for."""
        calls_to_blame = self._answers_badly and not self._untried
        patience = min(self.outage, BLAMED_SECONDS) if calls_to_blame else self.outage
        return self._clock() - self._down_since > patience

    def may_probe(self) -> bool:
        """Whether it is this call's turn to find out."""
        with self._lock:
            if self._clock() < self._next_probe:
                return False
            # Also when this one is never heard of again: the next has its turn then.
            self._next_probe = self._clock() + self.pause
            return True
