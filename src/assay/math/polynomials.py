"""Polynomials over atoms with exact coefficients, and their quotients: what is needed to test for 0.

An atom is a number: a variable, π, a root, sin u. Some satisfy an equation, such as (√2)² = 2.
"""

from typing import Final, NamedTuple, TypeAlias

from flint import fmpq

Monomial: TypeAlias = tuple[tuple[int, int], ...]
"""Pairs of an atom's number and its power, sorted; `()` is 1."""
Polynomial: TypeAlias = dict[Monomial, fmpq]

MOST_TERMS: Final = 400
MOST_POWERS: Final = 200


class TooComplexError(ValueError):
    """The expression grows beyond what exact arithmetic is worth."""


class Ratio(NamedTuple):
    """A quotient of polynomials."""

    top: Polynomial
    bottom: Polynomial


ONE: Final[Polynomial] = {(): fmpq(1)}


def constant(value: fmpq) -> Ratio:
    return Ratio({(): value} if value != 0 else {}, ONE)


def variable(atom: int) -> Ratio:
    return Ratio({((atom, 1),): fmpq(1)}, ONE)


def plus(left: Polynomial, right: Polynomial) -> Polynomial:
    total = dict(left)
    for monomial, coefficient in right.items():
        value = total.get(monomial, 0) + coefficient
        if value == 0:
            del total[monomial]
        else:
            total[monomial] = value
    return total


def times(left: Polynomial, right: Polynomial) -> Polynomial:
    if right is ONE:
        return left
    if left is ONE:
        return right
    if len(left) * len(right) > MOST_TERMS * 10:
        raise TooComplexError(f"a product of {len(left)} by {len(right)} terms")
    product: Polynomial = {}
    for one, first in left.items():
        for two, second in right.items():
            monomial = _joined(one, two)
            value = product.get(monomial, 0) + first * second
            if value == 0:
                del product[monomial]
            else:
                product[monomial] = value
    if len(product) > MOST_TERMS:
        raise TooComplexError(f"a polynomial of {len(product)} terms")
    return product


def _joined(left: Monomial, right: Monomial) -> Monomial:
    if not left:
        return right
    if not right:
        return left
    powers = dict(left)
    for atom, power in right:
        powers[atom] = powers.get(atom, 0) + power
    return tuple(sorted(powers.items()))


def scaled(polynomial: Polynomial, factor: fmpq) -> Polynomial:
    return {monomial: coefficient * factor for monomial, coefficient in polynomial.items()}


def rational(ratio: Ratio) -> fmpq | None:
    """The number that the ratio is, when no atom is left in it."""
    if not ratio.top:
        return fmpq(0)
    if ratio.top.keys() == {()} and ratio.bottom.keys() == {()}:
        return ratio.top[()] / ratio.bottom[()]
    return None


def content(polynomial: Polynomial) -> fmpq:
    """The positive number that can be taken out so that whole numbers without a common factor stay."""
    values = list(polynomial.values())
    top, bottom = abs(values[0].p), values[0].q
    for value in values[1:]:
        top = top.gcd(value.p)
        bottom = bottom.lcm(value.q)
    return fmpq(top, bottom)


def common_powers(polynomial: Polynomial) -> Monomial:
    """The largest monomial that divides every term."""
    shared: dict[int, int] | None = None
    for monomial in polynomial:
        powers = dict(monomial)
        if shared is None:
            shared = powers
        else:
            shared = {
                atom: min(power, powers[atom]) for atom, power in shared.items() if atom in powers
            }
        if not shared:
            return ()
    return tuple(sorted((shared or {}).items()))


def divided(polynomial: Polynomial, divisor: Monomial) -> Polynomial:
    """Every term with the divisor's powers taken off; they must be there."""
    less = dict(divisor)
    return {
        tuple(
            (atom, power - less.get(atom, 0))
            for atom, power in monomial
            if power > less.get(atom, 0)
        ): value
        for monomial, value in polynomial.items()
    }
