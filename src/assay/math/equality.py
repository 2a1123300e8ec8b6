"""Compare two trees by the rules of their kinds: numbers, lists, sets, equations, matrices, words."""

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, TypeAlias, TypeGuard

from assay.math import tree
from assay.math.balls import TooLargeError
from assay.math.number_sets import compare_sets, is_set, read_as_interval
from assay.math.relations import compare_relations
from assay.math.rewriting import rewrite_alike
from assay.math.values import compare_constants, compare_quantities, has_value, is_nonzero
from assay.math.verdict import SAME, Equality, MathOptions, combine, different, undecided

_EQUAL_AS_SETS: Final = Equality(True, "equal as sets")


def compare(gold: tree.Node, answer: tree.Node, options: MathOptions) -> Equality:
    """Compare two trees of any kind."""
    if gold == answer:
        return SAME
    if isinstance(gold, tree.Number) and isinstance(answer, tree.Number):
        return compare_constants(gold, answer, options)  # first, since most members of lists are
    if tree.is_equation(answer) and not tree.is_equation(gold) and _is_false(answer, options):
        return different("the answer is an equation that does not hold")

    gold = _put_name_first(gold)
    answer = _put_name_first(answer)
    gold, answer = rewrite_alike(gold, answer, options)
    answer = _unify_constant_of_integration(gold, answer)
    if gold == answer:
        return SAME
    if isinstance(gold, tree.Words) or isinstance(answer, tree.Words):
        return _compare_words(gold, answer)

    gold = _compute_matrix(gold)
    answer = _compute_matrix(answer)
    if isinstance(gold, tree.Grid) or isinstance(answer, tree.Grid):
        return _compare_matrices(gold, answer, options)
    if is_set(gold) or is_set(answer):
        return _compare_as_sets(gold, answer, options)
    if isinstance(gold, tree.Listing) or isinstance(answer, tree.Listing):
        return _compare_lists(gold, answer, options)
    if tree.is_assignment(gold) and tree.is_assignment(answer):
        equality = _compare_definitions(gold, answer, options)
        if equality is not None:
            return equality
    if isinstance(gold, tree.Relation) or isinstance(answer, tree.Relation):
        return compare_relations(gold, answer)
    return compare_quantities(gold, answer, options)


def _is_false(equation: tree.Relation, options: MathOptions) -> bool:
    """Return True if an equation is certainly false.

    Two of its sides are different numbers (`8 = 7`), or one has no value (`0/0 = 7`).
    """
    numbers: list[tree.Node] = []
    for side in equation.sides:
        if not tree.find_symbols(side) and not isinstance(side, tree.Words | tree.Listing):
            numbers.append(side)
    for number in numbers[:-1]:
        if compare_quantities(number, numbers[-1], options).equal is False:
            return True
    return any(_lacks_value(number) for number in numbers)


def _lacks_value(number: tree.Node) -> bool:
    """Return True if an expression without variables has no value, such as `0/0`."""
    try:
        return tree.is_value(number) and not has_value(number)
    except TooLargeError:
        return False


def _put_name_first(node: tree.Node) -> tree.Node:
    """Return `5 = x` as `x = 5`, and anything else as it is."""
    match node:
        case tree.Relation((value, tree.Symbol() as name), ("=",)) if not tree.find_symbols(value):
            return tree.Relation((name, value), ("=",))
        case _:
            return node


# Constants of integration.

_CONSTANTS_OF_INTEGRATION: Final = frozenset("CcKk")


def _unify_constant_of_integration(gold: tree.Node, answer: tree.Node) -> tree.Node:
    """Return the answer with the gold's name for the constant of integration: `+ C` for `+ c`."""
    gold_name = _find_constant_of_integration(gold)
    answer_name = _find_constant_of_integration(answer)
    if gold_name is None or answer_name is None or gold_name in tree.find_symbols(answer):
        return answer
    return tree.substitute(answer, tree.Symbol(answer_name), tree.Symbol(gold_name))


