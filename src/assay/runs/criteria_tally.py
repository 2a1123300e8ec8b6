"""How the answers to each criterion came out, counted."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from assay.criterion import NOT_APPLICABLE, Criterion
from assay.identity import hash_of, slug
from assay.report import CriterionReport, Score
from assay.runs.means import Mean
from assay.runs.summary import CriterionSummary

LONGEST_TITLE = 300
"""Characters of a requirement by which a criterion of a row's own rubric goes."""

_TELLING = re.compile(r"[^\w\s,.;:!?'\"()\-–—’“”]|-\d")
"""What a derived name leaves out and what may make all the difference: `x > 5` and `x < 5` are both `x_5`."""


def title_of(name: str, requirement: str | None) -> str:
    """What a criterion of a row's own rubric goes by among those of all rows.

    A name that was derived from a requirement may be cut off, and then stands for many. The requirement
    itself stands for one.

    >>> title_of("is_polite", "Is polite."), title_of("x_5", "x > 5")
    ('is_polite', 'x > 5')
    """
    if requirement is None or not name.startswith(slug(requirement)):
        return name
    whole = "_".join(re.findall(r"\w+", requirement[: 2 * LONGEST_TITLE].casefold()))
    if name == whole and not _TELLING.search(requirement):
        return name
    # A filter puts it in quotation marks.
    words = " ".join(requirement.split()).replace('"', "'")
    return (
        words if len(words) <= LONGEST_TITLE else f"{words[:LONGEST_TITLE]}… {hash_of(words)[:8]}"
    )


@dataclass(slots=True)
class CriterionTally:
    weight: float | None
    """None when rows weigh it differently."""
    values: Mean = field(default_factory=Mean)
    met: int = 0
    unmet: int = 0
    not_applicable: int = 0
    errors: int = 0
    unneeded: int = 0
    verdicts: dict[str, tuple[int, float]] = field(default_factory=dict[str, tuple[int, float]])
    """How often a model gave each verdict, and what it is worth."""

    def weigh(self, weight: float | None) -> None:
        """Note the weight in another row."""
        if self.weight != weight:
            self.weight = None

    def _note(self, verdict: str | None, value: float) -> None:
        if verdict is not None:
            count, _ = self.verdicts.get(verdict, (0, value))
            self.verdicts[verdict] = (count + 1, value)

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
            if criterion.judged:
                self._note(score.verdict, worth)
            self.add_value(score.value, worth >= criterion.pass_at, place)

    def add_line(self, line: CriterionReport, place: int | None) -> None:
        if line.error is not None:
            self.errors += 1
        elif not line.asked:
            self.unneeded += 1
        elif line.value is None or line.verdict == NOT_APPLICABLE:
            self.not_applicable += 1
        else:
            if line.requirement is not None:
                self._note(line.verdict, line.value)
            # `passed` is good news, which for a fault is that it is not there.
            self.add_value(line.value, bool(line.passed) is (line.weight >= 0), place)

    def merge(self, other: "CriterionTally") -> None:
        """Take in the answers of another, whose examples are all others than ours."""
        self.values.merge(other.values)
        for name in ("met", "unmet", "not_applicable", "errors", "unneeded"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.weigh(other.weight)
        for verdict, (count, value) in other.verdicts.items():
            before, _ = self.verdicts.get(verdict, (0, value))
            self.verdicts[verdict] = (before + count, value)

    def summary(self) -> CriterionSummary:
        return CriterionSummary(
            weight=self.weight,
            value=self.values.estimate(),
            met=self.met,
            unmet=self.unmet,
            not_applicable=self.not_applicable,
            errors=self.errors,
            unneeded=self.unneeded,
            verdicts={
                verdict: count
                for verdict, (count, _) in sorted(
                    self.verdicts.items(), key=lambda found: (found[1][1], found[0])
                )
            },
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


def names_of(lines: Sequence[CriterionReport | Criterion], *, is_own: bool) -> list[str]:
    """What the lines of a report go by in a summary; `is_own` when the row brought its rubric."""
    if not is_own:
        return apart([line.name for line in lines])
    return apart([title_of(line.name, line.requirement) for line in lines])


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
