"""What checks, judges and states may throw at a rubric: an error that can be seen, or a right number."""

import asyncio
import contextvars
import copy
import pickle
from unittest.mock import Mock

import pytest

from assay import (
    Autograder,
    Criterion,
    GradingError,
    PerCriterionGrader,
    Rollout,
    Rubric,
    RubricError,
    Score,
    SignatureError,
)
from assay.testing import FakeModel, Fixed, make_rollout, make_state


async def one(rubric, **rollout):
    [report] = await rubric.score([make_rollout(**rollout)])
    return report


class TestNumbers:
    @pytest.mark.parametrize("value", [1e308, -1e308, 10**400, -(10**400), 1e101, 2j])
    async def test_a_number_that_cannot_be_added_up_is_an_error(self, value):
        """An overflow would be a wrong number, or an exception for the whole batch."""
        report = await one(Rubric([Fixed(value), Fixed(0.5)]))
        assert "finite number" in report.report[0].error
        assert (report.raw_score, report.partial_reward) == (None, 0.5)

    @pytest.mark.parametrize("weight", [1e308, -1e308, 1e101])
    def test_a_weight_that_cannot_be_added_up_is_refused(self, weight):
        """With the value and the bound."""
        with pytest.raises(RubricError, match=r"1e\+100"):
            Rubric([Fixed(1.0)], weights=[weight])

    async def test_the_largest_weights_and_values_still_add_up(self):
        """A thousand of them stay finite."""
        rubric = Rubric([Fixed(1e100)] * 1000, weights=[1e100] * 1000)
        report = await one(rubric)
        assert report.raw_score == pytest.approx(1e203)
        assert report.score == 1.0

    async def test_a_score_with_an_error_has_no_value(self):
        """Whatever number came along with it."""
        report = await one(Rubric([lambda: Score(1.0, error="boom"), Fixed(0.0)]))
        assert (report.report[0].value, report.scored, report.score) == (None, False, None)

    @pytest.mark.parametrize("aggregation", ["weighted", "mean"])
    async def test_a_score_that_does_not_apply_has_no_value(self, aggregation):
        """It leaves both sums, under every rule."""
        rubric = Rubric([lambda: Score(1.0, verdict="N/A"), Fixed(0.0)], aggregation=aggregation)
        report = await one(rubric)
        assert (report.report[0].value, report.score, report.scored) == (None, 0.0, True)

    async def test_a_reason_that_is_no_text_is_shown_as_one(self):
        """None says nothing."""
        report = await one(Rubric([lambda: Score(1.0, reason=None), lambda: Score(1.0, reason=3)]))
        assert [line.reason for line in report.report] == ["", "3"]


