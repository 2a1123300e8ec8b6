"""Find the reasoning in a text, which a model writes before it answers.

Reasoning stands between markers, such as `<think>` and `</think>`, which depend on the chat
template of the model. `assay.messages` reads the reasoning that arrives in fields of messages.
"""

import re
from contextvars import ContextVar
from typing import Final, Literal, NamedTuple, TypeAlias, get_args

from assay.errors import RubricError
from assay.wording import format_value

# Whether judges and text checks read reasoning.
Thinking: TypeAlias = Literal["hidden", "shown"]

# What the rubric that is scoring says about reasoning; None if it says nothing. Reasoning is then
# hidden, except from a judge that is given the two sections `thinking` and `output`.
THINKING: ContextVar[Thinking | None] = ContextVar("thinking", default=None)


def read_thinking(value: object) -> Thinking:
    """Return `hidden` or `shown`; raise `RubricError` for anything else."""
    for choice in get_args(Thinking):
        if value == choice:
            return choice
    raise RubricError(
        f"thinking is {format_value(value)}: give 'hidden' to keep reasoning from judges and "
        "text checks, or 'shown'"
    )


class ReasoningSection(NamedTuple):
    """One stretch of reasoning in a text, with its markers."""

    start: int
    end: int
    # The content is what stands between the markers.
    content_start: int
    content_end: int
    is_closed: bool  # False if the text ends before the closing marker


class SplitText(NamedTuple):
    """A text, divided into its reasoning and the rest."""

    reasoning: str  # the sections, stripped, one per line; empty if there is none
    # Everything else. It is stripped if anything was taken out, and unchanged otherwise.
    answer: str
    sections: tuple[ReasoningSection, ...] = ()


# The names of tags such as `<think>` and `</think>`, in upper or lower case.
REASONING_TAGS: Final = ("think", "thinking", "thought", "reasoning", "seed:think")

# The opening and closing markers of chat templates.
_TEMPLATE_MARKERS: Final = (
    ("[THINK]", "[/THINK]"),  # Magistral
    ("◁think▷", "◁/think▷"),  # Kimi
    ("<|START_THINKING|>", "<|END_THINKING|>"),  # Command A
    ("<|begin_of_thought|>", "<|end_of_thought|>"),  # OpenThinker
    ("<|inner_prefix|>", "<|inner_suffix|>"),  # Apertus
    ("<|channel>thought", "<channel|>"),  # Gemma
    ("<|channel|>analysis", "<|channel|>final"),  # gpt-oss
)
_GPT_OSS: Final = "<|channel|>analysis"
# In the format of gpt-oss, this ends any message, but only those of the channel `analysis` are
# reasoning.
_GPT_OSS_END: Final = "<|end|>"

# Markers that belong to the template and not to the answer. They are removed with the reasoning.
_ANSWER_MARKERS: Final = (
    "<|START_RESPONSE|>",
    "<|END_RESPONSE|>",
    "<|begin_of_solution|>",
    "<|end_of_solution|>",
    "<|return|>",
)


class _Marker(NamedTuple):
    kind: Literal["open", "close", "end", "answer"]
    family: str = ""  # the opening marker of the section that it opens or closes


def _list_markers() -> dict[str, _Marker]:
    """Return all markers by their text in lower case."""
    pairs = [(f"<{tag}>", f"</{tag}>") for tag in REASONING_TAGS]
    pairs.extend(_TEMPLATE_MARKERS)
    markers: dict[str, _Marker] = {}
    for opening, closing in pairs:
        markers[opening.lower()] = _Marker("open", opening)
        markers[closing.lower()] = _Marker("close", opening)
    # Each message of gpt-oss may have a header around the name of its channel.
    for name in ("<|channel|>analysis", "<|channel|>final"):
        for header in (f"<|start|>assistant{name}", name):
            markers[header] = markers[name]
            markers[f"{header}<|message|>"] = markers[name]
    markers[_GPT_OSS_END] = _Marker("end", _GPT_OSS)
    for text in _ANSWER_MARKERS:
        markers[text.lower()] = _Marker("answer")
    return markers


_MARKERS: Final = _list_markers()


def _compile(texts: list[str]) -> re.Pattern[str]:
    # The longest first, since one marker may begin with another.
    longest_first = sorted(texts, key=len, reverse=True)
    # ASCII: otherwise a long s would match an s, and would not be found in `_MARKERS`.
    return re.compile("|".join(map(re.escape, longest_first)), re.IGNORECASE | re.ASCII)


