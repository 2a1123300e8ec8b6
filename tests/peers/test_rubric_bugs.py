"""What goes wrong in `rubric` and `autorubric`, and what is true here instead."""

import json
import math

import pytest

from assay import (
    Criterion,
    GradingError,
    PerCriterionGrader,
    PerCriterionOneShotGrader,
    Rubric,
    RubricAsJudgeGrader,
    RubricError,
)
from assay.graders import LengthPenalty
from assay.testing import FakeModel, make_state


def judged(*weights):
    return Rubric([{"requirement": f"Holds {n}", "weight": w} for n, w in enumerate(weights, 1)])


def one_shot(*verdicts):
    return PerCriterionOneShotGrader(generate_fn=FakeModel(verdicts))


async def partial(rubric, grader):
    with pytest.raises(GradingError) as caught:
        await rubric.grade("a text", judge=grader)
    return caught.value.report


GRADERS = [
    pytest.param(PerCriterionGrader, "MET", id="per criterion"),
    pytest.param(PerCriterionOneShotGrader, ("MET", "MET"), id="one shot"),
    pytest.param(RubricAsJudgeGrader, 80, id="holistic"),
]


class TestModels:
    """Section 1.3 and 1.4."""

    @pytest.mark.parametrize("fields", [{"id": 1}, {"points": 5}, {"weigth": 2}])
    def test_unknown_keys_are_refused(self, fields):
        """There they vanished without a word."""
        with pytest.raises(ValueError, match=next(iter(fields))):
            Criterion.model_validate({"requirement": "Is short", **fields})

    @pytest.mark.parametrize("fields", [{"requirement": "  "}, {"weight": math.inf}])
    def test_blank_requirements_and_infinite_weights_are_refused(self, fields):
        """There both were accepted."""
        with pytest.raises(ValueError, match=next(iter(fields))):
            Criterion(**{"requirement": "Is short", **fields})

    def test_two_choices_of_one_name_are_refused(self):
        """There a verdict could stand for either."""
        with pytest.raises(ValueError, match="at least two different labels"):
            Criterion(requirement="Is short", choices=("no", "No"))

    def test_a_rubric_has_a_length_and_a_repr(self):
        """There it had neither."""
        rubric = judged(1, -2)
        assert (len(rubric), repr(rubric)) == (2, "<Rubric [holds_1 +1, holds_2 -2]>")

    def test_titles_of_sections_are_kept(self):
        """There sections were flattened and their titles lost."""
        rubric = Rubric.from_dict(
            {"sections": [{"title": "Style", "criteria": [{"requirement": "Is short"}]}]}
        )
        assert rubric.criteria[0].tags == ("Style",)

    def test_criteria_may_stand_under_their_own_name(self):
        """There a top-level `criteria` was refused."""
        assert len(Rubric.from_dict({"criteria": [{"requirement": "Is short"}]})) == 1

    def test_a_path_is_a_file(self, tmp_path):
        """There `from_file` refused a Path; and files are UTF-8 whatever the locale says."""
        path = tmp_path / "style.json"
        path.write_text(json.dumps([{"requirement": "Says „naïve“"}], ensure_ascii=False), "utf-8")
        assert Rubric.from_file(path).criteria[0].requirement == "Says „naïve“"

    def test_an_unknown_keyword_of_grade_is_refused(self):
        """There a misspelled option did nothing."""
        with pytest.raises(TypeError, match="autogarder"):
            judged(1).grade_sync("a text", autogarder=None)


