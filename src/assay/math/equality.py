"""Compare two trees by their kinds: numbers, lists, sets, equations, matrices, words."""

import re
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias, TypeGuard

from assay.math import tree
from assay.math.balls import TooLargeError
from assay.math.number_sets import compare_sets, is_set
from assay.math.relations import compare_relations
from assay.math.rewriting import rewrite_alike
from assay.math.values import compare_constants, compare_quantities, has_value, is_nonzero
from assay.math.verdict import SAME, Equality, MathOptions, all_of, different, undecided


def compare(gold: tree.Node, answer: tree.Node, options: MathOptions) -> Equality:
    if gold == answer:
        return SAME
    if isinstance(gold, tree.Number) and isinstance(
        answer, tree.Number
    ):  # as most members of lists are
        return compare_constants(gold, answer, options)
    if tree.is_equation(answer) and not tree.is_equation(gold) and _is_false(answer, options):
        return different("the answer is an equation that does not hold")
    gold, answer = _with_name_first(gold), _with_name_first(answer)
    gold, answer = rewrite_alike(gold, answer, options)
    answer = _with_constant_of(gold, answer)
    if gold == answer:
        return SAME
    if isinstance(gold, tree.Words) or isinstance(answer, tree.Words):
        return _compare_words(gold, answer)
    gold, answer = _multiplied_out(gold), _multiplied_out(answer)
    if isinstance(gold, tree.Grid) or isinstance(answer, tree.Grid):
        return compare_grids(gold, answer, options)
    if is_set(gold) or is_set(answer):
        return _compare_as_sets(gold, answer, options)
    if isinstance(gold, tree.Listing) or isinstance(answer, tree.Listing):
        return compare_listings(gold, answer, options)
    if tree.is_assignment(gold) and tree.is_assignment(answer):
        found = _compare_definitions(gold, answer, options)
        if found is not None:
            return found
    if isinstance(gold, tree.Relation) or isinstance(answer, tree.Relation):
        return compare_relations(gold, answer)
    return compare_quantities(gold, answer, options)


def _with_name_first(node: tree.Node) -> tree.Node:
    """Return `5 = x` as `x = 5`, and anything else as it is."""
    match node:
        case tree.Relation((value, tree.Symbol() as name), ("=",)) if not tree.find_symbols(value):
            return tree.Relation((name, value), ("=",))
        case _:
            return node


_CONSTANTS_OF_INTEGRATION: Final = frozenset("CcKk")


def _with_constant_of(gold: tree.Node, answer: tree.Node) -> tree.Node:
    """Return the answer with the gold's name for the constant of integration: `+ c` for `+ C`."""
    name = _find_constant_of_integration(gold)
    other = _find_constant_of_integration(answer)
    if name is None or other is None or name == other or name in tree.find_symbols(answer):
        return answer
    return tree.rename_symbols(answer, lambda symbol: name if symbol == other else symbol)


def _find_constant_of_integration(node: tree.Node) -> str | None:
    """Return the name of a constant that is added to an expression, and is nowhere else in it."""
    if not isinstance(node, tree.Sum):
        return None
    names = tree.find_symbols(node)
    for term in node.terms:
        if not isinstance(term, tree.Symbol) or term.name not in _CONSTANTS_OF_INTEGRATION:
            continue
        others = [other for other in node.terms if other is not term]
        is_added_only = all(term.name not in tree.find_symbols(other) for other in others)
        if is_added_only and len(names) > 1:
            return term.name
    return None


def _is_false(equation: tree.Relation, options: MathOptions) -> bool:
    """Return True if two sides of a chain are different numbers (`8 = 7`), or one has no value (`0/0 = 7`)."""
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


