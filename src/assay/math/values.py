"""Compare two values: by exact arithmetic, by certified values at points, with their units, in their bases."""

from collections.abc import Iterator, Mapping
from typing import Final

from flint import acb, arb, fmpq

from assay.math import tree
from assay.math.balls import (
    TooLargeError,
    UndefinedError,
    ball,
    bits_to_prove_zero,
    is_known_function,
    is_real,
)
from assay.math.exact import proves_equal
from assay.math.normalization import agree, shortened
from assay.math.units import count_other_things, is_generic, unit_of
from assay.math.verdict import SAME, Equality, MathOptions, different, too_large, undecided

_PRECISIONS: Final = (64, 320, 1280)
_NUMERATORS: Final = (137, 211, 59, 307, 83, 401, 173, 263, 97, 349, 113, 229)
_LONGEST_SHOWN: Final = 4000  # the largest power of 2 that is written out in a reason
_I, _INFINITY = tree.Constant("i"), tree.Constant("infinity")


def compare_values(gold: tree.Node, answer: tree.Node, options: MathOptions) -> Equality:
    """Whether two expressions have the same value, whatever their variables are."""
    names = sorted(tree.symbols_of(gold) | tree.symbols_of(answer))
    if not names:
        return compare_constants(gold, answer, options)
    if not tree.symbols_of(gold):
        # `(u+4)(u-1) - (u-3)(u+6)` is 14, but repeats the question.
        return different("the answer has variables, and the gold is a number")
    found = _told_apart(gold, answer, names, options, tries=2)
    if found.equal is False:
        return found
    same, assumed_positive = proves_equal(gold, answer)
    if found.equal is None or not same or assumed_positive:
        found = _told_apart(gold, answer, names, options, tries=8)
    if found.equal and not same:
        return undecided("no point tells them apart, and no proof that they are equal")
    return found


def _told_apart(
    gold: tree.Node, answer: tree.Node, names: list[str], options: MathOptions, *, tries: int
) -> Equality:
    """Different when some point gives the two different values, and undecided when they have none at any point.

    Over the real numbers a point tells nothing where a part of one side is not real: the root of a negative number.
    """
    complex_too = _I in tree.nodes_of(gold) or _I in tree.nodes_of(answer)
    found = undecided("no point gives both of them a value")
    for point in points(names, tries, whole=_needs_whole(gold) or _needs_whole(answer)):
        if options.positive and any(value < 0 for value in point.values()):
            continue
        try:
            one, two = ball(gold, point, 64), ball(answer, point, 64)
            found = SAME
            if one.overlaps(two):
                continue
            if not (
                complex_too
                or (_is_real_throughout(gold, point) and _is_real_throughout(answer, point))
            ):
                continue
        except UndefinedError:
            continue
        except TooLargeError as error:
            return too_large(error)
        where = ", ".join(f"{name} = {point[name]}" for name in names[:4])
        return different(f"different at {where}: {shown(one)} and {shown(two)}")
    return found


def has_value(node: tree.Node) -> bool:
    """Return True if an expression has a value for some values of its variables.

    Raises `TooLargeError` if the value is too large to compute.
    """
    is_infinite = _sign_of_infinity(node) in (-1, 1)
    return is_infinite or any(True for _ in _sample_values(node))


def is_computable(node: tree.Node) -> bool:
    """Return False if a value in the tree is too large to compute."""
    if not isinstance(node, tree.Quantity) and not tree.is_value(node):
        return all(is_computable(child) for child in tree.children(node))
    try:
        has_value(node)
    except TooLargeError:
        return False
    return True


def is_nonzero(node: tree.Node) -> bool:
    """Return True if an expression is provably not 0 for some values of its variables.

    Raises `TooLargeError` if the value is too large to compute.
    """
    return any(not value.overlaps(acb(0)) for value in _sample_values(node))


