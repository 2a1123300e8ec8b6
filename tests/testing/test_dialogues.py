"""The test server can answer by what was said, and call tools."""

import asyncio

import openai

from assay.models import Request, model_of
from assay.testing import ModelServer, tool_call


def rule(messages):
    return [tool_call("a"), tool_call("b", n=1)] if len(messages) == 1 else str(len(messages))


def test_a_rule_of_the_messages_sees_them_all():
    """And may call several tools at once, each under an id of its own."""
    one = {"role": "user", "content": "hi"}
    with ModelServer(rule) as server, openai.OpenAI(base_url=server.url, api_key="k") as client:
        first = client.chat.completions.create(model="test", messages=[one])
        second = client.chat.completions.create(model="test", messages=[one] * 3)
    calls = first.choices[0].message.tool_calls
    assert [(call.function.name, call.function.arguments) for call in calls] == [
        ("a", "{}"),
        ("b", '{"n": 1}'),
    ]
    assert len({call.id for call in calls}) == 2
    assert first.choices[0].finish_reason == "tool_calls"
    assert first.choices[0].message.content is None
    assert (second.choices[0].message.content, second.choices[0].finish_reason) == ("3", "stop")


def test_a_rule_of_two_prompts_is_what_it_was():
    """As a judge is asked."""
    with ModelServer(lambda system, user: user.upper()) as server:
        reply = asyncio.run(model_of(server.model)(Request.of("Shout.", "hey")))
    assert reply.text == "HEY"
