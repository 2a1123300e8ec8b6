"""Summarize the rows of a run in one pass. Rollouts without a score are counted but left out of every mean."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Self

from assay.criterion import BINARY_CHOICES, NOT_APPLICABLE, Criterion
from assay.display import Page, Section, TonedCell, format_cell, shorten_middle
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
    """The answers to one criterion, counted."""

    weight: float | None  # None if it differs between rows
    value: MeanEstimate  # over the rollouts where it has a value
    met: int = 0
    unmet: int = 0
    not_applicable: int = 0
    errors: int = 0
    unneeded: int = 0  # not asked, because the result was decided without it
    # How often a model gave each verdict, from worst to best; empty if code answers.
    verdicts: Mapping[str, int] = field(default_factory=dict[Any, Any])

    @property
    def is_scale(self) -> bool:
        """Whether it has other verdicts than met and unmet."""
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
    """The rollouts of one task."""

    rollouts: int
    scored: int
    reward: MeanEstimate
    score: MeanEstimate
    passes: Mapping[int, PassRates] = field(default_factory=dict[Any, Any])  # as in the `Summary`


@dataclass(frozen=True)
class Summary:
    """The result of a run: counts, means with intervals, errors and spending.

    >>> Summary.from_dict(Summary(rollouts=3, scored=2, unscored=1).to_dict()).unscored
    1
    """

    rollouts: int = 0
    examples: int = 0
    scored: int = 0  # rollouts whose counted criteria all have an answer; only these are in means
    unscored: int = 0
    failed: int = 0  # unscored rollouts with nothing to score, for example if generation failed
    errors: Mapping[str, int] = field(default_factory=dict[Any, Any])  # errors by kind
    # Errors by criterion, then by kind. Those under `rollout` left nothing to score.
    errors_by_criterion: Mapping[str, Mapping[str, int]] = field(default_factory=dict[Any, Any])
    # The same errors by message, the most frequent first.
    error_messages: tuple[ErrorSummary, ...] = ()
    reward: MeanEstimate = NO_ESTIMATE
    score: MeanEstimate = NO_ESTIMATE
    criteria: Mapping[str, CriterionSummary] = field(default_factory=dict[Any, Any])
    # For each tag, the score of only the criteria that have it.
    tags: Mapping[str, MeanEstimate] = field(default_factory=dict[Any, Any])
    tasks: Mapping[str, TaskSummary] = field(default_factory=dict[Any, Any])
    # pass@k and pass^k by k. A rollout passes if its `pass_measure` reaches the `threshold`.
    passes: Mapping[int, PassRates] = field(default_factory=dict[Any, Any])
    threshold: float = 1.0
    pass_measure: Measure = "score"
    # Calls, tokens and dollars of all sessions. Only this has the calls that a kill interrupted.
    spent: Spending = NOTHING
    spent_on_model: Spending = NOTHING  # by the model under test
    spent_on_judge: Spending = NOTHING  # by judges
    # Seconds of generation and of scoring, added up over the rollouts that were timed.
    timing: Mapping[str, float] = field(default_factory=dict[Any, Any])
    own_rubrics: int = 0  # rows that are scored by a rubric of their own
    altered: int = 0  # rows with a field that had to be altered for JSON
    complete: bool = True  # False if the run was stopped, and can be resumed

    def to_dict(self) -> dict[str, Any]:
        """Return the summary as plain data, ready for JSON."""
        return form_of(Summary).dump_python(self, mode="json")

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Summary":
        """Return the summary from the data that `to_dict` returned."""
        return form_of(Summary).validate_python(data)

    @property
    def headline(self) -> str:
        """The number of rollouts, how many have no score, and any warning about the whole run.

        >>> Summary(rollouts=4, examples=2, scored=3, unscored=1, complete=False).headline
        '4 rollouts of 2 examples, 1 unscored, incomplete'
        """
        headline = format_count(self.rollouts, "rollout")
        if self.examples != self.rollouts:
            headline += f" of {format_count(self.examples, 'example')}"
        if self.own_rubrics == self.rollouts > 0:
            headline += ", by the rubrics of their rows"
        elif self.own_rubrics:
            headline += f", {self.own_rubrics:,} of them by the rubrics of their rows"
        if self.unscored:
            headline += f", {self.unscored:,} unscored"
        if not self.complete:
            headline += ", incomplete"
        if "BudgetExceeded" in self.errors:
            # Rollouts that are quick or cheap to score were finished first.
            headline += "; the budget ran out, so the means are biased"
        return headline

    def page(self, title: str = "") -> Page:
        """Return the headline and the tables, to show or to print."""
        return Page(
            f"{title}: {self.headline}" if title else self.headline,
            list(self.sections()),
            notes=self.notes(),
            data=self.to_dict(),
        )

    def notes(self) -> list[str]:
        """Return what the words in the tables mean, where that is not obvious."""
        has_fault = any((criterion.weight or 0) < 0 for criterion in self.criteria.values())
        if not has_fault:
            return []
        return ["a negative weight marks a fault: happened is bad, avoided is good"]

    def __str__(self) -> str:
        return self.page().text()

    def _repr_html_(self) -> str:
        return self.page().text("html")

    def sections(self) -> Iterator[Section]:
        """Yield the tables, the most pressing first."""
        if self.error_messages:
            yield _make_error_section(self.error_messages)
        yield _make_mean_section(self)
        if self.criteria:
            yield _make_criteria_section(self)
        if max(self.passes, default=1) > 1 or self.threshold != DEFAULT_PASS_RULE.threshold:
            yield _make_pass_section(self)


def _make_mean_section(summary: Summary) -> Section:
    """Return a table of the mean score and reward, and of the score by tag and by task."""
    means = {"score": summary.score, "reward": summary.reward}
    means |= {f"tag {name}": estimate for name, estimate in summary.tags.items()}
    if len(summary.tasks) > 1:
        means |= {f"task {name}": task.score for name, task in summary.tasks.items()}
    rows: list[tuple[object, ...]] = []
    for name, estimate in means.items():
        interval = ""
        if estimate.low is not None and estimate.high is not None:
            interval = f"{format_cell(estimate.low)} to {format_cell(estimate.high)}"
        rows.append((name, estimate.mean, interval, estimate.count))
    return Section(("", "mean", "95 %", "rollouts"), rows)


def _make_error_section(errors: Sequence[ErrorSummary]) -> Section:
    """Return a table with each error message once, and the first row that has it."""
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
    """Return a table of pass@k and pass^k, over all examples and for each of several tasks."""
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
    """Return a table of the criteria, without columns that are empty in every row."""
    columns = ("criterion", "weight", "mean", "met", "unmet", "n/a", "errors", "verdicts")
    rows: list[tuple[Any, ...]] = []
    criteria = dict(summary.criteria)
    if len(criteria) > MOST_CRITERIA:
        # Rows that bring their own rubrics may have thousands of criteria.
        by_loss = sorted(criteria.items(), key=_find_loss, reverse=True)
        criteria = dict(by_loss[:SHOWN_CRITERIA])
    for name, criterion in criteria.items():
        met: object = criterion.met
        unmet: object = criterion.unmet
        verdicts = ""
        if criterion.is_scale:
            # A scale has no two sides: what counts as met is somewhere in the middle of it.
            met = unmet = None
            counts = [f"{verdict} {count:,}" for verdict, count in criterion.verdicts.items()]
            verdicts = ", ".join(counts)
        elif criterion.weight is not None and criterion.weight < 0:
            happened = f"{criterion.met:,} {describe_verdict('MET', criterion.weight)}"
            avoided = f"{criterion.unmet:,} {describe_verdict('UNMET', criterion.weight)}"
            met = TonedCell(happened, tone="bad" if criterion.met else "")
            unmet = TonedCell(avoided, tone="good" if criterion.unmet else "")
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
    hidden = len(summary.criteria) - len(criteria)
    if hidden:
        rows.append((f"and {hidden:,} that cost fewer points", "", "", "", "", 0, 0, ""))
    always_shown = ("criterion", "weight", "mean", "met", "unmet")
    shown = [
        index
        for index, column in enumerate(columns)
        if column in always_shown or any(row[index] for row in rows)
    ]
    return Section(
        [columns[index] for index in shown],
        [[row[index] for index in shown] for row in rows],
    )


MOST_CRITERIA = 40  # a table shows all criteria up to this number, and else those that matter most
SHOWN_CRITERIA = 10


def _find_loss(item: tuple[str, CriterionSummary]) -> float:
    """Return how many points a criterion has cost in all rollouts; a missing answer costs all.

    A criterion with a negative weight describes a fault, so it costs points where it is met.
    """
    _, criterion = item
    weight = 1.0 if criterion.weight is None else criterion.weight
    mean = criterion.value.mean
    lost_values = 0.0
    if mean is not None:
        lost_share = mean if weight < 0 else 1 - mean
        lost_values = criterion.value.count * lost_share
    return abs(weight) * (lost_values + criterion.errors)


@dataclass(slots=True)
class CriterionTally:
    """Counts the answers to one criterion."""

    weight: float | None  # None if it differs between rows
    values: Mean = field(default_factory=Mean)
    # The counts of a `CriterionSummary`, by the names of its fields.
    counts: Counter[str] = field(default_factory=Counter[str])
    # How often a model gave each verdict, and the value of the verdict.
    verdicts: dict[str, tuple[int, float]] = field(default_factory=dict[str, tuple[int, float]])

    def add_value(self, value: float, *, is_met: bool, example: int | None) -> None:
        """Count a value of an example; its number is None if the example comes only once."""
        self.values.add(value, example)
        self.counts["met" if is_met else "unmet"] += 1

    def add_score(self, criterion: Criterion, score: Score, example: int | None) -> None:
        """Count the answer to a criterion of the run's rubric."""
        if score.error is not None:
            self.counts["errors"] += 1
        elif score.value is None and not score.asked:
            self.counts["unneeded"] += 1
        elif score.value is None:
            self.counts["not_applicable"] += 1
        else:
            verdict_value = criterion.values.get(score.verdict or "", score.value)
            if criterion.judged and score.verdict is not None:
                self.count_verdict(score.verdict, times=1, value=verdict_value)
            is_met = verdict_value >= criterion.pass_at
            self.add_value(score.value, is_met=is_met, example=example)

    def add_line(self, line: CriterionReport, example: int | None) -> None:
        """Count a line of a report whose criteria are not known."""
        if line.error is not None:
            self.counts["errors"] += 1
        elif not line.answered:
            self.counts["unneeded"] += 1
        elif line.value is None or line.verdict == NOT_APPLICABLE:
            self.counts["not_applicable"] += 1
        else:
            if line.requirement is not None and line.verdict is not None:
                self.count_verdict(line.verdict, times=1, value=line.value)
            # A criterion with a negative weight describes a fault: it passes if it is not met.
            is_met = bool(line.passed) is (line.weight >= 0)
            self.add_value(line.value, is_met=is_met, example=example)

    def count_verdict(self, verdict: str, *, times: int, value: float) -> None:
        """Count a verdict of a model."""
        earlier_times, _ = self.verdicts.get(verdict, (0, value))
        self.verdicts[verdict] = (earlier_times + times, value)

    def merge(self, other: "CriterionTally") -> None:
        """Add the answers of another tally, which has no example in common with this one."""
        self.values.merge(other.values)
        self.counts.update(other.counts)
        for verdict, (times, value) in other.verdicts.items():
            self.count_verdict(verdict, times=times, value=value)

    def summary(self) -> CriterionSummary:
        """Return the counts so far."""

        def get_rank(verdict: str) -> tuple[float, str]:
            _, value = self.verdicts[verdict]
            return value, verdict

        from_worst = sorted(self.verdicts, key=get_rank)
        verdicts = {verdict: self.verdicts[verdict][0] for verdict in from_worst}
        return CriterionSummary(
            self.weight, self.values.estimate(), **self.counts, verdicts=verdicts
        )