def _find_constant_of_integration(node: tree.Node) -> str | None:
    """Return the name of an expression's constant of integration, such as C; None if it has none.

    It is a letter that is usual for it, is added to the rest, and occurs nowhere else in it.
    """
    if not isinstance(node, tree.Sum):
        return None
    has_other_variables = len(tree.find_symbols(node)) > 1
    for term in node.terms:
        if not isinstance(term, tree.Symbol) or term.name not in _CONSTANTS_OF_INTEGRATION:
            continue
        others = [other for other in node.terms if other is not term]
        is_only_added = all(term.name not in tree.find_symbols(other) for other in others)
        if is_only_added and has_other_variables:
            return term.name
    return None


# Words.

_BETWEEN_WORDS: Final = re.compile(r"[\s,;]+|(?<=\w)-(?=\w)")
_PUNCTUATION: Final = re.compile(r"[.:!?'\"]")
# It is searched for after punctuation is removed, which makes `its` of `it's`.
_INTRODUCTION: Final = re.compile(
    r"^(?:(?:so |thus |therefore )?(?:the (?:final |correct )?answer|it) is |its |on )?"
    r"(?:(?:an?|the) )?(?=\w\w)"
)


def _compare_words(gold: tree.Node, answer: tree.Node) -> Equality:
    """Compare two sides of which at least one is words."""
    if isinstance(gold, tree.Words) and isinstance(answer, tree.Words):
        gold_words = _normalize_words(gold.text)
        if gold_words and gold_words == _normalize_words(answer.text):
            return Equality(True, f"equal as words: {gold.text}")
        return different(f"different words: {gold.text!r} and {answer.text!r}")
    if isinstance(gold, tree.Words):
        return _compare_words_with_mathematics(gold.text, answer)
    assert isinstance(answer, tree.Words)
    return _compare_words_with_mathematics(answer.text, gold)


def _normalize_words(text: str) -> str:
    """Return words without punctuation and without an introduction such as `the answer is`."""
    text = _BETWEEN_WORDS.sub(" ", text)
    text = _PUNCTUATION.sub("", text)
    return _INTRODUCTION.sub("", text.strip())


def _compare_words_with_mathematics(text: str, other: tree.Node) -> Equality:
    """Compare words with an expression. They are only equal to a variable of that name."""
    if isinstance(other, tree.Symbol) and other.name.lower() in (text, text.strip("(). ")):
        return Equality(True, f"equal as words: {text}")
    return different(f"one is words ({text!r}), the other mathematics")


# Sets and intervals.


def _compare_as_sets(gold: tree.Node, answer: tree.Node, options: MathOptions) -> Equality:
    """Compare two sides of which at least one is a set of numbers, or a condition for one."""
    if isinstance(gold, tree.Relation) and isinstance(answer, tree.Relation):
        equality = compare_relations(gold, answer)
        if equality.equal is not None:
            return equality
    if isinstance(answer, tree.Range):
        gold = read_as_interval(gold)
    if isinstance(gold, tree.Range):
        answer = read_as_interval(answer)
    if isinstance(gold, tree.Range) and isinstance(answer, tree.Range):
        return _compare_intervals(gold, answer, options)
    empty_set = tree.NamedSet("empty")
    has_members = isinstance(gold, tree.Listing | tree.Number) or isinstance(
        answer, tree.Listing | tree.Number
    )
    if has_members and empty_set in (gold, answer):
        return different("one set is empty")
    equality = compare_sets(gold, answer)
    are_lists = isinstance(gold, tree.Listing) and isinstance(answer, tree.Listing)
    if equality.equal is None and are_lists:
        return _compare_lists(gold, answer, options)
    return equality


def _compare_intervals(gold: tree.Range, answer: tree.Range, options: MathOptions) -> Equality:
    """Compare two intervals by their ends, and by whether these belong to them."""
    if (gold.low_open, gold.high_open) != (answer.low_open, answer.high_open):
        return different("one interval has an end that the other leaves out")
    lows = compare(gold.low, answer.low, options)
    highs = compare(gold.high, answer.high, options)
    return combine([lows, highs], kind="intervals")


# Definitions.


