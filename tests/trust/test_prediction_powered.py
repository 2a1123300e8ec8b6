"""Means over labels that the judge's other answers make sharper."""

import numpy as np
import pytest
import statsmodels.api as sm

from assay.trust.bias import Observed, correlation, label_budget, power_tuning, prediction_powered
from assay.trust.estimate import estimate_mean


def half_width(estimate):
    return (estimate.high - estimate.low) / 2


def observed(judge, people, examples=None):
    places = range(len(judge)) if examples is None else examples
    return Observed(*(np.array(column, dtype=float) for column in (judge, people, places)))


NAN = float("nan")


def scores(count, labelled, noise, seed=0):
    """People's scores, and a judge that is off by 0.2 and some noise."""
    draw = np.random.default_rng(seed)
    people = draw.uniform(size=count)
    judge = people + 0.2 + noise * draw.normal(size=count)
    return observed(judge, np.where(np.arange(count) < labelled, people, np.nan)), people


def test_a_constant_bias_is_taken_out():
    """The judge is 0.2 too high throughout: the mean of people comes out, as sharp as all of them."""
    found, people = scores(2000, 100, noise=1e-6)
    estimate = prediction_powered(found)
    assert estimate.value == pytest.approx(people.mean(), abs=1e-3)
    assert half_width(estimate) < 1.1 * half_width(estimate_mean(people, np.arange(2000.0)))


def test_the_tuning_is_the_slope_of_people_on_judge():
    """By least squares, shrunk by the labelled share (PPI++, section 6): statsmodels has the same slope."""
    found, _ = scores(500, 100, noise=0.3)
    judge, people = found.judge[found.labelled], found.people[found.labelled]
    slope = sm.OLS(people, sm.add_constant(judge)).fit().params[1]
    assert power_tuning(found) == pytest.approx(slope / (1 + 100 / 400))


def test_the_estimate_by_hand():
    """λ = 1/3: people - λ·judge is 1/2 - 1/6 on the labelled, the others' judge mean 3/4: 7/12."""
    judge = [0.0, 1.0, 0.0, 1.0, 1.0, 1.0, 1.0, 0.0]
    people = [0.0, 1.0, 0.0, 1.0, NAN, NAN, NAN, NAN]
    # Half an answer of each kind is made up: 2.5, 0.5, 0.5 and 2.5 of 6 have the slope 2/3; halved by 1 + 4/4.
    assert power_tuning(observed(judge, people)) == pytest.approx(1 / 3)
    assert prediction_powered(observed(judge, people)).value == pytest.approx(7 / 12)


def test_a_judge_that_knows_nothing_leaves_the_labels_alone():
    """λ near 0, and nearly the interval of the labels."""
    draw = np.random.default_rng(4)
    people = np.where(np.arange(1000) < 200, draw.uniform(size=1000), np.nan)
    found = observed(draw.uniform(size=1000), people)
    alone = estimate_mean(people[:200], np.arange(200.0))
    assert power_tuning(found) < 0.1
    assert half_width(prediction_powered(found)) == pytest.approx(half_width(alone), rel=0.05)


def test_everything_labelled_is_the_mean_of_the_labels():
    """There is nothing left to predict."""
    people = [0.2, 0.4, 0.9, 0.5] * 10
    found = observed([0.5, 0.1, 0.8, 0.3] * 10, people)
    assert power_tuning(found) == 0.0
    assert prediction_powered(found).value == pytest.approx(0.5)


def test_a_judge_never_seen_to_err_is_not_perfect():
    """40 labels without an error do not exclude that 1 in 20 is wrong, so the interval stays open."""
    judge = [1.0, 0.0] * 5000
    found = observed(judge, judge[:40] + [NAN] * 9960)
    assert half_width(prediction_powered(found)) > 0.04
    # Scores that agree to the last digit leave the same room.
    agreeing = [0.3, 0.8] * 5000
    assert half_width(prediction_powered(observed(agreeing, agreeing[:40] + [NAN] * 9960))) > 0.04


def test_rates_stay_between_0_and_1():
    """Whatever the sums say."""
    judge = [0.0] * 200
    people = [0.0] * 39 + [1.0] + [NAN] * 160
    found = prediction_powered(observed(judge, people))
    assert 0.0 <= found.low < found.value < found.high <= 1.0


def test_repeated_rollouts_widen_the_interval():
    """Four equal rollouts of an example are one observation."""
    found, _ = scores(100, 60, noise=0.3)
    columns = (np.tile(column, 4) for column in (found.judge, found.people))
    together = Observed(*columns, np.tile(np.arange(100.0), 4))
    assert half_width(prediction_powered(together)) == pytest.approx(
        half_width(prediction_powered(found)), rel=0.02
    )


class TestBudget:
    def test_labels_needed_to_halve(self):
        """No judge and endless rollouts: variance 1/n, so four times the labels."""
        draw = np.random.default_rng(3)
        people = np.where(np.arange(100_000) < 100, draw.normal(size=100_000), np.nan)
        found = observed(draw.normal(size=100_000), people)
        assert label_budget(found)[0] == pytest.approx(300, abs=15)

    def test_a_run_that_is_too_small_says_so(self):
        """50 of 60 are labelled: the ten that are left do not halve anything."""
        found, _ = scores(60, 50, noise=0.3)
        more, left = label_budget(found)
        assert more is None
        assert 0.8 < left <= 1.0


def test_correlation_needs_both_to_vary():
    """None, and not 0."""
    assert correlation(observed([1.0, 1.0], [0.0, 1.0])) is None
    assert correlation(observed([0.0, 1.0], [0.0, 1.0])) == pytest.approx(1.0)
