"""Compute certified values: an expression at a point, as a ball that surely holds the true number (Arb)."""

import math
from collections.abc import Callable, Mapping
from functools import partial, reduce
from typing import Final, NamedTuple

from flint import acb, arb, ctx, fmpq, fmpz

from assay.math import tree

Point = Mapping[str, fmpq | acb]  # what the variables are, as exact numbers or as balls

_LARGEST_EXPONENT: Final = 1 << 40
_LARGEST_LOGARITHM: Final = 1 << 44  # values beyond 2 to this power are not computed
_LARGEST_INTEGER: Final = arb(2) ** 16_384
_LARGEST_ANGLE: Final = arb(2) ** 1024  # reducing a larger one by π takes as many digits as it has


class UndefinedError(ValueError):
    """The expression has no value at this point, or none that balls can hold."""


class TooLargeError(ValueError):
    """The value is beyond any use: a tower of powers, the factorial of a factorial."""


def ball(node: tree.Node, point: Point, precision: int) -> acb:
    """The value of an expression at a point, as a complex ball; real when its imaginary part is 0."""
    with ctx.workprec(precision):
        value = _value(node, point)
    if not value.is_finite():
        raise UndefinedError("no finite value")
    return value


def is_real(value: acb) -> bool:
    return value.imag == 0


def is_known_function(function: str) -> bool:
    """Return True if the values of this function are known, and not only its name, as in `f(x)`."""
    return function in _FUNCTIONS


def _value(node: tree.Node, point: Point) -> acb:
    match node:
        case tree.Number(value):
            return acb(arb(value))
        case tree.Symbol(name):
            place = point[name]
            return place if isinstance(place, acb) else acb(arb(place))
        case tree.Sum(terms):
            return sum((_value(term, point) for term in terms[1:]), start=_value(terms[0], point))
        case tree.Product(factors):
            return math.prod(
                (_value(factor, point) for factor in factors[1:]), start=_value(factors[0], point)
            )
        case tree.Quotient(top, bottom):
            return _value(top, point) / _value(bottom, point)
        case tree.Power(base, exponent):
            return _power(base, exponent, point)
        case tree.Apply(function, arguments):
            values = [_value(argument, point) for argument in arguments]
            if function not in _FUNCTIONS:
                raise UndefinedError(f"{function} is not known")
            return _FUNCTIONS[function](*values)
        case tree.Percent(value):
            return _value(value, point) / 100
        case tree.Quantity(value, unit):
            inside = _value(value, point)
            return inside * arb.pi() / 180 if unit == "degree" else inside
        case tree.Constant("pi"):
            return acb(arb.pi())
        case tree.Constant("e"):
            return acb(arb(1).exp())
        case tree.Constant("i"):
            return acb(0, 1)
        case tree.Constant():
            raise UndefinedError("infinity is no number")
        case _:
            raise UndefinedError(f"{type(node).__name__} is no number")


def _power(base: tree.Node, exponent: tree.Node, point: Point) -> acb:
    above = _value(exponent, point)
    if base == tree.Constant("e"):
        return _bounded(above, arb(1)).exp()
    below = _value(base, point)
    whole = _integer(above)
    if whole == 0 and below == 0:
        raise UndefinedError("0 to the power 0")
    if whole is not None:
        _bounded(above, arb(abs(below)).log() if whole > 64 or whole < -64 else arb(1))
        return below ** fmpz(whole)
    if below == 0:
        if above.real > 0 and is_real(above):
            return acb(0)
        raise UndefinedError("0 to a power that is not positive")
    rational = tree.rational_of(exponent)
    if rational is not None and rational.q % 2 and is_real(below) and below.real < 0:
        size = (-below) ** acb(arb(rational))
        return size if rational.p % 2 == 0 else -size
    _bounded(above, arb(abs(below)).log())
    return below**above


def _bounded(exponent: acb, logarithm: arb) -> acb:
    if (
        not abs(exponent.real) < _LARGEST_EXPONENT
        or not abs(exponent.real * logarithm) < _LARGEST_LOGARITHM
    ):
        raise TooLargeError("a power is too large to compute")
    return exponent


def _integer(value: acb) -> int | None:
    """Return the whole number that a ball holds and nothing else; None if it is not a whole number.

    Raises `TooLargeError` before a number such as 2^(2^39) is written out, which takes gigabytes.
    """
    if value.imag != 0 or not value.real.is_exact() or not value.is_finite():
        return None
    if not abs(value.real) < _LARGEST_INTEGER:
        raise TooLargeError("a whole number is too large to write out")
    number = value.real.unique_fmpz()
    return None if number is None else int(number)


def _root(radicand: acb, index: acb) -> acb:
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


