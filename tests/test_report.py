"""Reports as values: what their lines say in a word, what they come to, and how they are written and read back."""

import json
import pickle

import pytest

from assay import Criterion, EvaluationReport, Rubric, RubricGroup, Score
from assay.report import CriterionReport, aggregate, as_score, shorten_answer
from assay.testing import make_rollout


def line(name, value=1.0, **fields):
    return CriterionReport(name=name, value=value, **fields)


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"value": 0.25}, "0.25"),
        ({"value": 1 / 3}, "0.3333"),
        ({"value": 1.0, "verdict": "MET"}, "MET"),
        ({"verdict": "N/A"}, "N/A"),
        ({"error": "ValueError: no"}, "error"),
        ({"asked": False}, "not asked"),
        ({"asked": False, "error": "ValueError: no"}, "error"),
        ({}, ""),
    ],
)
def test_a_line_says_its_answer_in_a_word(fields, word):
    """The verdict before the number, and an error before both."""
    assert CriterionReport(**fields).short_answer == word


@pytest.mark.parametrize(
    ("answer", "word"),
    [
        (True, "good"),
        (False, "poor"),
        (0.5, "0.5"),
        (Score(0.5, verdict="fair"), "fair"),
        (Score.failed("ValueError: no"), "error"),
        (Score.not_applicable(), "N/A"),
    ],
)
def test_an_answer_says_the_same_without_a_line(answer, word):
    """A bare yes is the best choice, and a bare no the worst."""
    criterion = Criterion(requirement="Depth", choices=["poor", "fair", "good"])
    assert shorten_answer(as_score(criterion, answer)) == word


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
    criteria = [
        Criterion(check=len, name="gate", required=True, cap=0.25),
        Criterion(check=len, name="b", weight=3),
    ]
    report = aggregate(
        [line("gate", 0.0, passed=False), line("b", 1.0, weight=3, tags=("style",))], criteria
    )
    assert (report.score, report.raw_score, report.vetoed_by) == (0.25, 1.0, ("gate",))
    again = EvaluationReport.from_dict(json.loads(report.model_dump_json()))
    assert again == report
    assert again.metrics == {"gate": 0.0, "b": 1.0}
    assert report.to_dict()["report"][1]["tags"] == ["style"]
    assert EvaluationReport.from_dict({"score": 0.5}).to_dict()["report"] is None


def test_why_a_rollout_is_unscored_is_told_by_name():
    """Only counted lines matter, unless none of them failed; and nothing is missing where there is a reward."""
    failed = {"error": "ValueError: no"}
    assert aggregate([line("a")]).why_unscored == {}
    both = aggregate(
        [line("a", None, **failed), line("b", None, counted=False, **failed), line("c")]
    )
    assert both.why_unscored == {"a": "ValueError: no"}
    assert both.errors == {"a": "ValueError: no", "b": "ValueError: no"}
    idle = aggregate([line("a", None, verdict="N/A")])
    assert idle.why_unscored == {
        "rubric": "NotApplicable: no counted criterion applies to this rollout"
    }
    assert not idle.applies


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
    report = aggregate(
        [line("a", 0.5), line("a", 0.25, disagreement=0.5), line("b", None, error="E: no")]
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
    both = EvaluationReport.summed([one, two])
    assert (both.score, both.raw_score, both.gain, both.asked, both.answered) == (
        0.75,
        3.0,
        4.0,
        2,
        2,
    )
    assert (both.llm_raw_score, both.reason, [one.name for one in both.lines]) == (7.0, "so", ["b"])
    assert EvaluationReport.summed([one, one]).llm_raw_score is None
    assert EvaluationReport.summed([one, one]).report is None
    assert EvaluationReport.summed([]) == EvaluationReport()
    assert EvaluationReport.summed([EvaluationReport(), two]) is two


def test_a_sum_over_different_scales_is_a_share():
    """Between 0 and 1, and unscored where a part misses an answer."""
    one = aggregate([line("a", 1.0, weight=2)], scale="raw")
    two = aggregate([line("b", 0.0, weight=2)])
    assert (one + two).scale == "unit"
    assert (one + two).score == 0.5
    missing = one + aggregate([line("c", None, error="E: no")])
    assert (missing.score, missing.raw_score, missing.partial_reward) == (None, None, 2.0)


async def test_reports_are_a_list_that_can_be_pickled():
    """Also where a criterion holds a function that cannot be."""
    reports = await Rubric([lambda completion: float(len(completion))]).score_group(
        [{"completion": text} for text in ("a", "bb", "ccc")]
    )
    assert type(reports) is list
    assert [report.raw_score for report in reports] == [1.0, 2.0, 3.0]
    assert pickle.loads(pickle.dumps(reports)) == reports
    assert reports[0] != reports[1]


async def test_lines_of_a_report_are_a_sequence():
    """They equal plain lines, and say what plain lines say."""
    [report] = await Rubric([lambda: 0.5, lambda: Score.failed("E: no")]).score([make_rollout()])
    assert len(report.lines) == 2
    assert report.lines == list(report.lines)
    assert repr(report.lines) == repr(list(report.lines))
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
    assert state["errors"] == {
        "rubric": "NotApplicable: no counted criterion applies to this rollout"
    }
