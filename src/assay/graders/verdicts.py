"""Verdicts: what a judge said, read as a `Score`. Only a verdict on offer counts."""

from typing import Any

from assay.criterion import BINARY, LARGEST, Criterion
from assay.errors import JudgeError
from assay.report import CriterionReport, Score
from assay.wording import short_repr

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
        return finite(criterion, answer)
    if isinstance(answer, str):
        return verdict_score(criterion, answer)
    if isinstance(answer, CriterionReport):
        if answer.value is None and answer.error is None and answer.verdict is not None:
            return verdict_score(criterion, answer.verdict, answer.reason)
        return finite(
            criterion,
            Score(
                answer.value,
                answer.reason,
                answer.verdict,
                answer.error,
                answer.lines,
                answer.disagreement,
            ),
        )
    if isinstance(answer, bool):
        return verdict_score(criterion, criterion.choices[-1 if answer else 0])
    if isinstance(answer, int | float):
        return finite(criterion, Score(answer))
    return Score.failed(JudgeError(f"judge() answered {answer!r:.200}, which is no verdict"))


def finite(criterion: Criterion, score: Score) -> Score:
    """A score whose value is a finite number; otherwise an error that says what it is instead."""
    value: Any = score.value
    if score.error is not None or not score.applies:
        return score._replace(value=None)
    if type(value) is float and abs(value) <= LARGEST:
        return score
    if value is None:
        return score._replace(error="ValueError: no value and no reason why")
    if isinstance(value, bool):
        verdict = score.verdict or criterion.choices[-1 if value else 0]
        return Score(float(value), score.reason, verdict, None, score.lines, score.disagreement)
    number = number_of(value)
    if number is None:
        error = f"ValueError: a score of {short_repr(value)} is not a finite number"
        return Score.failed(error, score.reason)
    return score._replace(value=number)


def number_of(value: Any) -> float | None:
    """A number of any make as a float; None when it is none, or too large to add up."""
    if isinstance(value, complex) or not (
        hasattr(value, "__float__") or hasattr(value, "__index__")
    ):
        return None
    try:
        number = float(value)
    except Exception:  # noqa: BLE001 - a foreign number type may raise anything
        return None
    return number if abs(number) <= LARGEST else None


def with_value(line: CriterionReport) -> CriterionReport:
    """A line that gives MET or UNMET alone, with what that is worth; any other as it is."""
    if line.value is not None or line.error is not None or line.verdict not in BINARY:
        return line
    met = line.verdict == BINARY[-1]
    return line.model_copy(update={"value": float(met), "passed": met is (line.weight >= 0)})
