"""Resolve a name, an address, a client or a function to the `Model` that is meant, and find the default one."""

import inspect
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from pydantic import BaseModel

from assay.errors import Refused
from assay.identity import path_of
from assay.models.anthropic import AnthropicFormat
from assay.models.budgets import Ledger
from assay.models.endpoint_model import Deduplicated, EndpointModel, SendPayload
from assay.models.gemini import GeminiFormat
from assay.models.limiter import Limits
from assay.models.model import FREE, NOTHING, Model, Price, Reply, Request
from assay.models.openai import OpenAIFormat
from assay.models.payload import MAX_COMPLETION_TOKENS, MAX_TOKENS, ProviderFormat, whole
from assay.models.providers import PROVIDERS, is_cloud, price_of, provider_at, url_of
from assay.models.reply_cache import Cached, CacheSource, cache_of
from assay.models.retry import Endpoint
from assay.models.sdk import Protocol, SdkSend, address_of, creating, key_of, without_retries
from assay.models.structured import read
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
    """Whether equal requests are each asked here: a cache in front, or the caller, sees to them."""
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
    return model if kept is None else Deduplicated(Cached(model, kept))


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
        raise Refused(f"{source!r} names no model at that address: add #name, as the endpoint lists it")
    provider = provider_at(url) or ""
    url = PROVIDERS[provider].url if provider else url.rstrip("/")
    variable = PROVIDERS[provider].key if provider else "ASSAY_API_KEY"
    key = options.key or os.environ.get(variable or "") or None
    return _over_http(url, provider, name, key, options)


def _over_http(url: str, provider: str, name: str, key: str | None, options: _Options) -> Model:
    from assay.models.http import HttpAddress

    written = _format("anthropic" if provider == "anthropic" else "openai", provider, options)
    where, login, password = parted_from_login(url)
    keep_secret(key, password)
    send = HttpAddress(url + written.path, written.headers(key)).post
    return _model(where, provider, name, key or login, written, send, options)


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
    written, send = (_format(protocol, provider, options), SdkSend(quiet, found[1], telltale(key, password)))
    price = price_of(maker, name) if is_cloud(url) else None
    return _model(where, provider, name, key, written, send, options, price)


def _format(protocol: Protocol, provider: str, options: _Options) -> ProviderFormat:
    if protocol == "anthropic":
        return AnthropicFormat(**options.extra)
    if protocol == "genai":
        return GeminiFormat(timeout=(options.limits or Limits()).timeout, **options.extra)
    limit_name = MAX_COMPLETION_TOKENS if provider == "openai" else MAX_TOKENS
    return OpenAIFormat(limit_name=limit_name, **options.extra)


def _model(
    url: str,
    provider: str,
    name: str,
    key: str,
    written: ProviderFormat,
    send: SendPayload,
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
        provider_format=written,
        send=send,
        endpoint=Endpoint.at(url, key, options.limits),
        price=options.price or price_of(provider or url, name) or price or _price_here(url),
    )
    return model if options.bare else Deduplicated(model)


def _said(extra: Mapping[str, Any]) -> str:
    told = redacted_settings(extra)
    return "&".join(f"{name}={told[name]!r}" for name in sorted(told))


def _price_here(url: str) -> Price | None:
    """Nothing, on this very machine."""
    return FREE if urlsplit(url).hostname in _HERE else None


class FunctionModel:
    """Asks a function of `(system_prompt, user_prompt)`, async or plain; a plain one must not wait.

    It returns a reply model, a mapping with its fields, or a text to read. Its limits, retries and
    money are its own affair.

    >>> import asyncio
    >>> model = FunctionModel(lambda system_prompt, user_prompt: user_prompt.upper())
    >>> asyncio.run(model(Request.of("Shout.", "hey"))).text
    'HEY'
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._by_name = _takes_names(function)
        self.id = path_of(function)

    def __repr__(self) -> str:
        return f"<model {self.id}>"

    async def __call__(self, request: Request) -> Reply:
        if self._by_name:
            said = self._function(system_prompt=request.system, user_prompt=request.user)
        else:
            said = self._function(request.system, request.user)
        if inspect.isawaitable(said):
            said = await said
        ledger = Ledger.current()
        if ledger is not None:
            ledger.add(NOTHING, None)
        return _reply(said, self.id, request)


def _reply(said: Any, where: str, request: Request) -> Reply:
    if isinstance(said, Reply):
        return whole(said, where, request)
    if isinstance(said, str):
        return Reply(said, value=read(said, request))
    text = said.model_dump_json() if isinstance(said, BaseModel) else str(said)
    return Reply(text, value=said)


def _takes_names(function: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(function).parameters
    except (ValueError, TypeError):
        return False
    any_name = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    named = {name for name, p in parameters.items() if p.kind is not p.POSITIONAL_ONLY}
    return any_name or {"system_prompt", "user_prompt"} <= named


BY_KEY = {
    "GEMINI_API_KEY": "gemini/gemini-3.8-flash",
    "OPENAI_API_KEY": "openai/gpt-5-mini",
    "ANTHROPIC_API_KEY": "anthropic/claude-haiku-5-5",
}
"""The variable of a key, and a model to try it with."""

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


def model_by_key() -> Model | None:
    """A model of the first provider whose key is in the environment; None when there is no key.

    It is asked only on behalf of programs that were written for a library which does so itself.
    """
    name = next((name for variable, name in BY_KEY.items() if os.environ.get(variable)), None)
    return None if name is None else _by_name(name, os.environ.get("ASSAY_CACHE", ""))


def what_to_set() -> str:
    """The end of a message where no model is named: what to set, and to what."""
    for variable, name in BY_KEY.items():
        if os.environ.get(variable):
            return f"{variable} is set, so set ASSAY_MODEL={name} to use it"
    return (
        "set ASSAY_MODEL to a model whose key is in the environment (openai/gpt-5-mini and "
        "OPENAI_API_KEY), to an endpoint (http://127.0.0.1:8000/v1#name) or to local"
    )


def configured_model() -> Model | None:
    """The default model; None when none is named."""
    if _configured:
        return _configured[0]
    name = os.environ.get("ASSAY_MODEL", "").strip()
    return _by_name(name, os.environ.get("ASSAY_CACHE", "")) if name else None


@cache
def _by_name(name: str, place: str) -> Model:
    """One object a name: it remembers what its endpoint does not understand."""
    return model_of(name, cache=place or None)
