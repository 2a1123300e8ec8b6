"""A cheaper tier says what a dearer one would say."""

from itertools import chain

import pytest
from generated import identities, numbers, polynomials

from assay.isolation import shared_pool
from assay.math import MathOptions, verify, verify_many
from assay.math.algebra import decide
from assay.math.normalization import settle
from assay.math.verdict import OpenQuestion

RULES = MathOptions()


@pytest.mark.slow
def test_numbers_are_what_they_are_made_to_be():
    """Twenty thousand pairs of spellings of numbers: equal exactly when the numbers are."""
    pairs = list(numbers(seed=1, size=20_000))
    verdicts = verify_many((gold, answer) for gold, answer, _ in pairs)
    wrong = [
        (pair, verdict)
        for pair, verdict in zip(pairs, verdicts, strict=True)
        if verdict.equal is not pair[2]
    ]
    assert not wrong[:5]


@pytest.mark.slow
def test_algebra_says_of_numbers_what_normalizing_says():
    """What the first tier settles, the second settles the same way."""
    wrong = []
    for gold, answer, _ in numbers(seed=2, size=6000):
        first, second = settle(gold, answer, RULES), decide(gold, answer, RULES)
        if first is not None and (
            isinstance(second, OpenQuestion) or first.equal is not second.equal
        ):
            wrong.append((gold, answer, first, second))
    assert not wrong[:5]


@pytest.mark.slow
def test_expressions_are_what_they_are_made_to_be():
    """Three thousand pairs, decided by algebra alone: none needs simplification, none is wrong."""
    pairs = list(chain(polynomials(seed=3, size=1500), identities(seed=4, size=1500)))
    wrong = []
    for gold, answer, same in pairs:
        verdict = settle(gold, answer, RULES) or decide(gold, answer, RULES)
        if isinstance(verdict, OpenQuestion) or verdict.equal is not same:
            wrong.append((gold, answer, same, verdict))
    assert not wrong[:5]


@pytest.mark.slow
def test_algebra_says_what_math_verify_says():
    """Two hundred and fifty pairs through math-verify itself: the same verdicts."""
    pairs = list(chain(numbers(5, 120), polynomials(6, 80), identities(7, 50)))
    pool = shared_pool("assay.math.symbolic")
    futures = [
        pool.submit("assay.math.symbolic:compare", gold, answer, 6, timeout=60)
        for gold, answer, _ in pairs
    ]
    wrong = []
    for (gold, answer, same), future in zip(pairs, futures, strict=True):
        theirs = future.result()
        if theirs.value["equal"] is not same:
            wrong.append((gold, answer, same, theirs))
    assert not wrong[:5]


@pytest.mark.parametrize("seed", [8, 9])
def test_the_sides_may_be_exchanged(seed: int):
    """For numbers and expressions it makes no difference which of the two is the gold."""
    for gold, answer, _ in chain(numbers(seed, 400), polynomials(seed, 200), identities(seed, 200)):
        assert verify(gold, answer).equal is verify(answer, gold).equal
