"""What goes wrong in `verifiers`, and what is true here instead."""

import asyncio
import logging
from functools import partial
from inspect import signature
from types import SimpleNamespace

import pytest

from assay import (
    Criterion,
    MaybeThinkParser,
    Parser,
    Rubric,
    RubricError,
    RubricGroup,
    Score,
    State,
    ThinkParser,
    XMLParser,
    advantages,
    extract_boxed_answer,
    extract_hash_answer,
)
from assay.testing import Fixed, make_rollout, make_state


def exact(completion, answer):
    return completion == answer


def length(completion):
    return len(completion)


def fixed(value, name, **fields):
    return Criterion(check=Fixed(value), name=name, **fields)


class TestWhatIsGiven:
    """Section 3, Rubric: arguments and construction."""

    def test_the_first_rubric_leaves_the_second_alone(self):
        """Defaults are not shared between rubrics; there the second one had the first one's functions."""
        Rubric().add_reward_func(length)
        assert len(Rubric()) == 0

    def test_weights_shorter_than_functions_are_refused(self):
        """Zipping them would leave a function out of the reward."""
        with pytest.raises(ValueError, match=r"Number of weights \(1\) must match .* \(2\)"):
            Rubric([exact, length], weights=[1.0])

    def test_a_tuple_of_functions_can_be_added_to(self):
        """There `add_reward_func` failed on a tuple."""
        rubric = Rubric((exact,), weights=(2.0,))
        rubric.add_reward_func(length)
        assert rubric.weights == [2.0, 1.0]

    def test_weights_that_have_no_truth_value_are_read(self):
        """An array of one zero is a weight of 0, and not no weights at all."""

        class Array(list):
            def __bool__(self):
                return any(self)

        assert Rubric([exact], weights=Array([0.0])).weights == [0.0]

    def test_unknown_keywords_are_refused(self):
        """They used to become attributes, so a misspelled option did nothing."""
        with pytest.raises(TypeError, match="judge_models"):
            Rubric([exact], judge_models=["a"])

    def test_a_column_reaches_a_function_by_its_name(self):
        """A field of the dataset row needs no `info`."""
        rubric = Rubric([lambda difficulty: difficulty])
        [report] = asyncio.run(rubric.score([make_rollout(difficulty=0.25)]))
        assert report.raw_score == 0.25

    def test_a_callable_without_a_name_is_reported(self):
        """There partials and objects with `__call__` raised an AttributeError."""
        rubric = Rubric([partial(length), Fixed(0.5)])
        assert rubric.score_rollout_sync(completion="abc") == {
            "length": 3.0,
            "fixed": 0.5,
            "reward": 3.5,
        }

    def test_two_functions_of_one_name_keep_a_metric_each(self):
        """There the second overwrote the first, and the reward counted both."""
        rubric = Rubric([fixed(1.0, "f"), fixed(0.5, "f")])
        assert rubric.score_rollout_sync() == {"f": 1.0, "f_2": 0.5, "reward": 1.5}


