"""Reward less the mean of the group's scored rollouts."""

import pytest

from assay import advantages


@pytest.mark.parametrize(
    ("rewards", "expected"),
    [
        ([1.0, 0.0], [0.5, -0.5]),
        ([1.0, 3.0, None], [-1.0, 1.0, None]),
        ([None, None], [None, None]),
        ([0.1] * 3, [0.0] * 3),
        ([5.0], [0.0]),
        ([], []),
    ],
)
def test_reward_less_mean(rewards, expected):
    """None counts for nothing; equal rewards are exactly 0 apart."""
    assert advantages(rewards) == expected


def test_in_units_of_the_standard_deviation():
    """Of 0, 0 and 3 the mean is 1 and the deviation √2."""
    found = advantages([0.0, 0.0, 3.0], normalize="std")
    assert found == pytest.approx([-(0.5**0.5), -(0.5**0.5), 2**0.5])
    assert advantages([0.1] * 3, normalize="std") == [0.0, 0.0, 0.0]
