"""Compare equations, inequalities and sets of real numbers.

Two relations are the same when one is a multiple of the other, or turned round; a solution of one that is none of
the other tells two equations apart. Two sets are cut at the same places, the ends of all their intervals in order:
between two places a set holds everything or nothing, so they are equal when they agree at and between all places.
"""

from collections.abc import Sequence
from functools import cmp_to_key, partial, reduce
from itertools import groupby
from typing import Final, Literal

from flint import acb, fmpq, fmpq_poly

from assay.math import tree
from assay.math.atoms import ATOMS, ONE, Ratio, TooComplexError, differentiate, find_powers
from assay.math.balls import Point, TooLargeError, UndefinedError, compute_ball, is_real
from assay.math.exact import NO_PROOF, Form
from assay.math.values import choose_points, compare_constants, format_ball, has_value
from assay.math.verdict import DEFAULT, Equality, different, too_large, undecided

_TURNED: Final = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "=": "=", "!=": "!="}


def compare_relations(gold: tree.Node, answer: tree.Node) -> Equality:
    finding = _compare_relations(gold, answer)
    if not finding.equal:
        return finding
    try:
        sides = (*_sides(gold), *_sides(answer))
        if all(has_value(side) for side in sides):
            return finding
    except TooLargeError as error:
        return too_large(error)
    return different("a side of a relation has no value")


def _sides(node: tree.Node) -> tuple[tree.Node, ...]:
    return node.sides if isinstance(node, tree.Relation) else (node,)


def _compare_relations(gold: tree.Node, answer: tree.Node) -> Equality:
    if not (isinstance(gold, tree.Relation) and isinstance(answer, tree.Relation)):
        return _compare_solved(gold, answer)
    if len(gold.operators) != len(answer.operators):
        return undecided("chains of different lengths")
    # Only `=` and the orders may be turned round or multiplied; x ∈ A and p → q hold between these two sides.
    are_orders = all(operator in _TURNED for operator in gold.operators)
    operators = tuple(_TURNED.get(operator, operator) for operator in reversed(answer.operators))
    for candidate in (
        (answer, tree.Relation(answer.sides[::-1], operators)) if are_orders else (answer,)
    ):
        if candidate.operators != gold.operators:
            continue
        if len(gold.operators) == 1 and are_orders:
            found = _same_line(gold, candidate)
            if found.equal:
                return found
        elif _same_chain(gold, candidate):
            return Equality(True, "equal as chains of relations")
    if tree.find_symbols(gold) != tree.find_symbols(answer):
        return different("they are about different variables")
    are_equations = gold.operators == answer.operators == ("=",)
    apart = (told_apart(gold, answer) or told_apart(answer, gold)) if are_equations else None
    return apart or undecided("the relations may have the same solutions")


def _compare_solved(gold: tree.Node, answer: tree.Node) -> Equality:
    """An equation against what one of its variables comes to: `y + 1 = x²` and `x² − 1`."""
    if not isinstance(gold, tree.Relation) or gold.operators != ("=",):
        return different("only one is an equation")
    names = tree.find_symbols(gold) - tree.find_symbols(answer)
    if len(names) != 1 or not tree.find_symbols(answer) <= tree.find_symbols(gold):
        return different("only one is an equation")
    form = Form()
    try:
        asked = form.atom("symbol", names.pop()).top  # the first atom, whose number is 0
        whole = form.evaluate(_residual(gold))
        slope = differentiate(0, whole.top)
        if not slope or 0 in find_powers(slope):
            return undecided("the equation is not linear in what is asked")
        rest = whole.top - slope * asked
        solved = form.multiply(Ratio(slope, ONE), form.evaluate(answer))
        if form.assumed_positive:
            return undecided("the equation holds for some signs only")
        if form.are_equal(solved, Ratio(-rest, ONE)):
            return Equality(True, "equal as the equation solved")
    except NO_PROOF as error:
        return undecided(str(error))
    return different("the equation solved gives something else")


def _same_chain(gold: tree.Relation, answer: tree.Relation) -> bool:
    form, sides = Form(), zip(gold.sides, answer.sides, strict=True)
    try:
        same = all(form.are_equal(form.evaluate(one), form.evaluate(two)) for one, two in sides)
    except NO_PROOF:
        return False
    return same and not form.assumed_positive


