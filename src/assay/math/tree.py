"""Define the tree that an answer is parsed into, and the functions that walk and rebuild trees."""

from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final, Literal, TypeAlias, TypeGuard

from flint import fmpq


@dataclass(frozen=True, slots=True)
class Number:
    """A literal with its exact value: `0.5` is one half."""

    value: fmpq
    decimal: bool = False  # whether it was written as a decimal


@dataclass(frozen=True, slots=True)
class Symbol:
    """A variable."""

    name: str  # with its subscript


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
class Apply:
    """A function of its arguments."""

    function: str  # `sin`, `log` (argument, base), `root` (radicand, index), `f()` of `f(x)`, …
    arguments: "tuple[Node, ...]"


@dataclass(frozen=True, slots=True)
class PlusMinus:
    """Both signs at once: `±value`."""

    value: "Node"
    upper: bool = True  # False for `∓`, which has the opposite sign


@dataclass(frozen=True, slots=True)
class Percent:
    value: "Node"


@dataclass(frozen=True, slots=True)
class Quantity:
    """A value with a unit."""

    value: "Node"
    unit: str  # as written


@dataclass(frozen=True, slots=True)
class Words:
    """Text that is not mathematics."""

    text: str  # in lower case, with single spaces


@dataclass(frozen=True, slots=True)
class Listing:
    """Several answers, the items of a tuple, the members of a set, or the terms of a ratio."""

    kind: Literal["bare", "round", "square", "set", "ratio"]  # `bare`: without brackets
    items: "tuple[Node, ...]"
    joined: Literal[",", "and", "or"] = ","


@dataclass(frozen=True, slots=True)
class Range:
    """An interval."""

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
class NamedSet:
    """A set of numbers by its name, or the empty set."""

    name: str  # `R`, `Z`, `N`, `Q`, `C` or `empty`


@dataclass(frozen=True, slots=True)
class Builder:
    """A set by a condition: `{x : x > 0}`."""

    variable: "Node"
    condition: "Node"


@dataclass(frozen=True, slots=True)
class Relation:
    """A chain of relations such as `1 < x <= 2`."""

    sides: "tuple[Node, ...]"
    operators: tuple[str, ...]  # one fewer than sides


@dataclass(frozen=True, slots=True)
class Grid:
    """A matrix or vector."""

    rows: "tuple[tuple[Node, ...], ...]"


@dataclass(frozen=True, slots=True)
class Based:
    """A numeral in another base, such as `1011_2`."""

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

ONE: Final = Number(fmpq(1))
MINUS_ONE: Final = Number(fmpq(-1))
_MAX_RATIONAL_BITS: Final = 1 << 16  # about 20,000 digits
_INEQUALITY_OPERATORS: Final = frozenset({"<", ">", "<=", ">=", "!=", "in"})


# Walk and rebuild trees.


def children(node: Node) -> "tuple[Node, ...]":
    """Return the parts of a node, in order; none for a number, a name or words."""
    get_children = _CHILDREN.get(type(node))
    if get_children is None:
        return ()
    return get_children(node)


_CHILDREN: Final[dict[type, Callable[[Any], "tuple[Node, ...]"]]] = {
    Sum: attrgetter("terms"),
    Product: attrgetter("factors"),
    Quotient: attrgetter("top", "bottom"),
    Power: attrgetter("base", "exponent"),
    Apply: attrgetter("arguments"),
    PlusMinus: lambda node: (node.value,),
    Percent: lambda node: (node.value,),
    Quantity: lambda node: (node.value,),
    Listing: attrgetter("items"),
    Range: attrgetter("low", "high"),
    SetOperation: attrgetter("left", "right"),
    Builder: attrgetter("variable", "condition"),
    Relation: attrgetter("sides"),
    Grid: lambda node: tuple(cell for row in node.rows for cell in row),
}


def rebuild(node: Node, parts: "tuple[Node, ...]") -> Node:
    """Return the same node with other children."""
    match node:
        case Sum():
            return Sum(parts)
        case Product():
            return Product(parts)
        case Quotient():
            return Quotient(*parts)
        case Power():
            return Power(*parts)
        case Apply(function):
            return Apply(function, parts)
        case PlusMinus(_, upper):
            return PlusMinus(parts[0], upper)
        case Percent():
            return Percent(parts[0])
        case Quantity(_, unit):
            return Quantity(parts[0], unit)
        case Listing(kind, _, joined):
            return Listing(kind, parts, joined)
        case Range(_, _, low_open, high_open):
            low, high = parts
            return Range(low, high, low_open, high_open)
        case SetOperation(operator):
            return SetOperation(operator, *parts)
        case Builder():
            return Builder(*parts)
        case Relation(_, operators):
            return Relation(parts, operators)
        case Grid(rows):
            width = len(rows[0])
            starts = range(0, len(parts), width)
            return Grid(tuple(parts[start : start + width] for start in starts))
        case _:
            return node


def substitute(node: Node, old: Node, new: Node) -> Node:
    """Replace a node wherever it occurs in a tree."""
    if node == old:
        return new
    return rebuild(node, tuple(substitute(child, old, new) for child in children(node)))


