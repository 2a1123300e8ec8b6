"""All criteria in one call."""

from typing import Any

import pytest

from assay import Criterion, JudgeError, PerCriterionOneShotGrader, Rubric
from assay.graders import OneShotChoiceOutput
from assay.graders.judge_input import JudgeInput
from assay.graders.prompt_text import write_opening
from assay.testing import FakeModel, ModelServer


def reply(*entries: tuple[int, str], key: str = "criterion_number") -> dict[str, Any]:
    return {
        "criteria_evaluations": [
            {key: number, "explanation": "so", "criterion_status": status}
            for number, status in entries
        ]
    }


async def test_one_call_for_all(make_rubric: Any) -> None:
    """Positional prompts, one line a criterion, the same sum as one call each: 10 of 18."""
    calls: list[str] = []

    async def ask(system: str, user: str, /) -> dict[str, Any]:
        calls.append(user)
        return reply((1, "MET"), (2, "UNMET"), (3, "UNMET"))

    grader = PerCriterionOneShotGrader(ask)
    report = await make_rubric(10, 8, -15).grade("a text", query="q", judge=grader)
    assert report.score == pytest.approx(10 / 18)
    assert [line.reason for line in report.report] == ["so", "so", "so"]
    assert calls == [
        f"{write_opening(JudgeInput('a text', query='q'))}<criteria>\n"
        "1. [positive, weight 10] Holds 1\n"
        "2. [positive, weight 8] Holds 2\n"
        "3. [negative, weight -15] Holds 3\n</criteria>"
    ]


@pytest.mark.parametrize(
    "given",
    [
        reply((2, "UNMET"), (1, "MET")),
        reply((0, "MET"), (1, "UNMET"), key="criterion_idx"),
        ("MET", "UNMET"),
    ],
    ids=["any order", "counted from 0", "a model"],
)
async def test_replies_are_matched_by_number(make_rubric: Any, given: Any) -> None:
    """3 of 4, whatever the order and spelling."""
    grader = PerCriterionOneShotGrader(FakeModel(given))
    assert (await make_rubric(3, 1).grade("a text", judge=grader)).score == 0.75


@pytest.mark.parametrize(
    ("entries", "answered"),
    [
        ([(1, "MET"), (3, "MET")], [True, False, True]),
        ([(1, "MET"), (1, "MET"), (2, "MET"), (3, "MET")], [False, True, True]),
        ([(1, "MET"), (1, "UNMET"), (3, "MET")], [False, False, True]),
        ([(1, "MAYBE"), (2, "MET"), (3, "MET")], [False, True, True]),
        ([(1, "MET"), (2, "MET"), (3, "MET"), (4, "MET")], [False] * 3),
        ([(0, "MET"), (1, "MET"), (2, "MET")], [False] * 3),
        ([(-1, "MET")], [False] * 3),
        ([], [False] * 3),
    ],
    ids=[
        "missing",
        "twice",
        "twice and missing",
        "no verdict",
        "unknown",
        "wrong base",
        "below 0",
        "nothing",
    ],
)
async def test_no_verdict_is_made_up(
    make_rubric: Any, grade_partially: Any, entries: list[tuple[int, str]], answered: list[bool]
) -> None:
    """Missing, double or unreadable verdicts are errors; an unknown number spoils all of them."""
    grader = PerCriterionOneShotGrader(FakeModel(reply(*entries)))
    report = await grade_partially(make_rubric(1, -1, 1), grader)
    assert [line.answered for line in report.report] == answered
    assert all(line.value is None for line in report.report if not line.answered)


@pytest.mark.parametrize(
    "entry",
    [
        {"criterion_status": "MET"},
        {"criterion_number": "1", "criterion_status": "MET"},
        {"criterion_number": 1, "criterion_idx": 1, "criterion_status": "MET"},
        "MET",
        None,
    ],
)
async def test_an_entry_without_a_number_spoils_all(
    make_rubric: Any, grade_partially: Any, entry: Any
) -> None:
    """Nobody can say which criterion it is about."""
    given = reply((1, "MET"))["criteria_evaluations"]
    grader = PerCriterionOneShotGrader(FakeModel({"criteria_evaluations": [*given, entry]}))
    report = await grade_partially(make_rubric(1), grader)
    assert "has no number" in report.report[0].error


