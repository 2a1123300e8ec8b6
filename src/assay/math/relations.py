"""Compare equations, inequalities and sets of real numbers.

Two relations are the same when one is a multiple of the other, or turned round; a solution of one that is none of
the other tells two equations apart. Two sets are cut at the same places, the ends of all their intervals in order:
between two places a set holds everything or nothing, so they are equal when they agree at and between all places.
"""

from functools import cmp_to_key, partial, reduce
from itertools import groupby
from typing import Final

from flint import acb, fmpq

from assay.math.balls import Point, TooLargeError, UndefinedError, ball, is_real
from assay.math.exact import NO_PROOF, ONE, Form, Ratio, TooComplexError, constant, divided, scaled, times
from assay.math.tree import (
    Builder,
    Constant,
    Listing,
    NamedSet,
    Node,
    Number,
    Product,
    Range,
    Relation,
    SetOperation,
    Sum,
    Symbol,
    is_inequality,
    negated,
    symbols_of,
)
from assay.math.values import compare_constants, points, shown
from assay.math.verdict import DEFAULT, Equality, different, undecided

_TURNED: Final = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "=": "=", "!=": "!="}

_OPEN: Final = undecided("the relations may have the same solutions")


def compare_relations(gold: Node, answer: Node) -> Equality:
    if not (isinstance(gold, Relation) and isinstance(answer, Relation)):
        return _compare_solved(gold, answer)
    if len(gold.operators) != len(answer.operators):
        return undecided("chains of different lengths")
    # Only `=` and the orders may be turned round or multiplied; x ∈ A and p → q hold between these two sides.
    are_orders = all(operator in _TURNED for operator in gold.operators)
    for turned in (False, True)[: 1 + are_orders]:
        candidate = answer
        if turned:
            operators = tuple(_TURNED.get(operator, operator) for operator in reversed(answer.operators))
            candidate = Relation(tuple(reversed(answer.sides)), operators)
        if candidate.operators != gold.operators:
            continue
        if len(gold.operators) == 1 and are_orders:
            found = _same_line(gold, candidate)
            if found.equal:
                return found
        elif _same_chain(gold, candidate):
            return Equality(True, "equal as chains of relations")
    if symbols_of(gold) != symbols_of(answer):
        return different("they are about different variables")
    if gold.operators == answer.operators == ("=",):
        return told_apart(gold, answer) or told_apart(answer, gold) or _OPEN
    return _OPEN


def _compare_solved(gold: Node, answer: Node) -> Equality:
    """An equation against what one of its variables comes to: `y + 1 = x²` and `x² − 1`."""
    if not isinstance(gold, Relation) or gold.operators != ("=",):
        return different("only one is an equation")
    names = symbols_of(gold) - symbols_of(answer)
    if len(names) != 1 or not symbols_of(answer) <= symbols_of(gold):
        return different("only one is an equation")
    form = Form()
    try:
        asked = form.atom("symbol", names.pop())
        whole = form.value(_residual(gold))
        ((atom, _),) = next(iter(asked.top))
        slope = {m: c for m, c in whole.top.items() if any(pair[0] == atom for pair in m)}
        if any((atom, 1) not in monomial for monomial in slope) or not slope:
            return undecided("the equation is not linear in what is asked")
        rest = {m: c for m, c in whole.top.items() if m not in slope}
        factor = Ratio(divided(slope, ((atom, 1),)), ONE)
        solved = form.multiply(factor, form.value(answer))
        if form.assumed_positive:
            return undecided("the equation holds for some signs only")
        if form.equal(solved, Ratio(scaled(rest, fmpq(-1)), ONE)):
            return Equality(True, "equal as the equation solved")
    except NO_PROOF as error:
        return undecided(str(error))
    return different("the equation solved gives something else")


def _same_chain(gold: Relation, answer: Relation) -> bool:
    form, sides = Form(), zip(gold.sides, answer.sides, strict=True)
    try:
        same = all(form.equal(form.value(one), form.value(two)) for one, two in sides)
    except NO_PROOF:
        return False
    return same and not form.assumed_positive


def _same_line(gold: Relation, answer: Relation) -> Equality:
    """Whether left minus right of one is a constant multiple of that of the other."""
    form = Form()
    try:
        factor = _factor(form, form.value(_residual(gold)), form.value(_residual(answer)))
    except NO_PROOF as error:
        return undecided(str(error))
    if factor is None or form.assumed_positive:
        return undecided("no constant multiple of each other")
    if gold.operators[0] not in ("=", "!=") and factor < 0:
        return different("the inequality points the other way")
    return Equality(True, "equal as equations" if gold.operators == ("=",) else "equal as inequalities")


