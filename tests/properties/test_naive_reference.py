"""Random rubrics against a naive reference: thirty lines of arithmetic that share nothing with the library."""

import asyncio
import json
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay import Criterion, EvaluationReport, GradingError, Rollout, Rubric, RubricGroup, Score
from assay.integrations.step import Step
from assay.runs import score_rows
from assay.runs.row import RowForm

WEIGHTS = st.sampled_from([-3.7, -1.0, -0.1, 0.0, 0.1, 0.2, 0.3, 0.7, 1.0, 2.5, 1e-3, 1e6])
ANSWERS = st.sampled_from([0.0, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, True, False, "N/A", "error"])
RUBRICS = st.lists(st.lists(st.tuples(WEIGHTS, ANSWERS), max_size=5), min_size=1, max_size=3)
SCALES = st.sampled_from(["weighted", "sum", "healthbench"])


def naive(rubrics):
    """The reward, or None when unscored; and the sums of what was answered, exact until the last step."""
    lines = [line for rubric in rubrics for line in rubric if line[0]]
    applying = [(weight, answer) for weight, answer in lines if answer != "N/A"]
    sums = []
    for rubric in rubrics:
        exact = Fraction(0)
        for weight, answer in rubric:
            if answer not in ("N/A", "error"):
                exact += Fraction(weight * float(answer))
        sums.append(Fraction(float(exact)))
    partial = float(sum(sums))
    failed = any(answer == "error" for _, answer in applying)
    return (None if failed or not applying else partial), partial


def share(rubrics, reward, scale):
    """The score of a reward: a share of what could be gained, or what is left after the faults."""
    counted = [weight for rubric in rubrics for weight, answer in rubric if answer != "N/A"]
    gain = float(sum(Fraction(weight) for weight in counted if weight > 0))
    loss = float(sum(Fraction(-weight) for weight in counted if weight < 0))
    if reward is None or scale == "sum":
        return reward
    if gain:
        found = reward / gain
    elif loss and scale == "weighted":
        found = 1 + reward / loss
    else:
        return None
    return min(1.0, max(0.0, found)) if scale == "weighted" else found


def answering(answer):
    def check(completion):
        if answer == "error":
            raise OSError("gone")
        return Score.not_applicable() if answer == "N/A" else answer

    return check


def built(rubrics, scale):
    """The same as a rubric, or as a group of rubrics; their criteria have equal names."""
    made = [
        Rubric(
            [
                Criterion(check=answering(answer), weight=weight, name=f"c{place}")
                for place, (weight, answer) in enumerate(lines)
            ],
            aggregation=scale,
        )
        for lines in rubrics
    ]
    return made[0] if len(made) == 1 else RubricGroup(made)


def every_way(rubric):
    """The reward of one completion by every way in, and its report by those that give one."""
    states = [{"completion": "x"}, {"completion": "x"}]
    *_, report = asyncio.run(rubric.score_group(states))
    yield states[0]["reward"], report
    yield rubric.score_rollouts(["", ""], ["x", "x"], ["", ""])["reward"][1], None
    [report] = asyncio.run(rubric.score([Rollout(completion="x")]))
    yield report.raw_score, report
    try:
        report = rubric.grade_sync("x")
    except GradingError as error:
        report = error.report
    yield report.raw_score, report
    rows = []
    asyncio.run(score_rows(rubric, [{"completion": "x"}], on_row=rows.append))
    yield rows[0].reward, rows[0].report
    form = RowForm(rubric.criteria)
    report = form.read_report(json.loads(json.dumps(form.shorten(rows[0].report))))
    yield report.raw_score, report
    report = EvaluationReport.from_dict(json.loads(json.dumps(report.to_dict())))
    yield report.raw_score, report
    [scored] = asyncio.run(Step(rubric).score([{"completion": "x"}]))
    yield scored.reward, None


@pytest.mark.slow
@given(RUBRICS, SCALES)
@settings(max_examples=150, deadline=None)
def test_every_way_in_gives_the_same_number_to_the_last_bit(rubrics, scale):
    """And the same as the reference."""
    rubric = built(rubrics, scale)
    reward, partial = naive(rubrics)
    score = share(rubrics, reward, scale)
    for found, report in every_way(rubric):
        assert found == reward
        if report is not None:
            assert report.partial_reward == partial
            assert report.score == (score if score is None else pytest.approx(score, rel=1e-12))


@given(RUBRICS)
@settings(max_examples=50, deadline=None)
def test_groups_in_groups_give_the_same_metrics_in_states_and_reports(rubrics):
    """To the last bit, though names are shared."""
    inner = built([*rubrics, [(1.0, 0.1)]], "weighted")
    outer = RubricGroup(
        [built([[(1.0, 0.2)]], "weighted"), inner, built([[(1.0, 0.7)]], "weighted")]
    )
    state = {"completion": "x"}
    [report] = asyncio.run(outer.score_group([state]))
    assert state["metrics"] == report.metrics


@pytest.mark.parametrize("weight", [5e-324, -5e-324, 1e-101])
def test_a_weight_that_is_next_to_nothing_is_refused(weight):
    """Beside a larger one its share would be infinite, and half of it nothing."""
    with pytest.raises(ValueError, match=r"too small: give 0 for a metric, or at least 1e-100"):
        Criterion(check=answering(1.0), weight=weight)


def test_the_smallest_weights_beside_the_largest_give_a_finite_score():
    """A fault of 1e100 beside a gain of 1e-100."""
    rubric = built([[(1e-100, 1.0), (-1e100, 1.0)]], "healthbench")
    assert rubric.grade_sync("x").score == -1e200
