"""Turns: who lets calls through to an endpoint, this process alone or somebody for many of them."""

import asyncio
from typing import Protocol

from assay.models.gate import Gate, Outcome
from assay.models.limits import Limits
from assay.models.pace import Pace


class Turns(Protocol):
    """Calls wait for their turn, and say when they are through."""

    async def enter(self, tokens: int, *, again: bool) -> None:
        """Wait for a turn; `tokens` is about how many the call will read and write."""
        ...

    def leave(self, outcome: Outcome | None, seconds: float = 0.0) -> None:
        """Give it back and tell what came of it; None when it was not used."""
        ...


class LocalTurns:
    """Turns by limits that are kept here."""

    def __init__(self, limits: Limits) -> None:
        self.gate = Gate(limits.concurrency)
        self.requests = Pace(limits.requests_per_minute)
        self.tokens = Pace(limits.tokens_per_minute)

    async def enter(self, tokens: int, *, again: bool) -> None:
        pause = max(self.requests.take(1), self.tokens.take(tokens))
        if pause:
            await asyncio.sleep(pause)
        await self.gate.enter(again=again)

    def leave(self, outcome: Outcome | None, seconds: float = 0.0) -> None:
        self.gate.leave(outcome, seconds)
