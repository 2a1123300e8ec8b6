"""A model under test: messages go out as they are, replies are taken as they come, tools are called."""

import asyncio
import json

import pytest

from assay import Limits, Refused
from assay.messages import ToolCall
from assay.models import Request, model_of
from assay.models.model import Tool
from assay.models.retry import Endpoint
from assay.testing import Fault, ModelServer, tool_call

CHAT = ({"role": "user", "content": "a"}, {"role": "user", "content": "b"})
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}}
HALF = Tool("half", "Halve a number.", json.dumps(SCHEMA))


async def test_neighbours_of_one_role_are_joined_only_for_a_judge():
    """A model under test is sent what the data set says."""
    with ModelServer("ok") as server:
        model = model_of(server.model)
        await model(Request(CHAT))
        await model(Request(CHAT, verbatim=True))
    assert [len(asked.body["messages"]) for asked in server.requests] == [1, 2]


@pytest.mark.parametrize("fault", [Fault.truncated("half a"), Fault.saying("half a")])
async def test_a_reply_is_taken_as_it_comes(fault):
    """Cut off or not."""
    with ModelServer(faults=[fault]) as server:
        reply = await model_of(server.model)(Request(CHAT, verbatim=True))
    assert (reply.text, reply.finish_reason) == ("half a", fault.finish_reason)


async def test_tools_are_offered_and_called():
    """And stay apart from what is said."""
    with ModelServer(lambda messages: [tool_call("half", n=4)]) as server:
        reply = await model_of(server.model)(Request(CHAT, tools=(HALF,), verbatim=True))
        await model_of(server.model)(Request(CHAT, verbatim=True))
    assert reply.text == ""
    assert reply.tool_calls == (ToolCall("half", '{"n": 4}', "call_1_0"),)
    function = {"name": "half", "description": "Halve a number.", "parameters": SCHEMA}
    assert server.requests[0].body["tools"] == [{"type": "function", "function": function}]
    assert "tools" not in server.requests[1].body


async def test_anthropic_is_told_in_its_own_way(monkeypatch):
    """Calls are parts of a message there, and what a tool replied is said by the user."""
    chat = (
        {"role": "system", "content": "Halve."},
        {"role": "user", "content": "4"},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": "1", "function": {"name": "half", "arguments": '{"n": 4}'}}],
        },
        {"role": "tool", "tool_call_id": "1", "content": "2"},
    )
    with ModelServer(lambda messages: tool_call("half", n=2)) as server:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
        model = model_of("anthropic/claude-test")
        reply = await model(Request(chat, tools=(HALF,), verbatim=True))
        with pytest.raises(Refused, match="a tool is called 'reply'"):
            await model(Request(chat, tools=(HALF._replace(name="reply"),), verbatim=True))
    assert (reply.text, reply.tool_calls[0].name) == ("", "half")
    assert json.loads(reply.tool_calls[0].arguments) == {"n": 2}
    body = server.requests[0].body
    described = {"name": "half", "description": "Halve a number.", "input_schema": SCHEMA}
    assert body["tools"] == [described]
    assert body["messages"][1]["content"] == [
        {"type": "tool_use", "id": "1", "name": "half", "input": {"n": 4}}
    ]
    assert body["messages"][2] == {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "1", "content": [{"type": "text", "text": "2"}]}
        ],
    }


def test_what_decides_an_answer_tells_requests_apart():
    """Tools, calls and being verbatim do; and what was kept before there were any keeps its key."""
    plain = Request(CHAT)
    calls = ({"role": "assistant", "content": "", "tool_calls": [{"id": "1"}]},)
    others = ({"role": "assistant", "content": "", "tool_calls": [{"id": "2"}]},)
    asked = [
        plain,
        Request(CHAT, verbatim=True),
        Request(CHAT, tools=(HALF,)),
        Request(calls),
        Request(others),
    ]
    assert len({request.content for request in asked}) == len(asked)
    assert plain.content == "0.0 None None None 0 user 1 2 ab"


async def test_a_reply_that_calls_tools_is_not_kept(tmp_path):
    """A cache holds what was said, and that would be half of it."""
    with ModelServer(lambda messages: tool_call("half", n=4)) as server:
        model = model_of(server.model, cache=tmp_path)
        for _ in range(2):
            reply = await model(Request(CHAT, tools=(HALF,), verbatim=True))
    assert server.calls == 2
    assert reply.tool_calls


async def test_samples_are_each_asked():
    """Unless they may be shared, equal requests at the same time are two calls."""
    with ModelServer("ok", latency=0.01) as server:
        for shared, calls in ((True, 1), (False, 3)):
            model = model_of(server.model, shared=shared)
            await asyncio.gather(model(Request(CHAT)), model(Request(CHAT)))
            assert server.calls == calls


def test_an_endpoint_may_be_told_what_to_expect():
    """Then it starts from there, unless a limit was given."""
    open_ended, bound = Endpoint("a"), Endpoint("b", Limits(concurrency=4))
    for endpoint in (open_ended, bound):
        endpoint.limiter.expect(500)
    assert (open_ended.limiter.limit, bound.limiter.limit) == (500, 4)
    open_ended.limiter.expect(3)
    assert open_ended.limiter.limit == 500
