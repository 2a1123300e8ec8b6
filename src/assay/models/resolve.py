"""Make a `Model` from a name, a URL, an SDK's client or a function.

This module also finds the default judge: the model that graders ask if they name none.
"""

import inspect
import os
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from importlib import import_module
from typing import Any, NamedTuple, TypeAlias, cast
from urllib.parse import urlsplit

from pydantic import BaseModel

from assay.errors import Refused
from assay.identity import (
    has_lasting_name,
    hash_settings,
    identify_judge,
    read_client_settings,
    select_own_headers,
)
from assay.messages import MEDIA_KINDS
from assay.models.budgets import count_call
from assay.models.endpoint_model import Deduplicated, EndpointModel, SendPayload
from assay.models.finish_reasons import check_complete
from assay.models.gemini_content import GeminiFormat
from assay.models.known_models import known_media, known_window, price_of
from assay.models.limiter import Limits
from assay.models.model import NOTHING, Model, Price, Reply, Request
from assay.models.openai_chat import OLD_TOKEN_LIMIT, OpenAIChatFormat
from assay.models.openai_responses import OpenAIResponsesFormat
from assay.models.providers import PROVIDERS, Provider, propose_model, provider_at
from assay.models.reply_cache import Cached, CacheSource, cache_of
from assay.models.retry import Endpoint
from assay.models.sdk import (
    SdkSender,
    accepted_keywords,
    format_of_client,
    read_url_and_key,
)
from assay.models.structured import read_structured
from assay.models.wire_format import WireFormat
from assay.redaction import (
    get_logger,
    redact_settings,
    register_secret,
    select_searchable,
    split_login,
)
from assay.wording import format_value, suggest_word

# A name, a URL, a model, a function or the client of an SDK.
ModelSource: TypeAlias = str | Model | Callable[..., Any] | Any

_logger = get_logger("assay")

RESPONSES_SUFFIX = "?api=responses"  # after a name or a URL: call the Responses API
CLOUD_HOSTS = (".amazonaws.com", ".googleapis.com", ".azure.com")  # these sell models of others
_HOW_TO_NAME_A_MODEL = (
    "give a name such as 'openai/gpt-5-mini', a URL such as 'http://127.0.0.1:8000/v1#name', or "
    "'local'; in Python also a client, or a function of (system_prompt, user_prompt)"
)


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
    id: str | None = None,
    headers: Mapping[str, str] | None = None,
    **extra: Any,
) -> Model:
    """Return the model that a name, a URL, a client or a function stands for.

    A `Model` is returned as it is.

    A name is `openai/gpt-5-mini` or `local`, and a URL is `http://127.0.0.1:8000/v1#name`. A client
    is one of an SDK; `name` is then the name of its model. A function takes `(system_prompt,
    user_prompt)`.

    - `limits` hold for all calls of this process to the same endpoint with the same key.
    - `price` is the price of a model at an endpoint, if the price table does not have it, or has
      another one. `Price(0, 0)` says that a model costs nothing.
    - `cache` is the place of a verdict cache, or True for the default place. Requests that were
      answered before are then answered from the cache.
    - `shared=False` sends equal requests that are under way at the same time separately; by
      default they are sent once.
    - `media` lists the media that the model accepts (`image`, `audio`, `file` for PDF), if they
      are not known by its name.
    - `id` is the name under which the answers of a function are kept. A function that can be
      imported needs none. The answers of a method, a closure, a lambda or a callable object are
      cached, and reused by another process, only if it has one.
    - `headers` are sent with every call to a model that is given by its name or its URL.
    - `api="responses"`, or `?api=responses` after a name or a URL, uses OpenAI's Responses API.
    - Further arguments, such as `reasoning_effort="low"`, are sent with every call.
    """
    verdict_cache = cache_of(cache)
    model = _make_model(
        source,
        name,
        api_key=api_key,
        limits=limits,
        price=price,
        headers=headers or {},
        extra=extra,
    )
    if id is not None:
        if not isinstance(model, FunctionModel):
            raise Refused(f"id={id!r} is for a function, which {model.id} is not: leave it out")
        model = FunctionModel(cast("Callable[..., Any]", source), id)
    # A model that was passed in is returned as it is.
    is_new_endpoint = isinstance(model, EndpointModel) and model is not source
    if price is not None and not is_new_endpoint:
        raise Refused(
            f"price= is for a model that is called at an endpoint by its name, its URL or a client, "
            f"which {model.id} is not: leave the price out"
        )
    if media is not None:
        _set_media(model, media)
    if isinstance(model, EndpointModel) and isinstance(source, str) and api_key is None:
        model.remake = partial(
            model_of,
            source,
            limits=limits,
            price=price,
            shared=False,
            media=media,
            headers=headers,
            **extra,
        )
    if isinstance(model, FunctionModel) and not model.has_lasting_id and verdict_cache is not None:
        _logger.warning(
            "the answers of %s are not cached, since the function cannot be identified: give "
            "model_of(..., id=...)",
            model.id,
        )
        verdict_cache = None
    if verdict_cache is not None:
        return Deduplicated(Cached(model, verdict_cache))
    if shared and is_new_endpoint:
        return Deduplicated(model)
    return model


