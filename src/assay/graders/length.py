"""Lower the score of long answers, and split a response into thinking and output."""

import re
import warnings
from collections.abc import Callable, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Literal, Self, TypeAlias, cast

from pydantic import BaseModel, ConfigDict, Field, model_validator

from assay.aggregation import denormalise
from assay.report import EvaluationReport
from assay.types import SECTIONS, ThinkingOutputDict

if TYPE_CHECKING:
    from assay.graders.judge_input import JudgeInput

CountFn: TypeAlias = Callable[[str], int]  # returns the length of a text: words, tokens, characters
# Which part of a response is counted.
PenaltyType: TypeAlias = Literal["ALL", "OUTPUT_ONLY", "THINKING_ONLY"]


class LengthPenalty(BaseModel):
    """No penalty up to `free_budget`, `penalty_at_cap` from `max_cap` on, a power curve in between.

    >>> compute_length_penalty("a b c", LengthPenalty(free_budget=2, max_cap=4, exponent=1))
    0.25
    """

    model_config = ConfigDict(frozen=True, arbitrary_types_allowed=True)

    free_budget: int = Field(default=6000, ge=0)
    max_cap: int = 8000
    # In the unit of the score.
    penalty_at_cap: float = Field(default=0.5, ge=0, allow_inf_nan=False)
    # Above 1, the penalty grows slowly at first.
    exponent: float = Field(default=1.6, gt=0, allow_inf_nan=False)
    # None counts words.
    count_fn: CountFn | None = Field(default=None, exclude=True)
    penalty_type: PenaltyType = "ALL"

    @model_validator(mode="after")
    def _check_cap(self) -> Self:
        """Raise unless `max_cap` is above `free_budget`."""
        if self.max_cap <= self.free_budget:
            raise ValueError(
                f"max_cap {self.max_cap} is not above free_budget {self.free_budget}: "
                "leave room for the penalty to grow"
            )
        return self


def apply_length_penalty(
    report: EvaluationReport,
    judge_input: "JudgeInput",
    penalty: LengthPenalty | None,
    *,
    floor: bool,
) -> EvaluationReport:
    """Return the report with a lower score. With `floor`, the score is at least 0.

    Reasoning counts as thinking, whether the judge is shown it or not.
    """
    if penalty is None or report.score is None:
        return report
    sections = split_thinking(judge_input.assistant_text)
    if judge_input.hidden_thinking:
        sections["thinking"] = judge_input.hidden_thinking
    score = report.score - compute_length_penalty(sections, penalty)
    if floor:
        score = max(0.0, score)
    worth = denormalise(score, report.gain, report.loss, report.scale)
    return report.model_copy(update={"score": score, "worth": worth})


def compute_length_penalty(text: str | ThinkingOutputDict, config: LengthPenalty) -> float:
    """Return what to subtract from the score. A plain text counts as output."""
    if isinstance(text, str):
        text = {"output": text}
    thinking = text.get("thinking", "")
    output = text.get("output", "")
    match config.penalty_type:
        case "ALL":
            counted_text = f"{thinking} {output}"
        case "OUTPUT_ONLY":
            counted_text = output
        case "THINKING_ONLY":
            counted_text = thinking
    count_length = config.count_fn or word_count
    excess = count_length(counted_text) - config.free_budget
    share_of_cap = excess / (config.max_cap - config.free_budget)
    clamped_share = min(1.0, max(0.0, share_of_cap))
    return config.penalty_at_cap * clamped_share**config.exponent


def word_count(text: str) -> int:
    """Return the number of words, which are separated by white space."""
    return len(text.split())


def split_thinking(text: str) -> ThinkingOutputDict:
    """Return the first thinking section, and all the rest as output, without output tags.

    Unlike the output that `parse_thinking_output` returns, this one includes text outside the
    output section.
    """
    thoughts, rest = _cut_sections(text, "thinking", limit=1)
    output = re.sub("</?output>", " ", rest, flags=re.IGNORECASE)
    return {"thinking": "".join(thoughts).strip(), "output": output.strip()}


def parse_thinking_output(text: str) -> ThinkingOutputDict:
    """Return the first thinking and the first output section of a text.

    Without an output section, all text outside thinking sections is the output. A tag that is never
    closed is plain text.

    >>> parse_thinking_output("<thinking>2 and 2</thinking> 4")
    {'thinking': '2 and 2', 'output': '4'}
    """
    thoughts, rest = _cut_sections(text, "thinking")
    outputs, _ = _cut_sections(text, "output", limit=1)
    if not thoughts and not outputs:
        return {"thinking": "", "output": text}
    thinking = thoughts[0] if thoughts else ""
    output = outputs[0] if outputs else rest
    return {"thinking": thinking.strip(), "output": output.strip()}


def _cut_sections(text: str, name: str, *, limit: int | None = None) -> tuple[list[str], str]:
    """Return the contents of the sections with this tag, and the text without these sections.

    With `limit`, only the first `limit` sections are cut out.
    """
    # Search only up to the last closing tag. For each opening tag after it, the rest of the text
    # would be searched for a closing tag, which takes quadratic time.
    end = 0
    for closing_tag in re.finditer(f"</{name}>", text, re.IGNORECASE):
        end = closing_tag.end()
    section_pattern = re.compile(f"<{name}>(.*?)</{name}>", re.IGNORECASE | re.DOTALL)
    contents: list[str] = []
    rest = ""
    rest_start = 0
    for section in islice(section_pattern.finditer(text, 0, end), limit):
        contents.append(section[1])
        rest += text[rest_start : section.start()]
        rest_start = section.end()
    rest += text[rest_start:]
    return contents, rest


def normalize_to_grade_input(to_grade: str | ThinkingOutputDict) -> ThinkingOutputDict:
    """Return a text or mapping as thinking and output; a missing section is empty."""
    if isinstance(to_grade, str):
        return parse_thinking_output(to_grade)
    if not isinstance(to_grade, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ValueError(f"to_grade must be a string or dict, got {type(to_grade).__name__}")
    given_sections = cast("Mapping[str, object]", to_grade)
    unknown = sorted(set(given_sections) - set(SECTIONS))
    if unknown:
        warnings.warn(
            f"Unexpected keys in to_grade: {unknown}. Only 'thinking' and 'output' are read.",
            stacklevel=2,
        )
    sections: dict[str, str] = {}
    for name in SECTIONS:
        text = given_sections.get(name, "")
        if not isinstance(text, str):
            raise ValueError(f"{name!r} must be a string, got {type(text).__name__}")
        sections[name] = text
    return cast("ThinkingOutputDict", sections)
