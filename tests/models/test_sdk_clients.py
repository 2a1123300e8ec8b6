"""The clients of `openai`, `anthropic` and `google-genai` as they are installed, over real sockets."""

import asyncio
import inspect
from collections.abc import AsyncIterator
from typing import Any

import anthropic
import httpx2
import openai
import pytest
from google import genai

from assay import (
    JudgeRubric,
    Limits,
    Overloaded,
    PerCriterionGrader,
    RateLimited,
    Refused,
    Rubric,
    Truncated,
)
from assay.graders import PerCriterionOutput
from assay.models import Price, Request, budget, model_of
from assay.testing import Fault

LIMITS = Limits(timeout=5, attempts=2)
AZURE = {"api_key": "s3cret", "api_version": "2026-01-01"}
VERTEX = {"access_token": "s3cret", "region": "us-east5", "project_id": "p"}

MAKERS: dict[str, Any] = {
    "OpenAI": lambda host: openai.OpenAI(api_key="s3cret", base_url=f"{host}/v1"),
    "AsyncOpenAI": lambda host: openai.AsyncOpenAI(api_key="s3cret", base_url=f"{host}/v1"),
    "AzureOpenAI": lambda host: openai.AzureOpenAI(azure_endpoint=host, **AZURE),
    "AsyncAzureOpenAI": lambda host: openai.AsyncAzureOpenAI(azure_endpoint=host, **AZURE),
    "Anthropic": lambda host: anthropic.Anthropic(api_key="s3cret", base_url=host),
    "AsyncAnthropic": lambda host: anthropic.AsyncAnthropic(api_key="s3cret", base_url=host),
    "AnthropicBedrock": lambda host: anthropic.AnthropicBedrock(
        api_key="s3cret", aws_region="us-east-1", base_url=host
    ),
    "AsyncAnthropicBedrock": lambda host: anthropic.AsyncAnthropicBedrock(
        api_key="s3cret", aws_region="us-east-1", base_url=host
    ),
    "AnthropicVertex": lambda host: anthropic.AnthropicVertex(base_url=f"{host}/v1", **VERTEX),
    "AsyncAnthropicVertex": lambda host: anthropic.AsyncAnthropicVertex(
        base_url=f"{host}/v1", **VERTEX
    ),
    "genai": lambda host: genai.Client(api_key="s3cret", http_options={"base_url": host}),
    "genai.aio": lambda host: genai.Client(api_key="s3cret", http_options={"base_url": host}).aio,
}
CHAT = {"model", "messages", "temperature", "response_format"}
MESSAGES = {"model", "messages", "temperature", "max_tokens", "system", "tools", "tool_choice"}
SENT = {
    "OpenAI": ("/v1/chat/completions", CHAT),
    "AzureOpenAI": ("/openai/deployments/test/chat/completions?api-version=2026-01-01", CHAT),
    "Anthropic": ("/v1/messages", MESSAGES),
    "AnthropicBedrock": ("/model/test/invoke", MESSAGES | {"anthropic_version"}),
    "AnthropicVertex": (
        "/v1/projects/p/locations/us-east5/publishers/anthropic/models/test:rawPredict",
        MESSAGES | {"anthropic_version"},
    ),
    "genai": (
        "/v1/models/test:generateContent",
        {"model", "contents", "systemInstruction", "generationConfig"},
    ),
}
"""Where each kind of client posts, and the fields that it sends; async ones do the same."""


@pytest.fixture(params=MAKERS)
def kind(request: Any) -> str:
    return request.param


@pytest.fixture
async def client_at(kind: str) -> AsyncIterator[Any]:
    """Makes clients of one kind, and closes them."""
    made: list[Any] = []

    def make(server: Any) -> Any:
        made.append(MAKERS[kind](server.host))
        return made[-1]

    yield make
    for client in made:
        closing = client.aclose() if hasattr(client, "aclose") else client.close()
        if inspect.isawaitable(closing):
            await closing


