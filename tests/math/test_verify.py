"""Verdicts: what they say, of whom, and that nothing raises."""

import asyncio
import inspect
import string
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.math import (
    MathOptions,
    MathVerdict,
    verify,
    verify_async,
    verify_many,
    verify_many_async,
)


@pytest.mark.parametrize(
    ("gold", "answer", "status", "tier", "reason"),
    [
        ("4", "4", "equal", "normalize", "equal as numbers: 4"),
        (r"\frac12", "0.5", "equal", "normalize", "equal as numbers: 1/2"),
        ("x^2", " x^{2}", "equal", "algebra", "equal as expressions"),
        ("2^{10}", "1024", "equal", "algebra", "equal as numbers: 1024"),
        ("x+1", "x + 1", "equal", "normalize", "equal as written: x + 1"),
        (r"\boldsymbol{x+1}", "x+1", "equal", "normalize", "equal as written: x+1"),
        (r"\text{No}", "no", "equal", "normalize", "equal as written: no"),
        ("4", "5", "different", "normalize", "different numbers: 4 and 5"),
        ("x", "2x", "different", "algebra", "different at x = 137/128: 1.0703125 and 2.1406250"),
        (r"\{1,2\}", r"\{2,1\}", "equal", "algebra", "equal as sets"),
        ("y=2x+1", "2x-y+1=0", "equal", "algebra", "equal as equations"),
        ("2x+1>7", "x>3", "equal", "algebra", "equal as inequalities"),
        ("a<b<c", "c>b>a", "equal", "algebra", "equal as chains of relations"),
        ("y+1=x^2", "x^2-1", "equal", "algebra", "equal as the equation solved"),
        (
            "(1,3)",
            "[1,3)",
            "different",
            "algebra",
            "one interval has an end that the other leaves out",
        ),
        (r"(1,\frac12)", "(1,0.5)", "equal", "algebra", "equal as lists"),
        ("3:4", "6:8", "equal", "algebra", "equal as ratios"),
        ("x>3", r"(3,\infty)", "equal", "algebra", "equal as sets of numbers"),
        (r"[1,2)", r"[1,\frac42)", "equal", "algebra", "equal as intervals"),
        (r"\text{north-west}", "north west", "equal", "algebra", "equal as words: north-west"),
        (r"9\%", "(9)", "equal", "algebra", "equal as percentages"),
        ("1011_2", "1011", "equal", "algebra", "equal as numerals"),
        (r"2\infty", r"\infty", "equal", "algebra", "equal: both infinite"),
        ("(1,2)", "(1,3)", "different", "algebra", "different numbers: 2 and 3"),
        ("5 cm", "5 kg", "different", "algebra", "different units: cm and kg"),
        ("4", "", "no_answer", "normalize", "there is no answer"),
        ("", "4", "gold_unparsable", "normalize", "the gold answer is empty"),
    ],
)
def test_a_verdict_says_why(gold: str, answer: str, status: str, tier: str, reason: str):
    """Every verdict names what was compared, how, and by which tier."""
    assert verify(gold, answer) == MathVerdict(status, reason, tier)


def test_simplification_is_the_last_tier():
    """What algebra cannot decide goes to math-verify in a worker."""
    verdict = verify(r"\sum_{k=1}^{n} k", r"\frac{n(n+1)}{2}")
    assert (verdict.status, verdict.tier) == ("equal", "symbolic")


UNDECIDED = [
    (r"\frac{600!}{599!}", "600", "equal"),
    (r"\lfloor\sqrt2\cdot\sqrt2\rfloor", "2", "equal"),
    (r"\lceil\sqrt3\cdot\sqrt3\rceil", "3", "equal"),
]
"""Both sides can be read, and algebra finds neither a difference nor a proof."""


@pytest.mark.parametrize(("gold", "answer", "status"), UNDECIDED)
def test_what_algebra_can_read_and_not_decide_goes_to_the_last_tier(gold, answer, status):
    """A right answer is not wrong because the second tier found no proof."""
    verdict = verify(gold, answer)
    assert (verdict.status, verdict.tier) == (status, "symbolic")


