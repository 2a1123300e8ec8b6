"""Limit the calls to one endpoint: how many go at once, and how many calls and tokens a minute."""

import asyncio
import threading
import time
from bisect import insort
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Literal, TypeAlias, get_args

Outcome: TypeAlias = Literal["answered", "refused", "failed"]  # refused: a plea to be left alone (429, 503)
START, MOST = 16, 256  # calls at once to begin with, and at most, where no limit is given
SHORTEST_WINDOW, FEWEST_CALLS = 0.05, 8  # seconds and calls that the limiter looks back on at least
SLOWER = 2.0  # with calls this much slower than the fastest, more at once are of no use
# With no more than this share of the time in use spent on refusals, and no more than that share of calls refused, the
# refusals do not come from too many calls at once: an endpoint that is full refuses nearly all that comes.
REFUSED_TIME, REFUSED_CALLS = 0.25, 0.5
STEP = 1 / 16  # by how much the number grows once something was refused
REST = 8  # windows without a refusal before it grows again
# So many times as many calls as may go at once are under way, waiting or announced before there is no room.
AHEAD = 4  # with half as many there are moments in which no call is left waiting
BURST = 6.0  # seconds' worth of a rate that may be used at once after a rest


@dataclass(frozen=True)
class Limits:
    """What one endpoint is asked at most, by everything in this process together.

    >>> Limits(concurrency=64, requests_per_minute=500).attempts
    10
    """

    concurrency: int | None = None  # calls at once, at most; fewer while the endpoint refuses. None finds it out
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None  # input and output tokens together
    timeout: float = 180.0  # seconds for one attempt. A call that hangs is given up then, and tried again
    deadline: float = 900.0  # seconds for a call with all its attempts, from the first on: waiting for its turn is free
    attempts: int = 10  # tries of one call in all
    outage: float = 60.0  # seconds that an endpoint may fail all calls before those that wait for it fail too

    def __post_init__(self) -> None:
        for name in ("concurrency", "attempts"):
            if (value := getattr(self, name)) is not None and value < 1:
                raise ValueError(f"{name} is {value!r}: give 1 or more")
        for name in ("requests_per_minute", "tokens_per_minute", "timeout", "deadline"):
            if (value := getattr(self, name)) is not None and not value > 0:
                raise ValueError(f"{name} is {value!r}: give more than 0")

    def share(self, part: int, parts: int) -> "Limits":
        """What is left for one of several processes that ask the same endpoint; a call at once at least."""
        if parts == 1:
            return self
        calls, requests, tokens = self.concurrency, self.requests_per_minute, self.tokens_per_minute
        return replace(
            self,
            concurrency=calls and max(1, calls // parts + (part < calls % parts)),
            requests_per_minute=requests and requests / parts,
            tokens_per_minute=tokens and tokens / parts,
        )


@dataclass(slots=True)
class _Window:
    """What happened at an endpoint since a moment."""

    start: float
    calls: dict[Outcome, int] = field(default_factory=lambda: dict.fromkeys(get_args(Outcome), 0))
    seconds: dict[Outcome, float] = field(default_factory=lambda: dict.fromkeys(get_args(Outcome), 0.0))
    held: float = 0.0  # seconds of all calls that were under way, also of those not over
    is_full: bool = False  # whether a call had to wait


class Limiter:
    """Limits how many calls go at once; the number grows at full use, and is halved by refusals."""

    def __init__(self, limits: Limits, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._lock = threading.Lock()
        self._queue = WaitQueue(lambda: self.leave(None))
        self._clock = clock
        self._changed = clock()
        self._window = _Window(self._changed)
        self._typical, self._fastest = 0.0, float("inf")
        self._is_steep = True
        self._rest = 0
        self.active = 0  # calls under way
        self.announced = 0  # calls that will come, and keep others from being begun
        self.bound(limits)

    def bound(self, limits: Limits) -> None:
        """Change the limits."""
        self.requests = RateLimit(limits.requests_per_minute, clock=self._clock)
        self.tokens = RateLimit(limits.tokens_per_minute, clock=self._clock)
        self._most = float(limits.concurrency or MOST)
        self.limit = float(limits.concurrency or START)  # how many calls may be under way now

    def expect(self, calls: int) -> None:
        """Start from this many, where it is known that the endpoint bears it."""
        self._most, self.limit = max(self._most, float(calls)), max(self.limit, float(calls))

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
        """Wait for the rates, then for a place; `tokens` is about how many the call will read and write."""
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
            # A call that had a place before goes ahead of the others, or its deadline would pass in a long queue.
            place = self._queue.join(rank=-1 if again else 0)
        await self._queue.wait(place)

    def leave(self, outcome: Outcome | None, seconds: float = 0.0) -> None:
        """Free the place again and tell what came of it; None when it was not used."""
        with self._lock:
            self._count_held()
            if outcome is not None:
                self._window.calls[outcome] += 1
                self._window.seconds[outcome] += seconds
                self._look_back(self._window)
            self.active -= 1
            # More than one takes a place when the limit has grown.
            while self.active < int(self.limit) and self._queue.serve():
                self.active += 1

    def _count_held(self) -> None:
        now = self._clock()
        self._window.held += self.active * (now - self._changed)
        self._changed = now

    def _look_back(self, window: _Window) -> None:
        """Change the limit by what was seen in a window, once that is long enough, and begin another."""
        answered, refused, wasted = window.calls["answered"], window.calls["refused"], window.seconds["refused"]
        calls, elapsed = sum(window.calls.values()), self._changed - window.start
        if answered:
            self._typical = window.seconds["answered"] / answered
        if calls < FEWEST_CALLS or elapsed < max(SHORTEST_WINDOW, 2 * self._typical):
            return
        grows = window.is_full
        if refused:
            self._is_steep = False
            # A refusal comes at once and an answer does not, so those under way count too.
            if refused > REFUSED_CALLS * (calls + self.active) or wasted > REFUSED_TIME * window.held:
                # Some endpoints refuse at random, and fewer places would only make fewer answers there.
                served = (window.held - wasted) / elapsed
                self.limit = max(1.0, self.limit // 2, served // 1)
                self._rest = REST
                grows = False
        else:
            self._rest = max(0, self._rest - 1)
            grows = grows and not self._rest and answered > 0
            if grows:
                # Forgets slowly: an endpoint that was fast once must not be held to it for ever.
                self._fastest = min(self._typical, self._fastest * 1.02)
                grows = self._typical <= SLOWER * self._fastest
        if grows:
            step = self.limit if self._is_steep else max(1.0, self.limit * STEP)
            self.limit = min(self._most, self.limit + step)
        self._window = _Window(self._changed, is_full=self.waiting > 0)


class RateLimit:
    """An allowance that fills up evenly. What it lacks is waited for; one call may overdraw it."""

    def __init__(self, per_minute: float | None, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._lock = threading.Lock()
        self._clock = clock
        self._rate = None if per_minute is None else per_minute / 60
        # The time at which the allowance is as full as it gets, less what was taken since.
        self._full_at = float("-inf")

    def take(self, amount: float) -> float:
        """Take some of the allowance, or give it back by a negative amount; the seconds to wait before using it."""
        if self._rate is None:
            return 0.0
        with self._lock:
            now = self._clock()
            start = max(self._full_at, now)
            self._full_at = start + amount / self._rate
            return max(0.0, start - now - BURST)


class WaitQueue:
    """Tasks of any event loop that wait by rank, and in the order they came.

    An asyncio lock belongs to one event loop, and a synchronous method runs its own. The caller locks around `join`
    and `serve`; `give_back` is called when a task was served that has left meanwhile.
    """

    def __init__(self, give_back: Callable[[], None]) -> None:
        self._give_back = give_back
        self._waiting: list[tuple[int, asyncio.AbstractEventLoop, asyncio.Future[None]]] = []

    def __len__(self) -> int:
        return len(self._waiting)

    def join(self, *, rank: int = 0) -> "asyncio.Future[None]":
        """A place to be given to `wait`, behind all of the same or a lower rank."""
        loop = asyncio.get_running_loop()
        place = loop.create_future()
        insort(self._waiting, (rank, loop, place), key=itemgetter(0))
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
        """Let the first task go that still waits; whether there was one."""
        while self._waiting:
            _, loop, place = self._waiting.pop(0)
            if place.done():
                continue
            if loop is asyncio._get_running_loop():
                # A loop that runs here needs no waking, which takes two calls of the system.
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
