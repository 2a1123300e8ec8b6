"""Reports as values: what their lines hold, what they come to, and how they are written and read back."""

import asyncio
import json
import pickle

import pytest

from assay import (
    Criterion,
    CriterionReport,
    EvaluationReport,
    PerCriterionGrader,
    PerCriterionOutput,
    Rollout,
    Rubric,
    RubricGroup,
    Score,
)

FAILED = Score.failed("ValueError: no")


def line(name, value=1.0, **fields):
    return CriterionReport(name=name, value=value, **fields)


def criterion(name, answer, **fields):
    """A criterion whose check gives this answer about every rollout."""
    return Criterion(check=lambda: answer, name=name, **fields)


def report_of(*criteria, **options):
    """The report of a rubric of these criteria on a rollout."""
    [report] = asyncio.run(Rubric(criteria, **options).score([Rollout(completion="a")]))
    return report


@pytest.mark.parametrize(
    ("answer", "verdict", "value"),
    [
        (True, "good", 1.0),
        (False, "poor", 0.0),
        (0.5, None, 0.5),
        (Score(0.5, verdict="fair"), "fair", 0.5),
        (FAILED, None, None),
        (Score.not_applicable(), "N/A", None),
    ],
)
def test_the_answer_of_a_check_has_a_verdict_where_it_chooses(answer, verdict, value):
    """A bare yes is the best choice, and a bare no the worst."""
    [shown] = report_of(criterion("depth", answer, choices=["poor", "fair", "good"])).lines
    assert (shown.verdict, shown.value) == (verdict, value)


def test_a_verdict_decides_whether_a_line_passed():
    """Its value may differ, as where a panel takes the mean of several verdicts."""
    lines = report_of(
        criterion("met", Score(0.6, verdict="MET")),
        criterion("unmet", Score(1.0, verdict="UNMET")),
        criterion("number", 0.6),
        criterion("enough", 0.6, pass_at=0.6),
        criterion("fault", 0.6, weight=-1),
    ).lines
    assert [line.passed for line in lines] == [True, False, False, True, True]


def test_only_what_was_asked_and_has_no_error_is_answered():
    """That a question does not apply is an answer."""
    lines = [
        line("a"),
        line("b", None, error="E: no"),
        line("c", None, asked=False),
        line("d", None, verdict="N/A"),
    ]
    assert [one.answered for one in lines] == [True, False, False, True]
    assert [one.applies for one in lines] == [True, True, True, False]
    assert Score(0.5).applies
    assert not Score.not_applicable().applies


def test_a_report_is_written_and_read_back():
    """Fields, lines and vetoes are the same after JSON."""
    report = report_of(
        criterion("gate", 0.0, required=True, cap=0.25),
        criterion("b", 1.0, weight=3, tags=("style",)),
    )
    assert (report.score, report.raw_score, report.vetoed_by) == (0.25, 1.0, ("gate",))
    again = EvaluationReport.from_dict(json.loads(report.model_dump_json()))
    assert again == report
    assert again.metrics == {"gate": 0.0, "b": 1.0}
    assert report.to_dict()["report"][1]["tags"] == ["style"]
    assert EvaluationReport.from_dict({"score": 0.5}).to_dict()["report"] is None


def test_an_outcome_of_zero_is_written_and_read_back():
    """A shaping paid 0.5 for it."""
    report = report_of(criterion("a", 0.0), shaping=[{"rescale": {"shift": 0.5}}])
    again = EvaluationReport.from_dict(json.loads(report.model_dump_json()))
    assert (again.raw_score, again.outcome) == (0.5, 0.0)


@pytest.mark.parametrize(
    ("cap", "value", "score"),
    [(0.5, 1.0, 0.5), (0.5, 0.5, 0.375), (0.75, 1.0, 0.75), (0.9, 1.0, 0.75), (0.0, 1.0, 0.0)],
)
def test_a_veto_caps_the_score_and_never_raises_it(cap, value, score):
    """Without the veto, the score is three quarters of the value of `b`."""
    report = report_of(
        criterion("gate", 0.0, required=True, cap=cap), criterion("b", value, weight=3)
    )
    assert (report.score, report.vetoed_by) == (score, ("gate",))


def test_only_a_counted_criterion_has_a_veto():
    """One that is only reported has none; one with the weight 0 counts by its veto alone."""
    shown = report_of(
        criterion("gate", 0.0, required=True, report_only=True), criterion("b", 1.0, weight=3)
    )
    assert (shown.score, shown.vetoed_by) == (1.0, ())
    weightless = report_of(
        criterion("gate", 0.0, required=True, weight=0, cap=0.25), criterion("b", 1.0, weight=3)
    )
    assert (weightless.score, weightless.vetoed_by) == (0.25, ("gate",))


