"""Sections: the thinking and the output of a reply, read out of its tags in linear time."""

import re
import warnings
from collections.abc import Mapping
from typing import NamedTuple, cast

from assay.graders.tags import SECTIONS
from assay.graders.views import ThinkingOutputDict

_OPENING = {name: re.compile(f"<{name}>", re.IGNORECASE) for name in SECTIONS}
_CLOSING = {name: re.compile(f"</{name}>", re.IGNORECASE) for name in SECTIONS}
_OUTPUT_TAG = re.compile("</?output>", re.IGNORECASE)


def parse_thinking_output(text: str) -> ThinkingOutputDict:
    """The first section of each name; without an output section, all but the thinking is output.

    A tag that is never closed is plain text.

    >>> parse_thinking_output("<thinking>2 and 2</thinking> 4")
    {'thinking': '2 and 2', 'output': '4'}
    """
    spans = {name: _first(text, name) for name in SECTIONS}
    if spans["output"] is None and spans["thinking"] is None:
        return {"thinking": "", "output": text}
    thinking = _inside(text, spans["thinking"])
    output = _inside(text, spans["output"]) if spans["output"] else _without(text, "thinking")
    return {"thinking": thinking.strip(), "output": output.strip()}


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


def thinking_and_rest(text: str) -> ThinkingOutputDict:
    """The first thinking section, and everything else as output, sections or not.

    For counting: an empty output section, written by the model that is scored, hides nothing.

    >>> thinking_and_rest("<thinking>hm</thinking><output></output> and so on")
    {'thinking': 'hm', 'output': 'and so on'}
    """
    span = _first(text, "thinking")
    rest = text if span is None else text[: span.before] + text[span.after :]
    return {
        "thinking": _inside(text, span).strip(),
        "output": _OUTPUT_TAG.sub(" ", rest).strip(),
    }


class _Section(NamedTuple):
    """Where a section stands: its opening tag, its inside and its end."""

    before: int
    start: int
    end: int
    after: int


def _first(text: str, name: str, position: int = 0) -> _Section | None:
    opening = _OPENING[name].search(text, position)
    closing = _CLOSING[name].search(text, opening.end()) if opening else None
    if opening is None or closing is None:
        return None
    return _Section(opening.start(), opening.end(), closing.start(), closing.end())


def _inside(text: str, section: _Section | None) -> str:
    return "" if section is None else text[section.start : section.end]


def _without(text: str, name: str) -> str:
    """The text without any section of this name."""
    pieces: list[str] = []
    position = 0
    while (section := _first(text, name, position)) is not None:
        pieces.append(text[position : section.before])
        position = section.after
    return "".join([*pieces, text[position:]])
