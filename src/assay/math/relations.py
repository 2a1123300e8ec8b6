"""Compare equations and inequalities.

Two relations are equal if one is a multiple of the other, or the other reversed. Two equations are
different if a solution of one does not solve the other.
"""

from typing import Final

from flint import acb, fmpq

from assay.math import tree
from assay.math.atoms import ATOMS, ONE, Ratio, differentiate, find_powers
from assay.math.balls import Point, TooLargeError, UndefinedError, compute_ball, is_real
from assay.math.exact import NO_PROOF, Form
from assay.math.values import choose_points, format_ball, has_value
from assay.math.verdict import Equality, different, too_large, undecided

# The operators of relations that may be reversed or multiplied, with their reverse.
REVERSED: Final = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "=": "=", "!=": "!="}
_PRECISION: Final = 128


def compare_relations(gold: tree.Node, answer: tree.Node) -> Equality:
    """Compare two trees of which at least one is a relation.

    They are equal only if every side of both has a value.
    """
    equality = _compare_statements(gold, answer)
    if not equality.equal:
        return equality
    try:
        all_have_values = all(has_value(side) for side in (*_sides(gold), *_sides(answer)))
    except TooLargeError as error:
        return too_large(error)
    if not all_have_values:
        return different("a side of a relation has no value")
    return equality


def _sides(node: tree.Node) -> tuple[tree.Node, ...]:
    """Return the sides of a relation; anything else is its own only side."""
    return node.sides if isinstance(node, tree.Relation) else (node,)


def _compare_statements(gold: tree.Node, answer: tree.Node) -> Equality:
    """Compare two trees of which at least one is a relation, whether they have values or not."""
    if not isinstance(gold, tree.Relation) or not isinstance(answer, tree.Relation):
        return _compare_solved(gold, answer)
    if len(gold.operators) != len(answer.operators):
        return undecided("chains of different lengths")
    # x ∈ A and p → q cannot be reversed or multiplied.
    may_be_reversed = all(operator in REVERSED for operator in gold.operators)
    candidates = [answer]
    if may_be_reversed:
        candidates.append(_reverse(answer))
    for candidate in candidates:
        if candidate.operators != gold.operators:
            continue
        if may_be_reversed and len(gold.operators) == 1:
            equality = _compare_multiples(gold, candidate)
            if equality.equal:
                return equality
        elif _have_equal_sides(gold, candidate):
            return Equality(True, "equal as chains of relations")
    if tree.find_symbols(gold) != tree.find_symbols(answer):
        return different("they are about different variables")
    if gold.operators == answer.operators == ("=",):
        difference = _find_different_solution(gold, answer)
        if difference is None:
            difference = _find_different_solution(answer, gold)
        if difference is not None:
            return difference
    return undecided("the relations may have the same solutions")


def _reverse(relation: tree.Relation) -> tree.Relation:
    """Return `x < 3` as `3 > x`."""
    operators = [REVERSED.get(operator, operator) for operator in reversed(relation.operators)]
    return tree.Relation(relation.sides[::-1], tuple(operators))


def _compare_solved(gold: tree.Node, answer: tree.Node) -> Equality:
    """Compare an equation with the value of one of its variables: `y + 1 = x²` and `x² − 1`.

    The variable is the one that the answer does not have. The equation has to be linear in it.
    """
    if not isinstance(gold, tree.Relation) or gold.operators != ("=",):
        return different("only one is an equation")
    gold_names = tree.find_symbols(gold)
    answer_names = tree.find_symbols(answer)
    names = gold_names - answer_names
    if len(names) != 1 or not answer_names <= gold_names:
        return different("only one is an equation")
    form = Form()
    try:
        # The equation is coefficient · variable + rest = 0. The variable is the first atom of the
        # form, so its number is 0.
        variable = form.atom("symbol", names.pop()).top
        difference_of_sides = form.evaluate(_subtract_sides(gold))
        coefficient = differentiate(0, difference_of_sides.top)
        is_linear = bool(coefficient) and 0 not in find_powers(coefficient)
        if not is_linear:
            return undecided("the equation is not linear in what is asked")
        rest = difference_of_sides.top - coefficient * variable
        multiplied_answer = form.multiply(Ratio(coefficient, ONE), form.evaluate(answer))
        if form.assumed_positive:
            return undecided("the equation holds for some signs only")
        if form.are_equal(multiplied_answer, Ratio(-rest, ONE)):
            return Equality(True, "equal as the equation solved")
    except NO_PROOF as error:
        return undecided(str(error))
    return different("the equation solved gives something else")


def _have_equal_sides(gold: tree.Relation, answer: tree.Relation) -> bool:
    """Return True if each side of one chain is provably equal to the same side of the other."""
    form = Form()
    try:
        for gold_side, answer_side in zip(gold.sides, answer.sides, strict=True):
            if not form.are_equal(form.evaluate(gold_side), form.evaluate(answer_side)):
                return False
    except NO_PROOF:
        return False
    return not form.assumed_positive


