"""Rates with a judge's false alarms and misses taken out."""

import math

import numpy as np
import pytest

from assay.trust.bias import (
    ErrorRates,
    Observed,
    beats_chance,
    clustered_rogan_gladen,
    rogan_gladen,
    sensitivity,
    specificity,
)


def half_width(estimate):
    return (estimate.high - estimate.low) / 2


def rates(positives, rollouts, hits, people_yes, false_alarms, people_no, is_separate_sample=False):
    return ErrorRates(
        positives, rollouts, hits, people_yes, false_alarms, people_no, is_separate_sample
    )


def test_the_published_herd():
    """epiR, `epi.prev`: 23 of 150 cows positive, sensitivity 96 %, specificity 89 %: 5.1 in 100."""
    assert round(rogan_gladen(rates(23, 150, 96, 100, 11, 100)).value, 3) == 0.051


def test_a_rate_below_what_false_alarms_give_is_none():
    """Moujaber et al. (2008), in the same place: 6 of 151 at 96.4 % and 92.7 %: 0, not below."""
    found = rogan_gladen(rates(6, 151, 964, 1000, 73, 1000))
    assert (found.value, found.low) == (0.0, 0.0)
    assert found.high < 0.03


@pytest.mark.parametrize(
    "counts",
    [(5000, 10_000, 4500, 5000, 500, 5000), (180, 400, 40, 50, 12, 60), (30, 90, 9, 11, 1, 30)],
)
def test_the_interval_is_that_of_lang_and_reiczigel_when_labels_are_apart(counts):
    """Their formula (Prev. Vet. Med. 113:13, 2014), which arXiv 2511.21140 uses for judges, written out."""
    positives, rollouts, hits, yes, alarms, no = counts
    z = 1.959963984540054
    p = (positives + z**2 / 2) / (rollouts + z**2)
    se, sp = (hits + 1) / (yes + 2), (no - alarms + 1) / (no + 2)
    rate = (p + sp - 1) / (se + sp - 1)
    v_se, v_sp = se * (1 - se) / (yes + 2), sp * (1 - sp) / (no + 2)
    shift = 2 * z**2 * (rate * v_se - (1 - rate) * v_sp)
    spread = p * (1 - p) / (rollouts + z**2) + rate**2 * v_se + (1 - rate) ** 2 * v_sp
    half = z * math.sqrt(spread) / (se + sp - 1)
    found = rogan_gladen(rates(*counts, is_separate_sample=True))
    assert (found.low, found.high) == pytest.approx((rate + shift - half, rate + shift + half))


def test_labels_inside_the_run_are_not_counted_twice():
    """With every rollout labelled only the people's own rate is left: 1.96 · √(0.4 · 0.6 / 2000)."""
    inside = rogan_gladen(rates(920, 2000, 680, 800, 240, 1200))
    apart = rogan_gladen(rates(920, 2000, 680, 800, 240, 1200, is_separate_sample=True))
    assert inside.value == pytest.approx(0.4)
    assert half_width(inside) == pytest.approx(1.96 * math.sqrt(0.4 * 0.6 / 2000), rel=0.02)
    assert half_width(apart) > 1.5 * half_width(inside)


@pytest.mark.parametrize(
    ("hits", "yes", "alarms", "no", "better"),
    [
        (45, 50, 5, 50, True),
        (25, 50, 25, 50, False),
        (28, 50, 22, 50, False),
        (10, 50, 40, 50, False),
        (3, 3, 0, 0, False),
    ],
)
def test_better_than_chance_has_to_be_clear(hits, yes, alarms, no, better):
    """56 % against 44 % of fifty could be chance; below it is no better; without a no, nobody knows."""
    judge = [1] * hits + [0] * (yes - hits) + [1] * alarms + [0] * (no - alarms)
    labelled = observed(judge, [1] * yes + [0] * no, range(yes + no))
    assert beats_chance(labelled) is better


def test_copies_of_labels_make_no_judge_better():
    """34 of 50 hits and 26 of 50 alarms: of 100 examples it could be chance; so it is of each four times."""
    judge, people = [1] * 34 + [0] * 16 + [1] * 26 + [0] * 24, [1] * 50 + [0] * 50
    once = observed(judge, people, range(100))
    apart = observed(judge * 4, people * 4, range(400))
    together = observed(judge * 4, people * 4, list(range(100)) * 4)
    assert [beats_chance(each) for each in (once, apart, together)] == [False, True, False]
    assert sensitivity(together).low == pytest.approx(sensitivity(once).low, abs=0.01)
    assert specificity(together).low == pytest.approx(specificity(once).low, abs=0.01)


def observed(judge, people, examples):
    return Observed(*(np.array(column, dtype=float) for column in (judge, people, examples)))


def test_repeated_rollouts_widen_the_interval():
    """The same answers, as 400 examples and as 100 examples with four equal rollouts each."""
    judge = [1, 1, 1, 0, 0, 0, 1, 0] * 12 + [1, 0, 1, 0]
    people = [1, 1, 0, 0, 0, 1, 1, 0] * 6 + [np.nan] * 52
    apart = observed(judge * 4, people * 4, range(400))
    together = observed(judge * 4, people * 4, list(range(100)) * 4)
    once = observed(judge, people, range(100))
    assert clustered_rogan_gladen(apart).value == clustered_rogan_gladen(together).value
    found = half_width(clustered_rogan_gladen(together))
    assert found > 1.8 * half_width(clustered_rogan_gladen(apart))
    assert found == pytest.approx(half_width(clustered_rogan_gladen(once)), rel=0.1)


@pytest.mark.parametrize("by_example", ["misses", "alarms"])
def test_errors_that_come_by_whole_examples_widen_the_interval(by_example):
    """As much as the rate spreads when whole examples are drawn anew: the judge errs in all eight of one, or none."""
    draw = np.random.default_rng(4)
    examples, each = 300, 8
    people = np.repeat(np.arange(examples) < 200, each)
    together, apart = np.repeat(draw.random(examples) < 0.2, each), draw.random(2400) < 0.2
    errs = np.where(people == (by_example == "misses"), together, apart)
    known = np.where(np.repeat(draw.random(examples) < 0.3, each), people, np.nan)
    columns = (people ^ errs).astype(float), known, np.repeat(np.arange(float(examples)), each)
    rates: list[float] = []
    for _ in range(1000):
        rows = (draw.integers(examples, size=examples)[:, None] * each + np.arange(each)).ravel()
        drawn = Observed(*(column[rows] for column in columns))
        rates.append(rogan_gladen(ErrorRates.of(drawn)).value)
    found = half_width(clustered_rogan_gladen(Observed(*columns))) / 1.96
    assert found == pytest.approx(np.std(rates), rel=0.05)
