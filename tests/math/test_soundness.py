r"""A yes is a proof: other answers are never paid, whether from a table of attacks or made by mutation."""

import json
import math
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from assay import MathRubric
from assay.math import MathOptions, verify, verify_many

TABLE = Path(__file__).parents[1] / "cases" / "unequal_math.jsonl"
ROWS: list[dict[str, Any]] = [
    json.loads(line) for line in TABLE.read_text(encoding="utf-8").splitlines()
]


def test_the_table_holds_hundreds_of_pairs_of_every_class_each_with_its_reason():
    """So that a class is closed by its rule, and not by one example."""
    assert len(ROWS) >= 300
    assert len({(row["gold"], row["answer"]) for row in ROWS}) == len(ROWS)
    assert all(row["reason"] for row in ROWS)
    assert min(Counter(row["class"] for row in ROWS).values()) >= 10


@pytest.mark.parametrize("solved", [False, True])
def test_no_pair_of_the_table_is_a_yes(solved: bool):
    """Neither by `verify` nor by the rules of a reward, which ask for a solved answer; and nothing fails."""
    rows = [row for row in ROWS if solved or not row.get("solved")]
    verdicts = verify_many(
        [(row["gold"], row["answer"]) for row in rows], options=MathOptions(solved=solved)
    )
    wrong = [
        (row, verdict)
        for row, verdict in zip(rows, verdicts, strict=True)
        if verdict.status in ("equal", "error")
    ]
    assert not wrong


@pytest.mark.parametrize(
    "row", [row for row in ROWS if row.get("solved")][::4], ids=lambda row: row["answer"]
)
def test_a_reward_asks_for_a_solved_answer_and_verify_does_not(row: dict[str, Any]):
    """The question handed back is the same mathematics, and no answer."""
    text = rf"\boxed{{{row['answer']}}}"
    assert MathRubric().grade_sync(text, answer=row["gold"]).score == 0
    reason = verify(row["gold"], row["answer"], options=MathOptions(solved=True)).reason
    assert reason.startswith(
        ("the answer is not solved as far as the gold is", "only one is an equation", "not proven")
    )


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        ("x=2", "x=2"),
        ("x=2", "2=x"),
        ("2", "x=2"),
        ("x=2", "2"),
        ("x=5", "x=2+3=5"),
        ("y=x", "x=y"),
        ("(4,\\infty)", "x>4"),
        ("x>4", "4<x"),
        ("(3,7)", "3<x<7"),
        ("96", r"3\cdot 2^5"),
        ("120", "5!"),
        ("10", r"\binom{5}{2}"),
        ("1024", "2^{10}"),
        ("7", "3+4=7"),
        ("2.5", r"2\frac12"),
        ("2400", r"2.4\times 10^3"),
        ("-0.5", r"-\frac12"),
        ("y=2x", "2x"),
        (r"\sum_{k=1}^{n} a_k", r"\sum_{k=1}^{n} a_k"),
        ("2x-3>5", "x>4"),
        (r"2\sqrt3", r"\sqrt{12}"),
        ("x=1,y=2", "y=2,x=1"),
        ("3x+2y=6", "6x+4y=12"),
        ("1,2", "x=1, x=2"),
        (r"(-\infty,1)\cup(2,\infty)", r"x<1\text{ or }x>2"),
    ],
)
def test_a_solved_answer_may_be_written_in_any_form(gold: str, answer: str):
    """What is asked is that nothing is left to be done that the gold has done."""
    verdict = verify(gold, answer, options=MathOptions(solved=True))
    assert verdict.equal, verdict


# Random answers of every kind, and what changes their value.


@dataclass(frozen=True)
class Value:
    """An answer by its kind: numbers, or numbers with letters, in a frame."""

    kind: str
    parts: tuple[Any, ...]


