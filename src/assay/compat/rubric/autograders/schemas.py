"""`rubric.autograders.schemas`."""

from assay.graders.schemas import (
    CriterionEvaluation,
    OneShotOutput,
    PerCriterionOutput,
    RubricAsJudgeOutput,
)

__all__ = ["CriterionEvaluation", "OneShotOutput", "PerCriterionOutput", "RubricAsJudgeOutput"]
