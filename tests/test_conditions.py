"""Criteria that are not asked: what they count for, and which calls they save."""

import pytest

from assay import (
    Criterion,
    PerCriterionGrader,
    Rubric,
    RubricError,
    RubricFileError,
    SingleTurnEnv,
    budget,
    dry_run,
)
from assay.integrations.trl import as_trl_rewards
from assay.runs import Run, rescore, score_rows
from assay.testing import FakeModel, Fault, ModelServer
from assay.trust import questions_of

CONSTRAINTS = [
    {"name": word, "check": {"contains": word}} for word in ("a", "b", "c", "d", "e", "f")
]
HELPFUL = {"name": "helpful", "requirement": "Is helpful", "weight": 6, "when": "c"}
CLEAN = [
    {"name": f"no_{tag}", "check": {"regex": f"^(?!.*{tag})"}}
    for tag in ("html", "b", "i", "p", "u", "s")
]
JUDGED = [{"requirement": "Is helpful"}, {"requirement": "Is right"}]


async def score(rubric, *texts, answer="UNMET"):
    """Return the scores of texts, and how often the judge was asked."""
    model = FakeModel(answer)
    rollouts = [{"completion": text} for text in texts]
    reports = await rubric.score(rollouts, judge=PerCriterionGrader(model))
    return [report.score for report in reports], len(model.calls)


class TestWhenFalse:
    async def test_a_criterion_that_is_not_asked_leaves_the_score_by_default(self):
        """2 of 6 points, and 3 of 12: the better answer has the lower score."""
        scores, calls = await score(Rubric([*CONSTRAINTS, HELPFUL]), "a b", "a b c")
        assert scores == [2 / 6, 3 / 12]
        assert calls == 1

    async def test_unmet_keeps_it_in_the_score(self):
        """2 and 3 of 12 points."""
        rubric = Rubric([*CONSTRAINTS, {**HELPFUL, "when_false": "unmet"}])
        scores, calls = await score(rubric, "a b", "a b c")
        assert scores == [2 / 12, 3 / 12]
        assert calls == 1

    async def test_the_line_says_why_it_was_not_asked(self):
        rubric = Rubric([*CONSTRAINTS, {**HELPFUL, "when_false": "unmet"}])
        [report] = await rubric.score(
            [{"completion": "a b"}], judge=PerCriterionGrader(FakeModel("MET"))
        )
        line = report.lines[-1]
        assert (line.verdict, line.value, line.asked, line.answered) == ("UNMET", 0.0, False, True)
        assert line.short_answer == "UNMET"
        assert line.reason == "not asked: 'c' is UNMET"

    async def test_the_lowest_of_several_choices_is_meant(self):
        rubric = Rubric(
            [
                CONSTRAINTS[0],
                {
                    "name": "depth",
                    "requirement": "How deep is it?",
                    "choices": ["shallow", "fair", "deep"],
                    "when": "a",
                    "when_false": "unmet",
                },
            ]
        )
        [report] = await rubric.score(
            [{"completion": "x"}], judge=PerCriterionGrader(FakeModel("deep"))
        )
        assert (report.lines[1].verdict, report.score) == ("shallow", 0.0)

    async def test_a_check_may_be_unmet_too(self):
        rubric = Rubric([CONSTRAINTS[0], {**CONSTRAINTS[1], "when": "a", "when_false": "unmet"}])
        assert await score(rubric, "b", "a b") == ([0.0, 1.0], 0)

    @pytest.mark.parametrize(
        ("fields", "words"),
        [
            ({"when_false": "unmet"}, "the criterion is always asked"),
            ({"when": "a", "when_false": "unmet", "weight": -1}, "the weight is -1"),
            ({"when": "a", "when_false": "zero"}, "when_false"),
        ],
    )
    def test_what_has_no_meaning_is_refused(self, fields, words):
        with pytest.raises(RubricFileError, match=words):
            Rubric.from_dict([CONSTRAINTS[0], {"requirement": "Is kind", **fields}])

    def test_it_is_written_to_files_and_changes_the_hash(self):
        rubric = Rubric([*CONSTRAINTS, {**HELPFUL, "when_false": "unmet"}])
        again = Rubric.from_yaml(rubric.to_yaml())
        assert again.criteria == rubric.criteria
        assert rubric.content_hash != Rubric([*CONSTRAINTS, HELPFUL]).content_hash

    async def test_what_was_not_asked_is_no_answer_of_the_judge(self, tmp_path):
        """Neither for a later rubric that asks it, nor for the agreement with people."""
        rubric = Rubric([*CONSTRAINTS, {**HELPFUL, "when_false": "unmet"}])
        rows = [{"completion": "a b"}]
        grader = PerCriterionGrader(FakeModel("MET"))
        await score_rows(rubric, rows, folder=tmp_path / "a", judge=grader)
        run = Run.open(tmp_path / "a")
        [row] = run.rows()
        assert (row.score, row.report.lines[-1].asked) == (2 / 12, False)
        assert questions_of(run)["helpful"].read_answer(row.report.lines[-1]) is None
        model = FakeModel("MET")
        always = Rubric([*CONSTRAINTS, {**HELPFUL, "when": "a"}])
        summary = await rescore(run, always, tmp_path / "b", judge=PerCriterionGrader(model))
        assert (len(model.calls), summary.score.mean) == (1, 8 / 12)