def _compare_definitions(
    gold: tree.Relation, answer: tree.Relation, options: MathOptions
) -> Equality | None:
    """Compare definitions such as `f(x) = 2x` and `f(z) = 2z` by what they say of the same name.

    None if they name different things, or if a name is part of its own definition.
    """
    answer = _rename_arguments(gold, answer)
    gold_name = gold.sides[0]
    answer_name = answer.sides[0]
    gold_rule = gold.sides[-1]
    answer_rule = answer.sides[-1]
    if _is_function_and_graph(gold_name, gold_rule, answer_name, answer_rule):
        return compare(gold_rule, answer_rule, options)
    if gold_name != answer_name:
        return None
    is_function = isinstance(gold_name, tree.Apply)
    names_in_rule = tree.find_symbols(gold_name) & tree.find_symbols(gold_rule)
    if names_in_rule and not is_function:
        return None
    return compare(gold_rule, answer_rule, options)


def _rename_arguments(gold: tree.Relation, answer: tree.Relation) -> tree.Relation:
    """Return the answer's definition with the gold's names of arguments: `f(z) = 2z` as `f(x) = 2x`."""
    gold_name = gold.sides[0]
    answer_name = answer.sides[0]
    if not isinstance(gold_name, tree.Apply) or not isinstance(answer_name, tree.Apply):
        return answer
    if gold_name.function != answer_name.function:
        return answer
    new_names: dict[str, str] = {}
    for gold_argument, answer_argument in zip(
        gold_name.arguments, answer_name.arguments, strict=False
    ):
        if isinstance(gold_argument, tree.Symbol) and isinstance(answer_argument, tree.Symbol):
            new_names[answer_argument.name] = gold_argument.name
    sides: list[tree.Node] = []
    for side in answer.sides:
        sides.append(tree.rename_symbols(side, lambda name: new_names.get(name, name)))
    return tree.Relation(tuple(sides), answer.operators)


def _is_function_and_graph(
    gold_name: tree.Node, gold_rule: tree.Node, answer_name: tree.Node, answer_rule: tree.Node
) -> bool:
    """Return True if one defines a function of x and the other its graph: `f(x) = …` and `y = …`."""
    x = tree.Symbol("x")
    y = tree.Symbol("y")
    if "y" in tree.find_symbols(gold_rule) | tree.find_symbols(answer_rule):
        return False
    if gold_name == y:
        function = answer_name
    elif answer_name == y:
        function = gold_name
    else:
        return False
    return isinstance(function, tree.Apply) and function.arguments == (x,)


# Lists: tuples, sets, ratios, and several answers without brackets.

_Compare: TypeAlias = Callable[[tree.Node, tree.Node], Equality]  # how items are compared

_MAX_ITEMS: Final = 40


def _compare_lists(gold: tree.Node, answer: tree.Node, options: MathOptions) -> Equality:
    """Compare two answers of which at least one is a list.

    Tuples are compared in order, sets and lists without brackets in any order. The gold's kind
    decides. Values with different names (`a = 1, b = 2`) have an order too: that of the names.
    """
    kinds = {_get_kind(gold), _get_kind(answer)}
    if "ratio" in kinds:
        return _compare_ratios(gold, answer, options)
    gold_items = _get_items(gold)
    answer_items = _get_items(answer)
    if not gold_items or not answer_items:
        return different("a list without parts has no value")

    # Anything that is not a list is compared as a list of one item.
    are_lists = isinstance(gold, tree.Listing) and isinstance(answer, tree.Listing)
    compare_items = partial(_compare_items if are_lists else compare, options=options)
    if len(gold_items) != len(answer_items):
        if kinds <= {"bare", "set", ""}:  # empty for anything that is not a list
            return _compare_repetitions(gold_items, answer_items, compare_items)
        return different(f"{len(gold_items)} parts and {len(answer_items)} parts")
    if len(gold_items) > _MAX_ITEMS:
        return undecided("very long lists")
    conflict = _find_conflict_of_kinds(gold, answer, options)
    if conflict is not None:
        return conflict
    if _are_ordered(gold, answer, options):
        return _compare_in_order(gold, answer, compare_items)
    return _compare_in_any_order(gold_items, answer_items, compare_items)


