"""Integrate polynomials, sines, cosines and exponential functions between two limits, without sympy."""

from flint import fmpq

from assay.math import tree
from assay.math.relations import NoSetError, fraction_of

_E = tree.Constant("e")
_INFINITY = tree.Constant("infinity")


class NoIntegralError(ValueError):
    """The integrand is not one of those that are integrated here."""


def integrate(
    integrand: tree.Node, variable: tree.Symbol, low: tree.Node, high: tree.Node
) -> tree.Node:
    """Return the integral as an expression of its limits.

    Raises `NoIntegralError` for other integrands, for those with a second variable, and for infinite limits.
    """
    if tree.symbols_of(integrand) - {variable.name}:
        raise NoIntegralError("an integral of several variables")
    if _INFINITY in tree.nodes_of(low) or _INFINITY in tree.nodes_of(high):
        raise NoIntegralError("an integral without a finite limit")
    antiderivative = _integrate(integrand, variable)
    at_high = tree.replaced(antiderivative, variable, high)
    at_low = tree.replaced(antiderivative, variable, low)
    return tree.Sum((at_high, tree.negated(at_low)))


def _integrate(node: tree.Node, variable: tree.Symbol) -> tree.Node:
    """Return an antiderivative."""
    try:
        return _integrate_polynomial(node, variable)
    except (NoSetError, NoIntegralError):
        pass
    match node:
        case tree.Sum(terms):
            return tree.Sum(tuple(_integrate(term, variable) for term in terms))
        case tree.Product(factors):
            constants = tuple(factor for factor in factors if not tree.symbols_of(factor))
            others = [factor for factor in factors if tree.symbols_of(factor)]
            if len(others) != 1:
                raise NoIntegralError("an integral of a product")
            return tree.Product((*constants, _integrate(others[0], variable)))
        case tree.Quotient(top, bottom) if not tree.symbols_of(bottom):
            return tree.Quotient(_integrate(top, variable), bottom)
        case tree.Apply("sin", (argument,)):
            cosine = tree.Apply("cos", (argument,))
            return tree.Quotient(tree.negated(cosine), _slope(argument))
        case tree.Apply("cos", (argument,)):
            return tree.Quotient(tree.Apply("sin", (argument,)), _slope(argument))
        case tree.Power(base, exponent) if base == _E:
            return tree.Quotient(node, _slope(exponent))
        case _:
            raise NoIntegralError("an integral that only math-verify can compute")


def _integrate_polynomial(node: tree.Node, variable: tree.Symbol) -> tree.Node:
    top, bottom = fraction_of(node)
    if bottom.degree() != 0:
        raise NoIntegralError("an integral of a quotient")
    terms: list[tree.Node] = []
    divisor = bottom.coeffs()[0]
    for power, coefficient in enumerate(top.integral().coeffs()):
        if coefficient != 0:
            monomial = tree.Power(variable, tree.Number(fmpq(power)))
            terms.append(tree.Product((tree.Number(coefficient / divisor), monomial)))
    return tree.Sum(tuple(terms)) if terms else tree.Number(fmpq(0))


def _slope(argument: tree.Node) -> tree.Node:
    """Return a for an argument ax + b."""
    try:
        top, bottom = fraction_of(argument)
    except NoSetError as error:
        raise NoIntegralError(str(error)) from None
    if top.degree() != 1 or bottom.degree() != 0:
        raise NoIntegralError("an integral of a function of a function")
    return tree.Number(top.coeffs()[1] / bottom.coeffs()[0])
