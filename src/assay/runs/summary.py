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
from assay.runs.jsonable import type_adapter
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
        """Whether judges chose among other verdicts than MET and UNMET, such as 1 to 5."""
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
        return type_adapter(Summary).dump_python(self, mode="json")

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Summary":
        """Return the summary from the data that `to_dict` returned."""
        return type_adapter(Summary).validate_python(data)

    @property
    def headline(self) -> str:
        """One line: the number of rollouts, how many have no score, and warnings about the run.

        >>> Summary(rollouts=4, examples=2, scored=3, unscored=1, complete=False).headline
        '4 rollouts of 2 examples, 1 unscored, incomplete'
        """
        headline = format_count(self.rollouts, "rollout")
        if self.examples != self.rollouts:
            headline += f" of {format_count(self.examples, 'example')}"
        if self.own_rubrics and self.own_rubrics == self.rollouts:
            headline += ", by the rubrics of their rows"
        elif self.own_rubrics:
            headline += f", {self.own_rubrics:,} of them by the rubrics of their rows"
        if self.unscored:
            headline += f", {self.unscored:,} unscored"
        if not self.complete:
            headline += ", incomplete"
        if "BudgetExceeded" in self.errors:
            # Rollouts that are quick or cheap to score were finished before the others.
            headline += "; the budget ran out, so the means are biased"
        return headline

    def page(self, title: str = "") -> Page:
        """Return the headline and the tables as a page, to show or to print."""
        return Page(
            f"{title}: {self.headline}" if title else self.headline,
            list(self.sections()),
            notes=self.notes(),
            data=self.to_dict(),
        )

    def notes(self) -> list[str]:
        """Return sentences that explain words in the tables, if they occur there."""
        has_fault = any((criterion.weight or 0) < 0 for criterion in self.criteria.values())
        if not has_fault:
            return []
        return ["a negative weight marks a fault: happened is bad, avoided is good"]

    def __str__(self) -> str:
        return self.page().text()

    def _repr_html_(self) -> str:
        return self.page().text("html")

    def sections(self) -> Iterator[Section]:
        """Yield the tables: errors, means, criteria and pass rates, without those that say nothing."""
        if self.error_messages:
            yield _make_error_section(self.error_messages)
        yield _make_mean_section(self)
        if self.criteria:
            yield _make_criteria_section(self)
        # With one rollout per example and the default threshold, pass@1 says little beside the mean.
        has_several_rollouts = max(self.passes, default=1) > 1
        if has_several_rollouts or self.threshold != DEFAULT_PASS_RULE.threshold:
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
    """Return a table with each error message once, and the first rollout that has it."""
    rows: list[tuple[object, ...]] = []
    for error in errors:
        first_rollout = f"{error.example} #{error.sample}" if error.sample else error.example
        criteria = ", ".join(error.criteria[:MAX_NAMES])
        if len(error.criteria) > MAX_NAMES:
            criteria += f" and {len(error.criteria) - MAX_NAMES} more"
        if not criteria:
            criteria = "nothing to score"  # as when generation failed
        message = shorten_middle(error.message, 200)
        rows.append((error.count, error.rollouts, first_rollout, criteria, message))
    return Section(("errors", "rollouts", "first in", "criteria", "message"), rows)


MAX_NAMES = 3  # criteria that are named in a line about an error


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
    always_shown = ("criterion", "weight", "mean", "met", "unmet")
    shown_criteria = dict(summary.criteria)
    if len(shown_criteria) > MAX_CRITERIA:
        # Rows that bring their own rubrics may have thousands of criteria.
        by_loss = sorted(summary.criteria.items(), key=_measure_loss, reverse=True)
        shown_criteria = dict(by_loss[:SHOWN_CRITERIA])
    rows = [_make_criterion_row(name, criterion) for name, criterion in shown_criteria.items()]
    hidden_count = len(summary.criteria) - len(shown_criteria)
    if hidden_count:
        rows.append((f"and {hidden_count:,} that cost fewer points", "", "", "", "", 0, 0, ""))
    shown_indices: list[int] = []
    for index, column in enumerate(columns):
        if column in always_shown or any(row[index] for row in rows):
            shown_indices.append(index)
    return Section(
        [columns[index] for index in shown_indices],
        [[row[index] for index in shown_indices] for row in rows],
    )


