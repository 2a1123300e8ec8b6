"""Answers made to hang, swell or confuse: each gets a verdict, and none takes another along."""

import os
import resource
import sys
import threading
from collections import Counter
from pathlib import Path

import pytest
from hostile import good_pairs, hostile_cases

from assay.isolation import shared_pool
from assay.isolation.pool import MEMORY
from assay.math import MathVerdict, verify, verify_many

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
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * unit <= MEMORY + LOADED
