"""Resolve a name, an address, a client or a function to the `Model` that is meant, with its key and its price."""

import inspect
import os
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import urlsplit

from pydantic import BaseModel

from assay.criterion import path_of
from assay.errors import Refused
from assay.messages import MEDIA
from assay.models.budgets import count_call
from assay.models.endpoint_model import Deduplicated, EndpointModel, SendPayload
from assay.models.limiter import Limits
from assay.models.model import FREE, NOTHING, Model, Price, Reply, Request
from assay.models.provider_formats import (
    AnthropicFormat,
    GeminiFormat,
    OpenAIFormat,
    ResponsesFormat,
    whole,
)
from assay.models.reply_cache import Cached, CacheSource, cache_of
from assay.models.retry import Endpoint
from assay.models.sdk import Protocol, SdkSend, address_and_key_of, creating, keywords_of
from assay.models.structured import read
from assay.redaction import keep_secret, parted_from_login, redacted_settings, telltale
from assay.wording import did_you_mean, short_repr

ModelSource: TypeAlias = (
    str | Model | Callable[..., Any] | Any
)  # a name, a model, a function or the client of an SDK


class Provider(NamedTuple):
    """An endpoint with a name."""

    url: str
    key: str | None = None  # the environment variable that holds the key; None when none is needed
    base_url: str = (
        ""  # the variable by which its SDK is told another address, to which we add the `path`
    )
    path: str = ""
    tries: str = ""  # a model to try the key with


@cache
def _data(table: str) -> Mapping[str, Any]:
    return tomllib.loads(files("assay.models").joinpath(table).read_text(encoding="utf-8"))


PROVIDERS = {name: Provider(**each) for name, each in _data("providers.toml").items()}
_FORGETFUL = ("together", "mistral")
_CLOUDS = (".amazonaws.com", ".googleapis.com", ".azure.com")  # which sell the models of others
_HERE = ("127.0.0.1", "localhost", "::1")
_WAYS = (
    "give a name such as 'openai/gpt-5-mini', an address such as 'http://127.0.0.1:8000/v1#name', "
    "'local', a client with the name of a model, or a function of (system_prompt, user_prompt)"
)


def provider_at(url: str) -> str | None:
    """The provider whose address this is, as we write it or as its SDK does; None for any other."""
    url = url.rstrip("/")
    known = PROVIDERS.items()
    return next(
        (name for name, each in known if url in (each.url, each.url.removesuffix(each.path))), None
    )


def keeps_prefixes(model: str) -> bool:
    """Whether the endpoint of a model's id remembers how prompts began, and reads that part faster."""
    provider = model.partition("/")[0]
    # Inference servers at an address of one's own do. The local engine orders its requests itself.
    return (provider in PROVIDERS and provider not in _FORGETFUL) or model.startswith(
        ("http://", "https://")
    )


_DATED = re.compile(r"[-@](?:\d{8}|\d{4}-\d{2}-\d{2}|latest)$")
# What Bedrock puts around a model's name: `us.anthropic.claude-haiku-4-5-20251001-v1:0`.
_ON_BEDROCK = re.compile(r"^(?:[a-z-]+\.)?anthropic\.|-v\d+(?::\d+)?$")


def price_of(provider: str, name: str) -> Price | None:
    """The price of a provider's model, in the user's table or else ours; None when in neither.

    An endpoint of one's own stands in the table under its address.

    >>> price_of("openai", "gpt-5-mini-2025-08-07") == price_of("openai", "gpt-5-mini")
    True
    >>> price_of("anthropic", "us.anthropic.claude-haiku-4-5-20251001-v1:0").output
    5.0
    """
    own = os.environ.get("ASSAY_PRICES")
    for table in (*([_table(Path(own))] if own else []), _table(None)):
        models = table.get(provider, {})
        for known in (name, _DATED.sub("", name), _DATED.sub("", _ON_BEDROCK.sub("", name))):
            if known in models:
                return models[known]
    return None


