"""Settle what checks and judges return into answers: finite numbers, or `Score`s that say more."""

import math
from collections.abc import Mapping, Sequence, Set
from typing import Any, cast

from assay.criterion import LARGEST, Criterion
from assay.engine.answers import Column
from assay.graders.verdicts import finite, number_of, verdict_score
from assay.report import EvaluationReport, Score
from assay.wording import short_repr

_PLAIN = frozenset({float, int, bool})
_ANSWERS = _PLAIN | {Score}
_UNORDERED = (str, bytes, Mapping, Set)


def is_plain(values: Sequence[Any]) -> bool:
    """Whether all are numbers of a sensible size, as nearly every column is."""
    return _PLAIN.issuperset(map(type, values)) and _in_bounds(values)


def is_answered(values: Sequence[Any]) -> bool:
    """Whether all are numbers or scores, so that nothing has to be awaited."""
    return _ANSWERS.issuperset(map(type, values))


def all_floats(values: Sequence[Any]) -> bool:
    """Whether all are plain and none is a bool or an int."""
    return set(map(type, values)) == {float} and _in_bounds(values)


def _in_bounds(values: Sequence[Any]) -> bool:
    try:
        # The cheapest look at all of them at once: NaN stays NaN, infinity stays infinity.
        return math.hypot(*values) <= LARGEST
    except OverflowError:
        return False


def as_answer(criterion: Criterion, value: Any) -> float | Score:
    """A check's result as an answer; what is no finite number is an error that says so."""
    if isinstance(value, Score):
        return finite(criterion, value)
    if isinstance(value, str) and criterion.value_of(value) is not None:
        return verdict_score(criterion, value)
    if isinstance(value, bool):
        return value
    number = number_of(value)
    if number is None:
        return Score.failed(
            f"ValueError: the check returned {short_repr(value)}, not a finite number"
        )
    return number


def one_a_rollout(values: Any, size: int) -> Column:
    if isinstance(values, _UNORDERED) or not hasattr(values, "__iter__"):
        raise ValueError(
            f"the group function returned {short_repr(cast('object', values))}: return a list of {size} numbers"
        )
    column = list(cast("Sequence[Any]", values))
    if len(column) != size:
        raise ValueError(
            f"the group function returned {len(column)} numbers for {size} rollouts: return one each"
        )
    return column


def score_of_report(report: EvaluationReport) -> Score:
    lines = tuple(report.lines)
    if not report.applies and any(line.counted for line in lines):
        reason = "no counted criterion of it applies to this rollout"
        return Score.not_applicable(reason)._replace(lines=lines)
    if report.score is None:
        errors = report.errors
        reason = "; ".join(f"{name}: {error}" for name, error in errors.items())
        return Score(error=f"GradingError: {reason or 'nothing in it counts'}", lines=lines)
    return Score(report.score, lines=lines)
