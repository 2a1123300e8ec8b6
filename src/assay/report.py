"""Reports: the answers to one rollout, and what they come to. Reports add up."""

import math
from collections.abc import Iterable, Sequence
from functools import reduce

from pydantic import BaseModel, ConfigDict

from assay.aggregation import (
    AGGREGATIONS,
    Aggregation,
    Answer,
    Scale,
    Totals,
    capped,
    normalise,
)
from assay.criterion import NOT_APPLICABLE, Criterion, Score
from assay.errors import RubricError


class CriterionReport(BaseModel):
    """One line of a report: a question and its answer."""

    model_config = ConfigDict(frozen=True)

    name: str = ""
    weight: float = 1.0
    requirement: str | None = None
    value: float | None = None
    """Between 0 and 1 for a verdict, any number for a check; None when there is no answer."""
    verdict: str | None = None
    reason: str = ""
    error: str | None = None
    """Why there is no answer; None when there is one."""
    counted: bool = True
    """Whether the line is part of the score, and not a metric or report-only."""
    passed: bool | None = None
    tags: tuple[str, ...] = ()
    lines: tuple["CriterionReport", ...] = ()
    """The lines of a nested rubric."""

    @property
    def answered(self) -> bool:
        """Whether someone answered; that a question does not apply is an answer."""
        return self.error is None

    @property
    def applies(self) -> bool:
        return self.verdict != NOT_APPLICABLE


class EvaluationReport(BaseModel):
    """What was found about one rollout. `raw_score` is the reward, `score` its normalised view."""

    model_config = ConfigDict(frozen=True)

    score: float | None = None
    """0 to 1 (unless the rubric asks otherwise), over the answered lines; None when none counts."""
    raw_score: float | None = None
    """The sum of weight × value over the answered lines."""
    llm_raw_score: float | None = None
    """What a judge of the whole said, before conversion."""
    report: list[CriterionReport] | None = None
    """One line a criterion; None when a judge gave one number for the whole."""
    gain: float = 0.0
    """The most the answered lines could add."""
    loss: float = 0.0
    """The most they could take away."""
    asked: int = 0
    """Counted lines that apply."""
    answered: int = 0
    """Those of them that have an answer."""
    vetoed_by: tuple[str, ...] = ()
    """Required criteria that failed and capped the score."""
    scale: Scale = "unit"

    @property
    def coverage(self) -> float:
        """The answered share of the counted lines; below 1 the report is partial."""
        return self.answered / self.asked if self.asked else 1.0

    @property
    def scored(self) -> bool:
        """Whether every counted line was answered. If not, keep it out of means and baselines."""
        return self.answered == self.asked

    @property
    def lines(self) -> list[CriterionReport]:
        return self.report or []

    @property
    def metrics(self) -> dict[str, float]:
        """The value of every answered line by name; equal names are summed."""
        metrics: dict[str, float] = {}
        for line in self.lines:
            if line.value is not None:
                metrics[line.name] = metrics.get(line.name, 0.0) + line.value
        return metrics

    @property
    def errors(self) -> dict[str, str]:
        """Why a line has no answer, by name."""
        return {line.name: line.error for line in self.lines if line.error is not None}

    @property
    def tag_scores(self) -> dict[str, float | None]:
        """The score over the lines of each tag alone, by the plain weighted rule."""
        tags = dict.fromkeys(tag for line in self.lines for tag in line.tags)
        rule = AGGREGATIONS["healthbench" if self.scale == "open" else "weighted"]
        return {
            tag: normalise(rule.total(_answers(x for x in self.lines if tag in x.tags)), rule.scale)
            for tag in tags
        }

    def __add__(self, other: "EvaluationReport") -> "EvaluationReport":
        """Both reports as one: sums are added, lines joined, the score derived from the sums."""
        if self == _EMPTY or other == _EMPTY:
            return other if self == _EMPTY else self
        totals = _totals(self).plus(_totals(other))
        scale: Scale = self.scale if self.scale == other.scale else "unit"
        return EvaluationReport(
            score=normalise(totals, scale),
            raw_score=totals.raw,
            llm_raw_score=_only(self.llm_raw_score, other.llm_raw_score),
            report=None
            if self.report is None and other.report is None
            else self.lines + other.lines,
            gain=totals.gain,
            loss=totals.loss,
            asked=self.asked + other.asked,
            answered=self.answered + other.answered,
            vetoed_by=self.vetoed_by + other.vetoed_by,
            scale=scale,
        )


