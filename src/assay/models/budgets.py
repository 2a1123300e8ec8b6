"""Count what a run asks of models and spends, and hold it to a budget.

Every call inside counts, also one whose reply could not be read. Budgets nest: what is spent in an inner one is spent in
the outer one too. A limited budget is spent rollout by rollout: one that has begun is paid for before another begins.
"""

import threading
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager, nullcontext
from contextvars import ContextVar
from itertools import count
from typing import Any

from assay.concurrency import setting
from assay.errors import BudgetExceeded
from assay.models.limiter import WaitQueue
from assay.models.model import NOTHING, Model, Usage, innermost

_SLACK = 1e-12  # dollars by which sums may be off for the way they are added
_NO_LINE = WaitQueue(lambda: None)


class Ledger:
    """Counts and sums. Read it while the run goes on, or after."""

    __slots__ = (
        "_around",
        "_calls_line",
        "_ended",
        "_lock",
        "_ranks",
        "_rollouts_line",
        "_total",
        "_under_way",
        "_waiting",
        "calls",
        "cost",
        "deadline",
        "dollars",
        "errors",
        "hits",
        "is_dry_run",
        "models",
        "most_calls",
        "most_cost",
        "needs_prices",
        "on_change",
        "reserved",
        "retries",
        "rollout",
        "shared",
        "spent_before",
        "unpriced",
        "usage",
    )

    def __init__(
        self,
        *,
        dollars: float | None = None,
        seconds: float | None = None,
        spent: float = 0.0,
        rollout: float | None = None,
        is_dry: bool = False,
        parent: "Ledger | None" = None,
    ) -> None:
        self.dollars = dollars  # dollars that may be spent; None is no limit
        self.spent_before = (
            spent  # dollars of the budget that were spent before, as in earlier sittings of a run
        )
        self.rollout = (
            rollout  # dollars that the dearest rollout needed; None when the first has to tell
        )
        self.is_dry_run = is_dry or (
            parent is not None and parent.is_dry_run
        )  # calls are estimated, and not made
        ends = float("inf") if seconds is None else time.monotonic() + seconds
        # When this run and those around it end, on the monotonic clock.
        self.deadline: float = ends if parent is None else min(ends, parent.deadline)
        # Whether dollars are limited, so that a call without a price cannot be made.
        self.needs_prices: bool = dollars is not None or (
            parent is not None and parent.needs_prices
        )
        self.calls = 0  # calls that the endpoint answered
        self.retries = 0  # attempts beyond the first of each call
        self.hits = 0  # replies that a cache had
        self.shared = 0  # replies taken over from an equal request that was under way
        self.models: Counter[str] = Counter()  # replies, by the id that the endpoint gave the model
        self.errors: Counter[str] = (
            Counter()
        )  # calls that came to nothing, by the name of the error
        self.usage = NOTHING
        self.cost = 0.0  # dollars, as far as prices are known
        self.unpriced = 0  # calls whose price is not known
        # In a dry run: attempts that would be made if every one but the last of each call failed, every reply had
        # to be asked for again and the endpoint complained about each optional part; and dollars, likewise.
        self.most_calls, self.most_cost = 0, 0.0
        self.reserved = 0.0  # dollars set aside for calls that are under way
        self.on_change: Callable[[], None] | None = (
            None  # called, under a lock, when cost or reservations have changed
        )
        self._around: tuple[Ledger, ...] = () if parent is None else parent.chain()
        self._lock = threading.Lock()
        # Those without a limit share one, where no call waits: there is a ledger for every rollout.
        self._calls_line = self._rollouts_line = _NO_LINE
        if dollars is not None:
            self._calls_line, self._rollouts_line = WaitQueue(self._wake), WaitQueue(self._wake)
            self._ranks = count()
            self._waiting: dict[
                int, None
            ] = {}  # the ranks of the rollouts that wait, in the order in which they begin
            self._under_way: set[RolloutSpending] = set()
            # What a rollout will cost is known from those before it: here, the sum of what they needed, and their number.
            self._total, self._ended = rollout or 0.0, int(rollout is not None)

    @property
    def left(self) -> float:
        """Dollars that are neither spent nor set aside."""
        limit = float("inf") if self.dollars is None else self.dollars
        return limit - self.spent_before - self.cost - self.reserved

    @classmethod
    def current(cls) -> "Ledger | None":
        """The innermost ledger here; None outside of any `budget`."""
        return _LEDGER.get()

    def chain(self) -> tuple["Ledger", ...]:
        """This ledger and those around it."""
        return self, *self._around

    async def reserve(self, estimate: float) -> ExitStack:
        """Reserve dollars for a call, until the stack ends; wait for calls under way while they may still suffice."""
        rollout = _ROLLOUT.get()
        with ExitStack() as stack:
            for ledger in self.chain():
                await ledger._take(estimate, rollout)
                stack.callback(ledger._put_back, estimate)
            if rollout is not None:
                rollout.reserve(estimate)
                stack.callback(rollout.reserve, -estimate)
            return stack.pop_all()

    def count(self, **amounts: Any) -> None:
        """Count amounts under their names here and in the ledgers around: `retries=1`, or one more `errors="Refused"`."""
        for ledger in self.chain():
            with ledger._lock:
                for name, amount in amounts.items():
                    if not isinstance(amount, str):
                        setattr(ledger, name, getattr(ledger, name) + amount)
                    elif amount:
                        getattr(ledger, name)[amount] += 1
                if "cost" in amounts and ledger.on_change is not None:
                    ledger.on_change()

    def count_call(self, usage: Usage, cost: float | None, model: str) -> None:
        """Count one call, as `count` would, in a third of its time: every rollout makes some."""
        for ledger in self.chain():
            with ledger._lock:
                ledger.calls += 1
                ledger.usage += usage
                ledger.cost += cost or 0.0
                ledger.unpriced += cost is None
                if model:
                    ledger.models[model] += 1
                if ledger.on_change is not None:
                    ledger.on_change()

    def _reserve(self, dollars: float) -> None:
        left = self.reserved + dollars
        self.reserved = left if left > _SLACK else 0.0
        if self.on_change is not None:
            self.on_change()

    async def _take(self, estimate: float, rollout: "RolloutSpending | None") -> None:
        def taken() -> bool:
            may_begin = rollout is None or self not in rollout.too_dear_for
            if may_begin and estimate <= self.left + _SLACK:
                self._reserve(estimate)
                self._calls_line.serve()
                return True
            if self.reserved > 0 and may_begin:
                return False
            self._calls_line.serve()
            before = self.spent_before
            earlier = f" (${before:.4f} of it in earlier sittings)" if before else ""
            told = f"${before + self.cost:.4f} of ${self.dollars or 0.0:.4f} are spent{earlier}"
            advice = "give the run a larger budget, or use what is answered"
            raise BudgetExceeded(f"{told} and the next call may cost ${estimate:.4f}: {advice}")

        await self._until(taken, self._calls_line)

    async def _until(self, ready: Callable[[], bool], line: WaitQueue, rank: int = 0) -> None:
        """Wait in a line until something is ready, which is looked at whenever the first in it is woken."""
        while True:
            with self._lock:
                if ready():
                    return
                # One that was woken too early goes back to its rank.
                place = line.join(rank=rank)
            await line.wait(place)

    def _put_back(self, estimate: float) -> None:
        with self._lock:
            self._reserve(-estimate)
        self._wake()

    def _wake(self) -> None:
        """Have the first call and the first rollout that wait look again."""
        with self._lock:
            self._calls_line.serve()
            self._rollouts_line.serve()

    async def begin_rollout(self, rollout: "RolloutSpending") -> None:
        """Wait until a rollout can be paid for whole, as far as earlier ones tell."""
        with self._lock:
            rank = next(self._ranks)
            self._waiting[rank] = None
        try:
            line = self._rollouts_line
            await self._until(
                lambda: rank == next(iter(self._waiting)) and self._begins(rollout), line, rank
            )
        finally:
            with self._lock:
                del self._waiting[rank]
            self._wake()

    def _begins(self, rollout: "RolloutSpending") -> bool:
        """Have a rollout begin if it may: the first alone, another one as soon as the budget covers it and the rest of those
        under way, should each cost as much as the dearest so far."""
        if self._under_way:
            if self.rollout is None:
                return False
            promised = (
                max(0.0, self.rollout - each.cost - each.reserved) for each in self._under_way
            )
            if self.left - sum(promised) < self.rollout:
                return False
        elif self._ended and self.left + _SLACK < self._total / self._ended:
            if self.reserved > 0:
                return False
            # Nothing is under way that could leave more.
            rollout.too_dear_for.add(self)
            return True
        self._under_way.add(rollout)
        return True

    def end_rollout(self, rollout: "RolloutSpending") -> None:
        """Learn what a rollout has cost, and let others begin."""
        with self._lock:
            self._under_way.discard(rollout)
            if rollout.calls:
                needed = max(rollout.needed, rollout.cost)
                self.rollout = max(self.rollout or 0.0, needed)
                self._total += needed
                self._ended += 1
        self._wake()


