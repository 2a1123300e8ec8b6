"""Intervals of shares: published examples and a second implementation."""

import pytest
from scipy.stats import binomtest

from assay.trust import clopper_pearson, wilson
from assay.trust.shares import share_difference


def ends(estimate):
    return estimate.low, estimate.high


@pytest.mark.parametrize(
    ("successes", "trials"), [(0, 10), (1, 10), (81, 263), (10, 10), (500, 999)]
)
def test_wilson_and_clopper_pearson_are_those_of_scipy(successes, trials):
    """81 of 263 is the example of Newcombe (1998), with 0.2553 to 0.3662 by Wilson."""
    theirs = binomtest(successes, trials)
    by_score, exact = (theirs.proportion_ci(method=method) for method in ("wilson", "exact"))
    assert ends(wilson(successes, trials)) == pytest.approx((by_score.low, by_score.high))
    assert ends(clopper_pearson(successes, trials)) == pytest.approx((exact.low, exact.high))


def test_the_published_difference():
    """Newcombe (1998), Statistics in Medicine 17:873, 56/70 - 48/80 by method 10: 0.0524 to 0.3339."""
    found = share_difference((56, 70), (48, 80))
    assert found.value == pytest.approx(0.2)
    assert [round(end, 4) for end in ends(found)] == [0.0524, 0.3339]


def test_nothing_counted_has_no_share():
    """Not 0."""
    assert wilson(0, 0).value is None
    assert clopper_pearson(0, 0).reason == "nothing was counted"
    assert share_difference((0, 0), (1, 2)).value is None
