"""Compare two values: exactly, or by certified values at points, with units and number bases."""

from collections.abc import Iterator, Mapping
from typing import Final

from flint import acb, arb, fmpq

from assay.math import tree
from assay.math.balls import TooLargeError, UndefinedError, compute_ball, is_known_function, is_real
from assay.math.exact import prove_equal
from assay.math.normalization import are_equal_fractions, shorten
from assay.math.separation import bits_to_prove_zero
from assay.math.units import is_generic, name_different_things, parse_unit
from assay.math.verdict import SAME, Equality, MathOptions, different, too_large, undecided

_PRECISIONS: Final = (64, 320, 1280)
_POINT_PRECISION: Final = 64
_NUMERATORS: Final = (137, 211, 59, 307, 83, 401, 173, 263, 97, 349, 113, 229)
_WHOLE_NUMBER_FUNCTIONS: Final = frozenset({"factorial", "binomial", "gcd", "lcm"})
_MAX_SHOWN_EXPONENT: Final = 4000  # the largest power of 2 that is written out in a reason
_MAX_DECIMAL_EXPONENT: Final = 10_000  # the largest power of 2 that is compared as a decimal
_I = tree.Constant("i")
_INFINITY = tree.Constant("infinity")


# Quantities and numerals.


def compare_quantities(gold: tree.Node, answer: tree.Node, options: MathOptions) -> Equality:
    """Compare two values with their units.

    Units are converted if both are known, and ignored if only one side has a unit.
    """
    if isinstance(gold, tree.Based) or isinstance(answer, tree.Based):
        return _compare_based(gold, answer)
    try:
        gold = _collect_unit(gold)
        answer = _collect_unit(answer)
    except UndefinedError as error:
        return undecided(str(error))
    gold_value, gold_unit = _split_unit(gold)
    answer_value, answer_unit = _split_unit(answer)
    if gold_unit == answer_unit:
        return compare_values(gold_value, answer_value, options)

    if isinstance(gold_value, tree.Percent) or isinstance(answer_value, tree.Percent):
        return different("one is a percentage, the other has a unit")
    if not options.units:
        return different("only one has a unit, or the units differ")
    if gold_unit is not None and answer_unit is not None:
        return _compare_converted(gold_value, gold_unit, answer_value, answer_unit, options)
    if gold_unit == "degree" or answer_unit == "degree":
        # An angle may equal one in radians: 180° is π.
        equality = compare_values(gold, answer, options)
        if equality.equal:
            return equality
    return compare_values(gold_value, answer_value, options)


def _split_unit(node: tree.Node) -> tuple[tree.Node, str | None]:
    """Return a value, and the name of its unit; None if it has no unit."""
    if isinstance(node, tree.Quantity):
        return node.value, node.unit
    return node, None


def _collect_unit(node: tree.Node) -> tree.Node:
    """Return a sum of values with the same unit as one value with it: 3 cm + 2 cm is (3 + 2) cm.

    Angles in degrees are numbers, and stay where they are. Raises `UndefinedError` if there are
    several units.
    """
    units: set[str] = set()
    for part in tree.list_nodes(node):
        if isinstance(part, tree.Quantity) and part.unit != "degree":
            units.add(part.unit)
    if len(units) > 1:
        raise UndefinedError(f"values in several units: {' and '.join(sorted(units))}")
    if not isinstance(node, tree.Sum) or not units:
        return node
    values = [term.value for term in node.terms if isinstance(term, tree.Quantity)]
    if len(values) < len(node.terms):
        return node
    return tree.Quantity(tree.Sum(tuple(values)), units.pop())


def _compare_converted(
    gold: tree.Node,
    gold_unit_name: str,
    answer: tree.Node,
    answer_unit_name: str,
    options: MathOptions,
) -> Equality:
    """Compare two values with units of different names, of which some may not be known units."""
    gold_unit = parse_unit(gold_unit_name)
    answer_unit = parse_unit(answer_unit_name)
    different_units = different(f"different units: {gold_unit_name} and {answer_unit_name}")
    if gold_unit is None and answer_unit is None:
        if tree.find_symbols(gold) or tree.find_symbols(answer):
            return undecided(f"{gold_unit_name!r} and {answer_unit_name!r} may not mean the same")
        if name_different_things(gold_unit_name, answer_unit_name):
            return different(f"they count other things: {gold_unit_name} and {answer_unit_name}")
        return compare_values(gold, answer, options)
    if gold_unit is None or answer_unit is None:
        if is_generic(gold_unit_name) or is_generic(answer_unit_name):
            return compare_values(gold, answer, options)
        return different_units
    if gold_unit.dimensions != answer_unit.dimensions:
        return different_units
    if gold_unit.factor != answer_unit.factor:
        gold_factor = fmpq(gold_unit.factor.numerator, gold_unit.factor.denominator)
        answer_factor = fmpq(answer_unit.factor.numerator, answer_unit.factor.denominator)
        gold = tree.Product((gold, tree.Number(gold_factor)))
        answer = tree.Product((answer, tree.Number(answer_factor)))
    return compare_values(gold, answer, options)


