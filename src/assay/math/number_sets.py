"""Compare sets of real numbers: intervals, unions, conditions.

The line of numbers is cut at the ends of all intervals of both sets. Between two cuts a set
contains everything or nothing, so two sets are equal if they agree at all cuts and between them.
"""

from collections.abc import Sequence
from functools import cmp_to_key, partial, reduce
from typing import Final, Literal

from flint import fmpq, fmpq_poly

from assay.math import tree
from assay.math.atoms import TooComplexError
from assay.math.balls import TooLargeError, UndefinedError, compute_ball, is_real
from assay.math.rational_functions import NotRationalError, read_rational_function
from assay.math.relations import REVERSED
from assay.math.values import compare_constants
from assay.math.verdict import DEFAULT, Equality, different, too_large, undecided

_INFINITY: Final = tree.Constant("infinity")
_MINUS_INFINITY: Final = tree.negate(_INFINITY)
_EMPTY: Final = tree.NamedSet("empty")
_ZERO: Final = tree.Number(fmpq(0))
_MAX_PARTS: Final = 60  # ends of intervals, and conditions, of one set
_MAX_ABSOLUTE_VALUES: Final = 4
_PRECISION: Final = 128
# The signs of left minus right for which a relation holds.
_SIGNS: Final = {
    "<": (-1,),
    "<=": (-1, 0),
    "=": (0,),
    ">=": (0, 1),
    ">": (1,),
    "!=": (-1, 1),
}


class NoSetError(ValueError):
    """The tree is not a set of real numbers that can be cut into intervals."""


def is_set(node: tree.Node) -> bool:
    """Return True if a tree can only be a set: an interval, a union, an inequality, a named set."""
    match node:
        case tree.Range() | tree.SetOperation() | tree.NamedSet() | tree.Builder():
            return True
        case tree.Relation(_, operators):
            return any(operator not in ("=", "to", "mod") for operator in operators)
        case tree.Listing("bare", items):
            return any(tree.is_inequality(item) for item in items)
        case tree.Sum(terms):
            return is_set(terms[0])  # a difference of sets
        case _:
            return False


def compare_sets(gold: tree.Node, answer: tree.Node) -> Equality:
    """Compare two sets of real numbers, or conditions on one variable."""
    variables = tree.find_symbols(gold) | tree.find_symbols(answer)
    if len(variables) > 1:
        return undecided("the conditions are about several variables")
    try:
        gold_set = _read_set(gold)
        answer_set = _read_set(answer)
        # Cut the line of numbers at all ends. Between two cuts a set has all numbers or none.
        cuts = _sort_ends(_list_ends(gold_set) + _list_ends(answer_set))
        gold_parts = _find_parts(gold_set, cuts)
        answer_parts = _find_parts(answer_set, cuts)
    except TooLargeError as error:
        return too_large(error)
    except (NoSetError, NotRationalError, UndefinedError, TooComplexError) as error:
        return undecided(str(error))
    if gold_parts != answer_parts:
        return different("the sets of numbers differ")
    # Two conditions that no number satisfies say nothing about each other, and the pair (3, 2) is
    # not an interval without numbers. Only the empty set itself equals such a condition.
    is_empty = not any(gold_parts)
    if is_empty and not _is_empty_set_and_condition(gold, answer):
        return different("an interval or condition that holds for no number has no value")
    return Equality(True, "equal as sets of numbers")


def _is_empty_set_and_condition(first: tree.Node, second: tree.Node) -> bool:
    """Return True if one side is `∅` and the other a condition, such as `x² < 0`."""
    if second == _EMPTY:
        first, second = second, first
    return first == _EMPTY and isinstance(second, tree.Relation | tree.Builder)


# Write a set with intervals, points and set operations.


def read_as_interval(node: tree.Node) -> tree.Node:
    """Return `(a, b)` and `[a, b]` as intervals, and anything else as it is."""
    match node:
        case tree.Listing("round" | "square" as kind, (low, high)):
            is_open = kind == "round"
            return tree.Range(low, high, low_open=is_open, high_open=is_open)
        case _:
            return node


def _read_set(node: tree.Node) -> tree.Node:
    """Return the same set, written only with intervals, points and set operations."""
    match node:
        case tree.Range() | tree.NamedSet("R" | "empty") | tree.Listing("set"):
            return node
        case tree.SetOperation(operator, left, right):
            return tree.SetOperation(operator, _read_set(left), _read_set(right))
        case tree.Listing("round" | "square", (_, _)):
            return read_as_interval(node)
        case tree.Builder(tree.Relation() as domain, condition):
            return tree.SetOperation("intersection", _read_set(domain), _read_set(condition))
        case tree.Builder(_, condition):
            return _read_set(condition)
        case tree.Listing("bare", items, joined):
            if not all(isinstance(item, tree.Relation) for item in items):
                return tree.Listing("set", items)
            operator = "union" if joined == "or" else "intersection"
            return _combine(operator, [_read_set(item) for item in items])
        case tree.Relation(sides, operators):
            return _solve_chain(sides, operators)
        case tree.Sum((left, tree.Product((tree.Number(factor), right)))) if (
            factor == -1 and is_set(left)
        ):
            return tree.SetOperation("difference", _read_set(left), _read_set(right))
        case tree.Number() | tree.Sum() | tree.Product():
            return tree.Listing("set", (node,))
        case _:
            raise NoSetError(f"{type(node).__name__} is not a set of real numbers")


