"""Define the tree that an answer is read into, and rewrite trees: one spelling for what people write in several ways."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product
from operator import attrgetter
from typing import Any, Final, Literal, TypeAlias, TypeGuard

from flint import fmpq

from assay.math.verdict import MathOptions


@dataclass(frozen=True, slots=True)
class Number:  # a literal, exact: `0.5` is one half, and `decimal` remembers how it was written
    value: fmpq
    decimal: bool = False


@dataclass(frozen=True, slots=True)
class Symbol:  # a variable, with its subscript in its name
    name: str


@dataclass(frozen=True, slots=True)
class Constant:
    name: Literal["pi", "e", "i", "infinity"]


@dataclass(frozen=True, slots=True)
class Sum:
    terms: "tuple[Node, ...]"


@dataclass(frozen=True, slots=True)
class Product:
    factors: "tuple[Node, ...]"


@dataclass(frozen=True, slots=True)
class Quotient:
    top: "Node"
    bottom: "Node"


@dataclass(frozen=True, slots=True)
class Power:
    base: "Node"
    exponent: "Node"


@dataclass(frozen=True, slots=True)
class Apply:  # a function by its name: `sin`, `log` (argument, base), `root` (radicand, index), `abs`, …
    function: str
    arguments: "tuple[Node, ...]"


@dataclass(frozen=True, slots=True)
class PlusMinus:  # `±value`: both signs at once
    value: "Node"
    upper: bool = True  # false for `∓`, which takes the other sign


@dataclass(frozen=True, slots=True)
class Percent:
    value: "Node"


@dataclass(frozen=True, slots=True)
class Quantity:  # a value with a unit, spelled as in `units.UNITS`, or as written when not known there
    value: "Node"
    unit: str


@dataclass(frozen=True, slots=True)
class Words:  # text that is no mathematics, folded to one case and single spaces
    text: str


@dataclass(frozen=True, slots=True)
class Listing:  # several answers: `bare` between commas, in round, square or angle brackets, or a `set`
    kind: Literal["bare", "round", "square", "set", "ratio"]
    items: "tuple[Node, ...]"
    joined: Literal[",", "and", "or"] = ","


@dataclass(frozen=True, slots=True)
class Range:  # an interval
    low: "Node"
    high: "Node"
    low_open: bool
    high_open: bool


@dataclass(frozen=True, slots=True)
class SetOperation:
    operator: Literal["union", "intersection", "difference"]
    left: "Node"
    right: "Node"


@dataclass(frozen=True, slots=True)
class NamedSet:  # `R`, `Z`, `N`, `Q`, `C` or `empty`
    name: str


@dataclass(frozen=True, slots=True)
class Builder:  # `{x : conditions}`
    variable: "Node"
    condition: "Node"


@dataclass(frozen=True, slots=True)
class Relation:  # a chain such as `1 < x <= 2`: one more side than operators
    sides: "tuple[Node, ...]"
    operators: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Grid:  # a matrix or vector by rows
    rows: "tuple[tuple[Node, ...], ...]"


@dataclass(frozen=True, slots=True)
class Based:  # a numeral in another base, such as `1011_2`
    digits: str
    base: int


Node: TypeAlias = (
    Number
    | Symbol
    | Constant
    | Sum
    | Product
    | Quotient
    | Power
    | Apply
    | PlusMinus
    | Percent
    | Quantity
    | Words
    | Listing
    | Range
    | SetOperation
    | NamedSet
    | Builder
    | Relation
    | Grid
    | Based
)

ONE, MINUS_ONE = Number(fmpq(1)), Number(fmpq(-1))


def negated(node: Node) -> Node:
    if isinstance(node, Number):
        return Number(-node.value, node.decimal)
    if isinstance(node, Percent | Quantity):
        return replace(node, value=negated(node.value))
    return Product((MINUS_ONE, node))


# What the nodes below are called: one field with all of them, or a field each.
_MANY: dict[type, str] = {
    Sum: "terms",
    Product: "factors",
    Apply: "arguments",
    Listing: "items",
    Relation: "sides",
}
_EACH: Final[dict[type, tuple[str, ...]]] = {
    PlusMinus: ("value",),
    Percent: ("value",),
    Quantity: ("value",),
    Quotient: ("top", "bottom"),
    Power: ("base", "exponent"),
    Range: ("low", "high"),
    SetOperation: ("left", "right"),
    Builder: ("variable", "condition"),
}


_CHILDREN: Final[dict[type, Callable[[Any], "tuple[Node, ...]"]]] = {
    **{kind: attrgetter(name) for kind, name in _MANY.items()},
    **{kind: attrgetter(*names) for kind, names in _EACH.items()},
    **dict.fromkeys((PlusMinus, Percent, Quantity), lambda node: (node.value,)),
    Grid: lambda node: tuple(cell for row in node.rows for cell in row),
}


def children(node: Node) -> "tuple[Node, ...]":
    below = _CHILDREN.get(type(node))
    return () if below is None else below(node)


def nodes_of(node: Node) -> "list[Node]":
    """The node and all below it, found without recursion."""
    found = [node]
    for each in found:
        if (
            below := _CHILDREN.get(type(each))
        ) is not None:  # not `children`, whose call is half of the time
            found += below(each)
    return found


def rebuilt(node: Node, parts: "tuple[Node, ...]") -> Node:
    """The same node over other children."""
    kind = type(node)
    if kind in _MANY:
        return replace(node, **{_MANY[kind]: parts})
    if isinstance(node, Grid):
        width = len(node.rows[0])
        return Grid(tuple(parts[start : start + width] for start in range(0, len(parts), width)))
    return replace(node, **dict(zip(_EACH[kind], parts, strict=True))) if parts else node


def replaced(node: Node, old: Node, new: Node) -> Node:
    return (
        new
        if node == old
        else rebuilt(node, tuple(replaced(child, old, new) for child in children(node)))
    )


def levels_of(node: Node) -> int:
    """How many nodes stand below each other at most, counted without recursion."""
    levels, below = 0, [node]
    while below:
        levels += 1
        below = [child for each in below for child in children(each)]
    return levels


def symbols_of(node: Node) -> set[str]:
    return {each.name for each in nodes_of(node) if isinstance(each, Symbol)}


def is_value(node: Node) -> bool:
    """Whether a tree is one number or expression, of functions that are known by their values."""
    # Two that math-verify does not read as they are.
    if isinstance(node, Apply) and (
        node.function.endswith("()") or node.function in ("multifactorial", "mod")
    ):
        return False
    kinds = Number | Symbol | Constant | Sum | Product | Quotient | Power | Apply | Percent
    return isinstance(node, kinds) and all(map(is_value, children(node)))


_MOST_BITS: Final = 1 << 16


def rational_of(node: Node) -> fmpq | None:
    """The rational number that an expression of literals is; None for any other, and for one of 20,000 digits."""
    match node:
        case Number(value):
            return value
        case Percent(value):
            inside = rational_of(value)
            return None if inside is None else inside / 100
        case Quotient(top, bottom):
            above, below = rational_of(top), rational_of(bottom)
            return None if above is None or below is None or below == 0 else above / below
        case Sum(parts) | Product(parts):
            total = fmpq(0 if isinstance(node, Sum) else 1)
            for value in map(rational_of, parts):
                if value is None or total.p.bit_length() + total.q.bit_length() > _MOST_BITS:
                    return None
                total = total + value if isinstance(node, Sum) else total * value
            return total
        case Power(base, exponent):
            below, above = rational_of(base), rational_of(exponent)
            if below is None or above is None or above.q != 1 or (below == 0 and above.p <= 0):
                return None
            if abs(above.p) * (below.p.bit_length() + below.q.bit_length()) > _MOST_BITS:
                return None
            return below ** int(above.p)
        case _:
            return None


_MOST_SIGNS: Final = 4
_PARAMETERS: Final = frozenset("knmlt")
_INEQUALITIES: Final = frozenset({"<", ">", "<=", ">=", "!=", "in"})


def rewritten(gold: Node, answer: Node, options: MathOptions) -> tuple[Node, Node]:
    """Both answers with names, signs and labels in one form, as far as each allows it."""
    gold, answer = _with_one_case(gold, answer)
    gold, answer = _with_one_parameter(gold, answer)
    if options.rename_variables:
        answer = _with_names_of(gold, answer)
    gold, answer = both_signs(spread(gold)), both_signs(spread(answer))
    # `x = 3` is 3 where the other side gives no name; math-verify's rule.
    if (
        options.assignments
        and _says_value(answer)
        and not is_equation(gold)
        and not is_inequality(gold)
    ):
        return gold, answer.sides[-1]
    is_open = options.assignments and not is_equation(answer) and not is_inequality(answer)
    if is_open and is_equation(gold) and (_names_value(gold.sides[0]) or not symbols_of(gold)):
        return gold.sides[-1], answer
    return gold, answer


def renamed(node: Node, rename: Callable[[str], str]) -> Node:
    if isinstance(node, Symbol):
        return Symbol(rename(node.name))
    return rebuilt(node, tuple(renamed(child, rename) for child in children(node)))


def _with_one_case(gold: Node, answer: Node) -> tuple[Node, Node]:
    """Return both with x, y and z in lower case, if neither uses one of them in both cases.

    Other letters are different quantities in different cases: R and r are two radii.
    """
    gold_names, answer_names = symbols_of(gold), symbols_of(answer)
    if gold_names == answer_names:
        return gold, answer
    for names in (gold_names, answer_names):
        if any({letter, letter.upper()} <= names for letter in "xyz"):
            return gold, answer
    return renamed(gold, _lower_coordinate), renamed(answer, _lower_coordinate)


def _lower_coordinate(name: str) -> str:
    return name.lower() if name in ("X", "Y", "Z") else name


def _with_one_parameter(gold: Node, answer: Node) -> tuple[Node, Node]:
    """`x = kπ` against `nπ`: the letter for any whole number is free in a family of solutions."""
    families = [_family(side) for side in (gold, answer)]
    if families[0] is gold or families[1] is answer:
        gold, answer = (
            families  # one leaves out what the other says: that the letter is any whole number
        )
    sides = [side.sides if is_assignment(side) else ((), side) for side in families]
    if not any(side[0] for side in sides):
        return gold, answer
    names = [symbols_of(side[0]) if side[0] else set[str]() for side in sides]
    only_gold = symbols_of(gold) - symbols_of(answer) - names[0]
    only_answer = symbols_of(answer) - symbols_of(gold) - names[1]
    if len(only_gold) != 1 or len(only_answer) != 1 or not only_gold | only_answer <= _PARAMETERS:
        return gold, answer
    (new,), (old,) = only_gold, only_answer
    return gold, renamed(answer, lambda name: new if name == old else name)


def _family(node: Node) -> Node:
    match node:
        case Listing("bare", (first, Relation((Symbol(name), NamedSet("Z")), ("in",)))) if (
            name in _PARAMETERS
        ):
            is_asked = is_inequality(first) or (
                is_equation(first) and name in symbols_of(first.sides[0])
            )
            return node if is_asked else first
        case _:
            return node


def _with_names_of(gold: Node, answer: Node) -> Node:
    """The answer with the gold's variables in the order of their names."""
    theirs, ours = sorted(symbols_of(gold)), sorted(symbols_of(answer))
    if len(theirs) != len(ours):
        return answer
    names = dict(zip(ours, theirs, strict=True))
    return renamed(answer, lambda name: names[name])