def _compare_based(gold: tree.Node, answer: tree.Node) -> Equality:
    """Compare numerals of which at least one has a base.

    An answer without a base is read in the gold's. A gold without a base is in base 10.
    """
    if isinstance(answer, tree.Based) and isinstance(gold, tree.Number):
        if gold.value.q != 1:
            return different("only one is whole")
        gold = tree.Based(str(gold.value), 10)
    if isinstance(gold, tree.Based) and isinstance(answer, tree.Based) and gold.base != answer.base:
        # A numeral in another base than the gold's is a conversion that was not done.
        return different(f"numerals in base {gold.base} and in base {answer.base}")
    gold_digits = _read_digits(gold)
    answer_digits = _read_digits(answer)
    if gold_digits is None or answer_digits is None:
        return undecided("a numeral in another base against something else")
    if gold_digits == answer_digits:
        return Equality(True, "equal as numerals")
    return different(f"different numerals: {gold_digits} and {answer_digits}")


def _read_digits(node: tree.Node) -> str | None:
    """Return the digits of a numeral or a whole number, or None for anything else."""
    if isinstance(node, tree.Based):
        return node.digits.lstrip("0")
    if isinstance(node, tree.Number) and node.value.q == 1:
        return str(node.value)
    return None


# Expressions with variables.


def compare_values(gold: tree.Node, answer: tree.Node, options: MathOptions) -> Equality:
    """Return whether two expressions have the same value for all values of their variables."""
    gold = _replace_unknown_functions(gold)
    answer = _replace_unknown_functions(answer)
    gold_names = tree.find_symbols(gold)
    answer_names = tree.find_symbols(answer)
    if not gold_names and not answer_names:
        return compare_constants(gold, answer, options)
    if not gold_names:
        # Only the answer has variables. If plain arithmetic removes them, it was not worked out.
        try:
            is_repeated_question = _cancels_by_arithmetic(answer)
        except TooLargeError as error:
            return too_large(error)
        if is_repeated_question:
            return different("the answer has variables that cancel, and the gold is a number")
    names = sorted(gold_names | answer_names)
    equality = _compare_at_points(gold, answer, names, options, tries=2)
    if equality.equal is False:
        return equality
    is_proven, assumed_positive = prove_equal(gold, answer)
    if equality.equal is None or not is_proven or assumed_positive:
        # Look at more points, also with negative values.
        equality = _compare_at_points(gold, answer, names, options, tries=8)
    if equality.equal and not is_proven:
        return undecided("no point tells them apart, and no proof that they are equal")
    return equality


def _cancels_by_arithmetic(node: tree.Node) -> bool:
    """Return True if the variables of an expression cancel, or if it has no value.

    `(u+4)(u-1) - (u-3)(u+6)` is 14, but only repeats the question. Every function of a variable
    counts as a variable of its own: sin² x + cos² x is 1 by an identity, which arithmetic alone
    does not show. Variables are taken as positive, so that roots and logarithms cancel too.
    """
    values = list(_sample_values(_replace_functions(node), tries=2))
    return all(value.overlaps(values[0]) for value in values)


def _replace_functions(node: tree.Node) -> tree.Node:
    """Replace every function of variables, except roots and logarithms, by a variable."""
    is_function = isinstance(node, tree.Apply) and node.function not in ("root", "log")
    if is_function and tree.find_symbols(node):
        return tree.Symbol(repr(node))  # equal functions become the same variable
    parts = tuple(_replace_functions(child) for child in tree.children(node))
    return tree.rebuild(node, parts)


