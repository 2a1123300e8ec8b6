"""Where tagged fields stand in a text. Found by plain searches, so hostile text costs linear time.

A field runs from an opening tag to the next closing tag with no other opening tag of its name in
between: `<a>x<a>y</a>` holds one `a`, which is `y`.
"""

from collections.abc import Iterator
from typing import NamedTuple


class Span(NamedTuple):
    """The content of one field: `text[start:end]`, without its tags."""

    start: int
    end: int


def last_span(text: str, tag: str) -> Span | None:
    """The last field of this name, or None.

    >>> last_span("<a>1</a> <a>2</a> <a>3", "a")
    Span(start=12, end=13)
    """
    before = text.rfind(f"</{tag}>")
    opening = text.rfind(f"<{tag}>", 0, max(before, 0))
    if opening < 0:
        return None
    start = opening + len(tag) + 2
    return Span(start, text.find(f"</{tag}>", start))


def first_span(text: str, tag: str) -> Span | None:
    """The first field of this name, or None."""
    return next(every_span(text, tag), None)


def every_span(text: str, tag: str) -> Iterator[Span]:
    """The fields of this name, in order."""
    opening, closing = f"<{tag}>", f"</{tag}>"
    position = 0
    while (start := text.find(opening, position)) >= 0:
        end = text.find(closing, start)
        if end < 0:
            return
        yield Span(text.rfind(opening, start, end) + len(opening), end)
        position = end + len(closing)
