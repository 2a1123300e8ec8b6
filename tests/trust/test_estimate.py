"""Intervals of shares: published examples and a second implementation."""

import numpy as np
import pytest
from scipy.stats import binomtest

from assay.trust import wilson
from assay.trust.estimate import clustered_wilson, subtract_shares


def ends(estimate):
    return estimate.low, estimate.high


@pytest.mark.parametrize(
    ("successes", "trials"), [(0, 10), (1, 10), (81, 263), (10, 10), (500, 999)]
)
def test_wilson_is_that_of_scipy(successes, trials):
    """81 of 263 is the example of Newcombe (1998), with 0.2553 to 0.3662 by Wilson."""
    theirs = binomtest(successes, trials).proportion_ci(method="wilson")
    assert ends(wilson(successes, trials)) == pytest.approx((theirs.low, theirs.high))


def test_the_published_difference():
    """Newcombe (1998), Statistics in Medicine 17:873, 56/70 - 48/80 by method 10: 0.0524 to 0.3339."""
    found = subtract_shares(wilson(56, 70), wilson(48, 80))
    assert found.value == pytest.approx(0.2)
    assert [round(end, 4) for end in ends(found)] == [0.0524, 0.3339]


def test_nothing_counted_has_no_share():
    """Not 0."""
    assert wilson(0, 0).reason == "nothing was counted"
    assert wilson(0, 0).value is None
    assert subtract_shares(wilson(0, 0), wilson(1, 2)).value is None


class TestClusters:
    def test_trials_alone_have_wilsons_own_interval(self):
        """Every cluster is one trial."""
        assert clustered_wilson([(1, 1)] * 9 + [(0, 1)]) == wilson(9, 10)

    def test_equal_trials_of_a_cluster_say_as_much_as_one(self):
        """Each of 20 tenfold: 19 independent ones by the spread, and Student's t for Wilson's 1.96."""
        found = clustered_wilson([(10, 10)] * 12 + [(0, 10)] * 8)
        weight = 2.093024**2 / 19
        half = 2.093024 * (0.6 * 0.4 / 19 + weight / (4 * 19)) ** 0.5
        centre = 0.6 + weight / 2
        expected = [(centre - half) / (1 + weight), (centre + half) / (1 + weight)]
        assert ends(found) == pytest.approx(tuple(expected), rel=1e-5)

    def test_where_all_succeed_a_cluster_counts_as_one(self):
        """Five clusters of a hundred: 5 of 5; clusters without a trial are none."""
        assert clustered_wilson([(100, 100)] * 5 + [(0, 0)]) == wilson(5, 5)

    def test_one_cluster_is_one_trial(self):
        """2 of 4 about one thing say little: 0.09 to 0.91."""
        assert clustered_wilson([(2, 4)]) == wilson(0.5, 1)

    def test_trials_that_are_spread_evenly_count_for_no_more_than_there_are(self):
        """1 of 2 in each of 50: no spread between them, which must not make the share certain."""
        found = clustered_wilson([(1, 2)] * 50)
        assert ends(found) == pytest.approx(ends(wilson(50, 100)), abs=0.005)

    def test_nothing_has_no_share(self):
        """And the reason why."""
        assert clustered_wilson([]).value is None
        assert clustered_wilson([(0, 0)]).reason == "nothing was counted"


@pytest.mark.parametrize(
    ("attacks", "criteria", "share", "alike"),
    [
        (32, 4, 0.1, 0.5),
        (192, 8, 0.02, 0.9),
        (192, 8, 0.5, 0.5),
        (12, 2, 0.5, 0.9),
        (32, 4, 0.1, 0),
    ],
)
def test_the_interval_covers_where_a_plain_one_does_not(attacks, criteria, share, alike):
    """At least 90 times in 100 at a nominal 95 %, however much an attack does the same everywhere.

    Attacks succeed with probabilities that are beta distributed; `alike` is the correlation between two
    trials of one attack. A plain Wilson interval takes them for independent, and covers far less.
    """
    generator = np.random.default_rng(7)
    chances = np.full((500, attacks), share)
    if alike:
        spread = (1 - alike) / alike
        chances = generator.beta(share * spread, (1 - share) * spread, (500, attacks))
    covered = plain = 0
    for successes in generator.binomial(criteria, chances):
        found = clustered_wilson([(int(count), criteria) for count in successes])
        naive = wilson(int(successes.sum()), attacks * criteria)
        covered += found.low <= share <= found.high
        plain += naive.low <= share <= naive.high
    assert covered >= 0.9 * 500
    assert plain < 0.9 * 500 if alike else plain >= 0.9 * 500
