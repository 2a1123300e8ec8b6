"""Verdicts: what a judge said, read as a `Score`. Only a verdict on offer counts."""

import math
from typing import Any, cast

from assay.criterion import BINARY, Criterion
from assay.errors import JudgeError
from assay.lines import CriterionReport
from assay.score import Score

_NOT_APPLICABLE = ("n/a", "na", "not applicable")


def verdict_score(criterion: Criterion, verdict: str, reason: str = "") -> Score:
    """The score of a verdict; an error when it was not on offer."""
    value = criterion.values.get(verdict)
    if value is not None:
        return Score(value, reason, verdict)
    folded = verdict.strip().casefold()
    if criterion.allow_na and folded in _NOT_APPLICABLE:
        return Score.not_applicable(reason)
    for choice in criterion.choices:
        if choice.strip().casefold() == folded:
            return Score(criterion.value_of(choice), reason, choice)
    offered = ", ".join([*criterion.choices, *(["N/A"] if criterion.allow_na else [])])
    error = JudgeError(f"the verdict {verdict[:80]!r} was not on offer ({offered})")
    return Score.failed(error, reason)


def score_of(criterion: Criterion, answer: object) -> Score:
    """One answer of a judge as a `Score`: a verdict on offer, a number, a score or a report line."""
    if isinstance(answer, Score):
        return answer if answer.value is None else _finite(answer)
    if isinstance(answer, str):
        return verdict_score(criterion, answer)
    if isinstance(answer, CriterionReport):
        if answer.value is None and answer.error is None and answer.verdict is not None:
            return verdict_score(criterion, answer.verdict, answer.reason)
        return score_of(criterion, Score(answer.value, answer.reason, answer.verdict, answer.error))
    if isinstance(answer, bool):
        return verdict_score(criterion, criterion.choices[-1 if answer else 0])
    if isinstance(answer, int | float):
        return _finite(Score(answer))
    return Score.failed(JudgeError(f"judge() answered {answer!r:.200}, which is no verdict"))


def _finite(score: Score) -> Score:
    value = cast("Any", score.value)
    if isinstance(value, int | float) and math.isfinite(value):
        return score._replace(value=float(value))
    return Score.failed(JudgeError(f"a score of {value!r:.200} is no finite number"), score.reason)


def with_value(line: CriterionReport) -> CriterionReport:
    """A line that gives MET or UNMET alone, with what that is worth; any other as it is."""
    if line.value is not None or line.error is not None or line.verdict not in BINARY:
        return line
    met = line.verdict == BINARY[-1]
    return line.model_copy(update={"value": float(met), "passed": met is (line.weight >= 0)})
