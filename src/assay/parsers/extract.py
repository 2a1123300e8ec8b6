"""Extract answers from free text, in linear time: boxes, marks, numbers, fenced code and JSON. The last one wins."""

import json
import re
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain
from typing import Any

_BOX_NAME = re.compile(r"\\(?:boxed|fbox)")
_BOX = re.compile(
    r"""
    \\(?:boxed|fbox)\s*+(?:
        (?P<open>\{)
      | (?P<token>[-+]?[0-9]++(?:[.,/][0-9]++)*+ | [A-Za-z](?<=\s.)(?!\w))    # \boxed 1
    )
  | \\(?!\\(?:boxed|fbox))[\\{}]                            # escaped: no brace; but \\boxed is a box
  | (?P<brace>[{}])
    """,
    re.VERBOSE,
)
# A number without its sign: 1,250.50 or 6e23.
REAL = r"(?:(?:[0-9]{1,3}(?:,[0-9]{3})++(?![0-9])|[0-9]++)(?:\.[0-9]++)?+|\.[0-9]++)(?:[eE][-+]?[0-9]++)?+"
_NUMBER = re.compile(rf"(?<![A-Za-z0-9_.])([-+\u2212]?+)({REAL})")


def extract_boxed_answer(text: str, strict: bool = False) -> str:
    r"""Return the content of the last whole `\boxed{…}` or `\fbox{…}`, the inner of two, or the token in `\boxed 1`.

    Without one it gives the whole text, or `""` when `strict`, which pays no model for an answer it has not marked.

    >>> extract_boxed_answer(r"so \boxed{\frac{1}{2}} and \boxed{unfinished")
    '\\frac{1}{2}'
    """
    best: tuple[int, int] | None = None
    opened: list[int | None] = []
    # Braces before the first box say nothing about it.
    first = _BOX_NAME.search(text)
    for match in _BOX.finditer(text, first.start()) if first else ():
        if match["token"]:
            best = match.span("token")
        elif match["open"]:
            opened.append(match.end())
        elif match["brace"] == "{":
            opened.append(None)
        elif match["brace"] and opened:
            start = opened.pop()
            if start is not None and (best is None or start > best[0]):
                best = start, match.start()
    if best is None:
        return "" if strict else text
    return text[best[0] : best[1]].strip()


def extract_hash_answer(text: str) -> str | None:
    """The rest of the line after the last `####`, or None when there is no such mark.

    >>> extract_hash_answer("2 + 2 = 4\\n#### 4\\n")
    '4'
    """
    _, mark, rest = text.rpartition("####")
    return rest.partition("\n")[0].strip() if mark else None


def extract_last_number(text: str) -> str | None:
    """Return the last number as `float` can read it, or None; `3/4` is two, and a minus after a letter a hyphen.

    >>> extract_last_number("from 3 to -1,250.50 (about 12% less than x2)")
    '12'
    """
    found = deque(_NUMBER.finditer(text), maxlen=1)
    if not found:
        return None
    sign, real = found[0].groups()
    return ("-" if sign in ("-", "\u2212") else "") + real.replace(",", "")


def extract_code(text: str, language: str | None = None) -> str | None:
    """The content of the last fenced block, or of the last in `language`; None when there is none.

    >>> extract_code("```python\\nprint(1)\\n```\\n```\\n1\\n```", language="python")
    'print(1)'
    """
    blocks = [
        content for named, content in fences(text) if language is None or named == language.lower()
    ]
    return blocks[-1] if blocks else None


def extract_json(text: str) -> Any:
    """Return the value of the last JSON object or array, a fenced block of nothing else first; None when there is none.

    >>> extract_json('I choose {"verdict": "MET"}, not {nothing}.')
    {'verdict': 'MET'}
    """
    blocks = [content.strip() for _, content in fences(text)]
    whole = (block for block in reversed(blocks) if json_spans(block) == [(0, len(block))])
    for source in chain(whole, (text[start:end] for start, end in reversed(json_spans(text)))):
        # What is too deep, or holds an integer of thousands of digits, is passed over.
        with suppress(ValueError, RecursionError):
            return json.loads(source)
    return None


