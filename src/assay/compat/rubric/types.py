"""The records of `rubric`: ours, and a criterion of two fields."""

from typing import TypeAlias

from pydantic import ConfigDict, Field

import assay
from assay.graders.judge_input import ThinkingOutputDict
from assay.graders.length import CountFn, LengthPenalty, PenaltyType
from assay.graders.verdicts import OneShotGenerateFn, PerCriterionGenerateFn, RubricAsJudgeGenerateFn
from assay.report import CriterionReport, EvaluationReport

__all__ = [
    "CountFn",
    "Criterion",
    "CriterionReport",
    "EvaluationReport",
    "LengthPenalty",
    "OneShotGenerateFn",
    "PenaltyType",
    "PerCriterionGenerateFn",
    "RubricAsJudgeGenerateFn",
    "ThinkingOutputDict",
    "ToGradeInput",
]

ToGradeInput: TypeAlias = str | ThinkingOutputDict


class Criterion(assay.Criterion):
    """A requirement and its weight, both of which must be given. Unknown fields are dropped."""

    model_config = ConfigDict(extra="ignore")

    requirement: str = Field()  # pyright: ignore[reportIncompatibleVariableOverride]
    weight: float = Field(allow_inf_nan=False)
