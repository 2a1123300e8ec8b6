"""Compute integrals between two limits exactly, without sympy.

Sums are integrated term by term. A term is a polynomial, a power of the variable with a rational
exponent, a polynomial times an exponential, or a sine or cosine, and may have a constant factor.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

from flint import fmpq

from assay.math import tree
from assay.math.balls import TooLargeError, UndefinedError, compute_ball, is_real
from assay.math.rational_functions import NotRationalError, read_rational_function

_E: Final = tree.Constant("e")
_INFINITY: Final = tree.Constant("infinity")
_MINUS_INFINITY: Final = tree.negate(_INFINITY)
_ZERO: Final = tree.Number(fmpq(0))
_PRECISION: Final = 64

_Coefficients = list[fmpq]  # of a polynomial: of 1, x, x², …


class NoIntegralError(ValueError):
    """The integral is not one of those that this module computes."""


def integrate(
    integrand: tree.Node, variable: tree.Symbol, low: tree.Node, high: tree.Node
) -> tree.Node:
    """Return the value of an integral as an expression of its limits, of which any may be infinite.

    Raises `NoIntegralError` for any other integrand, for one with a second variable, and for an
    integral that may have no value.
    """
    other_variables = tree.find_symbols(integrand) - {variable.name}
    if other_variables:
        raise NoIntegralError("an integral of several variables")
    return _Interval(variable, low, high).integrate(integrand)


class _Monomial(NamedTuple):
    """A constant times a power of the variable."""

    coefficient: tree.Node
    exponent: fmpq


@dataclass(frozen=True)
class _Interval:
    """The limits of an integral and its variable."""

    variable: tree.Symbol
    low: tree.Node
    high: tree.Node

    def integrate(self, node: tree.Node) -> tree.Node:
        """Return the integral of an expression over this interval."""
        polynomial = _read_polynomial(node)
        if polynomial is not None:
            return self._integrate_polynomial(polynomial)
        monomial = self._read_monomial(node)
        if monomial is not None:
            return self._integrate_monomial(monomial)
        match node:
            case tree.Sum(terms):
                return tree.Sum(tuple(self.integrate(term) for term in terms))
            case tree.Product(factors):
                return self._integrate_product(factors)
            case tree.Quotient(top, tree.Power(base, exponent)) if base == _E:
                factor = tree.Power(_E, tree.negate(exponent))
                return self._integrate_product((top, factor))
            case tree.Quotient(top, bottom) if not tree.find_symbols(bottom):
                return tree.Quotient(self.integrate(top), bottom)
            case tree.Power(base, exponent) if base == _E:
                return self._integrate_exponential([fmpq(1)], exponent)
            case tree.Apply("sin", (angle,)):
                cosine = tree.Apply("cos", (angle,))
                return self._subtract_ends(tree.Quotient(tree.negate(cosine), _read_slope(angle)))
            case tree.Apply("cos", (angle,)):
                sine = tree.Apply("sin", (angle,))
                return self._subtract_ends(tree.Quotient(sine, _read_slope(angle)))
            case _:
                raise NoIntegralError("an integral that only math-verify can compute")

    def _integrate_product(self, factors: tuple[tree.Node, ...]) -> tree.Node:
        """Return the integral of constants times one other factor, or times P(x)·e^(ax + b)."""
        constants = [factor for factor in factors if not tree.find_symbols(factor)]
        exponents: list[tree.Node] = []
        others: list[tree.Node] = []
        for factor in factors:
            if not tree.find_symbols(factor):
                continue
            match factor:
                case tree.Power(base, exponent) if base == _E:
                    exponents.append(exponent)
                case _:
                    others.append(factor)
        if not exponents and len(others) == 1:
            return tree.Product((*constants, self.integrate(others[0])))
        polynomial = _read_polynomial(tree.Product((tree.ONE, *others)))
        if not exponents or polynomial is None:
            raise NoIntegralError("an integral of a product")
        integral = self._integrate_exponential(polynomial, tree.Sum(tuple(exponents)))
        return tree.Product((*constants, integral))

    def _integrate_polynomial(self, polynomial: _Coefficients) -> tree.Node:
        """Return the integral of a polynomial, given by its coefficients of 1, x, x² and so on."""
        antiderivative = [fmpq(0)]
        for power, coefficient in enumerate(polynomial):
            antiderivative.append(coefficient / (power + 1))
        return self._subtract_ends(_write_polynomial(antiderivative, self.variable))

    def _integrate_exponential(self, polynomial: _Coefficients, exponent: tree.Node) -> tree.Node:
        """Return the integral of P(x)·e^(ax + b).

        An antiderivative is Q(x)·e^(ax + b), whose derivative is (Q' + aQ)·e^(ax + b). So Q' + aQ
        is P, which gives the coefficients of Q from the highest to the lowest.
        """
        slope = _read_slope(exponent).value  # a
        q_coefficients: _Coefficients = []
        last = fmpq(0)  # the coefficient that was computed last: of the next higher power
        for power in reversed(range(len(polynomial))):
            last = (polynomial[power] - (power + 1) * last) / slope
            q_coefficients.insert(0, last)
        q = _write_polynomial(q_coefficients, self.variable)
        antiderivative = tree.Product((q, tree.Power(_E, exponent)))
        # It goes to 0 where its exponent goes to minus infinity.
        vanishes_at = _MINUS_INFINITY if slope > 0 else _INFINITY
        return self._subtract_ends(antiderivative, vanishes_at=vanishes_at)

    def _subtract_ends(
        self, antiderivative: tree.Node, *, vanishes_at: tree.Node | None = None
    ) -> tree.Node:
        """Return the antiderivative at the high limit minus that at the low one.

        `vanishes_at` is an infinity where the antiderivative goes to 0.
        """
        values: list[tree.Node] = []
        for limit in (self.high, self.low):
            if limit == vanishes_at:
                values.append(_ZERO)
            elif _is_infinite(limit):
                raise NoIntegralError("an integral without a finite limit")
            else:
                values.append(tree.substitute(antiderivative, self.variable, limit))
        value_at_high, value_at_low = values
        return tree.Sum((value_at_high, tree.negate(value_at_low)))

    # Powers with rational exponents, over intervals without negative numbers.

    def _read_monomial(self, node: tree.Node) -> _Monomial | None:
        """Return an expression as c·x^p for positive x, or None if it is something else."""
        if not tree.find_symbols(node):
            return _Monomial(node, fmpq(0))
        match node:
            case tree.Symbol():
                return _Monomial(tree.ONE, fmpq(1))
            case tree.Product(factors):
                monomials = [self._read_monomial(factor) for factor in factors]
                coefficients: list[tree.Node] = []
                exponent = fmpq(0)
                for monomial in monomials:
                    if monomial is None:
                        return None
                    coefficients.append(monomial.coefficient)
                    exponent += monomial.exponent
                return _Monomial(tree.Product(tuple(coefficients)), exponent)
            case tree.Quotient(top, bottom):
                top_monomial = self._read_monomial(top)
                bottom_monomial = self._read_monomial(bottom)
                if top_monomial is None or bottom_monomial is None:
                    return None
                return _Monomial(
                    tree.Quotient(top_monomial.coefficient, bottom_monomial.coefficient),
                    top_monomial.exponent - bottom_monomial.exponent,
                )
            case tree.Power(base, exponent_node):
                return self._raise_monomial(base, tree.evaluate_rational(exponent_node))
            case tree.Apply("root", (radicand, tree.Number(index))) if index > 0:
                return self._raise_monomial(radicand, 1 / index)
            case _:
                return None

    def _raise_monomial(self, base: tree.Node, exponent: fmpq | None) -> _Monomial | None:
        """Return a power of a monomial without a coefficient, or None for any other power."""
        monomial = self._read_monomial(base)
        if monomial is None or exponent is None or monomial.coefficient != tree.ONE:
            return None
        return _Monomial(tree.ONE, monomial.exponent * exponent)

    def _integrate_monomial(self, monomial: _Monomial) -> tree.Node:
        """Return the integral of c·x^p, which has a value only if p and the limits allow it."""
        exponent = monomial.exponent + 1
        if exponent == 0:
            self._require_positive_limits(may_be=())
            value_at_high: tree.Node = tree.Apply("log", (self.high, _E))
            value_at_low: tree.Node = tree.Apply("log", (self.low, _E))
            difference = tree.Sum((value_at_high, tree.negate(value_at_low)))
            return tree.Product((monomial.coefficient, difference))
        # x^(p + 1) is 0 at this limit.
        vanishes_at = _ZERO if exponent > 0 else _INFINITY
        self._require_positive_limits(may_be=(vanishes_at,))
        power = tree.Power(self.variable, tree.Number(exponent))
        difference = self._subtract_ends(power, vanishes_at=vanishes_at)
        return tree.Quotient(
            tree.Product((monomial.coefficient, difference)), tree.Number(exponent)
        )

    def _require_positive_limits(self, *, may_be: tuple[tree.Node, ...]) -> None:
        """Raise `NoIntegralError` unless each limit is provably positive, or one of these."""
        for limit in (self.low, self.high):
            if limit not in may_be and not _is_positive(limit):
                raise NoIntegralError("an integral of a power over numbers that may be negative")


def _read_polynomial(node: tree.Node) -> _Coefficients | None:
    """Return an expression as a polynomial with rational coefficients, or None if it is not one."""
    try:
        numerator, denominator = read_rational_function(node)
    except NotRationalError:
        return None
    if denominator.degree() != 0:
        return None
    divisor = denominator.coeffs()[0]
    return [coefficient / divisor for coefficient in numerator.coeffs()]


def _write_polynomial(polynomial: _Coefficients, variable: tree.Symbol) -> tree.Node:
    """Return a polynomial as a sum of powers of a variable."""
    terms: list[tree.Node] = []
    for exponent, coefficient in enumerate(polynomial):
        if coefficient == 0:
            continue
        term: tree.Node = tree.Number(coefficient)
        if exponent > 0:  # x^0 has no value at 0
            power = tree.Power(variable, tree.Number(fmpq(exponent)))
            term = tree.Product((term, power))
        terms.append(term)
    if not terms:
        return _ZERO
    return tree.Sum(tuple(terms))


def _read_slope(node: tree.Node) -> tree.Number:
    """Return the slope a of an expression ax + b. Raises `NoIntegralError` for any other."""
    polynomial = _read_polynomial(node)
    if polynomial is None or len(polynomial) != 2:
        raise NoIntegralError("an integral of a function of a function")
    return tree.Number(polynomial[1])


def _is_infinite(limit: tree.Node) -> bool:
    """Return True if a limit is infinity, or computed from it."""
    return _INFINITY in tree.list_nodes(limit)


def _is_positive(limit: tree.Node) -> bool:
    """Return True if a limit is provably a finite positive number."""
    if tree.find_symbols(limit) or _is_infinite(limit) or not tree.is_value(limit):
        return False
    try:
        value = compute_ball(limit, {}, _PRECISION)
    except (UndefinedError, TooLargeError):
        return False
    return is_real(value) and bool(value.real > 0)
