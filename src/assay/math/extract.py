r"""Where the answer stands in a longer text: the last box, what follows "answer", the last formula.

Every search is linear in the text. The order is math-verify's: a box before words, words before
formulas, formulas before bare numbers, and of several the last. A bare number must end the text, but for a word.
"""

import re
from typing import Final

_KEYWORD: Final = re.compile(
    r"(?i)\bfinal answer\b[^.\n]{0,100}?\bis\b\s*:?|\banswer\b(?:\s+is\b)?\s*[:=]?"
)
_FORMULA: Final = re.compile(
    # Possessive, and never past a second opening: a million of `\(` is read once, not once for each.
    r"\$\$([^$]{1,600})\$\$|\$([^$\n]{1,400})\$"
    r"|\\\(((?:[^\\]++|\\(?![()]))*+)\\\)|\\\[((?:[^\\]++|\\(?![\[\]]))*+)\\\]"
)
_NUMBER: Final = re.compile(r"(?<![\w.])[-+]?[$€£]?\d[\d,]*(?:\.\d+)?(?:\s*/\s*\d+)?(?:\s*\\?%)?")
_SEPARATOR: Final = re.compile(r"\b(?:and|or)\b|[,;]")
_NEAR, _FAR = 10, 70
"""Boxes so many characters apart are parts of one answer; the farther only with a separator."""
_MOST_WORDS: Final = 6
_WORD: Final = re.compile("[a-zA-Z]+")
_BOX: Final = re.compile(r"\\(?:boxed|fbox)\s*\{")
_BRACE: Final = re.compile(r"\\.|[{}]", re.DOTALL)
_MOST_BOXES: Final = 20
_LAST: Final = 20_000
"""Only so much of the end of a text is searched."""


def last_box(text: str) -> str | None:
    r"""What the last complete `\boxed{…}` or `\fbox{…}` holds; None when there is none.

    Boxes close to each other, or with a comma or `and` between them, are one list.

    >>> last_box(r"First \boxed{1} was tried, and in vain; we now know it is \boxed{\frac{1}{2}}.")
    '\\frac{1}{2}'
    """
    boxes: list[str] = []
    next_start = -1
    for start, opening, close in reversed(_boxes(text)):
        content = text[opening + 1 : close]
        if boxes and not _belong(text[close + 1 : next_start], content, boxes[-1]):
            break
        if not boxes or content != boxes[-1]:
            boxes.append(content)
        next_start = start
        if len(boxes) == _MOST_BOXES:
            break
    return ", ".join(reversed(boxes)) if boxes else None


def _boxes(text: str) -> list[tuple[int, int, int]]:
    """Where each complete box starts, opens and closes; of boxes within boxes the outer ones."""
    openings = {match.end() - 1: match.start() for match in _BOX.finditer(text)}
    if not openings:
        return []
    found: list[tuple[int, int, int]] = []
    stack: list[int] = []
    for match in _BRACE.finditer(text, min(openings)):
        if match[0] == "{":
            stack.append(match.start())
        elif match[0] == "}" and stack:
            opening = stack.pop()
            if opening in openings:
                while found and found[-1][0] > openings[opening]:
                    found.pop()
                found.append((openings[opening], opening, match.start()))
    return found


def _belong(between: str, box: str, next_box: str) -> bool:
    """Whether two boxes are parts of one answer, going by what stands between them."""
    if len(between) < _NEAR:
        return True
    if box == next_box or len(between) >= _FAR or len(between.split()) > _MOST_WORDS:
        return False
    return _SEPARATOR.search(between) is not None


def final_answer(text: str) -> str | None:
    """The part of a longer text that is its answer; None when nothing looks like one.

    >>> final_answer("We add 3 and 4. The answer is 7 apples.")
    '7'
    """
    text = text[-_LAST:]
    box = last_box(text)
    if box is not None:
        return box
    keyword = None
    for keyword in _KEYWORD.finditer(text):  # noqa: B007 - the last one counts
        pass
    if keyword is not None:
        found = _first(text[keyword.end() : keyword.end() + 400])
        if found is not None:
            return found
    return _last(text)


def _first(text: str) -> str | None:
    formula, number = _FORMULA.search(text), _NUMBER.search(text)
    if formula and (not number or formula.start() <= number.start()):
        return _inside(formula)
    return number[0] if number else None


def _last(text: str) -> str | None:
    formulas = _FORMULA.findall(text)
    if formulas:
        return next((part for part in formulas[-1] if part), None)
    numbers = list(_NUMBER.finditer(text))
    if not numbers or len(_WORD.findall(text, numbers[-1].end())) > 1:
        return None
    return numbers[-1][0]


def _inside(match: re.Match[str]) -> str | None:
    return next((part for part in match.groups() if part), None)
