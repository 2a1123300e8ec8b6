"""Signs that a model learns to please its reward."""

import pytest

from assay import RubricError
from assay.integrations import Alarms, RewardMonitor
from assay.integrations.monitor import rank_correlation


@pytest.fixture
def said():
    return []


@pytest.fixture
def monitor(said):
    return RewardMonitor(warn=said.append)


def test_longer_answers_that_are_paid_more_are_noticed(monitor, said):
    """Reward and length in the same order: a rank correlation of 1."""
    signs = monitor.observe(["x" * (n + 1) for n in range(20)], [n / 20 for n in range(20)])
    assert signs["length_correlation"] == pytest.approx(1.0)
    assert said == [
        "step 1: length_correlation is 1.00, past 0.5: longer answers are paid more; see whether they are better"
    ]


def test_a_few_rollouts_prove_no_correlation(monitor, said):
    """Three in order happen by chance one time in six."""
    signs = monitor.observe(["x", "xx", "xxx"], [0.1, 0.2, 0.3])
    assert signs["length_correlation"] == 1.0
    assert not [line for line in said if "length" in line]


def test_groups_that_all_get_the_same_teach_nothing(monitor, said):
    """Two of three groups are flat, one of them at the top: 0.67 and 0.33."""
    rewards = [1.0, 1.0, 0.0, 0.0, 0.0, 1.0]
    signs = monitor.observe(list("abcdef"), rewards, groups=[1, 1, 2, 2, 3, 3])
    assert signs["zero_variance"] == pytest.approx(2 / 3)
    assert signs["saturated"] == pytest.approx(1 / 3)


def test_a_warning_is_given_once_until_it_is_over(said):
    """Unscored in steps 1 and 2, fine in 3, unscored again in 4."""
    monitor = RewardMonitor(window=1, warn=said.append)
    for reward in (None, None, 1.0, None):
        monitor.observe(["an answer"], [reward])
    assert [line.split(":")[0] for line in said if "unscored" in line] == ["step 1", "step 4"]


def test_unscored_rollouts_are_counted_and_not_taken_for_zero(monitor):
    signs = monitor.observe(["a", "b", "c", "d"], [None, 1.0, 1.0, 1.0])
    assert signs["unscored"] == 0.25


def test_empty_and_copied_completions_are_counted(monitor):
    signs = monitor.observe(["Solution:", "same", "same", "other"], [0.0, 1.0, 1.0, 0.0])
    assert (signs["degenerate"], signs["repeated"]) == (0.25, 0.25)


def test_the_window_forgets(said):
    """A bad first step is out of sight after one more."""
    monitor = RewardMonitor(window=1, warn=said.append)
    monitor.observe(["a"], [None])
    assert monitor.observe(["b"], [1.0])["unscored"] == 0


async def test_a_second_judge_that_stays_behind_is_drift(monitor, said):
    """Ours rises from 0.5 to 0.9 and theirs stays at 0.5."""

    async def second(rows):
        return [0.5] * len(rows)

    assert await monitor.compare(["a", "b"], [0.5, 0.5], second) == 0
    assert await monitor.compare(["a", "b"], [0.9, None], second) == pytest.approx(0.4)
    assert "drift is 0.40, past 0.1" in said[0]


async def test_a_second_judge_without_an_answer_says_nothing(monitor):
    async def second(rows):
        return [None] * len(rows)

    assert await monitor.compare(["a"], [1.0], second) is None


def test_limits_are_the_users(said):
    monitor = RewardMonitor(alarms=Alarms(unscored=0.9), warn=said.append)
    monitor.observe(["a", "b"], [None, 1.0])
    assert said == []


def test_uneven_columns_are_refused(monitor):
    with pytest.raises(RubricError, match="2 texts and 1 rewards"):
        monitor.observe(["a", "b"], [1.0])


def test_ties_share_their_rank():
    """Ranks 1.5, 1.5, 3 against 1, 2, 3: by hand 1.5 / √(1.5 × 2)."""
    assert rank_correlation([1, 1, 2], [1, 2, 3]) == pytest.approx(1.5 / 3**0.5)


def test_what_does_not_vary_has_no_correlation():
    assert rank_correlation([1, 1, 1], [1, 2, 3]) is None