def _same_line(gold: tree.Relation, answer: tree.Relation) -> Equality:
    """Whether left minus right of one is a constant multiple of that of the other."""
    form = Form()
    try:
        sides = [form.evaluate(_residual(side)) for side in (gold, answer)]
        if gold.operators == ("=",):
            # Where a denominator is 0 there is no solution to lose: y = 1/x is xy = 1.
            sides = [
                Ratio(side.top, ONE) if _is_no_solution(form, side) else side for side in sides
            ]
        factor = _factor(form, *sides)
    except NO_PROOF as error:
        return undecided(str(error))
    if factor is None or form.assumed_positive:
        return undecided("no constant multiple of each other")
    # What always holds, or never, says nothing by its residual: log₂ 8 = 3 is another statement than log₂ 4 = 2.
    if any(not side.top or side.top.is_constant() for side in sides) and not _same_chain(
        gold, answer
    ):
        return undecided("statements without a variable that are not the same")
    if gold.operators[0] not in ("=", "!=") and factor < 0:
        return different("the inequality points the other way")
    return Equality(
        True, "equal as equations" if gold.operators == ("=",) else "equal as inequalities"
    )


def _is_no_solution(form: Form, side: Ratio) -> bool:
    """Whether the numerator is another number than 0 wherever the denominator, a product of variables, is 0."""
    atoms = find_powers(side.bottom)
    rests = [side.top % ATOMS[atom] for atom in atoms if form.keys[atom][0] == "symbol"]
    return (
        len(side.bottom) == 1
        and len(rests) == len(atoms)
        and all(rest and rest.is_constant() for rest in rests)
    )


def _factor(form: Form, one: Ratio, two: Ratio) -> fmpq | None:
    """The number that makes the second the first, if there is one."""
    if not one.top or not two.top:
        return fmpq(1) if not one.top and not two.top else None
    left = form.reduce(form.multiply_polynomials(one.top, two.bottom))
    right = form.reduce(form.multiply_polynomials(two.top, one.bottom))
    if not left or not right:
        return None
    factor = left.leading_coefficient() / right.leading_coefficient()
    return factor if left == right * factor else None


_PRECISION = 128


def told_apart(one: tree.Relation, two: tree.Relation) -> Equality | None:
    """A finding when some solution of the first equation is none of the second; None when none was found."""
    names = sorted(tree.find_symbols(one))
    for name in names:
        for point in choose_points(names, 3):
            try:
                solution = _zero_of(_residual(one), name, point)
                if solution is None:
                    break
                left = compute_ball(_residual(two), {**point, name: solution}, _PRECISION)
            except (UndefinedError, TooLargeError):
                continue
            if is_real(left) and not left.overlaps(acb(0)):
                return different(f"only one holds at {name} = {format_ball(solution)}")
    return None


def _residual(relation: tree.Relation) -> tree.Node:
    return tree.Sum((relation.sides[0], tree.negate(relation.sides[1])))


def _zero_of(residual: tree.Node, name: str, point: Point) -> acb | None:
    """Where the residual is 0, if it is a straight line in this variable; None if it is not."""
    at = [
        compute_ball(residual, {**point, name: fmpq(place)}, _PRECISION) for place in (0, 1, 2, 7)
    ]
    slope = at[1] - at[0]
    if slope.overlaps(acb(0)) or not all(map(is_real, at)):
        return None
    if not (at[0] + slope * 2).overlaps(at[2]) or not (at[0] + slope * 7).overlaps(at[3]):
        return None
    solution = -at[0] / slope
    # The residual is a line as far as four points show; that this is a solution is what counts.
    return (
        solution
        if compute_ball(residual, {**point, name: solution}, _PRECISION).overlaps(acb(0))
        else None
    )


_INFINITY: Final = tree.Constant("infinity")
_MINUS_INFINITY: Final = tree.negate(_INFINITY)


_MOST_PIECES: Final = 60  # ends of intervals, and conditions, of one set
_EMPTY: Final = tree.NamedSet("empty")


