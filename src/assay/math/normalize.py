r"""The first tier: answers that are plainly numbers, or plainly the same text. Microseconds.

It speaks only when it is sure: a pair it does not settle goes on to the algebra.
"""

import re
from functools import lru_cache
from typing import Final, NamedTuple

from assay.math.options import MathOptions
from assay.math.rules import agree
from assay.math.text import LONGEST, unwrapped, without_markup
from assay.math.verdict import MathVerdict

_DIGITS: Final = 300
"""Longer numbers are read by the next tier."""
_NUMBER: Final = re.compile(
    r"\$?(?P<sign>[-+]?)\s*\\?\$?\s*"
    r"(?:\\[dt]?frac\s*(?:\{(?P<top>-?\d+)\}\{(?P<bottom>\d+)\}|(?P<one>\d)(?P<two>\d))"
    r"|(?P<whole>[1-9]\d{0,2}(?:(?:,|\{,\}|,\\!|\\,)\s?\d{3})+|\d+)?(?:\.(?P<decimals>\d+))?(?:\s*/\s*(?P<under>\d+))?)"
    r"\.?\$?\s*(?P<percent>\\?%)?\s*(?P<unit>\\(?:text|mathrm|mbox)\s*\{[a-zA-Z .]*\})?\s*[.,]?\$?",
    re.ASCII,
)
_PERCENT: Final = re.compile(r"\{\s*(?:percent|percentage|pct)\s*\}")
_SPACE: Final = re.compile(r"\s+")
_TEXT: Final = re.compile(r"\\(?:text|textbf|textit|textrm|mathrm|mathbf|mbox)\s*\{([^{}]*)\}")
_SEPARATOR: Final = re.compile(r"[^0-9]")


class Plain(NamedTuple):
    """A number as it was written: top/bottom, and what stood around it."""

    top: int
    bottom: int
    is_decimal: bool
    is_percent: bool
    has_unit: bool


@lru_cache(maxsize=65536)
def plain_number(text: str) -> Plain | None:
    """The number that a short text is, or None.

    >>> plain_number(r"$\\frac{3}{4}$")
    Plain(top=3, bottom=4, is_decimal=False, is_percent=False, has_unit=False)
    """
    if len(text) > _DIGITS:
        return None
    match = _NUMBER.fullmatch(text.strip())
    if match is None:
        return None
    return _plain(match)


def _plain(match: re.Match[str]) -> Plain | None:
    sign, top, bottom, one, two, whole, decimals, under, percent, unit = match.groups()
    if top or one:
        number, below, decimals = int(top or one), int(bottom or two), None
    elif whole or decimals:
        digits = _SEPARATOR.sub("", whole or "") + (decimals or "")
        number, below = int(digits), 10 ** len(decimals or "")
        if under:
            if decimals:
                return None
            below = int(under)
    else:
        return None
    if below == 0:
        return None
    if sign == "-":
        number = -number
    if unit and _PERCENT.search(unit):
        percent, unit = "%", None
    return Plain(number, below, decimals is not None, percent is not None, unit is not None)


def settled(gold: str, answer: str, options: MathOptions) -> MathVerdict | None:
    """The verdict on a pair of numbers, or of texts that are the same; else None."""
    one, two = plain_number(gold), plain_number(answer)
    if one is not None and two is not None:
        return _numbers(one, two, options)
    if written(gold) == written(answer) and answer.strip():
        return MathVerdict("equal", f"equal as written: {shortened(answer)}", "normalize")
    return None


def _numbers(gold: Plain, answer: Plain, options: MathOptions) -> MathVerdict | None:
    if (gold.has_unit or answer.has_unit) and not (
        options.units and gold.has_unit != answer.has_unit
    ):
        return None
    if same_number(gold, answer, options):
        return MathVerdict("equal", f"equal as numbers: {_shown(gold)}", "normalize")
    return MathVerdict(
        "different", f"different numbers: {_shown(gold)} and {_shown(answer)}", "normalize"
    )


def same_number(gold: Plain, answer: Plain, options: MathOptions) -> bool:
    """Whether two literals are the same number; a whole percentage also equals its bare number."""
    one, two = (gold.top, gold.bottom), (answer.top, answer.bottom)
    whole = [number.bottom == 1 and not number.is_decimal for number in (gold, answer)]
    if gold.is_percent != answer.is_percent and all(whole) and gold.top == answer.top:
        return True
    one = (gold.top, gold.bottom * 100) if gold.is_percent else one
    two = (answer.top, answer.bottom * 100) if answer.is_percent else two
    bare = any(
        is_whole and not n.is_percent for is_whole, n in zip(whole, (gold, answer), strict=True)
    )
    is_decimal = (gold.is_decimal or answer.is_decimal) and not bare
    return agree(one, two, is_decimal=is_decimal, options=options)


def _shown(number: Plain) -> str:
    sign = "%" if number.is_percent else ""
    if number.bottom == 1:
        return shortened(f"{number.top}{sign}")
    if number.is_decimal:
        places = len(str(number.bottom)) - 1
        digits = str(abs(number.top)).zfill(places + 1)
        minus = "-" if number.top < 0 else ""
        return shortened(f"{minus}{digits[:-places]}.{digits[-places:]}{sign}")
    return shortened(f"{number.top}/{number.bottom}{sign}")


@lru_cache(maxsize=65536)
def written(text: str) -> str:
    """The text without what makes no difference to what it says: spaces, fonts, dollars, case of words."""
    if len(text) > LONGEST:
        return text.strip()
    text = without_markup(unwrapped(text))
    text = _TEXT.sub(lambda m: m[1].casefold() if len(m[1].strip()) > 1 else m[1], text)
    return _SPACE.sub("", text)


def shortened(text: str, length: int = 80) -> str:
    """The text, with its middle left out when it is long."""
    text = text.strip()
    return text if len(text) <= length else f"{text[: length - 21]}…{text[-20:]}"
