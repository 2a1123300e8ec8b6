"""Compute certified values: an expression at a point, as a ball that contains the true number.

A ball is a number with a bound on its error. The arithmetic is Arb's, by way of python-flint.
"""

import math
from collections.abc import Callable, Mapping
from functools import partial, reduce
from typing import Final

from flint import acb, arb, ctx, fmpq, fmpz

from assay.math import tree

Point = Mapping[str, fmpq | acb]  # the values of the variables, as exact numbers or as balls

_MAX_EXPONENT: Final = 1 << 40
_MAX_UNCHECKED_EXPONENT: Final = 64  # up to this whole exponent every power is computed
_MAX_LOGARITHM: Final = 1 << 44  # values beyond 2 to this power are not computed
_MAX_INTEGER: Final = arb(2) ** 16_384
_MAX_ANGLE: Final = arb(2) ** 1024  # reducing a larger one by π takes as many digits as it has
_MAX_LCM_BITS: Final = 12_000
_MAX_ROOT_INDEX: Final = 1000
_MAX_BINOMIAL_STEPS: Final = 1000


class UndefinedError(ValueError):
    """The expression has no value at this point, or none that a ball can hold."""


class TooLargeError(ValueError):
    """The value is too large to be useful: a tower of powers, the factorial of a factorial."""


def compute_ball(node: tree.Node, point: Point, precision: int) -> acb:
    """Compute an expression at a point as a complex ball, with so many bits of precision.

    The value is real if the imaginary part of the ball is exactly 0. Raises `UndefinedError` or
    `TooLargeError` if there is no value, or no value that can be computed.
    """
    with ctx.workprec(precision):
        value = _compute(node, point)
    if not value.is_finite():
        raise UndefinedError("no finite value")
    return value


def is_real(value: acb) -> bool:
    """Return True if a value is certainly real."""
    return value.imag == 0


def is_known_function(function: str) -> bool:
    """Return True for a function with known values; of `f(x)`, only the name is known."""
    return function in _FUNCTIONS


def _compute(node: tree.Node, point: Point) -> acb:
    """Compute an expression at a point as a ball, with the precision that is set at present."""
    match node:
        case tree.Number(value):
            return acb(arb(value))
        case tree.Symbol(name):
            variable = point[name]
            if isinstance(variable, acb):
                return variable
            return acb(arb(variable))
        case tree.Sum(terms):
            first, *others = [_compute(term, point) for term in terms]
            return sum(others, start=first)
        case tree.Product(factors):
            first, *others = [_compute(factor, point) for factor in factors]
            return math.prod(others, start=first)
        case tree.Quotient(top, bottom):
            return _compute(top, point) / _compute(bottom, point)
        case tree.Power(base, exponent):
            return _compute_power(base, exponent, point)
        case tree.Apply(function, arguments):
            return _apply_function(function, arguments, point)
        case tree.Percent(value):
            return _compute(value, point) / 100
        case tree.Quantity(value, "degree"):
            return _compute(value, point) * arb.pi() / 180
        case tree.Quantity(value):
            return _compute(value, point)
        case tree.Constant(name):
            return _compute_constant(name)
        case _:
            raise UndefinedError(f"{type(node).__name__} is not a number")


def _compute_constant(name: str) -> acb:
    """Return π, e or i as a ball. Raises `UndefinedError` for infinity."""
    match name:
        case "pi":
            return acb(arb.pi())
        case "e":
            return acb(arb(1).exp())
        case "i":
            return acb(0, 1)
        case _:
            raise UndefinedError("infinity is not a number")


def _apply_function(function: str, arguments: tuple[tree.Node, ...], point: Point) -> acb:
    """Compute a function of some arguments at a point."""
    values = [_compute(argument, point) for argument in arguments]
    if function not in _FUNCTIONS:
        raise UndefinedError(f"{function} is not known")
    return _FUNCTIONS[function](*values)


