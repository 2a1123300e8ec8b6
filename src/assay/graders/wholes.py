"""Wholes: several judges' one number for all criteria, made into one report."""

from collections.abc import Sequence

from assay.aggregation import Scale, Totals, share_of, stakes
from assay.concurrency import FAILURES, is_stop
from assay.criterion import Criterion
from assay.errors import JudgeError
from assay.graders.base import Autograder
from assay.graders.votes import Rule, Vote, outcome
from assay.report import EvaluationReport, Score

_WHOLE = Criterion(requirement="All criteria together", name="whole")


async def whole_from(
    grader: Autograder, to_grade: str, criteria: list[Criterion], query: str | None
) -> Score:
    """A grader's one number for all criteria, with its reason."""
    try:
        answer = await grader.answer(to_grade, criteria, query, on_error="raise")
    except FAILURES as error:
        if is_stop(error):
            raise
        return Score.failed(error)
    report = answer if isinstance(answer, EvaluationReport) else grader.report_of(answer, criteria)
    if report.score is None or not report.scored:
        return Score.failed(JudgeError("it gave no number for the whole"))
    return Score(report.score, report.reason)


def whole_report(
    criteria: Sequence[Criterion],
    votes: Sequence[Vote],
    rule: Rule,
    *,
    scale: Scale | None,
    quorum: int,
    noun: str,
) -> EvaluationReport:
    """The report that these numbers come to; its reason says which they were, and how far apart."""
    score = outcome(_WHOLE, votes, rule, quorum=quorum, noun=noun)
    if score.value is None:
        raise JudgeError((score.error or "there is no number").removeprefix("JudgeError: "))
    weights = [criterion.weight for criterion in criteria if criterion.counts]
    totals = share_of(score.value, weights)
    if scale == "raw":
        totals = Totals(score.value, *stakes(weights))
    given = ", ".join(
        f"{vote.who} {vote.score.value:.4g}" for vote in votes if vote.score.value is not None
    )
    apart = "" if score.disagreement is None else f"; {score.disagreement:.4g} apart"
    return EvaluationReport(
        score=score.value if weights else None,
        raw_score=totals.raw if weights else None,
        gain=totals.gain,
        loss=totals.loss,
        asked=len(weights),
        answered=len(weights),
        scale=scale or "unit",
        reason=f"{given}{apart}; {score.reason}",
    )
