r"""Find work that an answer leaves undone and the gold answer has done.

`2x + 3 = 7` is true of the solution `x = 2`, and `\int_0^1 x dx` is the number 1/2, but a question
that is handed back is not an answer.
"""

import re
from typing import Final

from assay.math import tree
from assay.math.number_sets import is_set

_OPERATOR: Final = re.compile(
    r"\\(?:int|iint|oint|sum|prod|lim)(?![a-zA-Z])|\\frac\s*\{\s*(?:d|\\partial)\s*\}"
)
_COORDINATES: Final = frozenset("xyz")


def find_unfinished_work(
    gold_text: str,
    gold: tree.Node | None,
    answer_text: str,
    answer: tree.Node | None,
) -> str | None:
    """Return what the answer leaves undone, as a clause for a reason, or None for nothing.

    A tree is None if its text could not be parsed.
    """
    operator = _OPERATOR.search(answer_text)
    if operator is not None and _OPERATOR.search(gold_text) is None:
        return f"{operator[0]} is not computed"
    if gold is None or answer is None:
        return None
    return _find_in_tree(gold, answer)


def _find_in_tree(gold: tree.Node, answer: tree.Node) -> str | None:
    """Return what a tree leaves undone that the gold's tree has done, or None."""
    if isinstance(answer, tree.Relation):
        return _find_in_relation(gold, answer)
    if isinstance(answer, tree.SetOperation | tree.Listing):
        return _find_in_parts(gold, answer)
    is_number = not tree.find_symbols(answer)
    if is_number and _is_literal(_get_value(gold)) and not _is_computed(answer):
        return "the number is not computed"
    return None


def _get_value(node: tree.Node) -> tree.Node:
    """Return the right side of `x = 5`, and anything else as it is."""
    if tree.is_assignment(node):
        return node.sides[-1]
    return node


def _find_in_parts(gold: tree.Node, answer: tree.SetOperation | tree.Listing) -> str | None:
    """Return what one part of a list or set leaves undone, or None if all parts are done."""
    gold_for_parts = gold  # what each part is compared with
    if isinstance(gold, tree.Listing) and isinstance(answer, tree.Listing):
        is_list_of_numbers = bool(gold.items) and all(_is_literal(item) for item in gold.items)
        if is_list_of_numbers:
            gold_for_parts = gold.items[0]  # any of them will do: all are computed numbers
    for part in tree.children(answer):
        unfinished_work = _find_in_tree(gold_for_parts, part)
        if unfinished_work is not None:
            return unfinished_work
    return None


def _find_in_relation(gold: tree.Node, answer: tree.Relation) -> str | None:
    """Return what an equation or inequality leaves undone, or None."""
    if not _is_solved(gold):
        return None  # then the answer need not be solved either
    if tree.is_inequality(answer) and is_set(answer) and not _is_isolated(answer):
        return "the inequality is not solved"
    if not tree.is_equation(answer):
        return None
    if tree.is_assignment(gold) and not _is_line(gold) and not _gives(answer, gold.sides[0]):
        return "the equation is not solved"
    # One side that is computed is enough: `5 = 2 + 3` says what `x = 5` says.
    unfinished_work = None
    for side in answer.sides:
        if isinstance(side, tree.Symbol):
            continue
        unfinished_work = _find_in_tree(_get_value(gold), side)
        if unfinished_work is None:
            return None
    return unfinished_work


def _is_solved(gold: tree.Node) -> bool:
    """Return True for a value, for `x = 5`, and for an inequality such as `x > 4`."""
    if not isinstance(gold, tree.Relation) or tree.is_assignment(gold):
        return True
    return tree.is_inequality(gold) and _is_isolated(gold)


def _is_isolated(relation: tree.Relation) -> bool:
    """Return True if each side is a single letter or has no letters.

    `x > 4`, `1 < x < 2` and `|x| < 2` are isolated, `2x > 8` is not.
    """
    for side in relation.sides:
        match side:
            case tree.Symbol() | tree.Apply("abs", (tree.Symbol(),)):
                continue
            case _:
                if tree.find_symbols(side):
                    return False
    return True