def _compare_at_points(
    gold: tree.Node, answer: tree.Node, names: list[str], options: MathOptions, *, tries: int
) -> Equality:
    """Compare two expressions at a few points, which are values for the variables in `names`.

    They are different if their values differ at some point, and undecided if no point gives both a
    value. Over the real numbers, a point proves nothing if a part of one side is not real there,
    such as the root of a negative number. `tries` is the number of points.
    """
    is_complex = _I in tree.list_nodes(gold) or _I in tree.list_nodes(answer)
    needs_whole_numbers = _needs_whole_numbers(gold) or _needs_whole_numbers(answer)
    has_values = False
    for point in choose_points(names, tries, whole=needs_whole_numbers):
        if options.positive and any(value < 0 for value in point.values()):
            continue
        try:
            gold_value = compute_ball(gold, point, _POINT_PRECISION)
            answer_value = compute_ball(answer, point, _POINT_PRECISION)
            has_values = True
            if gold_value.overlaps(answer_value):  # the values may be equal
                continue
            if not is_complex:
                is_real_point = _is_real_throughout(gold, point) and _is_real_throughout(
                    answer, point
                )
                if not is_real_point:
                    continue
        except UndefinedError:
            continue
        except TooLargeError as error:
            return too_large(error)
        where = ", ".join(f"{shorten(name, 40)} = {point[name]}" for name in names[:4])
        return different(
            f"different at {where}: {format_ball(gold_value)} and {format_ball(answer_value)}"
        )
    if not has_values:
        return undecided("no point gives both of them a value")
    return SAME


def choose_points(
    names: list[str], tries: int, *, whole: bool = False
) -> Iterator[dict[str, fmpq]]:
    """Yield values for the variables, always the same: first positive ones, then of both signs.

    `tries` is the number of points. With `whole`, all values are whole numbers.
    """
    for attempt in range(tries):
        point: dict[str, fmpq] = {}
        for index, name in enumerate(names):
            numerator = _NUMERATORS[(5 * attempt + 7 * index) % len(_NUMERATORS)] + 16 * attempt
            if whole:
                point[name] = fmpq(3 + (numerator + 3 * index) % 9 + index)
                continue
            has_mixed_signs = attempt >= 2 and (attempt + index) % 2 == 0
            all_negative = attempt in (3, 5)
            if has_mixed_signs or all_negative:
                numerator = -numerator
            point[name] = fmpq(numerator, 128)
        yield point


def _needs_whole_numbers(node: tree.Node) -> bool:
    """Return True if an expression has a function of whole numbers, such as a factorial."""
    for part in tree.list_nodes(node):
        if isinstance(part, tree.Apply) and part.function in _WHOLE_NUMBER_FUNCTIONS:
            return True
    return False


def _is_real_throughout(node: tree.Node, point: Mapping[str, fmpq]) -> bool:
    """Return True if an expression and all its parts are real at a point."""
    for part in tree.list_nodes(node):
        # Only functions and powers can be complex where their arguments are real.
        if isinstance(part, tree.Apply | tree.Power):
            value = compute_ball(part, point, _POINT_PRECISION)
            if not is_real(value):
                return False
    return True


# Whether an expression has a value.


def has_value(node: tree.Node) -> bool:
    """Return True if an expression has a value for some values of its variables.

    Raises `TooLargeError` if the value is too large to compute.
    """
    if _sign_of_infinity(node) in (-1, 1):
        return True
    first_value = next(_sample_values(node), None)
    return first_value is not None


def is_computable(node: tree.Node) -> bool:
    """Return False if a value in the tree is too large to compute."""
    is_one_value = isinstance(node, tree.Quantity) or tree.is_value(node)
    if not is_one_value:
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


def _sample_values(node: tree.Node, *, tries: int = 4) -> Iterator[acb]:
    """Yield the values of an expression at a few points, with two precisions each.

    Points where it has no value are left out. `tries` is the number of points.
    """
    node = _replace_unknown_functions(node)
    names = sorted(tree.find_symbols(node))
    for point in choose_points(names, tries, whole=_needs_whole_numbers(node)):
        # With few digits, a denominator near 0 may not be told apart from 0.
        for precision in _PRECISIONS[:2]:
            try:
                value = compute_ball(node, point, precision)
            except UndefinedError:
                continue
            yield value


