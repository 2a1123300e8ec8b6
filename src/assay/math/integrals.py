"""Integrate polynomials, sines, cosines and exponentials between two finite limits, without sympy."""

from flint import fmpq

from assay.math import tree
from assay.math.rational_functions import NotRationalError, read_rational_function

_E = tree.Constant("e")
_INFINITY = tree.Constant("infinity")


class NoIntegralError(ValueError):
    """The integrand is not one of those that this module integrates."""


def integrate(
    integrand: tree.Node, variable: tree.Symbol, low: tree.Node, high: tree.Node
) -> tree.Node:
    """Return the integral as an expression of its limits.

    Raises `NoIntegralError` for any other integrand, for one with a second variable, and for
    infinite limits.
    """
    other_variables = tree.find_symbols(integrand) - {variable.name}
    if other_variables:
        raise NoIntegralError("an integral of several variables")
    if _INFINITY in tree.list_nodes(low) or _INFINITY in tree.list_nodes(high):
        raise NoIntegralError("an integral without a finite limit")
    antiderivative = _find_antiderivative(integrand, variable)
    value_at_high = tree.substitute(antiderivative, variable, high)
    value_at_low = tree.substitute(antiderivative, variable, low)
    return tree.Sum((value_at_high, tree.negate(value_at_low)))


def _find_antiderivative(node: tree.Node, variable: tree.Symbol) -> tree.Node:
    """Return an antiderivative of a polynomial, or of a function that is integrated by its form."""
    try:
        return _integrate_polynomial(node, variable)
    except (NotRationalError, NoIntegralError):
        return _integrate_by_form(node, variable)


def _integrate_polynomial(node: tree.Node, variable: tree.Symbol) -> tree.Node:
    """Return the antiderivative of a polynomial.

    Raises `NotRationalError` or `NoIntegralError` for any other expression.
    """
    numerator, denominator = read_rational_function(node)
    if denominator.degree() != 0:
        raise NoIntegralError("an integral of a quotient")
    divisor = denominator.coeffs()[0]
    terms: list[tree.Node] = []
    for power, coefficient in enumerate(numerator.integral().coeffs()):
        if coefficient == 0:
            continue
        monomial = tree.Power(variable, tree.Number(fmpq(power)))
        terms.append(tree.Product((tree.Number(coefficient / divisor), monomial)))
    if not terms:
        return tree.Number(fmpq(0))
    return tree.Sum(tuple(terms))


def _integrate_by_form(node: tree.Node, variable: tree.Symbol) -> tree.Node:
    """Return an antiderivative term by term, for sines, cosines and exponentials of ax + b."""
    match node:
        case tree.Sum(terms):
            return tree.Sum(tuple(_find_antiderivative(term, variable) for term in terms))
        case tree.Product(factors):
            return _integrate_product(factors, variable)
        case tree.Quotient(top, bottom) if not tree.find_symbols(bottom):
            return tree.Quotient(_find_antiderivative(top, variable), bottom)
        case tree.Apply("sin", (argument,)):
            cosine = tree.Apply("cos", (argument,))
            return tree.Quotient(tree.negate(cosine), _read_slope(argument))
        case tree.Apply("cos", (argument,)):
            sine = tree.Apply("sin", (argument,))
            return tree.Quotient(sine, _read_slope(argument))
        case tree.Power(base, exponent) if base == _E:
            return tree.Quotient(node, _read_slope(exponent))
        case _:
            raise NoIntegralError("an integral that only math-verify can compute")


def _integrate_product(factors: tuple[tree.Node, ...], variable: tree.Symbol) -> tree.Node:
    """Return the antiderivative of constants times a single factor with the variable."""
    constants = tuple(factor for factor in factors if not tree.find_symbols(factor))
    variable_factors = [factor for factor in factors if tree.find_symbols(factor)]
    if len(variable_factors) != 1:
        raise NoIntegralError("an integral of a product")
    return tree.Product((*constants, _find_antiderivative(variable_factors[0], variable)))


def _read_slope(argument: tree.Node) -> tree.Node:
    """Return a, where the argument is ax + b."""
    try:
        numerator, denominator = read_rational_function(argument)
    except NotRationalError as error:
        raise NoIntegralError(str(error)) from None
    if numerator.degree() != 1 or denominator.degree() != 0:
        raise NoIntegralError("an integral of a function of a function")
    return tree.Number(numerator.coeffs()[1] / denominator.coeffs()[0])
