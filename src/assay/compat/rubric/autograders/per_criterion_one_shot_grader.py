"""`rubric.autograders.per_criterion_one_shot_grader`."""

from assay.graders import PerCriterionOneShotGrader
from assay.graders.judge_input import system_prompt

__all__ = ["DEFAULT_SYSTEM_PROMPT", "PerCriterionOneShotGrader"]

DEFAULT_SYSTEM_PROMPT = system_prompt(PerCriterionOneShotGrader.prompt)
