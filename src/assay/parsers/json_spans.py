"""Where whole JSON objects and arrays stand in a text, found in linear time.

Trying a decoder at every bracket is quadratic on `[[[[…`, and recurses. Here one step of the
grammar is one regular expression without backtracking, and open brackets wait on a list.
"""

import re

_GAP = r"[ \t\r\n]*+"
_STRING = r'"[^"\\\x00-\x1f]*+(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*+)*+"'
_NUMBER = r"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?+(?:[eE][-+]?[0-9]++)?+"
_ITEM = rf"(?:(?P<open>[{{\[])|(?P<string>{_STRING})|{_NUMBER}|true|false|null)"
_MEMBER = rf"{_STRING}{_GAP}:{_GAP}{_ITEM}"

_OPENING = re.compile(rf'\{{(?={_GAP}["}}])|\[(?={_GAP}[\]\[{{"0-9tfn-])')
"""A bracket, and after it what a value can go on with: most brackets in prose are not JSON."""
_STEPS = {
    ("[", True): re.compile(rf"{_GAP}(?:(?P<close>\])|{_ITEM})"),
    ("[", False): re.compile(rf"{_GAP}(?:(?P<close>\])|,{_GAP}{_ITEM})"),
    ("{", True): re.compile(rf"{_GAP}(?:(?P<close>\}})|{_MEMBER})"),
    ("{", False): re.compile(rf"{_GAP}(?:(?P<close>\}})|,{_GAP}{_MEMBER})"),
}
"""What may follow in an object or array, when it is still empty and when it is not."""


def json_spans(text: str) -> list[tuple[int, int]]:
    """Start and end of each whole object or array that is in no other, in order.

    >>> json_spans('see [1, {"a": [2]}] or [3, {}')
    [(4, 19), (27, 29)]
    """
    spans: list[tuple[int, int]] = []
    opening = _OPENING.search(text)
    while opening:
        resume = _read(text, opening.start(), spans)
        opening = _OPENING.search(text, resume)
    return spans


def _read(text: str, start: int, spans: list[tuple[int, int]]) -> int:
    """Read one value, adding what is whole in it to `spans`; returns where to look for the next."""
    opened, empty = [start], True
    position = resume = start + 1
    while opened:
        step = _STEPS[text[opened[-1]], empty].match(text, position)
        if step is None:
            return resume
        position = resume = step.end()
        empty = step.lastgroup == "open"
        if empty:
            opened.append(position - 1)
        elif step.lastgroup == "close":
            _close(opened.pop(), position, spans)
        elif step.lastgroup == "string":
            # Should the next step fail, this may have been no string but the prose around a value.
            resume = step.start("string")
    return position


def _close(start: int, end: int, spans: list[tuple[int, int]]) -> None:
    """Add a whole value in place of those inside it."""
    while spans and spans[-1][0] > start:
        spans.pop()
    spans.append((start, end))