class TestChecks:
    async def test_a_callable_with_a_score_method_is_a_check(self):
        """Only what cannot be called is taken for a rubric."""

        class Model:
            def score(self, a, b):
                raise AssertionError

            def __call__(self, completion):
                return 0.5

        assert (await one(Rubric([Model()]))).raw_score == 0.5
        assert Criterion(check=Mock(return_value=1.0), name="mock").name == "mock"

    @pytest.mark.parametrize("values", [{1.0, 2.0}, frozenset([1.0, 2.0]), {"a": 1, "b": 2}])
    async def test_a_group_result_without_order_is_an_error(self, values):
        """Nobody can tell whose number is whose."""

        def group(completions):
            return values

        states = [make_state("a"), make_state("b")]
        await Rubric([group]).score_group(states)
        assert [list(s["errors"]) for s in states] == [["group"]] * 2
        assert [s["reward"] for s in states] == [None, None]

    async def test_an_error_that_cannot_be_shown_is_still_an_error(self):
        """And so is a result that cannot be."""

        class SilentError(Exception):
            def __str__(self):
                raise RuntimeError("no")

        class Opaque:
            def __repr__(self):
                raise RuntimeError("no")

        report = await one(Rubric([Fixed(SilentError()), Fixed(Opaque())]))
        assert report.report[0].error.startswith("SilentError: ")
        assert "Opaque" in report.report[1].error

    async def test_a_long_message_is_cut(self):
        """A megabyte in every state would drown everything else."""
        report = await one(Rubric([Fixed(ValueError("x" * 1_000_000))]))
        assert len(report.report[0].error) < 2100
        assert "1000000 characters" in report.report[0].error

    async def test_a_check_whose_own_task_was_cancelled_fails_alone(self):
        """Nobody stopped the scoring."""

        async def gives_up(place):
            if place == 1:
                task = asyncio.ensure_future(asyncio.Event().wait())
                task.cancel()
                await task
            return 1.0

        states = [make_state(place=place) for place in range(3)]
        await Rubric([gives_up]).score_group(states)
        assert [state["advantage"] for state in states] == [0.0, None, 0.0]

    @pytest.mark.parametrize("check", [float, lambda *args: 1.0])
    def test_what_takes_nothing_by_name_is_refused(self, check):
        """Called with nothing it would give a number all the same."""
        with pytest.raises(SignatureError):
            Rubric([check])

    def test_a_word_that_begins_like_a_list_is_no_list(self):
        """A return annotation in quotes."""

        def check(completion) -> "Listing":  # noqa: F821
            return 1.0

        assert Rubric([check]).score_rollout_sync(completion="x")["reward"] == 1.0

    def test_many_are_added_one_by_one(self):
        """Each add reads one signature, not all of them again."""
        rubric = Rubric()
        for _ in range(500):
            rubric.add_reward_func(Fixed(1.0))
        assert rubric.score_rollout_sync()["reward"] == 500.0
        assert rubric.get_reward_func_names()[-1] == "fixed_500"


class TestNested:
    async def test_a_rubric_that_raises_inside_is_an_error_of_its_line(self):
        """The outer rubric says what happens to errors."""
        strict = Rubric([Fixed(KeyError("x"))], on_error="raise", name="strict")
        report = await one(Rubric([strict, Fixed(1.0)]))
        assert report.errors == {"strict": "KeyError: 'x'"}
        with pytest.raises(KeyError):
            await one(Rubric([strict], on_error="raise"))

    async def test_somebody_elses_scorer_with_too_few_reports_is_an_error(self):
        """One report a rollout."""

        class Short:
            name = "short"

            async def score(self, rollouts):
                return []

        report = await one(Rubric([Short()]))
        assert list(report.errors) == ["short"]


