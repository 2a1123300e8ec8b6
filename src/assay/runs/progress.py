"""Progress: how far a run is, told now and then."""

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TypeAlias

from assay.models.ledger import Ledger

EVERY_SECONDS = 0.2
"""How often progress is told at most."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is, and what it took so far."""

    done: int
    """Rows that are finished, those of earlier sittings included."""
    total: int | None = None
    """None when nobody knows how many there are."""
    kept: int = 0
    """Of the finished rows, those that were there before and not done again."""
    errors: int = 0
    """Rows of this sitting on which something went wrong."""
    unscored: int = 0
    hits: int = 0
    calls: int = 0
    tokens: int = 0
    cost: float = 0.0
    """Dollars, as far as prices are known."""
    unpriced: int = 0
    """Calls whose price is not known."""
    seconds: float = 0.0
    """Since this sitting began."""
    eta: float | None = None
    """Seconds that are left at this pace; None when nobody can tell."""


OnProgress: TypeAlias = Callable[[Progress], object]


class Watch:
    """Counts what is finished, and tells whoever watches."""

    def __init__(self, on_progress: OnProgress | None, total: int | None, ledger: Ledger) -> None:
        self.kept = self.errors = self.unscored = self.fresh = 0
        self._tell = on_progress
        self._total = total
        self.ledger = ledger
        self._began = time.monotonic()
        self._told = 0.0

    @property
    def models(self) -> Collection[str]:
        """The ids that endpoints gave the models that answered."""
        return self.ledger.models.keys()

    def now(self) -> Progress:
        """How far it is."""
        seconds = time.monotonic() - self._began
        done = self.kept + self.fresh
        eta = None
        if self._total is not None and self.fresh:
            eta = max(0, self._total - done) * seconds / self.fresh
        usage = self.ledger.usage
        return Progress(
            done=done,
            total=self._total,
            kept=self.kept,
            errors=self.errors,
            unscored=self.unscored,
            hits=self.ledger.hits,
            calls=self.ledger.calls,
            tokens=usage.prompt + usage.completion,
            cost=self.ledger.cost,
            unpriced=self.ledger.unpriced,
            seconds=seconds,
            eta=eta,
        )

    def tell(self, *, at_once: bool = False) -> None:
        """Tell, if it is time."""
        if self._tell is None:
            return
        now = time.monotonic()
        if at_once or now - self._told >= EVERY_SECONDS:
            self._told = now
            self._tell(self.now())
