# pyright: basic
"""Compare two answers with math-verify and sympy: the last tier, only used in worker processes."""

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
_EXACT_TOLERANCE = Rational(1, 10 ** (_DIGITS - 8))  # relative; the last digits may be rounded
# Values of the first variable at the points where two expressions are compared.
_FRACTIONS = (Rational(137, 128), Rational(59, 97), Rational(307, 211))
_WHOLE_NUMBERS = (Integer(5), Integer(8), Integer(11))
_FUNCTIONS_OF_WHOLE_NUMBERS = (Sum, Product, factorial, binomial)
_NO_TIMEOUT: Any = None  # the worker pool ends a comparison that takes too long


def compare(gold: str, answer: str, rounding: int) -> dict[str, bool]:
    """Return whether two answers are `equal`, and whether `gold` and `answer` could be read.

    math-verify reads the texts, but exact rules decide whether they are equal: its own comparison
    rounds numbers to 15 digits, and calls some answers equal that only look alike. It is used only
    if one side has a decimal, with `rounding` places.
    """
    gold_readings = read(gold)
    answer_readings = read(answer)
    return {
        "equal": _are_equal(gold_readings, answer_readings, rounding),
        "gold": _has_expression(gold_readings),
        "answer": _has_expression(answer_readings),
    }


@lru_cache(maxsize=4096)
def read(text: str) -> tuple[Any, ...]:
    """Return what math-verify reads in an answer: a sympy object and a text, or only a text."""
    boxed = f"\\boxed{{{text}}}"
    readings = parse(
        boxed, extraction_config=[LatexExtractionConfig()], parsing_timeout=_NO_TIMEOUT
    )
    has_sympy_object = any(isinstance(item, Basic) or hasattr(item, "shape") for item in readings)
    if not has_sympy_object:
        # The default configuration also reads what is not LaTeX.
        readings = parse(boxed, parsing_timeout=_NO_TIMEOUT)
    return tuple(readings)


def _has_expression(readings: tuple[Any, ...]) -> bool:
    """Return True if math-verify read more than a text."""
    return any(not isinstance(item, str) for item in readings)


def _are_equal(
    gold_readings: tuple[Any, ...], answer_readings: tuple[Any, ...], rounding: int
) -> bool:
    """Return True if both sides are expressions with values, and their difference is exactly 0.

    If one side has a decimal, they must agree to six digits, and be equal for math-verify.
    """
    if not gold_readings or not answer_readings:
        return False
    gold = gold_readings[0]
    answer = answer_readings[0]
    if not isinstance(gold, Expr) or not isinstance(answer, Expr):
        return False
    gold = gold.doit()
    answer = answer.doit()
    if _has_no_value(gold) or _has_no_value(answer):
        return False
    is_decimal = gold.has(Float) or answer.has(Float)
    if gold == answer and not is_decimal:
        return True
    if not _agree_at_points(gold, answer, is_decimal=is_decimal):
        return False
    if not is_decimal:
        return _is_zero(gold - answer)
    is_equal = verify(
        list(gold_readings),
        list(answer_readings),
        float_rounding=rounding,
        timeout_seconds=None,
    )
    return bool(is_equal)


def _has_no_value(expression: Any) -> bool:
    """Return True if an expression is infinite or undefined, or has such a part."""
    return expression.has(nan, oo, zoo)


def _agree_at_points(gold: Any, answer: Any, *, is_decimal: bool) -> bool:
    """Return True if two expressions have the same values at a few points.

    Points where one of them has no value are left out; at least one has to remain.
    """
    has_value = False
    for point in _choose_points(gold, answer):
        gold_value = gold.subs(point)
        answer_value = answer.subs(point)
        try:
            if is_decimal:
                is_near = _is_near_as_decimal(gold_value, answer_value)
            else:
                is_near = _is_near(gold_value, answer_value)
        except (TypeError, ValueError, OverflowError):
            continue  # one of the two has no value at this point
        if not is_near:
            return False
        has_value = True
    return has_value


def _choose_points(gold: Any, answer: Any) -> Iterator[dict[Any, Any]]:
    """Yield a few points: a value for each variable.

    They are whole numbers if a function is defined only for these, such as the factorial.
    """
    variables = sorted(gold.free_symbols | answer.free_symbols, key=str)
    if not variables:
        yield {}
        return
    needs_whole_numbers = gold.has(*_FUNCTIONS_OF_WHOLE_NUMBERS) or answer.has(
        *_FUNCTIONS_OF_WHOLE_NUMBERS
    )
    first_values = _WHOLE_NUMBERS if needs_whole_numbers else _FRACTIONS
    for first_value in first_values:
        yield {variable: first_value + index for index, variable in enumerate(variables)}


def _is_near(gold: Any, answer: Any) -> bool:
    """Return True if two exact values agree to nearly all computed digits."""
    difference = gold - answer
    if difference.is_Rational:
        return difference == 0
    gold_number = gold.evalf(_DIGITS)
    answer_number = answer.evalf(_DIGITS)
    magnitude = max(abs(gold_number), abs(answer_number))
    return bool(abs(gold_number - answer_number) <= _EXACT_TOLERANCE * magnitude)


def _is_near_as_decimal(gold: Any, answer: Any) -> bool:
    """Return True if two values agree to six digits."""
    gold_number = complex(gold.evalf(_DIGITS))
    answer_number = complex(answer.evalf(_DIGITS))
    magnitude = max(abs(gold_number), abs(answer_number))
    return abs(gold_number - answer_number) <= _DECIMAL_TOLERANCE * magnitude


def _is_zero(difference: Any) -> bool:
    """Return True if an expression is 0 by exact rules. Digits that agree are not a proof."""
    return difference == 0 or expand(difference) == 0 or simplify(difference) == 0