def _is_empty_by_name(one: tree.Node, two: tree.Node) -> bool:
    """Return True if one side is `∅` and the other a condition, such as `x² < 0`."""
    conditions = tree.Relation | tree.Builder
    return (one == _EMPTY and isinstance(two, conditions)) or (
        two == _EMPTY and isinstance(one, conditions)
    )


class NoSetError(ValueError):
    """The tree is no set of real numbers that can be cut into pieces."""


def compare_sets(gold: tree.Node, answer: tree.Node) -> Equality:
    variables = tree.find_symbols(gold) | tree.find_symbols(answer)
    if len(variables) > 1:
        return undecided("the conditions are about several variables")
    try:
        first, second = as_set(gold), as_set(answer)
        places = _ordered(_ends(first) + _ends(second))
        pieces = _pieces(first, places)
        if pieces != _pieces(second, places):
            return different("the sets of numbers differ")
        # Two conditions that no number satisfies say nothing about each other, and the pair (3, 2)
        # is not an interval without numbers. Only the empty set itself equals such a condition.
        if not any(pieces) and not _is_empty_by_name(gold, answer):
            return different("an interval or condition that holds for no number has no value")
        return Equality(True, "equal as sets of numbers")
    except TooLargeError as error:
        return too_large(error)
    except (NoSetError, UndefinedError, TooComplexError) as error:
        return undecided(str(error))


def is_set(node: tree.Node) -> bool:
    """Whether the tree can only be a set: an interval, a union, an inequality, a named set."""
    match node:
        case tree.Range() | tree.SetOperation() | tree.NamedSet() | tree.Builder():
            return True
        case tree.Relation(_, operators):
            return any(operator not in ("=", "to", "mod") for operator in operators)
        case tree.Listing("bare", items):
            return any(tree.is_inequality(item) for item in items)
        case tree.Sum(terms):
            return is_set(terms[0])
        case _:
            return False


def as_set(node: tree.Node) -> tree.Node:
    """The same set written with intervals, points and set operations alone."""
    match node:
        case tree.Range() | tree.NamedSet("R" | "empty") | tree.Listing("set"):
            return node
        case tree.SetOperation(operator, left, right):
            return tree.SetOperation(operator, as_set(left), as_set(right))
        case tree.Listing("round" | "square" as kind, (low, high)):
            return tree.Range(low, high, kind == "round", kind == "round")
        case tree.Builder(tree.Relation() as domain, condition):
            return tree.SetOperation("intersection", as_set(domain), as_set(condition))
        case tree.Builder(_, condition):
            return as_set(condition)
        case tree.Listing("bare", items, joined):
            if not all(isinstance(item, tree.Relation) for item in items):
                return tree.Listing("set", items)
            operator = "union" if joined == "or" else "intersection"
            return _combine(operator, [as_set(item) for item in items])
        case tree.Relation(sides, operators):  # what satisfies every link of the chain
            if len(operators) > _MOST_PIECES:
                raise TooLargeError(f"a chain of {len(operators)} relations")
            links = zip(sides, operators, sides[1:], strict=False)
            return _combine("intersection", [_solved(*link) for link in links])
        case tree.Sum((left, tree.Product((tree.Number(value), right)))) if value == -1 and is_set(
            left
        ):
            return tree.SetOperation("difference", as_set(left), as_set(right))
        case tree.Number() | tree.Sum() | tree.Product():
            return tree.Listing("set", (node,))
        case _:
            raise NoSetError(f"{type(node).__name__} is no set of real numbers")


def _combine(operator: Literal["union", "intersection"], sets: Sequence[tree.Node]) -> tree.Node:
    if len(sets) > _MOST_PIECES:  # the tree is as deep as this, and is walked by recursion
        raise TooLargeError(f"a {operator} of {len(sets)} sets")
    return reduce(partial(tree.SetOperation, operator), sets)


def _solved(left: tree.Node, operator: str, right: tree.Node) -> tree.Node:
    if not tree.find_symbols(left) and not tree.find_symbols(right):
        raise NoSetError("a statement about numbers is no set of them")
    if operator == "in":
        return as_set(right)
    if operator not in _TURNED:
        raise NoSetError(f"{operator} is no order")
    if tree.find_symbols(right) and not tree.find_symbols(left):
        left, right, operator = right, left, _TURNED[operator]
    if not isinstance(left, tree.Symbol) or tree.find_symbols(right):
        return _solutions(left, operator, right)
    match operator:
        case "<" | "<=":
            return tree.Range(_MINUS_INFINITY, right, True, operator == "<")
        case ">" | ">=":
            return tree.Range(right, _INFINITY, operator == ">", True)
        case "=":
            return tree.Listing("set", (right,))
        case _:
            return tree.SetOperation(
                "difference", tree.NamedSet("R"), tree.Listing("set", (right,))
            )


