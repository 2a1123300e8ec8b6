"""Endpoints that do not take all of a request: what is left out, and that it is remembered."""

import asyncio
from typing import Any

import pytest

from assay import Limits, Refused
from assay.graders import PerCriterionOutput
from assay.testing import Fault

SCHEMA = {"schema": PerCriterionOutput}


def fields(server: Any, name: str) -> list[bool]:
    return [name in asked.body for asked in server.requests]


async def test_without_schemas_the_reply_is_asked_for_in_words(
    serve: Any, model_at: Any, make_request: Any
) -> None:
    """The schema stands in the system prompt then, and the endpoint is not tried again."""
    server = serve("MET", refuses=("response_format",))
    model = model_at(server)
    for words in ("one", "two"):
        assert (await model(make_request(words, **SCHEMA))).value.criterion_status == "MET"
    assert fields(server, "response_format") == [True, False, False]
    assert server.requests[1].system == server.requests[2].system
    assert '"criterion_status"' in server.requests[2].system


@pytest.mark.parametrize(
    ("refused", "asked"),
    [
        ("temperature", {"temperature": 0.0}),
        ("seed", {"seed": 1}),
        ("logprobs", {"logprobs": 2}),
        ("max_tokens", {"max_tokens": 50}),
    ],
)
async def test_a_parameter_that_is_refused_is_left_out(
    serve: Any, model_at: Any, make_request: Any, refused: str, asked: dict[str, Any]
) -> None:
    """From then on."""
    server = serve("hello", refuses=(refused,))
    model = model_at(server)
    for words in ("one", "two"):
        assert (await model(make_request(words, **asked))).text == "hello"
    assert fields(server, refused) == [True, False, False]


async def test_a_limit_goes_by_the_name_that_is_taken(
    serve: Any, model_at: Any, make_request: Any
) -> None:
    """Newer endpoints refuse the older name."""
    server = serve("hello", refuses=("max_tokens",))
    await model_at(server)(make_request(max_tokens=50))
    assert server.requests[-1].body["max_completion_tokens"] == 50


async def test_two_complaints_are_met_one_after_the_other(
    serve: Any, model_at: Any, make_request: Any
) -> None:
    """Each of them once."""
    server = serve("MET", refuses=("temperature", "response_format"))
    model = model_at(server)
    await model(make_request("one", **SCHEMA))
    await model(make_request("two", **SCHEMA))
    assert len(server.requests) == 4
    assert not fields(server, "temperature")[-1]
    assert not fields(server, "response_format")[-1]


async def test_a_complaint_that_names_nothing_may_be_about_the_schema(
    serve: Any, model_at: Any, make_request: Any
) -> None:
    """So it is tried without, once."""
    server = serve("MET", faults=[Fault.refusing("Bad Request")])
    model = model_at(server)
    await model(make_request("one", **SCHEMA))
    await model(make_request("two", **SCHEMA))
    assert fields(server, "response_format") == [True, False, False]


async def test_a_complaint_about_something_else_is_told_as_it_was_made(
    serve: Any, model_at: Any, make_request: Any
) -> None:
    """And the schema is not blamed for it later."""
    long = Fault.refusing("maximum context length is 8192 tokens")
    server = serve("MET", faults=[long, Fault.refusing("the same without")])
    model = model_at(server)
    with pytest.raises(Refused, match="maximum context length") as caught:
        await model(make_request("one", **SCHEMA))
    assert caught.value.status == 400
    await model(make_request("two", **SCHEMA))
    assert fields(server, "response_format") == [True, False, True]


@pytest.mark.parametrize("status", [401, 403, 402])
async def test_a_wrong_key_is_not_tried_around(
    serve: Any, model_at: Any, make_request: Any, status: int
) -> None:
    """One call and one harmless request, one error."""
    server = serve("MET", faults=[Fault.refusing("who are you?", status)] * 2)
    with pytest.raises(Refused, match=f"refused the request \\({status}\\)"):
        await model_at(server)(make_request(**SCHEMA))
    assert len(server.requests) == 2


async def test_a_failure_that_blames_the_schema_is_a_complaint(
    serve: Any, model_at: Any, make_request: Any
) -> None:
    """Some servers answer 500 to a response_format they do not know."""
    blame = Fault.refusing("response_format should be text or json_object", 500)
    server = serve("MET", faults=[blame])
    await model_at(server)(make_request(**SCHEMA))
    assert fields(server, "response_format") == [True, False]


@pytest.mark.parametrize(
    "name",
    ["gpt-5", "gpt-5-mini-2025-08-07", "gpt-5.1", "openai/gpt-5-nano", "o1", "o3-mini", "o4-mini"],
)
async def test_a_reasoning_model_is_not_sent_what_it_refuses(
    serve: Any, model_at: Any, make_request: Any, name: str
) -> None:
    """Its name is enough: no call is spent on finding out."""
    server = serve("MET", refuses=("temperature", "max_tokens"), name=name)
    await model_at(server)(make_request(max_tokens=50, **SCHEMA))
    assert len(server.requests) == 1
    assert server.requests[0].body["max_completion_tokens"] == 50


@pytest.mark.parametrize(
    "name", ["gpt-4.1-nano", "gpt-4o", "gpt-5-chat-latest", "gpt-oss-120b", "olmo", "qwen3-o1x"]
)
async def test_other_models_are_sent_a_temperature(
    serve: Any, model_at: Any, make_request: Any, name: str
) -> None:
    """A judge without one is not steady."""
    server = serve("MET", name=name)
    await model_at(server)(make_request(**SCHEMA))
    assert server.requests[0].body["temperature"] == 0.0


async def test_a_refused_parameter_is_learned_by_all_calls_that_wait(
    serve: Any, model_at: Any, make_request: Any
) -> None:
    """Of a hundred calls, four at once, no more than the first four are refused."""
    server = serve("MET", refuses=("temperature", "response_format"))
    model = model_at(server, limits=Limits(concurrency=4))
    replies = await asyncio.gather(*(model(make_request(str(n), **SCHEMA)) for n in range(100)))
    assert {reply.value.criterion_status for reply in replies} == {"MET"}
    assert sum(fields(server, "temperature")) <= 4
    assert sum(fields(server, "response_format")) <= 8


async def test_a_complaint_that_only_seems_to_name_a_parameter_changes_nothing_for_others(
    serve: Any, model_at: Any, make_request: Any
) -> None:
    """It holds the word, and is made without that parameter too."""
    echo = Fault.refusing("your text on the temperature of the sun breaks our rules")
    server = serve("MET", faults=[echo, echo])
    model = model_at(server)
    with pytest.raises(Refused, match="of the sun"):
        await model(make_request("one"))
    await model(make_request("two"))
    assert fields(server, "temperature") == [True, False, True]