MOST_ERROR_MESSAGES = 50  # more messages than these are only counted, by their kind

# The parts that differ between messages of the same error: numbers, and words in quotes.
_VARYING = re.compile(r"\d+|'[^']*'|\"[^\"]*\"")


@dataclass(slots=True)
class _ErrorTally:
    """Counts the errors with one message."""

    message: str
    example: str
    sample: int
    number: float  # the number of the first row; infinity if it is not known
    count: int = 0
    rollouts: int = 0
    criteria: dict[str, None] = field(default_factory=dict[str, None])

    def add(self, other: "_ErrorTally") -> None:
        """Add the errors of other rows."""
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


def _name_errors(row: Row) -> Mapping[str, str]:
    """Return the errors of a row by the names under which its criteria are counted.

    The criteria of a row's own rubric are counted by their titles, such as the whole requirement,
    since the same short name may mean something else in other rows.
    """
    if own_rubric(row.fields) is None:
        return row.errors
    lines = row.report.lines
    names = [line.name for line in lines]
    titles = names_of(lines, is_own=True)
    title_of_name = dict(zip(names, titles, strict=True))
    return {title_of_name.get(name, name): message for name, message in row.errors.items()}


def _group_errors(row: Row, errors: Mapping[str, str]) -> dict[str, _ErrorTally]:
    """Return the errors of a row, by their message without the parts that differ between rows."""
    groups: dict[str, _ErrorTally] = {}
    for name, message in errors.items():
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