def _compare_words(gold: tree.Node, answer: tree.Node) -> Equality:
    if isinstance(gold, tree.Words) and isinstance(answer, tree.Words):
        one, two = (
            _INTRODUCTION.sub("", _SAYS_NOTHING.sub("", _BETWEEN_WORDS.sub(" ", side.text)).strip())
            for side in (gold, answer)
        )
        if one == two != "":
            return Equality(True, f"equal as words: {gold.text}")
        return different(f"different words: {gold.text!r} and {answer.text!r}")
    words, other = (gold, answer) if isinstance(gold, tree.Words) else (answer, gold)
    text = words.text if isinstance(words, tree.Words) else ""
    if isinstance(other, tree.Symbol) and other.name.lower() in (text, text.strip("(). ")):
        return Equality(True, f"equal as words: {text}")
    return different(f"one is words ({text!r}), the other mathematics")


def _compare_as_sets(gold: tree.Node, answer: tree.Node, options: MathOptions) -> Equality:
    if isinstance(gold, tree.Relation) and isinstance(answer, tree.Relation):
        found = compare_relations(gold, answer)
        if found.equal is not None:
            return found
    gold, answer = _as_interval(gold, answer), _as_interval(answer, gold)
    if isinstance(gold, tree.Range) and isinstance(answer, tree.Range):
        if (gold.low_open, gold.high_open) != (answer.low_open, answer.high_open):
            return different("one interval has an end that the other leaves out")
        ends = [compare(gold.low, answer.low, options), compare(gold.high, answer.high, options)]
        return all_of(ends, as_what="intervals")
    sides = (gold, answer)
    if tree.NamedSet("empty") in sides and any(
        isinstance(side, tree.Listing | tree.Number) for side in sides
    ):
        return different("one set is empty")
    found = compare_sets(gold, answer)
    if found.equal is None and isinstance(gold, tree.Listing) and isinstance(answer, tree.Listing):
        return compare_listings(gold, answer, options)
    return found


def _as_interval(node: tree.Node, other: tree.Node) -> tree.Node:
    """`(a, b)` beside an interval is one too."""
    match node:
        case tree.Listing("round" | "square" as kind, (low, high)) if isinstance(other, tree.Range):
            return tree.Range(low, high, kind == "round", kind == "round")
        case _:
            return node


def _compare_definitions(
    gold: tree.Relation, answer: tree.Relation, options: MathOptions
) -> Equality | None:
    """`f(x) = …` against `f(z) = …`: the same name, and the same rule for it."""
    name, other = gold.sides[0], answer.sides[0]
    if (
        isinstance(name, tree.Apply)
        and isinstance(other, tree.Apply)
        and name.function == other.function
    ):
        names = {
            theirs.name: ours.name
            for ours, theirs in zip(name.arguments, other.arguments, strict=False)
            if isinstance(ours, tree.Symbol) and isinstance(theirs, tree.Symbol)
        }
        renamed_sides = (
            tree.rename_symbols(side, lambda one: names.get(one, one)) for side in answer.sides
        )
        answer = tree.Relation(tuple(renamed_sides), answer.operators)
        other = answer.sides[0]
    if _is_graph(name, gold.sides[-1], other, answer.sides[-1]):
        return compare(gold.sides[-1], answer.sides[-1], options)
    arguments = tree.find_symbols(name) if isinstance(name, tree.Apply) else set[str]()
    if name != other or tree.find_symbols(name) & tree.find_symbols(gold.sides[-1]) - arguments:
        return None
    return compare(gold.sides[-1], answer.sides[-1], options)


def _is_graph(name: tree.Node, rule: tree.Node, other: tree.Node, other_rule: tree.Node) -> bool:
    """Return True if one defines a function of x and the other its graph: `f(x) = …` and `y = …`."""
    y = tree.Symbol("y")
    if "y" in tree.find_symbols(rule) | tree.find_symbols(other_rule):
        return False
    function = other if name == y else name
    x = (tree.Symbol("x"),)
    return y in (name, other) and isinstance(function, tree.Apply) and function.arguments == x


Compare: TypeAlias = Callable[[tree.Node, tree.Node], Equality]  # how parts are compared

