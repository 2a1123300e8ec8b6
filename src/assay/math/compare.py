"""Comparing two answers by their kinds: numbers, lists, sets, equations, matrices, words."""

from assay.math.equations import compare_relations
from assay.math.finding import SAME, Finding, all_of, different, undecided
from assay.math.listings import compare_grids, compare_listings
from assay.math.options import MathOptions
from assay.math.quantities import compare_quantities
from assay.math.rewriting import is_assignment, renamed, rewritten
from assay.math.sets import compare_sets, is_set
from assay.math.tree import (
    Apply,
    Grid,
    Listing,
    NamedSet,
    Node,
    Number,
    Quantity,
    Range,
    Relation,
    Symbol,
    Words,
    symbols_of,
)


def compare(gold: Node, answer: Node, options: MathOptions) -> Finding:
    """Whether two trees are the same answer."""
    if gold == answer:
        return SAME
    gold, answer = rewritten(gold, answer, options)
    if gold == answer:
        return SAME

    def parts(one: Node, two: Node) -> Finding:
        return compare(one, two, options)

    if isinstance(gold, Words) or isinstance(answer, Words):
        return _compare_words(gold, answer)
    if isinstance(gold, Grid) or isinstance(answer, Grid):
        return compare_grids(gold, answer, parts)
    if is_set(gold) or is_set(answer):
        return _compare_as_sets(gold, answer, options)
    if isinstance(gold, Listing) or isinstance(answer, Listing):
        return compare_listings(gold, answer, options, parts)
    if isinstance(gold, Relation) or isinstance(answer, Relation):
        return _compare_equations(gold, answer, options)
    return compare_quantities(gold, answer, options)


def _compare_words(gold: Node, answer: Node) -> Finding:
    if isinstance(gold, Words) and isinstance(answer, Words):
        if _bare(gold.text) == _bare(answer.text):
            return Finding(True, f"equal as words: {gold.text}")
        return different(f"different words: {gold.text!r} and {answer.text!r}")
    words, other = (gold.text, answer) if isinstance(gold, Words) else ("", gold)
    if isinstance(answer, Words):
        words = answer.text
    if isinstance(other, Symbol) and other.name.lower() == words:
        return Finding(True, f"equal as words: {words}")
    if isinstance(other, Quantity):
        return undecided("words, and a value with words")
    return different(f"one is words ({words!r}), the other mathematics")


def _bare(text: str) -> str:
    return "".join(character for character in text if character.isalnum())


def _compare_as_sets(gold: Node, answer: Node, options: MathOptions) -> Finding:
    if isinstance(gold, Relation) and isinstance(answer, Relation):
        found = compare_relations(gold, answer)
        if found.equal is not None:
            return found
    gold, answer = _as_interval(gold, answer), _as_interval(answer, gold)
    if isinstance(gold, Range) and isinstance(answer, Range):
        if (gold.low_open, gold.high_open) != (answer.low_open, answer.high_open):
            return different("one interval has an end that the other leaves out")
        ends = [compare(gold.low, answer.low, options), compare(gold.high, answer.high, options)]
        return all_of(ends, as_what="intervals")
    for one, two in ((gold, answer), (answer, gold)):
        if one == NamedSet("empty") and isinstance(two, Listing | Number):
            return different("one set is empty")
    found = compare_sets(gold, answer)
    if found.equal is None and isinstance(gold, Listing) and isinstance(answer, Listing):
        return compare_listings(gold, answer, options, lambda one, two: compare(one, two, options))
    return found


def _as_interval(node: Node, other: Node) -> Node:
    """`(a, b)` beside an interval is one too."""
    if isinstance(other, Range) and isinstance(node, Listing) and len(node.items) == 2:
        is_open = node.kind == "round"
        if is_open or node.kind == "square":
            return Range(node.items[0], node.items[1], is_open, is_open)
    return node


def _compare_equations(gold: Node, answer: Node, options: MathOptions) -> Finding:
    if is_assignment(gold) and is_assignment(answer):
        found = _compare_definitions(gold, answer, options)
        if found is not None:
            return found
    return compare_relations(gold, answer)


def _compare_definitions(gold: Relation, answer: Relation, options: MathOptions) -> Finding | None:
    """`f(x) = …` against `f(z) = …`: the same name, and the same rule for it."""
    name, other = gold.sides[0], answer.sides[0]
    if isinstance(name, Apply) and isinstance(other, Apply) and name.function == other.function:
        names = {
            theirs.name: ours.name
            for ours, theirs in zip(name.arguments, other.arguments, strict=False)
            if isinstance(ours, Symbol) and isinstance(theirs, Symbol)
        }
        renamed_sides = (renamed(side, lambda one: names.get(one, one)) for side in answer.sides)
        answer = Relation(tuple(renamed_sides), answer.operators)
        other = answer.sides[0]
    arguments = symbols_of(name) if isinstance(name, Apply) else set[str]()
    if name != other or symbols_of(name) & symbols_of(gold.sides[-1]) - arguments:
        return None
    return compare(gold.sides[-1], answer.sides[-1], options)
