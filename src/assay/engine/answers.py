"""Answers: what was found about a batch, kept by column until somebody wants a report."""

from collections.abc import Coroutine, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import Any, NamedTuple, Protocol, TypeAlias, cast, overload

from assay.aggregation import Scale, summed_by_name, total, weighted_sum, weighted_sums
from assay.criterion import Criterion
from assay.engine.plan import Plan, Question
from assay.redaction import logger_of
from assay.report import (
    NOTHING_APPLIES,
    UNASKED,
    CriterionReport,
    EvaluationReport,
    Lines,
    Score,
    aggregate,
    full_reports,
    line_of,
    sum_reports,
)
from assay.types import OnError
from assay.wording import described

logger = logger_of("assay")

Column: TypeAlias = list[Any]
"""One answer a rollout: a plain number, or a `Score` where there is more to say."""

WHOLE = Score(reason="judged as part of the whole")
"""Stands in a column where the grader gave one report for all of its criteria."""


_NO_COLUMN: Column = []


class Findings(Protocol):
    """What the doors of a rubric write from: numbers by rollout, reports on demand."""

    def partial_rewards(self) -> list[float]:
        """The sum of weight × value over what was answered: the reward, where a rollout is scored."""
        ...

    def scored(self) -> list[bool | None] | None:
        """Whether each rollout has all of its counted answers, and None where no counted criterion
        applies; None in place of the list when all are scored."""
        ...

    def metrics(self) -> list[dict[str, float]]: ...
    def errors(self) -> list[dict[str, str]] | None: ...
    def report(self, place: int) -> EvaluationReport: ...
    def some(self, places: range) -> list[EvaluationReport]: ...


class Rewards(NamedTuple):
    """The numbers that a batch of rollouts earned."""

    rewards: Sequence[float | None]
    """None where a rollout is unscored."""
    partial: Sequence[float] | None
    """The sums of what was answered, for all rollouts; None when every rollout is scored."""
    errors: list[dict[str, str]] | None
    """What went wrong, and why a rollout is unscored, by name; None when nothing is to be said."""


def rewards_of(findings: Findings) -> Rewards:
    """The one place that decides what an unscored rollout is worth: None, and never a number."""
    partial, scored, errors = findings.partial_rewards(), findings.scored(), findings.errors()
    if scored is None or all(scored):
        return Rewards(partial, None, errors)
    if None in scored:
        errors = errors or [{} for _ in partial]
        errors = [
            error or ({"rubric": NOTHING_APPLIES} if counts is None else error)
            for error, counts in zip(errors, scored, strict=True)
        ]
    rewards = [sum if counts else None for sum, counts in zip(partial, scored, strict=True)]
    return Rewards(rewards, partial, errors)


Found: TypeAlias = Coroutine[Any, Any, Findings]
"""Findings, once they are awaited."""


