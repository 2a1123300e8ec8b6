"""Ledger: what a run has asked for and spent, and how much it may.

    with budget(money=2.00, seconds=600) as spent:
        reports = await rubric.score(rollouts)
    print(spent.calls, spent.usage.prompt, spent.cost)

Every call inside counts, also one whose reply could not be read. Budgets nest: what is spent in an
inner one is spent in the outer one too.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import ClassVar

from assay.errors import BudgetExceeded
from assay.models.base import NOTHING, Model, Usage, innermost
from assay.models.line import Line


class Ledger:
    """Counts and sums. Read it while the run goes on, or after."""

    _current: ClassVar[ContextVar["Ledger | None"]] = ContextVar("assay_ledger", default=None)

    def __init__(
        self,
        *,
        money: float | None = None,
        seconds: float | None = None,
        rehearses: bool = False,
        parent: "Ledger | None" = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.money = money
        """Dollars that may be spent; None is no limit."""
        self.rehearses = rehearses or (parent is not None and parent.rehearses)
        """Whether calls are counted, by estimate, and not made."""
        self.ends = None if seconds is None else clock() + seconds
        self.calls = 0
        """Calls that the endpoint answered."""
        self.retries = 0
        """Attempts beyond the first of each call."""
        self.hits = 0
        """Replies that a cache had."""
        self.shared = 0
        """Replies taken over from an equal request that was under way."""
        self.models: Counter[str] = Counter()
        """Replies, by the id that the endpoint gave the model."""
        self.errors: Counter[str] = Counter()
        """Calls that came to nothing, by the name of the error."""
        self.usage = NOTHING
        self.cost = 0.0
        """Dollars, as far as prices are known."""
        self.unpriced = 0
        """Calls whose price is not known."""
        self._reserved = 0.0
        self._parent = parent
        self._lock = threading.Lock()
        self._line = Line(self._next_in_line)

    @classmethod
    def current(cls) -> "Ledger | None":
        """The innermost ledger here; None outside of any `budget`."""
        return cls._current.get()

    def chain(self) -> Iterator["Ledger"]:
        """This ledger and those around it."""
        ledger: Ledger | None = self
        while ledger is not None:
            yield ledger
            ledger = ledger._parent

    def deadline(self) -> float:
        """When this run and those around it end, on the monotonic clock."""
        return min((ledger.ends for ledger in self.chain() if ledger.ends), default=float("inf"))

    @property
    def needs_prices(self) -> bool:
        """Whether money is limited, so that a call without a price cannot be made."""
        return any(ledger.money is not None for ledger in self.chain())

    async def reserve(self, estimate: float) -> None:
        """Set money aside for a call; wait for calls under way while it may still suffice."""
        taken: list[Ledger] = []
        try:
            for ledger in self.chain():
                if ledger.money is not None:
                    await ledger._take(estimate)
                    taken.append(ledger)
        except BaseException:
            for ledger in taken:
                ledger._put_back(estimate)
            raise

    def settle(self, estimate: float) -> None:
        """Give back what was set aside; what the call cost has been added by then."""
        for ledger in self.chain():
            if ledger.money is not None:
                ledger._put_back(estimate)

    def add(self, usage: Usage, cost: float | None, model: str = "") -> None:
        """Count a call that was answered, by the `model` of that id."""
        for ledger in self.chain():
            with ledger._lock:
                ledger.calls += 1
                ledger.usage += usage
                ledger.cost += cost or 0.0
                ledger.unpriced += cost is None
                if model:
                    ledger.models[model] += 1

    def count(
        self, *, retries: int = 0, hits: int = 0, shared: int = 0, error: str = "", model: str = ""
    ) -> None:
        """Count what costs nothing by itself."""
        for ledger in self.chain():
            with ledger._lock:
                ledger.retries += retries
                ledger.hits += hits
                ledger.shared += shared
                if model:
                    ledger.models[model] += hits
                if error:
                    ledger.errors[error] += 1

    async def _take(self, estimate: float) -> None:
        money = self.money or 0.0
        while True:
            with self._lock:
                if self.cost + self._reserved + estimate <= money:
                    self._reserved += estimate
                    self._line.serve()
                    return
                if self._reserved <= 0:
                    self._line.serve()
                    raise BudgetExceeded(
                        f"${self.cost:.4f} of ${money:.4f} are spent and the next call may cost "
                        f"${estimate:.4f}: give the run more money, or let what is answered do"
                    )
                place = self._line.join()
            await self._line.wait(place)

    def _put_back(self, estimate: float) -> None:
        with self._lock:
            self._reserved -= estimate
            if self._reserved < 1e-12:
                self._reserved = 0.0
            self._line.serve()

    def _next_in_line(self) -> None:
        with self._lock:
            self._line.serve()

    def __repr__(self) -> str:
        return (
            f"Ledger(calls={self.calls}, hits={self.hits}, retries={self.retries}, "
            f"errors={sum(self.errors.values())}, usage={tuple(self.usage)}, cost={self.cost:.6f})"
        )


def refuse_unpriced(models: Iterable[Model]) -> None:
    """Raise `BudgetExceeded` when money is limited here and nobody knows what one of these costs.

    Before a run, where one sentence says it; each call would be refused for the same reason.
    """
    ledger = Ledger.current()
    if ledger is None or not ledger.needs_prices:
        return
    for model in map(innermost, models):
        # A model that does not speak of a price has no part in our ledger.
        if getattr(model, "price", True) is None:
            raise without_a_price(model.id)


def without_a_price(model: str) -> BudgetExceeded:
    """What is said of a model that costs nobody knows what."""
    return BudgetExceeded(
        f"what {model} costs is not known, so the money of this run cannot be held to: "
        "give model_of(..., price=Price(read=…, written=…)), or a table in ASSAY_PRICES"
    )


@contextmanager
def budget(*, money: float | None = None, seconds: float | None = None) -> Generator[Ledger]:
    """Count, and bound, what is asked of models inside the block.

    Beyond `money` (dollars) calls raise `BudgetExceeded`, beyond `seconds` `DeadlineExceeded`:
    errors on the lines they were for. What is answered stays answered.

    >>> with budget() as spent:
    ...     pass
    >>> spent.calls, spent.cost
    (0, 0.0)
    """
    for name, value in (("money", money), ("seconds", seconds)):
        if value is not None and not value >= 0:
            raise ValueError(f"{name} is {value!r}: give 0 or more")
    with counting_in(Ledger(money=money, seconds=seconds, parent=Ledger.current())) as ledger:
        yield ledger


@contextmanager
def rehearsal() -> Generator[Ledger]:
    """Count what would be asked inside the block, and ask nothing: an estimate before a run.

    Calls end in `NotAsked`, so score and look away. What a cache has counts as a hit. What depends on
    answers, a second look or a re-ask, is not seen.
    """
    with counting_in(Ledger(rehearses=True)) as ledger:
        yield ledger


@contextmanager
def counting_in(ledger: Ledger) -> Generator[Ledger]:
    """Have this ledger count what is asked of models inside the block."""
    token = Ledger._current.set(ledger)  # pyright: ignore[reportPrivateUsage]
    try:
        yield ledger
    finally:
        Ledger._current.reset(token)  # pyright: ignore[reportPrivateUsage]