NUMBERS = st.builds(Fraction, st.integers(-60, 60), st.sampled_from([1, 1, 1, 2, 3, 4, 5, 8]))
DISTINCT = st.lists(NUMBERS, min_size=2, max_size=4, unique=True).map(tuple)
COEFFICIENTS = st.lists(st.integers(-9, 9).filter(bool), min_size=2, max_size=3).map(tuple)
ENDS = st.tuples(st.integers(-20, 5), st.integers(6, 30), st.booleans(), st.booleans())
UNITS = ("cm", "kg", "hours", "dollars", "mL", "degrees", "volts")
VALUES = st.one_of(
    NUMBERS.map(lambda number: Value("number", (number,))),
    st.tuples(NUMBERS, st.sampled_from([2, 3, 5, 7])).map(lambda parts: Value("root", parts)),
    st.tuples(st.integers(1, 40), st.integers(1, 40)).map(lambda parts: Value("complex", parts)),
    COEFFICIENTS.map(lambda parts: Value("polynomial", parts)),
    st.tuples(st.sampled_from(["sin", "cos", "exp", "ln"]), COEFFICIENTS).map(
        lambda parts: Value("function", parts)
    ),
    DISTINCT.map(lambda parts: Value("tuple", parts)),
    DISTINCT.map(lambda parts: Value("set", parts)),
    DISTINCT.map(lambda parts: Value("list", parts)),
    ENDS.map(lambda parts: Value("interval", parts)),
    st.tuples(st.sampled_from("xyz"), NUMBERS).map(lambda parts: Value("assignment", parts)),
    st.tuples(
        st.sampled_from("xyz"), st.sampled_from(["<", ">", r"\le ", r"\ge "]), st.integers(-20, 20)
    ).map(lambda parts: Value("inequality", parts)),
    st.tuples(*[st.integers(-9, 9)] * 4).map(lambda parts: Value("matrix", parts)),
    # In lowest terms: 2:32 would be a time.
    st.tuples(st.integers(1, 30), st.integers(31, 60))
    .filter(lambda parts: math.gcd(*parts) == 1)
    .map(lambda parts: Value("ratio", parts)),
    st.tuples(st.integers(1, 60), st.sampled_from(UNITS)).map(
        lambda parts: Value("quantity", parts)
    ),
    st.tuples(st.integers(3, 60), st.sampled_from([2, 3, 7, 8])).map(
        lambda parts: Value("based", parts)
    ),
)


@st.composite
def spelled(draw: st.DrawFn, number: Fraction) -> str:
    """One of the ways to write a number exactly."""
    top, bottom = number.numerator, number.denominator
    sign, top = ("-" if top < 0 else ""), abs(top)
    ways = [
        rf"{sign}\frac{{{top}}}{{{bottom}}}",
        f"{sign}{top}/{bottom}",
        rf"{sign}\dfrac{{{2 * top}}}{{{2 * bottom}}}",
    ]
    if bottom == 1:
        ways = [
            f"{sign}{top}",
            f"{sign}{top}.0",
            f"{sign}{2 * top}/2",
            rf"{sign}\frac{{{top}}}{{1}}",
        ]
    elif 10**6 % bottom == 0:
        ways.append(f"{sign}{float(Fraction(top, bottom)):.6f}".rstrip("0"))
    whole, rest = divmod(top, bottom)
    if whole and rest:
        ways.append(rf"{sign}{whole}\frac{{{rest}}}{{{bottom}}}")
    return draw(st.sampled_from(ways))


def polynomial(coefficients: tuple[int, ...]) -> str:
    return "+".join(
        f"({c})x^{{{power}}}" if power else f"({c})" for power, c in enumerate(coefficients)
    )


def in_base(number: int, base: int) -> str:
    digits = ""
    while number:
        number, digit = divmod(number, base)
        digits = f"{digit}{digits}"
    return digits


@st.composite
def written(draw: st.DrawFn, value: Value) -> str:
    """One of the ways to write a value of any kind."""
    parts = value.parts
    match value.kind:
        case "number":
            text = draw(spelled(parts[0]))
        case "root":
            text = rf"{draw(spelled(parts[0]))}+\sqrt{{{parts[1]}}}"
        case "complex":
            text = draw(st.sampled_from([f"{parts[0]}+{parts[1]}i", f"{parts[1]}i+{parts[0]}"]))
        case "polynomial":
            text = polynomial(parts)
        case "function":
            text = rf"\{parts[0]}({polynomial(parts[1])})"
        case "tuple":
            text = f"({', '.join(draw(spelled(part)) for part in parts)})"
        case "set":
            text = rf"\{{{', '.join(draw(spelled(part)) for part in parts)}\}}"
        case "list":
            text = draw(st.sampled_from([", ", r" \text{ and } "])).join(
                draw(spelled(part)) for part in parts
            )
        case "interval":
            low, high, low_open, high_open = parts
            if draw(st.booleans()):
                text = f"{'(' if low_open else '['}{low}, {high}{')' if high_open else ']'}"
            else:
                signs = ["<" if is_open else r"\le " for is_open in (low_open, high_open)]
                text = f"{low} {signs[0]} x {signs[1]} {high}"
        case "assignment":
            text = f"{parts[0]} = {draw(spelled(parts[1]))}"
        case "inequality":
            text = f"{parts[0]} {parts[1]} {parts[2]}"
        case "matrix":
            a, b, c, d = parts
            text = rf"\begin{{pmatrix}}{a}&{b}\\{c}&{d}\end{{pmatrix}}"
        case "ratio":
            text = draw(
                st.sampled_from([f"{parts[0]}:{parts[1]}", f"{2 * parts[0]} : {2 * parts[1]}"])
            )
        case "quantity":
            text = draw(
                st.sampled_from([rf"{parts[0]}\text{{ {parts[1]}}}", f"{parts[0]} {parts[1]}"])
            )
        case _:
            text = f"{in_base(*parts)}_{{{parts[1]}}}"
    return draw(
        st.sampled_from(
            [
                text,
                f"${text}$",
                rf"\boxed{{{text}}}",
                f" {text} ",
                text.replace("(", r"\left(").replace(")", r"\right)"),
            ]
        )
    )


