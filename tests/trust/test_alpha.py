"""Krippendorff's alpha: the published reliability data, a second implementation, and edges."""

import random

import krippendorff
import numpy as np
import pytest

from assay.trust import krippendorff_alpha
from assay.trust.coefficients import number_alpha, number_sums, table_alpha, tabulate_coincidences
from assay.trust.estimate import ExampleSums

_ = None
# Krippendorff (2011), "Computing Krippendorff's Alpha-Reliability", section C: four observers, twelve units.
# He prints 0.743 (nominal), 0.815 (ordinal) and 0.849 (interval).
OBSERVERS = [
    [1, 2, 3, 3, 2, 1, 4, 1, 2, _, _, _],
    [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, _, 3],
    [_, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, _],
    [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, _],
]
UNITS = [list(unit) for unit in zip(*OBSERVERS, strict=True)]


@pytest.mark.parametrize(
    ("level", "published"), [("nominal", 0.743), ("ordinal", 0.815), ("interval", 0.849)]
)
def test_the_published_data_give_the_published_alpha(level, published):
    """With gaps, and a unit that only one observer saw."""
    assert round(krippendorff_alpha(UNITS, level).value, 3) == published


def test_the_binary_example_without_gaps():
    """Krippendorff (2011), section A: ten units, two observers, four disagreements: 0.095."""
    meg = [0, 1, 0, 0, 0, 0, 0, 0, 1, 0]
    owen = [1, 1, 1, 0, 0, 1, 0, 0, 0, 0]
    assert round(krippendorff_alpha(list(zip(meg, owen, strict=True))).value, 3) == 0.095


@pytest.mark.parametrize("level", ["nominal", "ordinal", "interval"])
@pytest.mark.parametrize("seed", range(5))
def test_it_is_that_of_the_package_krippendorff(level, seed):
    """On random ratings of six raters, a third of them missing."""
    draw = random.Random(seed)
    units = []
    for _unit in range(40):
        true = draw.randrange(5)
        units.append(
            [
                None
                if draw.random() < 0.33
                else min(4, max(0, true + draw.choice([-1, 0, 0, 0, 1])))
                for _rater in range(6)
            ]
        )
    ratings = np.array([[np.nan if a is None else a for a in unit] for unit in units]).T
    theirs = krippendorff.alpha(ratings, level_of_measurement=level)
    assert krippendorff_alpha(units, level).value == pytest.approx(theirs)


def test_the_order_of_texts_can_be_given():
    """Ranks go by `categories`, and not by the alphabet."""
    units = [["poor", "fair"], ["good", "good"], ["fair", "good"], ["poor", "poor"]]
    ranks = [[{"poor": 0, "fair": 1, "good": 2}[a] for a in unit] for unit in units]
    found = krippendorff_alpha(units, "ordinal", categories=["poor", "fair", "good"])
    assert found.value == krippendorff_alpha(ranks, "ordinal").value


@pytest.mark.parametrize("level", ["nominal", "ordinal", "interval"])
def test_one_answer_throughout_has_no_alpha_and_says_why(level):
    """There is no disagreement to expect, so none can be missed."""
    found = krippendorff_alpha([[1, 1], [1, 1, 1]], level)
    assert (found.value, "all answers are the same" in found.reason) == (None, True)


def test_nothing_answered_twice_has_no_alpha():
    """One rater alone agrees with nobody."""
    assert krippendorff_alpha([[1], [2], []]).reason == "nothing was answered twice"


def test_resampling_whole_units_puts_an_interval_round_it():
    """By tables as by sums of numbers: the same figure, and by other draws nearly the same interval."""
    places = [[int(a) - 1 for a in unit if a is not None] for unit in UNITS]
    tables = ExampleSums(np.stack([tabulate_coincidences(unit, 5) for unit in places]))
    sums = ExampleSums(np.stack([number_sums(unit) for unit in places]))
    by_table = tables.estimate(table_alpha("interval", values=range(5)))
    by_sums = sums.estimate(number_alpha)
    assert by_table.value == pytest.approx(by_sums.value)
    assert (by_table.low, by_table.high) == pytest.approx((by_sums.low, by_sums.high), abs=0.03)
    assert by_table.low < 0.849 < by_table.high
