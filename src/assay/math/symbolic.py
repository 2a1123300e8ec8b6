# pyright: basic
"""Compare two answers with math-verify, in a worker process that can be killed: the last tier. Imported there alone."""

import logging
from functools import lru_cache
from typing import Any

from math_verify import LatexExtractionConfig, parse, verify
from sympy import Basic, Expr, Float, Integer, Product, Rational, Sum, binomial, factorial

logging.getLogger("math_verify").setLevel(logging.CRITICAL)

_RELATIVE = 1e-6
_DIGITS = 30  # to which two values are compared
_POINTS = (Rational(137, 128), Rational(59, 97), Rational(307, 211))
_WHOLE_POINTS = (
    Integer(5),
    Integer(8),
    Integer(11),
)  # for sums and factorials, which fractions make no sense in
_NO_LIMIT: Any = None  # the pool ends what takes too long


@lru_cache(maxsize=4096)
def parsed(text: str) -> tuple[Any, ...]:
    """What math-verify reads in an answer: a sympy object and the text, or the text alone."""
    boxed = f"\\boxed{{{text}}}"
    found = parse(boxed, extraction_config=[LatexExtractionConfig()], parsing_timeout=_NO_LIMIT)
    if not any(isinstance(thing, Basic) or hasattr(thing, "shape") for thing in found):
        found = parse(boxed, parsing_timeout=_NO_LIMIT)
    return tuple(found)


def compare(gold: str, answer: str, rounding: int) -> dict[str, bool]:
    """Whether math-verify takes the two for equal, and which of them it could read."""
    one, two = parsed(gold), parsed(answer)
    equal = bool(verify(list(one), list(two), float_rounding=rounding, timeout_seconds=None))
    return {
        "equal": equal and _is_confirmed(one, two),
        "gold": any(not isinstance(thing, str) for thing in one),
        "answer": any(not isinstance(thing, str) for thing in two),
    }


def _is_confirmed(one: tuple[Any, ...], two: tuple[Any, ...]) -> bool:
    """Whether both are expressions whose values agree at points of ours: math-verify rounds numbers to 15 places,
    and takes for equal what only reads alike.
    """
    if not (one and two and isinstance(one[0], Expr) and isinstance(two[0], Expr)):
        return False
    first, second = one[0].doit(), two[0].doit()
    is_decimal = first.has(Float) or second.has(Float)
    names = sorted(first.free_symbols | second.free_symbols, key=str)
    confirmed = False
    whole = (Sum, Product, factorial, binomial)
    for point in _WHOLE_POINTS if first.has(*whole) or second.has(*whole) else _POINTS:
        values: Any = {name: point + place for place, name in enumerate(names)}
        left, right = first.subs(values), second.subs(values)
        if not is_decimal and (left - right).is_Rational:
            if left != right and left - right != 0:
                return False
            confirmed = True
            continue
        try:
            left, right = (
                complex(side.evalf(_DIGITS)) if is_decimal else side.evalf(_DIGITS)
                for side in (left, right)
            )
            size, apart = max(abs(left), abs(right)), abs(left - right)
            if apart > (_RELATIVE if is_decimal else Rational(1, 10 ** (_DIGITS - 8))) * size:
                return False
            confirmed = True
        except (TypeError, ValueError, OverflowError):
            continue
    return confirmed