def _read_kind(message: str) -> str:
    """Return the kind of an error, which its message begins with: `Overloaded: try later`."""
    match = _KIND.match(message)
    return "Error" if match is None else match[0]


def summarize(
    rows: Iterable[Row], *, threshold: float = 1.0, pass_measure: Measure = "score"
) -> Summary:
    """Summarize rows in one pass.

    For pass@k, a rollout passes if its score, or its reward, reaches the threshold.

    Only a few numbers per example are kept in memory.

    >>> summarize([Row("0"), Row("1", error="Overloaded: try later")]).errors
    {'Overloaded': 1}
    """
    return Tally(pass_rule=PassRule(threshold, pass_measure)).add_all(rows).summary()


@dataclass(slots=True)
class _TaskTally:
    """Counts the rollouts of one task, or of all tasks."""

    rollouts: int = 0
    scored: int = 0
    reward: Mean = field(default_factory=Mean)
    score: Mean = field(default_factory=Mean)
    passes: Passes = field(default_factory=Passes)
    first_row: float = math.inf  # the lowest number of a row

    def add(self, report: EvaluationReport, is_passed: bool | None, example: int | None) -> None:
        """Add a scored rollout of an example; its number is None if the example comes only once."""
        self.scored += 1
        if is_passed is not None:
            self.passes.add(is_passed, example)
        if report.raw_score is not None:
            self.reward.add(report.raw_score, example)
        if report.score is not None:
            self.score.add(report.score, example)

    def merge(self, other: "_TaskTally") -> None:
        self.rollouts += other.rollouts
        self.scored += other.scored
        self.reward.merge(other.reward)
        self.score.merge(other.score)
        self.passes.merge(other.passes)
        self.first_row = min(self.first_row, other.first_row)


