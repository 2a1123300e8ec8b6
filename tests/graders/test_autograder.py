"""Graders of your own: `judge()` alone, or with a formula."""

import math
from typing import Any

import pytest

from assay import (
    Autograder,
    Cascade,
    Criterion,
    CriterionReport,
    EvaluationReport,
    GradingError,
    JudgeError,
    Panel,
    PerCriterionGrader,
    Rubric,
    RubricAsJudgeGrader,
    Score,
)
from assay.graders import Grader, LengthPenalty
from assay.testing import FakeModel, make_state


class Fixed(Autograder):
    """Judges with what it was given."""

    def __init__(self, *answers: Any, **options: Any) -> None:
        super().__init__(**options)
        self.answers = answers

    async def judge(self, to_grade: str, rubric: list[Criterion], query: str | None = None) -> Any:
        return list(self.answers)


class Lowest(Fixed):
    """Scores by the worst line, and says nothing of sums."""

    async def aggregate(self, judge_results: Any, *, normalize: bool = True) -> EvaluationReport:
        return EvaluationReport(score=min(judge_results))


class Older(Fixed):
    """As graders were written for `rubric`: verdicts alone, a score and a raw score."""

    async def aggregate(self, judge_results: Any, *, normalize: bool = True) -> EvaluationReport:
        met = [line.weight for line in judge_results if line.verdict == "MET"]
        return EvaluationReport(score=0.25, raw_score=sum(met), report=judge_results)


def line(verdict: str, weight: float) -> CriterionReport:
    return CriterionReport(requirement="Holds", weight=weight, verdict=verdict, reason="so")


@pytest.mark.parametrize(
    "answers",
    [
        ("MET", "UNMET"),
        (True, False),
        (1.0, 0),
        (Score(1.0), Score(0.0)),
        (line("MET", 3), line("UNMET", 1)),
    ],
    ids=["verdicts", "bools", "numbers", "scores", "lines"],
)
async def test_judge_alone(make_rubric: Any, answers: tuple[Any, ...]) -> None:
    """Whatever form the answers have, 3 of 4 are met, with a rubric around them or without."""
    rubric = make_rubric(3, 1)
    assert (await rubric.grade("x", judge=Fixed(*answers))).score == 0.75
    assert (await Fixed(*answers).grade("x", list(rubric.criteria))).score == 0.75


SCALE = Criterion(requirement="Is clear", choices=("poor", "fair", "good"))


@pytest.mark.parametrize(
    ("answer", "verdict", "value"),
    [
        (True, "good", 1.0),
        (False, "poor", 0.0),
        (Score(True), "good", 1.0),
        (Score(False), "poor", 0.0),
        ("fair", "fair", 0.5),
        (" Fair\n", "fair", 0.5),
    ],
)
async def test_a_bool_is_an_end_of_the_scale(answer: Any, verdict: str, value: float) -> None:
    """True is the best of three choices and False the worst; neither is the one between them."""
    report = await Rubric([SCALE]).grade("x", judge=Fixed(answer))
    assert [(line.verdict, line.value) for line in report.report] == [(verdict, value)]


@pytest.mark.parametrize("answers", [("MET",), ("MET", "MET", "MET")])
async def test_one_answer_a_criterion(make_rubric: Any, answers: tuple[Any, ...]) -> None:
    """A list of another length cannot be matched."""
    with pytest.raises(GradingError, match="return one per criterion"):
        await make_rubric(3, 1).grade("x", judge=Fixed(*answers))


@pytest.mark.parametrize("answer", ["MAYBE", None, object(), math.nan, Score(math.inf)])
async def test_no_verdict_is_an_error_on_its_line(
    make_rubric: Any, grade_partially: Any, answer: Any
) -> None:
    """The other line keeps its answer."""
    rubric, grader = make_rubric(3, 1), Fixed("MET", answer)
    for report in (
        await grade_partially(rubric, grader),
        await grader.grade("x", list(rubric.criteria)),
    ):
        assert [entry.answered for entry in report.report] == [True, False]
        assert (report.score, report.partial_reward, report.scored) == (None, 3.0, False)


async def test_a_formula_of_your_own_is_what_grade_returns(make_rubric: Any) -> None:
    """The lowest of 1 and 0.4 is the score; the raw score is that share of weights of 4."""
    report = await make_rubric(3, 1).grade("x", judge=Lowest(1.0, 0.4))
    assert (report.score, report.raw_score) == (0.4, pytest.approx(1.6))
    assert (report.scored, report.asked) == (True, 2)