def _compare_items(gold: tree.Node, answer: tree.Node, options: MathOptions) -> Equality:
    """Compare items of two lists. `{3}` equals 3 as an answer, but {{3}, 4} is not {3, 4}."""
    is_only_one_set = (_get_kind(gold) == "set") != (_get_kind(answer) == "set")
    if is_only_one_set:
        return different("only one is a set")
    return compare(gold, answer, options)


def _are_ordered(gold: tree.Node, answer: tree.Node, options: MathOptions) -> bool:
    """Return True if the order of two lists of the same length counts."""
    has_only_gold_labels = _has_labels(gold) and not _has_labels(answer)
    is_tuple = _get_kind(gold) in ("round", "square")
    return has_only_gold_labels or (is_tuple and options.ordered_tuples)


def _compare_in_order(gold: tree.Node, answer: tree.Node, compare_items: _Compare) -> Equality:
    """Compare two lists item by item, those with names in the order of a point's coordinates."""
    gold_items = _get_items(gold)
    answer_items = _get_items(answer)
    if _get_kind(gold) == "round" and _has_labels(answer):
        answer_items = _sort_by_name(answer)
    elif _get_kind(answer) == "round" and _has_labels(gold):
        gold_items = _sort_by_name(gold)
    findings: list[Equality] = []
    for gold_item, answer_item in zip(gold_items, answer_items, strict=True):
        findings.append(compare_items(gold_item, answer_item))
    return combine(findings, kind="lists")


def _find_conflict_of_kinds(
    gold: tree.Node, answer: tree.Node, options: MathOptions
) -> Equality | None:
    """Compare two lists of equal length by their kinds; None if the items have to be compared.

    The kinds are `set`, `round` and `square` (in such brackets), and `bare` (without brackets). A
    set and a point, for example, are different whatever their items are.
    """
    gold_kind = _get_kind(gold)
    answer_kind = _get_kind(answer)
    kinds = {gold_kind, answer_kind}
    is_pair = len(_get_items(gold)) == 2
    if _is_unordered(gold) and _is_point_or_interval(answer):
        return different("one is a set of numbers, the other a point or an interval")
    if is_pair and kinds == {"square", "round"}:
        return different("one interval has its ends, the other has not")
    if _has_labels(gold) and _has_labels(answer):
        is_only_one_choice = (gold.joined == "or") != (answer.joined == "or")
        if is_only_one_choice:
            return different("one holds for all its parts, the other for one of them")
    has_labels = _has_labels(gold) or _has_labels(answer)
    if is_pair and kinds == {"square", "bare"} and not has_labels:
        return undecided("an interval or a list")
    is_ordered = options.ordered_tuples and gold_kind in ("round", "square")
    if is_ordered and _is_unordered(answer):
        return different("the gold has an order, and the answer has none")
    return None


def _get_kind(node: tree.Node) -> str:
    """Return the kind of a list; empty for anything else."""
    return node.kind if isinstance(node, tree.Listing) else ""


def _get_items(node: tree.Node) -> tuple[tree.Node, ...]:
    """Return the items of a list; anything else is its own only item."""
    return node.items if isinstance(node, tree.Listing) else (node,)


def _is_unordered(node: tree.Node) -> bool:
    """Return True for a set, and for several values of one thing."""
    return _get_kind(node) == "set" or _is_choice(node)


def _is_choice(node: tree.Node) -> bool:
    """Return True if a list states several values of one thing: `1 or 2`, `x = 1, x = 2`."""
    if not isinstance(node, tree.Listing) or node.kind != "bare":
        return False
    if node.joined == "or":
        return True
    if not all(tree.is_assignment(item) for item in node.items):
        return False
    return len(_list_names(node)) == 1


def _is_point_or_interval(node: tree.Node) -> bool:
    """Return True for two values in brackets: `(0, 1)` and `[0, 1]`, but not `((1, 2), (3, 4))`."""
    if not isinstance(node, tree.Listing) or node.kind not in ("round", "square"):
        return False
    return len(node.items) == 2 and not any(isinstance(item, tree.Listing) for item in node.items)