@cache
def _table(path: Path | None) -> Mapping[str, Mapping[str, Price]]:
    def price(given: Mapping[str, Any]) -> Price:
        return Price(**{kind: float(dollars) for kind, dollars in given.items()})

    try:
        data = (
            _data("prices.toml")
            if path is None
            else tomllib.loads(path.read_text(encoding="utf-8"))
        )
        return {
            provider: {name: price(own) for name, own in models.items()}
            for provider, models in data.items()
        }
    except (OSError, ValueError, TypeError, AttributeError) as error:
        form = '"model" = { input = 0.25, cached = 0.025, output = 2.00 }, dollars for a million tokens'
        told = f"the prices in {path} cannot be read ({error})"
        raise ValueError(f"{told}: write a [provider] and under it {form}") from None


def model_of(
    source: ModelSource,
    name: str | None = None,
    *,
    api_key: str | None = None,
    limits: Limits | None = None,
    price: Price | None = None,
    cache: CacheSource = None,
    shared: bool = True,
    media: str | Sequence[str] | None = None,
    **extra: Any,
) -> Model:
    """The model behind a name, an endpoint, a client or a function; a `Model` is taken as it is.

    A name is `openai/gpt-5-mini` or `local`, an endpoint `http://127.0.0.1:8000/v1#name`, a client that of an SDK, with the
    `name` of the model, and a function one of `(system_prompt, user_prompt)`.

    What was answered once and is in the `cache` (a place, or True for the default one) is not asked again. `limits` hold
    for all calls of the process to one endpoint with one key. `price` is for a model that is not in the table. With
    `shared=False` equal requests that are under way are each asked. `media` says which of `image`, `audio` and `file` (PDF)
    the model takes, where its name does not tell. `api="responses"`, or `?api=responses` after a name or an address, asks
    through OpenAI's Responses API. `extra` goes into every call: `reasoning_effort="low"`.
    """
    kept = cache_of(cache)
    if isinstance(source, str) and source.endswith("?api=responses"):
        source, extra = source.removesuffix("?api=responses"), {**extra, "api": "responses"}
    client = None if isinstance(source, str) else creating(source)
    if isinstance(source, str) and source.partition(":")[0] in ("local", "smoke"):
        model = import_module("assay.local.local_model").local_model(source)
    elif isinstance(source, str):
        model = _model(_over_http(source, api_key, extra), limits, price, extra)
    elif client is not None and (name or not isinstance(source, Model)):
        timeout = (limits or Limits()).timeout
        model = _model(_of_client(source, name, client[0], timeout, extra), limits, price, extra)
    elif isinstance(source, Model):
        model = source
    elif callable(source):
        model = FunctionModel(source)
    else:
        raise Refused(f"{short_repr(source)} is no model: {_WAYS}")
    if media is not None:
        if not isinstance(model, EndpointModel):
            raise Refused(
                f"media= is for a model at an endpoint, and {model.id} is none: give it an attribute `media`"
            )
        model.media = frozenset((media,) if isinstance(media, str) else media)
        for bad in sorted(model.media - MEDIA):
            raise Refused(
                f"media is {short_repr(media)}, and there is no {bad!r}: {did_you_mean(bad, sorted(MEDIA))}"
            )
    if kept is not None:
        return Deduplicated(Cached(model, kept))
    return (
        Deduplicated(model)
        if shared and isinstance(model, EndpointModel) and model is not source
        else model
    )


def _format(protocol: Protocol, provider: str, extra: Mapping[str, Any]) -> OpenAIFormat:
    if "api" in extra:
        if extra["api"] != "responses" or protocol != "openai":
            raise Refused(
                f"api is {extra['api']!r}: give 'responses', for OpenAI and endpoints that speak as it does"
            )
        return ResponsesFormat(**{name: value for name, value in extra.items() if name != "api"})
    if protocol == "anthropic":
        return AnthropicFormat(**extra)
    return OpenAIFormat(
        limit_name="max_completion_tokens" if provider == "openai" else "max_tokens", **extra
    )


