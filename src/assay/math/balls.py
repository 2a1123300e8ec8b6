"""Certified values: an expression at a point, as a ball that surely holds the true number (Arb)."""

from collections.abc import Callable, Mapping
from typing import Final

from flint import acb, arb, ctx, fmpq, fmpz

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
)

Point = Mapping[str, fmpq | acb]
"""What the variables are, as exact numbers or as balls."""

_LARGEST_EXPONENT: Final = 1 << 40
_LARGEST_LOGARITHM: Final = 1 << 44
"""Values beyond 2 to this power are not computed."""


class UndefinedError(ValueError):
    """The expression has no value at this point, or none that balls can hold."""


class TooLargeError(ValueError):
    """The value is beyond any use: a tower of powers, the factorial of a factorial."""


def ball(node: Node, point: Point, precision: int) -> acb:
    """The value of an expression at a point, as a complex ball; real when its imaginary part is 0."""
    with ctx.workprec(precision):
        value = _value(node, point)
    if not value.is_finite():
        raise UndefinedError("no finite value")
    return value


def is_real(value: acb) -> bool:
    """Whether the ball lies on the real line."""
    return value.imag == 0


def _value(node: Node, point: Point) -> acb:
    match node:
        case Number(value):
            return acb(arb(value))
        case Symbol(name):
            place = point[name]
            return place if isinstance(place, acb) else acb(arb(place))
        case Sum(terms):
            total = _value(terms[0], point)
            for term in terms[1:]:
                total += _value(term, point)
            return total
        case Product(factors):
            product = _value(factors[0], point)
            for factor in factors[1:]:
                product *= _value(factor, point)
            return product
        case Quotient(top, bottom):
            return _value(top, point) / _value(bottom, point)
        case Power(base, exponent):
            return _power(base, exponent, point)
        case Apply(function, arguments):
            return _applied(function, arguments, point)
        case Percent(value):
            return _value(value, point) / 100
        case Quantity(value, unit):
            inside = _value(value, point)
            return inside * arb.pi() / 180 if unit == "degree" else inside
        case Constant(name):
            return _constant(name)
        case _:
            raise UndefinedError(f"{type(node).__name__} is no number")


def _constant(name: str) -> acb:
    match name:
        case "pi":
            return acb(arb.pi())
        case "e":
            return acb(arb(1).exp())
        case "i":
            return acb(0, 1)
        case _:
            raise UndefinedError("infinity is no number")


def _power(base: Node, exponent: Node, point: Point) -> acb:
    above = _value(exponent, point)
    if base == Constant("e"):
        return _bounded(above, arb(1)).exp()
    below = _value(base, point)
    whole = _integer(above)
    if whole is not None:
        _bounded(above, arb(abs(below)).log() if whole > 64 or whole < -64 else arb(1))
        return below ** fmpz(whole)
    if below == 0:
        return acb(0) if above.real > 0 and is_real(above) else _undefined()
    rational = _exact(exponent)
    if rational is not None and rational.q % 2 and is_real(below) and below.real < 0:
        size = (-below) ** acb(arb(rational))
        return size if rational.p % 2 == 0 else -size
    _bounded(above, arb(abs(below)).log())
    return below**above


def _undefined() -> acb:
    raise UndefinedError("0 to a power that is not positive")


def _bounded(exponent: acb, logarithm: arb) -> acb:
    if (
        not abs(exponent.real) < _LARGEST_EXPONENT
        or not abs(exponent.real * logarithm) < _LARGEST_LOGARITHM
    ):
        raise TooLargeError("a power is too large to compute")
    return exponent


def _integer(value: acb) -> int | None:
    """The integer that an exact ball is."""
    if value.imag != 0:
        return None
    found = value.real.unique_fmpz()
    return int(found) if found is not None and value.real.is_exact() else None


def _exact(node: Node) -> fmpq | None:
    """The rational number that a literal, or a quotient of literals, is."""
    if isinstance(node, Number):
        return node.value
    if isinstance(node, Quotient):
        top, bottom = _exact(node.top), _exact(node.bottom)
        return top / bottom if top is not None and bottom is not None and bottom != 0 else None
    if isinstance(node, Product):
        product = fmpq(1)
        for factor in node.factors:
            exact = _exact(factor)
            if exact is None:
                return None
            product *= exact
        return product
    return None


