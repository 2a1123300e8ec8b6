"""Vetoes, conditions, tags, report-only lines, N/A, nested rubrics."""

import pytest

from assay import Criterion, PerCriterionGrader, Rubric, RubricAsJudgeGrader, RubricError, Score
from assay.graders import LengthPenalty
from assay.testing import FakeModel, make_rollout


def fixed(value, **fields):
    return Criterion(check=lambda: value, **fields)


async def one(rubric):
    [report] = await rubric.score([make_rollout()])
    return report


class TestRequired:
    async def test_a_failed_veto_caps_the_score_at_zero(self):
        """3 of 4 points, and still 0."""
        report = await one(Rubric([fixed(False, name="safe", required=True), fixed(1.0, weight=3)]))
        assert (report.score, report.raw_score, report.vetoed_by) == (0.0, 0.0, ("safe",))

    async def test_the_cap_can_be_stated(self):
        """3 of 4 is 0.75, capped at 0.2: the reward is 0.2 of the 4 points to gain."""
        report = await one(
            Rubric([fixed(False, name="v", required=True, cap=0.2), fixed(1.0, weight=3)])
        )
        assert report.score == pytest.approx(0.2)
        assert report.raw_score == pytest.approx(0.8)

    async def test_a_passed_veto_changes_nothing(self):
        """1 + 3 of 4."""
        report = await one(Rubric([fixed(True, required=True), fixed(1.0, weight=3)]))
        assert (report.score, report.vetoed_by) == (1.0, ())

    async def test_a_required_fault_vetoes_when_it_is_present(self):
        """A negative weight names something bad; MET is the failure."""
        bad = fixed(True, weight=-1, required=True, name="slur")
        assert (await one(Rubric([bad, fixed(1.0, weight=5)]))).score == 0.0
        good = fixed(False, weight=-1, required=True, name="slur")
        assert (await one(Rubric([good, fixed(1.0, weight=5)]))).score == 1.0

    async def test_a_gate_without_weight_gates_all_the_same(self):
        """Weight 0 and required: no points, but a veto; unanswered it leaves the rollout unscored."""
        gate = fixed(False, weight=0, required=True, name="gate")
        assert (await one(Rubric([gate, fixed(1.0)]))).score == 0.0
        unsure = fixed(None, weight=0, required=True, name="gate")
        report = await one(Rubric([unsure, fixed(1.0)]))
        assert not report.scored

    async def test_a_partial_value_passes_from_pass_at_on(self):
        """0.8 passes at 0.7 and fails at the default of 1."""
        lenient = fixed(0.8, required=True, pass_at=0.7)
        assert (await one(Rubric([lenient]))).score == pytest.approx(0.8)
        assert (await one(Rubric([fixed(0.8, required=True)]))).score == 0.0


class TestWhen:
    def rubric(self, answers, **kwargs):
        model = FakeModel(lambda system, user: next(v for k, v in answers.items() if k in user))
        return Rubric(
            [
                Criterion(requirement="Gives a figure", weight=1),
                Criterion(requirement="Names the unit", weight=2, when="gives_a_figure"),
                Criterion(requirement="Says why not", weight=4, when={"gives_a_figure": "UNMET"}),
            ],
            judge=PerCriterionGrader(generate_fn=model),
        ), model

    async def test_only_the_branch_that_applies_is_asked_and_counted(self):
        """Figure given, unit missing: 1 of 3 points, and no call for the other branch."""
        rubric, model = self.rubric({"Gives a figure": "MET", "Names the unit": "UNMET"})
        report = await one(rubric)
        assert [line.verdict for line in report.report] == ["MET", "UNMET", "N/A"]
        assert report.score == pytest.approx(1 / 3)
        assert len(model.calls) == 2

    async def test_the_other_branch(self):
        """No figure, but a reason: 4 of 5 points."""
        rubric, model = self.rubric({"Gives a figure": "UNMET", "Says why not": "MET"})
        report = await one(rubric)
        assert report.score == pytest.approx(4 / 5)
        assert len(model.calls) == 2

    async def test_a_condition_without_an_answer_leaves_its_dependents_without_one(self):
        """Not applicable would be a guess."""
        rubric, _ = self.rubric({"Gives a figure": ValueError("no")})
        report = await one(rubric)
        assert [line.answered for line in report.report] == [False, False, False]
        assert "'gives_a_figure'" in report.report[1].error

    async def test_conditions_chain_over_checks_and_models(self):
        """A check that waits for a verdict that waits for a check."""
        rubric = Rubric(
            [
                Criterion(check=lambda: 1.0, name="last", when="middle"),
                Criterion(requirement="Middle", when="first"),
                Criterion(check=lambda: True, name="first"),
            ],
            judge=PerCriterionGrader(generate_fn=FakeModel("MET")),
        )
        report = await one(rubric)
        assert [line.value for line in report.report] == [1.0, 1.0, 1.0]

    @pytest.mark.parametrize(
        ("whens", "words"),
        [
            ({"a": "nowhere"}, "'nowhere'"),
            ({"a": "b", "b": "a"}, "'a'.*'b'"),
            ({"a": "a"}, "'a'"),
            ({"a": {"b": "PERHAPS"}}, "'PERHAPS'"),
        ],
    )
    def test_conditions_that_cannot_hold_are_refused(self, whens, words):
        """At construction, with the names."""
        with pytest.raises(RubricError, match=words):
            Rubric([fixed(1.0, name=name, when=whens.get(name)) for name in ("a", "b")])

    def test_a_group_function_cannot_wait(self):
        """A condition holds for single rollouts."""
        with pytest.raises(RubricError, match="a group"):
            Rubric([fixed(1.0, name="a"), Criterion(check=lambda completions: [1.0], when="a")])


