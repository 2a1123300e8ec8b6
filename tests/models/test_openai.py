"""Requests and replies in the format of chat completions."""

import contextlib
import json
from typing import Any

import pytest

from assay import CriterionEvaluation, Overloaded, Refused, Truncated, Unreadable
from assay.graders import ChoiceOutput, OneShotOutput, PerCriterionOutput, RubricAsJudgeOutput
from assay.models import Limits, Request, Usage
from assay.models.finish_reasons import check_complete
from assay.models.openai_chat import OpenAIChatFormat
from assay.testing import Fault


async def test_a_reply_has_text_usage_model_and_value(
    serve: Any, model_at: Any, make_request: Any
) -> None:
    """They are what the endpoint sent; the model is the one that it resolved the name to."""
    server = serve("MET")
    reply = await model_at(server)(make_request(schema=PerCriterionOutput))
    assert reply.value == PerCriterionOutput(
        explanation="because the rule says so", criterion_status="MET"
    )
    assert reply.text == reply.value.model_dump_json()
    assert reply.usage == Usage(server.prompt_tokens, 0, server.completion_tokens)
    assert (reply.model, reply.finish_reason, reply.source) == ("test-2026-01-01", "stop", "model")
    assert (reply.logprobs, reply.cost) == (None, None)  # no price is known


async def test_adjacent_messages_of_one_role_are_joined(
    serve: Any, model_at: Any, make_request: Any
) -> None:
    """Without a separator, so that the shared part of requests is identical to the byte."""
    server = serve("hello")
    model = model_at(server)
    for words in ("Is it even?", "Is it odd?"):
        await model(make_request(words))
    assert [asked.body["messages"] for asked in server.requests] == [
        [
            {"role": "system", "content": "You judge."},
            {"role": "user", "content": f"<response>4</response>\n{words}"},
        ]
        for words in ("Is it even?", "Is it odd?")
    ]


async def test_the_schema_is_sent_as_strict_with_the_reason_first(
    serve: Any, model_at: Any, make_request: Any
) -> None:
    """Models write fields in the order of the schema, so the reason comes before the verdict."""
    server = serve("MET")
    await model_at(server)(make_request(schema=PerCriterionOutput))
    sent = server.requests[0].body["response_format"]
    assert (sent["type"], sent["json_schema"]["strict"]) == ("json_schema", True)
    schema = sent["json_schema"]["schema"]
    assert list(schema["properties"]) == ["explanation", "criterion_status"]
    assert schema["required"] == ["explanation", "criterion_status"]
    assert schema["additionalProperties"] is False


@pytest.mark.parametrize("schema", [PerCriterionOutput, ChoiceOutput])
def test_a_schema_is_sent_identically_with_every_request(schema: Any) -> None:
    """To the byte: endpoints compile a grammar for every new schema."""
    wire_format = OpenAIChatFormat()
    payloads = [
        wire_format.write_request(Request.of("s", str(n), schema=schema), "m", set())
        for n in range(3)
    ]
    assert len({json.dumps(payload.body["response_format"]) for payload in payloads}) == 1


async def test_settings_are_sent_only_if_set(serve: Any, model_at: Any, make_request: Any) -> None:
    """A setting that is None is not sent."""
    server = serve("hello")
    model = model_at(server)
    await model(make_request(temperature=None))
    await model(make_request(temperature=0.5, max_tokens=9, seed=7, logprobs=3))
    fields = [set(asked.body) - {"model", "messages"} for asked in server.requests]
    assert fields == [set(), {"temperature", "max_tokens", "seed", "logprobs", "top_logprobs"}]


async def test_log_probabilities_are_returned(serve: Any, model_at: Any, make_request: Any) -> None:
    """Each token with its alternatives."""
    server = serve("MET", confidence=0.8)
    reply = await model_at(server)(make_request(schema=PerCriterionOutput, logprobs=2))
    [verdict] = [token for token in reply.logprobs if token.text == "MET"]
    assert verdict.logprob == pytest.approx(-0.2231, abs=1e-3)
    assert set(verdict.alternatives) == {"MET", "UNMET"}


async def test_the_key_is_sent_in_its_header(serve: Any, model_at: Any, make_request: Any) -> None:
    """Without a key there is no such header."""
    server = serve("hello")
    await model_at(server, api_key="s3cret")(make_request())
    await model_at(server)(make_request())
    assert [asked.headers.get("authorization") for asked in server.requests] == [
        "Bearer s3cret",
        None,
    ]


async def test_extra_parameters_are_sent_with_every_call(
    serve: Any, model_at: Any, make_request: Any
) -> None:
    """They are part of the id, because they change replies."""
    server = serve("hello")
    model = model_at(server, reasoning_effort="low")
    await model(make_request())
    assert server.requests[0].body["reasoning_effort"] == "low"
    assert model.id == f"{server.model}?reasoning_effort='low'"


async def test_a_lone_surrogate_can_be_sent(serve: Any, model_at: Any, make_request: Any) -> None:
    """A model under test may write one."""
    server = serve("hello")
    await model_at(server)(make_request("half \ud83d of it"))
    assert "half" in server.requests[0].user


