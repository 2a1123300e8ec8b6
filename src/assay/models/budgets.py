"""Count the calls, tokens and dollars of a run, and keep them within a budget.

Every call counts, even if its reply could not be read. Budgets nest: what is spent in an inner one
is spent in the outer ones too. A budget in dollars is spent rollout by rollout: a rollout starts
only when there are enough dollars to finish it and those that are in progress.

Calls and rollouts wait for dollars on any thread and event loop. They wait for futures of
`concurrent.futures`, which any thread can set.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections import Counter, deque
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from assay.concurrency import set_variable
from assay.criterion import Criterion
from assay.errors import BudgetExceeded
from assay.models.model import NOTHING, LoggedCall, Model, Usage, innermost, log_calls

_ROUNDING = 1e-12  # dollars by which a sum may be off, depending on the order of its terms


def budget(
    *,
    dollars: float | None = None,
    seconds: float | None = None,
    calls: int | None = None,
    spent: float = 0.0,
    rollout: float | None = None,
) -> AbstractContextManager[Ledger]:
    """Count the calls to models inside the block, and limit what they cost.

    When `dollars` are spent, further calls raise `BudgetExceeded`; after `seconds` they raise
    `DeadlineExceeded`. In a report, both are errors of the criteria that needed the calls.

    `calls` limits the requests to endpoints, also to those without a price, such as models on this
    machine. Failed attempts count, and then `BudgetExceeded` is raised as well.

    `spent` is how much of the dollars an earlier part of a resumed run has spent. `rollout` is
    about how many dollars one rollout costs, if that is known: a rollout starts only if there are
    enough dollars to finish it.

    >>> with budget() as ledger:
    ...     pass
    >>> ledger.calls, ledger.cost
    (0, 0.0)
    """
    options = {
        "dollars": dollars,
        "seconds": seconds,
        "calls": calls,
        "spent": spent,
        "rollout": rollout,
    }
    for name, value in options.items():
        if value is not None and not value >= 0:
            raise ValueError(f"{name} is {value!r}: give 0 or more")
    ledger = Ledger(
        dollars=dollars,
        seconds=seconds,
        max_requests=calls,
        spent=spent,
        rollout=rollout,
        parent=Ledger.current(),
    )
    return counting_in(ledger)


def dry_run() -> AbstractContextManager[Ledger]:
    """Estimate what the block would ask of models, and its cost, without asking them.

    Every call is counted and raises `NotAsked`. Replies from a cache count as hits. A question that
    would depend on an earlier answer is counted in any case. `most_calls` and `most_cost` include
    all retries, and all replies that may have to be asked for again.
    """
    return counting_in(Ledger(is_dry=True))


def is_dry_run() -> bool:
    """Return whether calls are only counted here."""
    ledger = Ledger.current()
    return ledger is not None and ledger.is_dry_run


def has_stand_ins() -> bool:
    """Return whether texts stand in here for what a model would have written in a dry run."""
    innermost_ledger = Ledger.current()
    if innermost_ledger is None:
        return False
    return any(ledger.has_stand_ins for ledger in innermost_ledger.self_and_outer())


def counting_in(ledger: Ledger) -> set_variable[Ledger]:
    """Count what is asked of models inside the block in this ledger."""
    return set_variable(_current_ledger, ledger)


def count_request() -> None:
    """Count a request that is about to be sent, in the current ledger and those around it.

    Raises `BudgetExceeded` if one of them allows no more requests.
    """
    innermost_ledger = Ledger.current()
    if innermost_ledger is not None:
        for ledger in innermost_ledger.self_and_outer():
            ledger.check_requests()
        innermost_ledger.count(requests=1)  # which counts it in the outer ones too


def count_here(**amounts: Any) -> None:
    """Count amounts in the current ledger, as `Ledger.count` does, if there is one."""
    ledger = Ledger.current()
    if ledger is not None:
        ledger.count(**amounts)


@contextmanager
def open_call(model: str) -> Generator[None]:
    """List the call inside the block as one that is waited for.

    It is listed in the current ledger and in those around it. `model` is the name of the model.
    """
    innermost_ledger = Ledger.current()
    if innermost_ledger is None:
        yield
        return
    call = OpenCall(model, time.monotonic())
    ledgers = innermost_ledger.self_and_outer()
    for ledger in ledgers:
        ledger.open_calls[call] = None
    try:
        yield
    finally:
        for ledger in ledgers:
            del ledger.open_calls[call]


@dataclass(frozen=True, eq=False, slots=True)
class OpenCall:
    """A call to a model that is not answered yet."""

    model: str
    start: float  # on the monotonic clock


def count_call(usage: Usage, cost: float | None, model: str = "") -> None:
    """Count a call that was answered, by a model of this id. `cost` is None without a price."""
    rollout = _current_rollout.get()
    if rollout is not None:
        rollout.calls += 1
        rollout.cost += cost or 0.0
    ledger = Ledger.current()
    if ledger is not None:
        ledger.count_call(usage, cost, model)


def raise_if_price_unknown(models: Iterable[Model]) -> None:
    """Raise `BudgetExceeded` if dollars are limited and the price of a model is not known."""
    ledger = Ledger.current()
    if ledger is None or not ledger.needs_prices:
        return
    for model in models:
        inner_model: Any = innermost(model)
        # A model without the attribute `price` counts its own costs. None is an unknown price.
        if hasattr(inner_model, "price") and inner_model.price is None:
            raise unknown_price_error(inner_model.id)


def unknown_price_error(model_id: str) -> BudgetExceeded:
    """Return the error for a model whose price is not known."""
    return BudgetExceeded(
        f"the price of {model_id} is not known, so the run cannot be kept within its budget: "
        "give the price in dollars per million tokens, 0 if the model costs nothing "
        "(--price INPUT,OUTPUT, or model_of(..., price=Price(input=…, output=…)), or a table in "
        "ASSAY_PRICES), or limit calls instead (--max-calls N, or budget(calls=N))"
    )


@asynccontextmanager
async def reserve_dollars(dollars: float) -> AsyncGenerator[None]:
    """Set dollars aside for the call inside the block, in the current ledger and those around it.

    If there are not enough dollars, this waits for the calls in flight, which may cost less than
    was set aside for them. Raises `BudgetExceeded` if there are no such calls.
    """
    innermost_ledger = Ledger.current()
    if innermost_ledger is None:
        yield
        return
    if dollars == 0 and not innermost_ledger.needs_prices:
        # Nothing has to be set aside, and no limit has to be checked.
        yield
        return
    rollout = _current_rollout.get()
    with ExitStack() as release_at_end:
        for ledger in innermost_ledger.self_and_outer():
            await ledger.reserve(dollars, rollout)
            release_at_end.callback(ledger.release, dollars)
        if rollout is not None:
            rollout.reserve(dollars)
            release_at_end.callback(rollout.release, dollars)
        yield


@asynccontextmanager
async def rollout_spending() -> AsyncGenerator[None]:
    """Count the calls inside the block as those of one rollout.

    If dollars are limited, this waits until there are enough of them for a rollout.
    """
    rollout = await RolloutSpending.start()
    if rollout is None:
        yield
        return
    try:
        with rollout.inside():
            yield
    finally:
        rollout.end()


class RolloutSpending:
    """What one rollout has spent so far, wherever its calls were made."""

    def __init__(self) -> None:
        self.calls = 0
        self.cost = 0.0  # dollars of the calls that were answered
        self.reserved = 0.0  # dollars set aside for calls in flight
        # The highest sum of both so far. It is the estimate of what another rollout needs.
        self.needed = 0.0
        # The ledgers that cannot pay for this rollout. Only a cache can answer its calls.
        self.unaffordable_in: set[Ledger] = set()
        self._started_in: list[Ledger] = []

    @classmethod
    async def start(cls) -> RolloutSpending | None:
        """Wait until there are enough dollars for another rollout, and start it.

        Returns None if dollars are not limited, or if this is part of another rollout.
        """
        innermost_ledger = Ledger.current()
        if innermost_ledger is None or not innermost_ledger.needs_prices:
            return None
        is_part_of_rollout = _current_rollout.get() is not None
        if is_part_of_rollout:
            return None
        rollout = cls()
        try:
            # The outermost ledger first: the dollars of the inner ones are part of its dollars.
            for ledger in reversed(innermost_ledger.self_and_outer()):
                if ledger.dollars is not None:
                    await ledger.start_rollout(rollout)
                    rollout._started_in.append(ledger)
        except BaseException:
            rollout.end()
            raise
        return rollout

    def inside(self) -> AbstractContextManager[object]:
        """Count what is asked inside the block as part of this rollout."""
        return set_variable(_current_rollout, self)

    def reserve(self, dollars: float) -> None:
        """Count dollars that are set aside for one of its calls."""
        self.reserved += dollars
        self.needed = max(self.needed, self.cost + self.reserved)

    def release(self, dollars: float) -> None:
        """Count dollars as no longer set aside, after the call."""
        self.reserved -= dollars
        self.needed = max(self.needed, self.cost + self.reserved)

    def end(self) -> None:
        """End the rollout, so that others can start. A second call has no effect."""
        while self._started_in:
            self._started_in.pop().end_rollout(self)


class Ledger:
    """The calls, tokens and dollars of a run, and its limits. It can be read at any time."""

    def __init__(
        self,
        *,
        dollars: float | None = None,
        seconds: float | None = None,
        max_requests: int | None = None,
        spent: float = 0.0,
        rollout: float | None = None,
        is_dry: bool = False,
        parent: Ledger | None = None,
    ) -> None:
        """For the options see `budget`. What is counted here is counted in `parent` as well."""
        self._outer: tuple[Ledger, ...] = () if parent is None else parent.self_and_outer()
        self._lock = threading.Lock()

        # Limits.
        self.dollars = dollars  # None if there is no limit
        self.spent_before = spent
        # Dollars that the most expensive rollout so far needed; None before the first has ended.
        self.rollout = rollout
        self.max_requests = max_requests  # None if there is no limit
        # When this run and those around it end, on the monotonic clock.
        self.deadline = math.inf if seconds is None else time.monotonic() + seconds
        # Whether dollars are limited, so that calls without a known price are refused.
        self.needs_prices = dollars is not None
        self.is_dry_run = is_dry  # whether calls are estimated and not made
        if parent is not None:
            self.deadline = min(self.deadline, parent.deadline)
            self.needs_prices = self.needs_prices or parent.needs_prices
            self.is_dry_run = self.is_dry_run or parent.is_dry_run

        # Counts.
        self.calls = 0  # calls that the endpoint answered
        self.requests = 0  # requests to endpoints, also those that failed
        self.retries = 0  # attempts after the first of each call
        self.hits = 0  # replies from a cache
        self.shared = 0  # replies taken over from an equal request in flight
        self.models: Counter[str] = Counter()  # replies by the model's id, as the endpoint gives it
        self.errors: Counter[str] = Counter()  # failed calls by the name of the error
        # The calls that are waited for, in the order in which they were begun.
        self.open_calls: dict[OpenCall, None] = {}
        self.usage = NOTHING
        self.cost = 0.0  # dollars, as far as prices are known
        self.unpriced = 0  # calls without a known price
        # In a dry run: whether texts stand in for what a model would have written. What checks find
        # in them says nothing about what would be asked of judges.
        self.has_stand_ins = False
        # In a dry run: the attempts and the dollars in the worst case. All attempts but the last
        # fail, all replies have to be asked for again, and the endpoint refuses every optional
        # parameter.
        self.most_calls = 0
        self.most_cost = 0.0
        self.reserved = 0.0  # dollars set aside for calls in flight
        # Called when cost or reservations have changed, with the ledger locked.
        self.on_change: Callable[[], None] | None = None

        # Who waits for dollars, in order of arrival.
        self._waiting_calls: deque[_Waiting] = deque()
        self._waiting_rollouts: deque[_Waiting] = deque()
        self._active_rollouts: set[RolloutSpending] = set()
        # The number and the total cost of the rollouts that have ended, for their mean cost. A cost
        # that was given counts as that of one rollout.
        self._ended_rollouts = 0 if rollout is None else 1
        self._ended_dollars = rollout or 0.0

    @classmethod
    def current(cls) -> Ledger | None:
        """Return the innermost ledger here; None outside of any `budget`."""
        return _current_ledger.get()

    @property
    def left(self) -> float:
        """Dollars that are neither spent nor reserved."""
        limit = math.inf if self.dollars is None else self.dollars
        return limit - self.spent_before - self.cost - self.reserved

    def self_and_outer(self) -> tuple[Ledger, ...]:
        """Return this ledger and those around it, the innermost first."""
        return (self, *self._outer)

    def count(self, **amounts: Any) -> None:
        """Add to counts of this ledger and of those around it. Each keyword names a count.

        - A number is added: `retries=1` adds 1 to `retries`.
        - For a count that is a `Counter`, a text is the key that is counted: `errors="Refused"`
          adds 1 to `errors["Refused"]`. An empty text is not counted.
        - A whole `Counter`, such as that of another ledger, is added key by key.
        """
        for ledger in self.self_and_outer():
            with ledger._lock:
                for name, amount in amounts.items():
                    count = getattr(ledger, name)
                    if amount == "":
                        continue
                    if isinstance(amount, str):
                        count[amount] += 1
                    else:
                        setattr(ledger, name, count + amount)
                if "cost" in amounts:
                    ledger._report_change()

    def count_call(self, usage: Usage, cost: float | None, model: str) -> None:
        """Count one call, in this ledger and those around it.

        `cost` is None if the price is not known. This does the same as `count` in a third of the
        time.
        """
        for ledger in self.self_and_outer():
            with ledger._lock:
                ledger.calls += 1
                ledger.usage += usage
                ledger.cost += cost or 0.0
                if cost is None:
                    ledger.unpriced += 1
                if model:
                    ledger.models[model] += 1
                ledger._report_change()

    def check_requests(self) -> None:
        """Raise `BudgetExceeded` if no further request may be sent."""
        if self.max_requests is not None and self.requests >= self.max_requests:
            raise BudgetExceeded(
                f"all {self.max_requests} calls have been made: allow more, or use the answers so far"
            )

    def _report_change(self) -> None:
        """Call `on_change`, if it is set. The ledger is locked."""
        if self.on_change is not None:
            self.on_change()

    async def reserve(self, dollars: float, rollout: RolloutSpending | None) -> None:
        """Set dollars of this ledger aside for a call, once there are enough.

        Raises `BudgetExceeded` if there will not be enough even after all calls in flight.
        """
        await self._wait_for_dollars(
            self._waiting_calls,
            try_take=lambda: self._try_reserve(dollars, rollout),
            give_back=lambda: self._change_reserved(-dollars),
        )

    def _try_reserve(self, dollars: float, rollout: RolloutSpending | None) -> bool:
        """Set dollars aside for a call if there are enough; return False if it has to wait.

        Raises `BudgetExceeded` if waiting cannot help. The ledger is locked.
        """
        # A rollout that this ledger cannot pay for was started only because a cache may answer it.
        is_affordable = rollout is None or self not in rollout.unaffordable_in
        if is_affordable and dollars <= self.left + _ROUNDING:
            self._change_reserved(dollars)
            return True
        if is_affordable and self.reserved > 0:
            # A call in flight may cost less than was set aside for it.
            return False
        spent_dollars = self.spent_before + self.cost
        earlier = ""
        if self.spent_before:
            earlier = f" (${self.spent_before:.4f} of it in earlier sessions)"
        raise BudgetExceeded(
            f"${spent_dollars:.4f} of ${self.dollars or 0.0:.4f} are spent{earlier} "
            f"and the next call may cost ${dollars:.4f}: "
            "give the run a larger budget, or use the answers so far"
        )

    def release(self, dollars: float) -> None:
        """Free dollars that were set aside for a call."""
        with self._lock:
            self._change_reserved(-dollars)
            self._serve_waiting()

    def _change_reserved(self, dollars: float) -> None:
        """Add dollars to what is reserved; a negative amount frees them. The ledger is locked."""
        self.reserved += dollars
        if self.reserved < _ROUNDING:
            self.reserved = 0.0
        self._report_change()

    async def start_rollout(self, rollout: RolloutSpending) -> None:
        """Wait until the dollars of this ledger cover a rollout. Rollouts start in order."""
        await self._wait_for_dollars(
            self._waiting_rollouts,
            try_take=lambda: self._try_start_rollout(rollout),
            give_back=lambda: self._active_rollouts.discard(rollout),
        )

    def _try_start_rollout(self, rollout: RolloutSpending) -> bool:
        """Start a rollout if the dollars cover it; return False if it has to wait.

        The ledger is locked.
        """
        if self._active_rollouts:
            is_affordable = self._covers_another_rollout()
            may_become_affordable = True  # once those in progress have ended
        elif self._ended_rollouts:
            mean_cost = self._ended_dollars / self._ended_rollouts
            is_affordable = mean_cost <= self.left + _ROUNDING
            # A call in flight may cost less than was set aside for it.
            may_become_affordable = self.reserved > 0
        else:
            # The first rollout always starts, since its cost is not known.
            is_affordable = True
            may_become_affordable = True
        if is_affordable:
            self._active_rollouts.add(rollout)
            return True
        if may_become_affordable:
            return False
        # There will never be enough dollars. It starts nevertheless, since a cache may answer its
        # calls, but it can set aside no dollars here.
        rollout.unaffordable_in.add(self)
        return True

    def _covers_another_rollout(self) -> bool:
        """Return whether the dollars cover another rollout and the rest of those in progress.

        Each is assumed to cost as much as the most expensive one so far. Before the first rollout
        has ended, its cost is not known, and no other one may start.
        """
        rollout_cost = self.rollout
        if rollout_cost is None:
            return False
        still_needed = 0.0  # by the rollouts in progress, beyond what they have spent and reserved
        for active in self._active_rollouts:
            still_needed += max(0.0, rollout_cost - active.cost - active.reserved)
        return self.left - still_needed >= rollout_cost

    def end_rollout(self, rollout: RolloutSpending) -> None:
        """End a rollout: learn from its cost how much others need, and let the next ones start."""
        with self._lock:
            self._active_rollouts.discard(rollout)
            if rollout.calls:
                # Rollouts that were answered from a cache say nothing about the cost.
                needed = max(rollout.needed, rollout.cost)
                self.rollout = max(self.rollout or 0.0, needed)
                self._ended_dollars += needed
                self._ended_rollouts += 1
            self._serve_waiting()

    async def _wait_for_dollars(
        self,
        queue: deque[_Waiting],
        *,
        try_take: Callable[[], bool],
        give_back: Callable[[], object],
    ) -> None:
        """Wait in a queue until `try_take` has taken what this call or rollout needs.

        `try_take` takes it and returns True, or returns False if there is not enough yet. It raises
        `BudgetExceeded`, and so does this method, if there never will be. `give_back` undoes it: it
        is called if the caller is cancelled just after its turn came. Both are called with the
        ledger locked.
        """
        with self._lock:
            if not queue and try_take():
                return
            # Every release of dollars calls `_serve_waiting()`, which calls `try_take` again.
            waiting = _Waiting(try_take)
            queue.append(waiting)
        try:
            # Shielded, so that a cancelled caller does not cancel the future, which another thread
            # may be about to set.
            await asyncio.shield(asyncio.wrap_future(waiting.turn))
        except asyncio.CancelledError:
            with self._lock:
                if waiting in queue:
                    queue.remove(waiting)
                else:
                    has_taken = waiting.turn.exception() is None
                    if has_taken:
                        give_back()
                self._serve_waiting()
            raise

    def _serve_waiting(self) -> None:
        """Let waiting calls go, and then waiting rollouts, as far as there are dollars for them.

        Each of the two queues is served in order: if its first has to wait on, so do all others in
        it. The ledger is locked.
        """
        for queue in (self._waiting_calls, self._waiting_rollouts):
            while queue:
                waiting = queue[0]
                try:
                    has_taken = waiting.try_take()
                except BudgetExceeded as error:  # there will never be enough dollars
                    waiting.turn.set_exception(error)
                else:
                    if not has_taken:
                        break
                    waiting.turn.set_result(None)
                queue.popleft()


@dataclass(eq=False, slots=True)
class RolloutCalls:
    """The calls about one rollout."""

    state: Mapping[str, Any]  # of the rollout
    is_logged: bool
    ledgers: list[Ledger] = field(default_factory=list[Ledger])
    calls: list[LoggedCall] = field(default_factory=list[LoggedCall])  # empty if not logged


_by_state_id: ContextVar[Mapping[int, RolloutCalls] | None] = ContextVar(
    "assay_calls_by_state", default=None
)


@contextmanager
def attribute_calls(
    states: Iterable[Mapping[str, Any]], *, is_logged: bool = False
) -> Generator[list[RolloutCalls]]:
    """Attribute calls inside the block to the rollouts with these states.

    The block receives an item for each state. The current ledger counts all calls, also those that
    are about no single rollout. With `is_logged`, calls are logged in the item of their rollout,
    and not in the current log.
    """
    rollouts = [RolloutCalls(state, is_logged) for state in states]
    with set_variable(_by_state_id, {id(rollout.state): rollout for rollout in rollouts}):
        yield rollouts


@contextmanager
def calls_about(state: Mapping[str, Any], criteria: Sequence[Criterion]) -> Generator[None]:
    """Attribute the calls inside the block to the rollout with this state, and to its criteria.

    This does nothing outside of `attribute_calls`, or if that does not know the state.
    """
    by_state_id = _by_state_id.get()
    rollout = None if by_state_id is None else by_state_id.get(id(state))
    if rollout is None:
        yield
        return
    ledger = Ledger(parent=Ledger.current())
    rollout.ledgers.append(ledger)
    with (
        set_variable(_by_state_id, None),  # whatever the block scores belongs to this rollout
        counting_in(ledger),
        log_calls(wanted=rollout.is_logged) as calls,
    ):
        try:
            yield
        finally:
            rollout.calls += [_name_criterion(call, criteria) for call in calls]


def _name_criterion(call: LoggedCall, criteria: Sequence[Criterion]) -> LoggedCall:
    """Return a call with the name of the criterion that it was about, if that is known.

    It was about one of these criteria, or about several of them.
    """
    if len(criteria) == 1:
        return call._replace(criterion=criteria[0].name)
    question_hash, _, _ = call.question.partition("@")  # without the step that it is about
    for criterion in criteria:
        if question_hash and criterion.question_hash == question_hash:
            return call._replace(criterion=criterion.name)
    return call


@dataclass(eq=False, slots=True)
class _Waiting:
    """A call or a rollout that waits for dollars."""

    try_take: Callable[[], bool]  # see `Ledger._wait_for_dollars`
    # Set when `try_take` has returned True, or to its exception.
    turn: Future[None] = field(default_factory=lambda: Future[None]())


_current_ledger: ContextVar[Ledger | None] = ContextVar("assay_ledger", default=None)
_current_rollout: ContextVar[RolloutSpending | None] = ContextVar(
    "assay_rollout_spending", default=None
)
