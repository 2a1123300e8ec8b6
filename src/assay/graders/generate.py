"""The functions people hand a grader: two prompts in, one reply out. Async, or plain."""

from collections.abc import Awaitable, Mapping
from typing import Any, Protocol, TypeAlias

from assay.graders.schemas import (
    ChoiceOutput,
    OneShotChoiceOutput,
    OneShotOutput,
    PerCriterionOutput,
    RubricAsJudgeOutput,
)

# A mapping with the same keys does as well as the model.
Verdict: TypeAlias = PerCriterionOutput | ChoiceOutput | Mapping[str, Any]
Verdicts: TypeAlias = OneShotOutput | OneShotChoiceOutput | Mapping[str, Any]
Number: TypeAlias = RubricAsJudgeOutput | Mapping[str, Any]


class PerCriterionGenerateFn(Protocol):
    """Asks a model about one criterion. Called by keyword."""

    def __call__(self, *, system_prompt: str, user_prompt: str) -> Awaitable[Verdict] | Verdict: ...


class OneShotGenerateFn(Protocol):
    """Asks a model about all criteria at once."""

    def __call__(
        self, system_prompt: str, user_prompt: str, /
    ) -> Awaitable[Verdicts] | Verdicts: ...


class RubricAsJudgeGenerateFn(Protocol):
    """Asks a model for one number from 0 to 100."""

    def __call__(self, system_prompt: str, user_prompt: str, /) -> Awaitable[Number] | Number: ...
