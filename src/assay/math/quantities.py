"""Values with units, and numerals in other bases."""

from flint import fmpq

from assay.math.finding import Finding, different, undecided
from assay.math.numbers import compare_constants, compare_values
from assay.math.options import MathOptions
from assay.math.tree import Based, Node, Number, Product, Quantity, symbols_of
from assay.math.units import unit_of


def compare_quantities(gold: Node, answer: Node, options: MathOptions) -> Finding:
    """Values with their units: converted where both are known, ignored where one has none."""
    if isinstance(gold, Based) or isinstance(answer, Based):
        return _compare_based(gold, answer, options)
    one, two = _unit(gold), _unit(answer)
    if one is None and two is None:
        return compare_values(gold, answer, options)
    left, right = _value(gold), _value(answer)
    if not options.units and one != two:
        return different("only one has a unit, or the units differ")
    if one is not None and two is not None and one != two:
        return _compare_converted((left, one), (right, two), options)
    if "degree" in (one, two) and one != two:
        found = compare_values(gold, answer, options)
        if found.equal:
            return found
    return compare_values(left, right, options)


def _unit(node: Node) -> str | None:
    return node.unit if isinstance(node, Quantity) else None


def _value(node: Node) -> Node:
    return node.value if isinstance(node, Quantity) else node


def _compare_converted(
    one: tuple[Node, str], two: tuple[Node, str], options: MathOptions
) -> Finding:
    (left, unit), (right, other) = one, two
    first, second = unit_of(unit), unit_of(other)
    if first is None or second is None:
        if symbols_of(left) or symbols_of(right):
            return undecided(f"{unit!r} and {other!r} may not mean the same")
        return compare_values(left, right, options)
    if first.dimensions != second.dimensions:
        return different(f"different units: {unit} and {other}")
    if first.factor == second.factor:
        return compare_values(left, right, options)
    left, right = Product((left, Number(first.factor))), Product((right, Number(second.factor)))
    return compare_values(left, right, options)


def _compare_based(gold: Node, answer: Node, options: MathOptions) -> Finding:
    """Numerals in a base; one without a base is read in the other's."""
    if isinstance(gold, Based) and isinstance(answer, Based) and gold.base != answer.base:
        try:
            values = [Number(fmpq(int(side.digits, side.base))) for side in (gold, answer)]
        except ValueError:
            return undecided("a digit that its base has not")
        return compare_constants(values[0], values[1], options)
    one, two = _digits(gold), _digits(answer)
    if one is None or two is None:
        return undecided("a numeral in another base against something else")
    if one == two:
        return Finding(True, "equal as numerals")
    return different(f"different numerals: {one} and {two}")


def _digits(node: Node) -> str | None:
    if isinstance(node, Based):
        return node.digits.lstrip("0")
    return str(node.value) if isinstance(node, Number) and node.value.q == 1 else None
