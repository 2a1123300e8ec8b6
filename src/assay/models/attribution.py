"""Tell apart what was asked of models about each rollout of a group that is scored together."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from assay.concurrency import set_variable
from assay.models.budgets import Ledger, counting_in
from assay.models.model import LoggedCall, log_calls


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
def calls_about(state: Mapping[str, Any]) -> Generator[None]:
    """Attribute the calls inside the block to the rollout with this state.

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
            rollout.calls += calls