def _make_model(
    source: ModelSource,
    name: str | None,
    *,
    api_key: str | None,
    limits: Limits | None,
    price: Price | None,
    headers: Mapping[str, str],
    extra: dict[str, Any],
) -> Model:
    """Return the model that a source stands for, without a cache in front of it."""
    if isinstance(source, str):
        is_local = source.partition(":")[0] in ("local", "smoke")
        if is_local:
            return _make_local_model(source, extra)
        if source.endswith(RESPONSES_SUFFIX):
            source = source.removesuffix(RESPONSES_SUFFIX)
            extra = {**extra, "api": "responses"}
        connection = _connect_over_http(source, api_key, headers, extra)
        return _make_endpoint_model(connection, limits, price, extra)
    if headers:
        raise Refused(
            f"headers= is for a model that is given by its name or its URL, not for "
            f"{format_value(source)}: set them there"
        )
    client_format = format_of_client(source)
    # A mock may look like a client and like a model. It is used as a client if a name is given.
    may_be_client = bool(name) or not isinstance(source, Model)
    if client_format is not None and may_be_client:
        timeout = (limits or Limits()).timeout
        connection = _connect_by_client(source, name, client_format, timeout, extra)
        return _make_endpoint_model(connection, limits, price, extra)
    if isinstance(source, Model):
        return source
    if callable(source):
        return FunctionModel(source)
    raise Refused(f"{format_value(source)} is not a model: {_HOW_TO_NAME_A_MODEL}")


def _make_local_model(source: str, extra: Mapping[str, Any]) -> Model:
    """Return a model that runs on this machine."""
    if extra:
        raise Refused(
            "a local model takes temperature, max_tokens and seed, not "
            f"{', '.join(sorted(extra))}: leave that out"
        )
    # Imported only here, and by name, because that package imports this one.
    return import_module("assay.local.local_model").local_model(source)


def _set_media(model: Model, media: str | Sequence[str]) -> None:
    """Set the kinds of media that a model accepts; raise `Refused` if there is no such kind."""
    if not isinstance(model, EndpointModel):
        raise Refused(
            f"media= is for a model at an endpoint, which {model.id} is not: "
            "give the model an attribute `media`"
        )
    kinds = frozenset((media,) if isinstance(media, str) else media)
    unknown_kinds = sorted(kinds - MEDIA_KINDS)
    if unknown_kinds:
        unknown = unknown_kinds[0]
        raise Refused(
            f"media is {format_value(media)}, but {unknown!r} is not a kind of media: "
            f"{suggest_word(unknown, sorted(MEDIA_KINDS))}"
        )
    model.media = kinds


class _Connection(NamedTuple):
    """Where a model is and how it is called there."""

    url: str  # without a login
    provider: Provider | None  # None for an endpoint that is not a provider's
    model_name: str
    key: str  # with the URL, identifies whose limits the calls share
    wire_format: WireFormat
    send: SendPayload
    # What is sent with every call around the body: `headers`, and `query` and `body` of a client.
    sent_settings: Mapping[str, Any]


