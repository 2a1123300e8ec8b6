"""Names, URLs and keys: which model they stand for."""

from typing import Any

import pytest

from assay import Limits, Refused
from assay.models import Price, model_of
from assay.models.endpoint_model import Deduplicated


def inner(model: Any) -> Any:
    return model.inner if isinstance(model, Deduplicated) else model


async def test_the_name_of_a_provider_selects_its_url_and_key(
    serve: Any, make_request: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The variable of its SDK sends the calls to another URL."""
    server = serve("hello")
    monkeypatch.setenv("OPENAI_BASE_URL", server.url + "/")
    monkeypatch.setenv("OPENAI_API_KEY", "s3cret")
    await model_of("openai/gpt-5-mini")(make_request(max_tokens=9))
    [asked] = server.requests
    assert (asked.body["model"], asked.headers["authorization"]) == ("gpt-5-mini", "Bearer s3cret")
    assert asked.body["max_completion_tokens"] == 9


@pytest.mark.parametrize(
    ("name", "url"),
    [
        ("openai/gpt-5-mini", "https://api.openai.com/v1"),
        ("anthropic/claude-sonnet-5", "https://api.anthropic.com/v1"),
        ("openrouter/qwen/qwen3-8b", "https://openrouter.ai/api/v1"),
        ("ollama/llama3", "http://127.0.0.1:11434/v1"),
    ],
)
def test_names_of_providers(name: str, url: str) -> None:
    """The name is the id. The name of the model may contain a slash."""
    model = inner(model_of(name, api_key="k"))
    assert (model.id, model.endpoint.address) == (name, url)
    assert model.name == name.partition("/")[2]


def test_the_url_of_a_provider_means_the_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    """The id and the price are those of the provider's name."""
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    model = inner(model_of("https://api.openai.com/v1#gpt-5-mini"))
    assert model.id == "openai/gpt-5-mini"
    assert model.price == Price(0.25, 2.0, 0.025)


async def test_no_endpoint_gets_the_key_of_another(
    serve: Any, make_request: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An endpoint that is not a provider's is sent only ASSAY_API_KEY."""
    server = serve("hello")
    monkeypatch.setenv("OPENAI_API_KEY", "openai's")
    await model_of(server.model)(make_request("one"))
    monkeypatch.setenv("ASSAY_API_KEY", "mine")
    await model_of(server.model)(make_request("two"))
    assert [asked.headers.get("authorization") for asked in server.requests] == [
        None,
        "Bearer mine",
    ]


WRONG = {
    "gpt-5-mini": "does not name a model: did you mean 'openai/gpt-5-mini'",
    "openai:gpt-5-mini": "did you mean 'openai/gpt-5-mini'",
    "my-model": "does not name a model: give a name such as 'openai/gpt-5-mini'",
    "localhost:8000/v1": "http://, as in 'http://localhost:8000/v1#name'",
    "openai/": "does not name a model",
    "opneai/gpt-5-mini": "did you mean 'openai'",
    "openai/gpt-5-mini": "needs a key: set OPENAI_API_KEY, or in Python pass api_key=",
    "http://127.0.0.1:8000/v1": "add #name",
    "vllm/qwen": "for a server of your own give its URL, such as http://127.0.0.1:8000/v1#name",
    "azure/gpt-5-mini": r"for a model in a cloud, a client: model_of\(openai.AzureOpenAI\(...\), 'gpt-5-mini'\)",
    "unheard-of/x": "use gemini, openai, anthropic",
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_name_is_refused_with_advice(name: str) -> None:
    """The error is raised when the model is made, not when it is called."""
    with pytest.raises(Refused, match=WRONG[name]):
        model_of(name)


@pytest.mark.parametrize("thing", [None, 42, object()])
def test_an_object_that_is_not_a_model_is_refused(thing: Any) -> None:
    """The error says what is accepted."""
    with pytest.raises(Refused, match="is not a model: give a name"):
        model_of(thing)


def test_a_model_is_returned_unchanged() -> None:
    """The same object is returned."""
    model = model_of("http://127.0.0.1:1/v1#x", limits=Limits(concurrency=3))
    assert model_of(model) is model


def test_a_url_does_not_determine_the_price() -> None:
    """Also on this machine, where a proxy may forward calls to a model that costs money."""
    assert inner(model_of("http://127.0.0.1:8000/v1#x")).price is None
    assert inner(model_of("http://10.0.0.7:8000/v1#x")).price is None
    assert inner(model_of("http://10.0.0.7:8000/v1#x", price=Price(1, 2))).price == Price(1, 2)


def test_the_key_is_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither in the id nor in the repr."""
    model = model_of("openai/gpt-5-mini", api_key="s3cret")
    assert "s3cret" not in f"{model!r} {inner(model)!r} {model.id}"


def test_a_price_is_for_a_model_that_is_made_here() -> None:
    """A model that exists has its price, and a function has none."""
    model = model_of("http://127.0.0.1:1/v1#x")
    for source in (model, lambda system_prompt, user_prompt: "MET"):
        with pytest.raises(Refused, match="leave the price out"):
            model_of(source, price=Price(1, 2))


def test_a_local_model_refuses_settings_that_it_does_not_take() -> None:
    with pytest.raises(Refused, match="not top_p: leave that out"):
        model_of("local", top_p=0.5)
