"""Equations and inequalities: the same when one is a multiple of the other, or turned round."""

from typing import Final

from flint import fmpq

from assay.math.balls import TooLargeError, UndefinedError
from assay.math.exact import Form
from assay.math.finding import Finding, different, undecided
from assay.math.polynomials import ONE, Ratio, TooComplexError, constant, divided, scaled, times
from assay.math.solutions import told_apart
from assay.math.tree import Node, Relation, Sum, negated, symbols_of

_TURNED: Final = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "=": "=", "!=": "!="}

_OPEN: Final = undecided("the relations may have the same solutions")


def compare_relations(gold: Node, answer: Node) -> Finding:
    """Whether two relations say the same."""
    if not (isinstance(gold, Relation) and isinstance(answer, Relation)):
        return _compare_solved(gold, answer)
    if len(gold.operators) != len(answer.operators):
        return undecided("chains of different lengths")
    for turned in (False, True):
        candidate = _turned(answer) if turned else answer
        if candidate.operators != gold.operators:
            continue
        if len(gold.operators) == 1:
            found = _same_line(gold, candidate)
            if found.equal:
                return found
        elif _same_chain(gold, candidate):
            return Finding(True, "equal as chains of relations")
    if symbols_of(gold) != symbols_of(answer):
        return different("they are about different variables")
    if gold.operators == answer.operators == ("=",):
        return told_apart(gold, answer) or told_apart(answer, gold) or _OPEN
    return _OPEN


def _compare_solved(gold: Node, answer: Node) -> Finding:
    """An equation against what one of its variables comes to: `y + 1 = x²` and `x² − 1`."""
    if not isinstance(gold, Relation) or gold.operators != ("=",):
        return different("only one is an equation")
    names = symbols_of(gold) - symbols_of(answer)
    if len(names) != 1 or not symbols_of(answer) <= symbols_of(gold):
        return different("only one is an equation")
    form = Form()
    try:
        asked = form.field.atom("symbol", names.pop())
        whole = form.value(Sum((gold.sides[0], negated(gold.sides[1]))))
        ((atom, _),) = next(iter(asked.top))
        slope = {m: c for m, c in whole.top.items() if any(pair[0] == atom for pair in m)}
        if any((atom, 1) not in monomial for monomial in slope) or not slope:
            return undecided("the equation is not linear in what is asked")
        rest = {m: c for m, c in whole.top.items() if m not in slope}
        factor = Ratio(divided(slope, ((atom, 1),)), ONE)
        solved = form.field.multiply(factor, form.value(answer))
        if form.field.assumed_positive:
            return undecided("the equation holds for some signs only")
        if form.field.equal(solved, Ratio(scaled(rest, fmpq(-1)), ONE)):
            return Finding(True, "equal as the equation solved")
    except (TooComplexError, TooLargeError, UndefinedError, RecursionError) as error:
        return undecided(str(error))
    return different("the equation solved gives something else")


def _turned(relation: Relation) -> Relation:
    operators = tuple(_TURNED.get(operator, operator) for operator in reversed(relation.operators))
    return Relation(tuple(reversed(relation.sides)), operators)


def _same_chain(gold: Relation, answer: Relation) -> bool:
    form = Form()
    try:
        same = all(
            form.field.equal(form.value(one), form.value(two))
            for one, two in zip(gold.sides, answer.sides, strict=True)
        )
    except (TooComplexError, TooLargeError, UndefinedError, RecursionError):
        return False
    return same and not form.field.assumed_positive


def _same_line(gold: Relation, answer: Relation) -> Finding:
    """Whether left minus right of one is a constant multiple of that of the other."""
    form = Form()
    try:
        one = form.value(Sum((gold.sides[0], negated(gold.sides[1]))))
        two = form.value(Sum((answer.sides[0], negated(answer.sides[1]))))
        factor = _factor(form, one, two)
    except (TooComplexError, TooLargeError, UndefinedError, RecursionError) as error:
        return undecided(str(error))
    if factor is None or form.field.assumed_positive:
        return undecided("no constant multiple of each other")
    if gold.operators[0] not in ("=", "!=") and factor < 0:
        return different("the inequality points the other way")
    return Finding(
        True, "equal as equations" if gold.operators == ("=",) else "equal as inequalities"
    )


def _factor(form: Form, one: Ratio, two: Ratio) -> fmpq | None:
    """The number that makes the second the first, if there is one."""
    field = form.field
    if not one.top or not two.top:
        return fmpq(1) if not one.top and not two.top else None
    left = Ratio(field.reduced(times(one.top, two.bottom)), ONE)
    right = Ratio(field.reduced(times(two.top, one.bottom)), ONE)
    if left.top.keys() != right.top.keys():
        return None
    key = min(left.top)
    factor = left.top[key] / right.top[key]
    return factor if field.equal(left, field.multiply(right, constant(factor))) else None
