"""Answers made to hang, swell or confuse: each gets a verdict, and none takes another along."""

import os
import resource
import sys
import threading
import tracemalloc
from collections import Counter
from pathlib import Path

import pytest
from hostile import good_pairs, hostile_cases

from assay.isolation import shared_pool
from assay.isolation.pool import DEFAULT_MEMORY
from assay.math import MathOptions, MathVerdict, verify, verify_many

LOADED = 256 << 20
"""Bytes that a worker has before its first task, and then some: its limit counts from there."""


def own_processes():
    """The children of this process, dead ones that nobody waited for among them."""
    lists = Path(f"/proc/{os.getpid()}/task").glob("*/children")
    return {pid for text in lists for pid in text.read_text().split()}


def test_the_table_holds_hundreds_of_cases_and_no_name_twice():
    """So that a name says which."""
    names = Counter(case.name for case in hostile_cases())
    assert len(names) >= 200
    assert set(names.values()) == {1}


def test_good_pairs_are_distinct():
    """No cache answers for another."""
    assert len(set(good_pairs(200))) == 200


TOO_LARGE = (
    "(-1)^{2^{10^{12}}}",
    "3^{2^{2^{39}}}",
    r"\gcd(2^{2^{39}},3)",
    r"\lcm(2^{2^{39}},3)",
    r"\binom{7}{2^{2^{39}}}",
    r"\binom{2^{2^{39}}}{1.5}",
    r"\sqrt[2^{2^{39}}]{3}",
    r"\sinh(2^{2^{39}})",
    r"\sinh(10^{1000})",
    "<".join("x" * 1000),
)


@pytest.mark.parametrize("answer", TOO_LARGE, ids=lambda answer: answer[:40])
def test_an_answer_that_is_too_large_is_wrong_and_harms_nothing(answer: str):
    """Each took gigabytes of memory, or raised."""
    verdict = verify("(3,2)" if "<" in answer else "7", answer)
    assert (verdict.status, verdict.equal, verdict.decided) == ("too_large", False, True)


@pytest.mark.parametrize(
    "gold", [*TOO_LARGE[:-1], "x^{x^{x^{x^{10^9}}}}"], ids=lambda gold: gold[:40]
)
def test_a_reference_that_is_too_large_is_an_error(gold: str):
    """No answer can be right or wrong by it."""
    verdict = verify(gold, "x" if "x" in gold else "7")
    assert (verdict.status, verdict.decided) == ("gold_unparsable", False)
    assert "too large" in verdict.reason


N = 10**79 + 3 * 10**40 + 1234567891


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        ("-1", rf"10^{{40}}\cos\frac{{\pi}}{{{N}}}-10^{{40}}"),
        ("0", rf"10^{{40}}\cos\frac{{\pi}}{{{N}}}-10^{{40}}"),
        ("x", r"\frac{x^{4000}-y^{4000}}{x^{3999}-y^{3999}}"),
        (
            r"\frac{x^{4000}-y^{4000}}{x^{3999}-y^{3999}}",
            r"\frac{x^{4000}-y^{4000}+1-1}{x^{3999}-y^{3999}}+x-y",
        ),
        ("x", r"x+0\cdot(((2x)^{4096})^{4096})^{4096}"),
        ("7", "((((((2^{40})^{40})^{40})^{40})^{40})^{40})^{40}"),
        ("(3,2)", ",".join(["x<1"] * 900)),
    ],
    ids=["factoring", "factoring for a proof", "divisor", "difference", "power", "tower", "list"],
)
def test_an_answer_that_would_take_hours_is_not_equal(gold: str, answer: str):
    verdict = verify(gold, answer, options=MathOptions(symbolic=False))
    assert not verdict.equal
    assert verdict.decided


def test_large_numbers_are_compared_in_a_worker_process():
    assert verify("2^{30000}", "4^{15000}").equal
    assert not verify("2^{30000}", "4^{15001}").equal


@pytest.mark.parametrize(
    "answer",
    [
        r"1\mathrm{" + " " * 4000 + "1",
        r"1\mathrm{" + "$" * 4000,
        r"1\mathrm{" + r"\quad " * 600 + "1",
        "1" + " " * 4000 + "!",
        r"\text{" + " " * 4000 + "1",
    ],
    ids=["spaces in a font", "dollars in a font", "quads in a font", "spaces", "spaces in text"],
)
def test_a_run_of_spaces_is_read_in_linear_time(answer: str):
    """Three of these took minutes."""
    assert not verify("7", answer).equal


def test_of_a_megabyte_of_boxes_only_the_last_are_read():
    assert verify("7", r"\boxed{7}" * 100_000).equal
    assert verify(
        "7", r"\boxed{8}. So it was wrong, and the answer is \boxed{7}" + "{}" * 100_000
    ).equal
    assert not verify("7", r"\boxed{" * 100_000).equal


@pytest.mark.slow
def test_hostile_answers_harm_neither_the_good_ones_nor_the_process():
    """A verdict each and no wrong yes, every good answer right, nothing left, memory in bounds."""
    shared_pool().close()
    processes, threads = own_processes(), set(threading.enumerate())
    cases, good = hostile_cases(), good_pairs(200)
    pairs = [(case.gold, case.answer) for case in cases]

    verdicts = verify_many([*pairs, *good], timeout=0.5)

    assert len(verdicts) == len(pairs) + len(good)
    assert {type(verdict) for verdict in verdicts} == {MathVerdict}
    hostile = list(zip(cases, verdicts, strict=False))
    assert not [case.name for case, v in hostile if v.equal and case.expected is not True]
    assert not [case.name for case, v in hostile if v.status == "error"]
    assert not [pair for pair, v in zip(good, verdicts[len(cases) :], strict=True) if not v.equal]

    shared_pool().close()
    assert set(threading.enumerate()) <= threads
    assert own_processes() <= processes
    unit = 1 if sys.platform == "darwin" else 1024
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * unit <= DEFAULT_MEMORY + LOADED


def test_long_texts_are_not_kept_in_memory():
    """Caches of verdicts and readings held the whole of every completion without a box."""
    text = "so it is hard to say " * 50_000 + "but {} is the answer"

    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for number in range(8):
        assert not verify("-1", text.format(number)).equal
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert after - before < len(text)
