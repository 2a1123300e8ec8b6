"""Spending adds up what one rollout, or a whole run, asked of models; SpendingLog keeps it through kills."""

from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from assay.models.budgets import Ledger
from assay.runs.run_store import LARGEST_INTEGER, RunError, RunFile, RunWriter


@dataclass(frozen=True, slots=True)
class Spending:
    """Calls, tokens and dollars. They add up.

    >>> Spending(calls=1, prompt=90, completion=10, cost=0.002) + Spending(calls=1, unpriced=1)
    Spending(calls=2, hits=0, prompt=90, completion=10, cost=0.002, unpriced=1)
    """

    calls: int = 0  # calls that an endpoint answered
    hits: int = 0  # replies that a cache had
    prompt: int = 0  # input tokens
    completion: int = 0  # output tokens
    cost: float | None = (
        0.0  # dollars, as far as prices are known; None when calls were made and no price is known
    )
    unpriced: int = 0  # calls whose price is not known, and which are not in `cost`

    def __post_init__(self) -> None:
        if self.calls and self.unpriced >= self.calls and not self.cost:
            object.__setattr__(self, "cost", None)

    @classmethod
    def of(cls, ledger: Ledger) -> "Spending":
        """What a ledger has counted so far."""
        usage = ledger.usage
        return cls(
            ledger.calls, ledger.hits, usage.prompt, usage.completion, ledger.cost, ledger.unpriced
        )

    @property
    def tokens(self) -> int:
        """Input and output tokens."""
        return self.prompt + self.completion

    def __add__(self, other: "Spending") -> "Spending":
        if other is NOTHING:  # as what scoring without a judge took, which is added to every row
            return self
        return Spending(
            self.calls + other.calls,
            self.hits + other.hits,
            self.prompt + other.prompt,
            self.completion + other.completion,
            (self.cost or 0.0) + (other.cost or 0.0),
            self.unpriced + other.unpriced,
        )

    def __sub__(self, part: "Spending") -> "Spending":
        """Return the rest of this spending without a part of it."""
        if part is NOTHING:
            return self
        return Spending(
            calls=self.calls - part.calls,
            hits=self.hits - part.hits,
            prompt=self.prompt - part.prompt,
            completion=self.completion - part.completion,
            cost=max(0.0, (self.cost or 0.0) - (part.cost or 0.0)),
            unpriced=self.unpriced - part.unpriced,
        )

    def shares(self, count: int) -> "list[Spending]":
        """The same in so many parts, which add up to it."""
        if count < 2 or self == NOTHING:
            return [NOTHING if self == NOTHING else self] * count
        numbers = {
            name: divmod(number, count) for name, number in asdict(self).items() if name != "cost"
        }
        cost = (self.cost or 0.0) / count
        return [
            Spending(
                cost=cost, **{name: each + (place < rest) for name, (each, rest) in numbers.items()}
            )
            for place in range(count)
        ]

    def to_dict(self) -> dict[str, Any]:
        """What differs from nothing."""
        return {
            name: value for name, value in asdict(self).items() if value != getattr(NOTHING, name)
        }


NOTHING = Spending()


class SpendingLog:
    """Saves what a session of a run spends, as its row of the table `spending`.

    The row is replaced whenever something changes, so that a kill forgets no call that was
    answered. It also has the dollars that are reserved for calls in flight, since an endpoint may
    have answered them when the process was killed.
    """

    def __init__(self, writer: RunWriter, ledger: Ledger) -> None:
        """Start a session, whose calls the ledger counts."""
        self._writer = writer
        self._ledger = ledger
        self._session = writer.start_session(f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}")
        ledger.on_change = self._save

    def _save(self) -> None:
        ledger = self._ledger
        spent = Spending.of(ledger)
        amounts = {
            "calls": spent.calls,
            "cache_hits": spent.hits,
            "input_tokens": min(spent.prompt, LARGEST_INTEGER),
            "output_tokens": min(spent.completion, LARGEST_INTEGER),
            "cost": spent.cost,
            "unpriced_calls": spent.unpriced,
            "reserved": ledger.reserved,
        }
        # What fails is saved again after the next call. A full disk is reported where rows are
        # saved.
        with suppress(RunError):
            self._writer.save_spending(self._session, amounts)

    def close(self) -> None:
        """Save the last amounts of this session."""
        self._ledger.on_change = None
        self._save()


def read_spending(file: RunFile) -> Spending:
    """Return what all sessions of a run have spent, with what was reserved at a kill."""
    total = NOTHING
    for calls, hits, prompt, completion, cost, unpriced, reserved in file.select(
        "SELECT calls, cache_hits, input_tokens, output_tokens, cost, unpriced_calls, reserved "
        "FROM spending"
    ):
        total += Spending(calls, hits, prompt, completion, cost, unpriced)
        total += Spending(cost=reserved)
    return total


def larger(one: Spending, other: Spending) -> Spending:
    """The larger of two accounts of the same spending: each may have missed something."""
    return max(one, other, key=lambda spent: (spent.calls + spent.hits, spent.cost or 0.0))
