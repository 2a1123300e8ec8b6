"""ToolRubric: the answer, the calls and the format; and for every tool, how it was used."""

import copy
import json
import pickle
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from assay import Parser, RubricError, RubricGroup, State, XMLParser
from assay.presets import ToolRubric
from assay.testing import make_state
from assay.tools import calculator, python

THREE = ["correct_answer_reward_func", "tool_execution_reward_func", "format_reward_func"]


def said(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def tagged(body: str) -> dict[str, Any]:
    return said(f"<reasoning>First.</reasoning>\n<tool>{body}</tool>")


def asks(name: str, **args: Any) -> dict[str, Any]:
    return tagged(json.dumps({"name": name, "args": args}))


def result(text: str) -> dict[str, Any]:
    return {"role": "user", "content": f"<result>{text}</result>"}


def calls(*pairs: tuple[str, str], content: str | None = None) -> dict[str, Any]:
    """A message with native calls, each an id and a name."""
    written = [
        {"id": id, "type": "function", "function": {"name": name, "arguments": "{}"}}
        for id, name in pairs
    ]
    return {"role": "assistant", "content": content, "tool_calls": written}


def replied(id: str, text: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": id, "content": text}


ANSWER = said("<reasoning>So.</reasoning>\n<answer>42</answer>")
PEERS = [
    asks("calculator", expression="6 * 7"),
    result("42"),
    asks("calculator", expression="1 / 0"),
    result("Error: division by zero"),
    tagged("{calculator: 6 * 7}"),
    result("Error: no JSON"),
    ANSWER,
]
"""One call that comes off, one that fails, one that cannot be read."""


def score(rubric: ToolRubric, completion: Any, answer: Any = "42") -> dict[str, Any]:
    return rubric.score_rollout_sync(completion=completion, answer=answer)


def used(rubric: ToolRubric, completion: Any, tool: str = "calculator") -> tuple[float, ...]:
    """Reward, count and attempts of one tool."""
    scores = score(rubric, completion)
    return tuple(scores[f"{tool}_{measure}"] for measure in ("reward", "count", "attempt"))


class TestTheLines:
    def test_three_have_weight_and_three_a_tool_have_none(self) -> None:
        """In the order the document gives."""
        rubric = ToolRubric(tools=[calculator, python], weights=[0.5, 0.3, 0.2])
        assert rubric.get_reward_func_names() == [
            *THREE,
            *("calculator_reward", "calculator_count", "calculator_attempt"),
            *("python_reward", "python_count", "python_attempt"),
        ]
        assert rubric.weights == [0.5, 0.3, 0.2, 0, 0, 0, 0, 0, 0]

    def test_without_weights_they_are_those_of_the_peers(self) -> None:
        """1.0, 0.2 and 0.2."""
        assert ToolRubric(tools=[calculator]).weights == [1.0, 0.2, 0.2, 0, 0, 0]

    def test_without_tools_only_the_three_are_left(self) -> None:
        """Calls of whatever tool still count as calls."""
        rubric = ToolRubric()
        assert rubric.get_reward_func_names() == THREE
        assert score(rubric, [asks("any"), result("fine"), ANSWER])["reward"] == pytest.approx(1.4)

    def test_further_checks_can_be_added(self) -> None:
        """With a weight of their own."""
        rubric = ToolRubric(tools=[calculator])
        rubric.add_reward_func(lambda completion: len(completion), weight=0.5)
        assert score(rubric, [ANSWER])["reward"] == pytest.approx(1.0 + 0.2 + 0.5)

    @pytest.mark.parametrize("weights", [[0.5, 0.5], [], 0.5, "abc", [1, 2, 3, 4]])
    def test_weights_that_are_not_three_are_refused(self, weights: Any) -> None:
        """With what they are for."""
        with pytest.raises(RubricError, match="three numbers, for the answer, the calls"):
            ToolRubric(tools=[calculator], weights=weights)

    def test_a_weight_that_is_no_number_is_refused(self) -> None:
        """By the name of its line."""
        with pytest.raises(RubricError, match="correct_answer_reward_func"):
            ToolRubric(weights=["half", 0.3, 0.2])  # type: ignore[list-item]


class TestCallsInTags:
    def test_what_the_peers_count_is_counted(self) -> None:
        """One of three calls, 1/3; the tool is named in two of them."""
        rubric = ToolRubric(tools=[calculator], weights=[0.5, 0.3, 0.2])
        scores = score(rubric, PEERS)
        assert scores["tool_execution_reward_func"] == pytest.approx(1 / 3)
        assert used(rubric, PEERS) == (1.0, 1.0, 2.0)
        assert scores["reward"] == pytest.approx(0.5 + 0.3 / 3 + 0.2)

    @pytest.mark.parametrize(
        ("reply", "succeeded"),
        [
            (result("4"), True),
            (result(""), True),
            (result("No error: 4"), True),
            (result("Error: no"), False),
            (result("\n Error: no"), False),
            ({"role": "tool", "content": "<result>4</result>"}, True),
            ({"role": "user", "content": "4"}, False),
            ({"role": "user", "content": [{"type": "text", "text": "<result>4</result>"}]}, True),
            ({"role": "system", "content": "<result>4</result>"}, None),
        ],
    )
    def test_success_is_a_result_that_is_no_error(self, reply: Any, succeeded: bool | None) -> None:
        """A reply without a result is none; no reply at all says nothing."""
        [use] = ToolRubric().tool_uses([asks("add"), reply])
        assert (use.name, use.succeeded) == ("add", succeeded)

    def test_a_call_that_nobody_replied_to_is_an_attempt_and_no_failure(self) -> None:
        """The rollout ended there."""
        rubric = ToolRubric(tools=[calculator])
        chat = [asks("calculator"), result("42"), asks("calculator")]
        assert used(rubric, chat) == (1.0, 1.0, 2.0)
        assert score(rubric, chat)["tool_execution_reward_func"] == 1.0

    def test_what_the_model_writes_itself_is_no_result(self) -> None:
        """Nor is anything in a plain text, which the model wrote from end to end."""
        rubric = ToolRubric(tools=[calculator])
        text = asks("calculator")["content"] + "<result>42</result><answer>42</answer>"
        for completion in (text, [said(text)]):
            assert used(rubric, completion) == (0.0, 0.0, 1.0)
            assert score(rubric, completion)["tool_execution_reward_func"] == 0.0

    def test_several_calls_in_one_message_have_their_results_in_order(self) -> None:
        """When there are fewer results, they answer the last calls."""
        both = said(asks("add")["content"] + asks("sub")["content"])
        rubric = ToolRubric(tools=["add", "sub"])
        answered = [both, result("1"), result("Error: 2")]
        assert [use.succeeded for use in rubric.tool_uses(answered)] == [True, False]
        partly = [both, result("2")]
        assert [use.succeeded for use in rubric.tool_uses(partly)] == [False, True]

    @pytest.mark.parametrize(
        "body",
        [
            "",
            "add",
            "[1, 2]",
            '"add"',
            '{"args": {}}',
            '{"name": 5}',
            "{'name': 'add'}",
            "[" * 9999,
        ],
    )
    def test_a_call_that_cannot_be_read_is_nobodys(self, body: str) -> None:
        """It is an attempt at something."""
        [use] = ToolRubric().tool_uses([tagged(body), result("Error: what?")])
        assert (use.name, use.succeeded) == ("", False)

    def test_results_are_read_by_the_parser_that_is_given(self) -> None:
        """Which must read them."""
        parser = XMLParser(["status", "result"])
        reply = {"role": "user", "content": "<status>ok</status><result>4</result>"}
        [use] = ToolRubric(env_parser=parser).tool_uses([asks("add"), reply])
        assert use.succeeded
        for wrong in (XMLParser(["output"]), Parser()):
            with pytest.raises(RubricError, match="reads no <result>"):
                ToolRubric(env_parser=wrong)  # type: ignore[arg-type]


class TestNativeCalls:
    CHAT = (
        calls(("1", "calculator"), ("2", "search")),
        replied("2", "Error: nothing found"),
        replied("1", "42"),
        calls(("3", "calculator"), content="Once more."),
        replied("3", "Error: division by zero"),
        said("42"),
    )

    def test_calls_meet_their_replies_by_id(self) -> None:
        """One of three comes off; the answer and the format need no tags."""
        rubric = ToolRubric(tools=[calculator, "search"], weights=[0.5, 0.3, 0.2])
        assert used(rubric, list(self.CHAT)) == (1.0, 1.0, 2.0)
        assert used(rubric, list(self.CHAT), "search") == (0.0, 0.0, 1.0)
        assert score(rubric, list(self.CHAT))["reward"] == pytest.approx(0.5 + 0.3 / 3 + 0.2)

    def test_without_ids_they_meet_in_order(self) -> None:
        """And an id that returns in a later turn is another call."""
        chat = [calls(("", "a"), ("", "b")), replied("", "1"), replied("", "Error: 2")]
        assert [use.succeeded for use in ToolRubric().tool_uses(chat)] == [True, False]
        again = [calls(("0", "a")), replied("0", "Error: 1"), calls(("0", "b")), replied("0", "2")]
        assert [use.succeeded for use in ToolRubric().tool_uses(again)] == [False, True]

    def test_a_call_without_a_reply_is_known_by_its_id(self) -> None:
        """The reply that is there is another's."""
        chat = [calls(("1", "a"), ("2", "b")), replied("2", "fine")]
        assert [use.succeeded for use in ToolRubric().tool_uses(chat)] == [None, True]

    def test_objects_of_an_sdk_and_calls_saved_as_text_are_read(self) -> None:
        """As they are everywhere."""
        function = SimpleNamespace(name="add", arguments='{"a": 1}')
        call = SimpleNamespace(id="1", type="function", function=function)
        message = SimpleNamespace(role="assistant", content=None, tool_calls=[call])
        reply = SimpleNamespace(role="tool", tool_call_id="1", content="2")
        assert ToolRubric().tool_uses([message, reply]) == [("add", '{"a": 1}', True)]
        saved = {
            "role": "assistant",
            "tool_calls": [json.dumps(calls(("1", "add"))["tool_calls"][0])],
        }
        [use] = ToolRubric().tool_uses([saved, replied("1", "2")])
        assert (use.name, use.succeeded) == ("add", True)

    def test_tags_beside_native_calls_are_only_words(self) -> None:
        """The native ones are what was called."""
        message = calls(("1", "a"), content="<tool>{}</tool>")
        assert len(ToolRubric().tool_uses([message, replied("1", "fine")])) == 1

    def test_a_tag_in_the_last_message_goes_before_the_whole_of_it(self) -> None:
        """And a rollout that ends in a call has no answer."""
        rubric = ToolRubric(tools=["a"])
        chat = [calls(("1", "a")), replied("1", "fine"), said("It is <answer>42</answer>.")]
        assert score(rubric, chat)["correct_answer_reward_func"] == 1.0
        assert score(rubric, chat[:1])["correct_answer_reward_func"] == 0.0
        assert score(rubric, chat[:1])["format_reward_func"] == 0.0

    def test_a_parser_of_your_own_reads_the_words_between_calls(self) -> None:
        """A message that only calls has no format to keep."""
        rubric = ToolRubric(tools=["a"], parser=XMLParser(["answer"]))
        chat = [calls(("1", "a")), replied("1", "fine"), said("<answer>42</answer>")]
        assert score(rubric, chat)["format_reward_func"] == 1.0
        assert score(rubric, [*chat[:2], said("42")])["format_reward_func"] == 0.0
        assert score(rubric, [*chat[:2], said("42")])["correct_answer_reward_func"] == 0.0


class TestTheAnswer:
    @pytest.mark.parametrize(
        ("written", "expected", "value"),
        [
            ("42", "42", 1.0),
            (" 42 ", "42", 1.0),
            ("42.0", "42", 1.0),
            ("42", 42, 1.0),
            ("1,000", 1000.0, 1.0),
            ("Paris", "Paris", 1.0),
            ("paris", "Paris", 0.0),
            ("41", "42", 0.0),
            ("42 or so", "42", 0.0),
            ("", "42", 0.0),
        ],
    )
    def test_it_is_compared_as_text_and_as_a_number(
        self, written: str, expected: Any, value: float
    ) -> None:
        """A calculator says 42.0 where a book says 42."""
        scores = score(ToolRubric(), f"<answer>{written}</answer>", expected)
        assert scores["correct_answer_reward_func"] == value

    async def test_the_reason_says_what_was_found(self) -> None:
        """And what was expected."""
        [report] = await ToolRubric().score([make_state("<answer>41</answer>", answer="42")])
        assert report.report[0].reason == "the answer is '41', and '42' was expected"
        [report] = await ToolRubric().score([make_state("41", answer="42")])
        assert report.report[0].reason == "the parser reads no answer in it"
        assert report.report[1].reason == "no tool was run"

    @pytest.mark.parametrize("missing", ["", None, "  "])
    async def test_a_rollout_without_an_expected_answer_is_unscored(self, missing: Any) -> None:
        """Nobody can say that its answer is wrong."""
        [report] = await ToolRubric(tools=["a"]).score([make_state("4", answer=missing)])
        assert not report.scored
        assert "no answer to compare with" in report.errors["correct_answer_reward_func"]
        assert report.metrics["a_attempt"] == 0.0

    async def test_a_parser_that_fails_is_an_error_and_no_zero(self) -> None:
        """On the lines that read with it, and on no other."""

        def broken(text: str) -> str:
            raise KeyError("no such field")

        rubric = ToolRubric(tools=["a"], parser=Parser(extract_fn=broken))
        [report] = await rubric.score([make_state("4", answer="4")])
        assert set(report.errors) == {"correct_answer_reward_func"}
        assert not report.scored

    async def test_a_subclass_may_judge_the_answer_in_its_own_way(self) -> None:
        """By a method of the same name."""

        class Contains(ToolRubric):
            def correct_answer_reward_func(
                self, completion: Any, answer: Any, **kwargs: Any
            ) -> Any:
                return answer in completion

        rubric = Contains(tools=["a"])
        assert score(rubric, "it is 42")["correct_answer_reward_func"] == 1.0


class TestTools:
    def test_whatever_has_a_name_is_a_tool(self) -> None:
        """Functions, partials, objects, schemas, names."""

        class Adder:
            def __call__(self, a: int) -> int:
                return a + 1

        schema = {"type": "function", "function": {"name": "search", "parameters": {}}}
        tools = [
            calculator,
            partial(python, "print(1)"),
            Adder(),
            SimpleNamespace(name="browser"),
            schema,
            {"name": "bare", "input_schema": {}},
            "my-tool.v2",
        ]
        rubric = ToolRubric(tools=tools)
        assert list(rubric.tools) == [
            *("calculator", "python", "Adder", "browser", "search", "bare", "my-tool.v2")
        ]
        assert used(rubric, [calls(("1", "my-tool.v2")), replied("1", "fine")], "my-tool.v2") == (
            *(1.0, 1.0, 1.0),
        )

    @pytest.mark.parametrize(
        "tool", [lambda x: x, {"type": "function"}, "", {"function": {"name": 5}}]
    )
    def test_what_has_no_name_cannot_be_called(self, tool: Any) -> None:
        """Its place is given."""
        with pytest.raises(RubricError, match=r"tool 2 .* has no name"):
            ToolRubric(tools=["first", tool])

    def test_two_tools_of_one_name_cannot_be_told_apart(self) -> None:
        """Calls name a tool and nothing else."""
        with pytest.raises(RubricError, match="two tools are called 'calculator'"):
            ToolRubric(tools=[calculator, {"name": "calculator"}])

    @pytest.mark.parametrize("tools", [calculator, "calculator", {"name": "calculator"}, 5])
    def test_one_tool_by_itself_is_no_list(self, tools: Any) -> None:
        """Put it in brackets."""
        with pytest.raises(RubricError, match="give a list of tools"):
            ToolRubric(tools=tools)

    def test_names_that_look_like_lines_stay_apart(self) -> None:
        """`a_reward` is a tool, and a line of the tool `a`."""
        rubric = ToolRubric(tools=["a", "a_reward", "format"])
        names = rubric.get_reward_func_names()
        assert len(set(names)) == len(names) == 12
        scores = score(rubric, [calls(("1", "a_reward")), replied("1", "fine")])
        assert (scores["a_reward"], scores["a_reward_reward"]) == (0.0, 1.0)

    def test_a_tool_that_is_not_listed_counts_for_the_calls_alone(self) -> None:
        """Nobody asked about it."""
        chat = [calls(("1", "other")), replied("1", "fine"), said("42")]
        scores = score(ToolRubric(tools=[calculator]), chat)
        assert scores["tool_execution_reward_func"] == 1.0
        assert scores["calculator_attempt"] == 0.0
        assert "other_attempt" not in scores


class TestTogetherWithOthers:
    def test_every_line_is_a_question_of_its_own(self) -> None:
        """What one measures is no answer to another, for whoever keeps answers by their hash."""
        rubric = ToolRubric(tools=["a", "b"])
        assert len({criterion.question_hash for criterion in rubric.criteria}) == 9
        twin = ToolRubric(tools=["a", "b"])
        assert twin.content_hash == rubric.content_hash

    @pytest.mark.parametrize("copied", [copy.deepcopy, lambda r: pickle.loads(pickle.dumps(r))])
    def test_a_copy_scores_the_same(self, copied: Any) -> None:
        """And reads with its own parser."""
        rubric = copied(ToolRubric(tools=[calculator], weights=[0.5, 0.3, 0.2]))
        assert score(rubric, PEERS)["reward"] == pytest.approx(0.5 + 0.1 + 0.2)
        rubric.parser = Parser()
        assert score(rubric, "42")["correct_answer_reward_func"] == 1.0

    def test_an_environment_hands_its_parser_down(self) -> None:
        """Unless the rubric was given one."""
        rubric = ToolRubric()
        rubric.inherit_parser(Parser())
        assert score(rubric, "42")["correct_answer_reward_func"] == 1.0
        own = ToolRubric(parser=XMLParser(["answer"]))
        own.inherit_parser(Parser())
        assert score(own, "42")["correct_answer_reward_func"] == 0.0

    async def test_many_are_scored_at_once_and_in_a_group(self) -> None:
        """A group adds up."""
        rubric = RubricGroup([ToolRubric(tools=[calculator]), ToolRubric(tools=[calculator])])
        states = [make_state(PEERS, answer="42"), make_state([said("no")], answer="42")]
        await rubric.score_group(states)
        assert states[0]["metrics"]["calculator_count"] == 2.0
        assert states[0]["reward"] == pytest.approx(2 * (1.0 + 0.2 / 3 + 0.2))
        assert states[1]["reward"] == 0.0

    async def test_a_state_that_keeps_its_answer_in_its_input_row_is_scored(self) -> None:
        """As the states of an environment do, with every usual field."""
        row = {"prompt": "6 * 7?", "answer": "42", "task": "default", "info": {}}
        state = State(input=row, completion=PEERS)
        await ToolRubric(tools=[calculator]).score_rollout(state)
        assert state["reward"] == pytest.approx(1.0 + 0.2 / 3 + 0.2)

    @pytest.mark.parametrize("completion", ["", [{"role": "assistant", "content": ""}]])
    async def test_an_empty_rollout_has_used_nothing(self, completion: Any) -> None:
        """And scored nothing, without an error."""
        [report] = await ToolRubric(tools=["a"]).score([make_state(completion, answer="4")])
        assert report.errors == {}
        assert report.raw_score == 0.0

    def test_a_hostile_text_takes_no_longer_than_others(self) -> None:
        """Tags that never close, a thousand calls in one message."""
        rubric = ToolRubric(tools=["a"])
        assert used(rubric, "<tool>" * 100_000, "a") == (0.0, 0.0, 0.0)
        many = said('<tool>{"name": "a"}</tool>' * 1000)
        assert used(rubric, [many, result("1")], "a") == (1.0, 1.0, 1000.0)
