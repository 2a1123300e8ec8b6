"""Clients of the real `openai` package, against a real server."""

from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock, MagicMock

import openai
import pytest

from assay import Limits, Overloaded, PerCriterionGrader, RateLimited, Refused, Rubric, Truncated
from assay.graders import PerCriterionOutput
from assay.models import Price, model_of
from assay.testing import Fault

QUICK = Limits(timeout=5, attempts=3)
SCHEMA = {"schema": PerCriterionOutput}


@pytest.fixture(params=["async", "sync"])
async def client_at(request: Any) -> Any:
    """Make sync or async clients, and close them."""
    made: list[Any] = []

    def make(server: Any) -> Any:
        kind = openai.AsyncOpenAI if request.param == "async" else openai.OpenAI
        made.append(kind(api_key="s3cret", base_url=server.url))
        return made[-1]

    yield make
    for client in made:
        closing = client.close()
        if closing is not None:
            await closing


async def test_a_client_with_a_name_is_a_model(
    serve: Any, client_at: Any, make_request: Any
) -> None:
    """Structured output, usage and log-probabilities work as over HTTP."""
    server = serve("MET")
    model = model_of(client_at(server), "gpt-test", limits=QUICK, price=Price(1, 1))
    reply = await model(make_request(logprobs=2, **SCHEMA))
    assert reply.value.criterion_status == "MET"
    assert (reply.usage.prompt, reply.model) == (server.prompt_tokens, "gpt-test-2026-01-01")
    assert any(token.text == "MET" for token in reply.logprobs)
    assert reply.cost > 0
    assert server.requests[0].body["response_format"]["type"] == "json_schema"
    assert server.requests[0].headers["authorization"] == "Bearer s3cret"


async def test_a_client_has_the_id_and_the_limits_of_its_endpoint(
    serve: Any, client_at: Any
) -> None:
    """Caches and limits are shared with models named by that URL."""
    server = serve("MET")
    model = model_of(client_at(server), "test", limits=QUICK)
    assert model.id == server.model


async def test_only_our_retries_are_made(serve: Any, client_at: Any, make_request: Any) -> None:
    """There are three attempts, not three times three."""
    server = serve(faults=lambda call: Fault.rate_limited(0) if call else None)
    model = model_of(client_at(server), "test", limits=QUICK)
    await model(make_request("how fast are you?"))
    with pytest.raises(RateLimited, match="after 3 tries"):
        await model(make_request())
    assert len(server.requests) == 4


FAULTS = {
    "401": (Fault.refusing("who are you?", 401), Refused),
    "500": (Fault.failing(), Overloaded),
    "cut": (Fault.cut_off(), Overloaded),
    "truncated": (Fault.truncated(), Truncated),
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_errors_of_the_sdk_become_our_errors(
    serve: Any, client_at: Any, make_request: Any, fault: str
) -> None:
    """The error class depends on what the endpoint did."""
    what, error = FAULTS[fault]
    server = serve(faults=lambda call: what if call else None)
    model = model_of(client_at(server), "test", limits=QUICK)
    await model(make_request("how fast are you?"))
    with pytest.raises(error):
        await model(make_request(**SCHEMA))


async def test_a_refused_schema_is_left_out(serve: Any, client_at: Any, make_request: Any) -> None:
    """It is then described in the prompt."""
    server = serve("MET", refuses=("response_format",))
    model = model_of(client_at(server), "test", limits=QUICK)
    assert (await model(make_request(**SCHEMA))).value.criterion_status == "MET"


async def test_a_grader_accepts_a_client(serve: Any, client_at: Any) -> None:
    """A model of a client can judge."""
    server = serve("MET")
    grader = PerCriterionGrader(model=model_of(client_at(server), "test", limits=QUICK))
    report = await Rubric.from_dict([{"requirement": "Holds"}]).grade("x", judge=grader)
    assert report.score == 1.0


async def test_a_client_without_a_name_is_refused(serve: Any, client_at: Any) -> None:
    """A client can call many models."""
    with pytest.raises(Refused, match="no model is named"):
        model_of(client_at(serve()))


async def test_a_mock_with_a_name_is_a_client(make_request: Any) -> None:
    """A mock also has every attribute of a model; the name decides."""
    client = MagicMock()
    client.base_url = ""
    client.with_options.return_value = client
    client.chat.completions.create = AsyncMock(
        return_value=SimpleNamespace(
            choices=[SimpleNamespace(message=SimpleNamespace(content="hello"))]
        )
    )
    assert (await model_of(client, "gpt-test")(make_request())).text == "hello"


async def test_an_object_with_the_same_methods_is_accepted(make_request: Any) -> None:
    """Tests of other libraries use such objects: no base URL, no options, plain replies."""
    seen: list[dict[str, Any]] = []

    async def create(**body: Any) -> Any:
        seen.append(body)
        message = SimpleNamespace(content="hello")
        return SimpleNamespace(choices=[SimpleNamespace(message=message)])

    client = SimpleNamespace(chat=SimpleNamespace(completions=SimpleNamespace(create=create)))
    reply = await model_of(client, "gpt-test")(make_request())
    assert (reply.text, seen[0]["model"]) == ("hello", "gpt-test")