def _replace_unknown_functions(node: tree.Node) -> tree.Node:
    """Replace every function of which only the name is known, such as `f(x)`, by a variable.

    Equal calls become the same variable, and calls with different arguments different ones.
    """
    if isinstance(node, tree.Apply) and not is_known_function(node.function):
        return tree.Symbol(_format_call(node))
    parts = tuple(_replace_unknown_functions(child) for child in tree.children(node))
    return tree.rebuild(node, parts)


def _format_call(call: tree.Apply) -> str:
    """Return a call as it is written, such as `f(x)`, if its arguments are letters and numbers."""
    arguments: list[str] = []
    for argument in call.arguments:
        match argument:
            case tree.Symbol(name):
                arguments.append(name)
            case tree.Number(value):
                arguments.append(str(value))
            case _:
                arguments.append(repr(argument))
    return f"{call.function.removesuffix('()')}({', '.join(arguments)})"


# Numbers.


def compare_constants(gold: tree.Node, answer: tree.Node, options: MathOptions) -> Equality:
    """Compare two numbers, by the rules for decimals if one is written as a decimal."""
    if _is_same_percentage(gold, answer, options):
        return Equality(True, "equal as percentages")
    is_decimal = _uses_decimal_rules(gold, answer)
    gold_number = tree.evaluate_rational(gold)
    answer_number = tree.evaluate_rational(answer)
    if gold_number is not None and answer_number is not None:
        return _compare_rationals(gold_number, answer_number, options, is_decimal=is_decimal)
    if _INFINITY in tree.list_nodes(gold) or _INFINITY in tree.list_nodes(answer):
        return _compare_infinities(gold, answer)
    if _is_undefined(gold) or _is_undefined(answer):
        return different("one has no value: it divides by 0, or raises 0 to the power 0")
    try:
        return _compare_balls(gold, answer, options, is_decimal=is_decimal)
    except UndefinedError as error:
        return undecided(str(error))
    except TooLargeError as error:
        return too_large(error)


def _is_same_percentage(gold: tree.Node, answer: tree.Node, options: MathOptions) -> bool:
    """Return True if one side is the other without its percent sign, and the rules allow that.

    They do if the gold has the sign, or with `options.percent`.
    """
    if isinstance(gold, tree.Percent) and _is_same_without_percent(gold.value, answer):
        return True
    if not options.percent or not isinstance(answer, tree.Percent):
        return False
    return _is_same_without_percent(answer.value, gold)


def _is_same_without_percent(percentage: tree.Node, number: tree.Node) -> bool:
    """Return True if a number is that of a percentage, such as 9 of `9%`.

    Numbers below 1 are not: 0.5 is more likely a half than the number of `0.5%`.
    """
    percentage_number = tree.evaluate_rational(percentage)
    if percentage_number is None or abs(percentage_number) < 1:
        return False
    return percentage_number == tree.evaluate_rational(number)


def _uses_decimal_rules(gold: tree.Node, answer: tree.Node) -> bool:
    """Return True if a side is written as a decimal, and neither is a whole number."""
    if _is_whole_number(gold) or _is_whole_number(answer):
        return False
    return _is_decimal(gold) or _is_decimal(answer)


def _is_decimal(node: tree.Node) -> bool:
    if isinstance(node, tree.Percent):
        node = node.value
    return isinstance(node, tree.Number) and node.decimal


def _is_whole_number(node: tree.Node) -> bool:
    return isinstance(node, tree.Number) and node.value.q == 1 and not node.decimal


def _compare_rationals(
    gold: fmpq, answer: fmpq, options: MathOptions, *, is_decimal: bool
) -> Equality:
    """Compare two rational numbers, with the rules for decimals if one is written as a decimal."""
    gold_text = shorten(str(gold), 40)
    if are_equal_fractions(
        _to_fraction(gold), _to_fraction(answer), is_decimal=is_decimal, options=options
    ):
        return Equality(True, f"equal as numbers: {gold_text}")
    return different(f"different numbers: {gold_text} and {shorten(str(answer), 40)}")


def _to_fraction(number: fmpq) -> tuple[int, int]:
    """Return the numerator and the denominator, as the first tier compares them."""
    return int(number.p), int(number.q)


def _compare_infinities(gold: tree.Node, answer: tree.Node) -> Equality:
    """Compare two numbers of which at least one is infinite, by their signs."""
    gold_sign = _sign_of_infinity(gold)
    answer_sign = _sign_of_infinity(answer)
    if gold_sign is None or answer_sign is None:
        return undecided("arithmetic with infinity")
    if gold_sign == answer_sign:
        return Equality(True, "equal: both infinite")
    return different("one is infinite and the other is not, or with another sign")


