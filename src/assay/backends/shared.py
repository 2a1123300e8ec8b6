"""What a worker shares with the others of its run: turns at endpoints, and money."""

import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from assay.backends.client import PermitClient
from assay.backends.job import Permits
from assay.models.endpoint import Endpoint
from assay.models.ledger import Ledger, counting_in

_COUNTED = ("calls", "retries", "hits", "shared", "models", "errors", "usage", "cost", "unpriced")


@asynccontextmanager
async def sharing(permits: Permits | None) -> AsyncGenerator["Sharing"]:
    """Inside the block every endpoint of this process asks for its turns there; None leaves each to its own."""
    if permits is None:
        with counting_in(Ledger()) as ledger:
            yield Sharing(ledger, _to_nobody)
        return
    client = PermitClient(permits.address)
    seconds = None if permits.ends is None else max(0.0, permits.ends - time.time())
    ledger = SharedLedger(client, seconds) if permits.is_money_limited else Ledger(seconds=seconds)
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
    """A ledger whose money all workers share."""

    def __init__(self, client: PermitClient, seconds: float | None) -> None:
        super().__init__(money=float("inf"), seconds=seconds)
        self._client = client
        self._taken: dict[float, list[int]] = {}
        """The numbers of what was set aside, by amount."""
        self._told = 0.0
        """How much of the cost the server knows."""

    async def _take(self, estimate: float) -> None:
        number = await self._client.here.reserve(estimate)
        self._taken.setdefault(estimate, []).append(number)

    def _put_back(self, estimate: float) -> None:
        cost = self.cost - self._told
        self._told += cost
        number = self._taken[estimate].pop()
        self._client.here.tell({"settle": number, "cost": cost})
