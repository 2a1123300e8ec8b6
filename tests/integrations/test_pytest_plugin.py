"""Grades in tests: a threshold is missed when that is sure, and a missing score always."""

import pytest

from assay import Rubric, RubricError
from assay.integrations import assert_grades

pytest_plugins = ("pytester",)


def says_yes(completion):
    return completion == "yes"


def answers(*completions):
    return [{"prompt": str(n), "completion": text} for n, text in enumerate(completions)]


def test_good_answers_pass():
    assert assert_grades(Rubric([says_yes]), answers(*["yes"] * 10), fail_under=0.9).score.mean == 1


def test_a_noisy_point_below_the_threshold_does_not_fail():
    """7 of 10 is below 0.8; Wilson's interval reaches up to 0.892."""
    found = assert_grades(Rubric([says_yes]), answers(*["yes"] * 7, *["no"] * 3), fail_under=0.8)
    assert str(found) == "0.700 (95 %: 0.397 to 0.892) over 10 rollouts"


def test_what_is_surely_below_fails():
    """2 of 10: the interval ends at 0.51."""
    with pytest.raises(AssertionError, match=r"0\.200 .* and surely not 0\.8"):
        assert_grades(Rubric([says_yes]), answers(*["yes"] * 2, *["no"] * 8), fail_under=0.8)


def test_strict_asks_for_proof():
    """10 of 10 has a lower bound of 0.722."""
    rollouts = answers(*["yes"] * 10)
    assert_grades(Rubric([says_yes]), rollouts, fail_under=0.72, strict=True)
    with pytest.raises(AssertionError, match=r"not surely 0\.8"):
        assert_grades(Rubric([says_yes]), rollouts, fail_under=0.8, strict=True)


def test_repeats_of_one_prompt_prove_no_more_than_one():
    """A hundred rollouts of one example have no interval, so strict cannot be met."""
    rollouts = [{"prompt": "same", "completion": "yes"}] * 100
    with pytest.raises(AssertionError, match="one example says too little"):
        assert_grades(Rubric([says_yes]), rollouts, fail_under=0.5, strict=True)


def test_a_rollout_without_a_score_fails_and_says_why():
    def broken(completion):
        raise ConnectionError("no judge")

    with pytest.raises(AssertionError, match="1 of 1 rollouts have no score\n  broken: Conn"):
        assert_grades(Rubric([broken]), answers("yes"), fail_under=0)


def test_no_rollouts_prove_nothing():
    with pytest.raises(RubricError, match="there are no rollouts to grade"):
        assert_grades(Rubric([says_yes]), [], fail_under=0.5)


@pytest.mark.slow
def test_the_fixture_takes_its_threshold_from_the_command_line(pytester):
    """And the summary tells what came out."""
    pytester.makepyfile(
        """
        from assay import Rubric

        def test_answers(grades):
            rollouts = [{"prompt": str(n), "completion": "no"} for n in range(30)]
            grades(Rubric([lambda completion: completion == "yes"]), rollouts)
        """
    )
    assert pytester.runpytest_subprocess("--assay-fail-under=0.5").ret == 1
    fine = pytester.runpytest_subprocess()
    assert fine.ret == 0
    fine.stdout.fnmatch_lines(["*test_answers: 0.000 (95 %: 0.000 to 0.114) over 30 rollouts"])