def _sample_values(node: tree.Node) -> Iterator[acb]:
    """Yield the values of an expression at a few points where it has one."""
    node = _with_functions_as_variables(node)
    names = sorted(tree.symbols_of(node))
    for point in points(names, tries=4, whole=_needs_whole(node)):
        for precision in _PRECISIONS[:2]:
            try:
                value = ball(node, point, precision)
            except UndefinedError:
                continue
            yield value


def _with_functions_as_variables(node: tree.Node) -> tree.Node:
    """Replace every function of which only the name is known, such as `f(x)`, by a variable."""
    if isinstance(node, tree.Apply) and not is_known_function(node.function):
        return tree.Symbol(node.function)
    parts = tuple(_with_functions_as_variables(child) for child in tree.children(node))
    return tree.rebuilt(node, parts)


def _is_real_throughout(node: tree.Node, point: Mapping[str, fmpq]) -> bool:
    """Whether an expression and all its parts are real numbers at a point."""
    parts = (each for each in tree.nodes_of(node) if isinstance(each, tree.Apply | tree.Power))
    return all(is_real(ball(part, point, 64)) for part in parts)


def points(names: list[str], tries: int, *, whole: bool = False) -> Iterator[dict[str, fmpq]]:
    """Always the same points: first positive ones, then of mixed signs."""
    for attempt in range(tries):
        point: dict[str, fmpq] = {}
        for place, name in enumerate(names):
            top = _NUMERATORS[(5 * attempt + 7 * place) % len(_NUMERATORS)] + 16 * attempt
            if whole:
                point[name] = fmpq(3 + (top + place * 3) % 9 + place)
                continue
            negative = (attempt >= 2 and (attempt + place) % 2 == 0) or attempt in (3, 5)
            point[name] = fmpq(-top if negative else top, 128)
        yield point


def _needs_whole(node: tree.Node) -> bool:
    functions = ("factorial", "binomial", "gcd", "lcm")
    return any(
        isinstance(each, tree.Apply) and each.function in functions for each in tree.nodes_of(node)
    )


def compare_constants(gold: tree.Node, answer: tree.Node, options: MathOptions) -> Equality:
    """Whether two numbers are the same, by the rules for decimals where one is written so."""
    if isinstance(gold, tree.Percent) and _is_same_without_percent(gold.value, answer):
        return Equality(True, "equal as percentages")
    if (
        options.percent
        and isinstance(answer, tree.Percent)
        and _is_same_without_percent(answer.value, gold)
    ):
        return Equality(True, "equal as percentages")
    one, two = tree.rational_of(gold), tree.rational_of(answer)
    is_decimal = _is_decimal(gold, answer)
    if one is not None and two is not None:
        if agree(_pair(one), _pair(two), is_decimal=is_decimal, options=options):
            return Equality(True, f"equal as numbers: {shortened(str(one), 40)}")
        return different(
            f"different numbers: {shortened(str(one), 40)} and {shortened(str(two), 40)}"
        )
    if _INFINITY in tree.nodes_of(gold) or _INFINITY in tree.nodes_of(answer):
        # Infinities are equal when their signs are; no number is infinite.
        signs = [_sign_of_infinity(side) for side in (gold, answer)]
        if None in signs:
            return undecided("arithmetic with infinity")
        if signs[0] == signs[1]:
            return Equality(True, "equal: both infinite")
        return different("one is infinite and the other is not, or with another sign")
    if _is_undefined(gold) or _is_undefined(answer):
        return different("one has no value: it divides by 0, or raises 0 to the power 0")
    try:
        return _by_value(gold, answer, options, is_decimal=is_decimal)
    except UndefinedError as error:
        return undecided(str(error))
    except TooLargeError as error:
        return too_large(error)


def _is_undefined(node: tree.Node) -> bool:
    """Return True if some part divides by 0, or raises 0 to a power that is not positive."""
    for part in tree.nodes_of(node):
        if isinstance(part, tree.Quotient) and tree.rational_of(part.bottom) == 0:
            return True
        if isinstance(part, tree.Power) and tree.rational_of(part.base) == 0:
            exponent = tree.rational_of(part.exponent)
            if exponent is not None and exponent <= 0:
                return True
    return False


