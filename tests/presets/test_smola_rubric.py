"""SmolaToolRubric: the tools of smolagents, and what its agents leave behind, scored as they are."""

import json
import subprocess
import sys
import warnings
from typing import Any

import pytest

from assay.presets import SmolaToolRubric
from assay.presets.smolagents import is_run, list_called_functions, transcript_of
from assay.testing import make_state
from assay.tools import calculator

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    smolagents = pytest.importorskip("smolagents")
    from smolagents import CodeAgent, Tool, ToolCallingAgent, tool
    from smolagents.models import (
        ChatMessage,
        ChatMessageToolCall,
        ChatMessageToolCallFunction,
        MessageRole,
        Model,
    )


class Calculator(Tool):
    name = "calculator"
    description = "Works out arithmetic."
    inputs = {"expression": {"type": "string", "description": "What to work out."}}  # noqa: RUF012
    output_type = "string"

    def forward(self, expression: str) -> str:
        return calculator(expression)


@tool
def broken(word: str) -> str:
    """Fails.

    Args:
        word: Any word.
    """
    raise RuntimeError(f"no {word}")


class Scripted(Model):
    """A model that says what it was told to: a text, or native calls as pairs of name and arguments."""

    def __init__(self, *turns: Any) -> None:
        super().__init__(model_id="scripted")
        self._turns = list(turns)

    def generate(self, messages: Any, **kwargs: Any) -> ChatMessage:
        turn = self._turns.pop(0)
        if isinstance(turn, str):
            return ChatMessage(role=MessageRole.ASSISTANT, content=turn)
        asked = [
            ChatMessageToolCall(
                id=f"call_{len(self._turns)}_{number}",
                type="function",
                function=ChatMessageToolCallFunction(name=name, arguments=arguments),
            )
            for number, (name, arguments) in enumerate(turn)
        ]
        return ChatMessage(role=MessageRole.ASSISTANT, content=None, tool_calls=asked)


def times(expression: str) -> tuple[str, dict[str, str]]:
    return "calculator", {"expression": expression}


def code(text: str) -> str:
    return f"Thought: so.\n<code>\n{text}\n</code>"


TURNS = (
    [times("6 * 7")],
    [("broken", {"word": "luck"})],
    [times("1 / 0"), times("1 + 1")],
    "no call here",
    'Action:\n{"name": "calculator", "arguments": {"expression": "2 * 2"}}',
    [("final_answer", {"answer": "42"})],
)
CODE_TURNS = (
    code("print(calculator('6 * 7'))"),
    code("x = calculator('1 + 1')\nbroken('luck')"),
    "no code here",
    code("final_answer(calculator(expression='6 * 7'))"),
)


def run(kind: Any, *turns: Any, **options: Any) -> Any:
    agent = kind(
        tools=[Calculator(), broken], model=Scripted(*turns), verbosity_level=-1, **options
    )
    agent.run("What is 6 times 7?")
    return agent


@pytest.fixture(scope="module")
def calling() -> Any:
    """An agent that has called its tools: three times well, once in vain, once it raised."""
    return run(ToolCallingAgent, *TURNS)


@pytest.fixture(scope="module")
def coding() -> Any:
    """An agent that has written code: two pieces that ran, one that raised, one that is none."""
    return run(CodeAgent, *CODE_TURNS)


FORMS = {
    "agent": lambda agent: agent,
    "memory": lambda agent: agent.memory,
    "steps": lambda agent: agent.memory.steps,
    "dicts": lambda agent: agent.memory.get_full_steps(),
    "succinct": lambda agent: agent.memory.get_succinct_steps(),
    "saved": lambda agent: json.loads(json.dumps(agent.memory.get_full_steps(), default=str)),
}
"""What people keep of a run."""


@pytest.fixture(params=FORMS)
def form(request: pytest.FixtureRequest) -> Any:
    return FORMS[request.param]


def rubric() -> SmolaToolRubric:
    return SmolaToolRubric(tools=[Calculator(), broken], weights=[0.5, 0.3, 0.2])


def used(scores: Any, name: str) -> list[float]:
    return [scores[f"{name}_{measure}"] for measure in ("reward", "count", "attempt")]


