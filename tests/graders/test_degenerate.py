"""Texts that hold no answer at all earn nothing, and nobody is asked about them."""

from typing import Any

import pytest

from assay import Criterion, PerCriterionGrader, PerCriterionOneShotGrader, RubricAsJudgeGrader
from assay.graders.degenerate import explain_degenerate
from assay.testing import FakeModel

KEYS = [
    "",
    " ",
    "\n\t",
    "\u200b\u2060",
    ".",
    ",",
    ":",
    "...",
    "!?",
    "---",
    "```",
    "**",
    "【】",
    "Thought process:",
    "**Thought process:**",
    "THOUGHT PROCESS",
    "Let's solve this problem step by step.",
    "Let’s solve this problem step by step.",
    "Solution",
    "Solution:",
    "# Solution\n",
    "The answer is:",
    "解",
    "かいせつ",
    "Respuesta",
    "Lösung:",
    "<thinking></thinking>\n<output>.</output>",
]
ANSWERS = [
    "4",
    "x",
    "∞",
    "+",
    "👍",
    "Solution: 4",
    "The answer is: no.",
    "Thought process: two and two are four.",
    "Nothing.",
    "n/a",
    "…4…",
    "解4",
    "<thinking>two and two</thinking>",
    "No",
    "é",
]


@pytest.mark.parametrize("text", KEYS)
def test_such_a_text_is_known(text: str) -> None:
    """However it is dressed up."""
    assert explain_degenerate(text) is not None


@pytest.mark.parametrize("text", ANSWERS)
def test_what_may_be_an_answer_is_left_to_the_judge(text: str) -> None:
    """Short or wrong is not degenerate."""
    assert explain_degenerate(text) is None


def test_only_a_short_text_can_be_an_announcement() -> None:
    """Up to 100 characters; a longer one, even of blanks, is left to the judge."""
    assert explain_degenerate("Solution:".ljust(100)) is not None
    assert explain_degenerate("Solution:".ljust(101)) is None


@pytest.mark.parametrize("text", KEYS)
async def test_it_gets_the_lowest_choice_and_nobody_is_asked(text: str, make_rubric: Any) -> None:
    """Though this judge would have passed it."""
    model = FakeModel("MET")
    report = await make_rubric(2, 1, 0).grade(text, PerCriterionGrader(model))
    assert (report.score, report.scored, model.calls) == (0.0, True, [])
    assert {line.verdict for line in report.report} == {"UNMET"}
    assert all(line.reason.startswith("degenerate answer: ") for line in report.report)


async def test_the_lowest_of_a_scale_is_its_first_choice(make_rubric: Any) -> None:
    """Worst to best, as choices run; N/A is for a judge to say."""
    scale = Criterion(requirement="Is kind", choices=("cold", "polite", "warm"), allow_na=True)
    rubric = make_rubric()
    rubric = type(rubric)([scale])
    report = await rubric.grade(":", PerCriterionGrader(FakeModel("MET")))
    assert (report.report[0].verdict, report.report[0].value) == ("cold", 0.0)


async def test_a_fault_is_still_asked_about(make_rubric: Any) -> None:
    """An empty text may well have the fault of not answering: 0 of 2, less 1."""
    model = FakeModel("MET")
    report = await make_rubric(2, -1).grade("", PerCriterionGrader(model))
    assert report.raw_score == -1.0
    assert len(model.calls) == 1


async def test_the_same_in_one_call_for_all(make_rubric: Any) -> None:
    """The faults alone are listed, and numbered from 1."""
    model = FakeModel(("MET", "UNMET"))
    report = await make_rubric(2, -1, 3, -4).grade(".", PerCriterionOneShotGrader(model))
    assert [line.verdict for line in report.report] == ["UNMET", "MET", "UNMET", "UNMET"]
    assert "1. [negative, weight -1] Holds 2\n2. [negative, weight -4] Holds 4" in model.calls[0][1]


async def test_one_number_for_the_whole_is_nothing(make_rubric: Any) -> None:
    """With nothing but wanted criteria; as soon as there is a fault, the judge weighs it."""
    model = FakeModel(90)
    report = await make_rubric(2, 1).grade(":", RubricAsJudgeGrader(model))
    assert (report.score, report.llm_raw_score, model.calls) == (0.0, None, [])
    assert report.reason.startswith("degenerate answer: ")
    assert (await make_rubric(2, -1).grade(":", RubricAsJudgeGrader(model))).score == 0.9


@pytest.mark.parametrize("quoted", ["'Solution'", '"solution"', "`Solution`", "“solution”"])
async def test_a_criterion_that_quotes_the_text_is_asked(make_rubric: Any, quoted: str) -> None:
    """Where it is the right answer, it is no announcement."""
    rubric = type(make_rubric())([{"requirement": f"Answers {quoted}"}, {"requirement": "Is kind"}])
    model = FakeModel("MET")
    report = await rubric.grade("Solution", PerCriterionGrader(model))
    assert [line.verdict for line in report.report] == ["MET", "UNMET"]


async def test_it_can_be_left_to_the_judge(make_rubric: Any) -> None:
    """Where silence is golden."""
    model = FakeModel("MET")
    grader = PerCriterionGrader(model, degenerate="ask")
    assert (await make_rubric(2, 1).grade("", grader)).score == 1.0
    assert len(model.calls) == 2


def test_another_word_for_it_is_refused() -> None:
    """With those there are."""
    with pytest.raises(ValueError, match="give 'lowest' or 'ask'"):
        PerCriterionGrader(FakeModel("MET"), degenerate="zero")  # type: ignore[arg-type]
