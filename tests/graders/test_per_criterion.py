"""One call a criterion."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from assay import Criterion, GradingError, JudgeError, PerCriterionGrader, Rubric
from assay.graders import ChoiceOutput, PerCriterionOutput
from assay.testing import FakeModel, make_state

MET = PerCriterionOutput(criterion_status="MET", explanation="it does")
SCALE = Criterion(requirement="Is clear", choices=("poor", "fair", "good"), weight=4)


@pytest.mark.parametrize(
    ("weights", "verdicts", "raw", "score"),
    [
        ((10, 5), "MU", 10, 10 / 15),
        ((10, 5), "MM", 15, 1.0),
        ((10, 8, -15), "MUU", 10, 10 / 18),
        ((10, -15), "MM", -5, 0.0),
        ((-10, -50), "UU", 0, 1.0),
        ((-10, -50), "MU", -10, 5 / 6),
        ((-10, -50), "MM", -60, 0.0),
        ((0, -2), "MM", -2, 0.0),
        ((0, 0), "MM", None, None),
        ((), "", None, None),
    ],
)
async def test_scores(
    make_rubric: Any,
    weights: tuple[float, ...],
    verdicts: str,
    raw: float | None,
    score: float | None,
) -> None:
    """The sum of the weights that are met, and its share of what could be gained or lost."""
    model = FakeModel([{"M": "MET", "U": "UNMET"}[v] for v in verdicts])
    report = await make_rubric(*weights).grade("a text", judge=PerCriterionGrader(model))
    assert report.raw_score == raw
    assert report.score == (None if score is None else pytest.approx(score))
    assert len(model.calls) == len(weights)


async def test_without_normalising_the_sum_is_the_score(make_rubric: Any) -> None:
    """10 - 15 stays -5."""
    grader = PerCriterionGrader(FakeModel("MET"), normalize=False)
    report = await make_rubric(10, -15).grade("a text", judge=grader)
    assert (report.score, report.raw_score) == (-5, -5)


async def test_lines_carry_verdict_and_reason(make_rubric: Any) -> None:
    """A report has one line a criterion, in order."""
    grader = PerCriterionGrader(FakeModel(["MET", "UNMET"], reason="I looked"))
    report = await make_rubric(1, 1).grade("a text", judge=grader)
    found = [(line.requirement, line.verdict, line.reason, line.value) for line in report.report]
    assert found == [("Holds 1", "MET", "I looked", 1.0), ("Holds 2", "UNMET", "I looked", 0.0)]
    assert report.llm_raw_score == report.raw_score == 1.0


async def test_judge_returns_report_lines(make_rubric: Any) -> None:
    """`judge()` by itself gives lines, and `grade()` what they come to."""
    grader, criteria = PerCriterionGrader(FakeModel("MET")), list(make_rubric(3, -1).criteria)
    lines = await grader.judge("a text", criteria)
    assert [(line.name, line.value) for line in lines] == [("holds_1", 1.0), ("holds_2", 1.0)]
    assert (await grader.grade("a text", criteria)).score == pytest.approx(2 / 3)
    assert (await grader.aggregate(lines, normalize=False)).score == 2.0


# What a generate_fn may be, and what it may return


async def test_prompts_go_by_keyword(make_rubric: Any) -> None:
    """A function with further parameters in front gets the two prompts by name."""

    async def ask(retries: int = 3, *, user_prompt: str, system_prompt: str) -> PerCriterionOutput:
        assert retries == 3
        assert system_prompt == "Judge."
        assert "Holds 1" in user_prompt
        return MET

    grader = PerCriterionGrader(generate_fn=ask, system_prompt="Judge.")
    assert (await make_rubric(1).grade("a text", judge=grader)).score == 1.0


@pytest.mark.parametrize(
    "reply",
    [
        MET,
        ChoiceOutput(explanation="it does", choice="MET"),
        {"explanation": "it does", "criterion_status": "MET"},
        {"explanation": "it does", "choice": "met"},
        SimpleNamespace(criterion_status="MET", explanation="it does"),
    ],
    ids=["model", "choice", "mapping", "mapping with a choice", "object"],
)
async def test_a_plain_function_and_any_record_do(make_rubric: Any, reply: Any) -> None:
    """No coroutine and no pydantic model is needed, only the fields."""

    def ask(system_prompt: str, user_prompt: str) -> Any:
        return reply

    report = await make_rubric(1).grade("a text", judge=PerCriterionGrader(ask))
    assert (report.score, report.report[0].reason) == (1.0, "it does")


@pytest.mark.parametrize(
    "reply",
    [
        None,
        '{"explanation": "", "criterion_status": "MET"}',
        {},
        {"criterion_status": "MAYBE"},
        {"criterion_status": True},
        ["MET"],
        1,
        object(),
    ],
)
async def test_a_reply_without_a_verdict_is_an_error(
    make_rubric: Any, grade_partially: Any, reply: Any
) -> None:
    """It is no UNMET, which on a fault would be full credit."""
    grader = PerCriterionGrader(lambda system_prompt, user_prompt: reply)
    report = await grade_partially(make_rubric(-5), grader)
    [line] = report.report
    assert (line.value, line.verdict, report.score, report.coverage) == (None, None, None, 0.0)
    assert line.error.startswith("JudgeError: ")


async def test_labels_of_a_scale() -> None:
    """The middle of three labels is worth a half."""
    model = FakeModel(ChoiceOutput(explanation="", choice="fair"))
    report = await Rubric([SCALE]).grade("a text", judge=PerCriterionGrader(model))
    assert (report.raw_score, report.score, report.report[0].verdict) == (2.0, 0.5, "fair")


async def test_a_label_that_was_not_offered(grade_partially: Any) -> None:
    """MET is no label of this scale; the judge's reason is kept."""
    report = await grade_partially(Rubric([SCALE]), PerCriterionGrader(FakeModel(MET)))
    assert report.report[0].error == (
        "JudgeError: the verdict 'MET' is not one of the choices (poor, fair, good)"
    )
    assert report.report[0].reason == "it does"