def _make_criterion_row(name: str, criterion: CriterionSummary) -> tuple[Any, ...]:
    """Return a criterion as a row of the table of criteria; an empty cell is None, 0 or empty."""
    met: object = criterion.met
    unmet: object = criterion.unmet
    verdicts = ""
    if criterion.is_scale:
        # On a scale such as 1 to 5, show how often each verdict was given instead.
        met = unmet = None
        counts = [f"{verdict} {count:,}" for verdict, count in criterion.verdicts.items()]
        verdicts = ", ".join(counts)
    elif criterion.weight is not None and criterion.weight < 0:
        # The criterion describes a fault, so to meet it is bad.
        happened = f"{criterion.met:,} {describe_verdict('MET', criterion.weight)}"
        avoided = f"{criterion.unmet:,} {describe_verdict('UNMET', criterion.weight)}"
        met = TonedCell(happened, tone="bad" if criterion.met else "")
        unmet = TonedCell(avoided, tone="good" if criterion.unmet else "")
    return (
        name,
        "varies" if criterion.weight is None else f"{criterion.weight:+g}",
        criterion.value.mean,
        met,
        unmet,
        criterion.not_applicable,
        criterion.errors,
        verdicts,
    )


# A table shows all criteria up to MAX_CRITERIA. If there are more, it shows the SHOWN_CRITERIA that
# cost the most points.
MAX_CRITERIA = 40
SHOWN_CRITERIA = 10


def _measure_loss(item: tuple[str, CriterionSummary]) -> float:
    """Return how many points a criterion has cost in all rollouts.

    Each rollout loses its weight times the part of the value that is missing to a full one. A
    missing answer costs the whole weight. A criterion with a negative weight describes a fault, so
    it costs points where it is met. `item` is the name of the criterion and its summary.
    """
    _, criterion = item
    weight = 1.0 if criterion.weight is None else criterion.weight
    mean = criterion.value.mean
    lost_values = 0.0
    if mean is not None:
        mean_loss = mean if weight < 0 else 1 - mean
        lost_values = criterion.value.count * mean_loss
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
        """Count a value that the criterion has in a rollout.

        `example` is the number of the rollout's example; None if each example comes only once.
        """
        self.values.add(value, example)
        self.counts["met" if is_met else "unmet"] += 1

    def add_score(self, criterion: Criterion, score: Score, example: int | None) -> None:
        """Count the answer to a criterion in a rollout of the example with this number."""
        if score.error is not None:
            self.counts["errors"] += 1
        elif score.value is None and not score.asked:
            self.counts["unneeded"] += 1
        elif score.value is None:
            self.counts["not_applicable"] += 1
        else:
            # The value may be the mean of several judges, and the verdict that of most of them. What
            # counts as met is the verdict, if there is one.
            verdict_value = criterion.values.get(score.verdict or "", score.value)
            if criterion.judged and score.verdict is not None:
                self.count_verdict(score.verdict, times=1, value=verdict_value)
            is_met = verdict_value >= criterion.pass_at
            self.add_value(score.value, is_met=is_met, example=example)

    def add_line(self, line: CriterionReport, example: int | None) -> None:
        """Count a line of a report. A line says less than the criterion and score it was made from.

        `example` is the number of the rollout's example; None if each example comes only once.
        """
        if line.error is not None:
            self.counts["errors"] += 1
        elif not line.answered:
            self.counts["unneeded"] += 1
        elif line.value is None or line.verdict == NOT_APPLICABLE:
            self.counts["not_applicable"] += 1
        else:
            if line.requirement is not None and line.verdict is not None:  # a model answered
                self.count_verdict(line.verdict, times=1, value=line.value)
            # A line passes if a good criterion is met, or a fault (of negative weight) is not.
            is_met = bool(line.passed) is (line.weight >= 0)
            self.add_value(line.value, is_met=is_met, example=example)

    def count_verdict(self, verdict: str, *, times: int, value: float) -> None:
        """Count a verdict that models gave `times` times; `value` is what the verdict is worth."""
        earlier_times, _ = self.verdicts.get(verdict, (0, value))
        self.verdicts[verdict] = (earlier_times + times, value)

    def merge(self, other: "CriterionTally") -> None:
        """Add the answers of another tally, which has no example in common with this one."""
        self.values.merge(other.values)
        self.counts.update(other.counts)
        for verdict, (times, value) in other.verdicts.items():
            self.count_verdict(verdict, times=times, value=value)

    def summary(self) -> CriterionSummary:
        """Return the counts so far, with the verdicts from worst to best."""

        def get_rank(verdict: str) -> tuple[float, str]:
            _, value = self.verdicts[verdict]
            return value, verdict

        times_by_verdict: dict[str, int] = {}
        for verdict in sorted(self.verdicts, key=get_rank):
            times, _ = self.verdicts[verdict]
            times_by_verdict[verdict] = times
        return CriterionSummary(
            weight=self.weight,
            value=self.values.estimate(),
            verdicts=times_by_verdict,
            **self.counts,  # under the names of the other fields
        )