async def test_a_formula_of_your_own_beside_a_check(make_rubric: Any) -> None:
    """A check worth 6 and 0.4 of 4 make 7.6 of 10."""
    rubric = Rubric([lambda: 1.0, *make_rubric(3, 1).criteria], weights=[6, None, None])
    report = await rubric.grade("x", judge=Lowest(1.0, 0.4))
    assert (report.raw_score, report.score) == (pytest.approx(7.6), pytest.approx(0.76))


async def test_a_formula_of_your_own_keeps_its_sum(make_rubric: Any) -> None:
    """The score is 0.25 as it says and the sum is 3; the lines get names and values."""
    state = make_state()
    rubric = make_rubric(3, 1, judge=Older(line("MET", 3), line("UNMET", 1)))
    report = await rubric.score_rollout(state)
    assert (report.score, report.raw_score, state["reward"]) == (0.25, 3, 3)
    assert state["metrics"] == {"holds_1": 1.0, "holds_2": 0.0}
    # In a sum with others it is worth 0.25 still: 3 of 12.
    assert (report + report).score == pytest.approx(0.25)


async def test_a_formula_over_faults(make_rubric: Any) -> None:
    """A share of 0.7 where faults weigh 10 leaves a sum of -3."""
    report = await make_rubric(-4, -6).grade("x", judge=Lowest(0.7, 0.9))
    assert (report.score, report.raw_score, report.loss) == (0.7, pytest.approx(-3), 10)


async def test_a_formula_without_normalising(make_rubric: Any) -> None:
    """The score is the sum."""
    report = await make_rubric(3, 1).grade("x", judge=Lowest(7.0, 9.0, normalize=False))
    assert (report.score, report.raw_score, report.scale) == (7.0, 7.0, "raw")


@pytest.mark.parametrize("answer", [math.nan, math.inf])
async def test_a_formula_that_gives_no_number(make_rubric: Any, answer: float) -> None:
    """NaN is refused, and not clamped to a full score."""
    with pytest.raises(GradingError, match="give a finite number"):
        await make_rubric(1).grade("x", judge=Lowest(answer))


async def test_a_formula_that_gives_no_report(make_rubric: Any) -> None:
    """A bare number is no report."""

    class Bare(Fixed):
        async def aggregate(self, judge_results: Any, *, normalize: bool = True) -> Any:
            return 0.5

    with pytest.raises(GradingError, match="return an EvaluationReport"):
        await make_rubric(1).grade("x", judge=Bare("MET"))


async def test_a_line_without_an_answer_stays_missing(make_rubric: Any) -> None:
    """A formula that skips it does not make the report whole."""
    missing = CriterionReport(requirement="Holds 2", weight=1, error="TimeoutError: slow")
    with pytest.raises(GradingError) as caught:
        await make_rubric(3, 1).grade("x", judge=Older(line("MET", 3), missing))
    assert caught.value.report.answered == 1


async def test_a_grade_of_your_own(make_rubric: Any) -> None:
    """A grader may replace both steps at once."""

    class Whole(Fixed):
        async def grade(self, to_grade: Any, rubric: Any, query: Any = None) -> EvaluationReport:
            return EvaluationReport(score=0.6)

    assert (await make_rubric(1).grade("x", judge=Whole())).score == 0.6


async def test_a_report_from_judge_is_the_report(make_rubric: Any) -> None:
    """A grader that judges as a whole returns its report at once."""

    class Whole(Autograder):
        async def judge(self, to_grade: str, rubric: list[Criterion], query: Any = None) -> Any:
            return EvaluationReport(score=0.6)

    report = await make_rubric(5).grade("x", judge=Whole())
    assert (report.score, report.raw_score) == (0.6, 3.0)


async def test_without_calling_the_base(make_rubric: Any) -> None:
    """A subclass whose __init__ leaves the base out is normalised and has no penalty."""

    class Careless(Autograder):
        def __init__(self) -> None:
            pass

        async def judge(self, to_grade: str, rubric: list[Criterion], query: Any = None) -> Any:
            return ["MET"]

    assert (await make_rubric(5).grade("x", judge=Careless())).score == 1.0


async def test_a_length_penalty_on_a_grader_of_your_own(make_rubric: Any) -> None:
    """Two words over a budget of one cost the whole 0.5, whatever the formula."""
    penalty = LengthPenalty(free_budget=1, max_cap=2)
    for grader, score in [
        (Fixed("MET", "MET", length_penalty=penalty), 0.5),
        (Lowest(1.0, 0.8, length_penalty=penalty), 0.3),
    ]:
        report = await make_rubric(3, 1).grade("two words", judge=grader)
        assert report.score == pytest.approx(score)