WORDS = [
    "negative {}",
    "less than {}",
    "at most {}",
    "not {}",
    "square root of {}",
    "half of {}",
    "{} squared",
    "{} hundred",
    "{} thirds",
    "{} or more",
    r"{}\pi",
    "{}x",
    "{} theta",
    r"\neq {}",
    r"{} \pmod 5",
    "{}!+1",
    "{}, 1000",
    "{} or 1000",
]


@st.composite
def changed(draw: st.DrawFn, value: Value) -> str:
    """Another value, written in one of the ways for its kind."""
    parts, kind = value.parts, value.kind
    step = draw(st.sampled_from([1, -1, 2, 10, 100]))
    if kind == "number" and parts[0] and draw(st.booleans()):
        number = parts[0]
        text = draw(st.sampled_from(WORDS)).format(
            number
            if number.denominator == 1
            else rf"\frac{{{number.numerator}}}{{{number.denominator}}}"
        )
        return draw(st.sampled_from([text, rf"\boxed{{{text}}}", f"The answer is {text}"]))
    if kind in ("tuple", "matrix", "list", "set"):
        place = draw(st.integers(0, len(parts) - 1))
        other = (*parts[:place], max(parts) + abs(step), *parts[place + 1 :])
        if kind == "tuple" and draw(st.booleans()):
            other = (*parts[1:], parts[0])
        elif kind == "tuple" and draw(st.booleans()):
            kind, other = "set", parts
        elif kind == "matrix" and parts[1] != parts[2] and draw(st.booleans()):
            other = (parts[0], parts[2], parts[1], parts[3])
        elif kind != "matrix" and draw(st.booleans()):
            other = parts[:-1]
    elif kind == "interval":
        low, high, low_open, high_open = parts
        other = draw(
            st.sampled_from(
                [
                    (low - abs(step), *parts[1:]),
                    (low, high + abs(step), low_open, high_open),
                    (low, high, not low_open, high_open),
                    (low, high, low_open, not high_open),
                ]
            )
        )
    elif kind == "assignment":
        name = draw(st.sampled_from([each for each in "xyz" if each != parts[0]]))
        other = draw(st.sampled_from([(parts[0], parts[1] + step), (name, parts[1])]))
    elif kind == "inequality":
        sign = draw(
            st.sampled_from([each for each in ("<", ">", r"\le ", r"\ge ") if each != parts[1]])
        )
        other = draw(st.sampled_from([(parts[0], sign, parts[2]), (*parts[:2], parts[2] + step)]))
    elif kind == "quantity":
        unit = draw(st.sampled_from([each for each in UNITS if each != parts[1]]))
        other = draw(st.sampled_from([(parts[0], unit), (parts[0] + abs(step), parts[1])]))
    elif kind == "function":
        other = (parts[0], (parts[1][0] + step, *parts[1][1:]))
        if parts[0] in ("sin", "cos") and draw(st.booleans()):
            other = ("exp", parts[1])
    elif kind in ("ratio", "complex", "based"):
        other = (parts[0] + abs(step), parts[1])
    else:
        other = (parts[0] + step, *parts[1:])
    return draw(written(Value(kind, other)))


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_a_change_of_value_is_never_a_yes(data: st.DataObject):
    """Of answers of every kind, in any of their spellings, by the rules of `verify` and by those of a reward."""
    value = data.draw(VALUES)
    gold, answer = data.draw(written(value)), data.draw(changed(value))
    for options in (MathOptions(), MathOptions(solved=True)):
        verdict = verify(gold, answer, options=options)
        assert verdict.status not in ("equal", "error"), (gold, answer, verdict)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_the_same_value_in_another_spelling_is_a_yes(data: st.DataObject):
    """Soundness is not bought by refusing what is right."""
    value = data.draw(VALUES)
    gold, answer = data.draw(written(value)), data.draw(written(value))
    verdict = verify(gold, answer)
    assert verdict.equal, (gold, answer, verdict)