class _Address(NamedTuple):
    """Where a model is, and how it is asked there."""

    url: str
    provider: str  # empty when it is none of ours
    name: str  # the model's
    key: str
    written: OpenAIFormat
    send: SendPayload


def _by_family(table: str, name: str) -> Any:
    """What a table says of a model, by the longest beginning of its name that is in it; None when none is."""
    name = _ON_BEDROCK.sub("", name.rpartition("/")[2]).lower()
    return _data(table).get(
        max((each for each in _data(table) if name.startswith(each)), key=len, default="")
    )


def _model(
    at: _Address, limits: Limits | None, price: Price | None, extra: Mapping[str, Any]
) -> Model:
    known = at.provider and at.url == PROVIDERS[at.provider].url
    identity = f"{at.provider}/{at.name}" if known else f"{at.url}#{at.name}"
    if extra:
        told = redacted_settings(extra)
        identity += "?" + "&".join(f"{each}={told[each]!r}" for each in sorted(told))
    host = urlsplit(at.url).hostname or ""
    listed = price_of(at.provider or at.url, at.name)
    if listed is None and host.endswith(_CLOUDS):
        listed = price_of(at.written.maker, at.name)
    price, endpoint = (
        price or listed or (FREE if host in _HERE else None),
        Endpoint.at(at.url, at.key, limits),
    )
    model = EndpointModel(
        identity,
        at.name,
        provider_format=at.written,
        send=at.send,
        endpoint=endpoint,
        price=price,
        sends_on_caller_loop=isinstance(at.send, SdkSend),
    )
    # Google's endpoint for chat completions has no part for a PDF, and the Responses API none for audio.
    without = {"audio"} if isinstance(at.written, ResponsesFormat) else set[str]()
    without |= (
        {"file"} if at.provider == "gemini" and not isinstance(at.written, GeminiFormat) else set()
    )
    model.media = frozenset(_by_family("media.toml", at.name) or ()) - without
    # A server of one's own may be set to take less than the model could.
    model.window = (
        _by_family("windows.toml", at.name) if at.provider or host.endswith(_CLOUDS) else None
    )
    return model


def _over_http(source: str, api_key: str | None, extra: Mapping[str, Any]) -> _Address:
    from assay.models.http import HttpAddress

    if source.startswith(("http://", "https://")):
        url, _, name = source.partition("#")
        if not name:
            raise Refused(
                f"{source!r} names no model at that address: add #name, as the endpoint lists it"
            )
        provider = provider_at(url) or ""
        url = PROVIDERS[provider].url if provider else url.rstrip("/")
        key = api_key or os.environ.get(
            (PROVIDERS[provider].key if provider else "ASSAY_API_KEY") or ""
        )
    else:
        provider, _, name = source.partition("/")
        if not name:
            raise Refused(f"{source!r} names no model: {_WAYS}")
        if provider not in PROVIDERS:
            own = "a server of your own goes by its address, such as http://127.0.0.1:8000/v1#name"
            cloud = (
                "a model in a cloud by a client: model_of(openai.AzureOpenAI(...), 'gpt-5-mini')"
            )
            guess = f"{did_you_mean(provider, PROVIDERS)}; {own}, and {cloud}"
            raise Refused(f"{source!r} names no provider we know: {guess}")
        known = PROVIDERS[provider]
        key = api_key or os.environ.get(known.key or "")
        if known.key and not key:
            raise Refused(f"{source!r} needs a key: set {known.key}, or pass api_key=")
        elsewhere = os.environ.get(known.base_url, "").rstrip("/")
        url = elsewhere.removesuffix(known.path) + known.path if elsewhere else known.url
    written = _format("anthropic" if provider == "anthropic" else "openai", provider, extra)
    where, login, password = parted_from_login(url)
    keep_secret(key, password)
    send = HttpAddress(url + written.path, written.headers(key or None)).post
    return _Address(where, provider, name, key or login, written, send)