class TestDoors:
    async def test_every_door_shows_a_check_what_an_earlier_one_wrote(self):
        """By name, through all of them."""

        def writes(state):
            state["found"] = 0.5
            return 0.0

        rubric = Rubric([writes, lambda found: found, lambda **kwargs: kwargs["found"]])
        state = make_state()
        await rubric.score_rollout(state)
        assert state["reward"] == 1.0
        assert (await one(rubric)).raw_score == 1.0
        assert (await rubric.score([Rollout.from_state(make_state())]))[0].raw_score == 1.0
        assert (await rubric.grade("x")).raw_score == 1.0
        assert rubric.score_rollouts(["q"], ["c"], ["a"], [{}])["reward"] == [1.0]

    async def test_a_state_stands_for_its_rollout(self):
        """Plain dicts work everywhere."""
        [report] = await Rubric([lambda completion: completion == "x"]).score([{"completion": "x"}])
        assert report.score == 1.0

    @pytest.mark.parametrize(
        "to_grade", [b"bytes", ["text"], [{"role": "user", "content": "x"}], [], None, True]
    )
    async def test_what_holds_no_reply_is_not_judged(self, to_grade):
        """An empty response would pass for what the model said."""
        model = FakeModel("MET")
        rubric = Rubric([{"requirement": "Is kind"}], judge=PerCriterionGrader(model))
        with pytest.raises(TypeError, match="cannot grade"):
            await rubric.grade(to_grade)
        assert model.calls == []

    async def test_a_state_without_a_reply_is_an_error_line(self):
        """A single message is a chat of one."""
        model = FakeModel("MET")
        rubric = Rubric([{"requirement": "Is kind"}], judge=PerCriterionGrader(model))
        states = [{"completion": []}, {"completion": {"role": "assistant", "content": "hi"}}]
        await rubric.score_group(states)
        assert "completion is []" in states[0]["errors"]["is_kind"]
        assert states[1]["reward"] == 1.0
        assert len(model.calls) == 1

    @pytest.mark.parametrize("odd", [None, "soon", 3, [1]])
    async def test_odd_timing_and_trajectory_are_left_alone(self, odd):
        """None is nothing; anything else is not ours."""
        state = make_state(timing=odd, trajectory=odd)
        await Rubric([Fixed(1.0)]).score_group([state])
        assert state["reward"] == 1.0
        assert state["trajectory"] == odd

    async def test_context_variables_reach_sync_doors_inside_a_loop(self):
        """As they would without the loop."""
        variable = contextvars.ContextVar("variable", default=0.0)
        variable.set(0.5)
        assert Rubric([lambda: variable.get()]).score_rollout_sync()["reward"] == 0.5

    async def test_assigning_a_parser_reaches_the_checks(self):
        """It is the class object of that name."""

        class Loud:
            def parse_answer(self, completion):
                return "LOUD"

        rubric = Rubric([lambda parser: parser.parse_answer("") == "LOUD"])
        rubric.parser = Loud()
        assert rubric.score_rollout_sync()["reward"] == 1.0

    async def test_reports_can_be_pickled_copied_and_compared(self):
        """Those of a group too, whatever its checks are."""
        reports = await Rubric([lambda: 1.0]).score_group([make_state(), make_state()])
        assert pickle.loads(pickle.dumps(reports)) == reports == copy.deepcopy(reports)

    async def test_weights_of_the_wrong_kind_are_refused(self):
        """With a sentence; a generator is as good as a list."""
        with pytest.raises(RubricError, match=r"weights.*2\.0"):
            Rubric([Fixed(1.0)], weights=2.0)
        assert Rubric([Fixed(1.0)], weights=(w for w in [0.5])).weights == [0.5]
        with pytest.raises(TypeError, match="list of states"):
            await Rubric([Fixed(1.0)]).score_group(make_state())


async def test_a_formula_that_gives_no_number_leaves_the_rollout_unscored():
    """None is no score; whoever asks for errors to be raised gets this one too."""
    report = await one(Rubric([Fixed(1.0)], aggregation=lambda lines: None))
    assert not report.scored
    assert "None" in report.errors["<lambda>"]
    with pytest.raises(RubricError, match="None"):
        await one(Rubric([Fixed(1.0)], aggregation=lambda lines: None, on_error="raise"))


async def test_a_judge_that_is_cancelled_inside_is_an_error_line():
    """Some clients cancel their own requests."""
    rubric = Rubric([{"requirement": "Is kind"}, {"requirement": "Is short"}])
    grader = PerCriterionGrader(FakeModel([asyncio.CancelledError(), "MET"]))
    with pytest.raises(GradingError, match="CancelledError"):
        await rubric.grade("x", judge=grader)


@pytest.mark.parametrize("value", [1e308, 10**400, float("nan")])
async def test_a_judges_number_is_held_to_the_same_bound(value):
    """With a rubric around the grader, and without one."""

    class Loud(Autograder):
        async def judge(self, to_grade, rubric, query=None):
            return [value, Score(value)]

    criteria = [Criterion(requirement="a"), Criterion(requirement="b")]
    report = await Loud().grade("x", criteria)
    assert (report.answered, report.raw_score, report.score) == (0, None, None)
    with pytest.raises(GradingError, match="finite"):
        await Rubric(criteria, judge=Loud()).grade("x")
