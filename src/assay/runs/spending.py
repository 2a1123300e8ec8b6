"""Spending: what one rollout, or a whole run, asked of models."""

from dataclasses import asdict, dataclass
from typing import Any

from assay.models.ledger import Ledger


@dataclass(frozen=True)
class Spending:
    """Calls, tokens and dollars. They add up.

    >>> Spending(calls=1, prompt=90, completion=10, cost=0.002) + Spending(calls=1, unpriced=1)
    Spending(calls=2, hits=0, prompt=90, completion=10, cost=0.002, unpriced=1)
    """

    calls: int = 0
    """Calls that an endpoint answered."""
    hits: int = 0
    """Replies that a cache had."""
    prompt: int = 0
    """Tokens read."""
    completion: int = 0
    """Tokens written."""
    cost: float | None = 0.0
    """Dollars, as far as prices are known; None when calls were made and no price is known."""
    unpriced: int = 0
    """Calls whose price is not known, and which are not in `cost`."""

    def __post_init__(self) -> None:
        if self.calls and self.unpriced >= self.calls and not self.cost:
            object.__setattr__(self, "cost", None)

    @classmethod
    def of(cls, ledger: Ledger) -> "Spending":
        """What a ledger has counted so far."""
        usage = ledger.usage
        return cls(
            calls=ledger.calls,
            hits=ledger.hits,
            prompt=usage.prompt,
            completion=usage.completion,
            cost=ledger.cost,
            unpriced=ledger.unpriced,
        )

    @property
    def tokens(self) -> int:
        """Tokens read and written."""
        return self.prompt + self.completion

    def __add__(self, other: "Spending") -> "Spending":
        return Spending(
            self.calls + other.calls,
            self.hits + other.hits,
            self.prompt + other.prompt,
            self.completion + other.completion,
            (self.cost or 0.0) + (other.cost or 0.0),
            self.unpriced + other.unpriced,
        )

    def to_dict(self) -> dict[str, Any]:
        """What differs from nothing."""
        return {name: value for name, value in asdict(self).items() if value != _DEFAULTS[name]}


NOTHING = Spending()
_DEFAULTS = asdict(NOTHING)