async def test_a_truncated_reply_is_an_error(serve: Any, model_at: Any, make_request: Any) -> None:
    """This holds even if it looks complete. The request is not repeated."""
    whole = '{"explanation": "so", "criterion_status": "MET"}'
    server = serve(faults=[Fault.truncated(whole)])
    with pytest.raises(Truncated, match="cut off after 12 tokens"):
        await model_at(server)(make_request(schema=PerCriterionOutput))
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("message", "finish", "error"),
    [
        ({"content": None, "refusal": "I won't."}, "stop", Unreadable),
        ({"content": ""}, "content_filter", Refused),
    ],
)
def test_a_refusal_is_an_error(message: Any, finish: str, error: type[Exception]) -> None:
    """It is neither a verdict nor an empty reply."""
    data = {"choices": [{"message": message, "finish_reason": finish}]}
    with pytest.raises(error):
        check_complete(OpenAIChatFormat().read_reply(data), "somewhere", Request.of("s", "u"))


async def test_a_single_requested_token_is_complete(
    serve: Any, model_at: Any, make_request: Any
) -> None:
    """It was requested for its log-probability. A single token of a longer reply is cut off."""
    server = serve(faults=[Fault.truncated("MET")] * 2)
    model = model_at(server)
    reply = await model(make_request(max_tokens=1, logprobs=2))
    assert (reply.text, reply.finish_reason) == ("MET", "stop")
    with pytest.raises(Truncated):
        await model(make_request(max_tokens=1))


@pytest.mark.parametrize("reason", ["length", "MAX_TOKENS", "model_length"])
def test_a_truncated_reply_is_recognised_for_every_endpoint(reason: str) -> None:
    """They are all normalized to `length`."""
    data = {"choices": [{"message": {"content": "x"}, "finish_reason": reason}]}
    assert OpenAIChatFormat().read_reply(data).finish_reason == "length"


async def test_tokens_are_estimated_if_the_endpoint_does_not_count_them(make_request: Any) -> None:
    """From characters, because a missing count is not 0."""
    from assay.models.endpoint_model import TokenEstimate

    assert TokenEstimate().estimate(make_request(), "x" * 40).completion == 10


@pytest.mark.parametrize("refuses", [(), ("response_format",)], ids=["as a schema", "in words"])
@pytest.mark.parametrize("schema", [PerCriterionOutput, OneShotOutput, RubricAsJudgeOutput])
async def test_the_schema_contains_field_descriptions_but_no_docstrings(
    serve: Any, model_at: Any, make_request: Any, schema: Any, refuses: Any
) -> None:
    """Docstrings are for programmers and would only confuse a judge."""
    server = serve("MET", refuses=refuses)
    with contextlib.suppress(Unreadable):
        await model_at(server)(make_request(schema=schema))
    sent = json.dumps(server.requests[-1].body)
    assert ">>>" not in sent
    assert not [line for line in docstrings(schema) if line in sent]
    assert "Why, in one to three sentences" in sent or "One entry for every criterion" in sent


def docstrings(schema: Any) -> list[str]:
    """The first lines of the docstrings of a schema and of those in it."""
    inside = [CriterionEvaluation] if schema is OneShotOutput else []
    return [str(one.__doc__).splitlines()[0] for one in (schema, *inside)]


MET = PerCriterionOutput(explanation="so", criterion_status="MET").model_dump_json()


def ending(reason: str, text: str = MET) -> Fault:
    """A reply that looks complete but has another finish reason."""
    return Fault("ending", text=text, finish_reason=reason)


@pytest.mark.parametrize(
    ("reason", "error"),
    [
        ("length", Truncated),
        ("model_length", Truncated),
        ("content_filter", Refused),
        ("SAFETY", Refused),
        ("something new", Truncated),
        ("error", Overloaded),
        ("abort", Overloaded),
    ],
)
async def test_a_reply_with_a_bad_finish_reason_is_an_error(
    serve: Any, model_at: Any, make_request: Any, reason: str, error: type[Exception]
) -> None:
    """Although it contains a valid verdict."""
    server = serve(faults=lambda call: ending(reason))
    model = model_at(server, limits=Limits(attempts=2))
    with pytest.raises(error):
        await model(make_request(schema=PerCriterionOutput))


@pytest.mark.parametrize("reason", ["error", "abort"])
async def test_a_reply_that_the_endpoint_interrupted_is_requested_again(
    serve: Any, model_at: Any, make_request: Any, reason: str
) -> None:
    """The second attempt is answered."""
    server = serve("UNMET", faults=[ending(reason)])
    reply = await model_at(server)(make_request(schema=PerCriterionOutput))
    assert (reply.value.criterion_status, len(server.requests)) == ("UNMET", 2)


async def test_a_truncated_score_is_requested_again_and_not_repaired(
    serve: Any, model_at: Any, make_request: Any
) -> None:
    """The endpoint cut 85 to 8 and reported a complete reply."""
    cut = '{"explanation": "good", "overall_score": 8'
    server = serve(faults=[ending("stop", cut), ending("stop", cut + "5}")])
    reply = await model_at(server)(make_request(schema=RubricAsJudgeOutput))
    assert reply.value.overall_score == 85