def _factor(form: Form, one: Ratio, two: Ratio) -> fmpq | None:
    """The number that makes the second the first, if there is one."""
    if not one.top or not two.top:
        return fmpq(1) if not one.top and not two.top else None
    left = Ratio(form.reduced(times(one.top, two.bottom)), ONE)
    right = Ratio(form.reduced(times(two.top, one.bottom)), ONE)
    if left.top.keys() != right.top.keys():
        return None
    key = min(left.top)
    factor = left.top[key] / right.top[key]
    return factor if form.equal(left, form.multiply(right, constant(factor))) else None


_PRECISION = 128


def told_apart(one: Relation, two: Relation) -> Equality | None:
    """A finding when some solution of the first equation is none of the second; None when none was found."""
    names = sorted(symbols_of(one))
    for name in names:
        for point in points(names, 3):
            try:
                solution = _zero_of(_residual(one), name, point)
                if solution is None:
                    break
                left = ball(_residual(two), {**point, name: solution}, _PRECISION)
            except (UndefinedError, TooLargeError):
                continue
            if is_real(left) and not left.overlaps(acb(0)):
                return different(f"only one holds at {name} = {shown(solution)}")
    return None


def _residual(relation: Relation) -> Node:
    return Sum((relation.sides[0], negated(relation.sides[1])))


def _zero_of(residual: Node, name: str, point: Point) -> acb | None:
    """Where the residual is 0, if it is a straight line in this variable; None if it is not."""
    at = [ball(residual, {**point, name: fmpq(place)}, _PRECISION) for place in (0, 1, 2, 7)]
    slope = at[1] - at[0]
    if slope.overlaps(acb(0)) or not all(map(is_real, at)):
        return None
    if not (at[0] + slope * 2).overlaps(at[2]) or not (at[0] + slope * 7).overlaps(at[3]):
        return None
    solution = -at[0] / slope
    # The residual is a line as far as four points show; that this is a solution is what counts.
    return solution if ball(residual, {**point, name: solution}, _PRECISION).overlaps(acb(0)) else None


_INFINITY: Final = Constant("infinity")
_MINUS_INFINITY: Final = negated(_INFINITY)


class NoSetError(ValueError):
    """The tree is no set of real numbers that can be cut into pieces."""


def compare_sets(gold: Node, answer: Node) -> Equality:
    variables = symbols_of(gold) | symbols_of(answer)
    if len(variables) > 1:
        return undecided("the conditions are about several variables")
    try:
        first, second = as_set(gold), as_set(answer)
        places = _ordered(_ends(first) + _ends(second))
        if _pieces(first, places) == _pieces(second, places):
            return Equality(True, "equal as sets of numbers")
        return different("the sets of numbers differ")
    except (NoSetError, UndefinedError, TooLargeError, TooComplexError) as error:
        return undecided(str(error))


def is_set(node: Node) -> bool:
    """Whether the tree can only be a set: an interval, a union, an inequality, a named set."""
    match node:
        case Range() | SetOperation() | NamedSet() | Builder():
            return True
        case Relation(_, operators):
            return any(operator not in ("=", "to", "mod") for operator in operators)
        case Listing("bare", items):
            return any(is_inequality(item) for item in items)
        case Sum(terms):
            return is_set(terms[0])
        case _:
            return False


def as_set(node: Node) -> Node:
    """The same set written with intervals, points and set operations alone."""
    match node:
        case Range() | NamedSet("R" | "empty"):
            return node
        case SetOperation(operator, left, right):
            return SetOperation(operator, as_set(left), as_set(right))
        case Listing("round" | "square" as kind, (low, high)):
            return Range(low, high, kind == "round", kind == "round")
        case Listing("set", items):
            return Listing("set", items)
        case Builder(_, condition):
            return as_set(condition)
        case Listing("bare", items, joined):
            if not all(isinstance(item, Relation) for item in items):
                return Listing("set", items)
            operator = "union" if joined == "or" else "intersection"
            return reduce(partial(SetOperation, operator), map(as_set, items))
        case Relation(sides, operators):  # what satisfies every link of the chain
            return reduce(partial(SetOperation, "intersection"), map(_solved, sides, operators, sides[1:]))
        case Sum((left, Product((Number(value), right)))) if value == -1 and is_set(left):
            return SetOperation("difference", as_set(left), as_set(right))
        case Number() | Sum() | Product():
            return Listing("set", (node,))
        case _:
            raise NoSetError(f"{type(node).__name__} is no set of real numbers")


