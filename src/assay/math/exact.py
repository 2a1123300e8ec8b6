"""Exact equality: an expression as a quotient of polynomials over atoms whose equations are known.

A difference whose numerator is the zero polynomial is 0: that proves equality. Nothing else is
concluded. Variables count as positive in roots and logarithms (`assumed_positive` says when that
was needed); elsewhere the comparison looks for a point that tells the two apart.
"""

from collections.abc import Callable
from typing import Final

from flint import fmpq, fmpz

from assay.math.balls import TooLargeError, UndefinedError, ball, is_real
from assay.math.field import MOST_BITS, Field
from assay.math.polynomials import ONE, Ratio, TooComplexError, constant, divided, rational
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
    Symbol,
    symbols_of,
)
from assay.math.trigonometry import Angles

_LARGEST_POWER: Final = 4096
_LARGEST_FACTORIAL: Final = 500


def proves_equal(one: Node, two: Node) -> tuple[bool, bool]:
    """Whether the two are provably the same, and whether variables had to be taken as positive."""
    form = Form()
    try:
        same = form.field.equal(form.value(one), form.value(two))
    except (TooComplexError, TooLargeError, UndefinedError, RecursionError):
        return False, False
    return same, form.field.assumed_positive


class Form:
    """Expressions in their exact form, all over the atoms of one field."""

    def __init__(self) -> None:
        self.field = Field()
        self.angles = Angles(self.field)

    def value(self, node: Node) -> Ratio:
        """The expression as a ratio of polynomials over atoms."""
        field = self.field
        match node:
            case Number(number):
                return constant(number)
            case Symbol(name):
                return field.atom("symbol", name)
            case Sum(terms):
                total = self.value(terms[0])
                for term in terms[1:]:
                    total = field.add(total, self.value(term))
                return total
            case Product(factors):
                product = self.value(factors[0])
                for factor in factors[1:]:
                    product = field.multiply(product, self.value(factor))
                return product
            case Quotient(top, bottom):
                return field.divide(self.value(top), self.value(bottom))
            case Power(base, exponent):
                return self.power(base, self.value(exponent))
            case Percent(value):
                return field.divide(self.value(value), constant(fmpq(100)))
            case Quantity(value, "degree"):
                turn = field.multiply(field.atom("pi"), constant(fmpq(1, 180)))
                return field.multiply(self.value(value), turn)
            case Quantity(value):
                return self.value(value)
            case Constant("i"):
                return field.imaginary_unit()
            case Constant("pi" | "e" as name):
                return field.atom(name)
            case Apply(function, arguments):
                return self.applied(function, arguments)
            case _:
                raise UndefinedError(f"{type(node).__name__} is no number")

    def power(self, base: Node, exponent: Ratio) -> Ratio:
        number = rational(exponent)
        if base == Constant("e") and (number is None or number.q != 1):
            return self.exponential(exponent)
        if number is None:
            return self.field.general_power(self.value(base), exponent)
        if abs(number.p) > _LARGEST_POWER:
            raise TooComplexError("a power too high to write out")
        below = self.value(base)
        return self.field.raised(self.field.root(below, int(number.q)), int(number.p))

    def exponential(self, exponent: Ratio) -> Ratio:
        """e to a power; an imaginary part turns, by Euler's formula."""
        unit = self.field.imaginary_unit()
        ((atom, _),) = next(iter(unit.top))
        turning = {m: c for m, c in exponent.top.items() if (atom, 1) in m}
        if not turning:
            return self.field.exponential(exponent)
        growing = {m: c for m, c in exponent.top.items() if m not in turning}
        angle = Ratio(divided(turning, ((atom, 1),)), exponent.bottom)
        cosine, sine = self.angles.turned(angle)
        circle = self.field.add(cosine, self.field.multiply(unit, sine))
        return self.field.multiply(self.field.exponential(Ratio(growing, exponent.bottom)), circle)

    def applied(self, function: str, arguments: tuple[Node, ...]) -> Ratio:
        values = tuple(self.value(argument) for argument in arguments)
        known = _FUNCTIONS.get(function)
        if known is not None:
            return known(self, *values)
        angle = self.angles.applied(function, values[0])
        if angle is not None:
            return angle
        if function in _WHOLE and not any(symbols_of(argument) for argument in arguments):
            return _whole(Apply(function, arguments))
        return self.field.atom(function, *values)

    def root(self, radicand: Ratio, index: Ratio) -> Ratio:
        degree = rational(index)
        if degree is None or degree.q != 1:
            raise TooComplexError("a root whose index is no number")
        return self.field.root(radicand, int(degree.p))

    def logarithm(self, argument: Ratio, base: Ratio) -> Ratio:
        return self.field.divide(self.field.natural_log(argument), self.field.natural_log(base))

    def absolute(self, argument: Ratio) -> Ratio:
        number = rational(argument)
        if number is not None:
            return constant(abs(number))
        if len(argument.top) == 1 and len(argument.bottom) == 1:
            return self.field.positive_monomial(argument)
        first = argument.top[min(argument.top)]
        if first < 0:
            argument = self.field.multiply(argument, constant(fmpq(-1)))
        if argument.bottom != ONE:
            return self.field.atom("abs", argument)
        square = self.field.multiply(argument, argument)
        return self.field.atom("abs", argument, equation=(2, square.top))

    def factorial(self, argument: Ratio) -> Ratio:
        """n!, with (n + 2)! as (n + 2)(n + 1)·n!."""
        number = rational(argument)
        if number is not None:
            if number.q != 1 or not 0 <= number.p <= _LARGEST_FACTORIAL:
                raise TooComplexError("a factorial too large to write out")
            return constant(fmpq(fmpz.fac_ui(int(number.p))))
        shift = argument.top.get((), fmpq(0)) if argument.bottom == ONE else fmpq(0)
        if shift.q != 1 or abs(shift.p) > 20:
            return self.field.atom("factorial", argument)
        base = self.field.add(argument, constant(-shift))
        result = self.field.atom("factorial", base)
        for step in range(1, int(shift.p) + 1):
            result = self.field.multiply(result, self.field.add(base, constant(fmpq(step))))
        for step in range(int(shift.p) + 1, 1):
            result = self.field.divide(result, self.field.add(base, constant(fmpq(step))))
        return result

    def binomial(self, upper: Ratio, lower: Ratio) -> Ratio:
        number = rational(lower)
        if number is None:
            rest = self.field.add(upper, self.field.multiply(lower, constant(fmpq(-1))))
            below = self.field.multiply(self.factorial(lower), self.factorial(rest))
            return self.field.divide(self.factorial(upper), below)
        if number.q != 1 or not 0 <= number.p <= _LARGEST_FACTORIAL:
            raise TooComplexError("a binomial coefficient too large to write out")
        above = rational(upper)
        if above is not None and above.p.bit_length() * int(number.p) > 4 * MOST_BITS:
            raise TooComplexError("a binomial coefficient with too many digits")
        result = constant(fmpq(1))
        for step in range(int(number.p)):
            factor = self.field.add(upper, constant(fmpq(-step)))
            result = self.field.multiply(result, factor)
            result = self.field.multiply(result, constant(fmpq(1, step + 1)))
        return result


def _whole(node: Node) -> Ratio:
    """The whole number that a constant `floor`, `gcd`, … surely is."""
    value = ball(node, {}, 256)
    number = value.real.unique_fmpz() if is_real(value) and value.real.is_exact() else None
    if number is None:
        raise UndefinedError("no certain whole number")
    return constant(fmpq(number))


_WHOLE: Final = frozenset({"floor", "ceil", "gcd", "lcm", "sign"})
_FUNCTIONS: Final[dict[str, Callable[..., Ratio]]] = {
    "root": Form.root,
    "log": Form.logarithm,
    "abs": Form.absolute,
    "factorial": Form.factorial,
    "binomial": Form.binomial,
}
