r"""Compare answers that are plainly numbers, or plainly the same text: the first tier, in microseconds.

A pair that it does not settle goes on to the algebra.
"""

import re
from functools import lru_cache
from typing import Final, NamedTuple

from assay.math.markup import MAX_LENGTH, remove_markup, unwrap
from assay.math.units import is_unit_or_label
from assay.math.verdict import MathOptions, MathVerdict
from assay.math.words import PERCENT

_DIGITS: Final = 300  # longer numbers are read by the next tier
_NUMBER: Final = re.compile(
    r"(?P<dollar>\\?\$)?(?P<sign>[-+]?)\s*(?P<dollars>\\?\$)?\s*"
    r"(?:\\[dt]?frac\s*(?:\{(?P<top>-?\d+)\}\{(?P<bottom>\d+)\}|(?P<one>\d)(?P<two>\d))"
    r"|(?P<whole>[1-9]\d{0,2}(?:(?:,|\{,\}|,\\!\s?|\\,)\d{3})+|\d+)?(?:\.(?P<decimals>\d+))?(?:\s*/\s*(?P<under>\d+))?)"
    r"\.?\$?\s*(?P<percent>\\?%)?\s*(?P<unit>\\(?:text|mathrm|mbox)\s*\{[a-zA-Z .]*\})?\s*[.,]?\$?",
    re.ASCII,
)
_SPACE: Final = re.compile(
    r"(?<![\w.])\s+|\s+(?![\w.])"
)  # spaces that say nothing; between digits and letters they do
_TEXT: Final = re.compile(r"\\(?:text|textbf|textit|textrm|mathrm|mathbf|mbox)\s*\{([^{}]*)\}")
_SEPARATOR: Final = re.compile(r"[^0-9]")


class Plain(NamedTuple):
    """A number as it was written: top/bottom, and what stood around it."""

    top: int
    bottom: int
    is_decimal: bool
    is_percent: bool
    has_unit: bool
    shown: str  # how it is written in a reason
    is_whole: bool  # whether it is a whole number and nothing else: no point, percent sign or unit


@lru_cache(maxsize=65536)
def plain_number(text: str) -> Plain | None:
    """The number that a short text is, or None."""
    if len(text) > _DIGITS:
        return None
    match = _NUMBER.fullmatch(text.strip())
    if match is None:
        return None
    dollar, sign, dollars, top, bottom, one, two, whole, decimals, under, percent, unit = (
        match.groups()
    )
    if (dollar or dollars) and (r"\$" in (dollar, dollars) or not text.rstrip().endswith("$")):
        return None  # money, which the next tier reads with its unit
    if top or one:
        number, below, decimals = int(top or one), int(bottom or two), None
    elif (whole or decimals) and not (decimals and under):
        digits = _SEPARATOR.sub("", whole or "") + (decimals or "")
        number, below = int(digits), int(under) if under else 10 ** len(decimals or "")
    else:
        return None
    number = -number if sign == "-" else number
    if below == 0:
        return None
    if unit and unit.partition("{")[2].strip(" }").lower() in PERCENT:
        percent, unit = "%", None
    if unit and not is_unit_or_label(unit.partition("{")[2].rstrip("}")):
        return None
    is_decimal, is_percent = decimals is not None, percent is not None
    shown = _shown(number, below, is_decimal=is_decimal) + ("%" if is_percent else "")
    is_whole = below == 1 and not (is_decimal or is_percent or unit)
    return Plain(number, below, is_decimal, is_percent, unit is not None, shown, is_whole)


def settled(gold: str, answer: str, options: MathOptions) -> MathVerdict | None:
    """The verdict on a pair of numbers, or of texts that are the same; else None."""
    one, two = plain_number(gold), plain_number(answer)
    if one is not None and two is not None:
        return _numbers(one, two, options)
    if written(gold) == written(answer) != "":
        return MathVerdict("equal", f"equal as written: {shortened(answer)}", "normalize")
    return None