class TestDoors:
    """Section 1, seed text that was true of no code."""

    def test_scoring_without_tasks_and_infos_scores_everything(self):
        """There a missing `infos` gave empty lists, and a missing `tasks` a TypeError."""
        scores = Rubric([exact]).score_rollouts(["p", "p"], ["a", "b"], ["a", "a"], [{}, {}])
        assert scores == {"exact": [1.0, 0.0], "reward": [1.0, 0.0]}

    def test_no_rollouts_give_empty_columns(self):
        """Every name is there."""
        assert Rubric([exact]).score_rollouts([], [], []) == {"exact": [], "reward": []}

    async def test_the_synchronous_door_works_in_a_running_loop(self):
        """Without a patched event loop."""
        assert Rubric([exact]).score_rollout_sync("p", "a", "a")["reward"] == 1.0

    def test_a_function_that_is_async_is_awaited(self):
        """There the old version put the coroutine itself into the sum."""

        async def later(completion):
            await asyncio.sleep(0)
            return 0.5

        assert Rubric([later]).score_rollout_sync(completion="x")["reward"] == 0.5

    async def test_a_function_may_be_called_reward(self):
        """Its value is in the metrics, and the reward is the sum."""
        state = make_state()
        await Rubric([fixed(0.25, "reward", weight=2)]).score_rollout(state)
        assert (state["reward"], state["metrics"]) == (0.5, {"reward": 0.25})

    def test_a_group_gives_the_same_numbers_one_by_one_and_all_at_once(self):
        """There two rubrics that share a function gave it 1.0 alone and 2.0 in a batch."""
        group = RubricGroup([Rubric([Fixed(1.0)]), Rubric([Fixed(1.0)], weights=[0.5])])
        alone = group.score_rollout_sync()
        batch = group.score_rollouts(["p"], ["c"], ["a"])
        assert alone == {"fixed": 2.0, "reward": 1.5}
        assert batch == {"fixed": [2.0], "reward": [1.5]}

    def test_plain_dicts_are_states_without_timing_or_trajectory(self):
        """There both were needed."""
        states = [{"completion": "a", "answer": "a"}, {"completion": "b", "answer": "a"}]
        asyncio.run(Rubric([exact]).score_group(states))
        assert [state["advantage"] for state in states] == [0.5, -0.5]

    @pytest.mark.parametrize("timing", [None, (), "3 ms", SimpleNamespace(total_ms=1.0)])
    async def test_timing_that_is_no_mapping_does_not_lose_the_reward(self, timing):
        """None is replaced by a dict, and anything else is left as it is."""
        states = [make_state("4", timing=timing), make_state("5", timing=timing)]
        await Rubric([Fixed(1.0)]).score_group(states)
        assert [state["reward"] for state in states] == [1.0, 1.0]
        assert states[0]["timing"] is timing or timing is None


class TestErrors:
    """Section 3, errors and values; section 7, rows 8 and 9."""

    async def test_a_failure_can_be_told_from_a_zero(self):
        """There both were 0.0, with a line in the log."""
        states = [make_state("4"), make_state("5")]

        def judged(completion):
            if completion[0]["content"] == "5":
                raise RuntimeError("rate limit")
            return 0.0

        await Rubric([judged]).score_group(states)
        assert [state.get("errors") for state in states] == [
            None,
            {"judged": "RuntimeError: rate limit"},
        ]
        assert [state["advantage"] for state in states] == [0.0, None]

    async def test_a_failed_rollout_is_no_part_of_the_baseline(self):
        """1 and 0 have the mean 0.5, whatever became of the third."""
        values = iter([1.0, 0.0, ValueError("broken")])
        states = [make_state() for _ in range(3)]

        def varied(completion):
            value = next(values)
            if isinstance(value, Exception):
                raise value
            return value

        await Rubric([varied]).score_group(states)
        assert [state["advantage"] for state in states] == [0.5, -0.5, None]

    async def test_one_nan_does_not_spoil_the_group(self):
        """There one NaN made every advantage of the group NaN."""
        states = [make_state(n=n) for n in (1.0, float("nan"), 0.0)]
        await Rubric([lambda n: n]).score_group(states)
        assert [state["advantage"] for state in states] == [0.5, None, -0.5]

    def test_advantages_of_a_nan_are_refused(self):
        """A reward that is not known is None."""
        with pytest.raises(ValueError, match="a reward is nan"):
            advantages([float("nan"), 1.0])

    def test_tiny_and_huge_rewards_have_a_standard_deviation(self):
        """Of ±x the deviation of the sample is √2·x, also where its square is 0 or infinite."""
        for reward in (1e-200, 1e200):
            assert advantages([reward, -reward], "grpo", epsilon=0.0) == pytest.approx(
                [0.5**0.5, -(0.5**0.5)]
            )

    async def test_a_keyword_that_the_judge_does_not_take_is_an_error(self):
        """Issue 711: the TypeError was a reward of 0."""

        async def judge(prompt, completion):
            return 1.0

        async def judged(prompt, completion, judge, **kwargs):
            return await judge(prompt, completion, **kwargs)

        rubric = Rubric([judged])
        rubric.add_class_object("judge", judge)
        state = make_state()
        await rubric.score_rollout(state)
        assert state["errors"]["judged"].startswith("TypeError")

    async def test_a_field_that_no_state_has_is_an_error_of_the_check(self):
        """There a missing `completion` was a KeyError and an unknown parameter a 0.0."""
        state = {"prompt": "p"}
        await Rubric([length]).score_group([state])
        assert state["reward"] is None
        assert "needs an argument 'completion'" in state["errors"]["length"]

    def test_what_a_check_cancels_itself_is_its_own_error(self):
        """Nobody stopped the scoring, so it goes on; being cancelled from outside is tested elsewhere."""

        async def cancelled(completion):
            raise asyncio.CancelledError

        [report] = asyncio.run(Rubric([cancelled]).score([make_rollout()]))
        assert report.errors["cancelled"].startswith("CancelledError")


