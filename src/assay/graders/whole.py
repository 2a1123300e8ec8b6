"""A report by somebody else's formula, completed so that it can be added to others."""

import math
from collections.abc import Sequence

from assay.aggregation import Scale, Totals, share_of, stakes, sum_behind
from assay.criterion import Criterion
from assay.errors import JudgeError
from assay.graders.verdicts import score_of
from assay.report import CriterionReport, EvaluationReport, line_of


def as_whole(
    report: EvaluationReport, criteria: Sequence[Criterion], scale: Scale | None = None
) -> EvaluationReport:
    """The report with what its formula left out: sums, counts, and the values of its lines.

    The score stays as it is. In a rubric that checks by code too, the sums are added and the score
    is derived from them again.
    """
    if not isinstance(report, EvaluationReport):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise JudgeError(f"aggregate() returned {report!r:.200}: return an EvaluationReport")
    for number in (report.score, report.raw_score):
        if number is not None and not math.isfinite(number):
            raise JudgeError(f"the grader's report has a score of {number}: give a finite number")
    if report.gain or report.loss or report.asked or report.unneeded:
        return report
    scale = scale or report.scale
    counted = [criterion for criterion in criteria if criterion.counts]
    totals = _totals_behind(report, [criterion.weight for criterion in counted], scale)
    totals_worth = (
        None if report.score is None else sum_behind(report.score, totals.gain, totals.loss, scale)
    )
    lines = _completed(report.report, criteria)
    unanswered = sum(line.counted and not line.answered for line in lines or ())
    nothing = not counted or not report.scored
    return report.model_copy(
        update={
            "score": None if nothing else report.score,
            "raw_score": None if nothing else totals.raw,
            "gain": totals.gain,
            "loss": totals.loss,
            "asked": len(counted),
            "answered": 0 if nothing else max(0, len(counted) - unanswered),
            "report": lines,
            "worth": totals_worth,
            "scale": scale,
        }
    )


def _totals_behind(report: EvaluationReport, weights: Sequence[float], scale: Scale) -> Totals:
    """Totals that come to the report's score, and keep its raw sum where it has one."""
    raw, score = report.raw_score, report.score
    if raw is None and score is not None:
        return Totals(score, *stakes(weights)) if scale == "raw" else share_of(score, weights)
    return Totals(raw or 0.0, *stakes(weights))


def _completed(
    lines: Sequence[CriterionReport] | None, criteria: Sequence[Criterion]
) -> list[CriterionReport] | None:
    """Lines that give a verdict alone get the criterion's name and the verdict's value."""
    if lines is None or len(lines) != len(criteria):
        return None if lines is None else list(lines)
    return [
        line if line.value is not None else line_of(criterion, score_of(criterion, line))
        for criterion, line in zip(criteria, lines, strict=True)
    ]
