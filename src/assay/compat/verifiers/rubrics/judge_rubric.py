"""`verifiers.rubrics.judge_rubric`."""

from assay import JudgeRubric
from assay.presets.judge import DEFAULT_JUDGE_PROMPT

__all__ = ["DEFAULT_JUDGE_PROMPT", "JudgeRubric"]