def spread(node: Node) -> Node:
    """`(x, y) = (1, 2)` as `x = 1, y = 2`."""
    match node:
        case Relation((Listing(kind, left), Listing(same, right)), ("=",)) if (
            kind == same != "ratio" and len(left) == len(right)
        ):
            return Listing(
                "bare", tuple(Relation(pair, ("=",)) for pair in zip(left, right, strict=True))
            )
        case _:
            return node


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
            both = both_signs(item) if _signs_of(item) else item
            found += (
                both.items
                if both is not item and isinstance(both, Listing) and both.kind == "bare"
                else (both,)
            )
        return Listing(node.kind, tuple(found), node.joined)
    signs = _signs_of(node)
    if not signs:
        return node
    # In `± a ± b` each sign is free; `±` and `∓` go together, and so do the signs in the parts of a tuple.
    if 1 < len(signs) <= _MOST_SIGNS and all(signs) and not isinstance(node, Listing):
        return Listing("bare", tuple(_with_every_sign(node)), "or")
    return Listing("bare", (_signed(node, upper=True), _signed(node, upper=False)), "or")


def _signs_of(node: Node) -> list[bool]:
    """Of every ± in the tree whether it is no ∓."""
    return [each.upper for each in nodes_of(node) if isinstance(each, PlusMinus)]