class RolloutSpending:
    """What one rollout has asked for so far, wherever its calls were made."""

    def __init__(self) -> None:
        self.calls = 0
        self.cost = self.reserved = 0.0
        self.needed = (
            0.0  # the most that was spent and set aside for it at once, which another will need too
        )
        self.too_dear_for: set[Ledger] = (
            set()
        )  # ledgers without the dollars for it, where only a cache answers
        self._begun: list[Ledger] = []

    def reserve(self, dollars: float) -> None:
        """Count dollars that are set aside for a call of it; negative when they are free again."""
        self.reserved += dollars
        if dollars > 0:
            self.needed = max(self.needed, self.cost + self.reserved)

    @classmethod
    async def begun(cls) -> "RolloutSpending | None":
        """A rollout that begins as soon as the budget covers it; None without a limit, or inside another rollout."""
        ledger = Ledger.current()
        if ledger is None or not ledger.needs_prices or _ROLLOUT.get() is not None:
            return None
        rollout = cls()
        try:
            # The outermost first: what an inner one has is part of it.
            for each in [each for each in ledger.chain() if each.dollars is not None][::-1]:
                await each.begin_rollout(rollout)
                rollout._begun.append(each)
        except BaseException:
            rollout.end()
            raise
        return rollout

    def inside(self) -> AbstractContextManager[object]:
        """What is asked inside the block is asked for this rollout."""
        return setting(_ROLLOUT, self)

    def end(self) -> None:
        """Let others begin."""
        begun, self._begun = self._begun, []
        for each in begun:
            each.end_rollout(self)


