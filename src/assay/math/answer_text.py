r"""Find the answer in a longer text, and take its wrapping off: boxes, `$`, bold, unicode signs, a full stop.

Every search is linear in the text. The order is math-verify's: a box before words, words before
formulas, formulas before bare numbers, and of several the last. A bare number must end the text, but for a word, and
be the only one: a text that names several numbers, and says of none that it is the answer, has no answer.
"""

import re
import unicodedata
from collections import deque
from typing import Final

from assay.math.units import says_what
from assay.math.words import (
    CHANGES,
    DENIALS,
    LEADS,
    LINKS,
    MEASURES,
    SIGNS,
    VERBS,
    makes_another,
    notations,
    words_of,
)

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
_NEAR, _FAR = (
    10,
    70,
)  # boxes so many characters apart are parts of one answer; the farther only with a separator
_MOST_WORDS: Final = 6
_WORD: Final = re.compile("[a-zA-Z]+")
_BOX: Final = re.compile(r"\\(?:boxed|fbox)\s*\{")
_BRACE: Final = re.compile(r"\\.|[{}]", re.DOTALL)
_CLAUSE: Final = re.compile(r"[.!?,;](?=\s|$)|\n")
_LAST_WORD: Final = re.compile(
    r"(?:^|([a-zA-Z']+)|:|[\d)]\s*=|(?:^|[\s,(])[a-zA-Z]+\s*=|[.!?,;](?=\s)|\n)[\s*_\"]*$"
)
_ENDS: Final = re.compile(r"\s*$|[.,;:!?)\]*\"]*(?:\s+[a-zA-Z(*]|\s*$)|\s*[\\]?\$")
_MOST_BOXES: Final = 20
_MOST_OPENINGS: Final = 100  # boxes further from the end are not looked at
_LAST: Final = 20_000  # only so much of the end of a text is searched


