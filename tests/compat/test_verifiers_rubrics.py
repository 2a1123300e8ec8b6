"""The rubric classes of verifiers 0.1: their parsers, metrics and weights."""

from typing import ClassVar

import openai
import pytest
from assay.compat.verifiers.utils.tool_utils import convert_func_to_oai_tool

import assay
from assay import compat
from assay.compat import verifiers as vf
from assay.testing import ModelServer


def half(n: int) -> float:
    """Halve a number."""
    return n / 2


def call(name):
    return {"id": name, "type": "function", "function": {"name": name, "arguments": "{}"}}


CHAT = [
    {"role": "assistant", "content": None, "tool_calls": [call("half"), call("other")]},
    {"role": "tool", "tool_call_id": "half", "content": "2.0"},
    {"role": "assistant", "content": "2.0"},
]


def right(completion, answer):
    return 1.0


class TestParsers:
    """A rubric that is given no parser has one of verifiers' own classes."""

    def test_of_mathematics(self):
        assert isinstance(vf.MathRubric().parser, vf.MaybeThinkParser)
        assert isinstance(vf.MathRubric().parser, vf.Parser)
        assert isinstance(vf.MathRubric(strict=True).parser, vf.MaybeThinkParser)

    def test_of_tools(self):
        assert isinstance(vf.ToolRubric().parser, vf.Parser)
        assert isinstance(vf.ToolRubric(weights=[1.0, 0.2, 0.2]).parser, vf.XMLParser)
        assert isinstance(vf.SmolaToolRubric().parser, vf.Parser)

    def test_of_judges_and_groups(self):
        with ModelServer("yes") as server:
            templated = vf.JudgeRubric(judge_models=[server.model], template="{completion}")
        assert isinstance(templated.parser, vf.Parser)
        assert isinstance(vf.RubricGroup([vf.Rubric()]).parser, vf.Parser)


class TestToolRubric:
    """Without weights it counts calls, and pays nothing for them."""

    def test_calls_are_metrics_without_weight(self):
        rubric = vf.ToolRubric(tools=[half])
        rubric.add_reward_func(right)
        scores = rubric.score_rollout_sync(completion=CHAT, answer="2.0")
        assert scores == {"total_tool_calls": 2.0, "half_calls": 1.0, "right": 1.0, "reward": 1.0}
        assert (rubric.tools, rubric.tool_names) == ([half], ["half"])
        assert rubric.oai_tools == [convert_func_to_oai_tool(half)]

    async def test_calls_can_be_counted_by_hand(self):
        """As a number, as in 0.1.2, or awaited, as in later versions."""
        rubric = vf.ToolRubric(tools=[half])
        assert rubric.total_tool_calls(CHAT) == 2.0
        assert await rubric.total_tool_calls(CHAT) == 2.0
        assert await rubric.get_tool_call_count_func("other")(CHAT) == 1.0

    def test_with_weights_it_is_that_of_the_guide(self):
        """A right answer 0.5, the only call with a reply succeeded 0.3, and the format 0.2."""
        rubric = vf.ToolRubric(tools=[half], weights=[0.5, 0.3, 0.2])
        scores = rubric.score_rollout_sync(completion=CHAT, answer="2.0")
        assert scores["reward"] == pytest.approx(1.0)
        assert scores["half_count"] == 1.0

    def test_an_environment_counts_calls_once(self):
        """Although it counts them itself where the rubric does not."""
        turns = [[assay.messages.ToolCall("half", '{"n": 4}', "1")], "2.0"]
        env = vf.ToolEnv(dataset=[{"question": "?"}], tools=[half], rubric=vf.ToolRubric([half]))
        with ModelServer(lambda messages: turns[len(messages) > 1]) as server:
            [metrics] = env.evaluate(model=server.model)["metrics"]
        assert metrics == {"total_tool_calls": 1.0, "half_calls": 1.0, "num_turns": 2.0}
        env.remove_tool(half)
        assert env.tool_defs == []


class TestMathRubric:
    """An answer counts in a box alone, as since verifiers 0.1.12."""

    @pytest.mark.parametrize("text", ["The answer is 1.", "1", "I get 5, then 1"])
    def test_an_answer_without_a_box_is_not_paid(self, text):
        assert vf.MathRubric().score_rollout_sync(completion=text, answer="1")["reward"] == 0.0

    def test_a_box_is(self):
        text = "So it is \\boxed{1}."
        assert vf.MathRubric().score_rollout_sync(completion=text, answer="1")["reward"] == 1.0

    def test_it_was_before(self, monkeypatch):
        monkeypatch.setattr(compat, "strict", False)
        text = "The answer is 1."
        assert vf.MathRubric().score_rollout_sync(completion=text, answer="1")["reward"] == 1.0

    @pytest.mark.parametrize(
        ("parser", "reward"), [(vf.Parser(), 0.0), (vf.XMLParser(["answer"]), 1.0)]
    )
    def test_a_parser_of_the_environment_counts_if_it_marks_the_answer(self, parser, reward):
        env = vf.SingleTurnEnv(
            dataset=[{"question": "?", "answer": "1"}], parser=parser, rubric=vf.MathRubric()
        )
        with ModelServer("<answer>1</answer>") as server:
            assert env.evaluate(model=server.model)["reward"] == [reward]


class TestJudgeRubric:
    """With `strict = False` the judge is asked as verifiers asks it, to the byte."""

    PROMPT: ClassVar = [
        {"role": "system", "content": "Only the number."},
        {"role": "user", "content": "2 + 2?"},
    ]

    def ask(self, **options):
        """Score one rollout by the word of the judge; return what the judge was sent."""

        async def says_yes(judge, prompt, completion, answer, state):
            return float("yes" in await judge(prompt, completion, answer, state))

        with (
            ModelServer("yes") as server,
            openai.OpenAI(base_url=server.url, api_key="k") as client,
        ):
            rubric = vf.JudgeRubric(judge_client=client, **options)
            rubric.add_reward_func(says_yes)
            completion = [{"role": "assistant", "content": "It is 4."}]
            scores = rubric.score_rollout_sync(self.PROMPT, completion, "4")
        assert scores["reward"] == 1.0
        [asked] = server.requests
        return asked.body

    def test_the_prompt_is_theirs(self, monkeypatch):
        monkeypatch.setattr(compat, "strict", False)
        body = self.ask()
        assert body.keys() == {"model", "messages"}
        assert body["model"] == "gpt-4.1-nano"
        assert body["messages"] == [
            {
                "role": "user",
                "content": "Given a ground truth answer and a response, determine if the response "
                "is correct.\n\nQuestion:\n```\n2 + 2?\n```\n\nGround truth answer:\n```\n4\n```"
                "\n\nResponse:\n```\nIt is 4.\n```\n\n"
                'Respond either "yes" or "no" only.',
            }
        ]

    def test_settings_and_prompts_of_ones_own_are_kept(self, monkeypatch):
        monkeypatch.setattr(compat, "strict", False)
        body = self.ask(
            judge_model="other",
            judge_prompt="{question} {response} {answer}",
            judge_sampling_args={"temperature": 0.3},
        )
        assert (body["model"], body["temperature"]) == ("other", 0.3)
        assert body["messages"] == [{"role": "user", "content": "2 + 2? It is 4. 4"}]

    def test_by_default_the_judge_is_asked_in_our_way(self):
        """With a system prompt, a fence, the whole conversation as the question, and temperature 0."""
        body = self.ask()
        assert body["temperature"] == 0.0
        assert [message["role"] for message in body["messages"]] == ["system", "user"]
        assert "Only the number." in body["messages"][1]["content"]