class TestGroups:
    """Section 3, RubricGroup; section 7, rows 2, 4, 5, 26; section 5 of the landscape."""

    async def test_steps_get_the_total_and_its_advantage(self):
        """Children [1, 0] and [0, 3]: rewards 1 and 3, advantages −1 and +1, in every step."""
        states = [
            make_state(a=a, b=b, trajectory=[{"reward": None, "advantage": None}])
            for a, b in ((1.0, 0.0), (0.0, 3.0))
        ]
        await RubricGroup([Rubric([lambda a: a]), Rubric([lambda b: b])]).score_group(states)
        steps = [state["trajectory"][0] for state in states]
        assert steps == [{"reward": 1.0, "advantage": -1.0}, {"reward": 3.0, "advantage": 1.0}]

    async def test_scoring_time_of_a_group_is_in_its_total(self):
        """There `scoring_ms` was the last child's and `total_ms` that of all."""
        state = make_state(timing={"generation_ms": 5.0, "scoring_ms": 0.0, "total_ms": 5.0})
        await RubricGroup([Rubric([Fixed(1.0)]), Rubric([Fixed(1.0)])]).score_rollout(state)
        timing = state["timing"]
        assert timing["total_ms"] == pytest.approx(5.0 + timing["scoring_ms"])

    async def test_a_child_without_functions_does_not_stop_a_single_rollout(self):
        """There it was an AssertionError."""
        state = make_state()
        await RubricGroup([Rubric(), Rubric([Fixed(0.5)])]).score_rollout(state)
        assert state["reward"] == 0.5

    def test_functions_of_the_groups_own_are_refused(self):
        """There they were taken and never run."""
        with pytest.raises(RubricError, match="no criteria of its own"):
            RubricGroup([Rubric([exact])], funcs=[length])

    def test_class_objects_stay_with_their_child(self):
        """Each child sees its own."""
        first, second = (Rubric([lambda unit: unit]) for _ in range(2))
        first.add_class_object("unit", 1.0)
        second.add_class_object("unit", 10.0)
        assert RubricGroup([first, second]).score_rollout_sync()["reward"] == 11.0

    async def test_a_mean_instead_of_a_sum(self):
        """Issue 453: nest the rubrics and ask for the mean: (1 + 0.5) / 2."""
        rubric = Rubric([Rubric([Fixed(1.0)]), Rubric([Fixed(0.5)])], aggregation="mean")
        [report] = await rubric.score([make_rollout()])
        assert (report.raw_score, report.score) == (0.75, 0.75)

    async def test_names_are_there_through_nested_groups(self):
        """Issue 529: no name is lost on the way."""
        group = RubricGroup([RubricGroup([Rubric([lambda: 1.0])]), Rubric([exact])])
        assert group.get_reward_func_names() == ["check_1", "exact"]


class TestState:
    """Section 3, State."""

    def test_a_copy_still_sees_the_input_row(self):
        """`state.copy()` is a State; as a dict it would have lost the answer."""
        state = State(input={"answer": "4"}, completion="x").copy()
        assert ("answer" in state, state["answer"]) == (True, "4")

    def test_merging_writes_where_reading_looks(self):
        """`|=` goes into the row, as `update` does."""
        state = State(input={"answer": "4"})
        state |= {"answer": "5", "completion": "x"}
        assert state == {"input": {"answer": "5"}, "completion": "x"}


