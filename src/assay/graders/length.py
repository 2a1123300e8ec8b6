"""Take a penalty off the score of a long answer."""

from collections.abc import Callable
from typing import Literal, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, model_validator

from assay.aggregation import sum_behind
from assay.graders.judge_input import ThinkingOutputDict, thinking_and_rest
from assay.report import EvaluationReport

CountFn: TypeAlias = Callable[[str], int]
"""How long a text is: words, tokens, characters."""

PenaltyType: TypeAlias = Literal["ALL", "OUTPUT_ONLY", "THINKING_ONLY"]
"""Which part of an answer is counted."""


def word_count(text: str) -> int:
    """The number of words, as blanks divide them.

    >>> word_count("to be  or not")
    4
    """
    return len(text.split())


class LengthPenalty(BaseModel):
    """Nothing up to `free_budget`, `penalty_at_cap` from `max_cap` on, a power curve in between.

    >>> compute_length_penalty("a b c", LengthPenalty(free_budget=2, max_cap=4, exponent=1))
    0.25
    """

    model_config = ConfigDict(frozen=True, arbitrary_types_allowed=True)

    free_budget: int = Field(default=6000, ge=0)
    max_cap: int = 8000
    penalty_at_cap: float = Field(default=0.5, ge=0, allow_inf_nan=False)
    """Taken off the score: a share of 1 for a normalised score, points for a raw one."""
    exponent: float = Field(default=1.6, gt=0, allow_inf_nan=False)
    """Above 1 the penalty starts gently."""
    count_fn: CountFn | None = Field(default=None, exclude=True)
    """How to count; words when None."""
    penalty_type: PenaltyType = "ALL"

    @model_validator(mode="after")
    def _cap_above_budget(self) -> Self:
        if self.max_cap <= self.free_budget:
            raise ValueError(
                f"max_cap {self.max_cap} is not above free_budget {self.free_budget}: "
                "leave room for the penalty to grow"
            )
        return self


def compute_length_penalty(text: str | ThinkingOutputDict, config: LengthPenalty) -> float:
    """What to take off the score. A plain text counts as output."""
    parts: ThinkingOutputDict = {"output": text} if isinstance(text, str) else text
    thinking, output = parts.get("thinking", ""), parts.get("output", "")
    counted = {"ALL": f"{thinking} {output}", "OUTPUT_ONLY": output, "THINKING_ONLY": thinking}
    count = (config.count_fn or word_count)(counted[config.penalty_type])
    over = (count - config.free_budget) / (config.max_cap - config.free_budget)
    return config.penalty_at_cap * min(1.0, max(0.0, over)) ** config.exponent


def penalised(report: EvaluationReport, text: str, penalty: LengthPenalty | None, *, floor: bool) -> EvaluationReport:
    """The report with the penalty taken off its score, not below 0 if `floor`; sums stay."""
    if penalty is None or report.score is None:
        return report
    score = report.score - compute_length_penalty(thinking_and_rest(text), penalty)
    score = max(0.0, score) if floor else score
    worth = sum_behind(score, report.gain, report.loss, report.scale)
    return report.model_copy(update={"score": score, "worth": worth})