_MOST_ITEMS: Final = 40
_BETWEEN_WORDS: Final = re.compile(r"[\s,;]+|(?<=\w)-(?=\w)")
_SAYS_NOTHING: Final = re.compile(r"[.:!?'\"]")
# After `_SAYS_NOTHING`, which makes `its` of `it's`.
_INTRODUCTION: Final = re.compile(
    r"^(?:(?:so |thus |therefore )?(?:the (?:final |correct )?answer|it) is |its |on )?"
    r"(?:(?:an?|the) )?(?=\w\w)"
)


def compare_listings(gold: tree.Node, answer: tree.Node, options: MathOptions) -> Equality:
    """Tuples in order, sets and bare lists in any order, ratios as ratios."""
    kind, kinds = _kind(gold), {_kind(gold), _kind(answer)}
    if "ratio" in kinds:
        return _compare_ratios(gold, answer, options)
    one, two = (
        side.items if isinstance(side, tree.Listing) else (side,) for side in (gold, answer)
    )
    are_lists = isinstance(gold, tree.Listing) and isinstance(answer, tree.Listing)

    def compared(one: tree.Node, two: tree.Node) -> Equality:
        # A set of one number is that number by itself, and not in another set.
        if are_lists and (_kind(one) == "set") != (_kind(two) == "set"):
            return different("only one is a set")
        return compare(one, two, options)

    if not one or not two:
        return different("a list without parts has no value")
    if len(one) != len(two):
        if kinds <= {"bare", "set", ""}:
            return _compare_repeated(one, two, compared)
        return different(f"{len(one)} parts and {len(two)} parts")
    if len(one) > _MOST_ITEMS:
        return undecided("very long lists")
    if _is_unordered(gold) and _is_point_or_interval(answer):
        return different("one is a set of numbers, the other a point or an interval")
    if len(one) == 2 and kinds == {"square", "round"}:
        return different("one interval has its ends, the other has not")
    if (
        len(one) == 2
        and kinds == {"square", "bare"}
        and not (_has_labels(gold) or _has_labels(answer))
    ):
        return undecided("an interval or a list")
    # The gold's kind decides: a tuple has an order, and so have values under different names.
    if (
        options.ordered_tuples
        and kind in ("round", "square")
        and ("set" in kinds or _is_choice(answer))
    ):
        return different("the gold has an order, and the answer has none")
    if kind == "round" and _has_labels(answer):
        two = _by_name(answer)
    elif _kind(answer) == "round" and _has_labels(gold):
        one = _by_name(gold)
    is_named = _has_labels(gold) and not _has_labels(answer)
    if is_named or (options.ordered_tuples and kind in ("round", "square")):
        return all_of(list(map(compared, one, two)), as_what="lists")
    if (
        _has_labels(gold)
        and _has_labels(answer)
        and (gold.joined == "or") != (answer.joined == "or")
    ):
        return different("one holds for all its parts, the other for one of them")
    return _compare_unordered(one, two, compared)


def _kind(node: tree.Node) -> str:
    return node.kind if isinstance(node, tree.Listing) else ""


def _is_unordered(node: tree.Node) -> bool:
    return _kind(node) == "set" or _is_choice(node)


def _is_point_or_interval(node: tree.Node) -> bool:
    """Return True for two values in brackets: `(0, 1)` and `[0, 1]`, but not `((1, 2), (3, 4))`."""
    if not isinstance(node, tree.Listing) or node.kind not in ("round", "square"):
        return False
    return len(node.items) == 2 and not any(isinstance(item, tree.Listing) for item in node.items)


def _is_choice(node: tree.Node) -> bool:
    """Whether a list gives several values for one thing: `1 or 2`, `x = 1, x = 2`."""
    if not isinstance(node, tree.Listing) or node.kind != "bare":
        return False
    names = {item.sides[0] for item in node.items if tree.is_assignment(item)}
    return node.joined == "or" or (len(names) == 1 and all(map(tree.is_assignment, node.items)))