def strip_non_numeric(text: str) -> str:
    """Only the digits and dots of a text, and the minus that leads them.

    >>> strip_non_numeric("-$1,250.50")
    '-1250.50'
    """
    kept = re.sub(r"[^0-9.]++", "", text)
    before = text.partition(kept[:1])[0].rstrip("$€£¥ \t") if kept else ""
    is_negative = before.endswith(("-", "\u2212")) and not before[-2:-1].isalnum()
    return f"-{kept}" if is_negative else kept


def fences(text: str) -> Iterator[tuple[str, str]]:
    """Return the language and the content of each fenced block; a fence may hold shorter ones, the last may lack its end.

    The language is the first word after the fence, in lower case. The content has no last line break, and no indent of the fence.
    """
    opening: tuple[str, str, str, int] | None = None

    def block(indent: str, _marks: str, info: str, start: int, end: int) -> tuple[str, str]:
        content = text[start:end].removesuffix("\n").removesuffix("\r")
        if indent:
            content = re.sub(f"^[ \t]{{1,{len(indent)}}}", "", content, flags=re.MULTILINE)
        return (info.split() or [""])[0].lower(), content

    for line in re.finditer(r"^([ \t]*+)(`{3,}+|~{3,}+)([^\n]*+)(?:\n|\Z)", text, re.MULTILINE):
        indent, marks, rest = line.groups()
        if opening is None:
            if marks[0] == "~" or "`" not in rest:
                opening = (indent, marks, rest, line.end())
        elif (
            marks.startswith(opening[1]) and not rest.strip()
        ):  # as many of the same marks, or more
            yield block(*opening, line.start())
            opening = None
    if opening is not None and text[opening[3] :].strip():
        yield block(*opening, len(text))


# Where whole JSON values stand. Trying a decoder at every bracket is quadratic on `[[[[…`, and recurses. Here one step
# of the grammar is one regular expression without backtracking, and open brackets wait on a list.

_GAP = r"[ \t\r\n]*+"
_STRING = r'"[^"\\\x00-\x1f]*+(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*+)*+"'
_JSON_NUMBER = r"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?+(?:[eE][-+]?[0-9]++)?+"
_ITEM = rf"(?:(?P<open>[{{\[])|(?P<string>{_STRING})|{_JSON_NUMBER}|true|false|null)"
_MEMBER = rf"{_STRING}{_GAP}:{_GAP}{_ITEM}"

# A bracket, and after it what a value can go on with: most brackets in prose are not JSON.
_OPENING = re.compile(rf'\{{(?={_GAP}["}}])|\[(?={_GAP}[\]\[{{"0-9tfn-])')
_STEPS = {
    ("[", True): re.compile(rf"{_GAP}(?:(?P<close>\])|{_ITEM})"),
    ("[", False): re.compile(rf"{_GAP}(?:(?P<close>\])|,{_GAP}{_ITEM})"),
    ("{", True): re.compile(rf"{_GAP}(?:(?P<close>\}})|{_MEMBER})"),
    ("{", False): re.compile(rf"{_GAP}(?:(?P<close>\}})|,{_GAP}{_MEMBER})"),
}  # what may follow in an object or array, when it is still empty and when it is not


def json_spans(text: str) -> list[tuple[int, int]]:
    """Return start and end of each whole object or array that is in no other, in order."""
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
            whole = opened.pop(), position
            while (
                spans and spans[-1][0] > whole[0]
            ):  # a whole value takes the place of those inside it
                spans.pop()
            spans.append(whole)
        elif step.lastgroup == "string":
            # Should the next step fail, this may have been no string but the prose around a value.
            resume = step.start("string")
    return position
