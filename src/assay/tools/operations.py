"""Operations: what a calculator can do with numbers. No result is larger than `MOST_BITS`.

What could grow without bound is measured before it is worked out, so nothing here takes long.
"""

import math
from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeAlias, cast

Number: TypeAlias = int | float

MOST_BITS: Final = 10_000
"""The size of the largest whole number: about 3,000 digits, which Python still writes out."""
MOST_FACTORIAL: Final = 1_000
MOST_PLACES: Final = 1_000
"""Decimal places, before or after the point, that can be rounded to."""


class Function(NamedTuple):
    """A function with the fewest and the most numbers it takes."""

    call: Callable[..., Any]
    fewest: int = 1
    most: int | None = 1
    """None when it takes any number of them."""

    def refusal(self, given: int) -> str:
        """What is wrong with so many numbers; empty when nothing is."""
        if given >= self.fewest and (self.most is None or given <= self.most):
            return ""
        if self.most is None:
            wanted = f"{self.fewest} number or more"
        elif self.most == self.fewest:
            wanted = "1 number" if self.most == 1 else f"{self.most} numbers"
        else:
            wanted = f"{self.fewest} or {self.most} numbers"
        return f"takes {wanted}, and was given {given}"


def bounded(value: Any) -> Number:
    """A result, if it is a real number of a size that can be shown."""
    if isinstance(value, complex):
        raise ValueError("the result is not a real number")
    if isinstance(value, int):
        if value.bit_length() > MOST_BITS:
            raise ValueError(_TOO_LARGE)
        return value
    if not math.isfinite(value):
        raise ValueError(_TOO_LARGE)
    return cast("float", value)


def power(base: Number, exponent: Number) -> Any:
    """`base ** exponent`, refused before it is worked out when it would be too large."""
    if isinstance(base, int) and isinstance(exponent, int) and exponent > 0:
        # A number of so many bits is at least 2 to the power of one less.
        least = (abs(base).bit_length() - 1) * exponent
        if least > MOST_BITS:
            raise ValueError(_TOO_LARGE)
    return base**exponent


def _factorial(number: Number) -> int:
    if not isinstance(number, int) or not 0 <= number <= MOST_FACTORIAL:
        raise ValueError(f"factorial takes a whole number from 0 to {MOST_FACTORIAL:,}")
    return math.factorial(number)


def _rounded(number: Number, places: Number | None = None) -> Number:
    if places is None:
        return round(number)
    if not isinstance(places, int) or abs(places) > MOST_PLACES:
        raise ValueError(f"round takes a whole number of places, {MOST_PLACES:,} at most")
    return round(number, places)


def _least(*numbers: Number) -> Number:
    return min(numbers)


def _greatest(*numbers: Number) -> Number:
    return max(numbers)


CONSTANTS: Final = {"e": math.e, "pi": math.pi}

FUNCTIONS: Final = {
    "abs": Function(abs),
    "acos": Function(math.acos),
    "asin": Function(math.asin),
    "atan": Function(math.atan),
    "ceil": Function(math.ceil),
    "cos": Function(math.cos),
    "degrees": Function(math.degrees),
    "exp": Function(math.exp),
    "factorial": Function(_factorial),
    "floor": Function(math.floor),
    "log": Function(math.log, 1, 2),
    "log10": Function(math.log10),
    "log2": Function(math.log2),
    "max": Function(_greatest, 1, None),
    "min": Function(_least, 1, None),
    "pow": Function(power, 2, 2),
    "radians": Function(math.radians),
    "round": Function(_rounded, 1, 2),
    "sin": Function(math.sin),
    "sqrt": Function(math.sqrt),
    "tan": Function(math.tan),
}

_TOO_LARGE = f"the result is too large: whole numbers end at {MOST_BITS:,} bits, others at 1.8e308"