def _with_every_sign(node: Node) -> list[Node]:
    found = [rebuilt(node, parts) for parts in product(*map(_with_every_sign, children(node)))]
    if not isinstance(node, PlusMinus):
        return found
    values = [each.value for each in found if isinstance(each, PlusMinus)]
    return values + [negated(value) for value in values]


def _signed(node: Node, *, upper: bool) -> Node:
    parts = tuple(_signed(child, upper=upper) for child in children(node))
    if isinstance(node, PlusMinus):
        return parts[0] if node.upper == upper else negated(parts[0])
    return rebuilt(node, parts)


def is_equation(node: Node) -> TypeGuard[Relation]:
    return isinstance(node, Relation) and all(operator == "=" for operator in node.operators)


def _says_value(node: Node) -> TypeGuard[Relation]:
    """Whether an equation says what something is, and is none to be solved: `A = 5`, `3 + 4 = 7`, `sin x = 1/2` and
    `x² + y² = 25` do, `2x + 3 = 7` does not.
    """
    if not is_equation(node):
        return False
    left = node.sides[0]
    is_function = isinstance(left, Apply) and left.function != "root"
    return (
        not symbols_of(left)
        or _only_names(left)
        or is_function
        or (len(symbols_of(left)) > 1 and _is_form(left) and node.sides[-1] != Number(fmpq(0)))
    )


