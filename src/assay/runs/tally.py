"""Tally: one pass over rows, in sums."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from assay.criterion import Criterion
from assay.report import CriterionReport, EvaluationReport, Lines, Score
from assay.runs.criteria_tally import Columns, CriterionTally, names_of
from assay.runs.means import Mean
from assay.runs.passes import Passes
from assay.runs.row import Row
from assay.runs.row_rubrics import own_rubric
from assay.runs.spending import NOTHING
from assay.runs.summary import Summary, TaskSummary

_KIND = re.compile(r"[A-Za-z_][\w.]*(?=:|$)")
_EVERY = 1024
"""Rows after which numbers that were set aside are added up."""


def summarize(rows: Iterable[Row], *, threshold: float = 1.0) -> Summary:
    """What rows come to, in one pass. A rollout succeeds when its score reaches the threshold.

    Keeps a few numbers an example, and no row.

    >>> summarize([Row("0"), Row("1", error="Overloaded: try later")]).errors
    {'Overloaded': 1}
    """
    tally = Tally(threshold=threshold)
    for row in rows:
        tally.add(row)
    summary = tally.summary()
    assert summary is not None
    return summary


class Tally:
    """Counts and sums over rows."""

    def __init__(self, *, threshold: float = 1.0, alone: bool = False) -> None:
        """`alone`: each example comes once, so nothing is kept of it. If one does not, there is no summary."""
        self._rollouts = self._scored = self._failed = self._altered = 0
        self._errors: Counter[str] = Counter()
        self._by_criterion: dict[str, Counter[str]] = {}
        self._spent = NOTHING
        self._timing: Counter[str] = Counter()
        self._threshold = threshold
        self._places: dict[str, int] | None = None if alone else {}
        self._elsewhere = 0
        """Examples that came with a merge."""
        self._again = False
        self._numbers = _Numbers()
        self._tasks: dict[str, _TaskTally] = {}
        self._criteria: dict[str, CriterionTally] = {}
        self._columns = Columns((), [])
        self._tags: dict[str, Mean] = {}
        self._passes = Passes()
        self._unit = True
        """Whether every score so far lies between 0 and 1."""

    def add(self, row: Row) -> None:
        """Count one row."""
        self._rollouts += 1
        if not self._rollouts % _EVERY:
            self._settle()
        if row.altered:
            self._altered += 1
        if row.spent is not NOTHING:
            self._spent += row.spent
        if row.timing:
            self._timing.update(row.timing)
        if row.errors:
            self._count_errors(row)
        name = row.task
        task = self._tasks.get(name)
        if task is None:
            task = self._tasks[name] = _TaskTally()
        task.rollouts += 1
        if row.error is not None:
            self._failed += 1
        place = self._place(row)
        if row.error is None:
            is_own = own_rubric(row.fields) is not None
            self._add_report(row.report, place, task, is_own=is_own)

    def _place(self, row: Row) -> int | None:
        if self._places is None:
            self._again = self._again or row.sample > 0
            return None
        return self._places.setdefault(row.example, len(self._places))

    def _count_errors(self, row: Row) -> None:
        for name, message in row.errors.items():
            kind = kind_of(message)
            self._errors[kind] += 1
            self._by_criterion.setdefault(name, Counter())[kind] += 1

    def _add_report(
        self, report: EvaluationReport, place: int | None, task: "_TaskTally", *, is_own: bool
    ) -> None:
        self._add_lines(report.report, place, is_own=is_own)
        if not report.scored:
            return
        self._scored += 1
        task.scored += 1
        self._numbers.add(report, place)
        task.numbers.add(report, place)
        if self._columns.have_tags or not isinstance(report.report, Lines):
            self._add_tags(report, place)
        if report.score is not None:
            if report.scale != "unit":
                self._unit = False
            self._passes.add(report.score >= self._threshold - 1e-9, place)

    def _add_lines(
        self, lines: Sequence[CriterionReport] | None, place: int | None, *, is_own: bool
    ) -> None:
        if not isinstance(lines, Lines):
            names = names_of(lines or (), is_own=is_own)
            for name, line in zip(names, lines or (), strict=True):
                self._of(name, line.weight).add_line(line, place)
            return
        if lines.criteria is not self._columns.criteria:
            self._turn_to(lines.criteria, is_own=is_own)
        columns = self._columns
        for index, answer in enumerate(lines.answers):
            if type(answer) is Score:
                columns.tallies[index].add_score(columns.criteria[index], answer, place)
            elif place is None:
                columns.waiting[index].append(answer)  # pyright: ignore[reportArgumentType]
            else:
                value = float(answer)  # pyright: ignore[reportArgumentType]
                met = value >= columns.criteria[index].pass_at
                columns.tallies[index].add_value(value, met, place)

    def _turn_to(self, criteria: Sequence[Criterion], *, is_own: bool) -> None:
        """Rows of one run share their criteria, so what belongs to each is looked up once."""
        self._columns.settle()
        names = names_of(criteria, is_own=is_own)
        tallies = [self._of(n, c.weight) for n, c in zip(names, criteria, strict=True)]
        self._columns = Columns(criteria, tallies)

    def _add_tags(self, report: EvaluationReport, place: int | None) -> None:
        for tag, score in report.tag_scores.items():
            if score is not None:
                self._tags.setdefault(tag, Mean()).add(score, place)

    def _of(self, name: str, weight: float | None) -> CriterionTally:
        tally = self._criteria.get(name)
        if tally is None:
            tally = self._criteria[name] = CriterionTally(weight)
        tally.weigh(weight)
        return tally

    def __getstate__(self) -> dict[str, Any]:
        # Without the criteria it is counting for, whose functions may not travel.
        self._settle()
        return {**self.__dict__, "_columns": Columns((), [])}

    def merge(self, other: "Tally") -> None:
        """Take in what another has counted, whose examples are all others than ours."""
        self._settle()
        other._settle()
        for name in ("_rollouts", "_scored", "_failed", "_altered", "_spent"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self._elsewhere += other._examples
        self._errors.update(other._errors)
        self._timing.update(other._timing)
        for name, kinds in other._by_criterion.items():
            self._by_criterion.setdefault(name, Counter()).update(kinds)
        self._numbers.merge(other._numbers)
        for name, task in other._tasks.items():
            self._tasks.setdefault(name, _TaskTally()).merge(task)
        for name, criterion in other._criteria.items():
            self._of(name, criterion.weight).merge(criterion)
        for name, mean in other._tags.items():
            self._tags.setdefault(name, Mean()).merge(mean)
        self._passes.merge(other._passes)
        self._unit = self._unit and other._unit
        self._again = self._again or other._again

    def _settle(self) -> None:
        self._columns.settle()
        for numbers in (self._numbers, *(task.numbers for task in self._tasks.values())):
            numbers.settle()

    @property
    def _examples(self) -> int:
        return self._rollouts if self._places is None else len(self._places) + self._elsewhere

    def summary(self) -> Summary | None:
        """What the rows so far come to; None when one that should have come once came again."""
        if self._again:
            return None
        self._settle()
        # Nothing outside of 0 to 1 is possible, so nothing outside is said to be.
        bounds = (0.0, 1.0) if self._unit else (-math.inf, math.inf)
        return Summary(
            rollouts=self._rollouts,
            examples=self._examples,
            scored=self._scored,
            unscored=self._rollouts - self._scored,
            failed=self._failed,
            errors=dict(self._errors.most_common()),
            errors_by_criterion={n: dict(c.most_common()) for n, c in self._by_criterion.items()},
            reward=self._numbers.reward.estimate(),
            score=self._numbers.score.estimate().within(*bounds),
            criteria={name: tally.summary() for name, tally in self._criteria.items()},
            tags={name: mean.estimate().within(*bounds) for name, mean in self._tags.items()},
            tasks={name: task.summary(bounds) for name, task in self._tasks.items()},
            passes=self._passes.rates(),
            threshold=self._threshold,
            spent=self._spent,
            timing=dict(self._timing),
            altered=self._altered,
        )


def kind_of(message: str) -> str:
    """The kind of an error, from `Kind: message`."""
    found = _KIND.match(message)
    return found[0] if found else "Error"


class _Numbers:
    """Rewards and scores. Those of examples that come once are set aside, and added up together."""

    def __init__(self) -> None:
        self.reward, self.score = Mean(), Mean()
        self._rewards: list[float] = []
        self._scores: list[float] = []

    def add(self, report: EvaluationReport, place: int | None) -> None:
        if report.raw_score is not None:
            if place is None:
                self._rewards.append(report.raw_score)
            else:
                self.reward.add(report.raw_score, place)
        if report.score is not None:
            if place is None:
                self._scores.append(report.score)
            else:
                self.score.add(report.score, place)

    def merge(self, other: "_Numbers") -> None:
        self.reward.merge(other.reward)
        self.score.merge(other.score)

    def settle(self) -> None:
        self.reward.add_all(self._rewards)
        self.score.add_all(self._scores)
        self._rewards.clear()
        self._scores.clear()


@dataclass(slots=True)
class _TaskTally:
    rollouts: int = 0
    scored: int = 0
    numbers: _Numbers = field(default_factory=_Numbers)

    def merge(self, other: "_TaskTally") -> None:
        self.rollouts += other.rollouts
        self.scored += other.scored
        self.numbers.merge(other.numbers)

    def summary(self, bounds: tuple[float, float]) -> TaskSummary:
        reward, score = self.numbers.reward.estimate(), self.numbers.score.estimate()
        return TaskSummary(self.rollouts, self.scored, reward, score.within(*bounds))
