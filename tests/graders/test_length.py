"""What a long answer loses."""

import math
import time
from typing import Any

import pytest
from pydantic import ValidationError

from assay import GradingError, PerCriterionGrader, RubricAsJudgeGrader
from assay.graders import LengthPenalty, ThinkingOutputDict
from assay.graders.length import (
    compute_length_penalty,
    normalize_to_grade_input,
    parse_thinking_output,
    split_thinking,
    word_count,
)
from assay.testing import FakeModel, make_state

CURVE = LengthPenalty(free_budget=10, max_cap=20, penalty_at_cap=0.5, exponent=2)


@pytest.mark.parametrize(
    ("words", "penalty"), [(0, 0.0), (10, 0.0), (15, 0.125), (18, 0.32), (20, 0.5), (1000, 0.5)]
)
def test_the_curve(words: int, penalty: float) -> None:
    """Nothing up to 10 words, 0.5 from 20 on, and 0.5 · (over / 10)² in between."""
    assert compute_length_penalty("word " * words, CURVE) == pytest.approx(penalty)


@pytest.mark.parametrize(
    ("kind", "penalty"), [("ALL", 0.5), ("OUTPUT_ONLY", 0.045), ("THINKING_ONLY", 0.005)]
)
def test_which_part_is_counted(kind: Any, penalty: float) -> None:
    """11 words of thinking and 13 of output: 0.5 at 24, 0.5 · 0.3² at 13, 0.5 · 0.1² at 11."""
    parts: ThinkingOutputDict = {"thinking": "t " * 11, "output": "o " * 13}
    config = CURVE.model_copy(update={"penalty_type": kind})
    assert compute_length_penalty(parts, config) == pytest.approx(penalty)


def test_a_count_of_your_own() -> None:
    """Fifteen characters are counted as fifteen."""
    config = CURVE.model_copy(update={"count_fn": len})
    assert compute_length_penalty({"output": "x" * 14}, config) == pytest.approx(0.125)
    assert word_count(" a\tb\n c ") == 3


@pytest.mark.parametrize(
    "fields",
    [
        {"free_budget": 20, "max_cap": 20},
        {"free_budget": 20, "max_cap": 10},
        {"free_budget": -1},
        {"penalty_at_cap": -0.5},
        {"penalty_at_cap": math.nan},
        {"penalty_at_cap": math.inf},
        {"exponent": math.nan},
        {"exponent": 0},
        {"penalty_type": "SOME"},
    ],
)
def test_a_penalty_that_makes_no_sense_is_refused(fields: dict[str, Any]) -> None:
    """A cap below the budget, a bonus for length, or a number that is none."""
    with pytest.raises(ValidationError):
        LengthPenalty(**fields)


def test_the_defaults() -> None:
    """Nothing up to 6000 words, and half the score from 8000 on."""
    config = LengthPenalty()
    fields = (config.free_budget, config.max_cap, config.penalty_at_cap, config.exponent)
    assert fields == (6000, 8000, 0.5, 1.6)
    assert (config.count_fn, config.penalty_type) == (None, "ALL")


# Through a rubric


async def test_it_comes_off_the_score_and_nothing_else(make_rubric: Any) -> None:
    """15 words cost 0.125 of 10 / 15; the sums and the lines stay."""
    grader = PerCriterionGrader(FakeModel(["MET", "UNMET"]), length_penalty=CURVE)
    report = await make_rubric(10, 5).grade("word " * 15, judge=grader)
    assert report.score == pytest.approx(10 / 15 - 0.125)
    assert (report.raw_score, report.llm_raw_score) == (10.0, 10.0)
    assert [line.verdict for line in report.report] == ["MET", "UNMET"]


async def test_a_normalised_score_stays_above_zero(make_rubric: Any) -> None:
    """0.2 - 0.5 is 0; without normalising, 2 - 0.5 is 1.5 and 0 - 0.5 is -0.5."""
    for verdicts, normalize, score in [
        (["MET", "UNMET"], True, 0.0),
        (["MET", "UNMET"], False, 1.5),
        (["UNMET", "UNMET"], False, -0.5),
    ]:
        grader = PerCriterionGrader(FakeModel(verdicts), length_penalty=CURVE, normalize=normalize)
        report = await make_rubric(2, 8).grade("word " * 20, judge=grader)
        assert report.score == pytest.approx(score)


async def test_a_judge_of_the_whole_keeps_its_number(make_rubric: Any) -> None:
    """85 stays on record when 0.5 comes off 0.85."""
    grader = RubricAsJudgeGrader(FakeModel(85), length_penalty=CURVE)
    report = await make_rubric(10, 5).grade("word " * 30, judge=grader)
    assert report.score == pytest.approx(0.35)
    assert (report.raw_score, report.llm_raw_score) == (12.75, 85.0)


