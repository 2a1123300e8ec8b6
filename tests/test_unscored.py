"""What a trainer that takes only numbers gets for a rollout without a score."""

import pytest

from assay import RubricError
from assay.aggregation import UnscoredError, check_policy, fill_unscored


def test_by_default_nobody_pays_for_a_missing_score():
    """And the error says how many, and why."""
    with pytest.raises(UnscoredError, match=r"1 of 2 .*judge: down"):
        fill_unscored([1.0, None], errors=["", "judge: down"])


def test_zero_is_paid_only_when_asked_for():
    assert fill_unscored([0.5, None], "zero") == [0.5, 0.0]


def test_the_group_mean_leaves_the_baseline_where_it_was():
    """(1 + 0) / 2 in the first group, 3 in the second."""
    filled = fill_unscored([1.0, None, 0.0, 3.0, None], "group_mean", "aaabb")
    assert filled == [1.0, 0.5, 0.0, 3.0, 3.0]


def test_a_group_without_a_score_has_no_mean():
    with pytest.raises(UnscoredError, match="group"):
        fill_unscored([None, 1.0], "group_mean", ["a", "b"])


def test_what_is_dropped_stays_none():
    assert fill_unscored([None, 1.0], "drop") == [None, 1.0]


def test_scores_that_are_all_there_are_left_alone():
    assert fill_unscored([0.0, 1.0], "raise") == [0.0, 1.0]


def test_an_unknown_policy_is_refused_at_once():
    with pytest.raises(RubricError, match=r"'skip'.*'raise'"):
        check_policy("skip")


def test_a_trainer_says_what_it_cannot_do():
    with pytest.raises(RubricError, match=r"verl.*'drop'.*'raise' or 'zero'"):
        check_policy("drop", ("raise", "zero"), "verl")