@dataclass
class Answers:
    """One column a criterion. Plain columns are summed at once; anything else goes by report."""

    plan: Plan
    columns: list[Column]
    size: int
    scale: Scale | None = None
    wholes: dict[int, EvaluationReport] = field(default_factory=dict[int, EvaluationReport])
    """Reports of graders that judge as a whole, by place."""
    plain: bool = False
    """Whether every answer is a bare number under a plain rule, so that no report is needed."""
    floats: bool = False
    """Whether every answer is a float, so that metrics need no conversion."""
    clean: bool = True
    """Whether every answer of a judge is known to be a number."""
    on_error: OnError = "record"
    """What happens when a caller's own formula fails."""

    @classmethod
    def unasked(
        cls, plan: Plan, size: int, scale: Scale | None, on_error: OnError, *, by_place: bool
    ) -> "Answers":
        """No answers yet. Where they are filled in bit by bit, `by_place`, the columns must be there."""
        columns: list[Column] = [_NO_COLUMN] * len(plan.questions)
        if by_place:
            columns = [[UNASKED] * size for _ in plan.questions]
        return cls(plan, columns, size, scale, on_error=on_error)

    def scores(
        self, place: int, answer: Sequence[Score] | EvaluationReport, questions: Sequence[Question]
    ) -> Sequence[Score]:
        """A grader's answer as one score a question; a report for the whole is set aside."""
        if type(answer) is not EvaluationReport:
            return cast("Sequence[Score]", answer)
        self.wholes[place] = self.wholes.get(place, EvaluationReport()) + answer
        return [WHOLE] * len(questions)

    def failed(self) -> bool:
        """Whether anything has no answer."""
        if self.clean and not self.plan.by_code and not self.wholes:
            return False
        return any(not whole.scored for whole in self.wholes.values()) or any(
            type(answer) is Score and answer.error is not None
            for column in self.columns
            for answer in column
        )

    @cached_property
    def reports(self) -> list[EvaluationReport]:
        return [self.report(place) for place in range(self.size)]

    @property
    def sums(self) -> bool:
        """Whether a reward is the plain weighted sum of what was answered."""
        return self.plain or (self.plan.plain and not self.wholes)

    def partial_rewards(self) -> list[float]:
        if not self.sums:
            return [report.partial_reward for report in self.reports]
        weighted = self.plan.weighted
        if not weighted:
            return [0.0] * self.size
        weights = [self.plan.weights[index] for index in weighted]
        columns = [self.columns[index] for index in weighted]
        if not self.plain:
            columns = [[*map(_added, column)] for column in columns]
        return weighted_sums(weights, columns)

    def metrics(self) -> list[dict[str, float]]:
        """The values by name of every rollout; without those that have no answer."""
        if self.plain:
            columns = self.columns if self.floats else [[*map(float, c)] for c in self.columns]
            return _filled(self.plan.names, columns, self.size)
        rows: list[dict[str, float]] = [{} for _ in range(self.size)]
        for name, column in zip(self.plan.names, self.columns, strict=True):
            for row, answer in zip(rows, column, strict=True):
                value = answer.value if type(answer) is Score else float(answer)
                if value is not None:
                    row[name] = value
        for place, whole in self.wholes.items():
            rows[place] |= whole.metrics
        return rows

    def errors(self) -> list[dict[str, str]] | None:
        """What went wrong by name, a rollout each; None when nothing did."""
        if self.plan.aggregation.over_lines is not None:
            found = [report.errors for report in self.reports]
            return found if any(found) else None
        if self.plain or not self.failed():
            return None
        rows: list[dict[str, str]] = [{} for _ in range(self.size)]
        for name, column in zip(self.plan.names, self.columns, strict=True):
            for row, answer in zip(rows, column, strict=True):
                if type(answer) is Score and answer.error is not None:
                    row[name] = answer.error
        for place, whole in self.wholes.items():
            rows[place] |= whole.errors
        return rows

    def scored(self) -> list[bool | None] | None:
        if not self.sums:
            return [_standing(report) for report in self.reports]
        if not self.plan.weighted:
            return [None for _ in range(self.size)]
        if self.plain or (self.clean and not self.plan.by_code):
            return None
        counted = [self.columns[index] for index in self.plan.weighted]
        if not any(Score in map(type, column) for column in counted):
            return None
        return [_all_scored(row) for row in zip(*counted, strict=True)]

    def line(self, index: int, place: int) -> CriterionReport:
        return line_of(self.plan.questions[index].criterion, self.columns[index][place])

    def report(self, place: int) -> EvaluationReport:
        answers = [column[place] for column in self.columns]
        whole = self.wholes.get(place)
        if whole is None:
            return self._report(self.plan.criteria, answers)
        rest = [place for place, answer in enumerate(answers) if answer is not WHOLE]
        if not rest:
            return whole
        criteria = [self.plan.criteria[place] for place in rest]
        return self._report(criteria, [answers[place] for place in rest]) + whole

    def _report(
        self, criteria: Sequence[Criterion], answers: Sequence[float | Score]
    ) -> EvaluationReport:
        lines = Lines(criteria, answers)
        values = values_of(answers)
        if values is None or not self.plan.plain or len(values) < len(self.columns):
            return self._aggregated(lines, criteria)
        return self._full([values], [lines])[0]

    def _aggregated(self, lines: Lines, criteria: Sequence[Criterion]) -> EvaluationReport:
        """What the lines come to. A caller's formula that fails leaves this rollout alone unscored."""
        rule = self.plan.aggregation
        try:
            return aggregate(lines, criteria, aggregation=rule, scale=self.scale)
        except Exception as error:
            if rule.over_lines is None or self.on_error == "raise":
                raise
            logger.error("aggregation %r failed: %s", rule.name, described(error))
            failed = CriterionReport(name=rule.name, error=described(error))
            return aggregate([*lines, failed], criteria, scale=self.scale)

    def some(self, places: range) -> list[EvaluationReport]:
        """The reports on some rollouts, made together where every answer is a bare number."""
        if not self.plain or not self.columns or places.step != 1:
            return [self.report(place) for place in places]
        columns = [column[places.start : places.stop] for column in self.columns]
        rows = list(zip(*columns, strict=True))
        return self._full(rows, [Lines(self.plan.criteria, row) for row in rows])

    def _full(
        self, rows: Iterable[Sequence[float]], lines: Iterable[Lines]
    ) -> list[EvaluationReport]:
        plan = self.plan
        sums = [weighted_sum(plan.weights, row) for row in rows]
        scale = self.scale or plan.aggregation.scale
        options: dict[str, Any] = {"counted": plan.counted, "judged": plan.judged}
        return full_reports(sums, plan.stakes, lines, scale, **options)


