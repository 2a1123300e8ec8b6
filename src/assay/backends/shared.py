"""What a worker shares with the others of its run: turns at endpoints, and money."""

import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, NamedTuple

from assay.backends.client import PermitClient
from assay.backends.job import Permits
from assay.errors import Overloaded
from assay.models.budgets import Ledger, RolloutSpending, counting_in
from assay.models.model import Usage
from assay.models.retry import Endpoint

_COUNTED = ("calls", "retries", "hits", "shared", "models", "errors", "usage", "cost", "unpriced")


@asynccontextmanager
async def sharing(permits: Permits | None) -> AsyncGenerator["Sharing"]:
    """Inside the block every endpoint of this process asks for its turns there; None leaves each to its own."""
    if permits is None:
        with counting_in(Ledger()) as ledger:
            yield Sharing(ledger, _to_nobody)
        return
    client = PermitClient(permits.address)
    with suppress(Overloaded):  # which the first call says, on its own line
        await client.here.open()
    seconds = None if permits.ends is None else max(0.0, permits.ends - time.time())
    ledger = SharedLedger(client, seconds, is_money_limited=permits.is_money_limited)
    with Endpoint.sharing(client.turns), counting_in(ledger):
        try:
            yield Sharing(ledger, client.tell)
        finally:
            await client.close()


class Sharing(NamedTuple):
    """What a worker has of the others."""

    ledger: Ledger
    """Counts what is asked of models here."""
    tell: Callable[[Mapping[str, Any]], None]
    """Tells the driver something."""


def _to_nobody(said: Mapping[str, Any]) -> None:
    """There is nobody to tell."""


def counts_of(ledger: Ledger) -> dict[str, Any]:
    """What a ledger has counted, for one in another process."""
    return {name: getattr(ledger, name) for name in _COUNTED}


def take_in(ledger: Ledger, counts: Mapping[str, Any]) -> None:
    """Count what was counted in another process."""
    for each in ledger.chain():
        for name, value in counts.items():
            setattr(each, name, getattr(each, name) + value)


class SharedLedger(Ledger):
    """A ledger whose money all workers share. The driver is told of every call, so that it knows all spending."""

    def __init__(self, client: PermitClient, seconds: float | None, *, is_money_limited: bool) -> None:
        super().__init__(dollars=float("inf") if is_money_limited else None, seconds=seconds)
        self._client = client
        self._taken: dict[float, list[int]] = {}
        """The numbers of what was set aside, by amount."""
        self._numbers: dict[RolloutSpending, int] = {}
        """The rollouts that have begun, by the numbers that the server knows them by."""

    async def _take(self, estimate: float, rollout: RolloutSpending | None) -> None:
        if self.dollars is None:
            return
        known = None if rollout is None else self._numbers.get(rollout)
        number = await self._client.here.reserve(estimate, known)
        self._taken.setdefault(estimate, []).append(number)

    def _put_back(self, estimate: float) -> None:
        if self.dollars is not None:
            self._client.here.tell({"settle": self._taken[estimate].pop()})

    def _add(self, usage: Usage, cost: float | None, model: str) -> None:
        super()._add(usage, cost, model)
        rollout = RolloutSpending.current()
        number = None if rollout is None else self._numbers.get(rollout)
        said = {"spent": list(usage), "cost": cost, "model": model, "rollout": number}
        self._client.here.tell(said)

    async def begin_rollout(self, rollout: RolloutSpending) -> None:
        self._numbers[rollout] = await self._client.here.begin()

    def end_rollout(self, rollout: RolloutSpending) -> None:
        self._client.here.tell({"end": self._numbers.pop(rollout)})