def rename_symbols(node: Node, rename: Callable[[str], str]) -> Node:
    """Rename all variables of a tree."""
    if isinstance(node, Symbol):
        return Symbol(rename(node.name))
    return rebuild(node, tuple(rename_symbols(child, rename) for child in children(node)))


def negate(node: Node) -> Node:
    """Return the expression with the opposite sign."""
    match node:
        case Number(value, decimal):
            return Number(-value, decimal)
        case Percent(value):
            return Percent(negate(value))
        case Quantity(value, unit):
            return Quantity(negate(value), unit)
        case _:
            return Product((MINUS_ONE, node))


def list_nodes(node: Node) -> "list[Node]":
    """Return the node and all nodes below it. It does not recurse, so depth does not matter."""
    nodes = [node]
    for parent in nodes:  # grows while it is read
        # Not `children`, since this loop is hot and the call would take half of its time.
        get_children = _CHILDREN.get(type(parent))
        if get_children is not None:
            nodes += get_children(parent)
    return nodes


def measure_height(node: Node) -> int:
    """Return the height of a tree. It does not recurse, so depth does not matter."""
    height = 0
    level = [node]
    while level:
        height += 1
        level = [child for parent in level for child in children(parent)]
    return height


def find_symbols(node: Node) -> set[str]:
    """Return the names of all variables in a tree."""
    return {part.name for part in list_nodes(node) if isinstance(part, Symbol)}


# Values.


def is_value(node: Node) -> bool:
    """Return True if a tree is a number, or an expression of which all functions are known."""
    if isinstance(node, Apply):
        is_unknown_function = node.function.endswith("()")
        # math-verify reads these two as something else.
        is_misread = node.function in ("multifactorial", "mod")
        if is_unknown_function or is_misread:
            return False
    value_kinds = Number | Symbol | Constant | Sum | Product | Quotient | Power | Apply | Percent
    return isinstance(node, value_kinds) and all(is_value(child) for child in children(node))


def evaluate_rational(node: Node) -> fmpq | None:
    """Return the value of an expression of literals as a rational number.

    None for any other expression, for one without a value, and for one that is too long.
    """
    match node:
        case Number(value):
            return value
        case Percent(value):
            percentage = evaluate_rational(value)
            return None if percentage is None else percentage / 100
        case Quotient(top, bottom):
            numerator = evaluate_rational(top)
            denominator = evaluate_rational(bottom)
            if numerator is None or denominator is None or denominator == 0:
                return None
            return numerator / denominator
        case Sum(terms):
            return _add_rationals(terms)
        case Product(factors):
            return _multiply_rationals(factors)
        case Power(base, exponent):
            return _raise_rational(evaluate_rational(base), evaluate_rational(exponent))
        case _:
            return None


def _add_rationals(terms: "tuple[Node, ...]") -> fmpq | None:
    """Return the sum of some terms, or None if one is not rational or the sum becomes too long."""
    total = fmpq(0)
    for term in terms:
        value = evaluate_rational(term)
        if value is None or _count_bits(total) > _MAX_RATIONAL_BITS:
            return None
        total += value
    return total


def _multiply_rationals(factors: "tuple[Node, ...]") -> fmpq | None:
    """Return the product of some factors, or None if one is not rational or it becomes too long."""
    product = fmpq(1)
    for factor in factors:
        value = evaluate_rational(factor)
        if value is None or _count_bits(product) > _MAX_RATIONAL_BITS:
            return None
        product *= value
    return product


def _raise_rational(base: fmpq | None, exponent: fmpq | None) -> fmpq | None:
    """Return a whole power, or None if it has no value or is too long."""
    if base is None or exponent is None or exponent.q != 1:
        return None
    power = int(exponent.p)
    if base == 0 and power <= 0:
        return None
    if abs(power) * _count_bits(base) > _MAX_RATIONAL_BITS:
        return None
    return base**power


def _count_bits(number: fmpq) -> int:
    return number.p.bit_length() + number.q.bit_length()


# Relations.


def is_equation(node: Node) -> TypeGuard[Relation]:
    """Return True for `x = 1`, and for a chain such as `x = y = 1`."""
    return isinstance(node, Relation) and all(operator == "=" for operator in node.operators)


def is_inequality(node: Node) -> bool:
    """Return True for a relation with an operator such as `<`, `≠` or `∈`."""
    return isinstance(node, Relation) and not _INEQUALITY_OPERATORS.isdisjoint(node.operators)


def is_assignment(node: Node) -> TypeGuard[Relation]:
    """Return True if the left side of an equation only names what the right side says."""
    return is_equation(node) and is_name(node.sides[0])


def is_name(node: Node) -> bool:
    """Return True if an expression may be the name of a value: `x`, `f(x)`, `x + y`, `|AB|`."""
    match node:
        case Symbol() | Words():
            return True
        case Apply("abs", (argument, *_)):
            return is_name(argument)
        case Apply(function):
            return function.endswith("()")
        case Listing("round" | "ratio") | Sum() | Product() | Quotient():
            parts = children(node)
            return bool(parts) and all(is_name(part) for part in parts)
        case _:
            return False