def last_box(text: str) -> str | None:
    r"""What the last complete `\boxed{…}` or `\fbox{…}` holds; None when there is none.

    Boxes close to each other, or with a comma or `and` between them, are one list.
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
    last_openings = deque(_BOX.finditer(text), maxlen=_MOST_OPENINGS)
    if not last_openings:
        return []
    openings = {match.end() - 1: match.start() for match in last_openings}
    last_opening = max(openings)
    found: list[tuple[int, int, int]] = []
    stack: list[int] = []
    for match in _BRACE.finditer(text, min(openings)):
        if not stack and match.start() > last_opening:
            break
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
    """The part of a longer text that is its answer; None when nothing looks like one."""
    text = text[-_LAST:]
    box = last_box(text)
    if box is not None:
        return box
    formula = number = None
    keyword = [None, *_KEYWORD.finditer(text)][-1]
    if keyword is not None:
        start, end = keyword.end(), keyword.end() + 400
        formula, number = _FORMULA.search(text, start, end), _NUMBER.search(text, start, end)
        if formula and number and number.start() < formula.start():
            formula = None
    if formula is None and number is None:
        formula = [None, *_FORMULA.finditer(text)][-1]
        number = [None, *_NUMBER.finditer(text)][-1]
        if number and len(_WORD.findall(text, number.end())) > 1:
            number = None
        if _names_several_numbers(text, formula):
            return None
    if formula:
        return _formula_text(formula) if _is_stated(formula) else None
    return number[0] if number and _is_stated(number) and _stands_alone(number) else None


def _names_several_numbers(text: str, formula: re.Match[str] | None) -> bool:
    """Whether a text names different numbers, so that none of them is its answer.

    A formula that is more than a number is an answer in itself, whatever else the text names.
    """
    if formula is not None and _NUMBER.fullmatch(_formula_text(formula)) is None:
        return False
    return len({match[0].strip().rstrip(",") for match in _NUMBER.finditer(text)}) > 1


def _formula_text(formula: re.Match[str]) -> str:
    return next((part for part in formula.groups() if part), "").strip()


def _is_stated(match: re.Match[str]) -> bool:
    """Whether its sentence states what was found, and neither denies it nor makes something else of it."""
    before = _CLAUSE.split(match.string[max(0, match.start() - 200) : match.start()])[-1]
    behind = _CLAUSE.split(match.string[match.end() : match.end() + 200])[0]
    said, more = words_of(before), words_of(behind)
    if (
        not DENIALS.isdisjoint(said)
        or not DENIALS.isdisjoint(more)
        or any(map(makes_another, more[:1]))
    ):
        return False
    # "the square root is 7" states 7, "the square root of 7" and "less than or equal to 7" do not.
    while said and said[-1] in LEADS:
        lead = said.pop()
        if lead in VERBS:
            return True
        if lead == "of" and said and said[-1] not in LEADS | MEASURES:
            return False  # "the negation of 7" is another number, as "the image of 7" may be
    return not said or not makes_another(said[-1])


def _stands_alone(number: re.Match[str]) -> bool:
    """Whether a number follows what leads to an answer, and is no part of a formula."""
    before, behind = number.string[: number.start()][-60:], number.string[number.end() :][:60]
    lead = _LAST_WORD.search(before)
    if lead is None or (lead[1] and lead[1].casefold() not in LEADS):
        return False
    if _ENDS.match(behind) is None:
        return False
    words = words_of(_CLAUSE.split(behind)[0])
    return (
        not words or (CHANGES.isdisjoint(words) and words[0] in LINKS) or says_what(" ".join(words))
    )


LONGEST: Final = 4096  # longer texts are no answers; they are compared as texts alone
_THOUSANDS: Final = re.compile(r"(?<=\d)(?:\{,\}|,\\!\s?|\{,\\!\})(?=\d{3}(?!\d))")
_CURRENCIES: Final = notations("money")
_SIGN: Final = re.compile(r"\\\$|[€£¥₹]")
_AMOUNT: Final = re.compile(r"\s*-?[\d.]")
_MONEY: Final = re.compile(
    r"(\\\$|[€£¥₹])\s*(-?(?:\d(?:[\d,]*\d)?(?:\.\d+)?|\.\d+))(?:\s*(?:\\text\{\s*)?(hundred|thousand|million|billion|trillion)\s*\}?)?(?![\d^])",
    re.ASCII,
)
_MOST_LAYERS: Final = 12
# What may stand around an answer, and what inside shows that these do not belong together.
_WRAPPINGS: Final = (
    ("$$", "$$", "$"),
    ("$", "$", "$"),
    (r"\(", r"\)", r"\("),
    (r"\[", r"\]", r"\["),
    ("**", "**", "**"),
    ("`", "`", "`"),
    ('"', '"', '"'),
)
DEEPEST: Final = 60  # how deep brackets may nest

_SIGNS_BY_CODE: Final = {
    **{ord(sign): meant for sign, meant in SIGNS.items()},
    **dict.fromkeys(map(ord, "\u200b\ufeff\u2060\u00ad\u2061\u2062"), ""),
    **dict.fromkeys((160, 8194, 8195, 8199, 8201, 8202, 8239, 12288), " "),
}
_SCRIPTS: Final = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ₀₁₂₃₄₅₆₇₈₉₊₋ₙ", "0123456789+-n" * 2)
_SCRIPT: Final = re.compile("([⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ]+)|[₀₁₂₃₄₅₆₇₈₉₊₋ₙ]+")
_FOREIGN_DIGIT: Final = re.compile(r"[^\W\x00-\x7f\D]")
_OVERLINED: Final = re.compile("((?:\\w\u0305)+)")

_MARKUP: Final = re.compile(
    r"\\(?:displaystyle|textstyle|scriptstyle|limits|nolimits|bigg?[lrm]?|Bigg?[lrm]?|left|right|middle"
    r"|mleft|mright|tfrac|dfrac|cfrac)(?![a-zA-Z])|\\!\s*|(?<!\\)\\[,;:> ]|\\q?quad(?![a-zA-Z])|~"
    r"|\\[hv]?phantom\{[^{}]*\}|\\[hv]space\*?\{[^{}]*\}|\\(?:medspace|thinspace|enspace|nobreak)(?![a-zA-Z])"
)
_HTML: Final = re.compile(r"<(sup|sub)>([^<>]{1,40})</\1>")
_BREAK: Final = re.compile(r"[\n\r\t\f\v]+")
_LONG_SPACE: Final = re.compile(r"\s{3,}")


def plain_signs(text: str) -> str:
    """The text with unicode signs, raised digits and HTML powers written as LaTeX writes them."""
    if "<su" in text:
        text = _HTML.sub(lambda m: ("^{" if m[1] == "sup" else "_{") + m[2] + "}", text)
    if text.isascii():
        return text
    text = _OVERLINED.sub(lambda m: r"\overline{" + m[1].replace("\u0305", "") + "}", text)
    text = _SCRIPT.sub(lambda m: ("^{" if m[1] else "_{") + m[0].translate(_SCRIPTS) + "}", text)
    text = _FOREIGN_DIGIT.sub(lambda m: str(unicodedata.decimal(m[0])), text)
    return text.translate(_SIGNS_BY_CODE)


def unwrapped(text: str) -> str:
    r"""The answer itself: signs in one spelling, and no box, dollars, bold or full stop around it."""
    # A run of spaces costs the patterns behind this the square of its length, or more.
    text = _LONG_SPACE.sub("  ", text)
    text = _THOUSANDS.sub("", _with_currency(plain_signs(text))).strip()
    for _ in range(_MOST_LAYERS):
        bare = _peeled(text)
        if bare == text:
            break
        text = bare
    return text


def _with_currency(text: str) -> str:
    r"""The text with money as people say it: `\$5`, `$5` and `€5` are 5 dollars and 5 euros; `$5$` is a formula."""
    text = _THOUSANDS.sub(",", text) if _SIGN.search(text) else text
    if text.count("$") - text.count(r"\$") == 1 and _AMOUNT.match(text.lstrip().removeprefix("$")):
        text = text.replace("$", r"\$", 1) if r"\$" not in text else text
    return _MONEY.sub(lambda m: f"{m[2]}\\text{{{m[3] or ''} {_CURRENCIES[m[1]]}}}", text)


def _peeled(text: str) -> str:
    text = text.strip()
    if text[-1:] in (".", ",", ";", ":") and not text.endswith((r"\;", "...")):
        text = text[:-1].rstrip()
        if text.endswith("\\"):
            text = text[:-1]
    for start, end, unless in _WRAPPINGS:
        if text.startswith(start) and text.endswith(end) and len(text) > len(start) + len(end):
            inside = text[len(start) : -len(end)]
            if unless not in inside:
                return inside
    for command in (r"\boxed", r"\fbox", r"\mathbf", r"\displaystyle", r"\bm", r"\boldsymbol"):
        if text.startswith(command) and not text[len(command) : len(command) + 1].isalpha():
            inside = text[len(command) :].strip()
            if inside[:1] == "{" and closing(inside, 0) == len(inside) - 1:
                return inside[1:-1]
            if command == r"\displaystyle":
                return inside
    if text[:1] == "{" and closing(text, 0) == len(text) - 1:
        return text[1:-1]
    return text


def closing(text: str, start: int) -> int:
    """Where the brace that opens at `start` closes; -1 when it never does."""
    depth = 0
    for match in _BRACE.finditer(text, start):
        depth += {"{": 1, "}": -1}.get(match[0], 0)
        if match[0] == "}" and depth == 0:
            return match.start()
    return -1


_NEXT_STATEMENT: Final = re.compile(
    r"(?<![,;=<>+*/-])\\q?quad(?=\s*\\?[a-zA-Z]+(?:_\{?\w+\}?)?\s*(?:[=<>]|\\[lg]e))"
)
# Rows of a matrix that ended in one backslash, the other lost on the way.
_SINGLE_BREAK: Final = re.compile(r"\\(?=[\s\d-])")
_UNIT_FONT: Final = re.compile(r"(?<=[\d)}\s/])\\(?:mathrm|rm|textrm)\s*\{([^{}]*)\}")


def without_markup(text: str) -> str:
    r"""The text without commands that only change its looks: `\left`, `\displaystyle`, spaces."""
    if "$" in text:
        text = text.replace(r"\$", " ").replace("$", " ")
    if r"\begin" in text and "\\\\" not in text:
        text = _SINGLE_BREAK.sub(r"\\\\ ", text)
    if "quad" in text:
        text = _NEXT_STATEMENT.sub(", ", text)
    if "\\" in text or "~" in text:
        text = _MARKUP.sub(
            lambda m: r"\frac" if m[0].endswith("frac") else "" if m[0].startswith(r"\!") else " ",
            text,
        )
        text = _UNIT_FONT.sub(_unit_or_letter, text)
    return _LONG_SPACE.sub("  ", _BREAK.sub(" ", text))


def depth_of(text: str) -> int:
    depth = deepest = 0
    for character in text:
        if character in "({[":
            depth += 1
            deepest = max(deepest, depth)
        elif character in ")}]":
            depth -= 1
    return deepest


def _unit_or_letter(match: re.Match[str]) -> str:
    """Roman letters behind a value are its unit, but for those that stand for e, i and d."""
    letters = match[1].strip()
    before = match.string[: match.start()].rstrip()[-1:]
    if not before or before not in "0123456789)}/" or letters in ("", "e", "i", "d"):
        return match[0]
    return rf"\text{{{letters}}}"