def _factorial(argument: acb) -> acb:
    if not is_real(argument) or not abs(argument.real) < _LARGEST_EXPONENT:
        raise TooLargeError("a factorial is too large to compute")
    return (argument + 1).gamma()


def _angle_function(function: Callable[[acb], acb], angle: acb) -> acb:
    if not abs(angle) < _LARGEST_ANGLE:
        raise TooLargeError("an angle is too large to compute")
    return function(angle)


def _binomial(upper: acb, lower: acb) -> acb:
    whole = _integer(lower)
    if whole is None:
        return _factorial(upper) / (_factorial(lower) * _factorial(upper - lower))
    if not 0 <= whole < 1000:
        raise TooLargeError("a binomial coefficient is too large to compute")
    product = acb(1)
    for step in range(whole):
        product *= (upper - step) / (step + 1)
    return product


def _logarithm(argument: acb, base: acb) -> acb:
    if argument == 0:
        raise UndefinedError("the logarithm of 0")
    return argument.log() / base.log()


def _rounded(value: acb, *, direction: Callable[[arb], arb]) -> acb:
    if not is_real(value):
        raise UndefinedError("a complex number has no floor")
    whole = direction(value.real)
    if not whole.is_exact():
        raise UndefinedError("too near to a whole number to round")
    return acb(whole)


def _absolute_value(value: acb) -> acb:
    return acb(abs(value))


def _sign(value: acb) -> acb:
    if is_real(value) and (value.real > 0 or value.real < 0 or value.real == 0):
        return acb(1 if value.real > 0 else -1 if value.real < 0 else 0)
    raise UndefinedError("the sign is not certain")


def _extreme(best: acb, *others: acb, largest: bool) -> acb:
    for value in others:
        is_ordered = value.real < best.real or value.real > best.real or value == best
        if not (is_real(value) and is_real(best) and is_ordered):
            raise UndefinedError("the order is not certain")
        if (value.real > best.real) == largest:
            best = value
    return best


def _greatest_common_divisor(*values: acb) -> acb:
    return acb(reduce(fmpz.gcd, _integers(values)))


def _least_common_multiple(*values: acb) -> acb:
    multiple = fmpz(1)
    for number in _integers(values):
        multiple = multiple.lcm(number)
        if multiple.bit_length() > MOST_BITS:
            raise TooLargeError("a least common multiple is too large to compute")
    return acb(multiple)


def _integers(values: tuple[acb, ...]) -> list[fmpz]:
    numbers: list[fmpz] = []
    for value in values:
        number = _integer(value)
        if number is None:
            raise UndefinedError("gcd and lcm are of whole numbers")
        numbers.append(fmpz(number))
    return numbers


_ANGLE_FUNCTIONS: Final[dict[str, Callable[[acb], acb]]] = {
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
}
_INVERSE_FUNCTIONS: Final[dict[str, Callable[[acb], acb]]] = {
    "arcsin": acb.asin,
    "arccos": acb.acos,
    "arctan": acb.atan,
    "arcsinh": acb.asinh,
    "arccosh": acb.acosh,
    "arctanh": acb.atanh,
    "arccot": lambda value: acb(arb.pi()) / 2 - value.atan(),
    "arcsec": lambda value: (1 / value).acos(),
    "arccsc": lambda value: (1 / value).asin(),
}
_FUNCTIONS: Final[dict[str, Callable[..., acb]]] = {
    **{name: partial(_angle_function, function) for name, function in _ANGLE_FUNCTIONS.items()},
    **_INVERSE_FUNCTIONS,
    "abs": _absolute_value,
    "sign": _sign,
    "factorial": _factorial,
    "root": _root,
    "binomial": _binomial,
    "log": _logarithm,
    "floor": partial(_rounded, direction=arb.floor),
    "ceil": partial(_rounded, direction=arb.ceil),
    "max": partial(_extreme, largest=True),
    "min": partial(_extreme, largest=False),
    "gcd": _greatest_common_divisor,
    "lcm": _least_common_multiple,
}


# How near to 0 an algebraic number can be without being 0, after Burnikel, Funke, Mehlhorn, Schirra and Schmitt,
# "A separation bound for real algebraic expressions" (2001): a number built from integers by + − · / and roots is 0,
# or at least u^(1−D)/l in size, where u and l bound all conjugates of its numerator and denominator, and D is the
# degree of a field that holds it. A ball smaller than that around 0 proves that the number is 0.
MOST_BITS: Final = 12_000
_RATIOS: Final = {
    "tan": ("sin", "cos"),
    "cot": ("cos", "sin"),
    "sec": ("", "cos"),
    "csc": ("", "sin"),
}


# φ(n) is at least √(n/2), so that a larger n has more conjugates than `MOST_BITS` allows. It is not factored.
_MOST_PARTS: Final = 2 * MOST_BITS**2