def _connect_over_http(
    source: str, api_key: str | None, headers: Mapping[str, str], extra: Mapping[str, Any]
) -> _Connection:
    """Return the connection to a model that is named, or given by its URL."""
    # Imported only here: it needs aiohttp, which is not needed for clients and functions.
    from assay.models.http import HttpAddress

    if source.startswith(("http://", "https://")):
        url, model_name = _split_url(source)
        provider = provider_at(url)
        if provider is not None:
            url = provider.url
        key = api_key or _key_in_environment(provider)
    else:
        provider, model_name = _split_name(source)
        url = _configured_url(provider)
        key = api_key or _key_in_environment(provider)
        if provider.key_variable and not key:
            raise Refused(
                f"{source!r} needs a key: set {provider.key_variable}, or in Python pass api_key="
            )
    format_class = OpenAIChatFormat if provider is None else provider.wire_format
    wire_format = _make_format(format_class, provider, extra)
    url_without_login, login, password = split_login(url)
    register_secret(key, password)
    all_headers = {**wire_format.headers(key or None), **headers}
    own_headers = select_own_headers(headers)
    address = HttpAddress(url + wire_format.path, all_headers)
    return _Connection(
        url=url_without_login,
        provider=provider,
        model_name=model_name,
        key=key or login,
        wire_format=wire_format,
        send=address.post,
        sent_settings={"headers": own_headers} if own_headers else {},
    )


def _split_url(source: str) -> tuple[str, str]:
    """Return the base URL and the model of a URL such as `http://127.0.0.1:8000/v1#name`."""
    url, _, model_name = source.partition("#")
    if not model_name:
        raise Refused(
            f"{source!r} is a URL without the name of a model: "
            "add #name, with a name that the endpoint lists"
        )
    return url.rstrip("/"), model_name


def _split_name(source: str) -> tuple[Provider, str]:
    """Return the provider and the model of a name such as `openai/gpt-5-mini`."""
    provider_name, _, model_name = source.partition("/")
    if not model_name or _HOST_AND_PORT.match(source):
        raise Refused(f"{source!r} does not name a model: {_suggest_name(source)}")
    if provider_name not in PROVIDERS:
        raise Refused(
            f"{source!r} begins with an unknown provider: "
            f"{suggest_word(provider_name, (*PROVIDERS, 'local'))}; "
            "for a server of your own give its URL, such as http://127.0.0.1:8000/v1#name, "
            "and in Python, for a model in a cloud, a client: "
            "model_of(openai.AzureOpenAI(...), 'gpt-5-mini')"
        )
    return PROVIDERS[provider_name], model_name


def _suggest_name(source: str) -> str:
    """Return how to write the name of a model that has no provider in front of a slash."""
    provider_name, _, rest = source.partition(":")
    if provider_name in PROVIDERS and rest:
        return f"did you mean {f'{provider_name}/{rest}'!r}?"
    if _HOST_AND_PORT.match(source):
        return f"give the URL of a server with http://, as in 'http://{source}#name'"
    for beginning, provider_name in _USUAL_NAMES.items():
        if source.startswith(beginning):
            return f"did you mean {f'{provider_name}/{source}'!r}?"
    return _HOW_TO_NAME_A_MODEL


_HOST_AND_PORT = re.compile(r"[\w.-]+:\d+(/|$)")
# The provider of a model that is named without one, by the beginning of its name.
_USUAL_NAMES: Mapping[str, str] = {
    "gpt-": "openai",
    "o3": "openai",
    "o4": "openai",
    "claude": "anthropic",
    "gemini": "gemini",
    "mistral": "mistral",
    "deepseek": "deepseek",
    "grok": "xai",
}


def _key_in_environment(provider: Provider | None) -> str | None:
    """Return the key for a provider, or for an endpoint that is not a provider's; None if unset."""
    key_variable = "ASSAY_API_KEY" if provider is None else provider.key_variable
    if key_variable is None:
        return None
    return os.environ.get(key_variable)


def _configured_url(provider: Provider) -> str:
    """Return the base URL of a provider, or the one that the environment gives in its place."""
    url = os.environ.get(provider.url_variable or "", "").rstrip("/")
    if not url:
        return provider.url
    return url.removesuffix(provider.url_suffix) + provider.url_suffix


def _connect_by_client(
    client: Any,
    model_name: str | None,
    client_format: type[WireFormat],
    timeout: float,
    extra: Mapping[str, Any],
) -> _Connection:
    """Return the connection to a model through the client of an SDK.

    `client_format` is the wire format that the client's methods take.
    """
    if not model_name:
        raise Refused(
            f"{format_value(client)} is a client, but no model is named: "
            "pass the name of a model as well"
        )
    client_url, key = read_url_and_key(client)
    url, _, password = split_login(client_url)
    register_secret(key, password)
    provider = provider_at(url)
    wire_format = _make_format(client_format, provider, extra)
    send = SdkSender(
        client, type(wire_format), timeout=timeout, secrets=select_searchable(key, password)
    )
    if provider is not None:
        url = provider.url
    elif not url:
        # The client does not show its URL, as a mock does not. It is taken for a client of the
        # company that designed the format.
        provider = PROVIDERS[wire_format.maker]
        url = wire_format.maker
    return _Connection(
        url=url,
        provider=provider,
        model_name=model_name,
        key=key,
        wire_format=wire_format,
        send=send,
        sent_settings=read_client_settings(client),
    )