class TestParsers:
    """Section 3, parsers and data utils; section 7, rows 13 to 17."""

    def test_the_last_match_wins_in_a_text_and_in_messages(self):
        """There messages gave the first and texts the last."""
        text = "<answer>draft</answer> or rather <answer>final</answer>"
        parser = XMLParser(["answer"])
        messages = [{"role": "assistant", "content": text}]
        assert (parser.parse_answer(text), parser.parse_answer(messages)) == ("final", "final")

    def test_an_extract_function_of_an_xml_parser_is_used(self):
        """There it was stored and never called."""
        parser = XMLParser(["answer"], extract_fn=extract_boxed_answer)
        assert parser.parse_answer(r"<answer>so \boxed{4}</answer>") == "4"

    @pytest.mark.parametrize(("text", "score"), [("", 0.0), ("plain", 0.0)])
    def test_text_without_any_tag_has_no_format(self, text, score):
        """There it was worth 0.2."""
        assert XMLParser(["think", "answer"]).get_format_reward_func()(text) == score

    def test_mismatched_tags_are_worth_less_than_matched_ones(self):
        """Issue 116: there they could get the full score."""
        reward = XMLParser(["reasoning", "answer"]).get_format_reward_func()
        well = "<reasoning>a</reasoning>\n<answer>b</answer>"
        mixed = "<reasoning>a</answer>\n<answer>b</reasoning>"
        assert (reward(well), reward(mixed) < 0.5) == (1.0, True)

    def test_a_format_function_takes_a_plain_text_in_a_rubric(self):
        """There a string completion was a TypeError, so 0.0."""
        rubric = Rubric([XMLParser(["answer"]).get_format_reward_func()])
        assert rubric.score_rollout_sync(completion="<answer>4</answer>")["reward"] == 1.0

    def test_no_messages_have_no_think_format(self):
        """There it was a ZeroDivisionError."""
        assert ThinkParser().get_format_reward_func()([]) == 0.0

    @pytest.mark.parametrize("content", [None, [{"type": "text", "text": ""}]])
    def test_no_content_is_not_the_word_none(self, content):
        """There `None` was read as a text, and parts as their Python repr."""
        assert Parser().parse_answer([{"role": "assistant", "content": content}]) == ""

    def test_a_thought_that_was_cut_off_is_no_answer(self):
        """There its boxed guess was scored."""
        parser = MaybeThinkParser(extract_boxed_answer)
        assert not parser.parse_answer(r"<think>perhaps \boxed{4}")

    def test_a_broken_box_does_not_hide_a_whole_one(self):
        """There the later, unbalanced one won."""
        assert extract_boxed_answer(r"\boxed{4} and then \boxed{5") == "4"

    def test_the_last_hash_mark_counts(self):
        """There the first did."""
        assert extract_hash_answer("#### 3 is wrong\n#### 4") == "4"

    def test_parsers_log_nothing_when_they_are_made(self, caplog):
        """There a field named `think`, or a ThinkParser, warned at length."""
        with caplog.at_level(logging.DEBUG):
            XMLParser(["think", "answer"])
            ThinkParser()
        assert caplog.records == []

    async def test_a_rubric_reads_with_the_parser_it_is_given(self):
        """Issue 277: right answers get their reward once the parser is passed, and only then."""

        def right(parser, completion, answer):
            return parser.parse_answer(completion) == answer

        state = make_state("<answer>4</answer>")
        await Rubric([right], parser=XMLParser(["answer"])).score_rollout(state)
        assert state["reward"] == 1.0


class TestCost:
    """Section 8, do better."""

    def test_a_signature_is_read_once(self):
        """At construction; there it was read for each function and state."""

        class Counted:
            reads = 0

            @property
            def __signature__(self):
                type(self).reads += 1
                return signature(exact)

            def __call__(self, completion, answer):
                return 1.0

        rubric = Rubric([Counted()])
        before = Counted.reads
        asyncio.run(rubric.score_group([make_state() for _ in range(10)]))
        assert Counted.reads == before

    async def test_several_functions_share_one_call(self):
        """Request 381: a later check names what an earlier one left in the state."""
        calls = []

        async def asked(state):
            calls.append(1)
            state["verdict"] = 0.5
            return Score(1.0)

        states = [make_state(), make_state()]
        await Rubric([asked, lambda verdict: verdict], weights=[0, 1]).score_group(states)
        assert ([state["reward"] for state in states], len(calls)) == ([0.5, 0.5], 2)