def _compute_power(base: tree.Node, exponent: tree.Node, point: Point) -> acb:
    """Compute a power at a point. Raises `TooLargeError` if the power may be too large."""
    exponent_value = _compute(exponent, point)
    if base == tree.Constant("e"):
        _require_computable_power(exponent_value, base_logarithm=arb(1))
        return exponent_value.exp()

    base_value = _compute(base, point)
    whole_exponent = _read_integer(exponent_value)
    if whole_exponent is not None:
        return _compute_whole_power(base_value, whole_exponent)
    if base_value == 0:
        if exponent_value.real > 0 and is_real(exponent_value):
            return acb(0)
        raise UndefinedError("0 to a power that is not positive")

    rational_exponent = tree.evaluate_rational(exponent)
    is_negative = is_real(base_value) and base_value.real < 0
    if is_negative and rational_exponent is not None and rational_exponent.q % 2 == 1:
        # An odd root of a negative number is read as the real one: (-8)^(1/3) is -2.
        absolute_value = (-base_value) ** acb(arb(rational_exponent))
        is_even_power = rational_exponent.p % 2 == 0
        return absolute_value if is_even_power else -absolute_value

    _require_computable_power(exponent_value, base_logarithm=arb(abs(base_value)).log())
    return base_value**exponent_value


def _compute_whole_power(base: acb, exponent: int) -> acb:
    """Compute a power with a whole exponent, which may be negative."""
    if base == 0 and exponent == 0:
        raise UndefinedError("0 to the power 0")
    if abs(exponent) > _MAX_UNCHECKED_EXPONENT:
        _require_computable_power(acb(exponent), base_logarithm=arb(abs(base)).log())
    return base ** fmpz(exponent)


def _require_computable_power(exponent: acb, base_logarithm: arb) -> None:
    """Raise `TooLargeError` unless a power is certainly small enough to compute."""
    # Comparisons of balls are True only if they are certain, so `not a < b` is not `a >= b`.
    is_small_exponent = abs(exponent.real) < _MAX_EXPONENT
    is_small_power = abs(exponent.real * base_logarithm) < _MAX_LOGARITHM
    if not is_small_exponent or not is_small_power:
        raise TooLargeError("a power is too large to compute")


def _read_integer(value: acb) -> int | None:
    """Return the whole number that a ball holds exactly, or None if it is not a whole number.

    Raises `TooLargeError` before a number such as 2^(2^39) is written out, which takes gigabytes.
    """
    if value.imag != 0 or not value.real.is_exact() or not value.is_finite():
        return None
    if not abs(value.real) < _MAX_INTEGER:
        raise TooLargeError("a whole number is too large to write out")
    number = value.real.unique_fmpz()
    if number is None:
        return None
    return int(number)


def _compute_root(radicand: acb, index: acb) -> acb:
    """Compute a root. An odd root of a negative number is the real one; an even one is complex."""
    whole_index = _read_integer(index)
    if whole_index is None or not 0 < whole_index < _MAX_ROOT_INDEX:
        raise UndefinedError("a root whose index is not a small number")
    if whole_index == 2:
        return radicand.sqrt()  # also of a negative number, which is complex
    if radicand == 0:
        return acb(0)
    power = acb(arb(fmpq(1, whole_index)))
    is_negative = is_real(radicand) and radicand.real < 0
    if is_negative and whole_index % 2 == 1:
        return -((-radicand) ** power)
    return radicand**power


def _compute_factorial(argument: acb) -> acb:
    """Compute the factorial of a real number, by the gamma function."""
    if not is_real(argument) or not abs(argument.real) < _MAX_EXPONENT:
        raise TooLargeError("a factorial is too large to compute")
    return (argument + 1).gamma()