@pytest.mark.parametrize(("gold", "answer", "status"), UNDECIDED)
def test_without_the_last_tier_what_is_not_proven_is_no_yes(gold, answer, status):
    """And the reason says that it may be equal all the same."""
    verdict = verify(gold, answer, options=MathOptions(symbolic=False))
    assert (verdict.status, verdict.tier) == ("different", "algebra")
    assert verdict.reason.startswith("not proven equal: ")


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        (r"\frac{4 A}{3+3 i} e^{i t}", r"\frac{4 A}{4+3 i} e^{i t}"),
        (r"\frac{2P}{5} x", r"\frac{2P}{7} x"),
    ],
)
def test_a_letter_before_a_brace_counts_no_combinations(gold: str, answer: str):
    """A numerator and a denominator are not the two numbers of `4 A 3`, so that no second reading is left open."""
    verdict = verify(gold, answer)
    assert (verdict.status, verdict.tier) == ("different", "algebra")


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        ("x^3 = 8", "x = 2"),
        ("n \\equiv 2 \\pmod 3", "n \\equiv 1 \\pmod 3"),
        ("7", "\\neq 7"),
        (r"f'(x)", "f(x)"),
        ("7", "7'"),
        (r"\frac{dy}{dx}", r"\frac{dx}{dy}"),
        (r"\{1,2,\ldots,n\}", r"\{1,3,5,\ldots\}"),
        ("3!!", "720"),
    ],
)
def test_the_last_tier_is_asked_about_expressions_alone(gold: str, answer: str):
    """Of relations, lists, dots, primes and words math-verify may read a part, and say yes to that part."""
    verdict = verify(gold, answer)
    assert not verdict
    assert verdict.tier != "symbolic"


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        (r"2-1/2^{20230}", r"2+1/2^{20230}"),
        (r"\pi+10^{-1000}", r"\pi"),
        (r"\sqrt2", r"\sqrt2+10^{-900}"),
    ],
)
def test_numbers_that_differ_beyond_any_float_are_different(gold: str, answer: str):
    """Constants are compared exactly, in the last tier too, which math-verify rounds to 15 places."""
    assert verify(gold, answer).status == "different"


@pytest.mark.parametrize(
    ("answer", "status"), [(r"4\cdot 10^{-17}", "different"), (r"2\cdot 10^{-17}", "equal")]
)
def test_the_last_tier_tells_tiny_numbers_apart(answer: str, status: str):
    """2·10⁻¹⁷ is not 4·10⁻¹⁷, though both are 0 when rounded to 15 places, as math-verify does."""
    verdict = verify(r"\int_0^{\infty} \frac{2\cdot 10^{-17}}{(1+x)^2} \, dx", answer)
    assert (verdict.status, verdict.tier) == (status, "symbolic")


@pytest.mark.parametrize("rows", ["x & y", r"x & y \\ z & 1", r"x \\ y \\ z"])
def test_the_unknowns_of_a_matrix_may_differ_in_case(rows: str):
    """x, y and z may be written in capitals, whatever the shape of the matrix."""
    gold, answer = (rf"\begin{{pmatrix}}{text}\end{{pmatrix}}" for text in (rows, rows.upper()))
    assert verify(gold, answer, options=MathOptions(symbolic=False)).status == "equal"
    other = answer.replace("Y", "E")
    assert verify(gold, other, options=MathOptions(symbolic=False)).status == "different"


@pytest.mark.parametrize(("answer", "place"), [("x+word", 2), ("12x+3+word", 6)])
def test_a_word_that_is_no_mathematics_is_named_with_its_place(answer: str, place: int):
    """Counted in letters, from 0."""
    verdict = verify("x+1", answer, options=MathOptions(symbolic=False))
    assert verdict.status == "answer_unparsable"
    assert verdict.reason == f"the answer: the word 'word' at {place} is not mathematics"


def test_a_side_that_cannot_be_read_is_named():
    """A verdict tells an answer that cannot be read from a gold that cannot."""
    assert verify("4", r"\frac{1}{").status == "answer_unparsable"
    assert verify(r"\frac{1}{", "4").status == "gold_unparsable"