def _make_format(
    format_class: type[WireFormat], provider: Provider | None, extra: Mapping[str, Any]
) -> WireFormat:
    """Return the wire format of an endpoint, which sends `extra` with every call.

    `api="responses"` in `extra` is not sent. It chooses the Responses API of OpenAI, in place of
    chat completions.
    """
    if "api" in extra:
        api = extra["api"]
        is_openai = format_class is OpenAIChatFormat
        if api != "responses" or not is_openai:
            raise Refused(
                f"api is {api!r}: give 'responses', "
                "for OpenAI and endpoints that are compatible with it"
            )
        other_fields = {name: value for name, value in extra.items() if name != "api"}
        return OpenAIResponsesFormat(other_fields)
    if format_class is OpenAIChatFormat:
        limit_name = OLD_TOKEN_LIMIT if provider is None else provider.token_limit_name
        return OpenAIChatFormat(extra, token_limit_name=limit_name)
    return format_class(extra)


def _make_endpoint_model(
    connection: _Connection,
    limits: Limits | None,
    price: Price | None,
    extra: Mapping[str, Any],
) -> EndpointModel:
    """Return the model of a connection.

    Its price (unless one is given), media and context window are looked up by its name.
    """
    host = urlsplit(connection.url).hostname or ""
    if price is None:
        price = _find_price(connection, host)
    model = EndpointModel(
        _make_id(connection, extra),
        connection.model_name,
        wire_format=connection.wire_format,
        send=connection.send,
        endpoint=Endpoint.at(connection.url, connection.key, limits),
        price=price,
        sends_on_caller_loop=isinstance(connection.send, SdkSender),
    )
    model.media = known_media(connection.model_name) - _unsupported_media(connection)
    is_users_server = connection.provider is None and not host.endswith(CLOUD_HOSTS)
    if not is_users_server:
        # A server of the user may be configured for a smaller window than the model has.
        model.window = known_window(connection.model_name)
    return model


def _unsupported_media(connection: _Connection) -> frozenset[str]:
    """Return the kinds of media that cannot be sent over a connection, whatever the model."""
    wire_format = connection.wire_format
    provider = connection.provider
    if provider is None:
        return wire_format.unsupported_media
    if isinstance(wire_format, GeminiFormat):
        # The provider's entry describes Gemini's endpoint for chat completions. A client of
        # google-genai calls another one, which accepts more.
        return wire_format.unsupported_media
    return wire_format.unsupported_media | provider.unsupported_media


def _make_id(connection: _Connection, extra: Mapping[str, Any]) -> str:
    """Return an id that names everything that can change the answers of a model."""
    provider = connection.provider
    if provider is not None and connection.url == provider.url:
        model_id = f"{provider.name}/{connection.model_name}"
    else:
        model_id = f"{connection.url}#{connection.model_name}"
    sent_settings = connection.sent_settings
    if not extra and not sent_settings:
        return model_id
    written_settings = _write_settings(extra, "hash") + _write_settings(sent_settings, "sent")
    return f"{model_id}?{'&'.join(written_settings)}"


def _write_settings(settings: Mapping[str, Any], hash_name: str) -> list[str]:
    """Return `name=value` for every setting, with secrets masked.

    A masked value may affect the answers too. If there is one, a hash of all settings follows,
    under the name `hash_name`.
    """
    redacted = redact_settings(settings)
    written_settings = [f"{name}={redacted[name]!r}" for name in sorted(redacted)]
    if redacted != dict(settings):
        written_settings.append(f"{hash_name}={hash_settings(settings)}")
    return written_settings


def _find_price(connection: _Connection, host: str) -> Price | None:
    """Return the price of a model; None if it is unknown.

    Without a listed price, a model in a cloud has the price that its maker asks for it. A local
    address says nothing about the price: a proxy there may forward calls to a model that costs
    money.
    """
    seller = connection.url if connection.provider is None else connection.provider.name
    price = price_of(seller, connection.model_name)
    if price is None and host.endswith(CLOUD_HOSTS):
        price = price_of(connection.wire_format.maker, connection.model_name)
    return price


