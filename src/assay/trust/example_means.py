"""Means by example: several rollouts of one example count as one observation, never as several."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from assay.identity import hash_of
from assay.runs.row import Row


@dataclass
class Column:
    """One figure of a run: its values summed by example."""

    sums: dict[str, tuple[float, int]] = field(default_factory=dict[str, tuple[float, int]])
    unanswered: int = 0
    """Rollouts without a value because something went wrong."""

    def add(self, example: str, value: float) -> None:
        total, count = self.sums.get(example, (0.0, 0))
        self.sums[example] = (total + value, count + 1)

    def mean(self, example: str) -> float:
        total, count = self.sums[example]
        return total / count

    @property
    def is_plain(self) -> bool:
        """Whether every example has one rollout, and its value is 0 or 1."""
        return all(count == 1 and total in (0.0, 1.0) for total, count in self.sums.values())


@dataclass
class ExampleMeans:
    """The scores of a run, and the values of its criteria, by example."""

    score: Column = field(default_factory=Column)
    criteria: dict[str, Column] = field(default_factory=dict[str, Column])
    prompts: dict[str, str] = field(default_factory=dict[str, str])
    """What each example asks, as a hash."""
    rollouts: int = 0

    @classmethod
    def of(cls, rows: Iterable[Row], names: Mapping[str, object]) -> "ExampleMeans":
        """The means of these rows, and of the criteria with these names."""
        found = cls(criteria={name: Column() for name in names})
        for row in rows:
            found._add(row)
        return found

    def _add(self, row: Row) -> None:
        self.rollouts += 1
        self.prompts.setdefault(row.example, hash_of(row.fields.get("prompt")))
        if row.score is None:
            self.score.unanswered += 1
        else:
            self.score.add(row.example, row.score)
        values, errors = row.report.metrics, row.errors
        for name, column in self.criteria.items():
            if name in values:
                column.add(row.example, values[name])
            elif name in errors or row.error is not None:
                column.unanswered += 1
