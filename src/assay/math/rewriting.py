"""Rewriting trees: one spelling for what people write in several ways."""

from collections.abc import Callable
from typing import Final, TypeGuard

from assay.math.options import MathOptions
from assay.math.tree import (
    Apply,
    Builder,
    Grid,
    Listing,
    Node,
    Percent,
    PlusMinus,
    Power,
    Product,
    Quantity,
    Quotient,
    Range,
    Relation,
    SetOperation,
    Sum,
    Symbol,
    Words,
    children,
    negated,
    symbols_of,
)

_PARAMETERS: Final = frozenset("knmlt")
_INEQUALITIES: Final = frozenset({"<", ">", "<=", ">=", "!=", "in"})


def rewritten(gold: Node, answer: Node, options: MathOptions) -> tuple[Node, Node]:
    """Both answers with names, signs and labels in one form, as far as each allows it."""
    gold, answer = _with_one_case(gold, answer)
    gold, answer = _with_one_parameter(gold, answer)
    if options.rename_variables:
        answer = _with_names_of(gold, answer)
    gold, answer = both_signs(spread(gold)), both_signs(spread(answer))
    return _without_names(gold, answer, options)


def renamed(node: Node, rename: Callable[[str], str]) -> Node:
    """The tree with every variable's name changed."""
    if isinstance(node, Symbol):
        return Symbol(rename(node.name))
    return rebuilt(node, tuple(renamed(child, rename) for child in children(node)))


def rebuilt(node: Node, parts: tuple[Node, ...]) -> Node:
    """The same node over other children."""
    match node:
        case Sum():
            return Sum(parts)
        case Product():
            return Product(parts)
        case Apply(function, _):
            return Apply(function, parts)
        case Listing(kind, _, joined):
            return Listing(kind, parts, joined)
        case Relation(_, operators):
            return Relation(parts, operators)
        case Quotient():
            return Quotient(parts[0], parts[1])
        case Power():
            return Power(parts[0], parts[1])
        case Percent():
            return Percent(parts[0])
        case PlusMinus(_, upper):
            return PlusMinus(parts[0], upper)
        case Quantity(_, unit):
            return Quantity(parts[0], unit)
        case Range(_, _, low_open, high_open):
            return Range(parts[0], parts[1], low_open, high_open)
        case SetOperation(operator):
            return SetOperation(operator, parts[0], parts[1])
        case Builder():
            return Builder(parts[0], parts[1])
        case Grid(rows):
            width = len(rows[0])
            starts = range(0, len(parts), width)
            return Grid(tuple(parts[start : start + width] for start in starts))
        case _:
            return node


def _with_one_case(gold: Node, answer: Node) -> tuple[Node, Node]:
    """Variables that differ in case alone are the same, unless a letter is used in both cases."""
    one, two = symbols_of(gold), symbols_of(answer)
    if one == two:
        return gold, answer
    lowered = [{name.lower() for name in names} for names in (one, two)]
    if len(lowered[0]) != len(one) or len(lowered[1]) != len(two):
        return gold, answer
    if len(lowered[0] | lowered[1]) == len(one | two):
        return gold, answer
    return renamed(gold, str.lower), renamed(answer, str.lower)


def _with_one_parameter(gold: Node, answer: Node) -> tuple[Node, Node]:
    """`kπ` against `nπ`: the letter for any whole number is free."""
    only_gold = symbols_of(gold) - symbols_of(answer)
    only_answer = symbols_of(answer) - symbols_of(gold)
    if isinstance(gold, Relation) and isinstance(gold.sides[0], Symbol):
        only_gold -= {gold.sides[0].name} - symbols_of(answer)
    if len(only_gold) != 1 or len(only_answer) != 1 or not only_gold | only_answer <= _PARAMETERS:
        return gold, answer
    (new,), (old,) = only_gold, only_answer
    return gold, renamed(answer, lambda name: new if name == old else name)


def _with_names_of(gold: Node, answer: Node) -> Node:
    """The answer with the gold's variables in the order of their names."""
    theirs, ours = sorted(symbols_of(gold)), sorted(symbols_of(answer))
    if len(theirs) != len(ours):
        return answer
    names = dict(zip(ours, theirs, strict=True))
    return renamed(answer, lambda name: names[name])


def spread(node: Node) -> Node:
    """`(x, y) = (1, 2)` as `x = 1, y = 2`."""
    if not (isinstance(node, Relation) and node.operators == ("=",)):
        return node
    left, right = node.sides
    if not (isinstance(left, Listing) and isinstance(right, Listing) and left.kind == right.kind):
        return node
    if len(left.items) != len(right.items):
        return node
    pairs = zip(left.items, right.items, strict=True)
    return Listing("bare", tuple(Relation(pair, ("=",)) for pair in pairs))


def both_signs(node: Node) -> Node:
    """An expression with ± as the list of its two values."""
    if isinstance(node, Relation) and node.operators == ("=",):
        right = both_signs(node.sides[1])
        if isinstance(right, Listing) and right is not node.sides[1]:
            items = tuple(Relation((node.sides[0], item), ("=",)) for item in right.items)
            return Listing("bare", items, "or")
        return node
    if isinstance(node, Listing) and node.kind in ("bare", "set"):
        found: list[Node] = []
        for item in node.items:
            both = both_signs(item)
            found += both.items if both is not item and isinstance(both, Listing) else (both,)
        return Listing(node.kind, tuple(found), node.joined)
    if not _has_sign(node):
        return node
    return Listing("bare", (_signed(node, upper=True), _signed(node, upper=False)), "or")


def _has_sign(node: Node) -> bool:
    return isinstance(node, PlusMinus) or any(map(_has_sign, children(node)))


def _signed(node: Node, *, upper: bool) -> Node:
    parts = tuple(_signed(child, upper=upper) for child in children(node))
    if isinstance(node, PlusMinus):
        return parts[0] if node.upper == upper else negated(parts[0])
    return rebuilt(node, parts)


def _without_names(gold: Node, answer: Node, options: MathOptions) -> tuple[Node, Node]:
    """`x = 3` as 3 where the other side gives no name; math-verify's rule."""
    if not options.assignments:
        return gold, answer
    if is_equation(answer) and not is_equation(gold) and not is_inequality(gold):
        return gold, answer.sides[-1]
    if is_assignment(gold) and not is_equation(answer) and not is_inequality(answer):
        return gold.sides[-1], answer
    return gold, answer


def is_equation(node: Node) -> TypeGuard[Relation]:
    return isinstance(node, Relation) and all(operator == "=" for operator in node.operators)


def is_inequality(node: Node) -> bool:
    return isinstance(node, Relation) and not _INEQUALITIES.isdisjoint(node.operators)


def is_assignment(node: Node) -> TypeGuard[Relation]:
    """Whether an equation only gives a name to its right side."""
    return is_equation(node) and _only_names(node.sides[0])


def _only_names(node: Node) -> bool:
    """Whether an expression only names what the other side says: `x`, `f(x)`, `x + y`, `|AB|`."""
    if isinstance(node, Symbol | Words):
        return True
    if isinstance(node, Apply):
        return node.function.endswith("()") or (
            node.function == "abs" and _only_names(node.arguments[0])
        )
    if isinstance(node, Listing) and node.kind != "round":
        return False
    parts = children(node)
    return (
        isinstance(node, Sum | Product | Quotient | Listing)
        and bool(parts)
        and all(map(_only_names, parts))
    )