def _sign_of_infinity(node: tree.Node) -> int | None:
    """Return 1 or -1 for an infinity, 0 for a finite expression, and None if that is not known."""
    if node == _INFINITY:
        return 1
    if isinstance(node, tree.Product) and len(node.factors) == 2 and node.factors[1] == _INFINITY:
        factor = tree.evaluate_rational(node.factors[0])
        if factor is None or factor == 0:
            return None
        return 1 if factor > 0 else -1
    if _INFINITY in tree.list_nodes(node):
        return None
    return 0


def _is_undefined(node: tree.Node) -> bool:
    """Return True if some part divides by 0, or raises 0 to a power that is not positive."""
    for part in tree.list_nodes(node):
        if isinstance(part, tree.Quotient) and tree.evaluate_rational(part.bottom) == 0:
            return True
        if isinstance(part, tree.Power) and tree.evaluate_rational(part.base) == 0:
            exponent = tree.evaluate_rational(part.exponent)
            if exponent is not None and exponent <= 0:
                return True
    return False


def _compare_balls(
    gold: tree.Node, answer: tree.Node, options: MathOptions, *, is_decimal: bool
) -> Equality:
    """Compare two numbers with growing precision until they differ, or are proven equal.

    `is_decimal` says that one is written as a decimal, so that rounded digits have to agree. Raises
    `UndefinedError` if a number has no value even at the highest precision.
    """
    has_tried_proof = False
    for precision in _PRECISIONS:
        try:
            gold_value = compute_ball(gold, {}, precision)
            answer_value = compute_ball(answer, {}, precision)
        except UndefinedError:
            # More digits may separate a denominator from 0.
            if precision == _PRECISIONS[-1]:
                raise
            continue
        equal = Equality(True, f"equal as numbers: {format_ball(answer_value)}")
        if not gold_value.overlaps(answer_value):  # they are different for certain
            may_round = is_decimal or options.tolerance > 0
            if may_round and _agree_as_decimals(
                gold_value, answer_value, options, is_decimal=is_decimal
            ):
                return equal
            return different(
                f"different numbers: {format_ball(gold_value)} and {format_ball(answer_value)}"
            )
        if not has_tried_proof:
            has_tried_proof = True
            is_proven, _ = prove_equal(gold, answer)
            if is_proven or _is_algebraic_zero(gold, answer):
                return equal
    return undecided(f"equal to {_PRECISIONS[-1]} bits, and no proof")


def _agree_as_decimals(gold: acb, answer: acb, options: MathOptions, *, is_decimal: bool) -> bool:
    """Return True if two real numbers agree as far as decimals or the tolerance demand."""
    if not is_real(gold) or not is_real(answer):
        return False
    return are_equal_fractions(
        _take_midpoint(gold), _take_midpoint(answer), is_decimal=is_decimal, options=options
    )


def _take_midpoint(value: acb) -> tuple[int, int]:
    """Return the midpoint of a real ball as a numerator and a denominator."""
    mantissa, exponent = value.real.mid().man_exp()
    if abs(exponent) > _MAX_DECIMAL_EXPONENT:
        raise TooLargeError("a number of thousands of digits")
    power_of_two = 2 ** abs(int(exponent))
    if exponent >= 0:
        return _to_fraction(fmpq(mantissa * power_of_two))
    return _to_fraction(fmpq(mantissa, power_of_two))


def _is_algebraic_zero(gold: tree.Node, answer: tree.Node) -> bool:
    """Return True if two numbers are too near to each other to be different algebraic numbers."""
    try:
        bits = bits_to_prove_zero(gold, answer)
        difference = compute_ball(gold, {}, bits + 128) - compute_ball(answer, {}, bits + 128)
    except (UndefinedError, TooLargeError):
        return False
    return bool(abs(difference) < arb(2) ** -bits)


def format_ball(value: acb) -> str:
    """Return a few digits of a value, for a reason."""
    if abs(value.real.mid().man_exp()[1]) > _MAX_SHOWN_EXPONENT:
        return "a number of a thousand digits or more"
    if is_real(value):
        return value.str(8, radius=False)
    return f"({value.str(6, radius=False)})"
