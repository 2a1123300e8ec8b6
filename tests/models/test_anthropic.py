"""Requests in Anthropic's format: a tool for the schema, and a cache breakpoint after the shared part."""

from typing import Any

import pytest

from assay import Limits, Truncated
from assay.graders import PerCriterionOutput
from assay.models import model_of
from assay.testing import Fault


@pytest.fixture
def claude(serve: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A server that stands in for Anthropic's, and a model that calls it."""

    def make(*args: Any, **kwargs: Any) -> Any:
        server = serve(*args, **kwargs)
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "s3cret")
        return server, model_of("anthropic/claude-test", limits=Limits(timeout=5, deadline=20))

    return make


async def test_a_verdict_is_the_input_of_a_tool(claude: Any, make_request: Any) -> None:
    """The model is forced to call it."""
    server, model = claude("UNMET")
    reply = await model(make_request(schema=PerCriterionOutput))
    assert reply.value.criterion_status == "UNMET"
    body = server.requests[0].body
    assert body["tool_choice"] == {"type": "tool", "name": "reply"}
    assert list(body["tools"][0]["input_schema"]["properties"]) == [
        "explanation",
        "criterion_status",
    ]


async def test_the_cache_breakpoint_follows_the_shared_part(claude: Any, make_request: Any) -> None:
    """It precedes the criterion, so that the next criterion reads the rest from the cache."""
    server, model = claude("hello")
    await model(make_request())
    body = server.requests[0].body
    assert body["system"] == [{"type": "text", "text": "You judge."}]
    [turn] = body["messages"]
    assert [("cache_control" in part, part["text"]) for part in turn["content"]] == [
        (True, "<response>4</response>\n"),
        (False, "Is it even?"),
    ]


async def test_cached_tokens_are_counted_separately(claude: Any, make_request: Any) -> None:
    """The prompt tokens include those from the cache."""
    server, model = claude("hello")
    long = "w" * 640
    await model(make_request(long))
    reply = await model(make_request(long + "!"))
    assert reply.usage.cached == server.cached_tokens == 160
    assert reply.usage.prompt == 168


async def test_the_key_and_the_version_are_in_the_headers(claude: Any, make_request: Any) -> None:
    """Without a limit in the request, the default token limit is sent."""
    server, model = claude("hello")
    await model(make_request())
    headers = server.requests[0].headers
    assert (headers["x-api-key"], headers["anthropic-version"]) == ("s3cret", "2023-06-01")
    assert server.requests[0].body["max_tokens"] == 4096


async def test_a_cut_off_message_is_an_error(claude: Any, make_request: Any) -> None:
    """Its stop reason is `max_tokens`."""
    _, model = claude(faults=[Fault.truncated()])
    with pytest.raises(Truncated):
        await model(make_request(schema=PerCriterionOutput))


async def test_an_endpoint_without_tools_gets_the_schema_in_words(
    claude: Any, make_request: Any
) -> None:
    """The refusal is remembered for later requests."""
    server, model = claude("MET", refuses=("tools",))
    for _ in range(2):
        reply = await model(make_request(schema=PerCriterionOutput, sample=_))
    assert reply.value.criterion_status == "MET"
    assert ["tools" in asked.body for asked in server.requests] == [True, False, False]
    assert "JSON schema" in server.requests[-1].system


async def test_stop_is_sent_as_stop_sequences(
    claude: Any, make_request: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, _ = claude("hello")
    model = model_of("anthropic/claude-test", stop=["END"])
    await model(make_request())
    assert server.requests[0].body["stop_sequences"] == ["END"]
    assert "stop" not in server.requests[0].body
