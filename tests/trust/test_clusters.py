"""Intervals by resampling whole examples."""

import numpy as np
import pytest
from scipy.stats import bootstrap, norm, t

from assay.trust.estimate import MEAN, SHARE, ExampleSums


def sums_of(values):
    return np.stack([np.asarray(values, dtype=float), np.ones(len(values))], axis=1)


def test_the_interval_is_that_of_scipy():
    """Bias-corrected and accelerated, on a skewed sample, for ends moved out as Student's t is."""
    values = np.random.default_rng(5).exponential(size=30)
    found = ExampleSums(sums_of(values), resamples=40_000).estimate(MEAN)
    reach = t.ppf(0.975, 29) * (30 / 29) ** 0.5
    theirs = bootstrap(
        (values,),
        np.mean,
        n_resamples=40_000,
        method="BCa",
        confidence_level=2 * norm.cdf(reach) - 1,
        rng=np.random.default_rng(6),
    ).confidence_interval
    assert found.value == pytest.approx(values.mean())
    assert (found.low, found.high) == pytest.approx((theirs.low, theirs.high), abs=0.02)


def test_repeated_answers_do_not_make_the_interval_shorter():
    """Ten equal answers about each example say no more than one."""
    values = [0.0, 1.0, 1.0, 0.0, 1.0, 1.0, 1.0, 0.0, 1.0, 1.0]
    once = ExampleSums(sums_of(values)).estimate(MEAN)
    tenfold = ExampleSums(sums_of(values) * 10).estimate(MEAN)
    assert (once.low, once.high) == (tenfold.low, tenfold.high)


def test_the_same_seed_gives_the_same_interval():
    """And another seed nearly the same."""
    values = np.random.default_rng(1).normal(size=40)
    first, again, other = (
        ExampleSums(sums_of(values), seed=seed).estimate(MEAN) for seed in (3, 3, 4)
    )
    assert first == again
    assert first.low == pytest.approx(other.low, abs=0.05)


def test_examples_that_are_all_alike_are_not_certain():
    """10 of 10: a share has Wilson's bound, 10 / (10 + 1.96²); other figures none."""
    clustered = ExampleSums(sums_of([1.0] * 10))
    share, other = clustered.estimate(SHARE), clustered.estimate(MEAN)
    assert (share.value, share.high) == (1.0, 1.0)
    assert share.low == pytest.approx(10 / (10 + 1.959964**2))
    assert (other.low, other.reason) == (None, "no interval: all 10 examples are equal in this")


def test_a_share_of_few_is_that_of_few():
    """3 of 3, among a hundred examples of which the others have none to count: Wilson for 3 of 3."""
    sums = np.zeros((100, 2))
    sums[:3] = 1.0
    found = ExampleSums(sums).estimate(SHARE)
    assert (found.low, found.high) == pytest.approx((3 / (3 + 1.959964**2), 1.0))


def test_the_order_of_rollouts_changes_nothing():
    """0.1 + 0.2 + 0.3 is not 0.3 + 0.2 + 0.1 in the last digit, and the same to us."""
    parts = [[0.1, 0.2, 0.3], [0.7, 0.1, 0.4], [0.2, 0.9, 0.3], [0.5, 0.1, 0.1]] * 5
    there = np.array([[sum(each), 3.0] for each in parts])
    mixed = np.array([[sum(each[:: 1 if n < 10 else -1]), 3.0] for n, each in enumerate(parts)])
    assert len(np.unique(there)) < len(np.unique(mixed))
    one, other = ExampleSums(there).estimate(MEAN), ExampleSums(mixed).estimate(MEAN)
    assert (one.low, one.high) == pytest.approx((other.low, other.high), abs=1e-12)


def test_one_example_has_a_value_and_no_interval():
    """There is nothing to resample."""
    found = ExampleSums(sums_of([0.5])).estimate(MEAN)
    assert (found.value, found.low, found.high) == (0.5, None, None)
    assert "a single example" in found.reason


def test_a_figure_that_many_resamples_lack_has_no_interval():
    """Its value stands."""
    sums = sums_of([1.0] * 10)
    sums[1:, :] = 0.0
    found = ExampleSums(sums).estimate(MEAN)
    assert (found.value, found.low) == (1.0, None)
    assert found.reason == "no interval: in many resamples nothing was counted"


def test_many_examples_are_resampled_in_pieces():
    """The pieces join to as many resamples as were asked for."""
    clustered = ExampleSums(np.ones((50_000, 2)), resamples=200)
    assert clustered.resampled_sums.shape == (200, 2)
    assert (clustered.resampled_sums == 50_000).all()


def test_drawing_equal_examples_together_changes_nothing():
    """300 yes and 100 no: as few kinds, and as many by a trace that makes all of them differ."""
    values = np.array([1.0] * 300 + [0.0] * 100)
    traced = values + np.arange(400) * 1e-9
    together = ExampleSums(sums_of(values), resamples=8000).estimate(MEAN)
    apart = ExampleSums(sums_of(traced), resamples=8000).estimate(MEAN)
    assert (together.low, together.high) == pytest.approx((apart.low, apart.high), abs=0.004)