class TestToolCallingAgent:
    def test_its_run_is_scored_in_every_form(self, calling: Any, form: Any) -> None:
        """3 of 5 calls succeed, 5 of 6 turns are read, and the answer is right."""
        scores = rubric().score_rollout_sync(completion=form(calling), answer="42")
        assert used(scores, "calculator") == [1.0, 3.0, 4.0]
        assert used(scores, "broken") == [0.0, 0.0, 1.0]
        assert scores["tool_execution_reward_func"] == pytest.approx(3 / 5)
        assert scores["format_reward_func"] == pytest.approx(5 / 6)
        assert scores["reward"] == pytest.approx(0.5 + 0.3 * 3 / 5 + 0.2 * 5 / 6)

    def test_the_messages_it_writes_for_its_model_tell_nearly_as_much(self, calling: Any) -> None:
        """They leave out the call that raised, and what was said in it."""
        messages = calling.write_memory_to_messages()
        scores = rubric().score_rollout_sync(completion=messages, answer="42")
        assert used(scores, "calculator") == [1.0, 3.0, 4.0]
        assert used(scores, "broken") == [0.0, 0.0, 0.0]
        assert scores["correct_answer_reward_func"] == 1.0
        as_dicts = [message.dict() for message in messages]
        assert rubric().score_rollout_sync(completion=as_dicts, answer="42") == scores

    def test_the_transcript_is_a_chat_with_native_calls(self, calling: Any) -> None:
        """Every call has the reply that is its own, and the answer comes last."""
        chat = transcript_of(calling)
        assert [message["role"] for message in chat] == [
            *("assistant", "tool"),
            *("assistant", "tool"),
            *("assistant", "tool", "tool"),
            *("assistant", "user"),
            *("assistant", "tool"),
            "assistant",
        ]
        assert chat[0]["tool_calls"][0]["function"] == {
            "name": "calculator",
            "arguments": '{"expression": "6 * 7"}',
        }
        replies = [message["content"] for message in chat if message["role"] == "tool"]
        assert replies[0] == "42"
        assert replies[1].startswith("Error: Error executing tool 'broken'")
        assert replies[2:] == ["Error: division by zero", "2", "4"]
        assert chat[8]["content"].startswith("Error: Error while parsing tool call")
        assert chat[-1] == {"role": "assistant", "content": "42"}

    def test_a_run_without_an_answer_ends_with_what_it_was_made_to_say(self) -> None:
        """The agent may take one step, and is then asked for its answer."""
        agent = run(ToolCallingAgent, [times("6 * 7")], "It must be 42.", max_steps=1)
        assert transcript_of(agent)[-1]["content"] == "It must be 42."
        scores = rubric().score_rollout_sync(completion=agent.memory, answer="It must be 42.")
        assert scores["correct_answer_reward_func"] == 1.0

    def test_calls_beside_the_answer_are_in_vain(self) -> None:
        """The agent is told off for it, and never shown what they gave."""
        both = [times("6 * 7"), ("final_answer", {"answer": "42"})]
        agent = run(ToolCallingAgent, both, [("final_answer", {"answer": "42"})])
        scores = rubric().score_rollout_sync(completion=agent.memory, answer="42")
        assert used(scores, "calculator") == [0.0, 0.0, 1.0]

    def test_plans_and_later_tasks_are_part_of_the_chat(self) -> None:
        """A plan calls nothing, and a second task is a user's message."""
        agent = run(
            ToolCallingAgent,
            "Here is the plan.",
            [("final_answer", {"answer": "42"})],
            "Another plan.",
            [("final_answer", {"answer": "43"})],
            planning_interval=5,
        )
        agent.run("And one more?", reset=False)
        chat = transcript_of(agent)
        assert [message["role"] for message in chat] == [
            *("assistant", "assistant", "user", "assistant", "assistant")
        ]
        assert "Here is the plan." in chat[0]["content"]
        assert chat[2]["content"] == "And one more?"
        assert rubric().format_reward_func(agent) == 1.0
        scores = rubric().score_rollout_sync(completion=agent.memory, answer="43")
        assert scores["correct_answer_reward_func"] == 1.0