def _is_same_without_percent(percentage: tree.Node, number: tree.Node) -> bool:
    """Return True if a number is that of a percentage, such as 9 of `9%`.

    Below 1 it is not: 0.5 is rather a half than the number of `0.5%`.
    """
    one, two = tree.rational_of(percentage), tree.rational_of(number)
    return one is not None and one == two and abs(one) >= 1


def _is_whole(node: tree.Node) -> bool:
    return isinstance(node, tree.Number) and node.value.q == 1 and not node.decimal


def _by_value(
    gold: tree.Node, answer: tree.Node, options: MathOptions, *, is_decimal: bool
) -> Equality:
    is_first = True
    for precision in _PRECISIONS:
        try:
            one, two = ball(gold, {}, precision), ball(answer, {}, precision)
        except UndefinedError:  # more digits may tell a denominator from 0
            if precision == _PRECISIONS[-1]:
                raise
            continue
        if not one.overlaps(two):
            # A decimal, or the tolerance asked for, may not tell them apart.
            is_rounded = (is_decimal or options.tolerance) and is_real(one) and is_real(two)
            if is_rounded and agree(
                _middle(one), _middle(two), is_decimal=is_decimal, options=options
            ):
                return Equality(True, f"equal as numbers: {shown(two)}")
            return different(f"different numbers: {shown(one)} and {shown(two)}")
        if is_first and (proves_equal(gold, answer)[0] or _is_algebraic_zero(gold, answer)):
            return Equality(True, f"equal as numbers: {shown(two)}")
        is_first = False
    return undecided(f"equal to {_PRECISIONS[-1]} bits, and no proof")


def _is_algebraic_zero(gold: tree.Node, answer: tree.Node) -> bool:
    """Whether the two are too near to each other to be different algebraic numbers."""
    try:
        bits = bits_to_prove_zero(gold, answer)
        difference = ball(gold, {}, bits + 128) - ball(answer, {}, bits + 128)
    except (UndefinedError, TooLargeError):
        return False
    return bool(abs(difference) < arb(2) ** -bits)


def _middle(value: acb) -> tuple[int, int]:
    mantissa, exponent = value.real.mid().man_exp()
    if abs(exponent) > 10_000:
        raise TooLargeError("a number of thousands of digits")
    scale = 2 ** abs(int(exponent))
    return _pair(fmpq(mantissa * scale) if exponent >= 0 else fmpq(mantissa, scale))


def _is_decimal(gold: tree.Node, answer: tree.Node) -> bool:
    """Whether the rule for decimals holds: one is written as a decimal, and none is a whole number."""
    sides = [side.value if isinstance(side, tree.Percent) else side for side in (gold, answer)]
    has_decimal = any(isinstance(side, tree.Number) and side.decimal for side in sides)
    return has_decimal and not (_is_whole(gold) or _is_whole(answer))


def _sign_of_infinity(node: tree.Node) -> int | None:
    if node == _INFINITY:
        return 1
    if isinstance(node, tree.Product) and len(node.factors) == 2 and node.factors[1] == _INFINITY:
        number = tree.rational_of(node.factors[0])
        return None if number is None or number == 0 else (1 if number > 0 else -1)
    return None if _INFINITY in tree.nodes_of(node) else 0


def _pair(number: fmpq) -> tuple[int, int]:
    return int(number.p), int(number.q)


def shown(value: acb) -> str:
    if abs(value.real.mid().man_exp()[1]) > _LONGEST_SHOWN:
        return "a number of a thousand digits or more"
    return value.str(8, radius=False) if is_real(value) else f"({value.str(6, radius=False)})"


