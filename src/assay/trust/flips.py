"""Flips: which rollouts came out otherwise in a second run, and why."""

from collections.abc import Container, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from assay.runs import Run
from assay.runs.row import Row


@dataclass(frozen=True)
class Change:
    """A criterion that was answered otherwise, with both reasons."""

    criterion: str
    before: str
    after: str
    reason_before: str = ""
    reason_after: str = ""


@dataclass(frozen=True)
class Flip:
    """A rollout that came out otherwise: its score in both runs, and the criteria that changed."""

    example: str
    sample: int
    before: float | None
    """The score in the first run; None when it was unscored."""
    after: float | None
    changes: tuple[Change, ...]

    @property
    def difference(self) -> float:
        """How much the score rose; 0 when one of them is missing."""
        return 0.0 if self.before is None or self.after is None else self.after - self.before

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        return asdict(self)


def flips_between(
    first: Run, second: Run, names: Container[str], examples: Container[str]
) -> Iterator[Flip]:
    """Every rollout of these examples with another score, or another answer to one of these criteria."""
    for before in first.rows():
        if before.example not in examples or before.key not in second:
            continue
        after = second.row(*before.key)
        if _outcome(before) != _outcome(after):
            flip = _flip(before, after, names)
            if flip.changes or flip.before != flip.after:
                yield flip


def _outcome(row: Row) -> tuple[object, ...]:
    """What is the same when nothing flipped; quicker to see than every line."""
    return row.score, row.report.metrics, row.errors


def _flip(before: Row, after: Row, names: Container[str]) -> Flip:
    later = {line.name: line for line in after.report.lines}
    changes = [
        Change(
            line.name,
            line.said,
            later[line.name].said,
            line.error or line.reason,
            later[line.name].error or later[line.name].reason,
        )
        for line in before.report.lines
        if line.name in names and line.name in later and line.said != later[line.name].said
    ]
    return Flip(*before.key, before.score, after.score, tuple(changes))
