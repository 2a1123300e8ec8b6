"""A model that calls tools sees what they return, also when that is an error."""

import asyncio
import json
import threading

import anthropic
import openai
import pytest
from pydantic import BaseModel

from assay import Rubric, State
from assay.compat import verifiers as vf
from assay.envs import ToolEnv, ToolError
from assay.runs.run_file import RunFile
from assay.testing import tool_call
from assay.tools import calculator

ROWS = [{"question": "2 + 2?", "answer": "4"}]


def add(a: int, b: int) -> int:
    """Add two numbers.

    Args:
        a: The first.
        b: The second.
    """
    if a == 13:
        raise RuntimeError("unlucky")
    return a + b


async def slow_add(a: int, b: int) -> int:
    """Add two numbers, later."""
    await asyncio.sleep(0)
    return a + b


def right(completion, answer):
    return completion[-1]["content"] == answer


def says(*turns):
    """A model that goes through what it says, by the number of its turns so far."""

    def rule(messages):
        return turns[sum(message["role"] == "assistant" for message in messages)]

    return rule


def replies(results):
    """What the tools said in the first rollout."""
    return [m["content"] for m in results["completion"][0] if m["role"] == "tool"]


@pytest.mark.parametrize("kind", [ToolEnv, vf.ToolEnv])
def test_a_message_that_only_calls_tools_is_sent_back_without_content(serve, kind):
    """As null, and not as an empty text."""
    server = serve(says(tool_call("add", a=2, b=2), "4"))
    kind(dataset=ROWS, tools=[add]).evaluate(model=server.model)
    question, calls, result = server.requests[1].body["messages"]
    assert (calls["role"], calls["content"]) == ("assistant", None)
    assert (question["content"], result["content"]) == ("2 + 2?", "4")


@pytest.mark.parametrize("kind", [ToolEnv, vf.ToolEnv])
def test_is_completed_of_a_subclass_decides_instead_of_a_turn_without_calls(serve, kind):
    """As in verifiers. Limits hold all the same: here three turns, of which none calls a tool."""

    class Persistent(kind):
        def is_completed(self, messages, state, **kwargs):
            return "42" in messages[-1]["content"]

    server = serve(says("one", "two", "42", "never"))
    results = Persistent(dataset=ROWS, tools=[add]).evaluate(model=server.model)
    assert (results["num_turns"], results["stop_condition"]) == ([3.0], ["is_completed"])
    server = serve(says("one", "two", "three", "never"))
    results = Persistent(dataset=ROWS, tools=[add], max_turns=3).evaluate(model=server.model)
    assert (results["num_turns"], results["stop_condition"]) == ([3.0], ["max_turns_reached"])


@pytest.mark.parametrize("kind", [openai.OpenAI, openai.AsyncOpenAI, "anthropic", None])
def test_a_tool_is_called_and_answered(serve, kind):
    """Over every road there is."""
    server = serve(lambda messages: tool_call("add", a=2, b=2) if len(messages) == 1 else "4")
    env = ToolEnv(ROWS, tools=[add, slow_add], rubric=Rubric([right]))
    if kind is None:
        results = env.evaluate(model=server.model)
    elif kind == "anthropic":
        client = anthropic.AsyncAnthropic(base_url=server.url.removesuffix("/v1"), api_key="k")
        results = env.evaluate(client, "test")
    else:
        results = env.evaluate(kind(base_url=server.url, api_key="k"), "test")
    called, answered, last = results["completion"][0]
    [call] = called["tool_calls"]
    assert call["function"] == {"name": "add", "arguments": '{"a": 2, "b": 2}'}
    assert answered == {"role": "tool", "content": "4", "tool_call_id": call["id"]}
    assert last == {"role": "assistant", "content": "4"}
    assert results["reward"] == [1.0]
    assert results["stop_condition"] == ["no_tools_called"]


def test_a_model_is_told_of_its_tools(serve):
    """With what they are for and what they take."""
    server = serve(says("4"))
    ToolEnv(ROWS, tools=[add]).evaluate(model=server.model)
    [tool] = server.requests[0].body["tools"]
    assert tool["type"] == "function"
    assert tool["function"]["description"] == "Add two numbers."
    assert tool["function"]["parameters"]["properties"]["a"] == {
        "type": "integer",
        "description": "The first.",
    }


def test_what_goes_wrong_is_said_to_the_model_and_counted(serve):
    """Wrong arguments, a tool there is not, one that raises, one that says so itself."""
    wrong = [
        tool_call("add", a=2),
        tool_call("ad", a=2, b=2),
        tool_call("add", a=13, b=1),
        tool_call("calculator", expression="1/0"),
        tool_call("add", a=2, b=2),
    ]
    env = ToolEnv(ROWS, tools=[add, calculator], rubric=Rubric([right]))
    results = env.evaluate(model=serve(says(wrong, "4")).model)
    assert replies(results)[:3] == [
        "Error: argument 'b' is missing",
        "Error: there is no tool 'ad': did you mean 'add'?",
        "Error: RuntimeError: unlucky",
    ]
    assert replies(results)[3].startswith("Error:")
    assert replies(results)[4] == "4"
    assert results["reward"] == [1.0]
    assert results["metrics"] == [
        {
            "right": 1.0,
            "num_turns": 2.0,
            "total_tool_calls": 5.0,
            "tool_errors": 4.0,
            "add_calls": 3.0,
            "calculator_calls": 1.0,
        }
    ]
    [errors] = results["tool_failures"]
    assert [error["kind"] for error in errors] == ["arguments", "unknown", "raised", "failed"]


