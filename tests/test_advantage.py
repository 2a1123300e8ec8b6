"""Advantages of the rollouts of a group, by every estimator; those without a reward are left out."""

import math

import pytest

from assay import Criterion, Rubric, RubricGroup, advantages, gdpo_advantages


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
    """None counts for nothing; equal rewards are exactly 0 apart; Dr. GRPO has the same advantage."""
    assert advantages(rewards) == expected
    assert advantages(rewards, "dr_grpo") == expected


def test_grpo_divides_by_the_standard_deviation_of_the_sample():
    """Of 0, 0 and 3 the mean is 1, and the deviation √(6/2)."""
    found = advantages([0.0, None, 0.0, 3.0], "grpo", epsilon=0.0)
    assert found == [
        pytest.approx(-1 / 3**0.5),
        None,
        pytest.approx(-1 / 3**0.5),
        pytest.approx(2 / 3**0.5),
    ]
    assert advantages([1.0, 0.0], "grpo", epsilon=1e-4)[0] == pytest.approx(0.5 / (0.5**0.5 + 1e-4))


def test_rloo_compares_with_the_others():
    """Of 6, 0, 3 the others have means of 1.5, 4.5 and 3."""
    assert advantages([6.0, 0.0, None, 3.0], "rloo") == [4.5, -4.5, None, 0.0]


def test_rloo_with_a_baseline_compares_with_that_too():
    """6 against 0 and 3; 0 against 6, 3 and its baseline 3; 3 against 6 and 0. Alone it is reward less baseline: ReMax."""
    assert advantages([6.0, 0.0, 3.0], "rloo", baselines=[None, 3.0, None]) == [4.5, -4.0, 0.0]
    assert advantages([6.0, 1.0, 5.0], "rloo", baselines=[2.0, 2.0, None], groups="abc") == [
        4.0,
        -1.0,
        0.0,
    ]


@pytest.mark.parametrize("estimator", ["mean", "dr_grpo", "grpo", "rloo"])
@pytest.mark.parametrize(
    "rewards", [[2.0], [2.0, None], [None], [0.1] * 7, [1e300, -1e300], [1e-300, 0.0], []]
)
def test_no_estimator_makes_a_number_of_nothing(estimator, rewards):
    """One scored rollout is 0 apart from itself, an unscored one is None, and nothing is NaN or infinite."""
    found = advantages(rewards, estimator)
    assert [number is None for number in found] == [reward is None for reward in rewards]
    assert all(number is None or math.isfinite(number) for number in found)
    if len(rewards) - rewards.count(None) == 1:
        assert 0.0 in found


def test_groups_have_baselines_of_their_own():
    assert advantages([1.0, 10.0, 0.0, None, 20.0], groups=["a", "b", "a", "b", "b"]) == [
        0.5,
        -5.0,
        -0.5,
        None,
        5.0,
    ]


def test_gdpo_normalises_each_criterion_by_itself():
    """Each of 1, 0 and of 0, 100 is ±√½: the sum is 0 for both with equal weights, and follows the heavier otherwise."""
    columns = {"right": [1.0, 0.0], "long": [0.0, 100.0]}
    assert gdpo_advantages(columns) == [pytest.approx(0.0, abs=0.01)] * 2
    assert gdpo_advantages(columns, {"right": 2.0, "long": 1.0}) == pytest.approx(
        [0.5**0.5, -(0.5**0.5)], rel=1e-3
    )


def test_gdpo_normalises_each_criterion_within_its_group():
    """1 and 0 in one group are as far apart as 5 and 1 in the other: ±√½, and over all four ±√¾."""
    found = gdpo_advantages({"right": [1.0, 0.0, 5.0, 1.0]}, groups=["a", "a", "b", "b"])
    large = 0.75**0.5
    assert found == pytest.approx([large, -large, large, -large], rel=1e-3)


def test_a_fault_counts_against_a_rollout_in_gdpo():
    """Its weight is negative, so that the first rollout, which has more of it, has the lower advantage."""
    found = gdpo_advantages({"rude": [1.0, 0.0]}, {"rude": -2.0})
    assert found == pytest.approx([-(0.5**0.5), 0.5**0.5], rel=1e-3)


def test_gdpo_adds_epsilon_to_every_deviation():
    """1 and 0 deviate by √½: 0.5 / (√½ + 1) is 0.2929, which deviates by 0.4142 and comes to 0.2929 / 1.4142."""
    found = gdpo_advantages({"right": [1.0, 0.0]}, epsilon=1.0)
    assert found == pytest.approx([0.20711, -0.20711], rel=1e-4)


def test_gdpo_tells_what_is_missing_from_what_does_not_apply():
    """Without rewards, a gap is an unscored rollout; with them it adds 0 where the rollout has a reward."""
    columns = {"right": [1.0, 0.0, 1.0], "cites": [1.0, 0.0, None]}
    assert gdpo_advantages(columns)[2] is None
    assert gdpo_advantages(columns)[:2] == gdpo_advantages(
        {name: own[:2] for name, own in columns.items()}
    )
    found = gdpo_advantages(columns, rewards=[2.0, 0.0, 1.0])
    assert found[0] > found[2] > found[1]


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: advantages([1.0], "std"), "estimator is 'std'"),
        (lambda: advantages([1.0], "gdpo"), "call gdpo_advantages with a column"),
        (lambda: advantages([1.0], baselines=[0.0]), "'mean' takes no baselines"),
        (lambda: advantages([1.0], "rloo", baselines=[]), "1 rewards and 0 baselines"),
        (lambda: advantages([1.0, 2.0], groups=["a"]), "2 rewards and 1 groups"),
        (lambda: advantages([1.0], groups=["a", "a"]), "1 rewards.*2 groups"),
        (lambda: advantages([math.nan, 1.0]), "nan"),
        (lambda: advantages([math.inf]), "inf"),
        (lambda: advantages([1.0], "rloo", baselines=[math.nan]), "nan"),
        (lambda: gdpo_advantages({}), "no criteria"),
        (lambda: gdpo_advantages({"a": [1.0], "b": []}), "differ in length"),
    ],
)
def test_what_makes_no_sense_is_refused(ask, message):
    with pytest.raises(ValueError, match=message):
        ask()


def right(completion):
    return "4" in completion


def length(completion):
    if completion == "down":
        raise ConnectionError("the judge is down")
    return float(len(completion))


@pytest.mark.parametrize("around", [lambda rubric: rubric, lambda rubric: RubricGroup([rubric])])
@pytest.mark.parametrize("estimator", ["mean", "dr_grpo", "grpo", "rloo", "gdpo"])
async def test_a_group_is_scored_with_any_estimator(around, estimator):
    """The state has what the plain function gives; the metric of weight 0 counts for nothing in GDPO."""
    rubric = around(
        Rubric(
            [
                right,
                Criterion(check=length, weight=-0.01),
                Criterion(check=lambda completion: len(completion), name="m", weight=0),
            ]
        )
    )
    states = [{"completion": text} for text in ("4", "it is 44444", "down", "no")]
    await rubric.score_group(states, advantage=estimator)
    rewards = [state["reward"] for state in states]
    if estimator == "gdpo":
        columns = {"right": [1.0, 1.0, None, 0.0], "length": [1.0, 11.0, None, 2.0]}
        expected = gdpo_advantages(columns, {"right": 1.0, "length": -0.01})
    else:
        expected = advantages(rewards, estimator)
    assert [state["advantage"] for state in states] == expected
    assert expected[2] is None