async def test_every_client_asks_its_own_path_in_its_own_form(
    serve: Any, client_at: Any, make_request: Any, kind: str
) -> None:
    """A verdict, its usage and its cost come back, and no field is sent that the path does not have."""
    server = serve("MET")
    model = model_of(client_at(server), "test", limits=LIMITS, price=Price(1, 1))
    reply = await model(make_request(schema=PerCriterionOutput))
    assert reply.value.criterion_status == "MET"
    assert (reply.usage.prompt, reply.model) == (server.prompt_tokens, "test-2026-01-01")
    assert reply.cost > 0
    [asked] = server.requests
    assert (asked.system, asked.user) == ("You judge.", "<response>4</response>\nIs it even?")
    sync = kind.removeprefix("Async").removesuffix(".aio")
    assert (asked.path, set(asked.body)) == SENT[sync]
    said = asked.body if "temperature" in asked.body else asked.body["generationConfig"]
    assert said["temperature"] == 0.0


async def test_its_errors_are_ours(serve: Any, client_at: Any, make_request: Any) -> None:
    """Retries are ours and not the client's, and a fault is what it would be over our own wire."""
    plan = [
        None,
        Fault.refusing("who are you?", 401),
        Fault.rate_limited(0),
        Fault.rate_limited(0),
        Fault.failing(),
        Fault.failing(),
        Fault.cut_off(),
        Fault.cut_off(),
        Fault.truncated(),
    ]
    server = serve("MET", faults=plan)
    model = model_of(client_at(server), "test", limits=LIMITS)
    await model(make_request("how fast are you?"))
    for error in (Refused, RateLimited, Overloaded, Overloaded, Truncated):
        with pytest.raises(error):
            await model(make_request(schema=PerCriterionOutput))
    assert len(server.requests) == len(plan)


@pytest.mark.parametrize("kind", ["OpenAI", "AsyncAnthropic"], indirect=True)
async def test_a_refused_temperature_is_left_out(
    serve: Any, client_at: Any, make_request: Any
) -> None:
    """As over our own wire, also where the SDK has no name for it."""
    server = serve("MET", refuses=("temperature",))
    model = model_of(client_at(server), "test", limits=LIMITS)
    assert (await model(make_request(schema=PerCriterionOutput))).value.criterion_status == "MET"
    assert "temperature" not in server.requests[-1].body


def test_a_client_serves_one_event_loop_after_another(serve: Any, client_at: Any) -> None:
    """As the sync doors need it: each runs a loop of its own."""
    server = serve("MET")
    grader = PerCriterionGrader(model=model_of(client_at(server), "test", limits=LIMITS))
    rubric = Rubric.from_dict([{"requirement": "Holds"}])
    assert [rubric.grade_sync(text, grader).score for text in ("one", "two", "three")] == [1.0] * 3


async def test_a_judge_rubric_takes_every_client(serve: Any, client_at: Any) -> None:
    """With the name of the judge's model beside it."""
    server = serve("8")
    rubric = JudgeRubric(
        judge_models=["test"], client=client_at(server), template="Rate 0-10: {completion}"
    )
    state = {"prompt": "2 + 2?", "completion": "4"}
    await rubric.score_rollout(state)
    assert state["reward"] == 0.8


async def test_log_probabilities_come_from_googles_client(serve: Any, make_request: Any) -> None:
    """One token each, with its alternatives."""
    server = serve("MET", confidence=0.8)
    with MAKERS["genai"](server.host) as client:
        reply = await model_of(client, "test", limits=LIMITS)(
            make_request(logprobs=2, max_tokens=9)
        )
    [token] = [token for token in reply.logprobs if token.text == "MET"]
    assert token.alternatives == pytest.approx({"MET": -0.2231, "UNMET": -1.6094}, abs=1e-3)
    assert server.requests[0].body["generationConfig"]["maxOutputTokens"] == 9


async def test_a_prompt_that_google_blocks_is_refused(serve: Any, make_request: Any) -> None:
    """Its content filter is no verdict."""
    body = '{"promptFeedback": {"blockReason": "SAFETY"}}'
    server = serve(faults=[Fault("blocking", body=body)])
    with MAKERS["genai"](server.host) as client, pytest.raises(Refused, match="content filter"):
        await model_of(client, "test", limits=LIMITS)(make_request())