class TestScores:
    """Section 1.6, row by row."""

    @pytest.mark.parametrize(("kind", "answer"), GRADERS)
    async def test_an_empty_rubric_costs_no_call(self, kind, answer):
        """There one-shot called the model, and holistic gave its number."""
        model = FakeModel(answer)
        report = await Rubric([]).grade("a text", judge=kind(generate_fn=model))
        assert (report.score, report.raw_score or 0.0, model.calls) == (None, 0.0, [])

    @pytest.mark.parametrize(("kind", "answer"), GRADERS)
    async def test_without_weight_no_grader_gives_a_score(self, kind, answer):
        """There two said 0.0 and the third 0.8."""
        report = await judged(0, 0).grade("a text", judge=kind(generate_fn=FakeModel(answer)))
        assert (report.score, report.raw_score) == (None, None)

    @pytest.mark.parametrize(("kind", "answer"), GRADERS)
    async def test_faults_alone_start_from_one(self, kind, answer):
        """Faults of 4: both met leaves 0, and 80 of 100 leaves 0.8 and a sum of −0.8."""
        report = await judged(-3, -1).grade("a text", judge=kind(generate_fn=FakeModel(answer)))
        expected = (0.8, -0.8) if answer == 80 else (0.0, -4.0)
        assert (report.score, report.raw_score) == pytest.approx(expected)

    async def test_more_faults_than_merits_is_zero(self):
        """10 − 15 is −5, and the score 0."""
        report = await judged(10, -15).grade("a text", judge=one_shot("MET", "MET"))
        assert (report.score, report.raw_score) == (0.0, -5.0)

    async def test_a_missing_verdict_on_a_fault_gives_no_credit(self):
        """There it was UNMET, so the fault counted as avoided; here the report is partial."""
        report = await partial(judged(2, -2), one_shot("MET"))
        assert (report.scored, report.coverage, report.lines[1].verdict) == (False, 0.5, None)

    @pytest.mark.parametrize("numbers", [(1, 1), (1, 3), (0, 1)])
    async def test_numbers_that_do_not_fit_are_errors(self, numbers):
        """There a duplicate won, an extra one was ignored and a wrong base shifted them all."""
        entries = [
            {"criterion_number": n, "explanation": "", "criterion_status": "MET"} for n in numbers
        ]
        model = FakeModel(lambda system, user: {"criteria_evaluations": entries})
        report = await partial(judged(1, 1), PerCriterionOneShotGrader(generate_fn=model))
        assert report.answered == 0

    async def test_verdicts_in_another_order_are_matched(self):
        """By number: 3 of 4 points."""
        entries = [
            {"criterion_number": 2, "explanation": "", "criterion_status": "UNMET"},
            {"criterion_number": 1, "explanation": "", "criterion_status": "MET"},
        ]
        model = FakeModel(lambda system, user: {"criteria_evaluations": entries})
        grader = PerCriterionOneShotGrader(generate_fn=model)
        assert (await judged(3, 1).grade("a text", judge=grader)).score == 0.75

    async def test_a_number_above_the_scale_is_kept_and_not_counted(self):
        """135 of 100 is 15 of 15 points; there the sum was 20.25."""
        grader = RubricAsJudgeGrader(generate_fn=FakeModel(135))
        report = await judged(10, 5).grade("a text", judge=grader)
        assert (report.score, report.raw_score, report.llm_raw_score) == (1.0, 15.0, 135.0)

    @pytest.mark.parametrize("reply", [math.nan, math.inf, None, "85", True])
    async def test_what_is_no_number_is_no_score(self, reply):
        """There NaN was clamped to a full score."""
        grader = RubricAsJudgeGrader(generate_fn=lambda system, user: {"overall_score": reply})
        report = await partial(judged(1), grader)
        assert (report.score, report.scored) == (None, False)

    async def test_a_failing_call_leaves_a_partial_report(self):
        """There the exception was all that was left; here one of two is answered."""
        model = FakeModel(lambda system, user: "MET" if "Holds 1" in user else OSError("down"))
        report = await partial(judged(1, 1), PerCriterionGrader(generate_fn=model))
        assert (report.lines[0].verdict, report.errors) == ("MET", {"holds_2": "OSError: down"})


class TestLengthPenalty:
    """Section 1.8."""

    async def test_a_penalty_keeps_the_judges_number(self):
        """There it became None."""
        penalty = LengthPenalty(free_budget=0, max_cap=1, penalty_at_cap=0.5)
        grader = RubricAsJudgeGrader(generate_fn=FakeModel(80), length_penalty=penalty)
        report = await judged(10).grade("two words", judge=grader)
        assert (report.score, report.raw_score, report.llm_raw_score) == (
            pytest.approx(0.3),
            8.0,
            80.0,
        )

    @pytest.mark.parametrize("fields", [{"penalty_at_cap": -0.5}, {"free_budget": 9, "max_cap": 8}])
    def test_a_penalty_that_makes_no_sense_is_refused(self, fields):
        """There a negative one counted as positive, and a cap below the budget was taken."""
        with pytest.raises(ValueError, match=r"penalty_at_cap|max_cap"):
            LengthPenalty(**fields)


class TestAutorubric:
    """Section 2.4, what concerns a single judgment."""

    async def test_a_missing_judgment_does_not_pass_for_a_full_score(self):
        """There one MET and one failure were 1.0; here `grade` raises and a state is unscored."""
        model = FakeModel(lambda system, user: "MET" if "Holds 1" in user else {"choice": "?"})
        rubric, grader = judged(1, 1), PerCriterionGrader(generate_fn=model)
        assert not (await partial(rubric, grader)).scored
        states = [make_state()]
        await Rubric(rubric.criteria, judge=grader).score_group(states)
        assert (states[0]["reward"], states[0]["advantage"]) == (None, None)

    async def test_nothing_judged_has_no_score(self):
        """None rather than an invented 0."""
        grader = PerCriterionGrader(generate_fn=FakeModel(OSError("down")))
        assert (await partial(judged(1, -1), grader)).score is None

    def test_nothing_is_printed(self, capsys):
        """There notices of a provider went to standard output."""
        grader = PerCriterionGrader(generate_fn=FakeModel("MET"))
        judged(1, 1).grade_sync("a text", judge=grader)
        assert capsys.readouterr() == ("", "")


class TestConsequences:
    """Section 6."""

    async def test_functions_and_words_stand_in_one_rubric(self):
        """0.8 · 1 by code and 0.2 · 1 by a model."""
        rubric = Rubric(
            [lambda completion: "4" in completion, Criterion(requirement="Is polite")],
            weights=[0.8, 0.2],
            judge=PerCriterionGrader(generate_fn=FakeModel("MET")),
        )
        assert (await rubric.grade("4, please")).raw_score == pytest.approx(1.0)

    async def test_a_gate_stands_above_the_sum(self):
        """9 of 10 points, and 0, since the required one failed."""
        rubric = Rubric(
            [
                Criterion(requirement="Is safe", required=True),
                Criterion(requirement="Is good", weight=9),
            ]
        )
        report = await rubric.grade("a text", judge=one_shot("UNMET", "MET"))
        assert (report.score, report.vetoed_by) == (0.0, ("is_safe",))

    def test_there_is_a_synchronous_door(self):
        """There none was."""
        assert judged(1).grade_sync("a text", judge=one_shot("MET")).score == 1.0

    def test_without_a_grader_no_default_provider_is_asked(self):
        """There a paid model was."""
        with pytest.raises(RubricError, match="no judge was named"):
            judged(1).grade_sync("a text")