_MOST_BARS: Final = 4
_MOST_DEGREES: Final = 40
_MOST_BITS: Final = 20_000  # of a coefficient
_HOLDS: Final = {
    "<": (-1,),
    "<=": (-1, 0),
    "=": (0,),
    ">=": (0, 1),
    ">": (1,),
    "!=": (-1, 1),
}  # for which signs


def _solutions(left: tree.Node, operator: str, right: tree.Node) -> tree.Node:
    """Where a relation between rational functions of one variable holds; |u| is u, or -u where u is negative."""
    residual = tree.Sum((left, tree.negate(right)))
    bars = _bars(residual)
    if len(bars) > _MOST_BARS:
        raise NoSetError("too many absolute values")
    if not bars:
        return _where(*fraction_of(residual), _HOLDS[operator])
    inside = tree.children(bars[0])[0]
    cases: list[tree.Node] = []
    for case, limit in ((inside, ">="), (tree.negate(inside), ">")):
        within = _solutions(case, limit, tree.Number(fmpq(0)))
        sides = (tree.substitute(side, bars[0], case) for side in (left, right))
        cases.append(
            tree.SetOperation(
                "intersection", within, _solutions(next(sides), operator, next(sides))
            )
        )
    return tree.SetOperation("union", *cases)


def _bars(node: tree.Node) -> list[tree.Node]:
    """The absolute values in a tree, those that hold no other first."""
    found = [bar for child in tree.children(node) for bar in _bars(child)]
    return [*found, node] if isinstance(node, tree.Apply) and node.function == "abs" else found


def fraction_of(node: tree.Node) -> tuple[fmpq_poly, fmpq_poly]:
    """A rational function, whose denominator is 0 wherever some part of it has no value."""
    one = fmpq_poly([1])
    match node:
        case tree.Number(value):
            return fmpq_poly([value]), one
        case tree.Symbol():
            return fmpq_poly([0, 1]), one
        case tree.Sum(parts) | tree.Product(parts):
            top, bottom = fraction_of(parts[0])
            for above, below in map(fraction_of, parts[1:]):
                top = top * below + above * bottom if isinstance(node, tree.Sum) else top * above
                bottom *= below
                if max(top.degree(), bottom.degree()) > _MOST_DEGREES:
                    raise NoSetError("too high a degree")
        case tree.Quotient(over, under):
            (top, below), (bottom, above) = fraction_of(over), fraction_of(under)
            top, bottom = top * above * above, bottom * below * above
        case tree.Power(base, tree.Number(value)) if value.q == 1:
            top, bottom = fraction_of(base)
            if abs(value.p) * max(1, top.degree(), bottom.degree()) > _MOST_DEGREES:
                raise NoSetError("too high a degree")
            if abs(value.p) * max(_bits(top), _bits(bottom)) > _MOST_BITS:
                raise NoSetError("too large a number")
            top, bottom = top ** abs(int(value.p)), bottom ** abs(int(value.p))
            if value < 0:
                top, bottom = bottom * bottom, top * bottom
        case _:
            raise NoSetError("no rational function")
    if not bottom or max(top.degree(), bottom.degree()) > _MOST_DEGREES:
        raise NoSetError("a division by 0, or too high a degree")
    if max(_bits(top), _bits(bottom)) > _MOST_BITS:
        raise NoSetError("too large a number")
    return top, bottom


def _bits(polynomial: fmpq_poly) -> int:
    """Return the length of the longest coefficient."""
    lengths = [value.p.bit_length() + value.q.bit_length() for value in polynomial.coeffs()]
    return max(lengths, default=0)


