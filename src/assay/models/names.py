"""model_of: a name, an endpoint, a client or a function as a `Model`."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from assay.errors import Refused
from assay.models.anthropic_wire import AnthropicWire
from assay.models.asking import EndpointModel, Send
from assay.models.base import Model
from assay.models.caching import Cached, CacheSource, cache_of
from assay.models.dialect import MAX_COMPLETION_TOKENS, MAX_TOKENS
from assay.models.flight import InFlight
from assay.models.function import FunctionModel
from assay.models.genai_wire import GenaiWire
from assay.models.limiter import Limits
from assay.models.openai_wire import OpenAIWire
from assay.models.prices import FREE, Price, price_of
from assay.models.providers import PROVIDERS, is_cloud, provider_at, url_of
from assay.models.retry import Endpoint
from assay.models.sdk import Protocol, SdkSend, address_of, creating, key_of, without_retries
from assay.models.wire import Wire
from assay.redaction import keep_secret, parted_from_login, redacted_settings, telltale
from assay.wording import did_you_mean, short_repr

ModelSource: TypeAlias = str | Model | Callable[..., Any] | Any
"""A name, a `Model`, a function of two prompts, or the client object of an SDK."""

_LOCAL = ("local", "smoke")
_HERE = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True)
class _Options:
    """What may be said about any model."""

    key: str | None = None
    limits: Limits | None = None
    price: Price | None = None
    bare: bool = False
    """Whether equal requests are somebody else's affair: of what is put in front, or of the caller."""
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])


def model_of(
    source: ModelSource,
    name: str | None = None,
    *,
    api_key: str | None = None,
    limits: Limits | None = None,
    price: Price | None = None,
    cache: CacheSource = None,
    shared: bool = True,
    **extra: Any,
) -> Model:
    """The model behind a name, an endpoint, a client or a function.

    - `"openai/gpt-5-mini"`, `"anthropic/claude-sonnet-5"`: the key from the environment;
    - `"http://127.0.0.1:8000/v1#name"`: any OpenAI-compatible endpoint (vLLM, SGLang, llama.cpp);
      its key, if it wants one, from `ASSAY_API_KEY`, never another's;
    - `"local"`, `"local:PATH"`: the embedded engine;
    - a client of `openai`, `anthropic` or `google-genai`, sync or async, with the `name` of the model;
    - a function of `(system_prompt, user_prompt)`, async or plain, that returns the reply;
    - a `Model`, which is taken as it is.

    What was answered once and stands in the `cache` (a place, or True for the default one) is not asked
    again. `limits` hold for everybody in the process who asks the same endpoint with the same key. `price`
    is for a model that is not in the table. With `shared=False` equal requests that are under way at the
    same time are each asked, as samples of a model under test must be. `extra` goes into every call: `reasoning_effort="low"`.
    """
    kept = cache_of(cache)
    options = _Options(api_key, limits, price, kept is not None or not shared, extra)
    client = None if isinstance(source, str) else creating(source)
    if isinstance(source, str):
        model = _named(source, options)
    elif client is not None and (name or not isinstance(source, Model)):
        model = _of_client(source, name, client[0], options)
    elif isinstance(source, Model):
        model = source
    elif callable(source):
        model = FunctionModel(source)
    else:
        raise Refused(f"{short_repr(source)} is no model: {_WAYS}")
    return model if kept is None else InFlight(Cached(model, kept))


_WAYS = (
    "give a name such as 'openai/gpt-5-mini', an address such as 'http://127.0.0.1:8000/v1#name', "
    "'local', a client with the name of a model, or a function of (system_prompt, user_prompt)"
)


def _named(source: str, options: _Options) -> Model:
    provider, slash, name = source.partition("/")
    if source.startswith(("http://", "https://")):
        return _at_address(source, options)
    if source.partition(":")[0] in _LOCAL:
        return import_module("assay.local.local_model").local_model(source)
    if not slash or not name:
        raise Refused(f"{source!r} names no model: {_WAYS}")
    if provider not in PROVIDERS:
        raise Refused(f"{source!r} names no provider we know: {_instead(provider, name)}")
    variable = PROVIDERS[provider].key
    key = options.key or (os.environ.get(variable) if variable else None)
    if variable and not key:
        raise Refused(f"{source!r} needs a key: set {variable}, or pass api_key=")
    return _over_http(url_of(provider), provider, name, key, options)