class Tally:
    """Counts rows, and adds up their scores, errors and spending."""

    def __init__(self, *, pass_rule: PassRule = DEFAULT_PASS_RULE, alone: bool = False) -> None:
        """`alone` says that each example comes only once, so that examples need no memory.

        If an example does come again, `repeats` is True, and the rows must be counted again with a
        tally that is not `alone`.
        """
        self.repeats = False
        self._pass_rule = pass_rule
        self._all = _TaskTally()
        self._tasks: dict[str, _TaskTally] = {}
        self._failed = 0
        self._altered = 0
        self._own_rubrics = 0
        self._errors: Counter[str] = Counter()
        self._errors_by_criterion: dict[str, Counter[str]] = {}
        self._errors_by_message: dict[str, _ErrorTally] = {}
        self._spent = NOTHING
        self._spent_on_model = NOTHING
        self._timing: Counter[str] = Counter()
        # Each example has a number; None if each comes only once.
        self._example_numbers: dict[str, int] | None = None if alone else {}
        self._merged_examples = 0
        self._criteria: dict[str, CriterionTally] = {}
        # The criteria of the last row, and the tally of each: most rows have the same criteria.
        self._last_criteria: Sequence[Criterion] = ()
        self._last_tallies: list[CriterionTally] = []
        self._have_tags = False
        self._tags: dict[str, Mean] = {}
        self._is_unit_scale = True  # whether every score so far lies between 0 and 1

    def add_all(self, rows: Iterable[Row]) -> Self:
        """Add rows, and return the tally."""
        for row in rows:
            self.add(row)
        return self

    def add(self, row: Row) -> None:
        """Add one row."""
        if row.altered:
            self._altered += 1
        if own_rubric(row.fields) is not None:
            self._own_rubrics += 1
        if row.spent is not NOTHING:
            self._spent += row.spent
            self._spent_on_model += row.spent_on_model
        for part, seconds in row.timing.items():
            self._timing[part] += seconds  # pyright: ignore[reportArgumentType] - a `Counter` counts in any numbers
        if row.errors:
            self._add_errors(row)
        tallies = self._find_task_tallies(row.task)
        for tally in tallies:
            tally.rollouts += 1
        if row.number is not None and row.number < tallies[-1].first_row:
            tallies[-1].first_row = row.number
        example = self._number_example(row)
        if row.error is not None:
            self._failed += 1
            return
        report = row.report
        self._add_lines(row, example)
        if not report.scored:
            return
        is_passed = self._pass_rule.is_passed(report)
        for tally in tallies:
            tally.add(report, is_passed, example)
        if self._have_tags or report.answers is None:
            for tag, score in report.tag_scores.items():
                if score is not None:
                    self._tags.setdefault(tag, Mean()).add(score, example)
        if report.score is not None and report.scale != "unit":
            self._is_unit_scale = False

    def _find_task_tallies(self, name: str) -> Sequence[_TaskTally]:
        """Return the tallies that count a row of this task."""
        task = self._tasks.get(name)
        if task is None:
            if self._tasks:
                self._separate_first_task()
                task = _TaskTally()
            else:
                # Most runs have one task, so its tally also counts all rows.
                task = self._all
            self._tasks[name] = task
        return (task,) if task is self._all else (self._all, task)

    def _separate_first_task(self) -> None:
        """Give all rows a tally of their own, if they share that of the only task so far."""
        if len(self._tasks) == 1:
            self._all = deepcopy(self._all)

    def _number_example(self, row: Row) -> int | None:
        """Return the number of the row's example; None if each example comes only once."""
        if self._example_numbers is None:
            if row.sample:
                self.repeats = True
            return None
        return self._example_numbers.setdefault(row.example, len(self._example_numbers))

    def _add_errors(self, row: Row) -> None:
        errors = _name_errors(row)
        for criterion, message in errors.items():
            kind = _read_kind(message)
            self._errors[kind] += 1
            self._errors_by_criterion.setdefault(criterion, Counter())[kind] += 1
        self._add_messages(_group_errors(row, errors))

    def _add_messages(self, groups: Mapping[str, _ErrorTally]) -> None:
        for key, group in groups.items():
            is_full = len(self._errors_by_message) >= MOST_ERROR_MESSAGES
            if is_full and key not in self._errors_by_message:
                key = _read_kind(group.message)
            if key in self._errors_by_message:
                self._errors_by_message[key].add(group)
            else:
                self._errors_by_message[key] = group

    def _add_lines(self, row: Row, example: int | None) -> None:
        """Add the answers of a row to the tallies of their criteria."""
        report = row.report
        if report.answers is None:
            names = names_of(report.lines, is_own=own_rubric(row.fields) is not None)
            for name, line in zip(names, report.lines, strict=True):
                self._find_criterion_tally(name, line.weight).add_line(line, example)
            return
        criteria = report.criteria
        if criteria != self._last_criteria:
            names = names_of(criteria, is_own=own_rubric(row.fields) is not None)
            self._last_tallies = [
                self._find_criterion_tally(name, criterion.weight)
                for name, criterion in zip(names, criteria, strict=True)
            ]
            self._last_criteria = criteria
            self._have_tags = any(criterion.tags for criterion in criteria)
        for criterion, tally, answer in zip(
            criteria, self._last_tallies, report.answers, strict=True
        ):
            if isinstance(answer, Score):
                tally.add_score(criterion, answer, example)
            else:
                value = float(answer)
                tally.add_value(value, is_met=value >= criterion.pass_at, example=example)

    def _find_criterion_tally(self, name: str, weight: float | None) -> CriterionTally:
        tally = self._criteria.get(name)
        if tally is None:
            tally = self._criteria[name] = CriterionTally(weight)
        elif tally.weight != weight:
            tally.weight = None
        return tally

    def __getstate__(self) -> dict[str, Any]:
        # The criteria may have functions that cannot be pickled.
        return {**self.__dict__, "_last_criteria": (), "_last_tallies": []}

    def merge(self, other: "Tally") -> None:
        """Add the counts of another tally, which has no example in common with this one."""
        self._merged_examples += other._examples
        self._separate_first_task()
        self._all.merge(other._all)
        self._failed += other._failed
        self._altered += other._altered
        self._own_rubrics += other._own_rubrics
        self._spent += other._spent
        self._spent_on_model += other._spent_on_model
        self._errors.update(other._errors)
        self._timing.update(other._timing)
        self._add_messages(other._errors_by_message)
        for criterion_name, kinds in other._errors_by_criterion.items():
            self._errors_by_criterion.setdefault(criterion_name, Counter()).update(kinds)
        for task_name, task in other._tasks.items():
            self._tasks.setdefault(task_name, _TaskTally()).merge(task)
        for criterion_name, criterion in other._criteria.items():
            self._find_criterion_tally(criterion_name, criterion.weight).merge(criterion)
        for tag, mean in other._tags.items():
            self._tags.setdefault(tag, Mean()).merge(mean)
        self._is_unit_scale = self._is_unit_scale and other._is_unit_scale
        self.repeats = self.repeats or other.repeats

    @property
    def _examples(self) -> int:
        """The number of examples so far."""
        if self._example_numbers is None:
            return self._all.rollouts
        return len(self._example_numbers) + self._merged_examples

    def summary(self) -> Summary:
        """Return the summary of the rows so far."""
        messages = sorted(
            self._errors_by_message.values(), key=lambda error: error.count, reverse=True
        )
        # In the order of the input: rows are counted as they are finished.
        tasks = sorted(self._tasks.items(), key=lambda item: item[1].first_row)
        return Summary(
            rollouts=self._all.rollouts,
            examples=self._examples,
            scored=self._all.scored,
            unscored=self._all.rollouts - self._all.scored,
            failed=self._failed,
            errors=dict(self._errors.most_common()),
            errors_by_criterion={
                name: dict(kinds.most_common()) for name, kinds in self._errors_by_criterion.items()
            },
            error_messages=tuple(error.summary() for error in messages),
            reward=self._all.reward.estimate(),
            score=self._estimate_score(self._all.score),
            criteria={name: tally.summary() for name, tally in self._criteria.items()},
            tags={name: self._estimate_score(mean) for name, mean in self._tags.items()},
            tasks={name: self._summarize_task(task) for name, task in tasks},
            passes=self._all.passes.rates(),
            threshold=self._pass_rule.threshold,
            pass_measure=self._pass_rule.measure,
            spent=self._spent,
            spent_on_model=self._spent_on_model,
            spent_on_judge=self._spent - self._spent_on_model,
            timing=dict(self._timing),
            own_rubrics=self._own_rubrics,
            altered=self._altered,
        )

    def _summarize_task(self, task: _TaskTally) -> TaskSummary:
        return TaskSummary(
            rollouts=task.rollouts,
            scored=task.scored,
            reward=task.reward.estimate(),
            score=self._estimate_score(task.score),
            passes=task.passes.rates(),
        )

    def _estimate_score(self, scores: Mean) -> MeanEstimate:
        """Return the mean of scores. Its interval has only scores that are possible."""
        estimate = scores.estimate()
        return estimate.within(0.0, 1.0) if self._is_unit_scale else estimate