def _is_line(equation: tree.Relation) -> bool:
    """Return True for the equation of a line or plane, such as `y = 2x + 1`.

    It may be written in any form: `2x - y + 1 = 0` is as good an answer.
    """
    names = tree.find_symbols(equation)
    if len(names) < 2 or not names <= _COORDINATES:
        return False
    return all(_is_linear(side) for side in equation.sides)


def _is_linear(node: tree.Node) -> bool:
    """Return True if an expression has no powers, functions or products of variables."""
    if not tree.find_symbols(node) or isinstance(node, tree.Symbol):
        return True
    match node:
        case tree.Sum(terms):
            return all(_is_linear(term) for term in terms)
        case tree.Product(factors):
            variable_factors = [factor for factor in factors if tree.find_symbols(factor)]
            return len(variable_factors) == 1 and _is_linear(variable_factors[0])
        case tree.Quotient(top, bottom):
            return _is_linear(top) and not tree.find_symbols(bottom)
        case _:
            return False


def _gives(equation: tree.Relation, name: tree.Node) -> bool:
    """Return True if an equation gives the value of the name that the gold gives: `x = 5`, `5 = x`.

    The answer may use another name, if that is certainly a name: `A = 5`. Whether the values are
    equal is decided elsewhere.
    """
    first = equation.sides[0]
    last = equation.sides[-1]
    if isinstance(first, tree.Symbol) and not tree.find_symbols(last):
        return True  # a letter and a number, whatever the letter is
    if not isinstance(name, tree.Symbol) and tree.is_assignment(equation):
        return True  # the gold's name is longer, such as `f(x)`, and the answer has another one
    return _is_solved_for(name, first, last) or _is_solved_for(name, last, first)


def _is_solved_for(name: tree.Node, side: tree.Node, other_side: tree.Node) -> bool:
    """Return True if a name is one side of an equation, and has no letter of the other side."""
    letters = tree.find_symbols(name)
    return side == name and letters.isdisjoint(tree.find_symbols(other_side))


def _is_literal(node: tree.Node) -> bool:
    """Return True if a number is written out, with nothing left to compute.

    Such are `5`, `-1/2`, `2.5%`, `3 cm`, `1011_2` and the mixed number `1 1/2`.
    """
    match node:
        case tree.Number() | tree.Based():
            return True
        case tree.Percent(value) | tree.Quantity(value):
            return _is_literal(value)
        case tree.Quotient(top, bottom):
            return _is_literal(top) and _is_literal(bottom)
        case tree.Product((tree.Number(value), rest)):
            return value == -1 and _is_literal(rest)
        case tree.Sum((tree.Number(whole), tree.Quotient(tree.Number(top), tree.Number(bottom)))):
            return whole.q == 1 and top < bottom  # a mixed number
        case _:
            return False


def _is_computed(node: tree.Node) -> bool:
    """Return True if a number is in a form that answers are left in.

    It is written out, or has powers, factorials, binomials and a coefficient: `3·2^{10}`.
    """
    match node:
        case tree.Power(base, exponent):
            return _is_computed(base) and _is_computed(exponent)
        case tree.Apply("factorial" | "binomial", arguments):
            return all(_is_computed(argument) for argument in arguments)
        case tree.Product(factors):
            return _is_computed_product(node, factors)
        case tree.Quotient(top, bottom):
            return _is_computed(top) and _is_computed(bottom)
        case tree.Percent(value) | tree.Quantity(value):
            return _is_computed(value)
        case _:
            return _is_literal(node)


def _is_computed_product(product: tree.Node, factors: tuple[tree.Node, ...]) -> bool:
    """Return True if all factors are computed, and at most one is a plain number."""
    unsigned_factors = [factor for factor in factors if factor != tree.MINUS_ONE]
    plain_numbers = [factor for factor in unsigned_factors if isinstance(factor, tree.Number)]
    if not all(_is_computed(factor) for factor in unsigned_factors):
        return False
    return len(plain_numbers) <= 1 or _is_literal(product)
