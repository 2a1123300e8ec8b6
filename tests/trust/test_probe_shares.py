"""Shares of clustered trials: by hand, and against Wilson's interval where there are no clusters."""

import numpy as np
import pytest

from assay.trust import wilson
from assay.trust.probe_shares import clustered_wilson


def test_clusters_of_one_are_independent_trials():
    """3 of 10: the spread between them is that of a binomial, but for the 10/9 of a small sample.

    By hand: squares 3 × 0.49 + 7 × 0.09 = 2.1, variance 10/9 × 2.1/100 = 0.02333, and 0.21/0.02333 = 9.
    """
    found = clustered_wilson([(1, 1)] * 3 + [(0, 1)] * 7)
    assert found.value == pytest.approx(0.3)
    expected = wilson(0.3 * 9, 9)
    assert (found.low, found.high) == (pytest.approx(expected.low), pytest.approx(expected.high))


def test_trials_that_always_agree_count_once_a_cluster():
    """Four clusters of two: variance 4/3 × 4/64 = 1/12, so 0.25 × 12 = 3 trials, and not 8.

    Wilson of 1.5 in 3: centre 0.5, half 1.96/2.2805 × √(0.25/3 + 1.2805/12) = 0.3747.
    """
    found = clustered_wilson([(2, 2), (2, 2), (0, 2), (0, 2)])
    assert found.value == 0.5
    assert found.low == pytest.approx(0.1253, abs=5e-4)
    assert found.high == pytest.approx(0.8747, abs=5e-4)


def test_trials_that_are_spread_evenly_count_for_no_more_than_there_are():
    """Every cluster has 1 of 2: no spread between them, which must not make the share certain."""
    found = clustered_wilson([(1, 2)] * 4)
    assert found == wilson(4, 8)


@pytest.mark.parametrize(("successes", "clusters"), [(0, 5), (3, 5)])
def test_without_any_spread_a_cluster_is_one_trial(successes, clusters):
    """None or all of 5 × 3 trials: as none or all of 5."""
    found = clustered_wilson([(successes, 3)] * clusters)
    assert found == wilson(clusters if successes else 0, clusters)


def test_one_cluster_is_one_trial():
    """2 of 4 about one thing say little: 0.09 to 0.91."""
    found = clustered_wilson([(2, 4)])
    assert found == wilson(0.5, 1)


def test_nothing_has_no_share():
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