@pytest.mark.slow
def test_what_takes_too_long_is_out_of_time():
    """The deadline ends a comparison, and says so; it is no yes."""
    verdict = verify(r"\sum_{k=1}^{10^8} k^k", "7", timeout=0.5)
    assert verdict.status == "out_of_time"
    assert not verdict


class WithoutText:
    """A value that cannot be written."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


def test_what_fails_on_one_pair_is_the_error_of_that_pair():
    """The others of a batch have their verdicts, and the failure says nothing of its answer."""
    failed, beside = verify_many([("4", WithoutText()), ("4", "4")])
    assert failed == MathVerdict("error", "the comparison failed: RuntimeError: no text", "algebra")
    assert not failed.decided
    assert beside.equal


def test_brackets_nest_sixty_deep():
    """Those that have closed before do not count."""
    nested = [f"(1)+{'(' * depth}2{')' * depth}" for depth in (60, 61)]
    assert [verify("3", text).status for text in nested] == ["equal", "too_large"]


def test_what_is_too_large_is_refused():
    """Texts, nestings and towers beyond any answer are not looked at."""
    assert verify("1", "1" * 5000).status == "too_large"
    assert verify("1", "(" * 100 + "1" + ")" * 100).status == "too_large"
    assert verify("1", "9^{9^{9^{9}}}").status == "too_large"
    assert verify("1", "2^{2^{40}}").status == "too_large"
    assert verify("1", "2^{2^{39}}").status == "different"


CHAINS = {
    "factorials": ("5", "!"),
    "percent signs": ("5", "%"),
    "quotients": ("5", "/2"),
    "degrees": ("5", r"\degree"),
    "powers": ("x", "^2"),
    "unions": ("(1,2)", r"\cup(3,4)"),
    "factorials in percent": ("x", "!%"),
}


@pytest.mark.parametrize("times", [328, 493, 1500])
@pytest.mark.parametrize(("start", "sign"), CHAINS.values(), ids=CHAINS)
def test_a_long_chain_of_signs_is_too_large_and_raises_nothing(start: str, sign: str, times: int):
    """It nests as deep as brackets would: in an answer it is a no, in a gold an error, in a batch its own."""
    text = start + sign * min(times, 4000 // len(sign))
    answer, gold, beside = verify_many([("5", rf"\boxed{{{text}}}"), (text, "5"), ("0.5", "1/2")])
    assert (answer.status, answer.decided) == ("too_large", True)
    assert (gold.status, gold.decided) == ("gold_unparsable", False)
    assert beside.equal


def test_nested_binomial_coefficients_are_not_written_out():
    """Each level has twice the digits of the one below: thirty levels would be half a billion."""
    text = r"\binom{" * 30 + "5" + "}{2}" * 30
    assert not verify("7", text, options=MathOptions(symbolic=False))
    assert not verify(text, f"{text}+1", options=MathOptions(symbolic=False))


def test_the_same_text_is_the_same_however_large():
    """A text equals itself, too long to read or not mathematics at all."""
    tower = "9^{9^{9^{9}}}"
    assert verify(tower, f"${tower}$")
    assert verify("1" * 5000, "1" * 5000)


def test_a_recurring_decimal_of_thousands_of_digits_is_not_read():
    """Three thousand are."""
    long, longer = (rf"0.\overline{{{digits}}}" for digits in ("12" * 1500, "12" * 1501))
    assert verify(long, r"\frac{4}{33}")
    assert verify(longer, "7", options=MathOptions(symbolic=False)).reason.endswith(
        "a recurring decimal is too long"
    )


def test_a_verdict_is_true_when_equal():
    """A verdict can stand in a condition."""
    assert verify("1", "1.0")
    assert not verify("1", "2")


def test_a_batch_keeps_its_order():
    """One verdict a pair, in order, whatever tier decided it."""
    pairs = [("1", "1"), ("x", "y"), ("2", "3"), ("2x", "x+x")]
    assert [bool(verdict) for verdict in verify_many(pairs)] == [True, False, False, True]
    assert asyncio.run(verify_many_async(pairs)) == verify_many(pairs)


async def test_one_pair_can_be_awaited():
    """The same verdict without holding the event loop."""
    assert (await verify_async("1/2", "0.5")).equal


@pytest.mark.parametrize(
    ("gold", "answer"), [(4, "4"), (0.5, r"\frac12"), ([1, 2], "1, 2"), ("4", 4), ("4", 4.0)]
)
def test_golds_need_not_be_text(gold: object, answer: object):
    """Numbers and lists are compared as they are written."""
    assert verify(gold, answer)


@given(st.text(max_size=80))
def test_nothing_raises(text: str):
    """Whatever a model writes, the first two tiers give a verdict or pass it on."""
    assert verify("x+1", text, options=MathOptions(symbolic=False)).status != "error"


@given(
    st.text(alphabet=string.digits + r"+-*/^_=<>!%(){}[]|,.;:\ xyfracsqrtinlogpe$&", max_size=60)
)
def test_nothing_that_looks_like_mathematics_raises(text: str):
    """Broken LaTeX is no exception, on either side."""
    for gold, answer in ((text, "x+1"), ("x+1", text)):
        assert verify(gold, answer, options=MathOptions(symbolic=False)).status != "error"


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"So \boxed{7}.", "7"),
        (r"\boxed{3} was wrong, so after long thought over many lines it must be \boxed{7}", "7"),
        (r"$\boxed{1}$ and $\boxed{2}$", "1, 2"),
        ("We add 3 and 4, so the answer is 7 apples.", "7"),
        ("Final Answer: The largest $n$ is 34.", "34"),
        (r"Thus $x \leq 2$ is what we wanted.", r"x \le 2"),
        ("x = 4", "4"),
        ("**42**", "42"),
        (r"It \(opens and then \(x + 1\) ends", "x+1"),
        (r"So \[y = 2\] and so \(x = \frac{1}{2}\) it is.", "1/2"),
    ],
)
def test_the_answer_is_found_in_a_longer_text(text: str, answer: str):
    """A box comes before words, words before formulas, formulas before numbers."""
    verdict = verify(answer, text, options=MathOptions(symbolic=False))
    assert verdict.equal, verdict


def test_of_many_boxes_in_a_row_the_last_twenty_are_the_answer():
    """However many there are."""
    boxes = ", ".join(rf"\boxed{{{number}}}" for number in range(1, 26))
    assert verify(",".join(map(str, range(6, 26))), boxes)
    assert not verify(",".join(map(str, range(5, 26))), boxes)


@pytest.mark.parametrize(
    "text",
    [
        "3 @ 4 @ 5",
        "not 5",
        "5 or 6",
        "5, 6",
        "The dog ate it.",
        "5 or fewer",
        "5 million",
        "1 5",
        "(a)(5)",
    ],
)
def test_a_number_somewhere_is_no_answer(text: str):
    """A text that says something else is not credited for a number in it."""
    assert not verify("5", text, options=MathOptions(symbolic=False))


@pytest.mark.parametrize(
    ("work", "status", "reason", "is_decided"),
    [
        (
            ("builtins:bytearray", 8 << 30),
            "too_large",
            "the comparison needs more memory than a worker may take",
            True,
        ),
        (("math:sqrt", -1.0), "answer_unparsable", "math-verify failed: ValueError: ", True),
        (
            ("builtins:__import__", "no_such_module"),
            "error",
            "the worker failed: ModuleNotFoundError: ",
            False,
        ),
        (("os:_exit", 3), "error", "the worker failed: ", False),
    ],
)
def test_what_becomes_of_a_worker_is_the_verdict(monkeypatch, work, status, reason, is_decided):
    """Memory and an exception are the answer's doing; a package that is missing and a worker that dies are not."""
    monkeypatch.setattr("assay.math.verification._get_task", lambda question, options: work)
    gold, answer = r"\int_0^{\infty} \frac{1}{(1+x)^2} \, dx", rf"{len(reason)}"
    verdict = verify(gold, answer)
    assert (verdict.status, verdict.decided, verdict.tier) == (status, is_decided, "symbolic")
    assert verdict.reason.startswith(reason)