class TestCodeAgent:
    def test_calls_in_code_count_where_they_stand(self, coding: Any, form: Any) -> None:
        """Two pieces of code of three ran, with one call each; the third had two calls."""
        scores = rubric().score_rollout_sync(completion=form(coding), answer="42")
        assert used(scores, "calculator") == [1.0, 2.0, 3.0]
        assert used(scores, "broken") == [0.0, 0.0, 1.0]
        assert scores["tool_execution_reward_func"] == pytest.approx(4 / 7)
        assert scores["format_reward_func"] == pytest.approx(3 / 4)
        assert scores["correct_answer_reward_func"] == 1.0

    def test_its_messages_tell_as_much(self, coding: Any) -> None:
        """The code is in them."""
        scores = rubric().score_rollout_sync(
            completion=coding.write_memory_to_messages(), answer="42"
        )
        assert scores == rubric().score_rollout_sync(completion=coding.memory, answer="42")

    def test_the_answer_is_what_the_code_gave(self) -> None:
        """Whatever that is made of."""
        agent = run(CodeAgent, code("final_answer(6 * 7)"))
        assert transcript_of(agent)[-1] == {"role": "assistant", "content": "42"}

    @pytest.mark.parametrize(
        ("text", "names"),
        [
            ("add(1)", ["add"]),
            ("x.add(1)", []),
            ("[add(n) for n in range(9)]", ["add", "range"]),
            ("def f(:", []),
            ("a\0b", []),
            ("(" * 9999, []),
            ("f(" * 90 + ")" * 90, ["f"] * 90),
        ],
    )
    def test_code_is_read_and_never_run(self, text: str, names: list[str]) -> None:
        """What cannot be read calls nothing."""
        assert list_called_functions(text) == names


class TestOtherRollouts:
    TAGGED = (
        {"role": "assistant", "content": '<tool>{"name": "calculator", "args": {}}</tool>'},
        {"role": "user", "content": "<result>42</result>"},
        {"role": "assistant", "content": "<reasoning>So.</reasoning><answer>42</answer>"},
    )

    def test_calls_in_tags_are_read_as_ever(self) -> None:
        """As the peers' rubric of this name does; there the answer was never right."""
        scores = rubric().score_rollout_sync(completion=list(self.TAGGED), answer="42")
        assert used(scores, "calculator") == [1.0, 1.0, 1.0]
        assert scores["correct_answer_reward_func"] == 1.0
        assert scores["tool_execution_reward_func"] == 1.0

    def test_a_tool_goes_by_its_own_name(self) -> None:
        """Whatever its class is called."""
        assert list(rubric().tools) == ["calculator", "broken"]

    @pytest.mark.parametrize("completion", [None, [], [{}], [5]])
    async def test_what_is_neither_a_run_nor_a_text_is_an_error(self, completion: Any) -> None:
        """It is not known whether tools were used."""
        assert not is_run(completion)
        [report] = await rubric().score([make_state(completion, answer="42")])
        assert (report.raw_score, report.metrics) == (None, {})

    @pytest.mark.parametrize("completion", ["", "42", "<tool>"])
    async def test_what_is_no_run_is_no_error(self, completion: Any) -> None:
        """It has used nothing."""
        assert not is_run(completion)
        [report] = await rubric().score([make_state(completion, answer="42")])
        assert report.errors == {}
        assert report.metrics["calculator_attempt"] == 0.0

    def test_steps_that_hold_next_to_nothing_are_read(self) -> None:
        """A run that broke off, or was saved by somebody else."""
        for step in (
            {"step_number": 1},
            {"step_number": 1, "tool_calls": None, "error": {"message": "no"}},
            {"step_number": 1, "tool_calls": [{}], "observations": None},
            {"role": "tool-call", "content": "Calling tools:\n[" + "(" * 999},
            {"role": "tool-response", "content": "what?"},
        ):
            assert is_run([step])
            assert transcript_of([step]) == []

    def test_smolagents_itself_is_not_needed(self) -> None:
        """A saved run is scored without it."""
        program = (
            "import sys\n"
            "from assay.presets import SmolaToolRubric\n"
            "steps = [{'step_number': 1, 'is_final_answer': True, 'action_output': 42}]\n"
            "scores = SmolaToolRubric().score_rollout_sync(completion=steps, answer=42)\n"
            "print(scores['correct_answer_reward_func'], 'smolagents' in sys.modules)"
        )
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
        assert done.stdout == "1.0 False\n", done.stderr