def test_calls_that_are_no_json_are_answered_too(serve):
    """A model writes what it likes."""
    broken = tool_call("add")._replace(arguments='{"a": 2')
    results = ToolEnv(ROWS, tools=[add]).evaluate(model=serve(says(broken, "4")).model)
    assert replies(results)[0].startswith("Error: the arguments are not JSON")


def test_calls_of_one_turn_go_side_by_side(serve):
    """Each waits for the other here, and would wait for ever if they went one by one."""
    meeting = threading.Barrier(2, timeout=5)

    def meet(name: str) -> str:
        """Meet the other."""
        meeting.wait()
        return name

    both = [tool_call("meet", name="a"), tool_call("meet", name="b")]
    results = ToolEnv(ROWS, tools=[meet]).evaluate(model=serve(says(both, "done")).model)
    assert replies(results) == ["a", "b"]


def test_async_tools_are_awaited(serve):
    """In the loop."""
    turns = says(tool_call("slow_add", a=1, b=2), "3")
    assert replies(ToolEnv(ROWS, tools=[slow_add]).evaluate(model=serve(turns).model)) == ["3"]


class Place(BaseModel):
    x: int


@pytest.mark.parametrize(
    ("value", "content"),
    [
        ("text", "text"),
        (4, "4"),
        (None, "null"),
        ({"a": [1]}, '{"a": [1]}'),
        (Place(x=1), '{"x": 1}'),
        ({1, 2}.__class__, "<class 'set'>"),
        ([{"type": "text", "text": "part"}], [{"type": "text", "text": "part"}]),
    ],
)
def test_whatever_a_tool_returns_becomes_a_message(serve, value, content):
    """Texts as they are, values as JSON, content parts as parts."""

    def give():
        """Give it."""
        return value

    results = ToolEnv(ROWS, tools=[give]).evaluate(model=serve(says(tool_call("give"), "ok")).model)
    assert replies(results) == [content]


def test_a_tool_may_keep_something_in_the_state(serve):
    """Of its own rollout."""

    def note(word: str, state: State) -> str:
        """Note a word."""
        state.setdefault("notes", []).append(word)
        return "noted"

    env = ToolEnv(ROWS * 2, tools=[note], rubric=Rubric([lambda state: state["notes"] == ["x"]]))
    results = env.evaluate(model=serve(says(tool_call("note", word="x"), "ok")).model)
    assert results["reward"] == [1.0, 1.0]


def test_some_errors_may_end_the_rollout(serve):
    """Those that are nothing for a model to mend."""

    def query():
        """Query."""
        raise ConnectionError("the database is down")

    turns = says(tool_call("query"), "ok")
    env = ToolEnv(ROWS, tools=[query], stop_errors=[ConnectionError], rubric=Rubric([right]))
    results = env.evaluate(model=serve(turns).model)
    assert results["reward"] == [None]
    assert results["error"] == ["ConnectionError: the database is down"]


def test_turns_have_a_limit(serve):
    """A model that never stops calling is stopped."""
    server = serve(lambda messages: tool_call("add", a=1, b=1))
    results = ToolEnv(ROWS, tools=[add], max_turns=3).evaluate(model=server.model)
    assert (results["num_turns"], results["stop_condition"]) == ([3.0], ["max_turns_reached"])


def test_tools_come_and_go(serve):
    """Two of one name do not."""
    env = ToolEnv(ROWS, tools=[add])
    env.add_tool(slow_add)
    env.remove_tool(add)
    assert env.tools == [slow_add]
    with pytest.raises(ToolError, match="two tools are called 'slow_add'"):
        env.add_tool(slow_add)
    server = serve(says("4"))
    env.evaluate(model=server.model)
    names = [tool["function"]["name"] for tool in server.requests[0].body["tools"]]
    assert names == ["slow_add"]


def test_without_tools_it_is_one_answer(serve):
    """And the endpoint is told of none."""
    server = serve(says("4"))
    results = ToolEnv(ROWS, rubric=Rubric([right])).evaluate(model=server.model)
    assert results["reward"] == [1.0]
    assert "tools" not in server.requests[0].body


def test_what_was_called_is_kept_as_json(serve, tmp_path):
    """In the run's folder, errors and all."""
    turns = says([tool_call("add", a=13, b=1)], "4")
    ToolEnv(ROWS, tools=[add]).evaluate(model=serve(turns).model, run=tmp_path / "run")
    [(data,)] = RunFile(tmp_path / "run").select("SELECT data FROM rollouts")
    fields = json.loads(data)["fields"]
    assert fields["completion"][1]["content"] == "Error: RuntimeError: unlucky"
    assert fields["tool_failures"][0]["kind"] == "raised"


@pytest.mark.parametrize("kind", [ToolEnv, vf.ToolEnv])
def test_a_tool_that_never_returns_is_a_failed_call(serve, kind):
    """A plain function holds up no other rollout: its call ends after `tool_seconds`."""
    released = threading.Event()

    def hang(a: int) -> str:
        """Wait.

        Args:
            a: A number.
        """
        if a == 1:
            released.wait(60)
        return "done"

    env = kind(dataset=ROWS, tools=[hang])
    env.tool_seconds = 0.2
    server = serve(says(tool_call("hang", a=1), tool_call("hang", a=2), "4"))
    try:
        results = env.evaluate(model=server.model)
    finally:
        released.set()
    first, second = replies(results)
    assert "no result within 0.2 s" in first
    assert second == "done"
