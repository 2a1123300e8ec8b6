"""Tests of differences: published tables, worked numbers and second implementations."""

import numpy as np
import pytest
from scipy.stats import permutation_test
from statsmodels.stats.contingency_tables import mcnemar as their_mcnemar
from statsmodels.stats.multitest import multipletests

from assay.trust import holm, mcnemar, sign_flip
from assay.trust.significance import minimum_detectable_effect


class TestMcNemar:
    @pytest.mark.parametrize(("better", "worse"), [(59, 121), (150, 86), (1, 7), (0, 5), (12, 12)])
    def test_it_is_that_of_statsmodels(self, better, worse):
        """121 and 59, and 150 and 86 (Agresti 1990, the approval of the prime minister), among them."""
        theirs = their_mcnemar([[0, better], [worse, 0]], exact=True).pvalue
        assert mcnemar(better, worse) == pytest.approx(theirs)

    def test_by_hand(self):
        """1 of 8 changes against: (1 + 8) of 256 ways, on both sides."""
        assert mcnemar(1, 7) == pytest.approx(2 * 9 / 256)

    def test_nothing_changed_is_no_evidence(self):
        """p is 1."""
        assert mcnemar(0, 0) == 1.0


class TestSignFlip:
    def test_all_ways_of_a_few_differences_by_hand(self):
        """Four of one sign: 2 of 16 ways are as extreme."""
        assert sign_flip([0.2, 0.3, 0.1, 0.4]) == 2 / 16

    def test_fishers_plants(self):
        """Fisher (1935), The Design of Experiments, section 21: Darwin's 15 pairs of maize, p = 0.05267."""
        darwin = [49, -67, 8, 16, 6, 23, 28, 41, 14, 29, 56, 24, 75, 60, -48]
        assert sign_flip(darwin) == pytest.approx(0.05267, abs=0.006)

    def test_it_is_that_of_scipy(self):
        """On ten differences, in all 1,024 ways."""
        values = np.random.default_rng(2).normal(0.3, 1, size=10)
        theirs = permutation_test(
            (values, np.zeros(10)),
            lambda one, other, axis: np.mean(one - other, axis=axis),
            permutation_type="samples",
            vectorized=True,
            n_resamples=np.inf,
        ).pvalue
        assert sign_flip(values) == pytest.approx(theirs)

    def test_yes_and_no_give_mcnemar(self):
        """The same test by another road."""
        assert sign_flip([1.0] * 9 + [-1.0] * 2 + [0.0] * 30) == pytest.approx(mcnemar(9, 2))

    def test_no_difference_is_no_evidence(self):
        """Nothing, or zeros."""
        assert (sign_flip([]), sign_flip([0.0, 0.0])) == (1.0, 1.0)

    def test_many_differences_never_give_p_zero(self):
        """A sample of flips cannot show less than one in 10,001."""
        assert sign_flip([1.0] * 200) == pytest.approx(1 / 10_001)


class TestHolm:
    def test_the_usual_example(self):
        """0.005 · 4, 0.01 · 3, 0.03 · 2, and 0.04, which may not be less."""
        assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])

    def test_it_is_that_of_statsmodels(self):
        """Ties and large values too."""
        values = [0.2, 0.01, 0.01, 0.9, 0.04, 0.6]
        theirs = multipletests(values, method="holm")[1]
        assert holm(values) == pytest.approx(list(theirs))

    def test_nothing_to_adjust(self):
        """No values, no result."""
        assert holm([]) == []


class TestSmallestEffect:
    def test_by_hand(self):
        """Differences with spread 1, a hundred of them: Student's t with 99 degrees, (1.984 + 0.845) / 10."""
        values = np.array([1.0, -1.0] * 50)
        expected = (1.984217 + 0.845265) * values.std(ddof=1) / 10
        assert minimum_detectable_effect(values) == pytest.approx(expected, rel=1e-5)

    def test_many_tests_see_less(self):
        """Ten criteria: a p-value must be below 0.005, whose t is 2.871."""
        values = np.array([1.0, -1.0] * 50)
        expected = (2.871310 + 0.845265) * values.std(ddof=1) / 10
        assert minimum_detectable_effect(values, tests=10) == pytest.approx(expected, rel=1e-4)

    @pytest.mark.parametrize(
        ("examples", "tests", "seen"), [(5, 1, False), (6, 1, True), (6, 2, False)]
    )
    def test_too_few_examples_can_show_nothing(self, examples, tests, seen):
        """All of n rise with a chance of 2 in 2**n: 0.0625 for five, and 0.03125 for six."""
        found = minimum_detectable_effect([0.1 * n for n in range(examples)], tests=tests)
        assert (found is not None) is seen

    def test_an_effect_of_that_size_is_found_four_times_in_five(self):
        """By drawing 200 samples of twelve differences that have it, with a spread of 1."""
        draw = np.random.default_rng(8)
        values = draw.normal(size=12)
        size = minimum_detectable_effect(values) / values.std(ddof=1)
        found = sum(sign_flip(sample) < 0.05 for sample in draw.normal(size, 1, size=(200, 12)))
        assert 145 <= found <= 175

    def test_without_spread_there_is_none(self):
        """Nothing can be said."""
        assert (minimum_detectable_effect([0.1]), minimum_detectable_effect([0.0, 0.0])) == (
            None,
            None,
        )


def test_flipping_equal_differences_together_changes_nothing():
    """60 of 100 rose by the same; and by as much and a trace."""
    same = [0.1] * 60 + [-0.1] * 40
    traced = [value + place * 1e-9 for place, value in enumerate(same * 3)]
    assert sign_flip(same * 3) == pytest.approx(sign_flip(traced), abs=0.002)