@pytest.mark.parametrize("given", [None, "MET", {}, {"criteria_evaluations": "MET"}, [1]])
async def test_a_reply_that_is_no_list_fails_all(
    make_rubric: Any, grade_partially: Any, given: Any
) -> None:
    """The whole call was for nothing, and every line says so."""
    report = await grade_partially(make_rubric(1, 1), PerCriterionOneShotGrader(FakeModel(given)))
    assert all("holds no list of verdicts" in line.error for line in report.report)


async def test_a_failed_call_fails_all(make_rubric: Any, grade_partially: Any) -> None:
    """There is one call, so its error is everybody's."""
    grader = PerCriterionOneShotGrader(FakeModel(TimeoutError("too slow")))
    report = await grade_partially(make_rubric(1, 1), grader)
    assert set(report.errors.values()) == {"TimeoutError: too slow"}


async def test_raise_gives_the_original_exception_or_a_sentence(make_rubric: Any) -> None:
    """A missing verdict is raised as a JudgeError that names the criterion."""
    rubric = make_rubric(1, 1, on_error="raise")
    with pytest.raises(TimeoutError):
        await rubric.grade("x", judge=PerCriterionOneShotGrader(FakeModel(TimeoutError())))
    missing = PerCriterionOneShotGrader(FakeModel(reply((1, "MET"))))
    with pytest.raises(JudgeError, match=r"'holds_2' has no answer: .* gave no verdict"):
        await rubric.grade("x", judge=missing)


async def test_nothing_to_ask_asks_nothing(make_rubric: Any) -> None:
    """An empty rubric costs no call and has no score."""
    model = FakeModel(reply((1, "MET")))
    grader = PerCriterionOneShotGrader(model)
    assert (await make_rubric().grade("a text", judge=grader)).score is None
    assert (await grader.grade("a text", [])).score is None
    assert model.calls == []


async def test_labels_of_a_scale() -> None:
    """Where some criterion offers labels, all verdicts stand under `choice`: (1 + 0.5 · 2) / 3."""
    scale = Criterion(requirement="Is clear", choices=("poor", "fair", "good"), weight=2)
    given = OneShotChoiceOutput.model_validate(
        {
            "criteria_evaluations": [
                {"criterion_idx": 0, "explanation": "", "choice": "MET"},
                {"criterion_idx": 1, "explanation": "", "choice": "fair"},
            ]
        }
    )
    rubric = Rubric([Criterion(requirement="Is short"), scale])
    report = await rubric.grade("x", judge=PerCriterionOneShotGrader(FakeModel(given)))
    assert report.score == pytest.approx(2 / 3)


async def test_an_empty_reply_is_asked_again(make_rubric: Any) -> None:
    """A model that lists no verdict is told so, and its second reply counts: 3 of 4."""
    replies = iter([{"criteria_evaluations": []}, reply((1, "MET"), (2, "UNMET"))])
    with ModelServer(lambda system, user: next(replies)) as server:
        grader = PerCriterionOneShotGrader(model=server.model)
        report = await make_rubric(3, 1).grade("a text", judge=grader)
        assert (report.score, len(server.requests)) == (0.75, 2)


async def test_a_reply_that_stays_empty_is_an_error(make_rubric: Any, grade_partially: Any) -> None:
    """Each line says so; the rollout is not left unscored without a reason."""
    with ModelServer({"criteria_evaluations": []}) as server:
        grader = PerCriterionOneShotGrader(model=server.model)
        report = await grade_partially(make_rubric(3, 1), grader)
        assert len(server.requests) > 1
    assert set(report.errors) == {"holds_1", "holds_2"}
    assert (report.score, report.answered, report.asked) == (None, 0, 2)
