"""Confidence intervals of means over rollouts, some of which belong to the same example."""

import random

import pytest

from assay.runs.stats import Mean, Spread, student, wilson_bounds


class TestByHand:
    def test_rollouts_of_one_example_count_for_less(self):
        """Four examples, 2 2 0 0 of 2: Σ(S − 1)² = 4, variance 4/3·4/64 = 1/12, so 3 answers and t = 3.18."""
        bounds = Spread(0.5, 4.0, 8, 4, is_share=True).bounds()
        assert bounds == pytest.approx(wilson_bounds(0.5, 3.0, student(3)))

    def test_the_effective_count_never_exceeds_the_number_of_rollouts(self):
        """1 of 2 in every example: no variance between examples, so eight independent answers."""
        assert Spread(0.5, 0.0, 8, 4, is_share=True).bounds() == wilson_bounds(0.5, 8, student(3))

    def test_if_all_rollouts_are_equal_each_example_counts_once(self):
        """Eight of eight successes are as certain as four of four."""
        assert Spread(1.0, 0.0, 8, 4, is_share=True).bounds() == wilson_bounds(1.0, 4)

    def test_means_of_numbers_use_students_t(self):
        """Sums 1, 2, 3 of one each: mean 2, error √(3/2·2)/3 = 1/√3, t = 4.303."""
        low, high = Spread(2.0, 2.0, 3, 3, is_share=False).bounds()
        assert (high - 2.0, 2.0 - low) == pytest.approx((4.302653 / 3**0.5,) * 2)

    def test_other_confidence_levels_use_other_quantiles(self):
        """A normal quantile of 1.645 and t of 2.92 give 90 %."""
        low, high = Spread(2.0, 2.0, 3, 3, is_share=False).bounds(1.645, 2.92)
        assert high - low == pytest.approx(2 * 2.92 / 3**0.5)


@pytest.mark.slow
@pytest.mark.parametrize("rate", [0.05, 0.5, 0.9])
@pytest.mark.parametrize(("examples", "rollouts"), [(20, 8), (40, 4), (100, 2)])
def test_intervals_for_repeated_rollouts_have_the_right_coverage(rate, examples, rollouts):
    """Rollouts of one example share its difficulty: the true rate lies inside in 90 to 99 % of trials."""
    generator = random.Random(20_240_601)
    covered = 0
    for _ in range(600):
        mean = Mean()
        for example in range(examples):
            success_rate = generator.betavariate(rate * 2, (1 - rate) * 2)
            for _ in range(rollouts):
                mean.add(generator.random() < success_rate, example)
        estimate = mean.estimate()
        covered += estimate.low <= rate <= estimate.high
    assert 0.90 <= covered / 600 <= 0.99
