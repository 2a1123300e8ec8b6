"""Rewrite two answers into a common form where there are several notations."""

from itertools import product
from typing import Final, TypeGuard

from flint import fmpq

from assay.math import tree
from assay.math.tree import (
    Apply,
    Listing,
    NamedSet,
    Node,
    Number,
    PlusMinus,
    Power,
    Product,
    Quotient,
    Relation,
    Sum,
    Symbol,
    children,
    find_symbols,
    is_equation,
    is_inequality,
    is_name,
    list_nodes,
)
from assay.math.verdict import MathOptions

_PARAMETERS: Final = frozenset("knmlt")  # letters that stand for any whole number
_MAX_FREE_SIGNS: Final = 4  # more signs ± are not written out in all combinations


def rewrite_alike(gold: Node, answer: Node, options: MathOptions) -> tuple[Node, Node]:
    """Return both answers with the same names of variables, and without ± and `x =`.

    The options decide which of these differences are ignored.
    """
    gold, answer = _unify_case(gold, answer)
    gold, answer = _unify_parameter(gold, answer)
    if options.rename_variables:
        answer = _rename_in_order(gold, answer)
    gold = expand_both_signs(split_tuple_equation(gold))
    answer = expand_both_signs(split_tuple_equation(answer))
    if options.assignments:
        gold, answer = _drop_name_of_value(gold, answer)
    return gold, answer


# Names of variables.


def _unify_case(gold: Node, answer: Node) -> tuple[Node, Node]:
    """Return both with x, y and z in lower case, if neither uses one of them in both cases.

    Other letters are different quantities in different cases: R and r are two radii.
    """
    gold_names = find_symbols(gold)
    answer_names = find_symbols(answer)
    if gold_names == answer_names or not gold_names or not answer_names:
        return gold, answer
    for names in (gold_names, answer_names):
        if any({letter, letter.upper()} <= names for letter in "xyz"):
            return gold, answer
    return tree.rename_symbols(gold, _lower_coordinate), tree.rename_symbols(
        answer, _lower_coordinate
    )


def _lower_coordinate(name: str) -> str:
    """Return X, Y or Z in lower case, and any other name as it is."""
    return name.lower() if name in ("X", "Y", "Z") else name


def _unify_parameter(gold: Node, answer: Node) -> tuple[Node, Node]:
    """Return both with the same letter for any whole number: `x = kπ` and `x = nπ` are the same.

    At least one side has to say that its letter is any whole number (`k ∈ Z`), or what its
    expression is the value of (`x = `).
    """
    gold_solutions = _drop_parameter_domain(gold)  # without `k ∈ Z`
    answer_solutions = _drop_parameter_domain(answer)
    gold_states_domain = gold_solutions is not gold
    answer_states_domain = answer_solutions is not answer
    if not (gold_states_domain and answer_states_domain):
        # Only one side says `k ∈ Z`, so it is removed. If both do, it is compared later.
        gold, answer = gold_solutions, answer_solutions
    has_assignment = tree.is_assignment(gold_solutions) or tree.is_assignment(answer_solutions)
    if not (gold_states_domain or answer_states_domain or has_assignment):
        return gold, answer
    new_name = _find_parameter(gold_solutions, answer_solutions)
    old_name = _find_parameter(answer_solutions, gold_solutions)
    if new_name is None or old_name is None:
        return gold, answer
    return gold, tree.rename_symbols(answer, lambda name: new_name if name == old_name else name)


def _find_parameter(solutions: Node, other_solutions: Node) -> str | None:
    """Return the letter for any whole number that only the first side has.

    None if there is none, or more than one, or another letter that the second side does not have.
    """
    names = find_symbols(solutions) - find_symbols(other_solutions)
    names -= _find_defined_names(solutions)
    if len(names) != 1 or not names <= _PARAMETERS:
        return None
    return names.pop()


def _drop_parameter_domain(node: Node) -> Node:
    """Return `x = kπ` for `x = kπ, k ∈ Z`.

    The domain is kept if it restricts a variable that is solved for.
    """
    match node:
        case Listing("bare", (first, Relation((Symbol(name), NamedSet("Z")), ("in",)))):
            if name not in _PARAMETERS or is_inequality(first):
                return node
            if is_equation(first) and name in find_symbols(first.sides[0]):
                return node
            return first
        case _:
            return node


def _find_defined_names(node: Node) -> set[str]:
    """Return the variables on the left side of `x = …`; none for anything else."""
    if tree.is_assignment(node):
        return find_symbols(node.sides[0])
    return set()


def _rename_in_order(gold: Node, answer: Node) -> Node:
    """Return the answer with the gold's variables instead of its own, in alphabetical order."""
    gold_names = sorted(find_symbols(gold))
    answer_names = sorted(find_symbols(answer))
    if len(gold_names) != len(answer_names):
        return answer
    new_names = dict(zip(answer_names, gold_names, strict=True))
    return tree.rename_symbols(answer, lambda name: new_names[name])


# Equations between tuples, and both signs at once.


def split_tuple_equation(node: Node) -> Node:
    """Rewrite `(x, y) = (1, 2)` as `x = 1, y = 2`."""
    match node:
        case Relation((Listing(left_kind, left), Listing(right_kind, right)), ("=",)):
            if left_kind != right_kind or left_kind == "ratio" or len(left) != len(right):
                return node
            equations = [Relation(pair, ("=",)) for pair in zip(left, right, strict=True)]
            return Listing("bare", tuple(equations))
        case _:
            return node