def test_what_failed_is_asked_again(monkeypatch):
    """A verdict of a worker that failed is not kept: next time the worker may be well."""
    gold, answer = r"\int_0^{\infty} \frac{6}{(1+x)^2} \, dx", "6"
    monkeypatch.setattr(
        "assay.math.verification._get_task", lambda question, options: ("math:sqrt", -1.0)
    )
    assert not verify(gold, answer).equal
    monkeypatch.undo()
    assert verify(gold, answer).equal


def test_a_comparison_has_five_seconds_unless_told_otherwise():
    """Through every function, as the documentation says."""
    functions = (verify, verify_many, verify_async, verify_many_async)
    assert [
        inspect.signature(function).parameters["timeout"].default for function in functions
    ] == [5.0] * 4


def test_a_plain_number_is_compared_without_an_event_loop_a_pool_or_flint():
    """What the first verdict does not need is not started: a reward of numbers costs what numbers cost."""
    program = """
import sys
from assay.math import verify
assert verify("1/2", "0.5").equal
print([name for name in ("asyncio", "flint", "sympy", "assay.isolation.pool", "assay.math.grammar") if name in sys.modules])
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_simple_functions_are_integrated_without_sympy():
    """Exact arithmetic does what it can, and no worker is started for it."""
    program = r"""
