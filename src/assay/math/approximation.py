"""Read chains with `≈`, in which a less exact number follows an exact one."""

from itertools import pairwise
from math import isfinite
from typing import Final

from flint import fmpq

from assay.math import tree
from assay.math.balls import TooLargeError, UndefinedError, compute_ball, is_real
from assay.math.size import is_small
from assay.math.tokens import UnreadableError

_MAX_DIGITS: Final = 50  # before and behind the point of an approximation


def keep_exact_part(sides: list[tree.Node], operators: list[str]) -> tree.Node:
    """Return a chain of relations without the approximations at its end: `x = π ≈ 3.14` is `x = π`.

    `operators` are those between the sides; `about` stands for `≈`. In `x ≈ 3.14` there is no exact
    number, so `≈` is read as `=`. Raises `UnreadableError` if a number is not an approximation of
    the one before it.
    """
    if "about" in operators:
        index = operators.index("about")
        for exact, approximation in pairwise(sides[index:]):
            if not _is_approximation(exact, approximation):
                raise UnreadableError("a number is not approximately another one")
        if index == 0 and isinstance(sides[0], tree.Symbol | tree.Words):
            operators = ["=" if operator == "about" else operator for operator in operators]
        else:
            sides = sides[: index + 1]
            operators = operators[:index]
    if not operators:
        return sides[0]
    return tree.Relation(tuple(sides), tuple(operators))


def _is_approximation(exact: tree.Node, approximation: tree.Node) -> bool:
    """Return True if the second number is the first one, rounded or cut off at its last digit.

    `2/3 ≈ 0.66` and `12345 ≈ 12000` hold, `3 ≈ 4` does not. A fraction must agree to one per cent.
    What has no value as a number is not judged.
    """
    exact_value = _compute(exact)
    approximate_value = _compute(approximation)
    if exact_value is None or approximate_value is None:
        return True
    difference = abs(exact_value - approximate_value)
    if not isfinite(difference):
        return True
    last_digit = _find_last_digit(_remove_unit(approximation))
    if last_digit is None:
        return difference <= abs(exact_value) / 100
    is_rounded = difference <= last_digit * 0.501
    is_cut_off = abs(approximate_value) <= abs(exact_value) and difference < last_digit
    return is_rounded or is_cut_off


def _compute(node: tree.Node) -> float | None:
    """Return the value of an expression, or None if it is not a real number or hard to compute."""
    if tree.find_symbols(node) or not is_small(node):
        return None
    try:
        value = compute_ball(_remove_unit(node), {}, 64)
    except (UndefinedError, TooLargeError):
        return None
    if not is_real(value):
        return None
    return float(value.str(17, radius=False))


def _remove_unit(node: tree.Node) -> tree.Node:
    """Return the value of a quantity, and anything else as it is."""
    return node.value if isinstance(node, tree.Quantity) else node


def _find_last_digit(node: tree.Node) -> float | None:
    """Return the place value of the last digit that is not 0: 0.01 for 3.14, 1000 for 12000.

    None for a number without a last digit, such as 22/7.
    """
    number = tree.evaluate_rational(node)
    if number is None or number == 0:
        return None
    # The number is a whole multiple of its place value. Go down until it is one.
    place_value = fmpq(1)
    for _ in range(_MAX_DIGITS):
        if (number / place_value).q == 1:
            break
        place_value /= 10
    else:
        return None
    # Go up while it stays one, over the zeros at the end.
    for _ in range(_MAX_DIGITS):
        if (number / (place_value * 10)).q != 1:
            break
        place_value *= 10
    return int(place_value.p) / int(place_value.q)
