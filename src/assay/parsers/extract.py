"""Extract answers from free text: boxes, marks, numbers, fenced code and JSON.

The last match counts. Every function takes linear time, whatever the text.
"""

import json
import re
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple

from assay.math.boxes import find_final_box

# A number without its sign: 1,250.50 or 6e23.
NUMBER_PATTERN = r"(?:(?:[0-9]{1,3}(?:,[0-9]{3})++(?![0-9])|[0-9]++)(?:\.[0-9]++)?+|\.[0-9]++)(?:[eE][-+]?[0-9]++)?+"
_NUMBER = re.compile(rf"(?<![A-Za-z0-9_.])([-+\u2212]?+)({NUMBER_PATTERN})")
_MINUS_SIGNS = ("-", "\u2212")  # a hyphen and the mathematical minus sign


def extract_boxed_answer(text: str, strict: bool = False) -> str:
    r"""Return the content of the last complete `\boxed{…}` or `\fbox{…}`, or the `1` of `\boxed 1`.

    If boxes are nested, the inner one counts. If several boxes differ, the last one counts only
    if the text says so ("so the answer is", "no, it is"): a list of guesses is not an answer.
    Without a box that counts, return the whole text, or `""` if `strict`, so that an answer that
    the model did not mark earns nothing.

    >>> extract_boxed_answer(r"so \boxed{\frac{1}{2}} and \boxed{unfinished")
    '\\frac{1}{2}'
    >>> extract_boxed_answer(r"\boxed{10}, \boxed{11}, \boxed{12}", strict=True)
    ''
    """
    answer = find_final_box(text)
    if answer is not None:
        return answer
    return "" if strict else text


def extract_hash_answer(text: str) -> str | None:
    """Return the rest of the line after the last `####`, or None if there is no such mark.

    >>> extract_hash_answer("2 + 2 = 4\\n#### 4\\n")
    '4'
    """
    _, mark, rest = text.rpartition("####")
    if not mark:
        return None
    return rest.partition("\n")[0].strip()


def extract_last_number(text: str) -> str | None:
    """Return the last number in a form that `float` can read, or None.

    `3/4` is two numbers, and a minus after a letter is a hyphen.

    >>> extract_last_number("from 3 to -1,250.50 (about 12% less than x2)")
    '12'
    """
    matches = deque(_NUMBER.finditer(text), maxlen=1)  # keeps only the last
    if not matches:
        return None
    sign, number = matches[0].groups()
    number = number.replace(",", "")
    return f"-{number}" if sign in _MINUS_SIGNS else number


def extract_code(text: str, language: str | None = None) -> str | None:
    """Return the content of the last fenced block, or of the last one in `language`; or None.

    >>> extract_code("```python\\nprint(1)\\n```\\n```\\n1\\n```", language="python")
    'print(1)'
    """
    last_block = None
    for block_language, content in find_fenced_blocks(text):
        if language is None or block_language == language.lower():
            last_block = content
    return last_block


def extract_json(text: str) -> Any:
    """Return the value of the last JSON object or array, or None.

    A fenced block that contains nothing but JSON is preferred.

    >>> extract_json('I choose {"verdict": "MET"}, not {nothing}.')
    {'verdict': 'MET'}
    """
    candidates: list[str] = []
    for _, content in find_fenced_blocks(text):
        block = content.strip()
        if find_json_spans(block) == [(0, len(block))]:
            candidates.append(block)
    candidates.reverse()
    for start, end in reversed(find_json_spans(text)):
        candidates.append(text[start:end])
    for candidate in candidates:
        # JSON that is nested too deep, or has an integer of thousands of digits, is skipped.
        with suppress(ValueError, RecursionError):
            return json.loads(candidate)
    return None


def strip_non_numeric(text: str) -> str:
    """Return only the digits and dots of a text, with the minus before the first of them.

    >>> strip_non_numeric("-$1,250.50")
    '-1250.50'
    """
    number = re.sub(r"[^0-9.]++", "", text)
    if not number:
        return ""
    text_before = text.partition(number[0])[0].rstrip("$€£¥ \t")
    is_hyphen = text_before[-2:-1].isalnum()
    if text_before.endswith(_MINUS_SIGNS) and not is_hyphen:
        return f"-{number}"
    return number


_FENCE = re.compile(r"^([ \t]*+)(`{3,}+|~{3,}+)([^\n]*+)(?:\n|\Z)", re.MULTILINE)


