# pyright: basic
"""Compare two answers with math-verify and sympy: the last tier, imported in worker processes only."""

import logging
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from math_verify import LatexExtractionConfig, parse, verify
from sympy import (
    Basic,
    Expr,
    Float,
    Integer,
    Product,
    Rational,
    Sum,
    binomial,
    expand,
    factorial,
    nan,
    oo,
    simplify,
    zoo,
)

logging.getLogger("math_verify").setLevel(logging.CRITICAL)

_DECIMAL_TOLERANCE = 1e-6  # relative, where one side is written as a decimal
_DIGITS = 30
_EXACT_TOLERANCE = Rational(1, 10 ** (_DIGITS - 8))
_POINTS = (Rational(137, 128), Rational(59, 97), Rational(307, 211))
_WHOLE_POINTS = (Integer(5), Integer(8), Integer(11))
_OF_WHOLE_NUMBERS = (Sum, Product, factorial, binomial)
_NO_LIMIT: Any = None  # the pool ends what takes too long


def compare(gold: str, answer: str, rounding: int) -> dict[str, bool]:
    """Return whether the two are equal, and whether the gold and the answer could be read.

    math-verify reads the texts. Whether they are equal is settled by exact rules: its own comparison rounds
    numbers to 15 digits, and calls equal what only reads alike. It is asked where one side has a decimal.
    """
    gold_reading = read(gold)
    answer_reading = read(answer)
    return {
        "equal": _are_equal(gold_reading, answer_reading, rounding),
        "gold": any(not isinstance(item, str) for item in gold_reading),
        "answer": any(not isinstance(item, str) for item in answer_reading),
    }


@lru_cache(maxsize=4096)
def read(text: str) -> tuple[Any, ...]:
    """Return what math-verify reads in an answer: a sympy object and the text, or the text alone."""
    boxed = f"\\boxed{{{text}}}"
    reading = parse(boxed, extraction_config=[LatexExtractionConfig()], parsing_timeout=_NO_LIMIT)
    if not any(isinstance(item, Basic) or hasattr(item, "shape") for item in reading):
        reading = parse(boxed, parsing_timeout=_NO_LIMIT)
    return tuple(reading)


def _are_equal(
    gold_reading: tuple[Any, ...], answer_reading: tuple[Any, ...], rounding: int
) -> bool:
    """Return True if both are expressions with values, and their difference is exactly 0.

    If one side has a decimal, they must agree to six digits, and be equal for math-verify.
    """
    if not gold_reading or not answer_reading:
        return False
    gold, answer = gold_reading[0], answer_reading[0]
    if not isinstance(gold, Expr) or not isinstance(answer, Expr):
        return False
    gold, answer = gold.doit(), answer.doit()
    if _has_no_value(gold) or _has_no_value(answer):
        return False
    is_decimal = gold.has(Float) or answer.has(Float)
    if not _agree_at_points(gold, answer, is_decimal=is_decimal):
        return False
    if not is_decimal:
        return _is_zero(gold - answer)
    return bool(
        verify(
            list(gold_reading),
            list(answer_reading),
            float_rounding=rounding,
            timeout_seconds=None,
        )
    )


def _has_no_value(expression: Any) -> bool:
    return expression.has(nan, oo, zoo)


def _is_zero(difference: Any) -> bool:
    """Return True if an expression is 0 by exact rules. Digits that agree are no proof."""
    return difference == 0 or expand(difference) == 0 or simplify(difference) == 0


def _agree_at_points(gold: Any, answer: Any, *, is_decimal: bool) -> bool:
    """Return True if the two agree wherever both have a value, and have one at some point."""
    has_value = False
    for point in _points(gold, answer):
        gold_value, answer_value = gold.subs(point), answer.subs(point)
        try:
            if is_decimal:
                is_near = _is_near_as_decimal(gold_value, answer_value)
            else:
                is_near = _is_near(gold_value, answer_value)
        except (TypeError, ValueError, OverflowError):  # no value at this point
            continue
        if not is_near:
            return False
        has_value = True
    return has_value


def _points(gold: Any, answer: Any) -> Iterator[dict[Any, Any]]:
    """Yield values for the variables: whole numbers where fractions make no sense."""
    names = sorted(gold.free_symbols | answer.free_symbols, key=str)
    needs_whole = gold.has(*_OF_WHOLE_NUMBERS) or answer.has(*_OF_WHOLE_NUMBERS)
    for first_value in _WHOLE_POINTS if needs_whole else _POINTS:
        yield {name: first_value + number for number, name in enumerate(names)}


def _is_near(gold: Any, answer: Any) -> bool:
    difference = gold - answer
    if difference.is_Rational:
        return difference == 0
    gold, answer = gold.evalf(_DIGITS), answer.evalf(_DIGITS)
    size = max(abs(gold), abs(answer))
    return bool(abs(gold - answer) <= _EXACT_TOLERANCE * size)


def _is_near_as_decimal(gold: Any, answer: Any) -> bool:
    gold, answer = complex(gold.evalf(_DIGITS)), complex(answer.evalf(_DIGITS))
    size = max(abs(gold), abs(answer))
    return abs(gold - answer) <= _DECIMAL_TOLERANCE * size