def _applied(function: str, arguments: tuple[Node, ...], point: Point) -> acb:
    values = [_value(argument, point) for argument in arguments]
    if function in _SIMPLE:
        return _SIMPLE[function](values[0])
    special = _SPECIAL.get(function)
    if special is None:
        raise UndefinedError(f"{function} is not known")
    return special(values)


def _root(values: list[acb]) -> acb:
    radicand, index = values
    degree = _integer(index)
    if degree is None or not 0 < degree < 1000:
        raise UndefinedError("a root whose index is no small number")
    if degree == 2:
        return radicand.sqrt()
    if radicand == 0:
        return acb(0)
    power = acb(arb(fmpq(1, degree)))
    if degree % 2 and is_real(radicand) and radicand.real < 0:
        return -((-radicand) ** power)
    return radicand**power


def _factorial(values: list[acb]) -> acb:
    argument = values[0]
    if not is_real(argument) or not abs(argument.real) < _LARGEST_EXPONENT:
        raise TooLargeError("a factorial is too large to compute")
    return (argument + 1).gamma()


def _binomial(values: list[acb]) -> acb:
    upper, lower = values
    whole = _integer(lower)
    if whole is None:
        return (upper + 1).gamma() / ((lower + 1).gamma() * (upper - lower + 1).gamma())
    if not 0 <= whole < 1000:
        raise TooLargeError("a binomial coefficient is too large to compute")
    product = acb(1)
    for step in range(whole):
        product *= (upper - step) / (step + 1)
    return product


def _logarithm(values: list[acb]) -> acb:
    argument, base = values
    if argument == 0:
        raise UndefinedError("the logarithm of 0")
    return argument.log() / base.log()


def _rounded(direction: Callable[[arb], arb]) -> Callable[[acb], acb]:
    def rounded(value: acb) -> acb:
        if not is_real(value):
            raise UndefinedError("a complex number has no floor")
        whole = direction(value.real)
        if not whole.is_exact():
            raise UndefinedError("too near to a whole number to round")
        return acb(whole)

    return rounded


def _sign(value: acb) -> acb:
    if is_real(value) and (value.real > 0 or value.real < 0 or value.real == 0):
        return acb(1 if value.real > 0 else -1 if value.real < 0 else 0)
    raise UndefinedError("the sign is not certain")


def _extreme(values: list[acb], *, largest: bool) -> acb:
    best = values[0]
    for value in values[1:]:
        if not (
            is_real(value)
            and is_real(best)
            and (value.real < best.real or value.real > best.real or value == best)
        ):
            raise UndefinedError("the order is not certain")
        if (value.real > best.real) == largest:
            best = value
    return best


def _common(values: list[acb], *, divisor: bool) -> acb:
    result: fmpz | None = None
    for value in values:
        number = _integer(value)
        if number is None:
            raise UndefinedError("gcd and lcm are of whole numbers")
        if result is None:
            result = fmpz(number)
        else:
            result = result.gcd(fmpz(number)) if divisor else result.lcm(fmpz(number))
    return acb(result or fmpz(0))


_SIMPLE: Final[dict[str, Callable[[acb], acb]]] = {
    "sin": acb.sin,
    "cos": acb.cos,
    "tan": acb.tan,
    "cot": acb.cot,
    "sec": acb.sec,
    "csc": acb.csc,
    "sinh": acb.sinh,
    "cosh": acb.cosh,
    "tanh": acb.tanh,
    "coth": acb.coth,
    "sech": acb.sech,
    "csch": acb.csch,
    "arcsin": acb.asin,
    "arccos": acb.acos,
    "arctan": acb.atan,
    "arccot": lambda value: acb(arb.pi()) / 2 - value.atan(),
    "arcsec": lambda value: (1 / value).acos(),
    "arccsc": lambda value: (1 / value).asin(),
    "arcsinh": acb.asinh,
    "arccosh": acb.acosh,
    "arctanh": acb.atanh,
    "abs": lambda value: acb(abs(value)),
    "floor": _rounded(arb.floor),
    "ceil": _rounded(arb.ceil),
    "sign": _sign,
}
_SPECIAL: Final[dict[str, Callable[[list[acb]], acb]]] = {
    "root": _root,
    "factorial": _factorial,
    "binomial": _binomial,
    "log": _logarithm,
    "max": lambda values: _extreme(values, largest=True),
    "min": lambda values: _extreme(values, largest=False),
    "gcd": lambda values: _common(values, divisor=True),
    "lcm": lambda values: _common(values, divisor=False),
}
