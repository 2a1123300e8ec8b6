r"""Answers without a value (`0:0`, `x<x`, a lone `=`) equal nothing, and no answer equals two references."""

from collections.abc import Iterator
from itertools import islice, product

import pytest

from assay.math import MathOptions, verify, verify_many

# The values differ in pairs. An answer with a value can equal one of them.
REFERENCES = (
    "0",
    "7",
    "-3",
    r"\frac{3}{4}",
    "0.125",
    r"40\%",
    r"5\text{ cm}",
    r"\sqrt{2}",
    r"2\pi",
    "2+3i",
    r"\infty",
    "x+1",
    "2x-y",
    "x^2+y^2=25",
    "y=3x+2",
    "x=11",
    "3:8",
    "2:3:5",
    "(3,2)",
    "(5,5)",
    "(9,4,1)",
    "(-1,6]",
    "[3,2)",
    r"(-\infty,1)\cup(3,\infty)",
    "x>12",
    r"\{13,14\}",
    r"\emptyset",
    r"\mathbb{R}",
    r"\begin{pmatrix}1&2\\3&4\end{pmatrix}",
    r"\text{no}",
)
ZEROS = (
    "0",
    "00",
    "0.0",
    "-0",
    r"\frac{0}{5}",
    r"\sqrt{0}",
    "0x",
    r"0\cdot y",
    "(1-1)",
    "x-x",
    "0^2",
    r"\sin 0",
    r"\ln 1",
)
OPERATORS = (
    "+",
    "-",
    "*",
    "/",
    "=",
    "<",
    ">",
    ":",
    ",",
    ";",
    "^",
    "_",
    "!",
    "|",
    "(",
    ")",
    "[",
    "]",
    r"\{",
    r"\}",
    r"\pm",
    r"\cdot",
    r"\le",
    r"\ne",
    r"\in",
    r"\cup",
    r"\frac",
)


def quotients_of_zeros() -> Iterator[str]:
    """`0:0`, `0 to 0`, `0/0`, `0:0:0` and the like."""
    for first, second in product(ZEROS, ZEROS[::2]):
        yield f"{first}:{second}"
        yield f"{first} : {second}"
        yield f"{first} to {second}"
        yield rf"{first} \text{{ to }} {second}"
        yield rf"\frac{{{first}}}{{{second}}}"
        yield rf"({first}) \div ({second})"
        yield f"({first})/({second})"
        yield rf"({first}) \cdot ({second})^{{-1}}"
        yield rf"\frac{{{first}}}{{{second}}}:1"
        yield f"({first}):({second}):0"
        yield rf"7=\frac{{{first}}}{{{second}}}"
        yield rf"\frac{{{first}}}{{{second}}}=7"
        yield rf"x+1+\frac{{{first}}}{{{second}}}"
        yield rf"\left(\frac{{{first}}}{{{second}}},2\right)"
        yield rf"\frac{{{first}}}{{{second}}}x>12"


def contradictions() -> Iterator[str]:
    """Intervals and conditions that no number satisfies."""
    numbers = ("-3", "0", "1", "2", "3", "5", "7")
    for name, low, high in product("xyn", numbers, numbers):
        if int(low) >= int(high):
            yield f"{low}<{name}<{high}"
            yield rf"{low}<{name}\le {high}"
            yield f"{name}>{low}, {name}<{high}"
            yield rf"{name}>{low}\text{{ and }}{name}<{high}"
            yield rf"\{{{name}:{low}<{name}<{high}\}}"
            yield f"({low},{high}]"
            yield rf"({low},{high}]\cup({low},{high}]"
            yield f"{low}<{high}"
            yield f"{low}>{high}>{low}"
    for left, right in product((*"xyzabn", "2x", "x^2", "x+y"), repeat=2):
        for operator in ("<", ">", r"\ne", "="):
            if left == right:
                yield f"{left}{operator}{right}"
                yield f"{left}{operator}{right}{operator}{left}"
                yield rf"\{{{left}:{left}{operator}{right}\}}"
            yield f"{left}-{left}{operator}{right}-{right}"
            yield rf"{left}{operator}{right}\text{{ and }}{left}<{left}"