def _has_labels(node: tree.Node) -> TypeGuard[tree.Listing]:
    """Whether a list gives different names to its parts: `a = 1, b = 2`."""
    if not isinstance(node, tree.Listing):
        return False
    names = [
        item.sides[0]
        for item in node.items
        if isinstance(item, tree.Relation) and tree.is_assignment(item)
    ]
    return len(names) == len(node.items) == len(set(names))


def _by_name(node: tree.Listing) -> tuple[tree.Node, ...]:
    """Return the parts of a list with labels in the order of coordinates: `y = 2, x = 1` is (1, 2)."""
    names = [tree.children(item)[0] for item in node.items]
    if not all(isinstance(name, tree.Symbol) for name in names):
        return node.items
    return tuple(sorted(node.items, key=lambda item: str(tree.children(item)[0])))


def _compare_unordered(
    one: Sequence[tree.Node], two: Sequence[tree.Node], compare: Compare
) -> Equality:
    """Whether every part of one has its own equal in the other."""
    left = list(two)
    is_open = False
    for item in one:
        findings = [compare(item, other) for other in left]
        matched = next((place for place, finding in enumerate(findings) if finding.equal), None)
        if matched is not None:
            del left[matched]
        elif any(finding.equal is None for finding in findings):
            is_open = True
        else:
            return different("a part of one list has no equal in the other")
    return (
        undecided("parts of the lists are undecided")
        if is_open
        else Equality(True, "equal as sets")
    )


def _compare_repeated(
    one: Sequence[tree.Node], two: Sequence[tree.Node], compare: Compare
) -> Equality:
    """Lists of different lengths are equal as sets when one only repeats itself."""
    if len(one) * len(two) > _MOST_ITEMS**2 / 4:
        return undecided("very long lists")
    for parts, others, turned in ((one, two, False), (two, one, True)):
        for item in parts:
            findings = [
                compare(other, item) if turned else compare(item, other) for other in others
            ]
            if any(finding.equal for finding in findings):
                continue
            if any(finding.equal is None for finding in findings):
                return undecided("parts of the lists are undecided")
            return different(f"{len(one)} parts and {len(two)} parts")
    return Equality(True, "equal as sets")


def _compare_ratios(gold: tree.Node, answer: tree.Node, options: MathOptions) -> Equality:
    if any(isinstance(side, tree.Listing) and side.kind != "ratio" for side in (gold, answer)):
        return different("only one is a ratio")
    gold_terms, answer_terms = _terms(gold), _terms(answer)
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
    return all_of(findings, as_what="ratios")


def _find_nonzero(terms: Sequence[tree.Node]) -> int | None:
    """Return the index of the last term that is provably not 0; None if the ratio has no value."""
    try:
        nonzero = [index for index, term in enumerate(terms) if is_nonzero(term)]
    except TooLargeError:
        return None
    is_division_by_zero = len(terms) == 2 and 1 not in nonzero
    if not nonzero or is_division_by_zero:
        return None
    return nonzero[-1]


def _terms(node: tree.Node) -> tuple[tree.Node, ...]:
    """The terms of a ratio; a fraction has two, a number is to 1."""
    if isinstance(node, tree.Listing):
        return node.items
    return (node.top, node.bottom) if isinstance(node, tree.Quotient) else (node, tree.ONE)


def compare_grids(gold: tree.Node, answer: tree.Node, options: MathOptions) -> Equality:
    """Matrices cell by cell; a row or column also equals the tuple of its cells."""
    one, two = _cells(gold), _cells(answer)
    if one is None or two is None:
        other = answer if isinstance(gold, tree.Grid) else gold
        if isinstance(other, tree.Number | tree.Listing | tree.Symbol):
            return different("only one is a matrix")
        return undecided("a matrix against something else")
    if (
        _shape(gold) != _shape(answer)
        and isinstance(gold, tree.Grid)
        and isinstance(answer, tree.Grid)
    ):
        return different(f"matrices of {_shape(gold)} and {_shape(answer)} cells")
    grid, other = (gold, answer) if isinstance(gold, tree.Grid) else (answer, gold)
    if isinstance(other, tree.Listing) and 1 not in _shape(grid):
        return different("a matrix of several rows and columns is no tuple")
    if len(one) != len(two):
        return different(f"{len(one)} and {len(two)} cells")
    return all_of(
        [compare(*cells, options) for cells in zip(one, two, strict=True)], as_what="matrices"
    )