async def test_a_shipped_grader_with_a_step_of_its_own(make_rubric: Any) -> None:
    """A subclass that changes `judge()` or `aggregate()` is not passed over."""

    class Strict(PerCriterionGrader):
        async def judge(self, to_grade: str, rubric: list[Criterion], query: Any = None) -> Any:
            lines = await super().judge(to_grade, rubric, query)
            return ["UNMET" for _ in lines]

    class Squared(RubricAsJudgeGrader):
        async def aggregate(self, judge_results: Any, *, normalize: bool = True) -> Any:
            return EvaluationReport(score=judge_results.score**2)

    assert (await make_rubric(1).grade("x", judge=Strict(FakeModel("MET")))).score == 0.0
    assert (await make_rubric(1).grade("x", judge=Squared(FakeModel(50)))).score == 0.25


class Halved:
    """A formula that is mixed in."""

    async def aggregate(self, judge_results: Any, *, normalize: bool = True) -> EvaluationReport:
        return EvaluationReport(score=sum(line.value for line in judge_results) / 2)


async def test_a_formula_may_be_mixed_in(make_rubric: Any) -> None:
    """Its class comes first, so its `aggregate()` is the one that counts."""

    class HalfGrader(Halved, PerCriterionGrader):
        pass

    assert (await make_rubric(1).grade("x", judge=HalfGrader(FakeModel("MET")))).score == 0.5


async def test_a_formula_over_what_a_panel_says(make_rubric: Any) -> None:
    """The judges vote on each criterion as they do elsewhere, and the formula reads the outcome."""

    class HalfPanel(Halved, Panel):
        pass

    judges = [PerCriterionGrader(FakeModel(said)) for said in ("MET", "MET", "UNMET")]
    assert (await make_rubric(1).grade("x", judge=HalfPanel(judges))).score == 0.5
    with pytest.raises(ValueError, match="gives one number for all criteria"):
        Cascade([HalfPanel(judges)])


async def test_answers_that_fail_one_by_one(make_rubric: Any, grade_partially: Any) -> None:
    """A grader that writes `answer()` is told whether to record a failure; the other answer stays."""

    class Half(Grader):
        async def answer(self, judge_input: Any, criteria: Any, *, on_error: Any) -> list[Score]:
            told.append(on_error)
            return [Score(1.0), *[Score.failed("RuntimeError: down")] * (len(criteria) - 1)]

    told: list[str] = []
    report = await grade_partially(make_rubric(3, 1), Half())
    assert [line.answered for line in report.report] == [True, False]
    assert told == ["record"]


async def test_a_formula_never_sees_half_an_answer(make_rubric: Any) -> None:
    """It might take the missing verdict for UNMET, so one failed call fails them all."""

    class Counting(PerCriterionGrader):
        async def aggregate(self, judge_results: Any, *, normalize: bool = True) -> Any:
            return EvaluationReport(score=sum(x.verdict != "MET" for x in judge_results) / 2)

    model = FakeModel(["MET", ConnectionError("down")])
    with pytest.raises(GradingError) as caught:
        await make_rubric(-1, -1).grade("x", judge=Counting(model))
    assert caught.value.report.score is None
    assert set(caught.value.report.errors) == {"holds_1", "holds_2"}


async def test_grading_without_a_rubric_raises_what_fails(make_rubric: Any) -> None:
    """There is no rubric to record an error, so the exception goes to the caller."""
    criteria = list(make_rubric(1, 1).criteria)
    with pytest.raises(ConnectionError):
        await PerCriterionGrader(FakeModel(ConnectionError("down"))).grade("x", criteria)
    with pytest.raises(JudgeError):
        await PerCriterionGrader(FakeModel({})).grade("x", criteria)


async def test_grading_without_a_rubric_keeps_vetoes() -> None:
    """A required criterion that fails caps the score at its 0.1."""
    veto = Criterion(requirement="Is safe", required=True, cap=0.1)
    grader = PerCriterionGrader(FakeModel(["UNMET", "MET"]))
    report = await grader.grade("x", [veto, Criterion(requirement="Is short", weight=9)])
    assert (report.score, report.vetoed_by) == (pytest.approx(0.1), ("is_safe",))


async def test_grading_without_a_rubric_takes_all_forms_of_a_reply() -> None:
    """Messages and replies in two parts are read as a rubric reads them."""
    model = FakeModel("MET")
    chat = [{"role": "assistant", "content": "hello"}]
    for to_grade in ("hello", chat, {"output": "hello"}):
        await PerCriterionGrader(model).grade(to_grade, [Criterion(requirement="Is short")])
    assert ["hello" in user for _, user in model.calls] == [True, True, True]
