"""Summary is what a run comes to, and Tally counts it in one pass over the rows; what has no score is in no mean."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Self

from assay.criterion import BINARY_CHOICES, NOT_APPLICABLE, Criterion
from assay.display import Page, Section, format_cell, shorten_middle
from assay.report import CriterionReport, EvaluationReport, Score
from assay.runs.jsonable import form_of
from assay.runs.row import LONGEST_TITLE, Row, names_of, own_rubric
from assay.runs.spending import NOTHING, Spending
from assay.runs.stats import (
    DEFAULT_PASS_RULE,
    NO_ESTIMATE,
    Mean,
    MeanEstimate,
    Measure,
    Passes,
    PassRates,
    PassRule,
)
from assay.wording import describe_verdict, format_count


@dataclass(frozen=True)
class CriterionSummary:
    """How the answers to one criterion came out."""

    weight: float | None  # None when rows weigh it differently
    value: MeanEstimate  # the mean of its values, over the rollouts where it has one
    met: int = 0
    unmet: int = 0
    not_applicable: int = 0
    errors: int = 0
    unneeded: int = 0  # not asked, since the result was decided without it
    # How often a model gave each verdict, from worst to best; empty where code answers.
    verdicts: Mapping[str, int] = field(default_factory=dict[Any, Any])

    @property
    def is_scale(self) -> bool:
        """Whether verdicts of its own tell more than that it is met or not."""
        return not self.verdicts.keys() <= set(BINARY_CHOICES)


@dataclass(frozen=True)
class ErrorSummary:
    """Errors with the same message, apart from numbers and words in quotes."""

    message: str  # of the first
    count: int
    rollouts: int
    example: str  # of the first rollout
    sample: int = 0
    # The criteria without an answer; empty if there was nothing to score.
    criteria: tuple[str, ...] = ()


@dataclass(frozen=True)
class TaskSummary:
    """One task of several."""

    rollouts: int
    scored: int
    reward: MeanEstimate
    score: MeanEstimate
    passes: Mapping[int, PassRates] = field(default_factory=dict[Any, Any])  # as in the `Summary`


@dataclass(frozen=True)
class Summary:
    """What a run comes to.

    >>> Summary.from_dict(Summary(rollouts=3, scored=2, unscored=1).to_dict()).unscored
    1
    """

    rollouts: int = 0
    examples: int = 0
    scored: int = 0  # rollouts whose counted criteria all have an answer. Only these are in means
    unscored: int = 0
    failed: int = (
        0  # of the unscored, those where there was nothing to score, as when generation failed
    )
    errors: Mapping[str, int] = field(default_factory=dict[Any, Any])  # errors by kind
    # Errors by criterion and kind; under `rollout` why there was nothing to score.
    errors_by_criterion: Mapping[str, Mapping[str, int]] = field(default_factory=dict[Any, Any])
    # The same errors by message, the most frequent first.
    error_messages: tuple[ErrorSummary, ...] = ()
    reward: MeanEstimate = NO_ESTIMATE
    score: MeanEstimate = NO_ESTIMATE
    criteria: Mapping[str, CriterionSummary] = field(default_factory=dict[Any, Any])
    # The score over the criteria of each tag alone.
    tags: Mapping[str, MeanEstimate] = field(default_factory=dict[Any, Any])
    tasks: Mapping[str, TaskSummary] = field(default_factory=dict[Any, Any])
    # pass@k and pass^k by k. A rollout passes if its score, or its reward, reaches `threshold`.
    passes: Mapping[int, PassRates] = field(default_factory=dict[Any, Any])
    threshold: float = 1.0
    pass_measure: Measure = "score"
    # Calls, tokens and dollars of all sessions; those of calls that a kill broke off are only here.
    spent: Spending = NOTHING
    spent_on_model: Spending = NOTHING  # what the rollouts took of the model under test
    spent_on_judge: Spending = NOTHING  # what they took of judges
    # Seconds by part, added up over the rollouts that were timed.
    timing: Mapping[str, float] = field(default_factory=dict[Any, Any])
    own_rubrics: int = 0  # rows that bring their own rubric, by which they are scored
    altered: int = 0  # rows with a field that JSON could not hold as it was
    complete: bool = (
        True  # whether the run went through; False when it was stopped and can be resumed
    )

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        return form_of(Summary).dump_python(self, mode="json")

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Summary":
        """The summary that `to_dict` was made from."""
        return form_of(Summary).validate_python(data)

    @property
    def headline(self) -> str:
        """How many rollouts there are, how many of them have no score, and what else to know first.

        >>> Summary(rollouts=4, examples=2, scored=3, unscored=1, complete=False).headline
        '4 rollouts of 2 examples, 1 unscored, incomplete'
        """
        parts = format_count(self.rollouts, "rollout")
        if self.examples != self.rollouts:
            parts += f" of {format_count(self.examples, 'example')}"
        if self.own_rubrics == self.rollouts > 0:
            parts += ", by the rubrics of their rows"
        elif self.own_rubrics:
            parts += f", {self.own_rubrics:,} of them by the rubrics of their rows"
        if self.unscored:
            parts += f", {self.unscored:,} unscored"
        if not self.complete:
            parts += ", incomplete"
        if "BudgetExceeded" in self.errors:
            # Rollouts that were quick or cheap to score came first.
            parts += "; the budget ran out, so the means are biased"
        return parts

    def page(self, title: str = "") -> Page:
        """The headline and the tables, to show or to print."""
        return Page(
            f"{title}: {self.headline}" if title else self.headline,
            list(self.sections()),
            data=self.to_dict(),
        )

    def __str__(self) -> str:
        return self.page().text()

    def _repr_html_(self) -> str:
        return self.page().text("html")

    def sections(self) -> Iterator[Section]:
        """What there is to tell, most pressing first."""
        if self.error_messages:
            yield _make_error_section(self.error_messages)
        means = {"score": self.score, "reward": self.reward}
        means |= {f"tag {name}": found for name, found in self.tags.items()}
        if len(self.tasks) > 1:
            means |= {f"task {name}": found.score for name, found in self.tasks.items()}
        rows: list[tuple[object, ...]] = []
        for name, found in means.items():
            no_interval = found.low is None or found.high is None
            bounds = "" if no_interval else f"{format_cell(found.low)} to {format_cell(found.high)}"
            rows.append((name, found.mean, bounds, found.count))
        yield Section(("", "mean", "95 %", "rollouts"), rows)
        if self.criteria:
            yield _make_criteria_section(self)
        if max(self.passes, default=1) > 1 or self.threshold != DEFAULT_PASS_RULE.threshold:
            yield _make_pass_section(self)


def _make_error_section(errors: Sequence[ErrorSummary]) -> Section:
    """Return a table with each kind of error once, with its first row and how to see the others."""
    rows: list[tuple[object, ...]] = []
    for error in errors:
        first = f"{error.example} #{error.sample}" if error.sample else error.example
        criteria = ", ".join(error.criteria[:MOST_NAMES])
        if len(error.criteria) > MOST_NAMES:
            criteria += f" and {len(error.criteria) - MOST_NAMES} more"
        message = shorten_middle(error.message, 200)
        rows.append((error.count, error.rollouts, first, criteria or "nothing to score", message))
    return Section(("errors", "rollouts", "first in", "criteria", "message"), rows)


MOST_NAMES = 3  # criteria that are named in a line about an error


def _make_pass_section(summary: Summary) -> Section:
    """Return pass@k and pass^k over all examples, and for each task if there are several."""
    passes_by_task = {"": summary.passes}
    if len(summary.tasks) > 1:
        passes_by_task |= {name: task.passes for name, task in summary.tasks.items()}
    rows: list[tuple[object, ...]] = []
    for name, passes in passes_by_task.items():
        for k, rates in passes.items():
            label = f"{k}, task {name}" if name else f"{k}"
            rows.append((label, rates.any, rates.all, rates.examples))
    rule = PassRule(summary.threshold, summary.pass_measure)
    return Section((f"k, {rule}", "pass@k", "pass^k", "examples"), rows)


def _make_criteria_section(summary: Summary) -> Section:
    """Return a table of the criteria; columns that are empty throughout are left out."""
    columns = ("criterion", "weight", "mean", "met", "unmet", "n/a", "errors", "verdicts")
    rows: list[tuple[Any, ...]] = []
    for name, criterion in summary.criteria.items():
        met: object = criterion.met
        unmet: object = criterion.unmet
        verdicts = ""
        if criterion.is_scale:
            # What counts as met is somewhere in the middle of a scale.
            met = unmet = None
            counts = [f"{verdict} {count:,}" for verdict, count in criterion.verdicts.items()]
            verdicts = ", ".join(counts)
        elif criterion.weight is not None and criterion.weight < 0:
            met = f"{criterion.met:,} {describe_verdict('MET', criterion.weight)}"
            unmet = f"{criterion.unmet:,} {describe_verdict('UNMET', criterion.weight)}"
        rows.append(
            (
                name,
                "varies" if criterion.weight is None else f"{criterion.weight:+g}",
                criterion.value.mean,
                met,
                unmet,
                criterion.not_applicable,
                criterion.errors,
                verdicts,
            )
        )
    kept = [i for i in range(8) if i < 5 or any(row[i] for row in rows)]
    return Section([columns[i] for i in kept], [[row[i] for i in kept] for row in rows])


@dataclass(slots=True)
class CriterionTally:
    """The answers to one criterion, counted."""

    weight: float | None  # None when rows weigh it differently
    values: Mean = field(default_factory=Mean)
    counts: Counter[str] = field(
        default_factory=Counter[str]
    )  # by the fields of a `CriterionSummary`
    # How often a model gave each verdict, and what it is worth.
    verdicts: dict[str, tuple[int, float]] = field(default_factory=dict[str, tuple[int, float]])

    def add_value(self, value: float, met: bool, place: int | None) -> None:
        self.values.add(value, place)
        self.counts["met" if met else "unmet"] += 1

    def add_score(self, criterion: Criterion, score: Score, place: int | None) -> None:
        if score.error is not None:
            self.counts["errors"] += 1
        elif score.value is None and not score.asked:
            self.counts["unneeded"] += 1
        elif score.value is None:
            self.counts["not_applicable"] += 1
        else:
            worth = criterion.values.get(score.verdict or "", score.value)
            if criterion.judged and score.verdict is not None:
                self.count_verdict(score.verdict, 1, worth)
            self.add_value(score.value, worth >= criterion.pass_at, place)

    def add_line(self, line: CriterionReport, place: int | None) -> None:
        if line.error is not None:
            self.counts["errors"] += 1
        elif not line.answered:
            self.counts["unneeded"] += 1
        elif line.value is None or line.verdict == NOT_APPLICABLE:
            self.counts["not_applicable"] += 1
        else:
            if line.requirement is not None and line.verdict is not None:
                self.count_verdict(line.verdict, 1, line.value)
            # `passed` is good news, which for a fault is that it is not there.
            self.add_value(line.value, bool(line.passed) is (line.weight >= 0), place)

    def count_verdict(self, verdict: str, times: int, worth: float) -> None:
        before, _ = self.verdicts.get(verdict, (0, worth))
        self.verdicts[verdict] = (before + times, worth)

    def merge(self, other: "CriterionTally") -> None:
        """Take in the answers of another, whose examples are all others than ours."""
        self.values.merge(other.values)
        self.counts.update(other.counts)
        for verdict, (count, worth) in other.verdicts.items():
            self.count_verdict(verdict, count, worth)

    def summary(self) -> CriterionSummary:
        from_worst = sorted(self.verdicts.items(), key=lambda found: (found[1][1], found[0]))
        verdicts = {verdict: count for verdict, (count, _) in from_worst}
        return CriterionSummary(
            self.weight, self.values.estimate(), **self.counts, verdicts=verdicts
        )


MOST_ERROR_MESSAGES = 50  # different messages that are kept; further ones count by their kind

# What differs between the messages of one error: numbers, and words in quotes.
_VARYING = re.compile(r"\d+|'[^']*'|\"[^\"]*\"")


@dataclass(slots=True)
class _ErrorTally:
    """The errors with one message."""

    message: str
    example: str
    sample: int
    number: float  # of the first row; infinity if it is not known
    count: int = 0
    rollouts: int = 0
    criteria: dict[str, None] = field(default_factory=dict[str, None])

    def add(self, other: "_ErrorTally") -> None:
        """Add the errors of one row, or of other rows."""
        if other.number < self.number:
            self.message, self.number = other.message, other.number
            self.example, self.sample = other.example, other.sample
        self.count += other.count
        self.rollouts += other.rollouts
        self.criteria.update(other.criteria)

    def summary(self) -> ErrorSummary:
        return ErrorSummary(
            message=self.message,
            count=self.count,
            rollouts=self.rollouts,
            example=self.example,
            sample=self.sample,
            criteria=tuple(self.criteria),
        )


def _group_errors(row: Row) -> dict[str, _ErrorTally]:
    """Return the errors of a row, by their message without what varies between rows."""
    groups: dict[str, _ErrorTally] = {}
    for name, message in row.errors.items():
        key = _VARYING.sub("#", message[:LONGEST_TITLE])
        number = math.inf if row.number is None else row.number
        group = groups.setdefault(
            key, _ErrorTally(message, row.example, row.sample, number, rollouts=1)
        )
        group.count += 1
        if row.error is None:
            group.criteria[name] = None
    return groups


_KIND = re.compile(r"[A-Za-z_][\w.]*(?=:|$)")


def summarize(
    rows: Iterable[Row], *, threshold: float = 1.0, pass_measure: Measure = "score"
) -> Summary:
    """Return what rows come to, in one pass.

    For pass@k, a rollout passes if its score, or its reward, reaches the threshold.

    Keeps a few numbers an example, and no row.

    >>> summarize([Row("0"), Row("1", error="Overloaded: try later")]).errors
    {'Overloaded': 1}
    """
    return Tally(pass_rule=PassRule(threshold, pass_measure)).add_all(rows).summary()


@dataclass(slots=True)
class _TaskTally:
    """The rollouts of one task, or of all."""

    rollouts: int = 0
    scored: int = 0
    reward: Mean = field(default_factory=Mean)
    score: Mean = field(default_factory=Mean)
    passes: Passes = field(default_factory=Passes)

    def add(self, report: EvaluationReport, is_passed: bool | None, place: int | None) -> None:
        self.scored += 1
        if is_passed is not None:
            self.passes.add(is_passed, place)
        if report.raw_score is not None:
            self.reward.add(report.raw_score, place)
        if report.score is not None:
            self.score.add(report.score, place)

    def merge(self, other: "_TaskTally") -> None:
        self.rollouts += other.rollouts
        self.scored += other.scored
        self.reward.merge(other.reward)
        self.score.merge(other.score)
        self.passes.merge(other.passes)


class Tally:
    """Counts and sums over rows."""

    def __init__(self, *, pass_rule: PassRule = DEFAULT_PASS_RULE, alone: bool = False) -> None:
        """`alone`: each example comes once, so nothing is kept of it. If one does not, it `repeats`, and has to be
        counted anew."""
        self._all = _TaskTally()
        self._failed = self._altered = 0
        self._own_rubrics = 0
        self._errors: Counter[str] = Counter()
        self._by_criterion: dict[str, Counter[str]] = {}
        self._by_message: dict[str, _ErrorTally] = {}
        self._spent = NOTHING
        self._spent_on_model = NOTHING
        self._timing: Counter[str] = Counter()
        self._pass_rule = pass_rule
        self._places: dict[str, int] | None = None if alone else {}
        self._elsewhere = 0  # examples that came with a merge
        self.repeats = False  # whether an example that should have come once came again
        self._tasks: dict[str, _TaskTally] = {}
        self._criteria: dict[str, CriterionTally] = {}
        # The criteria of the last row, and what is counted of each: rows of one run share them.
        self._columns: Sequence[Criterion] = ()
        self._column_tallies: list[CriterionTally] = []
        self._have_tags = False
        self._tags: dict[str, Mean] = {}
        self._unit = True  # whether every score so far lies between 0 and 1

    def add_all(self, rows: Iterable[Row]) -> Self:
        for row in rows:
            self.add(row)
        return self

    def add(self, row: Row) -> None:
        """Count one row."""
        if row.altered:
            self._altered += 1
        if own_rubric(row.fields) is not None:
            self._own_rubrics += 1
        if row.spent is not NOTHING:
            self._spent += row.spent
            self._spent_on_model += row.spent_on_model
        for part, seconds in row.timing.items():
            self._timing[part] += seconds  # pyright: ignore[reportArgumentType] - a `Counter` counts in any numbers
        for name, message in row.errors.items():
            found = _KIND.match(message)
            kind = found[0] if found else "Error"
            self._errors[kind] += 1
            self._by_criterion.setdefault(name, Counter())[kind] += 1
        if row.errors:
            self._add_messages(_group_errors(row))
        name = row.task
        task = self._tasks.get(name)
        if task is None:
            # Most runs have one task, whose numbers are those of all rows; from the second on they are counted apart.
            if len(self._tasks) == 1:
                self._all = deepcopy(self._all)
            task = self._tasks[name] = _TaskTally() if self._tasks else self._all
        tallies = (task,) if task is self._all else (self._all, task)
        for tally in tallies:
            tally.rollouts += 1
        place = None
        if self._places is not None:
            place = self._places.setdefault(row.example, len(self._places))
        elif row.sample:
            self.repeats = True
        if row.error is not None:
            self._failed += 1
            return
        report = row.report
        self._add_lines(row, place)
        if not report.scored:
            return
        is_passed = self._pass_rule.is_passed(report)
        for tally in tallies:
            tally.add(report, is_passed, place)
        if self._have_tags or report.answers is None:
            for tag, score in report.tag_scores.items():
                if score is not None:
                    self._tags.setdefault(tag, Mean()).add(score, place)
        if report.score is not None and report.scale != "unit":
            self._unit = False

    def _add_messages(self, groups: Mapping[str, _ErrorTally]) -> None:
        for key, group in groups.items():
            if key not in self._by_message and len(self._by_message) >= MOST_ERROR_MESSAGES:
                found = _KIND.match(group.message)
                key = found[0] if found else "Error"
            if key in self._by_message:
                self._by_message[key].add(group)
            else:
                self._by_message[key] = group

    def _add_lines(self, row: Row, place: int | None) -> None:
        report = row.report
        if report.answers is None:
            names = names_of(report.lines, is_own=own_rubric(row.fields) is not None)
            for name, line in zip(names, report.lines, strict=True):
                self._of(name, line.weight).add_line(line, place)
            return
        criteria = report.criteria
        if criteria != self._columns:
            names = names_of(criteria, is_own=own_rubric(row.fields) is not None)
            self._column_tallies = [
                self._of(n, c.weight) for n, c in zip(names, criteria, strict=True)
            ]
            self._columns = criteria
            self._have_tags = any(criterion.tags for criterion in criteria)
        for criterion, tally, answer in zip(
            criteria, self._column_tallies, report.answers, strict=True
        ):
            if isinstance(answer, Score):
                tally.add_score(criterion, answer, place)
            else:
                value = float(answer)
                tally.add_value(value, value >= criterion.pass_at, place)

    def _of(self, name: str, weight: float | None) -> CriterionTally:
        tally = self._criteria.get(name)
        if tally is None:
            tally = self._criteria[name] = CriterionTally(weight)
        elif tally.weight != weight:
            tally.weight = None
        return tally

    def __getstate__(self) -> dict[str, Any]:
        # Without the criteria it is counting for, whose functions may not travel.
        return {**self.__dict__, "_columns": (), "_column_tallies": []}

    def merge(self, other: "Tally") -> None:
        """Take in what another has counted, whose examples are all others than ours."""
        self._elsewhere += other._examples
        if len(self._tasks) == 1:
            self._all = deepcopy(self._all)
        self._all.merge(other._all)
        self._failed += other._failed
        self._altered += other._altered
        self._own_rubrics += other._own_rubrics
        self._spent += other._spent
        self._spent_on_model += other._spent_on_model
        self._errors.update(other._errors)
        self._timing.update(other._timing)
        self._add_messages(other._by_message)
        for name, kinds in other._by_criterion.items():
            self._by_criterion.setdefault(name, Counter()).update(kinds)
        for name, task in other._tasks.items():
            self._tasks.setdefault(name, _TaskTally()).merge(task)
        for name, criterion in other._criteria.items():
            self._of(name, criterion.weight).merge(criterion)
        for name, mean in other._tags.items():
            self._tags.setdefault(name, Mean()).merge(mean)
        self._unit = self._unit and other._unit
        self.repeats = self.repeats or other.repeats

    @property
    def _examples(self) -> int:
        return self._all.rollouts if self._places is None else len(self._places) + self._elsewhere

    def summary(self) -> Summary:
        """What the rows so far come to."""
        # Nothing outside of 0 to 1 is possible, so nothing outside is said to be.
        bounds = (0.0, 1.0) if self._unit else (-math.inf, math.inf)
        every = self._all
        tasks = {
            name: TaskSummary(
                task.rollouts,
                task.scored,
                task.reward.estimate(),
                task.score.estimate().within(*bounds),
                task.passes.rates(),
            )
            for name, task in self._tasks.items()
        }
        return Summary(
            rollouts=every.rollouts,
            examples=self._examples,
            scored=every.scored,
            unscored=every.rollouts - every.scored,
            failed=self._failed,
            errors=dict(self._errors.most_common()),
            errors_by_criterion={n: dict(c.most_common()) for n, c in self._by_criterion.items()},
            error_messages=tuple(
                error.summary()
                for error in sorted(self._by_message.values(), key=lambda error: -error.count)
            ),
            reward=every.reward.estimate(),
            score=every.score.estimate().within(*bounds),
            criteria={name: tally.summary() for name, tally in self._criteria.items()},
            tags={name: mean.estimate().within(*bounds) for name, mean in self._tags.items()},
            tasks=tasks,
            passes=every.passes.rates(),
            threshold=self._pass_rule.threshold,
            pass_measure=self._pass_rule.measure,
            spent=self._spent,
            spent_on_model=self._spent_on_model,
            spent_on_judge=self._spent - self._spent_on_model,
            timing=dict(self._timing),
            own_rubrics=self._own_rubrics,
            altered=self._altered,
        )
