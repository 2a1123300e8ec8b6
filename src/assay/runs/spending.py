"""Add up the calls, tokens and dollars of rollouts and runs, and save them so that a kill loses none."""

from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from assay.models.budgets import Ledger
from assay.runs.run_errors import RunError
from assay.runs.run_file import RunFile
from assay.runs.run_schema import LARGEST_INTEGER
from assay.runs.run_writer import RunWriter


@dataclass(frozen=True, slots=True)
class Spending:
    """Calls of models, tokens and dollars that one or more rollouts took.

    >>> Spending(calls=1, prompt=90, completion=10, cost=0.002) + Spending(calls=1, unpriced=1)
    Spending(calls=2, hits=0, prompt=90, completion=10, cost=0.002, unpriced=1)
    """

    calls: int = 0  # calls that an endpoint answered
    hits: int = 0  # replies from a cache
    prompt: int = 0  # input tokens
    completion: int = 0  # output tokens
    # Dollars, without calls whose price is not known; None if no price of any call is known.
    cost: float | None = 0.0
    unpriced: int = 0  # calls whose price is not known

    def __post_init__(self) -> None:
        has_no_priced_call = self.calls > 0 and self.unpriced >= self.calls
        if has_no_priced_call and not self.cost:
            object.__setattr__(self, "cost", None)  # not known, rather than $0

    @classmethod
    def of(cls, ledger: Ledger) -> "Spending":
        """Return what a ledger of a budget has counted so far."""
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
        """Input and output tokens."""
        return self.prompt + self.completion

    def __add__(self, other: "Spending") -> "Spending":
        if other is NOTHING:  # the common case: scoring without a judge adds this to every row
            return self
        return Spending(
            calls=self.calls + other.calls,
            hits=self.hits + other.hits,
            prompt=self.prompt + other.prompt,
            completion=self.completion + other.completion,
            cost=(self.cost or 0.0) + (other.cost or 0.0),
            unpriced=self.unpriced + other.unpriced,
        )

    def __sub__(self, part: "Spending") -> "Spending":
        """Return this spending without a part of it."""
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
        """Divide the spending into `count` parts of whole calls and tokens, which add up to it."""
        if self == NOTHING:
            return [NOTHING] * count
        if count < 2:
            return [self] * count
        calls = _divide(self.calls, count)
        hits = _divide(self.hits, count)
        prompt = _divide(self.prompt, count)
        completion = _divide(self.completion, count)
        unpriced = _divide(self.unpriced, count)
        return [
            Spending(
                calls=calls[index],
                hits=hits[index],
                prompt=prompt[index],
                completion=completion[index],
                cost=(self.cost or 0.0) / count,
                unpriced=unpriced[index],
            )
            for index in range(count)
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return the amounts that are not zero."""
        return {
            name: value for name, value in asdict(self).items() if value != getattr(NOTHING, name)
        }


def _divide(total: int, count: int) -> list[int]:
    """Divide a number into `count` parts that differ by at most one, the larger ones first."""
    share, remainder = divmod(total, count)
    return [share + 1] * remainder + [share] * (count - remainder)


NOTHING = Spending()


class SpendingLog:
    """Saves what one session of a run spends, in a row of the run's table `spending`.

    A session is the time in which one process writes the run. Its row is replaced whenever the
    amounts change, so that no answered call is forgotten when the process is killed. The row also
    has the dollars that are reserved for calls without a reply yet: if the process is killed, they
    may have been spent.
    """

    def __init__(self, writer: RunWriter, ledger: Ledger) -> None:
        """Start a session. The ledger counts its calls, and reports each change."""
        self._writer = writer
        self._ledger = ledger
        self._session = writer.start_session(f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}")
        ledger.on_change = self._save

    def _save(self) -> None:
        """Save what the session has spent so far, in place of what was saved before."""
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
        # If this fails, the next change saves the amounts again. A full disk is reported where rows
        # are saved.
        with suppress(RunError):
            self._writer.save_spending(self._session, amounts)

    def close(self) -> None:
        """Save the last amounts of this session."""
        self._ledger.on_change = None
        self._save()


def read_spending(file: RunFile) -> Spending:
    """Return what all sessions of a run have spent.

    That includes the dollars that were reserved for calls when a session was killed.
    """
    total = NOTHING
    for calls, hits, prompt, completion, cost, unpriced, reserved in file.select(
        "SELECT calls, cache_hits, input_tokens, output_tokens, cost, unpriced_calls, reserved "
        "FROM spending"
    ):
        total += Spending(
            calls=calls,
            hits=hits,
            prompt=prompt,
            completion=completion,
            cost=cost,
            unpriced=unpriced,
        )
        total += Spending(cost=reserved)
    return total


def choose_larger(first: Spending, second: Spending) -> Spending:
    """Return the larger of two accounts of the same spending, since either may lack calls.

    The one with more calls is larger; of two with as many calls, the one that cost more.
    """

    def measure(spending: Spending) -> tuple[int, float]:
        return spending.calls + spending.hits, spending.cost or 0.0

    return max(first, second, key=measure)