def _numbers(gold: Plain, answer: Plain, options: MathOptions) -> MathVerdict | None:
    if gold.is_whole and answer.is_whole and not options.tolerance:
        same = gold.top == answer.top
    elif (gold.has_unit != answer.has_unit and not options.units) or (
        gold.has_unit and answer.has_unit
    ):
        return None
    elif (gold.has_unit or answer.has_unit) and (gold.is_percent or answer.is_percent):
        return MathVerdict("different", "one is a percentage, the other has a unit", "normalize")
    else:
        same = same_number(gold, answer, options)
    if same:
        return MathVerdict("equal", f"equal as numbers: {gold.shown}", "normalize")
    return MathVerdict(
        "different", f"different numbers: {gold.shown} and {answer.shown}", "normalize"
    )


def same_number(gold: Plain, answer: Plain, options: MathOptions) -> bool:
    """Return True if two literals are the same number.

    A gold of `9%` equals 9 as well as 0.09; a gold of 9 equals `9%` only with `options.percent`.
    A percentage below 1 equals its hundredth alone: 0.5 is rather a half than `0.5%`.
    """
    if gold.is_percent != answer.is_percent and (gold.is_percent or options.percent):
        are_same_digits = gold.top * answer.bottom == answer.top * gold.bottom
        if are_same_digits and abs(gold.top) >= gold.bottom:
            return True
    has_whole = any(number.is_whole for number in (gold, answer))
    return agree(
        _value_of(gold),
        _value_of(answer),
        is_decimal=(gold.is_decimal or answer.is_decimal) and not has_whole,
        options=options,
    )


def _value_of(number: Plain) -> tuple[int, int]:
    """Return a literal as a fraction; a percentage is a hundredth."""
    if number.is_percent:
        return number.top, number.bottom * 100
    return number.top, number.bottom


def _shown(top: int, bottom: int, *, is_decimal: bool) -> str:
    if bottom == 1:
        return shortened(str(top))
    if not is_decimal:
        return shortened(f"{top}/{bottom}")
    places = len(str(bottom)) - 1
    digits = str(abs(top)).zfill(places + 1)
    return shortened(f"{'-' if top < 0 else ''}{digits[:-places]}.{digits[-places:]}")


@lru_cache(maxsize=65536)
def written(text: str) -> str:
    """The text without what makes no difference to what it says: spaces, fonts, dollars, case of words."""
    if len(text) > MAX_LENGTH:
        return text.strip()
    text = remove_markup(unwrap(text))
    text = _TEXT.sub(lambda m: m[1].casefold() if len(m[1].strip()) > 1 else m[1], text)
    return _SPACE.sub("", text)


def shortened(text: str, length: int = 80) -> str:
    text = text.strip()
    return text if len(text) <= length else f"{text[: length - 21]}…{text[-20:]}"


def agree(
    one: tuple[int, int], two: tuple[int, int], *, is_decimal: bool, options: MathOptions
) -> bool:
    """Whether two fractions (top, bottom) are the same number.

    Exact numbers must be equal. Where one is written as a decimal and neither is whole, they must
    agree when rounded to `options.rounding` places: `0.333333` is 1/3, `0.333` is not.
    """
    (a, b), (c, d) = one, two
    if a * d == c * b:
        return True
    if options.tolerance > 0 and abs(a * d - c * b) <= options.tolerance * max(
        abs(a * d), abs(c * b)
    ):
        return True
    if not is_decimal:
        return False
    scale = 10 ** (options.rounding + _zeros_behind_the_point(one, two))
    first, second = (
        (2 * top * scale + bottom) // (2 * bottom) for top, bottom in (one, two)
    )  # to the nearest
    return first == second


def _zeros_behind_the_point(one: tuple[int, int], two: tuple[int, int]) -> int:
    """How many zeros the larger of the two has between its point and its first digit."""
    (top, bottom), (other, below) = (abs(one[0]), one[1]), (abs(two[0]), two[1])
    if top * below < other * bottom:
        top, bottom = other, below
    if top == 0:
        return 0
    # As many as the lengths of both show at least, for numbers of thousands of digits; then one by one.
    zeros = max(0, (bottom.bit_length() - top.bit_length()) * 3 // 10 - 2)
    # Below 1/10 places are counted from the first digit, so that tiny numbers stay apart.
    while top * 10 ** (zeros + 1) < bottom:
        zeros += 1
    return zeros
