"""`rubric.autograders.schemas`."""

from assay.graders.verdicts import CriterionEvaluation, OneShotOutput, PerCriterionOutput, RubricAsJudgeOutput

__all__ = ["CriterionEvaluation", "OneShotOutput", "PerCriterionOutput", "RubricAsJudgeOutput"]
