"""One number for the whole rubric."""

import math
from typing import Any

import pytest

from assay import Rubric, RubricAsJudgeGrader
from assay.graders.judge_input import JudgeInput
from assay.graders.prompt_text import write_opening
from assay.testing import FakeModel, make_state


@pytest.mark.parametrize(
    ("weights", "said", "score", "raw"),
    [
        ((10, 5), 85, 0.85, 12.75),
        ((10, 5), 0, 0.0, 0.0),
        ((10, 5), 135, 1.0, 15.0),
        ((10, 5), -20, 0.0, 0.0),
        ((10, -15), 40, 0.4, 4.0),
        ((-10, -50), 85, 0.85, -9.0),
        ((-10, -50), 100, 1.0, 0.0),
        ((-10, -50), 0, 0.0, -60.0),
        ((-10, -50), 120, 1.0, 0.0),
        ((0, 0), 80, None, None),
    ],
)
async def test_scores(
    make_rubric: Any,
    weights: tuple[float, ...],
    said: float,
    score: float | None,
    raw: float | None,
) -> None:
    """A share of what could be gained, or of what could be lost; clamped, in sum and score alike."""
    grader = RubricAsJudgeGrader(FakeModel(said))
    report = await make_rubric(*weights).grade("a text", judge=grader)
    assert report.score == (None if score is None else pytest.approx(score))
    assert report.raw_score == (None if raw is None else pytest.approx(raw))
    assert report.llm_raw_score == said
    assert (report.report, report.scored) == (None, raw is not None)


async def test_without_normalising_the_sum_is_the_score(make_rubric: Any) -> None:
    """85 of 100 on weights of 15 is 12.75."""
    grader = RubricAsJudgeGrader(FakeModel(85), normalize=False)
    report = await make_rubric(10, 5).grade("a text", judge=grader)
    assert (report.score, report.raw_score, report.llm_raw_score) == (12.75, 12.75, 85.0)


@pytest.mark.parametrize(
    "reply",
    [
        {"overall_score": math.nan},
        {"overall_score": math.inf},
        {"overall_score": True},
        {"overall_score": "85"},
        {},
        None,
        "85",
    ],
)
async def test_a_reply_without_a_number_is_an_error(
    make_rubric: Any, grade_partially: Any, reply: Any
) -> None:
    """NaN does not become a full score, nor a missing number nothing."""
    report = await grade_partially(make_rubric(1, 1), RubricAsJudgeGrader(FakeModel(reply)))
    assert (report.score, report.coverage) == (None, 0.0)
    assert all("holds no score" in line.error for line in report.report)


async def test_the_prompt_lists_all_criteria(make_rubric: Any) -> None:
    """Positional prompts, the response first and the numbered list last."""
    model = FakeModel(50)
    await make_rubric(2, -1).grade("a text", judge=RubricAsJudgeGrader(model))
    [(system, user)] = model.calls
    assert system == RubricAsJudgeGrader().system_prompt
    assert user == (
        f"{write_opening(JudgeInput('a text'))}<criteria>\n1. [positive, weight 2] Holds 1\n2. [negative, weight -1] Holds 2\n</criteria>"
    )


async def test_nothing_to_ask_asks_nothing() -> None:
    """An empty rubric costs no call and has no score."""
    model = FakeModel(80)
    report = await RubricAsJudgeGrader(model).grade("a text", [])
    assert (report.score, model.calls) == (None, [])


async def test_with_checks_beside_it(make_rubric: Any) -> None:
    """A check worth 5 and a share of 0.5 of 10 make 10 of 15."""

    def says_so(completion: str) -> bool:
        return completion == "a text"

    rubric = Rubric([says_so, *make_rubric(6, 4).criteria], weights=[5, None, None])
    report = await rubric.grade("a text", judge=RubricAsJudgeGrader(FakeModel(50)))
    assert (report.raw_score, report.score) == (10.0, pytest.approx(10 / 15))
    assert [line.name for line in report.report] == ["says_so"]


async def test_a_state_gets_the_sum_as_its_reward(make_rubric: Any) -> None:
    """The share of the weights is the reward."""
    state = make_state()
    rubric = make_rubric(10, 5, judge=RubricAsJudgeGrader(FakeModel(60)))
    await rubric.score_rollout(state)
    assert state["reward"] == pytest.approx(9.0)


async def test_the_same_sum_as_one_call_each(make_rubric: Any) -> None:
    """A share of 0.85 of 15 compares with sums of verdicts: 12.75."""
    report = await make_rubric(10, 5).grade("x", judge=RubricAsJudgeGrader(FakeModel(85)))
    assert report.raw_score == pytest.approx(0.85 * (10 + 5))