def _solved(left: Node, operator: str, right: Node) -> Node:
    if operator == "in":
        return as_set(right)
    if operator not in _TURNED:
        raise NoSetError(f"{operator} is no order")
    if symbols_of(right) and not symbols_of(left):
        left, right, operator = right, left, _TURNED[operator]
    if not isinstance(left, Symbol) or symbols_of(right):
        left, right, operator = _isolated(left, right, operator)
    match operator:
        case "<" | "<=":
            return Range(_MINUS_INFINITY, right, True, operator == "<")
        case ">" | ">=":
            return Range(right, _INFINITY, operator == ">", True)
        case "=":
            return Listing("set", (right,))
        case _:
            return SetOperation("difference", NamedSet("R"), Listing("set", (right,)))


def _isolated(left: Node, right: Node, operator: str) -> tuple[Node, Node, str]:
    """A linear relation ax + b < 0, solved for x."""
    form = Form()
    ratio = form.value(Sum((left, negated(right))))
    slope, shift = fmpq(0), fmpq(0)
    bottom = ratio.bottom.get(())
    if bottom is None or len(ratio.bottom) != 1:
        raise NoSetError("the relation is not linear")
    for monomial, coefficient in ratio.top.items():
        if not monomial:
            shift = coefficient / bottom
        elif len(monomial) == 1 and monomial[0][1] == 1 and form.keys[monomial[0][0]][0] == "symbol" and slope == 0:
            slope = coefficient / bottom
        else:
            raise NoSetError("the relation is not linear")
    if slope == 0 or form.assumed_positive:
        raise NoSetError("the relation is not plainly linear")
    name = next(iter(symbols_of(left) | symbols_of(right)))
    return Symbol(name), Number(-shift / slope), operator if slope > 0 else _TURNED[operator]


def _ends(node: Node) -> list[Node]:
    match node:
        case Range(low, high):
            return [end for end in (low, high) if end not in (_INFINITY, _MINUS_INFINITY)]
        case Listing(_, items):
            return list(items)
        case SetOperation(_, left, right):
            return _ends(left) + _ends(right)
        case _:
            return []


def _ordered(ends: list[Node]) -> list[Node]:
    if len(ends) > 60:
        raise NoSetError("too many pieces")
    return [next(same) for _, same in groupby(sorted(ends, key=cmp_to_key(_order)), cmp_to_key(_order))]


def _order(one: Node, two: Node) -> int:
    if one == two:
        return 0
    if symbols_of(one) or symbols_of(two):
        raise NoSetError("an end is no number")
    first, second = ball(one, {}, 128), ball(two, {}, 128)
    if not (is_real(first) and is_real(second)):
        raise NoSetError("an end is no real number")
    if first.real < second.real or first.real > second.real:
        return -1 if first.real < second.real else 1
    if compare_constants(one, two, DEFAULT).equal:
        return 0
    raise NoSetError("two ends are too near to each other")


def _pieces(node: Node, places: list[Node]) -> tuple[bool, ...]:
    """Whether the set holds: below the first place, at it, between it and the second, and so on."""
    size = 2 * len(places) + 1
    match node:
        case NamedSet(name):
            return (name == "R",) * size
        case Listing(_, items):
            chosen = {2 * _place(item, places) + 1 for item in items}
            return tuple(piece in chosen for piece in range(size))
        case Range(low, high, low_open, high_open):
            start = 0 if low == _MINUS_INFINITY else 2 * _place(low, places) + 1 + low_open
            end = size - 1 if high == _INFINITY else 2 * _place(high, places) + 1 - high_open
            return tuple(start <= piece <= end for piece in range(size))
        case SetOperation(operator, left, right):
            pairs = zip(_pieces(left, places), _pieces(right, places), strict=True)
            joined = {"union": bool.__or__, "intersection": bool.__and__, "difference": bool.__gt__}[operator]
            return tuple(joined(*pair) for pair in pairs)
        case _:
            raise NoSetError("no set")


def _place(end: Node, places: list[Node]) -> int:
    for number, place in enumerate(places):
        if _order(place, end) == 0:
            return number
    raise NoSetError("an end was lost")
