"""What a judge may reply."""

import math
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from assay.graders import (
    ChoiceEvaluation,
    ChoiceOutput,
    CriterionEvaluation,
    OneShotOutput,
    PerCriterionOutput,
    RubricAsJudgeOutput,
)


@pytest.mark.parametrize(
    ("model", "verdict"),
    [
        (PerCriterionOutput, "criterion_status"),
        (ChoiceOutput, "choice"),
        (CriterionEvaluation, "criterion_status"),
        (ChoiceEvaluation, "choice"),
        (RubricAsJudgeOutput, "overall_score"),
    ],
)
def test_the_schema_asks_for_the_reason_first(model: type[BaseModel], verdict: str) -> None:
    """A verdict that is written before its reason makes the reason an excuse."""
    fields = list(model.model_json_schema()["properties"])
    assert fields.index("explanation") == fields.index(verdict) - 1


@pytest.mark.parametrize("status", ["MAYBE", "MET.", "", None, True])
def test_a_status_is_met_or_unmet(status: Any) -> None:
    """In whatever case; anything else is refused."""
    with pytest.raises(ValidationError):
        PerCriterionOutput(criterion_status=status, explanation="")


def test_a_list_of_verdicts_has_at_least_one() -> None:
    """An empty list is no reply."""
    with pytest.raises(ValidationError):
        OneShotOutput(criteria_evaluations=[])


@pytest.mark.parametrize(
    "place",
    [{"criterion_number": 3}, {"criterion_idx": 2}, {"criterion_number": 3, "criterion_idx": 2}],
)
def test_both_spellings_of_the_number(place: dict[str, int]) -> None:
    """Number 3, counted from 1, is index 2, counted from 0."""
    entry = CriterionEvaluation(**place, criterion_status="MET", explanation="")
    assert (entry.criterion_number, entry.criterion_idx) == (3, 2)


@pytest.mark.parametrize(
    "place", [{"criterion_number": 2, "criterion_idx": 2}, {}, {"criterion_idx": "two"}]
)
def test_a_number_that_cannot_be_told(place: dict[str, Any]) -> None:
    """Two numbers that differ, none, or a word are refused."""
    with pytest.raises(ValidationError):
        CriterionEvaluation(**place, criterion_status="MET", explanation="")


def test_the_schema_asks_for_one_number() -> None:
    """A provider is not asked for the index twice."""
    assert "criterion_idx" not in CriterionEvaluation.model_json_schema()["properties"]


@pytest.mark.parametrize("score", [math.nan, math.inf, -math.inf])
def test_an_overall_score_is_finite(score: float) -> None:
    """NaN would pass every clamp as a full score."""
    with pytest.raises(ValidationError):
        RubricAsJudgeOutput(overall_score=score, explanation="")
