"""How the answers to each criterion came out, counted."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from assay.criterion import NOT_APPLICABLE, Criterion
from assay.report import CriterionReport, Score
from assay.runs.means import Mean
from assay.runs.summary import CriterionSummary


@dataclass(slots=True)
class CriterionTally:
    weight: float
    values: Mean = field(default_factory=Mean)
    met: int = 0
    unmet: int = 0
    not_applicable: int = 0
    errors: int = 0
    unneeded: int = 0

    def add_values(self, values: Sequence[float], pass_at: float) -> None:
        met = sum([value >= pass_at for value in values])
        self.met += met
        self.unmet += len(values) - met
        self.values.add_all(values)

    def add_value(self, value: float, met: bool, place: int | None) -> None:
        self.values.add(value, place)
        self.met += met
        self.unmet += not met

    def add_score(self, criterion: Criterion, score: Score, place: int | None) -> None:
        if score.error is not None:
            self.errors += 1
        elif score.value is None:
            self.not_applicable += 1
        else:
            worth = criterion.values.get(score.verdict or "", score.value)
            self.add_value(score.value, worth >= criterion.pass_at, place)

    def add_line(self, line: CriterionReport, place: int | None) -> None:
        if line.error is not None:
            self.errors += 1
        elif not line.asked:
            self.unneeded += 1
        elif line.value is None or line.verdict == NOT_APPLICABLE:
            self.not_applicable += 1
        else:
            # `passed` is good news, which for a fault is that it is not there.
            self.add_value(line.value, bool(line.passed) is (line.weight >= 0), place)

    def merge(self, other: "CriterionTally") -> None:
        """Take in the answers of another, whose examples are all others than ours."""
        self.values.merge(other.values)
        for name in ("met", "unmet", "not_applicable", "errors", "unneeded"):
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def summary(self) -> CriterionSummary:
        return CriterionSummary(
            weight=self.weight,
            value=self.values.estimate(),
            met=self.met,
            unmet=self.unmet,
            not_applicable=self.not_applicable,
            errors=self.errors,
            unneeded=self.unneeded,
        )


class Columns:
    """The criteria that rows are being answered for, and answers of theirs that are set aside."""

    def __init__(self, criteria: Sequence[Criterion], tallies: list[CriterionTally]) -> None:
        self.criteria = criteria
        self.tallies = tallies
        self.waiting: list[list[float]] = [[] for _ in criteria]
        self.have_tags = any(criterion.tags for criterion in criteria)

    def settle(self) -> None:
        columns = zip(self.criteria, self.tallies, self.waiting, strict=True)
        for criterion, tally, values in columns:
            tally.add_values(values, criterion.pass_at)
            values.clear()


def apart(names: Sequence[str]) -> list[str]:
    """The names, numbered where several rubrics of a group have the same: `length`, `length_2`."""
    if len(set(names)) == len(names):
        return list(names)
    seen: Counter[str] = Counter()
    apart: list[str] = []
    for name in names:
        seen[name] += 1
        apart.append(name if seen[name] == 1 else f"{name}_{seen[name]}")
    return apart