async def test_the_reward_of_a_state_is_the_sum(make_rubric: Any) -> None:
    """A penalty changes the score, not the reward, which is the raw sum."""
    grader = PerCriterionGrader(FakeModel("MET"), length_penalty=CURVE)
    state = make_state("word " * 30)
    report = await make_rubric(3, judge=grader).score_rollout(state)
    assert (state["reward"], report.score, state["metrics"]) == (3.0, 0.5, {"holds_1": 1.0})


async def test_a_failed_call_is_still_one_line(make_rubric: Any) -> None:
    """The partial report has the other answer, and no score."""
    model = FakeModel(["MET", ConnectionError("down")])
    grader = PerCriterionGrader(model, length_penalty=CURVE)
    with pytest.raises(GradingError) as caught:
        await make_rubric(1, 1).grade("word " * 20, judge=grader)
    report = caught.value.report
    assert (report.score, report.partial_reward, report.coverage) == (None, 1.0, 0.5)
    assert report.errors == {"holds_2": "ConnectionError: down"}


@pytest.mark.parametrize(
    ("kind", "score"), [("ALL", 0.5), ("OUTPUT_ONLY", 1.0), ("THINKING_ONLY", 0.5)]
)
async def test_the_parts_of_a_reply(make_rubric: Any, kind: Any, score: float) -> None:
    """Long thinking before a short output costs what the penalty counts."""
    penalty = CURVE.model_copy(update={"penalty_type": kind})
    grader = PerCriterionGrader(FakeModel("MET"), length_penalty=penalty)
    reply: ThinkingOutputDict = {"thinking": "t " * 30, "output": "o"}
    assert (await make_rubric(1).grade(reply, judge=grader)).score == score


@pytest.mark.parametrize(
    "text",
    [
        "<output></output>" + "word " * 30,
        "<thinking></thinking><output>x</output>" + "word " * 30,
        "word " * 30 + "<thinking>",
    ],
)
@pytest.mark.parametrize("kind", ["ALL", "OUTPUT_ONLY"])
async def test_no_tag_hides_words(make_rubric: Any, text: str, kind: Any) -> None:
    """What stands outside the sections is counted as output."""
    penalty = CURVE.model_copy(update={"penalty_type": kind})
    grader = PerCriterionGrader(FakeModel("MET"), length_penalty=penalty)
    assert (await make_rubric(1).grade(text, judge=grader)).score == 0.5


# Sections


@pytest.mark.parametrize(
    ("text", "thinking", "output"),
    [
        ("<thinking>ABC</thinking><output>DEF</output>", "ABC", "DEF"),
        ("Just output", "", "Just output"),
        ("  spaces stay ", "", "  spaces stay "),
        ("<thinking>Think</thinking>Rest", "Think", "Rest"),
        ("<THINKING> a </Thinking> <Output> b </OUTPUT>", "a", "b"),
        ("<output>b</output><thinking>a</thinking>", "a", "b"),
        ("<thinking>1</thinking><thinking>2</thinking>x", "1", "x"),
        ("<output>1</output><output>2</output>", "", "1"),
        ("<thinking>never closed", "", "<thinking>never closed"),
        ("<output>never closed", "", "<output>never closed"),
        ("", "", ""),
    ],
)
def test_sections_of_a_text(text: str, thinking: str, output: str) -> None:
    """Any case, the first of each name; a tag that is never closed is plain text."""
    assert parse_thinking_output(text) == {"thinking": thinking, "output": output}
    assert normalize_to_grade_input(text) == {"thinking": thinking, "output": output}


def test_a_mapping_is_filled_up() -> None:
    """A part that is not there is empty; a part that is no text is refused."""
    assert normalize_to_grade_input({"output": "x"}) == {"thinking": "", "output": "x"}
    wrong: list[Any] = [{"output": 3}, {"thinking": None}, 3]
    for to_grade in wrong:
        with pytest.raises(ValueError, match="must be a string"):
            normalize_to_grade_input(to_grade)


def test_an_unknown_part_is_warned_about() -> None:
    """It is not counted, and nobody should think it was."""
    extra: Any = {"output": "x", "notes": "y"}
    with pytest.warns(UserWarning, match="notes"):
        assert normalize_to_grade_input(extra) == {"thinking": "", "output": "x"}


@pytest.mark.parametrize("unit", ["<thinking>", "<thinking></thinking>", "<output>", "</output>"])
def test_hostile_text_costs_linear_time(unit: str) -> None:
    """Half a million tags are walked through once."""
    text = unit * 500_000
    started = time.process_time()
    parse_thinking_output(text)
    split_thinking(text)
    assert time.process_time() - started < 5
