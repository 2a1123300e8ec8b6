"""How near to 0 an algebraic number can be without being 0.

After Burnikel, Funke, Mehlhorn, Schirra and Schmitt, "A separation bound for real algebraic
expressions" (2001): a number built from integers by + − · / and roots is 0, or at least
u^(1−D)/l in size, where D is the product of the indices of its roots. A ball smaller than that
around 0 proves that the number is 0.
"""

import math
from typing import Final, NamedTuple

from flint import fmpq, fmpz

from assay.math.tree import (
    Apply,
    Constant,
    Node,
    Number,
    Percent,
    Power,
    Product,
    Quantity,
    Quotient,
    Sum,
)

MOST_BITS: Final = 12_000
_CIRCULAR: Final = frozenset({"sin", "cos"})


class NotAlgebraicError(ValueError):
    """The expression holds something that is no root of a polynomial, as far as is known."""


class Size(NamedTuple):
    """Bounds on the conjugates of numerator and denominator, as logarithms to base 2."""

    upper: float
    lower: float


def bits_to_prove_zero(one: Node, two: Node) -> int:
    """The precision at which a ball around the difference of two numbers proves it to be 0."""
    degrees: dict[Node, int] = {}
    left, right = _size(one, degrees), _size(two, degrees)
    upper, lower = _added(left, right)
    degree = math.prod(degrees.values())
    needed = (degree - 1) * upper + lower + 8
    if not needed < MOST_BITS:
        raise NotAlgebraicError(f"{degree} conjugates are too many")
    return int(needed)


def _size(node: Node, degrees: dict[Node, int]) -> Size:
    match node:
        case Number(value):
            return Size(_log(value.p), _log(value.q))
        case Sum(terms):
            total = _size(terms[0], degrees)
            for term in terms[1:]:
                total = _added(total, _size(term, degrees))
            return total
        case Product(factors):
            sizes = [_size(factor, degrees) for factor in factors]
            return Size(sum(s.upper for s in sizes), sum(s.lower for s in sizes))
        case Quotient(top, bottom):
            above, below = _size(top, degrees), _size(bottom, degrees)
            return Size(above.upper + below.lower, above.lower + below.upper)
        case Percent(value):
            inside = _size(value, degrees)
            return Size(inside.upper, inside.lower + _log(fmpz(100)))
        case Power(base, exponent):
            return _power(node, _size(base, degrees), _rational(exponent), degrees)
        case Apply("root", (radicand, index)):
            return _power(node, _size(radicand, degrees), 1 / _rational(index), degrees)
        case Apply(function, (argument,)) if function in _CIRCULAR:
            return _turn(node, argument, degrees)
        case Constant("i"):
            degrees[node] = 2
            return Size(0.0, 0.0)
        case _:
            raise NotAlgebraicError(f"{type(node).__name__} is not known to be algebraic")


def _log(number: fmpz) -> float:
    return math.log2(max(1, abs(int(number)))) + 1e-9


def _added(one: Size, two: Size) -> Size:
    first, second = one.upper + two.lower, two.upper + one.lower
    return Size(max(first, second) + 1, one.lower + two.lower)


def _power(node: Node, base: Size, exponent: fmpq, degrees: dict[Node, int]) -> Size:
    index, power = int(exponent.q), int(exponent.p)
    if abs(power) > 1000 or index > 64:
        raise NotAlgebraicError("a power too high")
    if index > 1:
        degrees[node] = index
        if base.upper >= base.lower:
            base = Size((base.upper + (index - 1) * base.lower) / index, base.lower)
        else:
            base = Size(base.upper, ((index - 1) * base.upper + base.lower) / index)
    size = Size(base.upper * abs(power), base.lower * abs(power))
    return size if power >= 0 else Size(size.lower, size.upper)


def _turn(node: Node, argument: Node, degrees: dict[Node, int]) -> Size:
    """2cos and 2sin of a rational multiple of π are algebraic integers, at most 2 in size."""
    turn = _turns(argument)
    degrees[node] = max(1, 2 * int(fmpz(4 * turn.q).euler_phi()))
    return Size(1.0, 1.0)


def _turns(node: Node) -> fmpq:
    """The multiple of π that an angle is."""
    match node:
        case Constant("pi"):
            return fmpq(1)
        case Quantity(value, "degree"):
            return _rational(value) / 180
        case Quotient(top, bottom):
            return _turns(top) / _rational(bottom)
        case Product(factors):
            angles = [factor for factor in factors if not isinstance(factor, Number)]
            if len(angles) == 1:
                numbers = [_rational(factor) for factor in factors if isinstance(factor, Number)]
                return _turns(angles[0]) * math.prod(numbers, start=fmpq(1))
            if len(angles) == 2:
                return _turns(angles[1]) * _rational(angles[0])
            raise NotAlgebraicError("the angle is no simple multiple of pi")
        case _:
            raise NotAlgebraicError("the angle is no multiple of pi")


def _rational(node: Node) -> fmpq:
    match node:
        case Number(value):
            return value
        case Quotient(top, bottom):
            below = _rational(bottom)
            if below == 0:
                raise NotAlgebraicError("a division by 0")
            return _rational(top) / below
        case Product(factors):
            return math.prod((_rational(factor) for factor in factors), start=fmpq(1))
        case _:
            raise NotAlgebraicError("no rational number")