def _of_client(
    client: Any, name: str | None, protocol: Protocol, timeout: float, extra: Mapping[str, Any]
) -> _Address:
    if not name:
        raise Refused(f"{short_repr(client)} is a client, and no model is named: pass its name too")
    address, key = address_and_key_of(client)
    url, _, password = parted_from_login(address)
    keep_secret(key, password)
    send = SdkSend(
        client, timeout, telltale(key, password), "responses.create" if "api" in extra else ""
    )
    known = provider_at(url)
    written = (
        GeminiFormat(timeout=timeout, **extra)
        if protocol == "genai"
        else _format(protocol, known or "", extra)
    )
    provider = known or ("" if url else written.maker)
    return _Address(
        PROVIDERS[known].url if known else url or protocol, provider, name, key, written, send
    )


class FunctionModel:
    """Asks a function of two prompts, which returns a reply model, a mapping with its fields, or a text to read."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self.id = path_of(function)
        names = keywords_of(function)
        self._by_name = names is None or {"system_prompt", "user_prompt"} <= names

    async def __call__(self, request: Request) -> Reply:
        if self._by_name:
            said = self._function(system_prompt=request.system, user_prompt=request.user)
        else:
            said = self._function(request.system, request.user)
        if inspect.isawaitable(said):
            said = await said
        count_call(NOTHING, None)
        if isinstance(said, Reply):
            return whole(said, self.id, request)
        if isinstance(said, str):
            return Reply(said, value=read(said, request))
        return Reply(
            said.model_dump_json() if isinstance(said, BaseModel) else str(said), value=said
        )


# The variable of a key, and a model to try it with.
BY_KEY = {
    each.key: f"{name}/{each.tries}" for name, each in PROVIDERS.items() if each.key and each.tries
}
_configured: list[Model] = []


def configure(*, model: ModelSource | None = None, **options: Any) -> None:
    """Name the model to ask where none is named; None goes back to the environment.

    `options` are those of `model_of`.

    >>> from assay.testing import FakeModel
    >>> configure(model=FakeModel("MET"))
    >>> default_model().id
    'assay.testing.fakes:FakeModel'
    >>> configure(model=None)
    """
    _configured[:] = [] if model is None else [model_of(model, **options)]


def default_model() -> Model:
    """The model that `configure` or `ASSAY_MODEL` names. Never one that was not asked for."""
    model = configured_model()
    if model is None:
        raise Refused(f"no default model is configured: {what_to_set()}")
    return model


def configured_model() -> Model | None:
    """The default model; None when none is named."""
    if _configured:
        return _configured[0]
    name = os.environ.get("ASSAY_MODEL", "").strip()
    return _by_name(name, os.environ.get("ASSAY_CACHE", "")) if name else None


def model_by_key() -> Model | None:
    """A model of the first provider whose key is in the environment, for programs of libraries that do so; or None."""
    name = next((name for variable, name in BY_KEY.items() if os.environ.get(variable)), None)
    return None if name is None else _by_name(name, os.environ.get("ASSAY_CACHE", ""))


@cache
def _by_name(name: str, place: str) -> Model:
    """One object a name: it remembers what its endpoint does not understand."""
    return model_of(name, cache=place or None)


def what_to_set() -> str:
    """The end of a message where no model is named: what to set, and to what."""
    for variable, name in BY_KEY.items():
        if os.environ.get(variable):
            return f"{variable} is set, so set ASSAY_MODEL={name} to use it"
    named = "a model whose key is in the environment (openai/gpt-5-mini and OPENAI_API_KEY)"
    return f"set ASSAY_MODEL to {named}, to an endpoint (http://127.0.0.1:8000/v1#name) or to local"