_SERVERS = {
    "vllm": 8000, "hosted_vllm": 8000, "sglang": 30000, "tgi": 8080, "lmstudio": 1234,
    "llamacpp": 8080, "llama.cpp": 8080, "llama_cpp": 8080,
}  # fmt: skip
"""Servers of one's own, and the port that each listens on unless it is told otherwise."""
_SOLD = {
    "azure": "openai.AzureOpenAI",
    "bedrock": "anthropic.AnthropicBedrock",
    "vertex": "google.genai.Client",
    "vertex_ai": "google.genai.Client",
}
"""Clouds that sell the models of others, and a client that knows how to sign in."""


def _instead(provider: str, name: str) -> str:
    """How to name what was meant by a provider that is none of ours."""
    kind = provider.lower()
    if kind in _SERVERS:
        address = f"http://127.0.0.1:{_SERVERS[kind]}/v1#{name}"
        return f"a server of your own goes by its address, such as {address}"
    if kind in _SOLD:
        return f"give model_of a client, {_SOLD[kind]}(...), and the name {name!r}"
    return did_you_mean(provider, PROVIDERS)


def _at_address(source: str, options: _Options) -> Model:
    url, _, name = source.partition("#")
    if not name:
        raise Refused(
            f"{source!r} names no model at that address: add #name, as the endpoint lists it"
        )
    provider = provider_at(url) or ""
    url = PROVIDERS[provider].url if provider else url.rstrip("/")
    variable = PROVIDERS[provider].key if provider else "ASSAY_API_KEY"
    key = options.key or os.environ.get(variable or "") or None
    return _over_http(url, provider, name, key, options)


def _over_http(url: str, provider: str, name: str, key: str | None, options: _Options) -> Model:
    from assay.models.http import HttpAddress

    wire = _wire("anthropic" if provider == "anthropic" else "openai", provider, options)
    where, login, password = parted_from_login(url)
    keep_secret(key, password)
    send = HttpAddress(url + wire.path, wire.headers(key)).post
    return _model(where, provider, name, key or login, wire, send, options)


_MAKERS = {"openai": "openai", "anthropic": "anthropic", "genai": "gemini"}
"""Who makes the models that are asked by a protocol in a cloud."""


def _of_client(client: Any, name: str | None, protocol: Protocol, options: _Options) -> Model:
    if not name:
        raise Refused(f"{short_repr(client)} is a client, and no model is named: pass its name too")
    url, _, password = parted_from_login(address_of(client))
    key = key_of(client)
    keep_secret(key, password)
    quiet = without_retries(client, (options.limits or Limits()).timeout)
    found = creating(quiet)
    if found is None:
        raise Refused(f"{short_repr(client)} is no client any more once its options are set")
    maker = _MAKERS[protocol]
    known = provider_at(url)
    provider = known or ("" if url else maker)
    where = PROVIDERS[known].url if known else url or protocol
    wire, send = (
        _wire(protocol, provider, options),
        SdkSend(quiet, found[1], telltale(key, password)),
    )
    price = price_of(maker, name) if is_cloud(url) else None
    return _model(where, provider, name, key, wire, send, options, price)


def _wire(protocol: Protocol, provider: str, options: _Options) -> Wire:
    if protocol == "anthropic":
        return AnthropicWire(**options.extra)
    if protocol == "genai":
        return GenaiWire(timeout=(options.limits or Limits()).timeout, **options.extra)
    limit_name = MAX_COMPLETION_TOKENS if provider == "openai" else MAX_TOKENS
    return OpenAIWire(limit_name=limit_name, **options.extra)


def _model(
    url: str,
    provider: str,
    name: str,
    key: str,
    wire: Wire,
    send: Send,
    options: _Options,
    price: Price | None = None,
) -> Model:
    known = provider and url == PROVIDERS[provider].url
    identity = f"{provider}/{name}" if known else f"{url}#{name}"
    if options.extra:
        identity += f"?{_said(options.extra)}"
    model = EndpointModel(
        identity,
        name,
        wire=wire,
        send=send,
        endpoint=Endpoint.at(url, key, options.limits),
        price=options.price or price_of(provider or url, name) or price or _price_here(url),
    )
    return model if options.bare else InFlight(model)


def _said(extra: Mapping[str, Any]) -> str:
    told = redacted_settings(extra)
    return "&".join(f"{name}={told[name]!r}" for name in sorted(told))


def _price_here(url: str) -> Price | None:
    """Nothing, on this very machine."""
    return FREE if urlsplit(url).hostname in _HERE else None
