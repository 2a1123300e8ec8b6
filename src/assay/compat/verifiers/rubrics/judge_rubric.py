"""`verifiers.rubrics.judge_rubric`."""

import assay
from assay.compat.verifiers.rubrics.rubric import Rubric
from assay.presets.judge_rubric import DEFAULT_JUDGE_PROMPT


class JudgeRubric(Rubric, assay.JudgeRubric):
    """Ours, under their name, with a reward that is always a number."""


__all__ = ["DEFAULT_JUDGE_PROMPT", "JudgeRubric"]