def _is_form(node: Node) -> bool:
    """Whether an expression has no numbers but exponents, signs and the 1 of a reciprocal."""
    match node:
        case Number(value):
            return abs(value) == 1
        case Power(base, Number()):
            return _is_form(base)
        case Sum(terms):
            return not any(isinstance(term, Number) for term in terms) and all(map(_is_form, terms))
        case _:
            return all(map(_is_form, children(node)))


def is_inequality(node: Node) -> bool:
    return isinstance(node, Relation) and not _INEQUALITIES.isdisjoint(node.operators)


def is_assignment(node: Node) -> TypeGuard[Relation]:
    """Whether an equation only gives a name to its right side."""
    return is_equation(node) and _only_names(node.sides[0])


def _names_value(node: Node) -> bool:
    """Return True if the left side of a reference only names the value on its right side.

    `x`, `f(x)`, `AB` and `P(A)` are such names. `x + y` and `xy` are not: `x + y = 5` is the
    equation of a line, which no number equals.
    """
    if isinstance(node, Product | Quotient):
        return _only_names(node) and all(name[0].isupper() for name in symbols_of(node))
    return not isinstance(node, Sum) and _only_names(node)


def _only_names(node: Node) -> bool:
    """Whether an expression only names what the other side says: `x`, `f(x)`, `x + y`, `|AB|`."""
    if isinstance(node, Symbol | Words):
        return True
    if isinstance(node, Apply):
        return node.function.endswith("()") or (
            node.function == "abs" and _only_names(node.arguments[0])
        )
    if isinstance(node, Listing) and node.kind not in ("round", "ratio"):
        return False
    parts = children(node)
    return (
        isinstance(node, Sum | Product | Quotient | Listing)
        and bool(parts)
        and all(map(_only_names, parts))
    )
