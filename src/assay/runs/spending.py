"""Spending adds up what one rollout, or a whole run, asked of models; SpendingLog keeps it through kills."""

import json
import os
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from assay.models.budgets import Ledger
from assay.runs.folder import whole_file


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

_WIDTH = 256  # bytes of a sitting's line, so that it can be written over in place


class SpendingLog:
    """What a run has spent over all its sittings: a line for each in `spending.jsonl`.

    The line of a sitting is written over in place whenever something changes, so that a kill forgets no call
    that was answered. Calls that were under way then count with the dollars that were reserved for them, since
    an endpoint may have answered.
    """

    def __init__(self, path: Path, ledger: Ledger) -> None:
        """A line for a new sitting, whose calls the ledger counts."""
        self._ledger = ledger
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        self._place = -(-os.lseek(self._file, 0, os.SEEK_END) // _WIDTH) * _WIDTH
        self._write()
        ledger.on_change = self._write

    def _write(self) -> None:
        known = Spending.of(self._ledger).to_dict() | {"reserved": self._ledger.reserved}
        # What fails is written again after the next call, and rows carry their share; a full disk is told of there.
        with suppress(OSError):
            os.lseek(self._file, self._place, os.SEEK_SET)
            os.write(self._file, json.dumps(known).ljust(_WIDTH - 1).encode() + b"\n")

    def close(self) -> None:
        """Write the last word of this sitting."""
        self._ledger.on_change = None
        self._write()
        os.close(self._file)


def spent_by(path: Path) -> Spending:
    """What all sittings of a run have spent, as their logs say: one for the run, and one an attempt at a shard."""
    total = NOTHING
    for log in (path, *path.parent.glob("parts/*.spending")):
        try:
            lines = log.read_bytes().splitlines()
        except OSError:
            continue
        for line in lines:
            try:
                data: dict[str, Any] = json.loads(line)
                reserved = float(data.pop("reserved", 0.0))
                total += Spending(**data) + Spending(cost=reserved)
            except (ValueError, TypeError, AttributeError):
                continue  # what is damaged here is still told by the rows
    return total


def fold_spending(path: Path) -> None:
    """Put the logs of shards into the log of the run, as the line of one sitting."""
    logs = list(path.parent.glob("parts/*.spending"))
    if logs:
        with whole_file(path) as file:
            file.write(json.dumps(spent_by(path).to_dict()).ljust(_WIDTH - 1).encode() + b"\n")
        for log in logs:
            log.unlink()


def larger(one: Spending, other: Spending) -> Spending:
    """The larger of two accounts of the same spending: each may have missed something."""
    return max(one, other, key=lambda spent: (spent.calls + spent.hits, spent.cost or 0.0))