def test_a_tag_has_the_score_of_its_counted_lines():
    """Of style 2 of 3 points are gained; what is only reported counts in no tag."""
    report = report_of(
        criterion("a", 1.0, weight=2, tags=("style",)),
        criterion("b", 0.0, tags=("style", "facts")),
        criterion("c", 0.0, weight=5, tags=("style",), report_only=True),
    )
    assert report.tag_scores == {"style": pytest.approx(2 / 3), "facts": 0.0}


@pytest.mark.parametrize(("aggregation", "score"), [("weighted", 0.0), ("healthbench", -2.0)])
def test_the_score_of_a_tag_goes_below_0_where_scores_do(aggregation, score):
    """A fault of 3 beside 1 point that is gained."""
    report = report_of(
        criterion("a", 1.0, tags=("style",)),
        criterion("b", 1.0, weight=-3, tags=("style",)),
        aggregation=aggregation,
    )
    assert report.tag_scores == {"style": score}


def test_only_a_judged_rubric_has_the_number_of_a_judge():
    def judge(system_prompt, user_prompt):
        return PerCriterionOutput(criterion_status="MET", explanation="so")

    assert report_of(criterion("a", 1.0)).llm_raw_score is None
    assert report_of(criterion("a", 1.0, required=True)).llm_raw_score is None
    judged = Rubric([criterion("a", 1.0), Criterion(requirement="Is polite", weight=2)])
    report = judged.grade_sync("a", judge=PerCriterionGrader(generate_fn=judge))
    assert (report.raw_score, report.llm_raw_score) == (3.0, 3.0)


def test_why_a_rollout_is_unscored_is_told_by_name():
    """Only counted lines matter, unless none of them failed; and nothing is missing where there is a reward."""
    assert report_of(criterion("a", 1.0)).why_unscored == {}
    both = report_of(
        criterion("a", FAILED), criterion("b", FAILED, report_only=True), criterion("c", 1.0)
    )
    assert both.why_unscored == {"a": "ValueError: no"}
    assert both.errors == {"a": "ValueError: no", "b": "ValueError: no"}


@pytest.mark.parametrize("aggregation", ["weighted", "sum", "mean", "healthbench", "all_pass"])
def test_a_rollout_to_which_nothing_applies_is_unscored(aggregation):
    """Under every rule; it has no zero."""
    report = report_of(criterion("a", Score.not_applicable()), aggregation=aggregation)
    assert (report.score, report.raw_score, report.scored, report.applies) == (
        None,
        None,
        False,
        False,
    )
    assert list(report.why_unscored) == ["rubric"]
    assert report.why_unscored["rubric"].startswith("NotApplicable: ")


def test_a_reward_without_a_score_is_a_reward():
    """Where only faults are asked about, a rule without bounds has no score to give."""
    report = report_of(criterion("rude", 1.0, weight=-2), aggregation="healthbench")
    assert (report.score, report.raw_score) == (None, -2.0)
    assert report.scored
    assert report.applies
    assert report.why_unscored == {}


def test_a_whole_that_a_judge_scored_applies_without_lines():
    report = EvaluationReport(score=0.5, raw_score=1.0)
    assert (report.scored, report.applies, report.coverage) == (True, True, 1.0)


def test_a_report_that_misses_an_answer_has_no_reward_of_any_kind():
    """What was answered stands apart."""
    report = EvaluationReport(
        score=0.5,
        raw_score=1.0,
        llm_raw_score=2.0,
        unshaped=3.0,
        step_rewards={"m1": 1.0},
        asked=2,
        answered=1,
    )
    assert (report.score, report.raw_score, report.llm_raw_score) == (None, None, None)
    assert (report.outcome, report.step_rewards) == (None, {"m1": None})
    assert (report.partial_reward, report.coverage) == (1.0, 0.5)


def test_only_lines_about_steps_are_steps():
    about = CriterionReport(lines=(line("m1", 0.5, step=True), line("judge-a", 1.0)))
    assert about.steps == {"m1": 0.5}


def test_what_was_not_needed_is_not_covered():
    """Two lines of four decided the result: coverage is one half. A copy may change that."""
    report = EvaluationReport(raw_score=1.0, asked=2, answered=2, unneeded=2)
    assert report.coverage == 0.5
    assert report.model_copy() == report
    assert report.model_copy(update={"unneeded": 0}).coverage == 1.0


