"""`rubric.autograders.rubric_as_judge_grader`."""

from assay.graders import RubricAsJudgeGrader
from assay.graders.judge_input import system_prompt

__all__ = ["DEFAULT_SYSTEM_PROMPT", "RubricAsJudgeGrader"]

DEFAULT_SYSTEM_PROMPT = system_prompt(RubricAsJudgeGrader.prompt)