class TestAskJudge:
    async def test_the_judge_is_not_asked_about_what_fails_a_check(self):
        """5 of 8 points and no call; 6 of 8 and two calls."""
        rubric = Rubric([*CLEAN, *JUDGED], ask_judge="if_checks_pass")
        scores, calls = await score(rubric, "html", "C++")
        assert scores == [5 / 8, 6 / 8]
        assert calls == 2

    async def test_a_condition_inverts_the_order_without_it(self):
        """5 of 6 points, since nothing judged counts; 6 of 8."""
        judged = [{**criterion, "when": "no_html"} for criterion in JUDGED]
        scores, _ = await score(Rubric([*CLEAN, *judged]), "html", "C++")
        assert scores == [5 / 6, 6 / 8]

    async def test_a_failed_veto_saves_the_call(self):
        """Alone it does not."""
        veto = {**CONSTRAINTS[0], "required": True}
        assert await score(Rubric([veto, *JUDGED]), "x", answer="MET") == ([0.0], 2)
        rubric = Rubric([veto, *JUDGED], ask_judge="if_checks_pass")
        assert await score(rubric, "x", answer="MET") == ([0.0], 0)

    async def test_metrics_and_checks_that_do_not_apply_stop_nobody(self):
        rubric = Rubric(
            [
                {**CONSTRAINTS[0], "weight": 0},
                {**CONSTRAINTS[1], "report_only": True},
                CONSTRAINTS[2],
                {**CONSTRAINTS[3], "when": {"c": "UNMET"}},
                *JUDGED,
            ],
            ask_judge="if_checks_pass",
        )
        assert await score(rubric, "c", answer="MET") == ([1.0], 2)

    async def test_a_fault_for_a_check_passes_if_it_is_absent(self):
        rubric = Rubric([{**CONSTRAINTS[0], "weight": -1}, *JUDGED], ask_judge="if_checks_pass")
        assert await score(rubric, "x", "a", answer="MET") == ([1.0, 0.0], 2)

    async def test_a_fault_that_nobody_looked_for_does_not_apply(self):
        """Unmet would be full credit."""
        rubric = Rubric(
            [CONSTRAINTS[0], {"requirement": "Is rude", "weight": -1}],
            ask_judge="if_checks_pass",
            aggregation="mean",
        )
        assert await score(rubric, "x", answer="MET") == ([0.0], 0)

    async def test_a_check_without_an_answer_leaves_the_rollout_unscored(self):
        def fail(completion):
            raise ValueError("broken")

        model = FakeModel("MET")
        rubric = Rubric([fail, *JUDGED], ask_judge="if_checks_pass")
        [report] = await rubric.score([{"completion": "x"}], judge=PerCriterionGrader(model))
        assert (report.score, len(model.calls)) == (None, 0)
        assert "depends on 'fail', which has no answer" in report.errors["is_helpful"]

    async def test_a_judge_inside_a_nested_rubric_is_saved_too(self):
        nested = Rubric(JUDGED, name="style").as_criterion(weight=2)
        rubric = Rubric([*CLEAN, nested], ask_judge="if_checks_pass")
        assert await score(rubric, "html", "C++") == ([5 / 8, 6 / 8], 2)

    async def test_it_comes_before_a_condition(self):
        """So that a text that fails a check has no criterion less in its score: 1 of 4 points."""
        rubric = Rubric(
            [*CONSTRAINTS[:2], JUDGED[0], {**JUDGED[1], "when": "is_helpful"}],
            ask_judge="if_checks_pass",
        )
        assert await score(rubric, "a") == ([1 / 4], 0)

    def test_a_check_that_depends_on_the_judge_is_refused(self):
        with pytest.raises(RubricError, match="cannot depend on the judge"):
            Rubric(
                [JUDGED[0], {**CONSTRAINTS[0], "when": "is_helpful"}], ask_judge="if_checks_pass"
            )

    def test_it_is_written_to_files_and_changes_the_hash(self):
        rubric = Rubric.from_yaml("ask_judge: if_checks_pass\ncriteria:\n- requirement: Is kind\n")
        assert Rubric.from_yaml(rubric.to_yaml()).ask_judge == "if_checks_pass"
        assert rubric.content_hash != Rubric(rubric.criteria).content_hash

    def test_another_word_is_refused(self):
        with pytest.raises(RubricFileError, match="give always or if_checks_pass"):
            Rubric.from_yaml("ask_judge: never\ncriteria:\n- requirement: Is kind\n")
        with pytest.raises(RubricError, match="give always or if_checks_pass"):
            Rubric(JUDGED, ask_judge="never")

    def test_it_holds_for_checks_that_are_added_later(self):
        rubric = Rubric(JUDGED, ask_judge="if_checks_pass")
        rubric.add_reward_func(lambda completion: "a" in completion)
        report = rubric.grade_sync("x", PerCriterionGrader(FakeModel("MET")))
        assert report.score == 0.0

    def test_such_a_rubric_is_not_taken_apart_for_trl(self):
        rubric = Rubric(
            [CONSTRAINTS[0], Criterion(requirement="Is kind")], ask_judge="if_checks_pass"
        )
        with pytest.raises(RubricError, match="use as_trl_reward"):
            as_trl_rewards(rubric)


