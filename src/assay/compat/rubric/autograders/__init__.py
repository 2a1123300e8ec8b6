"""The graders of `rubric`: ours."""

from assay.compat.rubric.autograders.base import Autograder
from assay.compat.rubric.autograders.per_criterion_grader import PerCriterionGrader
from assay.compat.rubric.autograders.per_criterion_one_shot_grader import PerCriterionOneShotGrader
from assay.compat.rubric.autograders.rubric_as_judge_grader import RubricAsJudgeGrader
from assay.compat.rubric.autograders.schemas import OneShotOutput, PerCriterionOutput, RubricAsJudgeOutput

__all__ = [
    "Autograder",
    "OneShotOutput",
    "PerCriterionGrader",
    "PerCriterionOneShotGrader",
    "PerCriterionOutput",
    "RubricAsJudgeGrader",
    "RubricAsJudgeOutput",
]
