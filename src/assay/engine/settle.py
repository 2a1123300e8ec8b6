"""Settle what checks and judges return into answers: finite numbers, or `Score`s that say more."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, cast

from assay.criterion import Criterion, Score
from assay.engine.answers import Column
from assay.graders.verdicts import verdict_score
from assay.report import EvaluationReport

_PLAIN = frozenset({float, int, bool})


def is_plain(values: Sequence[Any]) -> bool:
    """Whether all are finite numbers, as nearly every column is."""
    return _PLAIN.issuperset(map(type, values)) and math.isfinite(sum(values))


def as_answer(criterion: Criterion, value: Any) -> float | Score:
    """A check's result as an answer; what is no finite number is an error that says so."""
    if isinstance(value, Score):
        return finite(criterion, value)
    if isinstance(value, str) and criterion.value_of(value) is not None:
        return verdict_score(criterion, value)
    if isinstance(value, bool):
        return value
    try:
        number = (
            float(value) if hasattr(value, "__float__") or hasattr(value, "__index__") else None
        )
    except Exception as error:  # noqa: BLE001 - a foreign number type may raise anything
        return Score.failed(error)
    if number is None or not math.isfinite(number):
        return Score.failed(f"ValueError: the check returned {value!r:.200}, not a finite number")
    return number


def finite(criterion: Criterion, score: Score) -> Score:
    """A score whose value is a finite number; otherwise an error that says what it is instead."""
    value: Any = score.value
    if value is None:
        if score.error is None and score.applies:
            return score._replace(error="ValueError: no value and no reason why")
        return score
    if isinstance(value, bool):
        verdict = score.verdict or criterion.choices[-1 if value else 0]
        return score._replace(value=float(value), verdict=verdict)
    if isinstance(value, int | float) and math.isfinite(value):
        return score if type(value) is float else score._replace(value=float(value))
    return Score.failed(
        f"ValueError: a score of {value!r:.200} is not a finite number", score.reason
    )


def one_a_rollout(values: Any, size: int) -> Column:
    if isinstance(values, (str, bytes, Mapping)) or not hasattr(values, "__iter__"):
        raise ValueError(
            f"the group function returned {values!r:.200}: return a list of {size} numbers"
        )
    column = list(cast("Sequence[Any]", values))
    if len(column) != size:
        raise ValueError(
            f"the group function returned {len(column)} numbers for {size} rollouts: return one each"
        )
    return column


def score_of_report(report: EvaluationReport) -> Score:
    lines = tuple(report.lines)
    if not report.scored or report.score is None:
        errors = report.errors
        reason = "; ".join(f"{name}: {error}" for name, error in errors.items())
        return Score(error=f"GradingError: {reason or 'nothing in it counts'}", lines=lines)
    return Score(report.score, lines=lines)
