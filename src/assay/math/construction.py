"""Build the nodes of a tree for the grammar."""

from collections.abc import Sequence
from typing import Final

from flint import fmpq

from assay.math import tree
from assay.math.tokens import UnreadableError
from assay.math.units import is_unit_or_label
from assay.math.words import BASIS_POINTS, ORDINALS, PARTS, SCALES

_MAX_DETERMINANT: Final = 4
# What the numerator and the denominator of a derivative begin with.
_DIFFERENTIALS: Final = (
    tree.Symbol("d"),
    tree.Power(tree.Symbol("d"), tree.Number(fmpq(2))),
    tree.Power(tree.Symbol("d"), tree.Number(fmpq(3))),
    tree.Symbol("partial"),
    tree.Power(tree.Symbol("partial"), tree.Number(fmpq(2))),
    tree.Power(tree.Symbol("partial"), tree.Number(fmpq(3))),
)


def make_letter(name: str) -> tree.Node:
    """Return a letter as the constant e or i, or as a variable."""
    return tree.Constant(name) if name in ("e", "i") else tree.Symbol(name)


def list_items(node: tree.Node) -> tuple[tree.Node, ...]:
    """Return the items of a list without brackets, or the node itself as the only item."""
    if isinstance(node, tree.Listing) and node.kind == "bare":
        return node.items
    return (node,)


def make_product(factors: Sequence[tree.Node]) -> tree.Node:
    """Return the product of some factors; a single factor as it is."""
    if len(factors) == 1:
        return factors[0]
    return tree.Product(tuple(factors))


def multiply(left: tree.Node, right: tree.Node) -> tree.Node:
    """Return a product. A product on the left gets one factor more."""
    if isinstance(left, tree.Product):
        return tree.Product((*left.factors, right))
    return tree.Product((left, right))


def divide(top: tree.Node, bottom: tree.Node) -> tree.Node:
    """Return a fraction. A derivative such as `dy/dx` is one name, and not a fraction."""
    derivative = _read_derivative(top, bottom)
    if derivative is not None:
        return derivative
    first_of_top = top.factors[0] if isinstance(top, tree.Product) else top
    first_of_bottom = bottom.factors[0] if isinstance(bottom, tree.Product) else bottom
    if first_of_top in _DIFFERENTIALS and first_of_bottom in _DIFFERENTIALS:
        raise UnreadableError("a derivative")  # of another form, such as `d/dx`
    return tree.Quotient(top, bottom)


def _read_derivative(top: tree.Node, bottom: tree.Node) -> tree.Symbol | None:
    """Return the name of a derivative such as `dy/dx` or `d²y/dx²`, or None for other fractions."""
    match top, bottom:
        case (
            tree.Product((tree.Symbol("d" | "partial" as sign), tree.Symbol(function))),
            tree.Product((tree.Symbol(bottom_sign), tree.Symbol(variable))),
        ) if sign == bottom_sign:
            return tree.Symbol(f"{sign}{function}/{sign}{variable}")
        case (
            tree.Product(
                (
                    tree.Power(tree.Symbol("d" | "partial" as sign), tree.Number(order)),
                    tree.Symbol(function),
                )
            ),
            tree.Product(
                (
                    tree.Symbol(bottom_sign),
                    tree.Power(tree.Symbol(variable), tree.Number(bottom_order)),
                )
            ),
        ) if sign == bottom_sign and order == bottom_order:
            return tree.Symbol(f"{sign}{order}{function}/{sign}{variable}{order}")
        case _:
            return None


def is_proper_fraction(top: tree.Node, bottom: tree.Node) -> bool:
    """Return True for two whole numbers written without a point, of which the first is smaller."""
    if not isinstance(top, tree.Number) or not isinstance(bottom, tree.Number):
        return False
    if top.decimal or bottom.decimal:
        return False
    return fmpq(0) < top.value < bottom.value


def transpose(node: tree.Grid | tree.Listing) -> tree.Grid:
    """Return a matrix with rows and columns exchanged. A list in brackets is one row."""
    rows = node.rows if isinstance(node, tree.Grid) else (node.items,)
    return tree.Grid(tuple(zip(*rows, strict=True)))


