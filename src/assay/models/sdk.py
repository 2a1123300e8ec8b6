"""Send payloads through a client object that the user made with an SDK.

The clients of `openai` (Azure too), `anthropic` (Bedrock and Vertex too) and `google-genai`, sync or async.
"""

import asyncio
import inspect
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias, cast

from assay.models.payload import Payload, RawReply
from assay.redaction import redacted, without

CONNECTIONS = 1000
"""That a client keeps open at most."""

_CONNECTION = ("APIConnectionError", "TransportError", "ClientConnectionError", "ClientPayloadError")
"""What the SDKs, and the HTTP clients under them, raise when there is no whole answer."""

Protocol: TypeAlias = Literal["openai", "anthropic", "genai"]


def creating(client: Any) -> tuple[Protocol, Callable[..., Any]] | None:
    """Which protocol a client speaks, and its method that asks; None when it is no client."""
    chat = getattr(getattr(client, "chat", None), "completions", None)
    if callable(getattr(chat, "create", None)):
        return "openai", cast("Any", chat).create
    messages = getattr(client, "messages", None)
    if callable(getattr(messages, "create", None)):
        return "anthropic", cast("Any", messages).create
    models = getattr(client, "models", None)
    if callable(getattr(models, "generate_content", None)):
        return "genai", cast("Any", models).generate_content
    return None


def address_of(client: Any) -> str:
    """The address that a client asks; empty when it does not say."""
    options = getattr(getattr(client, "_api_client", None), "_http_options", None)
    address = getattr(client, "base_url", None) or getattr(options, "base_url", None)
    return str(address or "").rstrip("/")


def key_of(client: Any) -> str:
    """The key that a client sends; empty when it has none, or makes one for each call."""
    key = getattr(client, "api_key", None)
    return str(key or getattr(getattr(client, "_api_client", None), "api_key", None) or "")


def without_retries(client: Any, timeout: float) -> Any:
    """The client with its own retries off, for ours count and are counted."""
    options = getattr(client, "with_options", None)
    return client if options is None else options(max_retries=0, timeout=timeout)


class SdkSend:
    """Asks through the client. A sync client waits in a thread, so few calls go at once."""

    def __init__(self, client: Any, create: Callable[..., Any], secrets: Sequence[str] = ()) -> None:
        """`secrets` are what the client sends, struck out where an answer repeats them."""
        self._client = client
        self._create = create
        self._secrets = secrets
        self._keepers: dict[asyncio.AbstractEventLoop, AsyncGenerator[None, None]] = {}
        self._names = _names(create)
        marks = (create, getattr(client, "close", None), getattr(client, "aclose", None))
        self._is_async = any(inspect.iscoroutinefunction(mark) for mark in marks)

    async def __call__(self, payload: Payload, seconds: float) -> RawReply:
        body = self._arguments(dict(payload.body))
        try:
            async with asyncio.timeout(seconds):
                if self._is_async:
                    result = await self._awaited(body)
                else:
                    result = await asyncio.to_thread(self._create, **body)
        except Exception as error:
            answer = _refusal(error)
            if answer is None:
                raise
            return answer
        return RawReply(200, {}, without(self._secrets, _plain(result)), "")

    def _arguments(self, body: dict[str, Any]) -> dict[str, Any]:
        """The body as arguments; a field that this version of the SDK has no name for goes in `extra_body`.

        Endpoints take more fields than their SDKs name: `anthropic` 1.17 has no `temperature`.
        """
        if self._names is None or "extra_body" not in self._names:
            return body
        unnamed = {name: body.pop(name) for name in list(body) if name not in self._names}
        return body | {"extra_body": {**unnamed, **body.get("extra_body", {})}} if unnamed else body

    async def _awaited(self, body: Mapping[str, Any]) -> Any:
        """The result of an async client, which may hold connections of a loop that has ended."""
        await self._look_after(asyncio.get_running_loop())
        for _ in range(CONNECTIONS):
            try:
                return await self._create(**body)
            except RuntimeError as error:
                # The call that meets such a connection drops it, and finds another or makes one.
                if "loop is closed" not in str(error):
                    raise
        raise ConnectionError("the client holds only connections of an event loop that has ended")

    async def _look_after(self, loop: asyncio.AbstractEventLoop) -> None:
        """Have this loop close the connections that are made in it; a sync door runs one each time."""
        if loop not in self._keepers:
            for gone in [known for known in self._keepers if known.is_closed()]:
                del self._keepers[gone]
            self._keepers[loop] = _until_the_loop_ends(self._client)
            await anext(self._keepers[loop])


async def _until_the_loop_ends(client: Any) -> AsyncGenerator[None, None]:
    try:
        yield
    finally:
        # No SDK has a way to do this. Without it the next loop sends on a dead connection.
        google = getattr(client, "_api_client", None)
        http = getattr(client, "_client", None) or getattr(google, "_async_httpx_client", None)
        pool = getattr(getattr(http, "_transport", None), "_pool", None)
        for connection in getattr(pool, "connections", ()):
            if connection.is_idle():
                await connection.aclose()
        # Where aiohttp is installed, Google's client asks through a session for each loop.
        session = getattr(google, "_aiohttp_sessions", {}).get(asyncio.get_running_loop())
        if session is not None:
            await session.close()


def _names(create: Callable[..., Any]) -> frozenset[str] | None:
    """The keywords that a function takes; None when it takes any, or does not say."""
    try:
        parameters = inspect.signature(create).parameters.values()
    except (ValueError, TypeError):
        return None
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return None
    return frozenset(parameter.name for parameter in parameters)


def _refusal(error: Exception) -> RawReply | None:
    """What the endpoint said; an `OSError` when it could not be reached; None for other errors."""
    status = getattr(error, "status_code", None) or getattr(error, "code", None)
    if isinstance(status, int) and 400 <= status < 600:
        headers = getattr(getattr(error, "response", None), "headers", None)
        return RawReply(status, cast("Mapping[str, str]", headers or {}), None, redacted(str(error)))
    if any(kind.__name__ in _CONNECTION for kind in type(error).__mro__):
        raise ConnectionError(str(error)) from error
    return None


def _plain(value: Any) -> Any:
    """A client's objects as mappings and lists."""
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return dump()
    if isinstance(value, list | tuple):
        return [_plain(part) for part in cast("list[Any]", value)]
    fields = cast("dict[str, Any] | None", _fields(value))
    return value if fields is None else {name: _plain(part) for name, part in fields.items()}


def _fields(value: Any) -> Any:
    is_mapping = isinstance(value, Mapping)
    return cast("Any", value) if is_mapping else getattr(value, "__dict__", None)