async def test_a_condition_on_what_was_judged_as_a_whole_has_no_answer():
    """One number for the whole does not say how the condition came out."""
    rubric = Rubric(
        [Criterion(requirement="Gives a figure"), fixed(1.0, name="unit", when="gives_a_figure")],
        judge=RubricAsJudgeGrader(generate_fn=FakeModel(80)),
    )
    report = await one(rubric)
    assert "gives_a_figure" in report.errors["unit"]
    assert not report.scored


async def test_a_length_penalty_survives_in_a_mixed_rubric():
    """5 of 5 by code and 10 of 10 by the judge, less half of the judge's score: 10 of 15."""
    grader = PerCriterionGrader(
        generate_fn=FakeModel("MET"),
        length_penalty=LengthPenalty(free_budget=0, max_cap=1, penalty_at_cap=0.5),
    )
    rubric = Rubric([fixed(True, weight=5), {"requirement": "Is kind", "weight": 10}])
    report = await rubric.grade("a b c", judge=grader)
    assert report.raw_score == 15.0
    assert report.score == pytest.approx(10 / 15)


async def test_tags_have_scores_of_their_own():
    """Facts 2 of 3, style 0 of 1, all together 2 of 4."""
    report = await one(
        Rubric(
            [
                fixed(True, weight=2, tags=["facts"]),
                fixed(False, tags=["facts"]),
                fixed(False, tags="style"),
            ]
        )
    )
    assert report.tag_scores == {"facts": pytest.approx(2 / 3), "style": 0.0}
    assert report.score == 0.5


async def test_a_report_only_line_keeps_its_weight_and_does_not_count():
    """It is there to be looked at."""
    report = await one(Rubric([fixed(True), fixed(False, weight=9, report_only=True, name="new")]))
    assert report.score == 1.0
    assert (report.report[1].weight, report.report[1].counted) == (9.0, False)
    assert report.metrics["new"] == 0.0


async def test_not_applicable_leaves_both_sums():
    """2 of 2 points, the third criterion does not arise."""
    rubric = Rubric(
        [fixed(True, weight=2), Criterion(requirement="Labels the table", weight=3, allow_na=True)],
        judge=PerCriterionGrader(generate_fn=FakeModel({"choice": "N/A", "explanation": ""})),
    )
    report = await one(rubric)
    assert report.report[1].verdict == "N/A"
    assert (report.score, report.gain, report.scored) == (1.0, 2.0, True)


async def test_not_applicable_is_an_error_where_it_was_not_offered():
    """A judge cannot excuse itself."""
    rubric = Rubric(
        [Criterion(requirement="Labels the table")],
        judge=PerCriterionGrader(generate_fn=FakeModel({"choice": "N/A", "explanation": ""})),
    )
    report = await one(rubric)
    assert "not one of the choices" in report.report[0].error


class TestNested:
    async def test_a_nested_rubric_is_one_line_worth_its_normalised_score(self):
        """Inside 10 of 18 points; outside 1.0 + 0.3 · 10/18."""
        essay = Rubric([fixed(True, weight=10), fixed(False, weight=8)], name="essay")
        report = await one(Rubric([fixed(1.0), essay.as_criterion(weight=0.3)]))
        assert report.raw_score == pytest.approx(1.0 + 0.3 * 10 / 18)
        line = report.report[1]
        assert line.name == "essay"
        assert [inner.value for inner in line.lines] == [1.0, 0.0]

    def test_without_a_name_it_goes_by_rubric(self):
        """In a list as by `as_criterion`."""
        inner = Rubric([fixed(1.0)])
        assert Rubric([inner, inner.as_criterion()]).get_reward_func_names() == [
            "rubric",
            "rubric_2",
        ]

    async def test_it_asks_the_outer_grader_when_it_has_none(self):
        """One grader is enough for the whole tree."""
        essay = Rubric([{"requirement": "Is kind"}], name="essay")
        grader = PerCriterionGrader(generate_fn=FakeModel("MET"))
        report = await Rubric([essay], judge=grader).grade("x")
        assert report.score == 1.0

    async def test_a_nested_error_is_an_error_of_the_line(self):
        """A partial score inside would be a wrong number outside."""
        inner = Rubric([fixed(True), fixed(None, name="broken")], name="inner")
        report = await one(Rubric([inner, fixed(1.0)]))
        assert "broken" in report.report[0].error
        assert not report.scored

    def test_a_rubric_inside_itself_is_refused(self):
        """Directly and through others."""
        rubric = Rubric([fixed(1.0)])
        with pytest.raises(RubricError, match="itself"):
            rubric.add_reward_func(rubric)
        with pytest.raises(RubricError, match="itself"):
            rubric.add_reward_func(Rubric([Rubric([rubric])]))


async def test_a_score_that_a_check_hands_back_with_an_error_is_kept():
    """A check may say itself that it does not know."""
    report = await one(Rubric([lambda: Score(error="Timeout: the compiler did not answer")]))
    assert report.errors == {"check_1": "Timeout: the compiler did not answer"}