def test_a_report_that_says_nothing_else_has_no_line():
    """No line was asked or answered, nothing is at stake, and there is no reward."""
    empty = EvaluationReport()
    assert (empty.asked, empty.answered, empty.unneeded, empty.gain, empty.loss) == (
        0,
        0,
        0,
        0.0,
        0.0,
    )
    assert (empty.coverage, empty.partial_reward, empty.scored, empty.lines) == (
        1.0,
        0.0,
        False,
        (),
    )
    assert CriterionReport().counted
    assert CriterionReport().weight == 1.0


def test_lines_of_one_name_are_added_in_metrics():
    """And their disagreements are told by name, where there are any."""
    report = EvaluationReport(
        report=[line("a", 0.5), line("a", 0.25, disagreement=0.5), line("b", None, error="E: no")],
        asked=3,
        answered=2,
    )
    assert report.metrics == {"a": 0.75}
    assert report.disagreements == {"a": 0.5}
    assert report.coverage == pytest.approx(2 / 3)


def test_a_sum_of_reports_keeps_what_only_one_of_them_says():
    """The judge's own number and the first reason that was given; the sum of nothing is the empty report."""
    one = EvaluationReport(
        score=0.5, raw_score=1.0, gain=2.0, asked=1, answered=1, llm_raw_score=7.0, reason="so"
    )
    two = EvaluationReport(
        score=1.0, raw_score=2.0, gain=2.0, asked=1, answered=1, report=[line("b", 1.0, weight=2)]
    )
    both = one + two
    assert (both.score, both.raw_score, both.gain, both.asked, both.answered) == (
        0.75,
        3.0,
        4.0,
        2,
        2,
    )
    assert (both.llm_raw_score, both.reason, [one.name for one in both.lines]) == (7.0, "so", ["b"])
    assert (one + one).llm_raw_score is None
    assert (one + one).report is None
    assert EvaluationReport() + EvaluationReport() == EvaluationReport()
    assert EvaluationReport() + two == two


def test_a_sum_of_reports_is_covered_as_far_as_its_parts_are():
    """Each part has one answer and one line that was not needed; what judges were shown is said once."""
    part = EvaluationReport(
        raw_score=1.0, gain=2.0, asked=1, answered=1, unneeded=1, shown="last; left out: 3 texts"
    )
    both = part + part
    assert (both.unneeded, both.coverage) == (2, 0.5)
    assert both.shown == "last; left out: 3 texts"


def test_a_sum_over_different_scales_is_a_share():
    """Between 0 and 1, and unscored where a part misses an answer."""
    one = report_of(criterion("a", 1.0, weight=2), aggregation="sum")
    two = report_of(criterion("b", 0.0, weight=2))
    assert (one + two).scale == "unit"
    assert (one + two).score == 0.5
    missing = one + report_of(criterion("c", FAILED))
    assert (missing.score, missing.raw_score, missing.partial_reward) == (None, None, 2.0)


async def test_reports_on_a_group_come_in_order_and_can_be_pickled():
    reports = await Rubric([lambda completion: float(len(completion))]).score_group(
        [{"completion": text} for text in ("a", "bb", "ccc")]
    )
    assert len(reports) == 3
    assert [report.raw_score for report in reports] == [1.0, 2.0, 3.0]
    assert list(pickle.loads(pickle.dumps(reports))) == list(reports)


async def test_a_report_can_be_pickled_although_its_checks_cannot():
    [report] = await Rubric([lambda: 0.5, lambda: Score.failed("E: no")]).score(
        [Rollout(completion="a")]
    )
    assert [line.name for line in report.lines] == ["check_1", "check_2"]
    assert report.errors == {"check_2": "E: no"}
    assert report.metrics == {"check_1": 0.5}
    assert pickle.loads(pickle.dumps(report)) == report


async def test_a_group_of_which_nothing_applies_is_unscored():
    """One rubric that does not apply adds nothing; where none applies there is no reward, and the state says so."""
    idle, half = Rubric([lambda: Score.not_applicable()]), Rubric([lambda: 0.5])
    state = {"completion": "a"}
    await RubricGroup([idle, half]).score_group([state])
    assert state["reward"] == 0.5
    assert not state.get("errors")
    await RubricGroup([idle, idle]).score_group([state])
    assert state["reward"] is None
    assert list(state["errors"]) == ["rubric"]
    assert state["errors"]["rubric"].startswith("NotApplicable: ")