def _multiplied_out(node: tree.Node) -> tree.Node:
    """Return a multiple of a matrix, or a sum of matrices, as one matrix."""
    if isinstance(node, tree.Sum):
        terms = [_multiplied_out(term) for term in node.terms]
        grids = [term for term in terms if isinstance(term, tree.Grid)]
        if len(grids) == len(terms) and len({_shape(grid) for grid in grids}) == 1:
            cells = zip(*map(tree.children, grids), strict=True)
            return tree.rebuild(grids[0], tuple(tree.Sum(terms_of_cell) for terms_of_cell in cells))
        return node
    if not isinstance(node, tree.Product):
        return node
    grids = [factor for factor in node.factors if isinstance(factor, tree.Grid)]
    if len(grids) != 1:
        return node
    rest = tuple(factor for factor in node.factors if factor is not grids[0])
    cells = tuple(tree.Product((*rest, cell)) for cell in tree.children(grids[0]))
    return tree.rebuild(grids[0], cells)


def _shape(node: tree.Node) -> tuple[int, int]:
    return (
        (len(node.rows), len(node.rows[0]))
        if isinstance(node, tree.Grid)
        else (len(tree.children(node)), 1)
    )


def _cells(node: tree.Node) -> tuple[tree.Node, ...] | None:
    is_row = isinstance(node, tree.Listing) and node.kind in ("round", "square")
    return tree.children(node) if isinstance(node, tree.Grid) or is_row else None


# Whether an answer is solved as far as the gold is, so that a question handed back is no answer.

_UNCOMPUTED: Final = re.compile(
    r"\\(?:int|iint|oint|sum|prod|lim)(?![a-zA-Z])|\\frac\s*\{\s*(?:d|\\partial)\s*\}"
)


def unsolved(
    gold: tuple[str, tree.Node | None], answer: tuple[str, tree.Node | None]
) -> str | None:
    """What the answer leaves to be done that the gold has done; None when there is nothing."""
    operator = _UNCOMPUTED.search(answer[0])
    if operator and not _UNCOMPUTED.search(gold[0]):
        return f"{operator[0]} is not computed"
    if gold[1] is None or answer[1] is None:
        return None
    return _left_to_do(gold[1], answer[1])


def _left_to_do(gold: tree.Node, answer: tree.Node) -> str | None:
    if isinstance(answer, tree.Relation):
        is_solved_gold = (
            tree.is_assignment(gold)
            or not isinstance(gold, tree.Relation)
            or (tree.is_inequality(gold) and _is_isolated(gold))
        )
        if (
            is_solved_gold
            and tree.is_inequality(answer)
            and is_set(answer)
            and not _is_isolated(answer)
        ):
            return "the inequality is not solved"
        if is_solved_gold and tree.is_equation(answer):
            if (
                tree.is_assignment(gold)
                and not _is_line(gold)
                and not _gives(answer, gold.sides[0])
            ):
                return "the equation is not solved"
            value = gold.sides[-1] if tree.is_assignment(gold) else gold
            # `5 = x` and `5 = 2 + 3` say what `x = 5` says.
            sides = [side for side in answer.sides if not isinstance(side, tree.Symbol)]
            findings = [_left_to_do(value, side) for side in sides]
            if not findings or None in findings:
                return None
            return findings[-1]
        return None
    if isinstance(answer, tree.SetOperation | tree.Listing):
        if (
            isinstance(gold, tree.Listing)
            and isinstance(answer, tree.Listing)
            and all(map(_is_literal, gold.items))
        ):
            gold = gold.items[0]
        return next(
            (
                left
                for part in tree.children(answer)
                if (left := _left_to_do(gold, part)) is not None
            ),
            None,
        )
    gold = gold.sides[-1] if tree.is_assignment(gold) else gold
    if _is_literal(gold) and not tree.find_symbols(answer) and not _is_computed(answer):
        return "the number is not computed"
    return None


