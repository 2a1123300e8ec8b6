"""Golden numbers for every named aggregation, each worked out by hand from its published formula."""

import math

import pytest

from assay import Criterion, Rubric, RubricError
from assay.aggregation import Totals, normalise, share_of, sum_behind
from assay.testing import make_rollout


async def report(lines, aggregation, **options):
    """The report on fixed (weight, value) lines."""
    criteria = [Criterion(check=lambda v=value: v, weight=weight) for weight, value in lines]
    [found] = await Rubric(criteria, aggregation=aggregation, **options).score([make_rollout()])
    return found


GOLDEN = [
    # name, lines as (weight, value), reward, score
    ("weighted", [(10, 1), (8, 0), (-15, 0)], 10.0, 10 / 18),
    ("weighted", [(10, 1), (8, 1), (-15, 1)], 3.0, 3 / 18),
    ("weighted", [(10, 1), (-15, 1)], -5.0, 0.0),
    ("weighted", [(-2, 0), (-3, 0)], 0.0, 1.0),
    ("weighted", [(-2, 1), (-3, 1)], -5.0, 0.0),
    ("weighted", [(-2, 1), (-3, 0)], -2.0, 0.6),
    ("weighted", [(0, 1), (-2, 1)], -2.0, 0.0),
    ("weighted", [(0.8, 1), (0.2, 0.4)], 0.88, 0.88),
    # verifiers: the plain sum, unclamped.
    ("sum", [(1, 1), (0.8, 0.5)], 1.4, 1.4),
    ("sum", [(1, 2), (0.5, 3)], 3.5, 3.5),
    ("sum", [(1, -4)], -4.0, -4.0),
    # Weighted mean: verifiers v1's rubric judge, promptfoo, RaR (sizes and polarity).
    ("mean", [(1.0, 1), (0.7, 0), (0.3, 0.5)], 1.15 / 2.0, 1.15 / 2.0),
    ("mean", [(1.0, 1), (-0.9, 0)], 1.0, 1.0),
    ("mean", [(1.0, 1), (-0.9, 1)], 1.0 / 1.9, 1.0 / 1.9),
    ("mean", [(3, 1), (0, 0), (1, 0)], 0.75, 0.75),
    # HealthBench: points met over positive points; one example may go below 0.
    ("healthbench", [(5, 1), (5, 0), (-8, 1)], -3.0, -0.3),
    ("healthbench", [(5, 1), (5, 1), (-8, 0)], 10.0, 1.0),
    ("healthbench", [(-8, 1)], -8.0, None),
    # All or nothing, and one is enough; a fault passes when it is absent.
    ("all_pass", [(1, 1), (1, 1), (-1, 0)], 1.0, 1.0),
    ("all_pass", [(1, 1), (1, 1), (-1, 1)], 0.0, 0.0),
    ("all_pass", [(1, 1), (9, 0.99)], 0.0, 0.0),
    ("any_pass", [(1, 0), (1, 1)], 1.0, 1.0),
    ("any_pass", [(1, 0), (1, 0.5)], 0.0, 0.0),
    # Metrics take no part.
    ("all_pass", [(1, 1), (0, 0)], 1.0, 1.0),
]


@pytest.mark.parametrize(("name", "lines", "reward", "score"), GOLDEN)
async def test_the_formula_gives_the_number(name, lines, reward, score):
    """Reward and score as its authors define them."""
    found = await report(lines, name)
    assert found.raw_score == pytest.approx(reward)
    assert found.score == (None if score is None else pytest.approx(score))


async def test_a_tree_is_the_weighted_mean_of_its_branches():
    """PaperBench: (2 · (1·1 + 3·0)/4 + 1 · 1) / 3 is 0.5."""
    branch = Rubric(
        [Criterion(check=lambda: 1.0, weight=1), Criterion(check=lambda: 0.0, weight=3)],
        aggregation="tree",
        name="branch",
    )
    root = Rubric(
        [branch.as_criterion(weight=2), Criterion(check=lambda: 1.0, weight=1)], aggregation="tree"
    )
    assert (await root.grade("x")).score == pytest.approx(0.5)


