"""`rubric.autograders.per_criterion_grader`."""

from assay.graders import PerCriterionGrader
from assay.graders.judge_input import system_prompt

__all__ = ["DEFAULT_SYSTEM_PROMPT", "PerCriterionGrader"]

DEFAULT_SYSTEM_PROMPT = system_prompt(PerCriterionGrader.prompt)