def expand_both_signs(node: Node) -> Node:
    """Rewrite an expression with ± as the list of its values."""
    match node:
        case Relation((left, right), ("=",)):
            solutions = expand_both_signs(right)
            if solutions is right or not isinstance(solutions, Listing):
                return node
            equations = [Relation((left, solution), ("=",)) for solution in solutions.items]
            return Listing("bare", tuple(equations), "or")
        case Listing("bare" | "set", items):
            return Listing(node.kind, _expand_items(items), node.joined)
        case _:
            return _expand_signs(node)


def _expand_items(items: tuple[Node, ...]) -> tuple[Node, ...]:
    """Return the items of a list, where items with ± are replaced by their values."""
    expanded: list[Node] = []
    for item in items:
        if not _find_signs(item):
            expanded.append(item)
            continue
        values = expand_both_signs(item)
        if isinstance(values, Listing) and values.kind == "bare":
            expanded += values.items
        else:
            expanded.append(values)
    return tuple(expanded)


def _expand_signs(node: Node) -> Node:
    """Return an expression with ± or ∓ as the list of its values, and any other as it is."""
    signs = _find_signs(node)
    if not signs:
        return node
    has_only_plus_minus = all(signs)
    is_few = 1 < len(signs) <= _MAX_FREE_SIGNS
    if is_few and has_only_plus_minus and not isinstance(node, Listing):
        # In `± a ± b` each sign is free.
        return Listing("bare", tuple(_choose_every_sign(node)), "or")
    # `±` and `∓` go together, and so do the signs in the parts of a tuple.
    return Listing("bare", (_choose_sign(node, upper=True), _choose_sign(node, upper=False)), "or")


def _find_signs(node: Node) -> list[bool]:
    """Return True for every ± in the tree, and False for every ∓."""
    return [part.upper for part in list_nodes(node) if isinstance(part, PlusMinus)]


def _choose_every_sign(node: Node) -> list[Node]:
    """Return the tree with all combinations of signs, each sign chosen by itself."""
    choices: list[Node] = []
    choices_of_children = [_choose_every_sign(child) for child in children(node)]
    for parts in product(*choices_of_children):
        if isinstance(node, PlusMinus):
            (value,) = parts
            choices += [value, tree.negate(value)]
        else:
            choices.append(tree.rebuild(node, parts))
    return choices


def _choose_sign(node: Node, *, upper: bool) -> Node:
    """Return the tree with the upper sign of each ± and ∓, or with the lower sign of each."""
    parts = tuple(_choose_sign(child, upper=upper) for child in children(node))
    if not isinstance(node, PlusMinus):
        return tree.rebuild(node, parts)
    (value,) = parts
    return value if node.upper == upper else tree.negate(value)


# Equations of which one side only names the other.


def _drop_name_of_value(gold: Node, answer: Node) -> tuple[Node, Node]:
    """Return both answers, and of `x = 3` only the 3 if the other answer is not a relation.

    This is math-verify's rule.
    """
    if _states_value(answer) and not is_equation(gold) and not is_inequality(gold):
        return gold, answer.sides[-1]
    if is_equation(gold) and not is_equation(answer) and not is_inequality(answer):
        has_variables = bool(find_symbols(gold))
        if _names_value(gold.sides[0]) or not has_variables:
            return gold.sides[-1], answer
    return gold, answer


def _states_value(node: Node) -> TypeGuard[Relation]:
    """Return True if an equation says what its left side is, rather than being one to solve.

    `A = 5`, `3 + 4 = 7`, `sin x = 1/2` and `x² + y² = 25` state a value, `2x + 3 = 7` does not.
    """
    if not is_equation(node):
        return False
    left = node.sides[0]
    variable_count = len(find_symbols(left))
    if variable_count > 0 and left == node.sides[-1]:
        return False  # `x = x` says nothing of x
    if variable_count == 0 or is_name(left):
        return True
    if isinstance(left, Apply) and left.function != "root":
        return True
    # `x² + y² = 25` states a value. `2x + 3y = 7` and `x + y = 0` are equations to solve.
    right_is_zero = node.sides[-1] == Number(fmpq(0))
    return variable_count > 1 and _has_no_coefficients(left) and not right_is_zero


def _has_no_coefficients(node: Node) -> bool:
    """Return True for letters, sums and powers of them: `x² + y²` and `1/x`, not `2x` and `x + 1`."""
    match node:
        case Number(value):
            return abs(value) == 1  # a sign, or the numerator of 1/x
        case Power(base, Number()):
            return _has_no_coefficients(base)
        case Sum(terms) if any(isinstance(term, Number) for term in terms):
            return False
        case _:
            return all(_has_no_coefficients(child) for child in children(node))


def _names_value(node: Node) -> bool:
    """Return True if the left side of the gold only names the value on its right side.

    `x`, `f(x)`, `AB` and `P(A)` are such names. `x + y` and `xy` are not: `x + y = 5` is the
    equation of a line, which no number equals.
    """
    if not is_name(node) or isinstance(node, Sum):
        return False
    if isinstance(node, Product | Quotient):
        return all(name[0].isupper() for name in find_symbols(node))
    return True
