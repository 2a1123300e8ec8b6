"""The tree that an answer is read into: a few frozen kinds of node, no evaluation."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from flint import fmpq


@dataclass(frozen=True, slots=True)
class Number:
    """A literal, exact: `0.5` is one half, and `decimal` remembers how it was written."""

    value: fmpq
    decimal: bool = False


@dataclass(frozen=True, slots=True)
class Symbol:
    """A variable, with its subscript in its name."""

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
class Apply:
    """A function by its name: `sin`, `log` (argument, base), `root` (radicand, index), `abs`, …"""

    function: str
    arguments: "tuple[Node, ...]"


@dataclass(frozen=True, slots=True)
class PlusMinus:
    """`±value`: both signs at once."""

    value: "Node"
    upper: bool = True
    """False for `∓`, which takes the other sign."""


@dataclass(frozen=True, slots=True)
class Percent:
    value: "Node"


@dataclass(frozen=True, slots=True)
class Quantity:
    """A value with a unit, spelled as in `units.UNITS`, or as written when not known there."""

    value: "Node"
    unit: str


@dataclass(frozen=True, slots=True)
class Words:
    """Text that is no mathematics, folded to one case and single spaces."""

    text: str


@dataclass(frozen=True, slots=True)
class Listing:
    """Several answers: `bare` between commas, in round, square or angle brackets, or a `set`."""

    kind: Literal["bare", "round", "square", "set", "ratio"]
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
    """`R`, `Z`, `N`, `Q`, `C` or `empty`."""

    name: str


@dataclass(frozen=True, slots=True)
class Builder:
    """`{x : conditions}`."""

    variable: "Node"
    condition: "Node"


@dataclass(frozen=True, slots=True)
class Relation:
    """A chain such as `1 < x <= 2`: one more side than operators."""

    sides: "tuple[Node, ...]"
    operators: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Grid:
    """A matrix or vector by rows."""

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

MINUS_ONE = Number(fmpq(-1))
ONE = Number(fmpq(1))


def negated(node: Node) -> Node:
    """The node with its sign turned; a literal stays a literal."""
    if isinstance(node, Number):
        return Number(-node.value, node.decimal)
    if isinstance(node, Percent):
        return Percent(negated(node.value))
    if isinstance(node, Quantity):
        return Quantity(negated(node.value), node.unit)
    return Product((MINUS_ONE, node))


def children(node: Node) -> "tuple[Node, ...]":
    """The nodes directly below."""
    match node:
        case Number() | Symbol() | Constant() | Words() | NamedSet() | Based():
            return ()
        case Sum(terms):
            return terms
        case Product(factors):
            return factors
        case Apply(_, arguments):
            return arguments
        case Listing(_, items):
            return items
        case Relation(sides, _):
            return sides
        case Grid(rows):
            return tuple(cell for row in rows for cell in row)
        case PlusMinus(value) | Percent(value) | Quantity(value):
            return (value,)
        case Quotient(a, b) | Power(a, b) | Range(a, b) | SetOperation(_, a, b) | Builder(a, b):
            return (a, b)


def levels_of(node: Node) -> int:
    """How many nodes stand below each other at most, counted without recursion."""
    levels, below = 0, [node]
    while below:
        levels += 1
        below = [child for each in below for child in children(each)]
    return levels


def symbols_of(node: Node) -> set[str]:
    """The names of all variables in the tree."""
    if isinstance(node, Symbol):
        return {node.name}
    found: set[str] = set()
    for child in children(node):
        found |= symbols_of(child)
    return found


def holds(node: Node, leaf: Node) -> bool:
    """Whether a node equal to this one is somewhere in the tree."""
    return node == leaf or any(holds(child, leaf) for child in children(node))
