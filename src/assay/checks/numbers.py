"""Numbers out of text, exactly: as fractions, never as floats."""

import re
from collections import deque
from decimal import Decimal
from fractions import Fraction
from numbers import Rational, Real

_DIGITS = r"(?:[0-9]{1,3}(?:,[0-9]{3})++(?![0-9])|[0-9]++)(?:\.[0-9]++)?+|\.[0-9]++"
_REAL = rf"(?:{_DIGITS})(?:[eE][-+]?[0-9]++)?+"
_NUMBER = re.compile(rf"(?<![A-Za-z0-9_.])([-+\u2212]?+)({_REAL})(?:[ ]?/[ ]?({_REAL}))?+")

_MOST_DIGITS = 1000
"""Longer numbers, and larger exponents, are refused: one `1e999999999` would fill the memory."""


def exact(value: object) -> Fraction:
    """The exact value of a number or of a text that is one: `1,000`, `-2.5`, `3/4`, `6e23`.

    A float counts as the decimal it is written as. Raises `ValueError` for anything else.

    >>> exact("1,000.5"), exact(0.1)
    (Fraction(2001, 2), Fraction(1, 10))
    """
    if isinstance(value, Rational) and not _is_bool(value):
        return Fraction(value)
    if isinstance(value, Real | Decimal) and not _is_bool(value):
        value = str(value)
    match = _NUMBER.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is not None:
        return _fraction(match)
    raise ValueError(f"{value!r:.100} is no number: write it as 12, 1,250.5, 3/4 or 6e23")


def _is_bool(value: object) -> bool:
    return isinstance(value, bool)


def last_number(text: str) -> Fraction | None:
    """The last number in a text, or None. A minus after a letter or digit is none of its.

    >>> last_number("half of 3 is 3/2, or 1.50.")
    Fraction(3, 2)
    """
    found = deque(_NUMBER.finditer(text), maxlen=1)
    return _fraction(found[0]) if found else None


def _fraction(match: re.Match[str]) -> Fraction:
    sign, above, below = match.groups()
    divisor = _real(below or "1")
    if not divisor:
        raise ValueError(f"{match[0]!r:.100} divides by zero")
    value = _real(above) / divisor
    return -value if sign in ("-", "\u2212") else value


def _real(digits: str) -> Fraction:
    exponent = digits.lower().partition("e")[2]
    if len(digits) > _MOST_DIGITS or abs(int(exponent or 0)) > _MOST_DIGITS:
        raise ValueError(f"the number {digits[:20]}… is too large to compare exactly")
    return Fraction(digits.replace(",", ""))
