"""The functions of `rubric.utils`."""

from typing import Any, NoReturn

from assay.errors import JudgeError
from assay.graders.length import compute_length_penalty, word_count
from assay.graders.schemas import OneShotOutput, PerCriterionOutput, RubricAsJudgeOutput
from assay.graders.sections import normalize_to_grade_input, parse_thinking_output

__all__ = [
    "compute_length_penalty",
    "default_oneshot_generate_fn",
    "default_per_criterion_generate_fn",
    "default_rubric_as_judge_generate_fn",
    "normalize_to_grade_input",
    "parse_thinking_output",
    "word_count",
]


async def default_per_criterion_generate_fn(
    system_prompt: str, user_prompt: str, **kwargs: Any
) -> PerCriterionOutput:
    """Stands where `rubric` asks its default model. There is none here, so it raises."""
    _refuse()


async def default_oneshot_generate_fn(
    system_prompt: str, user_prompt: str, **kwargs: Any
) -> OneShotOutput:
    """Stands where `rubric` asks its default model. There is none here, so it raises."""
    _refuse()


async def default_rubric_as_judge_generate_fn(
    system_prompt: str, user_prompt: str, **kwargs: Any
) -> RubricAsJudgeOutput:
    """Stands where `rubric` asks its default model. There is none here, so it raises."""
    _refuse()


def _refuse() -> NoReturn:
    raise JudgeError(
        "no default model is configured: pass the grader a generate_fn= of your own, a function "
        "of (system_prompt, user_prompt)"
    )
