r"""Compare answers that are plain numbers or the same text: the first tier.

It takes microseconds. A pair that it does not settle goes on to the second tier, in `algebra`.
"""

import re
from functools import lru_cache
from typing import Final, NamedTuple

from assay.math.markup import MAX_LENGTH, remove_markup, unwrap
from assay.math.text_cache import cache_short_texts
from assay.math.units import is_unit_or_label
from assay.math.verdict import MathOptions, MathVerdict
from assay.math.words import PERCENT

_MAX_NUMBER_LENGTH: Final = 300  # longer numbers are read by the next tier
_NUMBER: Final = re.compile(
    r"""
    (?P<dollar> \\?\$ )?
    (?P<sign> [-+]? ) \s*
    (?P<dollar_after_sign> \\?\$ )? \s*
    (?:
        \\[dt]?frac \s*
        (?:
            \{ (?P<top> -?\d+ ) \} \{ (?P<bottom> \d+ ) \}
            | (?P<top_digit> \d ) (?P<bottom_digit> \d )  # \frac12
        )
        |
        (?P<whole>
            [1-9]\d{0,2} (?: (?: , | \{,\} | ,\\!\s? | \\, ) \d{3} )+  # with separators
            | \d+
        )?
        (?: \. (?P<decimals> \d+ ) )?
        (?: \s* / \s* (?P<divisor> \d+ ) )?
    )
    \.? \$? \s*
    (?P<percent> \\?% )? \s*
    (?P<unit> \\(?:text|mathrm|mbox) \s* \{ (?P<unit_name> [a-zA-Z .]* ) \} )? \s*
    [.,]? \$?
    """,
    re.ASCII | re.VERBOSE,
)
_TEXT: Final = re.compile(r"\\(?:text|textbf|textit|textrm|mathrm|mathbf|mbox)\s*\{([^{}]*)\}")
# Spaces that have no meaning. Between digits and letters they have one.
_SPACE: Final = re.compile(r"(?<![\w.])\s+|\s+(?![\w.])")
_NOT_DIGIT: Final = re.compile(r"[^0-9]")


class PlainNumber(NamedTuple):
    """A number as it was written: top/bottom, and what stood around it."""

    top: int
    bottom: int
    is_decimal: bool
    is_percent: bool
    has_unit: bool
    text: str  # how it is written in a reason
    is_whole: bool  # whether it is a whole number and nothing else: no point, percent sign or unit


def settle(gold: str, answer: str, options: MathOptions) -> MathVerdict | None:
    """Compare two numbers, or two texts that are the same; None if they must be parsed for that."""
    gold_number = read_plain_number(gold)
    answer_number = read_plain_number(answer)
    if gold_number is not None and answer_number is not None:
        return _compare_numbers(gold_number, answer_number, options)
    gold_text = normalize_text(gold)
    if gold_text and gold_text == normalize_text(answer):
        return MathVerdict("equal", f"equal as written: {shorten(answer)}", "normalize")
    return None


def read_plain_number(text: str) -> PlainNumber | None:
    """Return the number that a short text is, or None for any other text."""
    if len(text) > _MAX_NUMBER_LENGTH:
        return None
    return _read_short_number(text)


@lru_cache(maxsize=65536)
def _read_short_number(text: str) -> PlainNumber | None:
    """Return the number that a text is, or None for any other text."""
    match = _NUMBER.fullmatch(text.strip())
    if match is None or _is_money(match):
        return None
    fraction = _read_fraction(match)
    if fraction is None:
        return None
    top, bottom = fraction
    is_decimal = match["decimals"] is not None
    is_percent = match["percent"] is not None
    has_unit = match["unit"] is not None
    if has_unit and match["unit_name"].strip().lower() in PERCENT:
        is_percent = True
        has_unit = False
    if has_unit and not is_unit_or_label(match["unit_name"]):
        return None
    number_text = _format_number(top, bottom, is_decimal=is_decimal)
    if is_percent:
        number_text += "%"
    return PlainNumber(
        top=top,
        bottom=bottom,
        is_decimal=is_decimal,
        is_percent=is_percent,
        has_unit=has_unit,
        text=number_text,
        is_whole=bottom == 1 and not (is_decimal or is_percent or has_unit),
    )


def _is_money(match: re.Match[str]) -> bool:
    """Return True for an amount in dollars, which the next tier reads with its unit.

    Dollar signs on both sides only mark a formula.
    """
    dollars = (match["dollar"], match["dollar_after_sign"])
    if dollars == (None, None):
        return False
    return r"\$" in dollars or not match.string.rstrip().endswith("$")


def _read_fraction(match: re.Match[str]) -> tuple[int, int] | None:
    """Return the top and the bottom of a number, or None if it has no digits or no value."""
    top_digits: str | None = match["top"] or match["top_digit"]
    whole: str | None = match["whole"]
    decimals: str | None = match["decimals"]
    divisor: str | None = match["divisor"]
    if top_digits is not None:
        top = int(top_digits)
        bottom = int(match["bottom"] or match["bottom_digit"])
    elif decimals is not None:
        if divisor is not None:
            return None  # a quotient of decimals, which the next tier computes
        top = int(_NOT_DIGIT.sub("", whole or "") + decimals)
        bottom = 10 ** len(decimals)
    elif whole is not None:
        top = int(_NOT_DIGIT.sub("", whole))
        bottom = int(divisor or 1)
    else:
        return None
    if bottom == 0:
        return None
    if match["sign"] == "-":
        top = -top
    return top, bottom