_ANSWER_MARKER: Final = _compile(
    [text for text, marker in _MARKERS.items() if marker.kind == "answer"]
)
# Nearly all markers begin with the same character. A search for these alone is much faster.
_ANGLE_MARKER: Final = _compile([text for text in _MARKERS if text.startswith("<")])
_ANY_MARKER: Final = _compile(list(_MARKERS))

# How a response of gpt-oss begins, and how its answer begins, if the special tokens were removed
# when it was decoded.
_BARE_ANALYSIS: Final = "analysis"
_BARE_FINAL: Final = "assistantfinal"


def may_have_reasoning(text: str) -> bool:
    """Return False for nearly every text without reasoning, in much less time than a search."""
    return (
        "<" in text
        or "THINK]" in text
        or "think▷" in text
        or (text.startswith(_BARE_ANALYSIS) and _BARE_FINAL in text)
    )


def split_reasoning(text: str) -> SplitText:
    """Divide a text into its reasoning and the rest, in linear time.

    A section that is not closed extends to the end of the text. A closing marker without an opening
    one means that the chat template had opened the section: everything before it is reasoning.

    >>> split_reasoning("<think>17 + 26 = 43</think> I cannot say.")[:2]
    ('17 + 26 = 43', 'I cannot say.')
    >>> split_reasoning("17 + 26 = 43</think> It is 43. <think>Or 42?")[:2]
    ('17 + 26 = 43\\nOr 42?', 'It is 43.')
    """
    if not may_have_reasoning(text):
        return SplitText("", text)
    sections, answer_markers = _find_sections(text)
    if not sections and not answer_markers:
        return SplitText("", text)
    removed = [(section.start, section.end) for section in sections]
    removed.extend(answer_markers)
    kept: list[str] = []
    position = 0
    for start, end in sorted(removed):
        if start >= position:
            kept.append(text[position:start])
        position = max(position, end)
    kept.append(text[position:])
    contents = [text[section.content_start : section.content_end].strip() for section in sections]
    reasoning = "\n".join(content for content in contents if content)
    return SplitText(reasoning, "".join(kept).strip(), tuple(sections))


def remove_reasoning(text: str) -> str:
    """Return a text without its reasoning; unchanged if it has none.

    >>> remove_reasoning("<|channel|>analysis<|message|>2 + 2<|end|><|start|>assistant<|channel|>final<|message|>4")
    '4'
    """
    return split_reasoning(text).answer


def remove_answer_markers(text: str) -> str:
    """Return a text without the markers that a chat template puts around an answer."""
    if "<|" not in text:
        return text
    return _ANSWER_MARKER.sub("", text)


def _find_sections(text: str) -> tuple[list[ReasoningSection], list[tuple[int, int]]]:
    """Return the sections of reasoning in order, and the spans of markers around the answer."""
    if text.startswith(_BARE_ANALYSIS):
        final = text.rfind(_BARE_FINAL)
        if final >= 0:
            end = final + len(_BARE_FINAL)
            return [ReasoningSection(0, end, len(_BARE_ANALYSIS), final, True)], []
    has_only_angles = "THINK]" not in text and "think▷" not in text
    pattern = _ANGLE_MARKER if has_only_angles else _ANY_MARKER
    sections: list[ReasoningSection] = []
    answer_markers: list[tuple[int, int]] = []
    open_family = ""
    start = 0
    content_start = 0
    for match in pattern.finditer(text):
        kind, family = _MARKERS[match[0].lower()]
        if kind == "open":
            if not open_family:
                open_family = family
                start, content_start = match.span()
        elif kind == "answer":
            answer_markers.append(match.span())
        elif family == open_family:
            section = ReasoningSection(start, match.end(), content_start, match.start(), True)
            sections.append(section)
            open_family = ""
        elif kind == "close" and not open_family:
            if family == _GPT_OSS and sections:
                # The header of the answer, after reasoning that `<|end|>` has closed.
                sections[-1] = sections[-1]._replace(end=match.end())
            else:
                sections = [ReasoningSection(0, match.end(), 0, match.start(), True)]
    if open_family:
        sections.append(ReasoningSection(start, len(text), content_start, len(text), False))
    return sections, answer_markers
