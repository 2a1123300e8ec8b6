"""Numerals: literals as exact numbers, and decimals that go on for ever."""

import re
from typing import Final

from flint import fmpq

from assay.math.tokens import UnreadableError
from assay.math.tree import Number

_MOST_DIGITS: Final = 3000
_RECURRING: Final = re.compile(r"(\d*?)(\d+?)\2+\Z")
_LOOKED_AT: Final = 60


def literal(text: str) -> Number:
    """A literal as an exact number.

    >>> literal("1,234.5")
    Number(value=2469/2, decimal=True)
    """
    if len(text) > _MOST_DIGITS:
        raise UnreadableError(f"a number of {len(text)} digits is too long")
    mantissa, _, exponent = text.lower().replace(",", "").replace(" ", "").partition("e")
    whole, point, decimals = mantissa.partition(".")
    if len(exponent) > 6:
        raise UnreadableError(f"the number {text} is too long to write out")
    power = int(exponent or 0) - len(decimals)
    if abs(power) > _MOST_DIGITS:
        raise UnreadableError(f"the number {text} is too long to write out")
    digits = int((whole + decimals) or "0")
    value = fmpq(digits * 10**power) if power >= 0 else fmpq(digits, 10**-power)
    return Number(value, bool(point) or bool(exponent))


def repeating(whole: str, decimals: str, period: str) -> fmpq:
    """The number whose last digits repeat for ever.

    >>> repeating("0", "1", "6")
    1/6
    """
    if len(decimals) + len(period) > _MOST_DIGITS:
        raise UnreadableError("a recurring decimal is too long")
    shift, cycle = 10 ** len(decimals), 10 ** len(period) - 1
    return fmpq(int((whole or "0") + decimals), shift) + fmpq(int(period), shift * cycle)


def recurring(text: str) -> Number:
    """A decimal with an ellipsis behind it, where its digits have begun to repeat.

    >>> recurring("0.1666")
    Number(value=1/6, decimal=False)
    """
    whole, _, decimals = text.partition(".")
    end = decimals[-_LOOKED_AT:]
    match = _RECURRING.match(end)
    if match is None or len(end) - len(match[1]) < max(3, 2 * len(match[2])):
        raise UnreadableError(f"{text}… has no digits that repeat")
    head = decimals[: len(decimals) - len(end)] + match[1]
    return Number(repeating(whole, head, match[2]))