async def test_not_applicable_leaves_the_score() -> None:
    """N/A is an answer where it is offered, and the rest is the whole."""
    sometimes = Criterion(requirement="Cites the appendix", weight=5, allow_na=True)
    model = FakeModel([MET, {"choice": "N/A"}])
    rubric = Rubric([Criterion(requirement="Is short", weight=2), sometimes])
    report = await rubric.grade("a text", judge=PerCriterionGrader(model))
    assert (report.score, report.raw_score, report.asked) == (1.0, 2.0, 1)


# Failures


async def test_one_failed_call_fails_one_criterion(make_rubric: Any, grade_partially: Any) -> None:
    """The others keep their answers, and the sum of them is no score."""
    model = FakeModel(["MET", ConnectionError("down"), "UNMET"])
    report = await grade_partially(make_rubric(10, -5, 10), PerCriterionGrader(model))
    assert [line.error for line in report.report] == [None, "ConnectionError: down", None]
    assert (report.score, report.raw_score, report.partial_reward) == (None, None, 10.0)
    assert report.coverage == pytest.approx(2 / 3)


async def test_a_state_tells_what_failed(make_rubric: Any) -> None:
    """The reward is None, the sum of the rest stands beside it, and the errors say what it leaves out."""
    grader = PerCriterionGrader(FakeModel(["MET", ValueError("no JSON")]))
    state = make_state()
    await make_rubric(3, 2, judge=grader).score_rollout(state)
    assert (state["reward"], state["partial_reward"]) == (None, 3.0)
    assert state["errors"] == {"holds_2": "ValueError: no JSON"}


async def test_raise_gives_the_original_exception(make_rubric: Any) -> None:
    """On request the very exception of the generate_fn comes out."""
    error = ConnectionError("down")
    rubric = make_rubric(1, 1, on_error="raise", judge=PerCriterionGrader(FakeModel(error)))
    with pytest.raises(ConnectionError) as caught:
        await rubric.grade("a text")
    assert caught.value is error


async def test_raise_stops_the_other_calls(make_rubric: Any) -> None:
    """A result that cannot be used is not paid for: the waiting call is cancelled."""
    stopped: list[str] = []

    async def ask(system_prompt: str, user_prompt: str) -> PerCriterionOutput:
        if "Holds 2" in user_prompt:
            raise ConnectionError("down")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            stopped.append("Holds 1")
            raise
        return MET

    with pytest.raises(ConnectionError):
        await make_rubric(1, 1, on_error="raise").grade("a text", judge=PerCriterionGrader(ask))
    assert stopped == ["Holds 1"]


async def test_raise_names_a_criterion_without_a_verdict(make_rubric: Any) -> None:
    """A reply that cannot be read is raised too."""
    grader = PerCriterionGrader(FakeModel({"criterion_status": "MAYBE"}))
    with pytest.raises(JudgeError, match=r"criterion 'holds_1' has no answer: .*'MAYBE'"):
        await make_rubric(1, on_error="raise").grade("a text", judge=grader)


async def test_calls_run_side_by_side(make_rubric: Any) -> None:
    """Nobody gets an answer before all have asked."""
    asked = 0
    everybody = asyncio.Event()

    async def ask(system_prompt: str, user_prompt: str) -> PerCriterionOutput:
        nonlocal asked
        asked += 1
        if asked == 5:
            everybody.set()
        await everybody.wait()
        return MET

    report = await make_rubric(1, 1, 1, 1, 1).grade("a text", judge=PerCriterionGrader(ask))
    assert report.score == 1.0


async def test_without_a_model_it_says_what_to_pass(make_rubric: Any) -> None:
    """A grader can be made without a model; judging is when it is missed."""
    with pytest.raises(
        GradingError, match="PerCriterionGrader has no model to ask: set ASSAY_JUDGE"
    ):
        await make_rubric(1).grade("a text", judge=PerCriterionGrader())
    with pytest.raises(JudgeError, match="generate_fn="):
        await PerCriterionGrader().grade("a text", list(make_rubric(1).criteria))


async def test_a_check_has_no_words_to_judge() -> None:
    """A criterion for code that is handed to a grader directly is refused, not judged blank."""
    check = Criterion(check=len)
    with pytest.raises(JudgeError, match="'len' is answered by code"):
        await PerCriterionGrader(FakeModel("MET")).grade("a text", [check])