def _added(answer: float | Score) -> float:
    """What an answer adds to a sum, before its weight: nothing when it has no value."""
    return (answer.value or 0.0) if isinstance(answer, Score) else float(answer)


def _all_scored(row: Sequence[float | Score]) -> bool | None:
    """Whether all counted answers of a rollout are there; None when none of the questions applies."""
    applying = [answer for answer in row if type(answer) is not Score or answer.applies]
    if not applying:
        return None
    return not any(type(answer) is Score and answer.error is not None for answer in applying)


def _standing(report: EvaluationReport) -> bool | None:
    return report.scored if report.applies else None


def values_of(answers: Sequence[float | Score]) -> list[float] | None:
    """The number in every answer; None when one has none."""
    values = [answer.value if type(answer) is Score else answer for answer in answers]
    return None if None in values else cast("list[float]", values)


def _filled(names: Sequence[str], columns: Iterable[Column], size: int) -> list[dict[str, float]]:
    # By column: copying a dict that has its keys is cheaper than building one.
    empty = dict.fromkeys(names, 0.0)
    rows = [empty.copy() for _ in range(size)]
    for name, column in zip(names, columns, strict=True):
        for row, value in zip(rows, column, strict=True):
            row[name] = value
    return rows


@dataclass(frozen=True, slots=True)
class Reported:
    """Findings that came as reports."""

    reports: Sequence[EvaluationReport]

    def partial_rewards(self) -> list[float]:
        return [report.partial_reward for report in self.reports]

    def metrics(self) -> list[dict[str, float]]:
        return [report.metrics for report in self.reports]

    def errors(self) -> list[dict[str, str]] | None:
        errors = [report.errors for report in self.reports]
        return errors if any(errors) else None

    def scored(self) -> list[bool | None] | None:
        return [_standing(report) for report in self.reports]

    def report(self, place: int) -> EvaluationReport:
        return self.reports[place]

    def some(self, places: range) -> list[EvaluationReport]:
        return [self.reports[place] for place in places]


@dataclass(frozen=True, slots=True)
class Summed:
    """The findings of several rubrics about one batch, added up."""

    parts: Sequence[Findings]

    @classmethod
    def of(cls, found: Sequence[Findings]) -> "Summed":
        """The sum of these. A group inside a group adds its rubrics, so that each is rounded once."""
        parts = ([*one.parts] if isinstance(one, Summed) else [one] for one in found)
        return cls([*chain.from_iterable(parts)])

    def partial_rewards(self) -> list[float]:
        rows = zip(*(part.partial_rewards() for part in self.parts), strict=True)
        return [total(row) for row in rows]

    def metrics(self) -> list[dict[str, float]]:
        rows = zip(*(part.metrics() for part in self.parts), strict=True)
        return [summed_by_name(pair for metrics in row for pair in metrics.items()) for row in rows]

    def errors(self) -> list[dict[str, str]] | None:
        found = [errors for part in self.parts if (errors := part.errors()) is not None]
        if not found:
            return None
        rows = zip(*found, strict=True)
        return [dict(chain.from_iterable(errors.items() for errors in row)) for row in rows]

    def scored(self) -> list[bool | None] | None:
        found = [part.scored() for part in self.parts]
        lists = [scored for scored in found if scored is not None]
        if not lists:
            return None
        # A rubric of which nothing applies adds nothing, as long as another one has a reward.
        some = True if len(lists) < len(found) else None
        rows = zip(*lists, strict=True)
        return [False if False in row else True in row or some for row in rows]

    def report(self, place: int) -> EvaluationReport:
        return sum_reports(part.report(place) for part in self.parts)

    def some(self, places: range) -> list[EvaluationReport]:
        return [self.report(place) for place in places]


class Reports(Sequence[EvaluationReport]):
    """The reports of a scored batch, each made when it is looked at."""

    def __init__(self, findings: Findings, size: int) -> None:
        self._findings = findings
        self._size = size

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, index: int) -> EvaluationReport: ...
    @overload
    def __getitem__(self, index: slice) -> list[EvaluationReport]: ...
    def __getitem__(self, index: int | slice) -> EvaluationReport | list[EvaluationReport]:
        if isinstance(index, slice):
            return self._findings.some(range(self._size)[index])
        return self._findings.report(range(self._size)[index])

    def __iter__(self) -> Iterator[EvaluationReport]:
        return (self._findings.report(place) for place in range(self._size))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(cast("Sequence[Any]", other))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<Reports on {self._size} rollouts>"

    def __reduce__(self) -> tuple[Any, ...]:
        # As plain reports: a rubric may hold functions that cannot be pickled.
        return list, (list(self),)
