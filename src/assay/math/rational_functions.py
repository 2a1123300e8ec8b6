"""Read expressions of one variable as rational functions: quotients of polynomials."""

from typing import Final

from flint import fmpq, fmpq_poly

from assay.math import tree

_MAX_DEGREE: Final = 40
_MAX_BITS: Final = 20_000  # of a coefficient
_ONE: Final = fmpq_poly([1])
_VARIABLE: Final = fmpq_poly([0, 1])

RationalFunction = tuple[fmpq_poly, fmpq_poly]  # numerator and denominator


class NotRationalError(ValueError):
    """The expression is not a rational function, or one that is too large."""


def read_rational_function(node: tree.Node) -> RationalFunction:
    """Return an expression of one variable as a numerator and a denominator, which are polynomials.

    Common factors are not removed, so that the denominator is 0 wherever a part of the expression
    has no value. Raises `NotRationalError` for any other expression.
    """
    match node:
        case tree.Number(value):
            return fmpq_poly([value]), _ONE
        case tree.Symbol():
            return _VARIABLE, _ONE
        case tree.Sum(terms):
            numerator, denominator = _add_all(terms)
        case tree.Product(factors):
            numerator, denominator = _multiply_all(factors)
        case tree.Quotient(top, bottom):
            top_numerator, top_denominator = read_rational_function(top)
            bottom_numerator, bottom_denominator = read_rational_function(bottom)
            # Extended by the denominator of the divisor, so that the denominator of the result is 0
            # where the divisor has no value.
            numerator = top_numerator * bottom_denominator * bottom_denominator
            denominator = bottom_numerator * top_denominator * bottom_denominator
        case tree.Power(base, tree.Number(exponent)) if exponent.q == 1:
            numerator, denominator = _raise_to(read_rational_function(base), exponent)
        case _:
            raise NotRationalError("no rational function")
    if not denominator or _find_degree(numerator, denominator) > _MAX_DEGREE:
        raise NotRationalError("a division by 0, or too high a degree")
    if _count_bits(numerator, denominator) > _MAX_BITS:
        raise NotRationalError("too large a number")
    return numerator, denominator


def _add_all(terms: tuple[tree.Node, ...]) -> RationalFunction:
    """Return the sum of expressions as a rational function."""
    numerator, denominator = read_rational_function(terms[0])
    for term in terms[1:]:
        term_numerator, term_denominator = read_rational_function(term)
        numerator = numerator * term_denominator + term_numerator * denominator
        denominator *= term_denominator
        _require_low_degree(numerator, denominator)
    return numerator, denominator


def _multiply_all(factors: tuple[tree.Node, ...]) -> RationalFunction:
    """Return the product of expressions as a rational function."""
    numerator, denominator = read_rational_function(factors[0])
    for factor in factors[1:]:
        factor_numerator, factor_denominator = read_rational_function(factor)
        numerator *= factor_numerator
        denominator *= factor_denominator
        _require_low_degree(numerator, denominator)
    return numerator, denominator


def _raise_to(base: RationalFunction, exponent: fmpq) -> RationalFunction:
    """Raise a rational function to a whole power, which may be negative."""
    numerator, denominator = base
    size = abs(int(exponent.p))
    if size * max(1, _find_degree(numerator, denominator)) > _MAX_DEGREE:
        raise NotRationalError("too high a degree")
    if size * _count_bits(numerator, denominator) > _MAX_BITS:
        raise NotRationalError("too large a number")
    numerator = numerator**size
    denominator = denominator**size
    if exponent < 0:
        # The reciprocal is extended by the old denominator. So the new one is 0 where the base has
        # no value: (1/x)^(-1) has none at 0, although it is x.
        return denominator * denominator, numerator * denominator
    return numerator, denominator


def _require_low_degree(numerator: fmpq_poly, denominator: fmpq_poly) -> None:
    if _find_degree(numerator, denominator) > _MAX_DEGREE:
        raise NotRationalError("too high a degree")


def _find_degree(numerator: fmpq_poly, denominator: fmpq_poly) -> int:
    return max(numerator.degree(), denominator.degree())


def _count_bits(numerator: fmpq_poly, denominator: fmpq_poly) -> int:
    """Return the length of the longest coefficient."""
    coefficients = [*numerator.coeffs(), *denominator.coeffs()]
    return max((value.p.bit_length() + value.q.bit_length() for value in coefficients), default=0)