class Size(NamedTuple):
    """Bounds on the conjugates of numerator and denominator, as logarithms to base 2."""

    upper: float
    lower: float


def bits_to_prove_zero(one: tree.Node, two: tree.Node) -> int:
    """The precision at which a ball around the difference of two numbers proves it to be 0."""
    field = _Field()
    upper, lower = _added(field.size(one), field.size(two))
    needed = (field.degree - 1) * upper + lower + 8
    if not needed < MOST_BITS:
        raise UndefinedError(f"{field.degree} conjugates are too many")
    return int(needed)


class _Field:
    """The field that holds the numbers met so far: roots of whole numbers and of each other, and cosines."""

    def __init__(self) -> None:
        self.roots: dict[tree.Node, int] = {}  # by root: its index
        self.parts = 1  # the cosines lie in the real part of the field of this root of unity

    @property
    def degree(self) -> int:
        cosines = max(1, int(fmpz(self.parts).euler_phi()) // 2)
        return cosines * math.prod(self.roots.values())

    def size(self, node: tree.Node) -> Size:
        match node:
            case tree.Number(value):
                return Size(_log(value.p), _log(value.q))
            case tree.Sum(terms):
                return reduce(_added, map(self.size, terms))
            case tree.Product(factors):
                sizes = list(map(self.size, factors))
                return Size(sum(s.upper for s in sizes), sum(s.lower for s in sizes))
            case tree.Quotient(top, bottom):
                above, below = self.size(top), self.size(bottom)
                return Size(above.upper + below.lower, above.lower + below.upper)
            case tree.Percent(value):
                inside = self.size(value)
                return Size(inside.upper, inside.lower + _log(fmpz(100)))
            case tree.Power(base, exponent):
                return self._power(node, self.size(base), _rational(exponent))
            case tree.Apply("root", (radicand, index)):
                return self._power(node, self.size(radicand), 1 / _rational(index))
            case tree.Apply("sin" | "cos" as function, (argument,)):
                # 2cos of a rational multiple of π is an algebraic integer, at most 2 in size as all its conjugates
                # are, and so is 2sin, which is 2cos of the angle that makes it a quarter of a circle.
                turn = _turns(argument) if function == "cos" else fmpq(1, 2) - _turns(argument)
                self.parts = math.lcm(self.parts, int((turn / 2).q))
                if self.parts > _MOST_PARTS:
                    raise UndefinedError("an angle whose cosine has too many conjugates")
                return Size(1.0, 1.0)
            case tree.Apply(function, (argument,)) if function in _RATIOS:
                top, bottom = (
                    tree.Apply(name, (argument,)) if name else tree.ONE
                    for name in _RATIOS[function]
                )
                return self.size(tree.Quotient(top, bottom))
            case tree.Constant("i"):
                self.roots[node] = 2
                return Size(0.0, 0.0)
            case _:
                raise UndefinedError(f"{type(node).__name__} is not known to be algebraic")

    def _power(self, node: tree.Node, base: Size, exponent: fmpq) -> Size:
        index, power = int(exponent.q), int(exponent.p)
        if abs(power) > 1000 or index > 64:
            raise UndefinedError("a power too high")
        if index > 1:
            self.roots[node] = index
            if base.upper >= base.lower:
                base = Size((base.upper + (index - 1) * base.lower) / index, base.lower)
            else:
                base = Size(base.upper, ((index - 1) * base.upper + base.lower) / index)
        size = Size(base.upper * abs(power), base.lower * abs(power))
        return size if power >= 0 else Size(size.lower, size.upper)


def _log(number: fmpz) -> float:
    return math.log2(max(1, abs(int(number)))) + 1e-9


def _added(one: Size, two: Size) -> Size:
    first, second = one.upper + two.lower, two.upper + one.lower
    return Size(max(first, second) + 1, one.lower + two.lower)


def _turns(node: tree.Node) -> fmpq:
    """What a rational multiple of π is a multiple by."""
    match node:
        case tree.Constant("pi"):
            return fmpq(1)
        case tree.Quantity(value, "degree"):
            return _rational(value) / 180
        case tree.Sum(terms):
            return sum(map(_turns, terms), fmpq(0))
        case tree.Quotient(top, bottom):
            return _turns(top) / _rational(bottom)
        case tree.Product(factors):
            numbers = [number for number in map(tree.rational_of, factors) if number is not None]
            angles = [factor for factor in factors if tree.rational_of(factor) is None]
            if len(angles) != 1:
                raise UndefinedError("the angle is no simple multiple of pi")
            return _turns(angles[0]) * math.prod(numbers, start=fmpq(1))
        case _:
            raise UndefinedError("the angle is no multiple of pi")


def _rational(node: tree.Node) -> fmpq:
    number = tree.rational_of(node)
    if number is None:
        raise UndefinedError("no rational number")
    return number