def test_a_tree_takes_no_negative_weight():
    """As PaperBench refuses it, at construction."""
    with pytest.raises(RubricError, match="a tree has no negative weights"):
        Rubric([Criterion(check=lambda: 1.0, weight=-1)], aggregation="tree")


async def test_an_invalid_leaf_of_a_tree_is_missing_and_not_zero():
    """PaperBench counts it as 0; here there is no score, and the mean of what is known stands beside it."""
    found = await report([(1, 1), (1, None)], "tree")
    assert (found.score, found.partial_reward, found.coverage) == (None, 1.0, 0.5)


async def test_a_function_is_an_aggregation_of_its_own():
    """It gets the answered lines; what it returns is reward and score."""

    def worst(lines):
        return min(line.value for line in lines)

    found = await report([(1, 0.7), (1, 0.2)], worst)
    assert (found.raw_score, found.score) == (0.2, 0.2)
    partial = await report([(1, 0.7), (1, 0.2), (1, None)], worst)
    assert (partial.raw_score, partial.partial_reward) == (None, 0.2)
    nothing = await report([(1, 1.0)], lambda lines: math.nan)
    assert (nothing.raw_score, nothing.errors) == (
        None,
        {"<lambda>": "RubricError: aggregation '<lambda>' returned nan: return a finite number"},
    )


async def test_nothing_at_stake_has_no_score():
    """Metrics alone, or nothing answered: None rather than an invented 0."""
    assert (await report([(0, 1)], "weighted")).score is None
    found = await report([(1, None)], "weighted")
    assert (found.score, found.raw_score, found.partial_reward, found.coverage) == (
        None,
        None,
        0.0,
        0.0,
    )


async def test_unanswered_weights_leave_the_denominator():
    """Of 15 points 10 could have been gained by what was answered."""
    found = await report([(10, 1), (5, None)], "weighted")
    assert (found.partial_reward, found.gain) == (10.0, 10.0)


def test_normalise_never_turns_nan_into_a_score():
    """Clamping NaN with min and max gives 1.0 in two peers; weights and values are finite here."""
    with pytest.raises(ValueError, match="finite"):
        Criterion(check=lambda: 1.0, weight=math.nan)


@pytest.mark.parametrize(
    ("totals", "scale", "score"),
    [
        (Totals(12.75, 15, 0), "unit", 0.85),
        (Totals(-9, 0, 60), "unit", 0.85),
        (Totals(20, 15, 0), "unit", 1.0),
        (Totals(20, 16, 0), "open", 1.25),
        (Totals(-3, 10, 8), "open", -0.3),
        (Totals(-3, 0, 8), "open", None),
        (Totals(3.5, 1, 0), "raw", 3.5),
        (Totals(), "unit", None),
    ],
)
def test_one_function_turns_totals_into_a_score(totals, scale, score):
    """Share of the gain, or what is left after the losses."""
    assert normalise(totals, scale) == (None if score is None else pytest.approx(score))


@pytest.mark.parametrize(
    ("totals", "scale", "cap"),
    [
        (Totals(9, 10, 5), "unit", 0.3),
        (Totals(-1, 0, 10), "unit", 0.3),
        (Totals(9, 10, 5), "raw", 0.3),
    ],
)
def test_the_sum_behind_a_score_comes_to_that_score(totals, scale, cap):
    """Whatever the scale: a veto caps the sum there."""
    _, gain, loss = totals
    assert normalise(
        Totals(sum_behind(cap, gain, loss, scale), gain, loss), scale
    ) == pytest.approx(cap)


def test_a_share_of_the_whole_in_points():
    """85 of 100 over 10 + 5 is 12.75; 85 of 100 over faults of 4 is −0.6."""
    assert share_of(0.85, [10, 5, -3]).raw == pytest.approx(12.75)
    assert share_of(0.85, [-4]).raw == pytest.approx(-0.6)
