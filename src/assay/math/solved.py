"""Say whether an answer is solved as far as the gold is, so that a question handed back is no answer."""

import re
from typing import Final

from flint import fmpq

from assay.math.relations import is_set
from assay.math.tree import (
    Apply,
    Listing,
    Node,
    Number,
    Percent,
    Power,
    Product,
    Quantity,
    Quotient,
    Relation,
    SetOperation,
    Sum,
    Symbol,
    is_assignment,
    is_equation,
    is_inequality,
    symbols_of,
)

_OPERATOR: Final = re.compile(r"\\(?:int|iint|oint|sum|prod|lim)(?![a-zA-Z])|\\frac\s*\{\s*(?:d|\\partial)\s*\}")
_CLOSED: Final = frozenset({"factorial", "binomial"})  # functions that answers are left with


def unsolved(gold: tuple[str, Node | None], answer: tuple[str, Node | None]) -> str | None:
    """What the answer leaves to be done that the gold has done; None when there is nothing."""
    operator = _OPERATOR.search(answer[0])
    if operator and not _OPERATOR.search(gold[0]):
        return f"{operator[0]} is not computed"
    if gold[1] is None or answer[1] is None:
        return None
    return _left_to_do(gold[1], answer[1])


def _left_to_do(gold: Node, answer: Node) -> str | None:
    if isinstance(answer, Relation):
        is_solved_gold = (
            is_assignment(gold) or not isinstance(gold, Relation) or (is_inequality(gold) and _is_isolated(gold))
        )
        if is_solved_gold and is_inequality(answer) and is_set(answer) and not _is_isolated(answer):
            return "the inequality is not solved"
        if is_solved_gold and is_equation(answer):
            if symbols_of(gold) and is_assignment(gold) and not _gives(answer, gold.sides[0]):
                return "the equation is not solved"
            return _left_to_do(gold.sides[-1] if is_assignment(gold) else gold, answer.sides[-1])
        return None
    if isinstance(answer, SetOperation | Listing):
        parts = answer.items if isinstance(answer, Listing) else (answer.left, answer.right)
        golds = gold.items if isinstance(gold, Listing) else (gold,)
        if isinstance(answer, SetOperation) or not all(map(_is_literal, golds)):
            golds = (gold,)
        return next((left for part in parts if (left := _left_to_do(golds[0], part)) is not None), None)
    gold = gold.sides[-1] if is_assignment(gold) else gold
    if _is_literal(gold) and not symbols_of(answer) and not _is_computed(answer):
        return "the number is not computed"
    return None


def _is_isolated(relation: Relation) -> bool:
    """Whether every side is one letter or has none: `x > 4`, `1 < x < 2`, but not `2x > 8`."""
    return all(isinstance(side, Symbol) or not symbols_of(side) for side in relation.sides)


def _gives(equation: Relation, name: Node) -> bool:
    """Whether an equation has this name alone on one of its sides, and nowhere else."""
    first, last = equation.sides[0], equation.sides[-1]
    if is_assignment(equation) and not isinstance(name, Symbol):
        return True
    return any(
        one == name and not symbols_of(name) & symbols_of(other) for one, other in ((first, last), (last, first))
    ) or (isinstance(first, Symbol) and not symbols_of(last))


def _is_literal(node: Node) -> bool:
    """Whether a number is written out: `5`, `-1/2`, `2.5%`, `3 cm`."""
    match node:
        case Number():
            return True
        case Percent(value) | Quantity(value):
            return _is_literal(value)
        case Quotient(top, bottom):
            return _is_literal(top) and _is_literal(bottom)
        case Product((Number(value), rest)):
            return value == -1 and _is_literal(rest)
        case Sum((Number(whole), Quotient(Number(top), Number(bottom)))):  # a mixed number
            return whole.q == 1 and top < bottom
        case _:
            return False


def _is_computed(node: Node) -> bool:
    """Whether a number is in a form that answers are left in: written out, with powers, factorials and coefficients."""
    match node:
        case Power(base, exponent):
            return _is_computed(base) and _is_computed(exponent)
        case Apply(function, arguments):
            return function in _CLOSED and all(map(_is_computed, arguments))
        case Product(factors):
            rest = [factor for factor in factors if factor != Number(fmpq(-1))]
            plain = sum(isinstance(factor, Number) for factor in rest)
            return all(map(_is_computed, rest)) and (plain <= 1 or _is_literal(node))
        case Quotient(top, bottom):
            return _is_computed(top) and _is_computed(bottom)
        case Percent(value) | Quantity(value):
            return _is_computed(value)
        case _:
            return _is_literal(node)