CLAUDE = "claude-sonnet-4-5"
SOLD: dict[str, tuple[Any, str, str]] = {
    "Anthropic": (lambda: anthropic.Anthropic(api_key="k"), CLAUDE, f"anthropic/{CLAUDE}"),
    "OpenAI": (lambda: openai.OpenAI(api_key="k"), "gpt-5-mini", "openai/gpt-5-mini"),
    "genai": (lambda: genai.Client(api_key="k"), "gemini-2.5-pro", "gemini/gemini-2.5-pro"),
    "Bedrock": (
        lambda: anthropic.AnthropicBedrock(api_key="k", aws_region="us-east-1"),
        "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
        "https://bedrock-runtime.us-east-1.amazonaws.com#us.anthropic.claude-sonnet-4-5-20250929-v1:0",
    ),
    "Vertex": (
        lambda: anthropic.AnthropicVertex(**VERTEX),
        "claude-sonnet-4-5@20250929",
        "https://us-east5-aiplatform.googleapis.com/v1#claude-sonnet-4-5@20250929",
    ),
    "Azure": (
        lambda: openai.AzureOpenAI(azure_endpoint="https://me.openai.azure.com", **AZURE),
        "gpt-5-mini",
        "https://me.openai.azure.com/openai#gpt-5-mini",
    ),
}
PRICES = {"claude": Price(3.0, 15.0, 0.3, 3.75), "gpt": Price(0.25, 2.0, 0.025)}


@pytest.mark.parametrize("seller", SOLD)
def test_a_model_has_its_price_through_whichever_client(seller: str) -> None:
    """So a budget in dollars does not refuse it; in a cloud it is the price of the model's maker."""
    make, name, identity = SOLD[seller]
    client = make()
    model = model_of(client, name, shared=False)
    assert model.id == identity
    expected = {"Bedrock": "claude", "Vertex": "claude", "Anthropic": "claude", "genai": "gemini"}
    known = PRICES.get(expected.get(seller, "gpt"), Price(1.25, 10.0, 0.125))
    assert model.price == known
    client.close()


async def test_money_is_counted_through_anthropics_client(serve: Any, make_request: Any) -> None:
    """The client keeps its usual address, and a hook sends its calls to the server of this test."""
    server = serve("hello")

    async def here(request: httpx2.Request) -> None:
        request.url = httpx2.URL(f"{server.host}{request.url.path}")

    transport = httpx2.AsyncClient(event_hooks={"request": [here]})
    async with anthropic.AsyncAnthropic(api_key="k", http_client=transport) as client:
        with budget(dollars=1.0) as spent:
            reply = await model_of(client, "claude-sonnet-5", limits=LIMITS)(make_request())
    assert spent.cost == reply.cost == Price(2.0, 10.0, 0.2, 2.5).of(reply.usage) > 0


async def test_an_openai_client_at_anthropics_address_is_asked_as_openai(make_request: Any) -> None:
    """The client decides the form of a call, not the address."""
    seen: list[str] = []

    async def answered(request: httpx2.Request) -> httpx2.Response:
        seen.append(request.url.path)
        message = {"role": "assistant", "content": "hello"}
        return httpx2.Response(200, json={"choices": [{"message": message}]})

    transport = httpx2.AsyncClient(transport=httpx2.MockTransport(answered))
    url = "https://api.anthropic.com/v1/"
    async with openai.AsyncOpenAI(api_key="k", base_url=url, http_client=transport) as client:
        model = model_of(client, "claude-sonnet-5", limits=LIMITS)
        assert (await model(make_request())).text == "hello"
    assert seen == ["/v1/chat/completions"]
    # The client of httpx is one that the user made.
    assert model.id.startswith("anthropic/claude-sonnet-5?http_client=")


async def test_many_calls_go_at_once(serve: Any, client_at: Any) -> None:
    """Each gets its own answer."""
    server = serve(lambda system, user: user[-3:])
    model = model_of(client_at(server), "test", limits=LIMITS)
    replies = await asyncio.gather(*(model(Request.of("Say it.", f"{n:03}")) for n in range(60)))
    assert [reply.text for reply in replies] == [f"{n:03}" for n in range(60)]


BASES = {"with": "/v1", "without": "", "slash": "/"}


@pytest.mark.parametrize("ending", BASES)
async def test_the_variables_of_the_sdks_name_the_address(
    serve: Any, make_request: Any, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    """`ANTHROPIC_BASE_URL` is written without `/v1`; with it, it is understood too."""
    server = serve("hello")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", server.host + BASES[ending])
    await model_of("anthropic/claude-sonnet-5", limits=LIMITS)(make_request())
    monkeypatch.setenv("GEMINI_API_KEY", "k")
    monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", server.host)
    await model_of("gemini/gemini-2.5-flash", limits=LIMITS)(make_request())
    paths = ["/v1/messages", "/v1beta/openai/chat/completions"]
    assert [asked.path for asked in server.requests] == paths