def _has_labels(node: tree.Node) -> TypeGuard[tree.Listing]:
    """Return True if all items of a list have names, and different ones: `a = 1, b = 2`."""
    if not isinstance(node, tree.Listing):
        return False
    return len(_list_names(node)) == len(node.items)


def _list_names(node: tree.Listing) -> set[tree.Node]:
    """Return the left sides of those items of a list that are `name = value`."""
    return {item.sides[0] for item in node.items if tree.is_assignment(item)}


def _sort_by_name(node: tree.Listing) -> tuple[tree.Node, ...]:
    """Return labelled items in the order of coordinates: `y = 2, x = 1` as `x = 1, y = 2`.

    Items with longer names, such as `f(x)`, stay in their order.
    """
    if not all(isinstance(name, tree.Symbol) for name in _list_names(node)):
        return node.items
    return tuple(sorted(node.items, key=lambda item: str(tree.children(item)[0])))


def _compare_in_any_order(
    gold_items: Sequence[tree.Node], answer_items: Sequence[tree.Node], compare_items: _Compare
) -> Equality:
    """Compare two lists of equal length by finding an equal item for each item of the gold.

    An item of the answer is used only once.
    """
    remaining = list(answer_items)
    is_undecided = False
    for gold_item in gold_items:
        findings = [compare_items(gold_item, answer_item) for answer_item in remaining]
        index = _find_equal(findings)
        if index is not None:
            del remaining[index]
        elif any(finding.equal is None for finding in findings):
            is_undecided = True
        else:
            return different("a part of one list has no equal in the other")
    if is_undecided:
        return undecided("parts of the lists are undecided")
    return _EQUAL_AS_SETS


def _find_equal(findings: Sequence[Equality]) -> int | None:
    """Return the index of the first pair that is equal, or None."""
    for index, finding in enumerate(findings):
        if finding.equal:
            return index
    return None


def _compare_repetitions(
    gold_items: Sequence[tree.Node], answer_items: Sequence[tree.Node], compare_items: _Compare
) -> Equality:
    """Compare lists of different lengths, which are equal as sets if one only repeats items."""
    if len(gold_items) * len(answer_items) > _MAX_ITEMS**2 / 4:
        return undecided("very long lists")
    unequal = different(f"{len(gold_items)} parts and {len(answer_items)} parts")
    for gold_item in gold_items:
        findings = [compare_items(gold_item, answer_item) for answer_item in answer_items]
        if _find_equal(findings) is None:
            return _choose_undecided(findings, unequal)
    for answer_item in answer_items:
        findings = [compare_items(gold_item, answer_item) for gold_item in gold_items]
        if _find_equal(findings) is None:
            return _choose_undecided(findings, unequal)
    return _EQUAL_AS_SETS


def _choose_undecided(findings: Sequence[Equality], unequal: Equality) -> Equality:
    """Return `unequal`, or that the lists are undecided if the comparison of some items is."""
    if any(finding.equal is None for finding in findings):
        return undecided("parts of the lists are undecided")
    return unequal


# Ratios.


def _compare_ratios(gold: tree.Node, answer: tree.Node, options: MathOptions) -> Equality:
    """Compare two sides of which at least one is a ratio. Multiples of a ratio are equal to it."""
    for side in (gold, answer):
        if isinstance(side, tree.Listing) and side.kind != "ratio":
            return different("only one is a ratio")
    gold_terms = _get_terms(gold)
    answer_terms = _get_terms(answer)
    if len(gold_terms) != len(answer_terms):
        return different(f"ratios of {len(gold_terms)} and {len(answer_terms)} parts")
    # Terms are compared in proportion to one that is not 0 in either ratio.
    # If there is none, such as in 0:0, a product of terms is 0 whatever the other factor is.
    index = _find_nonzero(gold_terms)
    if index is None or index != _find_nonzero(answer_terms):
        return different("a ratio has no value, or only one has a term that is 0")
    findings: list[Equality] = []
    for number, (gold_term, answer_term) in enumerate(zip(gold_terms, answer_terms, strict=True)):
        if number != index:
            left = tree.Product((gold_term, answer_terms[index]))
            right = tree.Product((answer_term, gold_terms[index]))
            findings.append(compare(left, right, options))
    return combine(findings, kind="ratios")


