"""The functions of `rubric.utils`."""

from typing import Any, TypeVar

from pydantic import BaseModel

from assay.errors import JudgeError
from assay.graders.length import compute_length_penalty, normalize_to_grade_input, parse_thinking_output, word_count
from assay.graders.verdicts import OneShotOutput, PerCriterionOutput, RubricAsJudgeOutput
from assay.models.model import Request
from assay.models.resolve import configured_model, model_by_key, what_to_set

Output = TypeVar("Output", bound=BaseModel)

__all__ = [
    "compute_length_penalty",
    "default_oneshot_generate_fn",
    "default_per_criterion_generate_fn",
    "default_rubric_as_judge_generate_fn",
    "normalize_to_grade_input",
    "parse_thinking_output",
    "word_count",
]


async def default_per_criterion_generate_fn(system_prompt: str, user_prompt: str, **kwargs: Any) -> PerCriterionOutput:
    """Asks the configured default model, else one of the provider whose key is set."""
    return await _asked(system_prompt, user_prompt, PerCriterionOutput)


async def default_oneshot_generate_fn(system_prompt: str, user_prompt: str, **kwargs: Any) -> OneShotOutput:
    """Asks the configured default model, else one of the provider whose key is set."""
    return await _asked(system_prompt, user_prompt, OneShotOutput)


async def default_rubric_as_judge_generate_fn(
    system_prompt: str, user_prompt: str, **kwargs: Any
) -> RubricAsJudgeOutput:
    """Asks the configured default model, else one of the provider whose key is set."""
    return await _asked(system_prompt, user_prompt, RubricAsJudgeOutput)


async def _asked(system_prompt: str, user_prompt: str, schema: type[Output]) -> Output:
    model = configured_model() or model_by_key()
    if model is None:
        raise JudgeError(f"no default model is configured: set GEMINI_API_KEY, as for rubric; or {what_to_set()}")
    return (await model(Request.of(system_prompt, user_prompt, schema=schema))).value