MAX_ERROR_MESSAGES = 50  # more messages than these are only counted, by their kind

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
    # The names of the criteria without an answer, each once and in order; the values are not used.
    criteria: dict[str, None] = field(default_factory=dict[str, None])

    def add(self, other: "_ErrorTally") -> None:
        """Add the errors with the same message in other rows, and keep the earlier first row."""
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
    """Return the error messages of a row by the names that its criteria have in the summary.

    If the row has its own rubric, these are titles, such as the whole requirement: the same short
    name may mean something else in other rows.
    """
    if own_rubric(row.fields) is None:
        return row.errors
    lines = row.report.lines
    names = [line.name for line in lines]
    titles = names_of(lines, is_row_rubric=True)
    titles_by_name = dict(zip(names, titles, strict=True))
    # The name `rollout`, for a row with nothing to score, has no title.
    return {titles_by_name.get(name, name): message for name, message in row.errors.items()}


def _group_errors(row: Row, errors: Mapping[str, str]) -> dict[str, _ErrorTally]:
    """Count the errors of one row by message.

    `errors` are the messages by the name of the criterion. The keys of the result are messages
    without the parts that differ between rows, so that the same error of several rows is one entry.
    """
    tallies: dict[str, _ErrorTally] = {}
    for criterion_name, message in errors.items():
        key = _VARYING.sub("#", message[:LONGEST_TITLE])
        tally = tallies.get(key)
        if tally is None:
            tally = _ErrorTally(
                message=message,
                example=row.example,
                sample=row.sample,
                number=math.inf if row.number is None else row.number,
                rollouts=1,
            )
            tallies[key] = tally
        tally.count += 1
        if row.error is None:  # else there was nothing to score, and the name is not a criterion's
            tally.criteria[criterion_name] = None
    return tallies


_KIND = re.compile(r"[A-Za-z_][\w.]*(?=:|$)")


def _read_kind(message: str) -> str:
    """Return the kind of an error, which its message begins with: `Overloaded: try later`."""
    match = _KIND.match(message)
    return "Error" if match is None else match[0]


def summarize(
    rows: Iterable[Row], *, threshold: float = 1.0, pass_measure: Measure = "score"
) -> Summary:
    """Summarize rows in one pass, keeping only a few numbers per example in memory.

    For pass@k, a rollout passes if its score, or its reward, reaches the threshold.

    >>> summarize([Row("0"), Row("1", error="Overloaded: try later")]).errors
    {'Overloaded': 1}
    """
    return Tally(pass_rule=PassRule(threshold, pass_measure)).add_all(rows).summary()