_LEDGER: ContextVar[Ledger | None] = ContextVar("assay_ledger", default=None)
_ROLLOUT: ContextVar[RolloutSpending | None] = ContextVar("assay_rollout_spending", default=None)


@asynccontextmanager
async def rollout_spending() -> AsyncGenerator[None]:
    """Around all that one rollout asks of models: under a limited budget, it begins when it can be paid for."""
    rollout = await RolloutSpending.begun()
    with nullcontext() if rollout is None else rollout.inside():
        try:
            yield
        finally:
            if rollout is not None:
                rollout.end()


def refuse_unpriced(models: Iterable[Model]) -> None:
    """Raise `BudgetExceeded` before a run whose dollars are limited, when the price of one of these is not known."""
    ledger = Ledger.current()
    for model in map(innermost, models) if ledger is not None and ledger.needs_prices else ():
        # A model without the attribute counts its own costs.
        if getattr(model, "price", True) is None:
            raise without_a_price(model.id)


def without_a_price(model: str) -> BudgetExceeded:
    """What is said of a model whose price is not known."""
    advice = "give model_of(..., price=Price(input=…, output=…)), or a table in ASSAY_PRICES"
    return BudgetExceeded(
        f"what {model} costs is not known, so the run cannot be held to its budget: {advice}"
    )


def budget(
    *,
    dollars: float | None = None,
    seconds: float | None = None,
    spent: float = 0.0,
    rollout: float | None = None,
) -> AbstractContextManager[Ledger]:
    """Count, and limit, what is asked of models inside the block.

    Beyond so many `dollars` calls raise `BudgetExceeded`, beyond `seconds` `DeadlineExceeded`, which become errors on the
    lines they were for. `spent` dollars are gone already, as of a run that is resumed; a `rollout` is known to cost so many.

    >>> with budget() as spent:
    ...     pass
    >>> spent.calls, spent.cost
    (0, 0.0)
    """
    for name, value in {
        "dollars": dollars,
        "seconds": seconds,
        "spent": spent,
        "rollout": rollout,
    }.items():
        if value is not None and not value >= 0:
            raise ValueError(f"{name} is {value!r}: give 0 or more")
    return counting_in(
        Ledger(
            dollars=dollars, seconds=seconds, spent=spent, rollout=rollout, parent=Ledger.current()
        )
    )


def dry_run() -> AbstractContextManager[Ledger]:
    """Count what would be asked inside the block, and ask nothing: an estimate before a run.

    Calls end in `NotAsked`. What a cache has counts as a hit, and a question that depends on an answer as asked.
    `most_calls` and `most_cost` include retries and replies that have to be asked for again.
    """
    return counting_in(Ledger(is_dry=True))


def is_dry_run() -> bool:
    """Whether calls are only counted here."""
    ledger = Ledger.current()
    return ledger is not None and ledger.is_dry_run


def count_here(**amounts: Any) -> None:
    """Count amounts, as `Ledger.count` does, where a ledger is kept."""
    ledger = Ledger.current()
    if ledger is not None:
        ledger.count(**amounts)


def count_call(usage: Usage, cost: float | None, model: str = "") -> None:
    """Count a call that was answered, by the `model` of that id; None is the cost where no price is known."""
    rollout = _ROLLOUT.get()
    if rollout is not None:
        rollout.calls += 1
        rollout.cost += cost or 0.0
    if ledger := Ledger.current():
        ledger.count_call(usage, cost, model)


def counting_in(ledger: Ledger) -> setting[Ledger]:
    """Have this ledger count what is asked of models inside the block."""
    return setting(_LEDGER, ledger)