# Multiples.


def _compare_multiples(gold: tree.Relation, answer: tree.Relation) -> Equality:
    """Compare two relations with one operator, which are equal if one is a multiple of the other.

    That is so if left minus right of one is a constant times left minus right of the other.
    """
    is_equation = gold.operators == ("=",)
    form = Form()
    try:
        residuals = [form.evaluate(_subtract_sides(relation)) for relation in (gold, answer)]
        if is_equation:
            residuals = [_remove_denominator(form, residual) for residual in residuals]
        gold_residual, answer_residual = residuals
        factor = _find_constant_factor(form, gold_residual, answer_residual)
    except NO_PROOF as error:
        return undecided(str(error))
    if factor is None or form.assumed_positive:
        return undecided("no constant multiple of each other")
    has_constant = any(not residual.top or residual.top.is_constant() for residual in residuals)
    if has_constant and not _have_equal_sides(gold, answer):
        # What always holds, or never, says nothing by its residual: log₂ 8 = 3 and log₂ 4 = 2 are
        # different statements.
        return undecided("statements without a variable that are not the same")
    if gold.operators[0] not in ("=", "!=") and factor < 0:
        return different("the inequality points the other way")
    return Equality(True, "equal as equations" if is_equation else "equal as inequalities")


def _subtract_sides(relation: tree.Relation) -> tree.Node:
    """Return left minus right of a relation, which is 0 for a solution of an equation."""
    return tree.Sum((relation.sides[0], tree.negate(relation.sides[1])))


def _remove_denominator(form: Form, residual: Ratio) -> Ratio:
    """Return left minus right of an equation (`residual`) without its denominator, if possible.

    The numerator has the same solutions if the denominator is a product of variables, and the
    numerator is not 0 where one of them is: y = 1/x is xy = 1. Any other residual is returned as it
    is.
    """
    if len(residual.bottom) != 1:
        return residual
    for atom in find_powers(residual.bottom):
        is_variable = form.keys[atom][0] == "symbol"
        if not is_variable:
            return residual
        numerator_at_zero = residual.top % ATOMS[atom]
        if not numerator_at_zero or not numerator_at_zero.is_constant():
            return residual
    return Ratio(residual.top, ONE)


def _find_constant_factor(form: Form, first: Ratio, second: Ratio) -> fmpq | None:
    """Return the number by which the second must be multiplied to be the first, or None."""
    if not first.top and not second.top:
        return fmpq(1)
    # a/b = c · d/e if ae = c · db.
    left = form.reduce(form.multiply_polynomials(first.top, second.bottom))
    right = form.reduce(form.multiply_polynomials(second.top, first.bottom))
    if not left or not right:
        return None
    factor = left.leading_coefficient() / right.leading_coefficient()
    if left != right * factor:
        return None
    return factor


# Solutions.


def _find_different_solution(first: tree.Relation, second: tree.Relation) -> Equality | None:
    """Return a difference if some solution of the first equation does not solve the second.

    None if no such solution was found.
    """
    names = sorted(tree.find_symbols(first))
    for name in names:
        # Solve for this variable, with a few values for the others.
        for point in choose_points(names, 3):
            try:
                solution = _find_zero(_subtract_sides(first), name, point)
                if solution is None:
                    break  # the equation is not linear in this variable
                second_residual = compute_ball(
                    _subtract_sides(second), {**point, name: solution}, _PRECISION
                )
            except (UndefinedError, TooLargeError):
                continue
            if is_real(second_residual) and not second_residual.overlaps(acb(0)):
                return different(f"only one holds at {name} = {format_ball(solution)}")
    return None


def _find_zero(residual: tree.Node, name: str, point: Point) -> acb | None:
    """Return the value of a variable for which an expression is 0.

    The other variables have their values at the point. None if the expression is not linear in the
    variable.
    """

    def compute_at(value: fmpq | acb) -> acb:
        return compute_ball(residual, {**point, name: value}, _PRECISION)

    at_0, at_1, at_2, at_7 = [compute_at(fmpq(value)) for value in (0, 1, 2, 7)]
    slope = at_1 - at_0
    are_real = all(is_real(value) for value in (at_0, at_1, at_2, at_7))
    if slope.overlaps(acb(0)) or not are_real:
        return None
    is_on_line = (at_0 + slope * 2).overlaps(at_2) and (at_0 + slope * 7).overlaps(at_7)
    if not is_on_line:
        return None
    solution = -at_0 / slope
    # Four points do not prove that the residual is linear, so the solution is checked.
    if not compute_at(solution).overlaps(acb(0)):
        return None
    return solution