@dataclass(slots=True)
class _TaskTally:
    """Counts the rollouts of one task, or of all tasks, and averages their results."""

    rollouts: int = 0
    scored: int = 0
    reward: Mean = field(default_factory=Mean)
    score: Mean = field(default_factory=Mean)
    passes: Passes = field(default_factory=Passes)
    first_row: float = math.inf  # the lowest number of a row

    def add(self, report: EvaluationReport, is_passed: bool | None, example: int | None) -> None:
        """Add a scored rollout. Its caller has counted it in `rollouts` already.

        `is_passed` is None if it has neither passed nor failed. `example` is the number of its
        example; None if each example comes only once.
        """
        self.scored += 1
        if is_passed is not None:
            self.passes.add(is_passed, example)
        if report.raw_score is not None:
            self.reward.add(report.raw_score, example)
        if report.score is not None:
            self.score.add(report.score, example)

    def merge(self, other: "_TaskTally") -> None:
        """Add the counts of another tally, which has no example in common with this one."""
        self.rollouts += other.rollouts
        self.scored += other.scored
        self.reward.merge(other.reward)
        self.score.merge(other.score)
        self.passes.merge(other.passes)
        self.first_row = min(self.first_row, other.first_row)


class Tally:
    """Counts rows, and adds up their scores, errors and spending, for the summary of a run."""

    def __init__(
        self, *, pass_rule: PassRule = DEFAULT_PASS_RULE, unique_examples: bool = False
    ) -> None:
        """`unique_examples` says that each example comes only once, so none has to be remembered.

        If an example does come again, `has_repeats` becomes True, and the rows must be counted again
        by a tally without `unique_examples`.
        """
        self.has_repeats = False
        self._pass_rule = pass_rule
        self._all = _TaskTally()  # of all rows
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
        # The number of each example, in the order in which they came; None if each comes only once.
        self._example_numbers: dict[str, int] | None = None if unique_examples else {}
        self._merged_examples = 0  # how many examples merged tallies had
        self._criteria: dict[str, CriterionTally] = {}
        # The criteria of the last row, and the tally of each: most rows have the same criteria.
        self._last_criteria: Sequence[Criterion] = ()
        self._last_tallies: list[CriterionTally] = []
        self._have_tags = False
        self._tags: dict[str, Mean] = {}
        self._is_unit_scale = True  # whether every score so far lies between 0 and 1

    def add_all(self, rows: Iterable[Row]) -> Self:
        """Add rows, and return this tally."""
        for row in rows:
            self.add(row)
        return self

    def add(self, row: Row) -> None:
        """Count one row, and add its results to the means."""
        if row.altered:  # it has a field that had to be altered for JSON
            self._altered += 1
        if own_rubric(row.fields) is not None:
            self._own_rubrics += 1
        if row.spent is not NOTHING:
            self._spent += row.spent
            self._spent_on_model += row.spent_on_model
        for part, seconds in row.timing.items():  # `generation` and `scoring`
            self._timing[part] += seconds  # pyright: ignore[reportArgumentType] - a `Counter` counts in any numbers
        if row.errors:
            self._add_errors(row)
        # One tally counts the rows of the task, and one counts all rows, unless there is only one task.
        tallies = self._find_task_tallies(row.task)
        for tally in tallies:
            tally.rollouts += 1
        task = tallies[-1]  # that of the task
        if row.number is not None and row.number < task.first_row:
            task.first_row = row.number
        example = self._number_example(row)
        if row.error is not None:  # there was nothing to score
            self._failed += 1
            return
        report = row.report
        self._add_lines(row, example)
        if not report.scored:
            return
        is_passed = self._pass_rule.is_passed(report)
        for tally in tallies:
            tally.add(report, is_passed, example)
        # If no criterion of the rubric has tags, as usual, this saves the time to look for scores by
        # tag. A report without answers may be by another rubric.
        if self._have_tags or report.answers is None:
            for tag, score in report.tag_scores.items():
                if score is not None:
                    self._tags.setdefault(tag, Mean()).add(score, example)
        if report.score is not None and report.scale != "unit":  # it may lie outside of 0 to 1
            self._is_unit_scale = False

    def _find_task_tallies(self, name: str) -> Sequence[_TaskTally]:
        """Return the tallies that count a row of this task: that of the task comes last.

        Before it comes the tally of all rows, unless it is the same one.
        """
        task = self._tasks.get(name)
        if task is None:
            if not self._tasks:
                # Most runs have one task. Until another one comes, its tally also counts all rows,
                # which saves half of the work.
                task = self._all
            else:
                self._separate_first_task()
                task = _TaskTally()
            self._tasks[name] = task
        return (task,) if task is self._all else (self._all, task)

    def _separate_first_task(self) -> None:
        """Count all rows apart from the first task, whose tally has counted both so far."""
        if len(self._tasks) == 1:
            self._all = deepcopy(self._all)

    def _number_example(self, row: Row) -> int | None:
        """Return the number of the row's example; None if each example comes only once.

        A new example gets the next number.
        """
        if self._example_numbers is None:
            if row.sample:  # a second rollout of its example has sample 1
                self.has_repeats = True
            return None
        return self._example_numbers.setdefault(row.example, len(self._example_numbers))

    def _add_errors(self, row: Row) -> None:
        """Count the errors of a row by kind, by criterion and by message."""
        errors = _name_errors(row)
        for criterion, message in errors.items():
            kind = _read_kind(message)
            self._errors[kind] += 1
            self._errors_by_criterion.setdefault(criterion, Counter())[kind] += 1
        self._add_error_tallies(_group_errors(row, errors))

    def _add_error_tallies(self, tallies: Mapping[str, _ErrorTally]) -> None:
        """Add errors of one or more rows, counted by message.

        After many different messages, new ones are only counted by the kind of the error.
        """
        for key, tally in tallies.items():
            is_full = len(self._errors_by_message) >= MAX_ERROR_MESSAGES
            if is_full and key not in self._errors_by_message:
                key = _read_kind(tally.message)
            if key in self._errors_by_message:
                self._errors_by_message[key].add(tally)
            else:
                self._errors_by_message[key] = tally

    def _add_lines(self, row: Row, example: int | None) -> None:
        """Add the answers of a row to the tallies of their criteria.

        `example` is the number of its example; None if each example comes only once.
        """
        report = row.report
        if report.answers is None:  # the report has lines, but not the criteria behind them
            names = names_of(report.lines, is_row_rubric=own_rubric(row.fields) is not None)
            for name, line in zip(names, report.lines, strict=True):
                self._find_criterion_tally(name, line.weight).add_line(line, example)
            return
        criteria = report.criteria
        if criteria != self._last_criteria:  # most rows have the same criteria as the row before
            names = names_of(criteria, is_row_rubric=own_rubric(row.fields) is not None)
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
            else:  # the number that a check returned
                value = float(answer)
                tally.add_value(value, is_met=value >= criterion.pass_at, example=example)

    def _find_criterion_tally(self, name: str, weight: float | None) -> CriterionTally:
        """Return the tally of the criterion with this name, which is new if there is none yet."""
        tally = self._criteria.get(name)
        if tally is None:
            tally = self._criteria[name] = CriterionTally(weight)
        elif tally.weight != weight:
            tally.weight = None  # it differs between rows
        return tally

    def __getstate__(self) -> dict[str, Any]:
        # The criteria may have functions that cannot be pickled, and are found again if needed.
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
        self._add_error_tallies(other._errors_by_message)
        for criterion_name, kinds in other._errors_by_criterion.items():
            self._errors_by_criterion.setdefault(criterion_name, Counter()).update(kinds)
        for task_name, task in other._tasks.items():
            self._tasks.setdefault(task_name, _TaskTally()).merge(task)
        for criterion_name, criterion in other._criteria.items():
            self._find_criterion_tally(criterion_name, criterion.weight).merge(criterion)
        for tag, mean in other._tags.items():
            self._tags.setdefault(tag, Mean()).merge(mean)
        self._is_unit_scale = self._is_unit_scale and other._is_unit_scale
        self.has_repeats = self.has_repeats or other.has_repeats

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
        # Rows were counted as they were finished. Tasks are sorted as they come in the input.
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
        """Return the summary of one task."""
        return TaskSummary(
            rollouts=task.rollouts,
            scored=task.scored,
            reward=task.reward.estimate(),
            score=self._estimate_score(task.score),
            passes=task.passes.rates(),
        )

    def _estimate_score(self, scores: Mean) -> MeanEstimate:
        """Return the mean of scores. Its interval is limited to scores that are possible."""
        estimate = scores.estimate()
        return estimate.within(0.0, 1.0) if self._is_unit_scale else estimate
