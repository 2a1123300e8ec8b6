"""Golden examples, run: what the rubric says of them, held against what it should say."""

import pytest

from assay import PerCriterionGrader, Rubric, RubricAsJudgeGrader, RubricGroup
from assay.testing import FakeModel, Fault, ModelServer
from assay.trust import TrustError, run_golden

DATA = {
    "criteria": [
        {"requirement": "Names Paris"},
        {"requirement": "Is rude", "weight": -1},
        {"check": {"max_words": 3}},
        {"check": {"similarity": "It is Paris"}, "name": "similar"},
    ],
    "golden": [
        {
            "name": "right",
            "completion": "It is Paris",
            "expect": {"names_paris": "MET", "is_rude": "UNMET", "max_words": "MET", "similar": 1},
        },
        {
            "name": "long",
            "completion": "It is rather Rome",
            "expect": {"names_paris": "UNMET", "max_words": "UNMET"},
        },
    ],
}


def judge(answer=None):
    def by_words(system, user):
        text, _, question = user.rpartition("<criterion_type>")
        return "MET" if "Names Paris" in question and "Paris" in text else "UNMET"

    return PerCriterionGrader(FakeModel(answer or by_words, reason="so it is"))


async def test_verdicts_and_numbers_are_compared():
    """Six expectations, all met: four verdicts of a judge and of code, one number."""
    report = await run_golden(Rubric.from_dict(DATA), judge())
    assert [result.right for result in report.results] == [True] * 6
    assert (report.wrong, report.errors) == ((), ())
    assert [result.example for result in report.results] == ["right"] * 4 + ["long"] * 2
    assert report.examples == 2


async def test_a_miss_has_what_was_said_and_why():
    """A judge that never sees Paris."""
    report = await run_golden(Rubric.from_dict(DATA), judge("UNMET"))
    [miss] = report.wrong
    assert (miss.example, miss.criterion) == ("right", "names_paris")
    assert (miss.expected, miss.got, miss.reason) == ("MET", "UNMET", "so it is")


async def test_no_answer_is_neither_right_nor_wrong():
    """A judge that fails is an error on what was asked of it; code still answers."""
    report = await run_golden(Rubric.from_dict(DATA), judge(lambda s, u: ValueError("down")))
    assert len(report.errors) == 3
    assert {result.error for result in report.errors} == {"ValueError: down"}
    assert report.wrong == ()
    assert report.to_dict()["errors"] == 3


async def test_an_endpoint_that_refuses_is_an_error():
    """Over real sockets."""
    with ModelServer(faults=lambda call: Fault.refusing("no such model", 404)) as server:
        report = await run_golden(Rubric.from_dict(DATA), PerCriterionGrader(model=server.model))
    assert len(report.errors) == 3
    assert report.spent.calls == 0


async def test_a_number_close_enough_is_right_and_another_is_not():
    """Code gives 0.25 of what was to be seen."""
    golden = [{"completion": "x", "expect": {"quarter": 0.25}}]
    data = {"criteria": [{"check": "json_valid", "name": "quarter"}], "golden": golden}
    [result] = (await run_golden(Rubric.from_dict(data))).results
    assert (result.expected, result.got, result.right) == (0.25, 0.0, False)


async def test_verdicts_on_a_scale_are_compared_as_they_were_given():
    """The middle of three is neither the best nor the worst."""
    data = {
        "criteria": [
            {"requirement": "Is clear", "name": "clear", "choices": ["poor", "fair", "good"]}
        ],
        "golden": [{"completion": "x", "expect": {"clear": "fair"}}],
    }
    fair = PerCriterionGrader(FakeModel(lambda s, u: {"explanation": "so-so", "choice": "fair"}))
    [result] = (await run_golden(Rubric.from_dict(data), fair)).results
    assert (result.got, result.right) == ("fair", True)


@pytest.mark.parametrize(("pass_at", "verdict"), [(0.2, "MET"), (0.5, "UNMET")])
async def test_a_number_of_code_is_a_verdict_by_where_it_passes(pass_at, verdict):
    """Six letters are alike, of 26 on both sides: 12/26 is MET from 0.2 on, and UNMET below 0.5."""
    check = {"check": {"similarity": "It is Paris"}, "name": "similar", "pass_at": pass_at}
    golden = [{"completion": "It is Rome then", "expect": {"similar": verdict}}]
    [result] = (await run_golden(Rubric.from_dict({"criteria": [check], "golden": golden}))).results
    assert (result.got, result.right) == (verdict, True)


async def test_a_condition_that_does_not_hold_is_not_applicable():
    """As it would be in use: the rubric is scored whole."""
    data = {
        "criteria": [
            {"check": {"contains": "Paris"}, "name": "paris"},
            {"requirement": "Names the river", "when": "paris"},
        ],
        "golden": [{"completion": "Rome.", "expect": {"names_the_river": "N/A"}}],
    }
    report = await run_golden(Rubric.from_dict(data), judge())
    assert report.results[0].right is True


async def test_one_number_for_the_whole_says_nothing_of_a_criterion():
    """An error, and not a miss."""
    report = await run_golden(Rubric.from_dict(DATA), RubricAsJudgeGrader(FakeModel(80)))
    judged = [result for result in report.results if result.criterion == "names_paris"]
    assert all(result.right is None for result in judged)


async def test_groups_and_inner_rubrics_are_run_each_by_itself():
    """Under the names of the rubrics around them."""
    inner = Rubric.from_dict({"name": "facts", **DATA})
    outer = Rubric([inner.as_criterion()], name="whole")
    report = await run_golden(RubricGroup([outer, inner]), judge())
    assert {result.example for result in report.results} == {
        "whole/facts/right",
        "whole/facts/long",
        "facts/right",
        "facts/long",
    }
    assert not report.wrong


async def test_a_rubric_without_examples_cannot_be_tested():
    """Nothing wrong is not the same as nothing looked at."""
    with pytest.raises(TrustError, match="no golden examples"):
        await run_golden(Rubric.from_dict(DATA["criteria"]), judge())
