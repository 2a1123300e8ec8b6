"""Task: one call on its way through a pool, and the future of its outcome."""

from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from assay.isolation.outcome import Outcome
from assay.isolation.packing import Packed


@dataclass(frozen=True, slots=True)
class Work:
    """What is to be done, and how long it may take."""

    function: Packed
    arguments: bytes
    timeout: float
    """Seconds that it may work."""
    hard_timeout: float | None
    """Seconds after which it ends in any case, counted from its start; None for no such limit."""


class Task(Future[Outcome]):
    """Work, and the future of what comes of it."""

    def __init__(self, work: Work, pool: Any, withdraw: "Callable[[Task], None]") -> None:
        super().__init__()
        self.work = work
        self.attempts = 0
        """How many workers have been given it."""
        self.has_place = False
        """Whether it takes one of the places in the queue."""
        self._withdraw = withdraw
        self._begun = False
        self._pool = pool  # which lives as long as anybody waits for this

    def cancel(self) -> bool:
        """Give up what has not begun. What has begun goes on to its end or its deadline."""
        if not super().cancel():
            return False
        self._pool = None
        self._withdraw(self)
        return True

    def begins(self) -> bool:
        """Whether it is still wanted; from then on it cannot be cancelled."""
        self.attempts += 1
        if not self._begun:
            self._begun = self.set_running_or_notify_cancel()
        return self._begun

    def settle(self, outcome: Outcome) -> None:
        """Tell whoever waits."""
        self._pool = None
        with suppress(InvalidStateError):  # cancelled, or told already
            self.set_result(outcome)