_EMPTY = EvaluationReport()


def _totals(report: EvaluationReport) -> Totals:
    return Totals(report.raw_score or 0.0, report.gain, report.loss)


def _only(first: float | None, second: float | None) -> float | None:
    return first if second is None else second if first is None else None


def sum_reports(reports: Iterable[EvaluationReport]) -> EvaluationReport:
    """All reports as one; the empty report when there are none."""
    return reduce(EvaluationReport.__add__, reports, _EMPTY)


def line_of(criterion: Criterion, answer: float | Score) -> CriterionReport:
    """The report line of one answer; a bare number comes from a check."""
    if isinstance(answer, Score):
        value, reason, verdict, error, lines = answer
    else:
        value, reason, error, lines = float(answer), "", None, ()
        verdict = criterion.choices[-1 if answer else 0] if isinstance(answer, bool) else None
    return CriterionReport(
        name=criterion.name,
        weight=criterion.weight,
        requirement=criterion.requirement,
        value=value,
        verdict=verdict,
        reason=reason,
        error=error,
        counted=criterion.counts,
        passed=None if value is None else criterion.passes(value),
        tags=criterion.tags,
        lines=tuple(lines),
    )


def _answers(lines: Iterable[CriterionReport]) -> list[Answer]:
    return [
        Answer(line.weight, line.value, bool(line.passed))
        for line in lines
        if line.counted and line.value is not None
    ]


def report_of(
    criteria: Sequence[Criterion],
    answers: Sequence[float | Score],
    *,
    aggregation: Aggregation,
    scale: Scale | None = None,
) -> EvaluationReport:
    """The report of one rollout: its lines, and what they come to."""
    lines = [line_of(c, answer) for c, answer in zip(criteria, answers, strict=True)]
    return aggregate(lines, criteria, aggregation=aggregation, scale=scale)


def aggregate(
    lines: list[CriterionReport],
    criteria: Sequence[Criterion] = (),
    *,
    aggregation: Aggregation = AGGREGATIONS["weighted"],
    scale: Scale | None = None,
) -> EvaluationReport:
    """The report that these lines come to. `criteria` are needed for vetoes alone."""
    asked = [line for line in lines if line.counted and line.applies]
    totals, scale = _sum(asked, aggregation, scale)
    vetoes = [
        c
        for c, line in zip(criteria, lines, strict=False)
        if c.required and line.counted and line.passed is False
    ]
    for criterion in vetoes:
        totals = capped(totals, criterion.cap, scale)
    anything = any(line.value is not None for line in asked)
    return EvaluationReport(
        score=normalise(totals, scale) if anything else None,
        raw_score=totals.raw,
        llm_raw_score=totals.raw if any(line.requirement for line in lines) else None,
        report=lines,
        gain=totals.gain,
        loss=totals.loss,
        asked=len(asked),
        answered=sum(line.answered for line in asked),
        vetoed_by=tuple(c.name for c in vetoes),
        scale=scale,
    )


def _sum(
    asked: list[CriterionReport], aggregation: Aggregation, scale: Scale | None
) -> tuple[Totals, Scale]:
    if aggregation.over_lines is None:
        return aggregation.total(_answers(asked)), scale or aggregation.scale
    answered = [line for line in asked if line.value is not None]
    raw = float(aggregation.over_lines(answered)) if answered else 0.0
    if not math.isfinite(raw):
        raise RubricError(
            f"aggregation {aggregation.name!r} returned {raw}: return a finite number"
        )
    return Totals(raw, 1.0 if answered else 0.0), scale or aggregation.scale
