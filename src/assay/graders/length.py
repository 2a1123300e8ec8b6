"""Take a penalty off the score of a long answer, and tell its thinking from its output."""

import re
import warnings
from collections.abc import Callable, Mapping
from typing import Literal, Self, TypeAlias, cast

from pydantic import BaseModel, ConfigDict, Field, model_validator

from assay.aggregation import denormalise
from assay.graders.judge_input import SECTIONS, ThinkingOutputDict
from assay.report import EvaluationReport

CountFn: TypeAlias = Callable[[str], int]  # how long a text is: words, tokens, characters
PenaltyType: TypeAlias = Literal[
    "ALL", "OUTPUT_ONLY", "THINKING_ONLY"
]  # which part of an answer is counted


def word_count(text: str) -> int:
    """The number of words, as blanks divide them."""
    return len(text.split())


class LengthPenalty(BaseModel):
    """Nothing up to `free_budget`, `penalty_at_cap` from `max_cap` on, a power curve in between.

    >>> compute_length_penalty("a b c", LengthPenalty(free_budget=2, max_cap=4, exponent=1))
    0.25
    """

    model_config = ConfigDict(frozen=True, arbitrary_types_allowed=True)

    free_budget: int = Field(default=6000, ge=0)
    max_cap: int = 8000
    penalty_at_cap: float = Field(
        default=0.5, ge=0, allow_inf_nan=False
    )  # in the unit of the score
    exponent: float = Field(
        default=1.6, gt=0, allow_inf_nan=False
    )  # above 1 the penalty starts gently
    count_fn: CountFn | None = Field(default=None, exclude=True)  # how to count; words when None
    penalty_type: PenaltyType = "ALL"

    @model_validator(mode="after")
    def _cap_above_budget(self) -> Self:
        if self.max_cap <= self.free_budget:
            given = f"max_cap {self.max_cap} is not above free_budget {self.free_budget}"
            raise ValueError(f"{given}: leave room for the penalty to grow")
        return self


def compute_length_penalty(text: str | ThinkingOutputDict, config: LengthPenalty) -> float:
    """What to take off the score. A plain text counts as output."""
    parts: ThinkingOutputDict = {"output": text} if isinstance(text, str) else text
    thinking, output = parts.get("thinking", ""), parts.get("output", "")
    counted = {"ALL": f"{thinking} {output}", "OUTPUT_ONLY": output, "THINKING_ONLY": thinking}
    count = (config.count_fn or word_count)(counted[config.penalty_type])
    over = (count - config.free_budget) / (config.max_cap - config.free_budget)
    return config.penalty_at_cap * min(1.0, max(0.0, over)) ** config.exponent


def penalised(
    report: EvaluationReport, text: str, penalty: LengthPenalty | None, *, floor: bool
) -> EvaluationReport:
    """The report with the penalty taken off its score, not below 0 if `floor`; sums stay."""
    if penalty is None or report.score is None:
        return report
    score = report.score - compute_length_penalty(thinking_and_rest(text), penalty)
    score = max(0.0, score) if floor else score
    worth = denormalise(score, report.gain, report.loss, report.scale)
    return report.model_copy(update={"score": score, "worth": worth})


def _split(text: str, name: str, most: int = 0) -> tuple[list[str], str]:
    """What stands in the sections of this name, or in the first few, and the text without them."""
    # Only up to the last closing tag, or each of a million openings would be looked after to the end of the text.
    end = max(
        (closing.end() for closing in re.finditer(f"</{name}>", text, re.IGNORECASE)), default=0
    )
    section = re.compile(f"<{name}>(.*?)</{name}>", re.IGNORECASE | re.DOTALL)
    return section.findall(text[:end])[: most or None], section.sub("", text[:end], most) + text[
        end:
    ]


def parse_thinking_output(text: str) -> ThinkingOutputDict:
    """The first section of each name; without an output section, all but the thinking is output.

    A tag that is never closed is plain text.

    >>> parse_thinking_output("<thinking>2 and 2</thinking> 4")
    {'thinking': '2 and 2', 'output': '4'}
    """
    (thoughts, rest), (outputs, _) = _split(text, "thinking"), _split(text, "output", 1)
    if not thoughts and not outputs:
        return {"thinking": "", "output": text}
    return {"thinking": "".join(thoughts[:1]).strip(), "output": (outputs or [rest])[0].strip()}


def thinking_and_rest(text: str) -> ThinkingOutputDict:
    """The first thinking section, and everything else as output: an empty output section hides nothing from a count."""
    thoughts, rest = _split(text, "thinking", 1)
    rest = re.sub("</?output>", " ", rest, flags=re.IGNORECASE)
    return {"thinking": "".join(thoughts).strip(), "output": rest.strip()}


def normalize_to_grade_input(to_grade: str | ThinkingOutputDict) -> ThinkingOutputDict:
    """A text or mapping as thinking and output; either is empty when it is not there."""
    if isinstance(to_grade, str):
        return parse_thinking_output(to_grade)
    if not isinstance(to_grade, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ValueError(f"to_grade must be a string or dict, got {type(to_grade).__name__}")
    parts = cast("Mapping[str, object]", to_grade)
    if unknown := sorted(set(parts) - set(SECTIONS)):
        warnings.warn(
            f"Unexpected keys in to_grade: {unknown}. Only 'thinking' and 'output' are read.",
            stacklevel=2,
        )
    texts = {name: parts.get(name, "") for name in SECTIONS}
    for name, part in texts.items():
        if not isinstance(part, str):
            raise ValueError(f"{name!r} must be a string, got {type(part).__name__}")
    return cast("ThinkingOutputDict", texts)