def _compute_binomial(upper: acb, lower: acb) -> acb:
    """Compute a binomial coefficient, `upper` choose `lower`, step by step if `lower` is whole."""
    whole_lower = _read_integer(lower)
    if whole_lower is None:
        denominator = _compute_factorial(lower) * _compute_factorial(upper - lower)
        return _compute_factorial(upper) / denominator
    if not 0 <= whole_lower < _MAX_BINOMIAL_STEPS:
        raise TooLargeError("a binomial coefficient is too large to compute")
    product = acb(1)
    for step in range(whole_lower):
        product *= (upper - step) / (step + 1)
    return product


def _compute_logarithm(argument: acb, base: acb) -> acb:
    """Compute the logarithm of an argument to a base."""
    if argument == 0:
        raise UndefinedError("the logarithm of 0")
    return argument.log() / base.log()


def _compute_angle_function(function: Callable[[acb], acb], angle: acb) -> acb:
    """Compute a function such as the sine, unless the angle is too large."""
    # If the comparison of a ball is not certain, it is False.
    if not abs(angle) < _MAX_ANGLE:
        raise TooLargeError("an angle is too large to compute")
    return function(angle)


def _round_to_integer(value: acb, *, round_real: Callable[[arb], arb]) -> acb:
    """Round a real number by `round_real`, which is floor or ceiling.

    Raises `UndefinedError` if the ball contains several whole numbers, or is complex.
    """
    if not is_real(value):
        raise UndefinedError("a complex number has no floor")
    rounded = round_real(value.real)
    if not rounded.is_exact():
        raise UndefinedError("too near to a whole number to round")
    return acb(rounded)


def _compute_absolute_value(value: acb) -> acb:
    return acb(abs(value))


def _compute_sign(value: acb) -> acb:
    """Return 1, -1 or 0. Raises `UndefinedError` if the ball contains 0 and other numbers."""
    if is_real(value):
        if value.real > 0:
            return acb(1)
        if value.real < 0:
            return acb(-1)
        if value.real == 0:
            return acb(0)
    raise UndefinedError("the sign is not certain")


def _find_extreme(*values: acb, largest: bool) -> acb:
    """Return the largest or the smallest value. Raises `UndefinedError` if it is not certain."""
    extreme, *others = values
    for value in others:
        if not is_real(value) or not is_real(extreme):
            raise UndefinedError("complex numbers have no order")
        # Both are False if the two balls overlap.
        is_larger = value.real > extreme.real
        is_smaller = value.real < extreme.real
        if not is_larger and not is_smaller and value != extreme:
            raise UndefinedError("the order is not certain")
        if is_larger if largest else is_smaller:
            extreme = value
    return extreme


def _compute_gcd(*values: acb) -> acb:
    """Return the greatest common divisor of whole numbers."""
    return acb(reduce(fmpz.gcd, _read_integers(values)))


def _compute_lcm(*values: acb) -> acb:
    """Return the least common multiple of whole numbers."""
    multiple = fmpz(1)
    for number in _read_integers(values):
        multiple = multiple.lcm(number)
        if multiple.bit_length() > _MAX_LCM_BITS:
            raise TooLargeError("a least common multiple is too large to compute")
    return acb(multiple)


def _read_integers(values: tuple[acb, ...]) -> list[fmpz]:
    """Return the whole numbers that balls hold. Raises `UndefinedError` for any other number."""
    numbers: list[fmpz] = []
    for value in values:
        number = _read_integer(value)
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
    **{
        name: partial(_compute_angle_function, function)
        for name, function in _ANGLE_FUNCTIONS.items()
    },
    **_INVERSE_FUNCTIONS,
    "abs": _compute_absolute_value,
    "sign": _compute_sign,
    "factorial": _compute_factorial,
    "root": _compute_root,
    "binomial": _compute_binomial,
    "log": _compute_logarithm,
    "floor": partial(_round_to_integer, round_real=arb.floor),
    "ceil": partial(_round_to_integer, round_real=arb.ceil),
    "max": partial(_find_extreme, largest=True),
    "min": partial(_find_extreme, largest=False),
    "gcd": _compute_gcd,
    "lcm": _compute_lcm,
}