def _combine(operator: Literal["union", "intersection"], sets: Sequence[tree.Node]) -> tree.Node:
    """Return the union or the intersection of several sets."""
    if len(sets) > _MAX_PARTS:
        # The tree has a level for each set, and is walked by recursion.
        raise TooLargeError(f"a {operator} of {len(sets)} sets")
    return reduce(partial(tree.SetOperation, operator), sets)


def _solve_chain(sides: tuple[tree.Node, ...], operators: tuple[str, ...]) -> tree.Node:
    """Return the set of numbers that satisfy every relation of a chain."""
    if len(operators) > _MAX_PARTS:
        raise TooLargeError(f"a chain of {len(operators)} relations")
    solutions = [
        _solve(left, operator, right)
        for left, operator, right in zip(sides, operators, sides[1:], strict=False)
    ]
    return _combine("intersection", solutions)


def _solve(left: tree.Node, operator: str, right: tree.Node) -> tree.Node:
    """Return the set of numbers that satisfy a relation, such as `x < 3`.

    Raises `NoSetError` if it has no variable, or cannot be solved.
    """
    if not tree.find_symbols(left) and not tree.find_symbols(right):
        raise NoSetError("a statement about numbers is not a set of them")
    if operator == "in":
        return _read_set(right)
    if operator not in REVERSED:
        raise NoSetError(f"{operator} is not an order")
    if tree.find_symbols(right) and not tree.find_symbols(left):
        left, right = right, left
        operator = REVERSED[operator]
    is_solved = isinstance(left, tree.Symbol) and not tree.find_symbols(right)
    if not is_solved:
        return _solve_rational(left, operator, right)
    match operator:
        case "<" | "<=":
            return tree.Range(_MINUS_INFINITY, right, low_open=True, high_open=operator == "<")
        case ">" | ">=":
            return tree.Range(right, _INFINITY, low_open=operator == ">", high_open=True)
        case "=":
            return tree.Listing("set", (right,))
        case _:
            point = tree.Listing("set", (right,))
            return tree.SetOperation("difference", tree.NamedSet("R"), point)


# Solve relations between rational functions and absolute values.


def _solve_rational(left: tree.Node, operator: str, right: tree.Node) -> tree.Node:
    """Solve a relation between rational functions of one variable and absolute values of them.

    Each absolute value is replaced, one after the other, by what it is in either case.
    """
    residual = tree.Sum((left, tree.negate(right)))
    absolute_values = _find_absolute_values(residual)
    if len(absolute_values) > _MAX_ABSOLUTE_VALUES:
        raise NoSetError("too many absolute values")
    if not absolute_values:
        numerator, denominator = read_rational_function(residual)
        return _find_where_sign_is(_SIGNS[operator], numerator, denominator)
    # |u| is u where u ≥ 0, and -u where -u > 0.
    absolute_value = absolute_values[0]
    (argument,) = absolute_value.arguments
    cases: list[tree.Node] = []
    for value, sign_operator in ((argument, ">="), (tree.negate(argument), ">")):
        domain = _solve_rational(value, sign_operator, _ZERO)
        left_case = tree.substitute(left, absolute_value, value)
        right_case = tree.substitute(right, absolute_value, value)
        solutions = _solve_rational(left_case, operator, right_case)
        cases.append(tree.SetOperation("intersection", domain, solutions))
    return tree.SetOperation("union", *cases)


def _find_absolute_values(node: tree.Node) -> list[tree.Apply]:
    """Return all absolute values in a tree, the innermost first."""
    absolute_values: list[tree.Apply] = []
    for child in tree.children(node):
        absolute_values += _find_absolute_values(child)
    if isinstance(node, tree.Apply) and node.function == "abs":
        absolute_values.append(node)
    return absolute_values


def _find_where_sign_is(
    signs: tuple[int, ...], numerator: fmpq_poly, denominator: fmpq_poly
) -> tree.Node:
    """Return the set where the quotient of two polynomials has one of these signs: -1, 0 or 1."""
    # Where it has a value, the quotient has the sign of the product.
    product = (numerator or fmpq_poly([1])) * denominator
    multiplicities: dict[tree.Node, int] = {}  # of the zeros of both polynomials
    zeros: list[tree.Node] = []  # of the quotient, if they belong to the set
    _, factors = product.factor()
    for factor, multiplicity in factors:
        roots = _find_real_roots(factor)
        for root in roots:
            multiplicities[root] = multiplicity
        is_zero_of_quotient = not numerator % factor and bool(denominator % factor)
        if 0 in signs and is_zero_of_quotient:
            zeros += roots
    parts: list[tree.Node] = []
    if zeros:
        parts.append(tree.Listing("set", tuple(zeros)))
    # Go down from infinity. The sign changes at zeros of odd multiplicity.
    sign = 0
    if numerator:
        sign = 1 if product.coeffs()[-1] > 0 else -1
    high: tree.Node = _INFINITY
    for low in [*reversed(_sort_ends(list(multiplicities))), _MINUS_INFINITY]:
        if sign in signs:
            parts.append(tree.Range(low, high, low_open=True, high_open=True))
        if multiplicities.get(low, 0) % 2 == 1:
            sign = -sign
        high = low
    return reduce(partial(tree.SetOperation, "union"), parts, _EMPTY)