class FunctionModel:
    """A function of a system prompt and a user prompt, sync or async, as a model.

    The function returns an object of the request's schema, a mapping with its fields, a `Reply` or
    a text.
    """

    def __init__(self, function: Callable[..., Any], id: str | None = None) -> None:
        """`id` is the name under which its answers are kept; see `identify_judge`."""
        self._function = function
        self.id = id or identify_judge(function)
        # Whether the id is the same in another process, so that answers may be kept under it.
        self.has_lasting_id = id is not None or has_lasting_name(function)
        keywords = accepted_keywords(function)
        self._takes_keywords = keywords is None or {"system_prompt", "user_prompt"} <= keywords
        self._raise_if_signature_wrong()

    def _raise_if_signature_wrong(self) -> None:
        """Raise `Refused` if the function cannot be called with two prompts."""
        try:
            signature = inspect.signature(self._function)
        except (ValueError, TypeError):  # a builtin may have no signature
            return
        try:
            if self._takes_keywords:
                signature.bind(system_prompt="", user_prompt="")
            else:
                signature.bind("", "")
        except TypeError:
            name = getattr(self._function, "__name__", type(self._function).__name__)
            raise Refused(
                f"{name}{signature} is not a model: give a function of (system_prompt, user_prompt)"
            ) from None

    async def __call__(self, request: Request) -> Reply:
        """Return what the function returns for the prompts of a request, as a reply."""
        if self._takes_keywords:
            result = self._function(system_prompt=request.system, user_prompt=request.user)
        else:
            result = self._function(request.system, request.user)
        if inspect.isawaitable(result):
            result = await result
        # Neither the tokens nor the price of such a call are known.
        count_call(usage=NOTHING, cost=None)
        if isinstance(result, Reply):
            return check_complete(result, self.id, request)
        if isinstance(result, str):
            return Reply(result, value=read_structured(result, request))
        if isinstance(result, BaseModel):
            return Reply(result.model_dump_json(), value=result)
        return Reply(str(result), value=result)


# The default judge: the model that graders ask if they name none.

_configured: list[Model] = []  # the model of the last `configure`; empty if there is none


def configure(*, judge: ModelSource | None = None, **options: Any) -> None:
    """Set the default judge, the model that graders ask if they name none.

    None goes back to the environment. `judge` and `options` are what `model_of` takes.

    >>> from assay.testing import FakeModel
    >>> configure(judge=FakeModel("MET", judge_id="always met"))
    >>> default_judge().id
    'always met'
    >>> configure(judge=None)
    """
    _configured.clear()
    if judge is not None:
        _configured.append(model_of(judge, **options))


def default_judge() -> Model:
    """Return the model that `configure` or `ASSAY_JUDGE` names; raise `Refused` if neither does."""
    model = configured_judge()
    if model is None:
        raise Refused(f"no default judge is configured: {what_to_set()}")
    return model


def configured_judge() -> Model | None:
    """Return the model that `configure` or `ASSAY_JUDGE` names; None if neither does."""
    if _configured:
        return _configured[0]
    name = os.environ.get("ASSAY_JUDGE", "").strip()
    if not name:
        return None
    return _model_by_name(name, os.environ.get("ASSAY_CACHE", ""))


def model_by_key() -> Model | None:
    """Return a model of the first provider whose key is in the environment; None without a key.

    Used only for programs that were written for another library, which chooses a model in this way.
    """
    proposal = propose_model()
    if proposal is None:
        return None
    _, name = proposal
    return _model_by_name(name, os.environ.get("ASSAY_CACHE", ""))


@cache
def _model_by_name(name: str, cache_location: str) -> Model:
    """Return the model of a name, with a cache unless its location is empty.

    The same object is returned every time, because a model remembers which parameters its endpoint
    refuses.
    """
    return model_of(name, cache=cache_location or None)


def what_to_set() -> str:
    """Return the end of an error message that says how to name a default judge."""
    proposal = propose_model()
    if proposal is not None:
        key_variable, name = proposal
        return f"{key_variable} is set, so set ASSAY_JUDGE={name} to use it"
    return (
        "set ASSAY_JUDGE to a model whose key is in the environment "
        "(openai/gpt-5-mini and OPENAI_API_KEY), "
        "to an endpoint (http://127.0.0.1:8000/v1#name) or to local"
    )
