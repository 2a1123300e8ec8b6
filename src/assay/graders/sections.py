"""Sections: the thinking and the output of a reply, read out of its tags in linear time."""

import re
from collections.abc import Mapping
from typing import cast

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
    thinking, rest = _cut(text, "thinking")
    output, _ = _cut(text, "output")
    if output is None:
        while thinking is not None and (section := _cut(rest, "thinking"))[0] is not None:
            rest = section[1]
        output = rest if thinking is not None else None
    return {
        "thinking": "" if thinking is None else thinking.strip(),
        "output": text if output is None else output.strip(),
    }


def normalize_to_grade_input(to_grade: str | ThinkingOutputDict) -> ThinkingOutputDict:
    """A text or mapping as thinking and output; either is empty when it is not there."""
    if isinstance(to_grade, str):
        return parse_thinking_output(to_grade)
    if not isinstance(to_grade, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ValueError(f"to_grade must be a string or dict, got {type(to_grade).__name__}")
    parts = cast("Mapping[str, object]", to_grade)
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
    thinking, rest = _cut(text, "thinking")
    return {"thinking": (thinking or "").strip(), "output": _OUTPUT_TAG.sub(" ", rest).strip()}


def _cut(text: str, name: str) -> tuple[str | None, str]:
    """The inside of the first section of this name, None when there is none; and the rest."""
    opening = _OPENING[name].search(text)
    closing = _CLOSING[name].search(text, opening.end()) if opening else None
    if opening is None or closing is None:
        return None, text
    return text[opening.end() : closing.start()], text[: opening.start()] + text[closing.end() :]