def compare_quantities(gold: tree.Node, answer: tree.Node, options: MathOptions) -> Equality:
    """Values with their units: converted where both are known, ignored where one has none."""
    if isinstance(gold, tree.Based) or isinstance(answer, tree.Based):
        return _compare_based(gold, answer)
    try:
        gold, answer = _with_one_unit(gold), _with_one_unit(answer)
    except UndefinedError as error:
        return undecided(str(error))
    one, left = (gold.unit, gold.value) if isinstance(gold, tree.Quantity) else (None, gold)
    two, right = (
        (answer.unit, answer.value) if isinstance(answer, tree.Quantity) else (None, answer)
    )
    if one is None and two is None:
        return compare_values(gold, answer, options)
    if one != two and (isinstance(left, tree.Percent) or isinstance(right, tree.Percent)):
        return different("one is a percentage, the other has a unit")
    if not options.units and one != two:
        return different("only one has a unit, or the units differ")
    if one is not None and two is not None and one != two:
        return _compare_converted(left, one, right, two, options)
    if "degree" in (one, two) and one != two:
        found = compare_values(gold, answer, options)
        if found.equal:
            return found
    return compare_values(left, right, options)


def _with_one_unit(node: tree.Node) -> tree.Node:
    """A sum of values with one unit as one value with it: 3 cm + 2 cm. Angles are numbers, and stay where they are."""
    units = {
        each.unit
        for each in tree.nodes_of(node)
        if isinstance(each, tree.Quantity) and each.unit != "degree"
    }
    if len(units) > 1:
        raise UndefinedError(f"values in several units: {' and '.join(sorted(units))}")
    values = [term.value for term in tree.children(node) if isinstance(term, tree.Quantity)]
    if isinstance(node, tree.Sum) and len(units) == 1 and len(values) == len(node.terms):
        return tree.Quantity(tree.Sum(tuple(values)), units.pop())
    return node


def _compare_converted(
    left: tree.Node, unit: str, right: tree.Node, other: str, options: MathOptions
) -> Equality:
    first, second = unit_of(unit), unit_of(other)
    if first is None and second is None and (tree.symbols_of(left) or tree.symbols_of(right)):
        return undecided(f"{unit!r} and {other!r} may not mean the same")
    if (first is None) != (second is None) and not (is_generic(unit) or is_generic(other)):
        return different(f"different units: {unit} and {other}")
    if first is None and second is None and count_other_things(unit, other):
        return different(f"they count other things: {unit} and {other}")
    if first is None or second is None:
        return compare_values(left, right, options)
    if first.dimensions != second.dimensions:
        return different(f"different units: {unit} and {other}")
    if first.factor != second.factor:
        one_factor, two_factor = (
            fmpq(unit.factor.numerator, unit.factor.denominator) for unit in (first, second)
        )
        left = tree.Product((left, tree.Number(one_factor)))
        right = tree.Product((right, tree.Number(two_factor)))
    return compare_values(left, right, options)


def _compare_based(gold: tree.Node, answer: tree.Node) -> Equality:
    """Numerals in a base; one without a base is read in the other's."""
    if isinstance(gold, tree.Based) and isinstance(answer, tree.Based) and gold.base != answer.base:
        # A numeral in another base than the gold's is a conversion that was not done.
        return different(f"numerals in base {gold.base} and in base {answer.base}")
    # A gold without a base is in base 10.
    if isinstance(answer, tree.Based) and isinstance(gold, tree.Number):
        if gold.value.q != 1:
            return different("only one is whole")
        return _compare_based(tree.Based(str(gold.value), 10), answer)
    one, two = _digits(gold), _digits(answer)
    if one is None or two is None:
        return undecided("a numeral in another base against something else")
    if one == two:
        return Equality(True, "equal as numerals")
    return different(f"different numerals: {one} and {two}")


def _digits(node: tree.Node) -> str | None:
    if isinstance(node, tree.Based):
        return node.digits.lstrip("0")
    return str(node.value) if isinstance(node, tree.Number) and node.value.q == 1 else None