class TestEstimatesAndCaps:
    """What a dry run counts, and how calls are limited."""

    async def test_a_dry_run_counts_no_question_whose_condition_fails(self):
        rubric = Rubric([*CONSTRAINTS, HELPFUL, {"requirement": "Is right", "when": "helpful"}])
        rollouts = [{"completion": text} for text in ("a b", "a b c", "c")]
        with ModelServer("MET") as server:
            grader = PerCriterionGrader(model=server.model)
            with dry_run() as plan:
                await rubric.score(rollouts, judge=grader)
            assert (plan.calls, server.calls) == (4, 0)
            await rubric.score(rollouts, judge=grader)
            assert server.calls == 4

    async def test_a_dry_run_of_an_environment_counts_each_sample_and_every_question(self):
        """8 questions, 4 samples each, and one judged criterion for each sample."""
        rows = [{"prompt": f"{number}?"} for number in range(8)]
        with ModelServer("MET") as server:
            grader = PerCriterionGrader(model=server.model)
            env = SingleTurnEnv(rows, rubric=Rubric([*CONSTRAINTS, HELPFUL], judge=grader))
            with dry_run() as plan:
                await env.evaluate(model=f"{server.url}#other", rollouts_per_example=4)
        assert (plan.calls, server.calls) == (64, 0)

    async def test_calls_can_be_limited_without_a_price(self):
        rubric = Rubric([{"requirement": "Is right"}])
        rollouts = [{"completion": f"text {number}"} for number in range(5)]
        with ModelServer("MET") as server, budget(calls=3) as spent:
            grader = PerCriterionGrader(model=server.model)
            reports = await rubric.score(rollouts, judge=grader)
        assert (spent.calls, spent.requests, server.calls) == (3, 3, 3)
        errors = [report.lines[0].error for report in reports if report.lines[0].error]
        assert len(errors) == 2
        assert all(
            error.startswith("BudgetExceeded: all 3 calls have been made") for error in errors
        )

    async def test_failed_attempts_are_requests(self):
        rubric = Rubric([{"requirement": "Is right"}])
        with ModelServer("MET", faults=[Fault.rate_limited(0)]) as server, budget() as spent:
            grader = PerCriterionGrader(model=server.model)
            await rubric.score([{"completion": "text"}], judge=grader)
        assert (spent.requests, spent.calls) == (2, 1)