def _where(top: fmpq_poly, bottom: fmpq_poly, signs: tuple[int, ...]) -> tree.Node:
    """Where the quotient of two polynomials has one of these signs."""
    product = (top or fmpq_poly([1])) * bottom
    turns: dict[tree.Node, int] = {}
    points: list[tree.Node] = []
    for factor, count in product.factor()[1]:
        roots = _real_roots(factor)
        turns |= dict.fromkeys(roots, count)
        if 0 in signs and not top % factor and bottom % factor:
            points += roots
    pieces: list[tree.Node] = [tree.Listing("set", tuple(points))] if points else []
    high = _INFINITY
    sign = 0 if not top else 1 if product.coeffs()[-1] > 0 else -1
    for place in [*reversed(_ordered(list(turns))), _MINUS_INFINITY]:
        if sign in signs:
            pieces.append(tree.Range(place, high, True, True))
        # The sign turns where a factor of odd power is 0.
        sign, high = sign * (-1) ** turns.get(place, 0), place
    return reduce(partial(tree.SetOperation, "union"), pieces, tree.NamedSet("empty"))


def _real_roots(factor: fmpq_poly) -> list[tree.Node]:
    """The real zeros of a polynomial that has no factors, written with a root."""
    shift, *middle, leading = factor.coeffs()
    if len(middle) == 0:
        return [tree.Number(-shift / leading)]
    if len(middle) == 1:
        half = middle[0] / leading / 2
        square = half * half - shift / leading
        if square < 0:
            return []
        root = tree.Apply("root", (tree.Number(square), tree.Number(fmpq(2))))
        return [
            tree.Sum((tree.Number(-half), root)),
            tree.Sum((tree.Number(-half), tree.negate(root))),
        ]
    if not any(is_real(root) for root, _ in factor.numer().complex_roots()):
        return []
    raise NoSetError(f"an equation of degree {factor.degree()}")


def _ends(node: tree.Node) -> list[tree.Node]:
    match node:
        case tree.Range(low, high):
            return [end for end in (low, high) if end not in (_INFINITY, _MINUS_INFINITY)]
        case tree.Listing(_, items):
            return list(items)
        case tree.SetOperation(_, left, right):
            return _ends(left) + _ends(right)
        case _:
            return []


def _ordered(ends: list[tree.Node]) -> list[tree.Node]:
    if len(ends) > _MOST_PIECES:
        raise NoSetError("too many pieces")
    return [
        next(same) for _, same in groupby(sorted(ends, key=cmp_to_key(_order)), cmp_to_key(_order))
    ]


def _order(one: tree.Node, two: tree.Node) -> int:
    if one == two:
        return 0
    if tree.find_symbols(one) or tree.find_symbols(two):
        raise NoSetError("an end is no number")
    first, second = compute_ball(one, {}, 128), compute_ball(two, {}, 128)
    if not (is_real(first) and is_real(second)):
        raise NoSetError("an end is no real number")
    if first.real < second.real or first.real > second.real:
        return -1 if first.real < second.real else 1
    if compare_constants(one, two, DEFAULT).equal:
        return 0
    raise NoSetError("two ends are too near to each other")


def _pieces(node: tree.Node, places: list[tree.Node]) -> tuple[bool, ...]:
    """Whether the set holds: below the first place, at it, between it and the second, and so on."""
    size = 2 * len(places) + 1
    match node:
        case tree.NamedSet(name):
            return (name == "R",) * size
        case tree.Listing(_, items):
            chosen = {2 * _place(item, places) + 1 for item in items}
            return tuple(piece in chosen for piece in range(size))
        case tree.Range(low, high, low_open, high_open):
            start = 0 if low == _MINUS_INFINITY else 2 * _place(low, places) + 1 + low_open
            end = size - 1 if high == _INFINITY else 2 * _place(high, places) + 1 - high_open
            return tuple(start <= piece <= end for piece in range(size))
        case tree.SetOperation(operator, left, right):
            pairs = zip(_pieces(left, places), _pieces(right, places), strict=True)
            joined = {
                "union": bool.__or__,
                "intersection": bool.__and__,
                "difference": bool.__gt__,
            }[operator]
            return tuple(joined(*pair) for pair in pairs)
        case _:
            raise NoSetError("no set")


def _place(end: tree.Node, places: list[tree.Node]) -> int:
    return next(number for number, place in enumerate(places) if _order(place, end) == 0)