class _OpenFence(NamedTuple):
    """The opening line of a fenced block."""

    indent: str
    marks: str  # three or more backticks or tildes
    info: str  # the rest of the line, which begins with the language
    content_start: int


def find_fenced_blocks(text: str) -> Iterator[tuple[str, str]]:
    """Yield the language and the content of each fenced block.

    The language is the first word after the fence, in lower case. The content has neither its last
    line break nor the indent of the fence. A block may contain shorter fences, and the last block
    may lack its closing fence.
    """
    fence: _OpenFence | None = None
    for line in _FENCE.finditer(text):
        indent, marks, rest = line.groups()
        if fence is None:
            # After backticks, another backtick on the line means inline code.
            if marks[0] == "~" or "`" not in rest:
                fence = _OpenFence(indent, marks, rest, line.end())
        elif marks.startswith(fence.marks) and not rest.strip():
            # A closing fence: at least as many of the same marks, and nothing behind them.
            yield _read_block(text, fence, line.start())
            fence = None
    if fence is not None and text[fence.content_start :].strip():
        yield _read_block(text, fence, len(text))


def _read_block(text: str, fence: _OpenFence, content_end: int) -> tuple[str, str]:
    """Return the language and the content of a fenced block."""
    content = text[fence.content_start : content_end].removesuffix("\n").removesuffix("\r")
    if fence.indent:
        indent = f"^[ \t]{{1,{len(fence.indent)}}}"
        content = re.sub(indent, "", content, flags=re.MULTILINE)
    words = fence.info.split()
    language = words[0].lower() if words else ""
    return language, content


# Complete JSON values in a text. Calling a decoder at every bracket would take quadratic time on
# `[[[[…`, and would recurse. Instead, each step of the grammar is a regular expression without
# backtracking, and open brackets are kept in a list.

_SPACE = r"[ \t\r\n]*+"
_STRING = r'"[^"\\\x00-\x1f]*+(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*+)*+"'
_JSON_NUMBER = r"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?+(?:[eE][-+]?[0-9]++)?+"
_ITEM = rf"(?:(?P<open>[{{\[])|(?P<string>{_STRING})|{_JSON_NUMBER}|true|false|null)"
_MEMBER = rf"{_STRING}{_SPACE}:{_SPACE}{_ITEM}"

# A bracket that is followed by something JSON allows; most brackets in prose are not.
_OPENING = re.compile(rf'\{{(?={_SPACE}["}}])|\[(?={_SPACE}[\]\[{{"0-9tfn-])')
# What may come next in an object or array, by its bracket and whether it is still empty.
_NEXT = {
    ("[", True): re.compile(rf"{_SPACE}(?:(?P<close>\])|{_ITEM})"),
    ("[", False): re.compile(rf"{_SPACE}(?:(?P<close>\])|,{_SPACE}{_ITEM})"),
    ("{", True): re.compile(rf"{_SPACE}(?:(?P<close>\}})|{_MEMBER})"),
    ("{", False): re.compile(rf"{_SPACE}(?:(?P<close>\}})|,{_SPACE}{_MEMBER})"),
}


def find_json_spans(text: str) -> list[tuple[int, int]]:
    """Return the start and end of each complete JSON object or array, in order.

    Values inside of other values are left out.
    """
    spans: list[tuple[int, int]] = []
    opening = _OPENING.search(text)
    while opening:
        next_start = _read_json(text, opening.start(), spans)
        opening = _OPENING.search(text, next_start)
    return spans


def _read_json(text: str, start: int, spans: list[tuple[int, int]]) -> int:
    """Read the value that starts at a bracket, and add it to `spans` if it is complete.

    Of an incomplete value, the complete values inside are added. Return the position from which to
    search for the next value.
    """
    open_brackets = [start]
    is_empty = True  # whether the innermost object or array has no item yet
    position = start + 1
    next_start = position
    while open_brackets:
        innermost = text[open_brackets[-1]]
        match = _NEXT[innermost, is_empty].match(text, position)
        if match is None:
            return next_start
        position = match.end()
        next_start = position
        is_empty = match.lastgroup == "open"
        if match.lastgroup == "open":
            open_brackets.append(position - 1)
        elif match.lastgroup == "close":
            value_start = open_brackets.pop()
            # The value replaces those inside of it.
            while spans and spans[-1][0] > value_start:
                spans.pop()
            spans.append((value_start, position))
        elif match.lastgroup == "string":
            # If the next step fails, this was perhaps not a string but prose between two quotation
            # marks, which may contain a value.
            next_start = match.start("string")
    return position
