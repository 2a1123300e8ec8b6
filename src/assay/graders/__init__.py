"""Who answers the criteria that a model judges.

base           Autograder: subclass it for a judge of your own
per_criterion  one call a criterion; one_shot, one call for all; holistic, one number for all
schemas        what a model replies; generate, the functions that ask it
prompting      what it is asked; prompts/, in prose
"""

from assay.graders.base import Autograder
from assay.graders.generate import (
    OneShotGenerateFn,
    PerCriterionGenerateFn,
    RubricAsJudgeGenerateFn,
)
from assay.graders.holistic import RubricAsJudgeGrader
from assay.graders.length import LengthPenalty
from assay.graders.one_shot import PerCriterionOneShotGrader
from assay.graders.per_criterion import PerCriterionGrader
from assay.graders.schemas import (
    ChoiceEvaluation,
    ChoiceOutput,
    CriterionEvaluation,
    OneShotChoiceOutput,
    OneShotOutput,
    PerCriterionOutput,
    RubricAsJudgeOutput,
)
from assay.graders.views import ThinkingOutputDict, ToGrade

__all__ = [
    "Autograder",
    "ChoiceEvaluation",
    "ChoiceOutput",
    "CriterionEvaluation",
    "LengthPenalty",
    "OneShotChoiceOutput",
    "OneShotGenerateFn",
    "OneShotOutput",
    "PerCriterionGenerateFn",
    "PerCriterionGrader",
    "PerCriterionOneShotGrader",
    "PerCriterionOutput",
    "RubricAsJudgeGenerateFn",
    "RubricAsJudgeGrader",
    "RubricAsJudgeOutput",
    "ThinkingOutputDict",
    "ToGrade",
]