def _get_terms(node: tree.Node) -> tuple[tree.Node, ...]:
    """Return the terms of a ratio. A fraction has two, and a number n is n:1."""
    if isinstance(node, tree.Listing):
        return node.items
    if isinstance(node, tree.Quotient):
        return node.top, node.bottom
    return node, tree.ONE


def _find_nonzero(terms: Sequence[tree.Node]) -> int | None:
    """Return the index of a term of a ratio that is provably not 0: of several, the last.

    None if there is none, or if the ratio divides by 0, as 3:0 does.
    """
    try:
        nonzero = [index for index, term in enumerate(terms) if is_nonzero(term)]
    except TooLargeError:
        return None
    if not nonzero:
        return None
    last = nonzero[-1]
    is_division_by_zero = len(terms) == 2 and last == 0  # such as 3:0
    return None if is_division_by_zero else last


# Matrices.


def _compute_matrix(node: tree.Node) -> tree.Node:
    """Return a multiple of a matrix, or a sum of matrices, as one matrix; the rest as it is."""
    match node:
        case tree.Sum(terms):
            return _add_matrices(node, terms)
        case tree.Product(factors):
            return _multiply_matrix(node, factors)
        case _:
            return node


def _add_matrices(node: tree.Sum, terms: tuple[tree.Node, ...]) -> tree.Node:
    """Return a sum of matrices of one shape as a matrix, and any other sum as it is."""
    matrices = [_compute_matrix(term) for term in terms]
    if not all(isinstance(matrix, tree.Grid) for matrix in matrices):
        return node
    shapes = {_get_shape(matrix) for matrix in matrices}
    if len(shapes) != 1:
        return node
    sums: list[tree.Node] = []
    for cells in zip(
        *map(tree.children, matrices), strict=True
    ):  # in the same place of each matrix
        sums.append(tree.Sum(cells))
    return tree.rebuild(matrices[0], tuple(sums))


def _multiply_matrix(node: tree.Product, factors: tuple[tree.Node, ...]) -> tree.Node:
    """Return a matrix times other factors as a matrix, and any other product as it is."""
    matrices = [factor for factor in factors if isinstance(factor, tree.Grid)]
    if len(matrices) != 1:
        return node
    matrix = matrices[0]
    scalars = tuple(factor for factor in factors if factor is not matrix)
    cells = tuple(tree.Product((*scalars, cell)) for cell in tree.children(matrix))
    return tree.rebuild(matrix, cells)


def _compare_matrices(gold: tree.Node, answer: tree.Node, options: MathOptions) -> Equality:
    """Compare two answers of which at least one is a matrix, cell by cell.

    A matrix with a single row or column also equals the tuple of its cells.
    """
    if isinstance(gold, tree.Grid):
        matrix, other = gold, answer
    else:
        matrix, other = answer, gold
    if isinstance(other, tree.Grid):
        if _get_shape(matrix) != _get_shape(other):
            return different(f"matrices of {_get_shape(gold)} and {_get_shape(answer)} cells")
    elif not isinstance(other, tree.Listing) or other.kind not in ("round", "square"):
        if isinstance(other, tree.Number | tree.Listing | tree.Symbol):
            return different("only one is a matrix")
        return undecided("a matrix against something else")
    elif 1 not in _get_shape(matrix):
        return different("a matrix of several rows and columns is not a tuple")
    gold_cells = tree.children(gold)
    answer_cells = tree.children(answer)
    if len(gold_cells) != len(answer_cells):
        return different(f"{len(gold_cells)} and {len(answer_cells)} cells")
    findings = [
        compare(gold_cell, answer_cell, options)
        for gold_cell, answer_cell in zip(gold_cells, answer_cells, strict=True)
    ]
    return combine(findings, kind="matrices")


def _get_shape(node: tree.Node) -> tuple[int, int]:
    """Return the numbers of rows and columns. A tuple is a column."""
    if isinstance(node, tree.Grid):
        return len(node.rows), len(node.rows[0])
    return len(tree.children(node)), 1
