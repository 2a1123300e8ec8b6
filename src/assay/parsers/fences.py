"""Fenced code blocks of Markdown, found in one pass."""

import re
from collections.abc import Iterator
from typing import NamedTuple

_FENCE_LINE = re.compile(r"^([ \t]*+)(`{3,}+|~{3,}+)([^\n]*+)(?:\n|\Z)", re.MULTILINE)


class Fence(NamedTuple):
    """One fenced block."""

    language: str
    """The first word after the opening fence, in lower case; empty when there is none."""
    content: str
    """What is inside, without its last line break and without the indent of the fence."""


class _Opening(NamedTuple):
    indent: str
    marks: str
    info: str
    start: int

    def is_closed_by(self, marks: str, rest: str) -> bool:
        return marks[0] == self.marks[0] and len(marks) >= len(self.marks) and not rest.strip()

    def block(self, text: str, end: int) -> Fence:
        content = text[self.start : end].removesuffix("\n").removesuffix("\r")
        if self.indent:
            content = re.sub(f"^[ \t]{{1,{len(self.indent)}}}", "", content, flags=re.MULTILINE)
        return Fence((self.info.split() or [""])[0].lower(), content)


def fences(text: str) -> Iterator[Fence]:
    """The fenced blocks of a text, in order.

    A fence may be longer than three marks, so that it can hold shorter ones. The last may lack its
    closing fence and then runs to the end, if anything is in it.

    >>> list(fences("```python\\nprint(1)\\n```"))
    [Fence(language='python', content='print(1)')]
    """
    opening: _Opening | None = None
    for line in _FENCE_LINE.finditer(text):
        indent, marks, rest = line.groups()
        if opening is None:
            if marks[0] == "~" or "`" not in rest:
                opening = _Opening(indent, marks, rest, line.end())
        elif opening.is_closed_by(marks, rest):
            yield opening.block(text, line.start())
            opening = None
    if opening is not None and text[opening.start :].strip():
        yield opening.block(text, len(text))