import sys
from assay.math import verify
for integral, value in (
    (r"\int_0^2 x^2 \, dx", "8/3"),
    (r"\int_0^{\pi} \sin x \, dx", "2"),
    (r"\int_0^{\pi/2} (3\cos 2x + x) \, dx", r"\frac{\pi^2}{8}"),
    (r"\int_0^1 \frac{e^{2t}}{2} \, dt", r"\frac{e^2-1}{4}"),
    (r"\int_0^1 \sqrt{x} \, dx", "2/3"),
    (r"\int_0^1 \frac{1}{\sqrt{x}} \, dx", "2"),
    (r"\int_1^4 (\sqrt{x} + \frac{1}{\sqrt{x}}) \, dx", "20/3"),
    (r"\int_1^{\infty} \frac{3}{x^2} \, dx", "3"),
    (r"\int_1^e \frac{1}{x} \, dx", "1"),
    (r"\int_2^6 \frac{5}{x} \, dx", r"5\ln 3"),
    (r"\int_0^{\infty} e^{-x} \, dx", "1"),
    (r"\int_{-\infty}^0 e^{3x} \, dx", "1/3"),
    (r"\int_0^1 xe^x \, dx", "1"),
    (r"\int_0^1 \frac{x}{e^x} \, dx", r"1-\frac{2}{e}"),
    (r"\int_0^{\infty} x^5e^{-2x} \, dx", r"\frac{15}{8}"),
    (r"\int_0^{\infty} (x+1)e^{-x} \, dx", "2"),
):
    verdict = verify(value, integral)
    assert (verdict.equal, verdict.tier) == (True, "algebra"), verdict
    assert not verify(value, integral + "+1").equal
assert verify("5050", r"\sum_{k=1}^{100} k").tier == "algebra"
print([name for name in ("sympy", "assay.isolation.pool") if name in sys.modules])
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("integral", "value"),
    [
        (r"\int_{-1}^1 \frac{1}{x} \, dx", "0"),
        (r"\int_{-1}^1 \frac{1}{x^2} \, dx", "-2"),
        (r"\int_0^1 \frac{1}{x^2} \, dx", "-1"),
        (r"\int_{-\infty}^0 e^{-3x} \, dx", "-1/3"),
        (r"\int_0^{\infty} x \, dx", "0"),
        (r"\int_1^{\infty} \frac{1}{\sqrt{x}} \, dx", "-2"),
    ],
)
def test_an_integral_without_a_value_equals_nothing(integral: str, value: str):
    """The difference of an antiderivative at two limits is not an integral over a pole."""
    assert not verify(value, integral, options=MathOptions(symbolic=False)).equal
    assert not verify(value, integral).equal