def repetitions() -> Iterator[str]:
    """One text many times, with something or nothing between."""
    units = (*ZEROS, *OPERATORS, "7", "x", "0:0", "0=0", "x=x", "x<x", r"\emptyset", r"\infty")
    separators = ("", " ", ",", ":", "=", "<", "+", r"\cdot ", r"\cup ", r"\text{ or }")
    for unit, separator in product(units, separators):
        for count in (2, 3, 5, 12):
            yield separator.join([unit] * count)


def lone_operators() -> Iterator[str]:
    """Up to three operators and nothing to apply them to, also with zeros between."""
    for operators in product(OPERATORS, repeat=2):
        yield " ".join(operators)
    # Every fourth: 17 and the 27 operators have no common divisor with 4, so every pair is there, as
    # first and second, as second and third, and as first and third.
    for first, second, third in islice(product(OPERATORS, OPERATORS, OPERATORS[:17]), 0, None, 4):
        yield f"{first} {second} {third}"
    for first, second in product(OPERATORS, OPERATORS):
        yield f"0{first}0{second}0"
        yield f"{first}0{second}"
        yield f"0{first}{second}0"


FAMILIES = {
    "quotients of zeros": (quotients_of_zeros, set[str]()),
    "contradictions": (contradictions, {"0", r"\emptyset", r"\mathbb{R}"}),
    "repetitions": (repetitions, {"0", "7", r"\infty", r"\emptyset", r"\mathbb{R}"}),
    "lone operators": (lone_operators, {"0", r"\emptyset"}),
}


def find_accepting(answers: list[str]) -> dict[str, list[str]]:
    """Return the references that each answer equals, for the answers that equal any."""
    pairs = [(reference, answer) for answer in answers for reference in REFERENCES]
    verdicts = verify_many(pairs, options=MathOptions(symbolic=False))
    accepting: dict[str, list[str]] = {}
    for (reference, answer), verdict in zip(pairs, verdicts, strict=True):
        assert verdict.status != "error", (reference, answer, verdict)
        if verdict.equal:
            accepting.setdefault(answer, []).append(reference)
    return accepting


@pytest.mark.parametrize(
    "step", [pytest.param(1, marks=pytest.mark.slow, id="all"), pytest.param(8, id="some")]
)
@pytest.mark.parametrize("family", FAMILIES)
def test_no_degenerate_answer_is_accepted_for_more_than_its_own_value(family: str, step: int):
    """About 10,000 answers against 30 references. `0=0` says 0, and `x<x` is true of no number."""
    answers, own_values = FAMILIES[family]
    accepting = find_accepting(list(dict.fromkeys(answers()))[::step])
    assert not {answer: found for answer, found in accepting.items() if len(found) > 1}
    assert own_values.issuperset(reference for found in accepting.values() for reference in found)


@pytest.mark.parametrize(
    ("reference", "answer"),
    [
        ("7", "0:0"),
        ("7", "0 to 0"),
        ("x+1", "0:0x"),
        ("3:4", "0/0"),
        ("0:1:2", "0:2:1"),
        ("1:0", "2:0"),
        ("(3,2)", "x<x"),
        ("(3,2)", "1<x<0"),
        ("(3,2)", r"x\neq x"),
        ("[3,2)", r"\emptyset"),
        ("x<x", "y>y+1"),
        ("7", r"\frac{0}{0}=7"),
        ("7", r"\infty-\infty=7"),
        ("1", "0^0"),
        (r"\frac{1}{0}", r"\frac{2}{0}"),
        ("x=5", r"x=5\cdot\frac{\sqrt{3+2\sqrt2}-1-\sqrt2}{\sqrt{3+2\sqrt2}-1-\sqrt2}"),
        (r"\,", r"\;"),
        (r"\text{!}", r"\text{.}"),
    ],
)
def test_two_sides_are_equal_only_if_each_has_a_value(reference: str, answer: str):
    assert not verify(reference, answer).equal


@pytest.mark.parametrize(
    ("reference", "answer"),
    [
        ("0:5", "0:7"),
        ("0:1:2", "0:2:4"),
        ("3:0:2", "6:0:4"),
        ("2:3", "2x:3x"),
        (r"\emptyset", "x^2<0"),
        (r"\emptyset", r"x\in\emptyset"),
        ("f(x)=2x+1", "f(x)=1+2x"),
        (r"y=\frac{1}{x}", "xy=1"),
    ],
)
def test_zeros_and_empty_sets_that_are_values_are_compared(reference: str, answer: str):
    assert verify(reference, answer).equal