def _is_isolated(relation: tree.Relation) -> bool:
    """Whether every side is one letter or has none: `x > 4`, `1 < x < 2`, `|x| < 2`, but not `2x > 8`."""
    for side in relation.sides:
        is_bare = isinstance(side, tree.Symbol) or not tree.find_symbols(side)
        match side:
            case tree.Apply("abs", (tree.Symbol(),)):
                continue
            case _ if not is_bare:
                return False
            case _:
                continue
    return True


_COORDINATES: Final = frozenset("xyz")


def _is_line(equation: tree.Relation) -> bool:
    """Return True for the equation of a line or plane, such as `y = 2x + 1`.

    It may be written in any form: `2x - y + 1 = 0` is as good an answer.
    """
    names = tree.find_symbols(equation)
    return len(names) > 1 and names <= _COORDINATES and all(map(_is_linear, equation.sides))


def _is_linear(node: tree.Node) -> bool:
    """Return True if an expression has no powers, functions or products of variables."""
    if not tree.find_symbols(node) or isinstance(node, tree.Symbol):
        return True
    match node:
        case tree.Sum(terms):
            return all(map(_is_linear, terms))
        case tree.Product(factors):
            variable_factors = [factor for factor in factors if tree.find_symbols(factor)]
            return len(variable_factors) == 1 and _is_linear(variable_factors[0])
        case tree.Quotient(top, bottom):
            return _is_linear(top) and not tree.find_symbols(bottom)
        case _:
            return False


def _gives(equation: tree.Relation, name: tree.Node) -> bool:
    """Whether an equation has this name alone on one of its sides, and nowhere else."""
    first, last = equation.sides[0], equation.sides[-1]
    if tree.is_assignment(equation) and not isinstance(name, tree.Symbol):
        return True
    return any(
        one == name and not tree.find_symbols(name) & tree.find_symbols(other)
        for one, other in ((first, last), (last, first))
    ) or (isinstance(first, tree.Symbol) and not tree.find_symbols(last))


def _is_literal(node: tree.Node) -> bool:
    """Whether a number is written out: `5`, `-1/2`, `2.5%`, `3 cm`, `1011_2`."""
    match node:
        case tree.Number() | tree.Based():
            return True
        case tree.Percent(value) | tree.Quantity(value):
            return _is_literal(value)
        case tree.Quotient(top, bottom):
            return _is_literal(top) and _is_literal(bottom)
        case tree.Product((tree.Number(value), rest)):
            return value == -1 and _is_literal(rest)
        case tree.Sum(
            (tree.Number(whole), tree.Quotient(tree.Number(top), tree.Number(bottom)))
        ):  # a mixed number
            return whole.q == 1 and top < bottom
        case _:
            return False


def _is_computed(node: tree.Node) -> bool:
    """Whether a number is in a form that answers are left in: written out, with powers, factorials and coefficients."""
    match node:
        case tree.Power(base, exponent):
            return _is_computed(base) and _is_computed(exponent)
        case tree.Apply(function, arguments):
            return function in ("factorial", "binomial") and all(map(_is_computed, arguments))
        case tree.Product(factors):
            rest = [factor for factor in factors if factor != tree.MINUS_ONE]
            plain = sum(isinstance(factor, tree.Number) for factor in rest)
            return all(map(_is_computed, rest)) and (plain <= 1 or _is_literal(node))
        case tree.Quotient(top, bottom):
            return _is_computed(top) and _is_computed(bottom)
        case tree.Percent(value) | tree.Quantity(value):
            return _is_computed(value)
        case _:
            return _is_literal(node)