def attach_unit(value: tree.Node, unit: str) -> tree.Node:
    """Return a value with the unit or the words behind it.

    Words may also multiply the value: `5 million dollars` are 5,000,000 dollars, and `5 twelfths`
    are 5/12. Raises `UnreadableError` for words that may change it in another way.
    """
    denominator = 10_000 if unit.lower() in BASIS_POINTS else PARTS.get(unit.lower())
    if denominator is not None and (unit.endswith("s") or value == tree.ONE):
        return _multiply_by_number(value, fmpq(1, denominator))
    first_word, _, other_words = unit.partition(" ")
    scale = SCALES.get(first_word.lower())
    if scale is not None:
        unit = other_words
    if unit and unit not in ORDINALS and not is_unit_or_label(unit):
        raise UnreadableError(f"the words {unit!r} may make another number of it")
    if scale is not None:
        value = _multiply_by_number(value, fmpq(scale))
    if not unit:
        return value
    return tree.Quantity(value, unit)


def _multiply_by_number(node: tree.Node, factor: fmpq) -> tree.Node:
    """Multiply by a number, and compute the product if the node is a number too."""
    if isinstance(node, tree.Number):
        value = node.value * factor
        return tree.Number(value, decimal=node.decimal and value.q != 1)
    return tree.Product((node, tree.Number(factor)))


def make_tuple_or_interval(items: tuple[tree.Node, ...], opening: str, closing: str) -> tree.Node:
    """Return what several items in brackets are: an interval, a tuple, a list, or a matrix.

    `(1, 2]` is an interval. `(1, 2)` and `[1, 2]` may be intervals too: they are returned as lists,
    and read as intervals where they are compared with one.
    """
    is_half_open = (opening == "[") != (closing == "]")
    if len(items) == 2 and is_half_open:
        low, high = items
        return tree.Range(low, high, low_open=opening == "(", high_open=closing == ")")
    if (opening == "(") != (closing == ")"):
        raise UnreadableError(f"the brackets {opening}…{closing} hold {len(items)} parts")
    if opening == "(":
        return tree.Listing("round", items)
    rows: list[tuple[tree.Node, ...]] = []
    for item in items:
        if isinstance(item, tree.Listing) and item.kind == "square":
            rows.append(item.items)
    have_same_length = len({len(row) for row in rows}) == 1
    if len(rows) == len(items) and have_same_length:
        return tree.Grid(tuple(rows))
    return tree.Listing("square", items)


def make_cases(rows: list[tuple[tree.Node, ...]]) -> tree.Node:
    """Return the rows of a `cases` environment.

    Rows of one cell are statements that hold at once. Rows of several cells are values with their
    conditions, which are returned as a set.
    """
    if len(rows[0]) == 1:
        return tree.Listing("bare", tuple(statement for (statement,) in rows))
    return tree.Listing("set", tuple(tree.Listing("round", row) for row in rows))


def expand_determinant(rows: Sequence[tuple[tree.Node, ...]]) -> tree.Node:
    """Expand a determinant along its first row."""
    if len(rows) != len(rows[0]) or len(rows) > _MAX_DETERMINANT:
        raise UnreadableError(f"a determinant of {len(rows)} by {len(rows[0])}")
    if len(rows) == 1:
        return rows[0][0]
    terms: list[tree.Node] = []
    for column, cell in enumerate(rows[0]):
        minor = [row[:column] + row[column + 1 :] for row in rows[1:]]
        term = tree.Product((cell, expand_determinant(minor)))
        terms.append(tree.negate(term) if column % 2 == 1 else term)
    return tree.Sum(tuple(terms))


def apply_function(
    name: str, arguments: tuple[tree.Node, ...], base: tree.Node | None
) -> tree.Node:
    """Return a function of its arguments. Raises `UnreadableError` if it does not take these.

    `base` is the subscript of a logarithm, None if it has none.
    """
    is_logarithm = name in ("ln", "log", "lg")
    if base is not None and not is_logarithm:
        raise UnreadableError(f"{name} takes no subscript")
    if name in ("max", "min", "gcd", "lcm"):
        return tree.Apply(name, arguments)
    if name == "log" and base is None and len(arguments) == 2:
        return tree.Apply(name, arguments)
    if len(arguments) != 1:
        raise UnreadableError(f"{name} takes one argument, not {len(arguments)}")
    (argument,) = arguments
    if is_logarithm:
        if base is None:
            base = tree.Constant("e") if name == "ln" else tree.Number(fmpq(10))
        return tree.Apply("log", (argument, base))
    if name == "exp":
        return tree.Power(tree.Constant("e"), argument)
    return tree.Apply(name, (argument,))