def _format_number(top: int, bottom: int, *, is_decimal: bool) -> str:
    """Return how a number is written in a reason: `-3/4`, `0.25`."""
    if bottom == 1:
        return shorten(str(top))
    if not is_decimal:
        return shorten(f"{top}/{bottom}")
    decimal_count = len(str(bottom)) - 1
    digits = str(abs(top)).zfill(decimal_count + 1)
    whole = digits[:-decimal_count]
    decimals = digits[-decimal_count:]
    sign = "-" if top < 0 else ""
    return shorten(f"{sign}{whole}.{decimals}")


def _compare_numbers(
    gold: PlainNumber, answer: PlainNumber, options: MathOptions
) -> MathVerdict | None:
    """Return the verdict on two numbers, or None if the next tier has to compare their units."""
    if gold.is_whole and answer.is_whole and not options.tolerance:
        is_same = gold.top == answer.top
    else:
        has_unit = gold.has_unit or answer.has_unit
        have_units = gold.has_unit and answer.has_unit
        if have_units or (has_unit and not options.units):
            return None
        if has_unit and (gold.is_percent or answer.is_percent):
            reason = "one is a percentage, the other has a unit"
            return MathVerdict("different", reason, "normalize")
        is_same = are_same_number(gold, answer, options)
    if is_same:
        return MathVerdict("equal", f"equal as numbers: {gold.text}", "normalize")
    reason = f"different numbers: {gold.text} and {answer.text}"
    return MathVerdict("different", reason, "normalize")


def are_same_number(gold: PlainNumber, answer: PlainNumber, options: MathOptions) -> bool:
    """Return True if two numbers, as they were written, are the same.

    A gold of `9%` equals 9 as well as 0.09; a gold of 9 equals `9%` only with `options.percent`.
    A percentage below 1 equals only its hundredth: 0.5 is more likely a half than `0.5%`.
    """
    # If only one has a percent sign, the number in front of the sign may count.
    if gold.is_percent != answer.is_percent and (gold.is_percent or options.percent):
        has_same_digits = gold.top * answer.bottom == answer.top * gold.bottom
        is_at_least_one = abs(gold.top) >= gold.bottom
        if has_same_digits and is_at_least_one:
            return True
    # Decimals may be rounded: 0.333333 is 1/3. But no rounding makes a number whole.
    has_decimal = gold.is_decimal or answer.is_decimal
    has_whole = gold.is_whole or answer.is_whole
    return are_equal_fractions(
        _compute_value(gold),
        _compute_value(answer),
        is_decimal=has_decimal and not has_whole,
        options=options,
    )


def _compute_value(number: PlainNumber) -> tuple[int, int]:
    """Return the value of a number as a fraction (top, bottom): that of `9%` is 9/100."""
    if number.is_percent:
        return number.top, number.bottom * 100
    return number.top, number.bottom


def are_equal_fractions(
    first: tuple[int, int], second: tuple[int, int], *, is_decimal: bool, options: MathOptions
) -> bool:
    """Return True if two fractions (top, bottom) are the same number.

    Exact numbers must be equal. If one is written as a decimal and neither is whole, they must
    agree when rounded to `options.rounding` places: `0.333333` is 1/3, `0.333` is not.
    """
    first_top, first_bottom = first
    second_top, second_bottom = second
    # Both numbers times the product of the two bottoms.
    first_multiple = first_top * second_bottom
    second_multiple = second_top * first_bottom
    if first_multiple == second_multiple:
        return True
    if options.tolerance > 0:
        difference = abs(first_multiple - second_multiple)
        largest = max(abs(first_multiple), abs(second_multiple))
        if difference <= options.tolerance * largest:
            return True
    if not is_decimal:
        return False
    places = options.rounding + _count_leading_zeros(first, second)
    return _round_to_places(first, places) == _round_to_places(second, places)


def _round_to_places(fraction: tuple[int, int], places: int) -> int:
    """Return a fraction times 10^places, rounded to the nearest whole number."""
    top, bottom = fraction
    return (2 * top * 10**places + bottom) // (2 * bottom)


def _count_leading_zeros(first: tuple[int, int], second: tuple[int, int]) -> int:
    """Return how many zeros the larger fraction has between its point and its first digit.

    Below 1/10 places are counted from the first digit, so that tiny numbers stay different.
    """
    top, bottom = _choose_larger(first, second)
    if top == 0:
        return 0
    # The lengths in bits give a lower bound (3/10 decimal digits per bit), which saves steps for
    # numbers of thousands of digits.
    zeros = max(0, (bottom.bit_length() - top.bit_length()) * 3 // 10 - 2)
    while top * 10 ** (zeros + 1) < bottom:
        zeros += 1
    return zeros


def _choose_larger(first: tuple[int, int], second: tuple[int, int]) -> tuple[int, int]:
    """Return the fraction with the larger absolute value, without its sign."""
    first_top = abs(first[0])
    second_top = abs(second[0])
    if first_top * second[1] < second_top * first[1]:
        return second_top, second[1]
    return first_top, first[1]


@cache_short_texts(65536)
def normalize_text(text: str) -> str:
    """Return a text without spaces, fonts and dollar signs that have no meaning.

    Words are in lower case in the result; single letters keep their case.
    """
    if len(text) > MAX_LENGTH:
        return text.strip()
    text = remove_markup(unwrap(text))
    text = _TEXT.sub(_unwrap_word, text)
    return _SPACE.sub("", text)


def _unwrap_word(match: re.Match[str]) -> str:
    r"""Return the text inside `\text{…}`, in lower case unless it is a single letter."""
    content = match[1]
    if len(content.strip()) > 1:
        return content.casefold()
    return content


def shorten(text: str, length: int = 80) -> str:
    """Return a text with its middle replaced by an ellipsis if it is longer than `length`."""
    text = text.strip()
    if len(text) <= length:
        return text
    start = text[: length - 21]
    end = text[-20:]
    return f"{start}…{end}"
