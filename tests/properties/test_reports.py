"""Reports add up, and scores stay in range, for rubrics at random."""

import asyncio

import pytest
from hypothesis import given

from assay import EvaluationReport, RubricGroup
from assay.testing import make_state, rubrics

reports = rubrics().map(lambda rubric: rubric.grade_sync("text"))


def same(one, other):
    """Equal, up to the last digits of floating point."""
    assert one.raw_score == pytest.approx(other.raw_score)
    assert one.score == (None if other.score is None else pytest.approx(other.score))
    assert (one.gain, one.loss) == pytest.approx((other.gain, other.loss))
    assert (one.asked, one.answered) == (other.asked, other.answered)
    assert list(one.lines) == list(other.lines)


@given(reports, reports, reports)
def test_addition_is_associative(a, b, c):
    """Grouping does not matter."""
    same((a + b) + c, a + (b + c))


@given(reports)
def test_the_empty_report_adds_nothing(report):
    """On either side."""
    assert report + EvaluationReport() == report == EvaluationReport() + report


@given(rubrics(), rubrics())
def test_a_group_is_the_sum_of_its_rubrics(a, b):
    """Scored together or apart."""
    together = RubricGroup([a, b]).grade_sync("text")
    same(together, EvaluationReport.summed([a.grade_sync("text"), b.grade_sync("text")]))


@given(rubrics())
def test_scores_are_between_zero_and_one(rubric):
    """Or None when nothing is at stake."""
    score = rubric.grade_sync("text").score
    assert score is None or 0.0 <= score <= 1.0


@given(rubrics())
def test_every_door_gives_the_same_number(rubric):
    """Graded, rewarded or filtered: one number."""
    raw = rubric.grade_sync("text").raw_score
    assert rubric.score_rollout_sync(completion="text")["reward"] == raw
    state = make_state("text")
    asyncio.run(rubric.score_group([state]))
    assert state["reward"] == raw


@given(rubrics())
def test_a_report_survives_plain_data(rubric):
    """To a dict and back."""
    report = rubric.grade_sync("text")
    assert EvaluationReport.from_dict(report.to_dict()) == report