def _find_real_roots(factor: fmpq_poly) -> list[tree.Node]:
    """Return the real zeros of an irreducible polynomial.

    Raises `NoSetError` if it has real zeros and a degree above 2.
    """
    coefficients = factor.coeffs()
    if len(coefficients) == 2:
        constant, slope = coefficients
        return [tree.Number(-constant / slope)]
    if len(coefficients) == 3:
        # The zeros of ax² + bx + c are -b/2a ± √((b/2a)² - c/a).
        constant, linear, leading = coefficients
        half = linear / leading / 2
        radicand = half * half - constant / leading
        if radicand < 0:
            return []
        root = tree.Apply("root", (tree.Number(radicand), tree.Number(fmpq(2))))
        middle = tree.Number(-half)
        return [tree.Sum((middle, root)), tree.Sum((middle, tree.negate(root)))]
    if any(is_real(root) for root, _ in factor.numer().complex_roots()):
        raise NoSetError(f"an equation of degree {factor.degree()}")
    return []


# Cut the line of numbers.


def _list_ends(node: tree.Node) -> list[tree.Node]:
    """Return the finite ends of all intervals of a set, and its single points."""
    match node:
        case tree.Range(low, high):
            return [end for end in (low, high) if end not in (_INFINITY, _MINUS_INFINITY)]
        case tree.Listing(_, items):
            return list(items)
        case tree.SetOperation(_, left, right):
            return _list_ends(left) + _list_ends(right)
        case _:
            return []


def _sort_ends(ends: list[tree.Node]) -> list[tree.Node]:
    """Return the ends in order, each value once."""
    if len(ends) > _MAX_PARTS:
        raise NoSetError("too many pieces")
    different_ends: list[tree.Node] = []
    for end in sorted(ends, key=cmp_to_key(_compare_ends)):
        if not different_ends or _compare_ends(different_ends[-1], end) != 0:
            different_ends.append(end)
    return different_ends


def _compare_ends(first: tree.Node, second: tree.Node) -> int:
    """Return -1, 0 or 1 for the order of two ends of intervals: first lower, equal, first higher.

    Raises `NoSetError` if they are not numbers of which the order is certain.
    """
    if first == second:
        return 0
    if tree.find_symbols(first) or tree.find_symbols(second):
        raise NoSetError("an end is not a number")
    first_value = compute_ball(first, {}, _PRECISION)
    second_value = compute_ball(second, {}, _PRECISION)
    if not is_real(first_value) or not is_real(second_value):
        raise NoSetError("an end is not a real number")
    if first_value.real < second_value.real:
        return -1
    if first_value.real > second_value.real:
        return 1
    if compare_constants(first, second, DEFAULT).equal:
        return 0
    raise NoSetError("two ends are too near to each other")


def _find_parts(node: tree.Node, cuts: list[tree.Node]) -> list[bool]:
    """Return which parts of the line a set contains.

    The parts are: below the first cut, the first cut, between the first and the second cut, and so
    on. The cut with the index i is the part 2i + 1.
    """
    part_count = 2 * len(cuts) + 1
    match node:
        case tree.NamedSet(name):
            return [name == "R"] * part_count
        case tree.Listing(_, items):
            points = {2 * _find_cut(item, cuts) + 1 for item in items}
            return [part in points for part in range(part_count)]
        case tree.Range(low, high, low_open, high_open):
            first = 0
            last = part_count - 1
            if low != _MINUS_INFINITY:
                first = 2 * _find_cut(low, cuts) + 1 + low_open
            if high != _INFINITY:
                last = 2 * _find_cut(high, cuts) + 1 - high_open
            return [first <= part <= last for part in range(part_count)]
        case tree.SetOperation(operator, left, right):
            pairs = zip(_find_parts(left, cuts), _find_parts(right, cuts), strict=True)
            match operator:
                case "union":
                    return [in_left or in_right for in_left, in_right in pairs]
                case "intersection":
                    return [in_left and in_right for in_left, in_right in pairs]
                case "difference":
                    return [in_left and not in_right for in_left, in_right in pairs]
        case _:
            raise NoSetError("no set")


def _find_cut(end: tree.Node, cuts: list[tree.Node]) -> int:
    """Return the index of the cut at this end."""
    for index, cut in enumerate(cuts):
        if _compare_ends(cut, end) == 0:
            return index
    raise NoSetError("an end is not among the cuts")
