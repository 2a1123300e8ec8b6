"""Send payloads through a client that the user made with an SDK.

The clients of `openai` (Azure too), `anthropic` (Bedrock and Vertex too) and `google-genai`, sync or async.
"""

import asyncio
import inspect
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from functools import reduce
from typing import Any, Literal, TypeAlias, cast

from assay.errors import Refused
from assay.models.provider_formats import Payload, RawReply
from assay.redaction import redacted, without
from assay.wording import short_repr

CONNECTIONS = 1000  # that a client keeps open at most
# What the SDKs, and the HTTP clients under them, raise when there is no whole answer.
_CONNECTION = (
    "APIConnectionError",
    "TransportError",
    "ClientConnectionError",
    "ClientPayloadError",
)
Protocol: TypeAlias = Literal["openai", "anthropic", "genai"]
_METHODS: Mapping[Protocol, str] = {
    "openai": "chat.completions.create",
    "anthropic": "messages.create",
    "genai": "models.generate_content",
}


def creating(client: Any) -> tuple[Protocol, Callable[..., Any]] | None:
    """Which protocol a client speaks, and its method that asks; None when it is no client."""
    for protocol, path in _METHODS.items():
        method = reduce(lambda found, name: getattr(found, name, None), path.split("."), client)
        if callable(method):
            return protocol, method
    return None


def address_and_key_of(client: Any) -> tuple[str, str]:
    """The address that a client asks and the key that it sends, each empty when it does not say."""
    google = getattr(client, "_api_client", None)
    url = getattr(client, "base_url", None) or getattr(
        getattr(google, "_http_options", None), "base_url", None
    )
    key = getattr(client, "api_key", None) or getattr(google, "api_key", None)
    return str(url or "").rstrip("/"), str(key or "")


class SdkSend:
    """Asks through the client. A sync client waits in a thread, so few calls go at once."""

    def __init__(
        self, client: Any, timeout: float, secrets: Sequence[str] = (), method: str = ""
    ) -> None:
        """`secrets` are what the client sends, struck out where an answer repeats them; `method` is not the usual one."""
        options = getattr(client, "with_options", None)
        # Without the client's own retries, for ours count and are counted.
        self._client = client if options is None else options(max_retries=0, timeout=timeout)
        found = creating(self._client)
        if found is None:
            raise Refused(f"{short_repr(client)} is no client any more once its options are set")
        self._create = reduce(getattr, method.split("."), self._client) if method else found[1]
        self._secrets = secrets
        self._keepers: dict[asyncio.AbstractEventLoop, AsyncGenerator[None]] = {}
        self._names = keywords_of(self._create)
        marks = (self._create, getattr(client, "close", None), getattr(client, "aclose", None))
        self._is_async = any(inspect.iscoroutinefunction(mark) for mark in marks)

    async def __call__(self, payload: Payload, seconds: float) -> RawReply:
        body = dict(payload.body)
        if self._names and "extra_body" in self._names:
            # Endpoints take more fields than their SDKs name: `anthropic` 1.17 has no `temperature`.
            unnamed = {name: body.pop(name) for name in list(body) if name not in self._names}
            body |= {"extra_body": {**unnamed, **body.get("extra_body", {})}} if unnamed else {}
        try:
            async with asyncio.timeout(seconds):
                if self._is_async:
                    result = await self._awaited(body)
                else:
                    result = await asyncio.to_thread(self._create, **body)
        except Exception as error:
            status = getattr(error, "status_code", None) or getattr(error, "code", None)
            if isinstance(status, int) and 400 <= status < 600:
                headers = getattr(getattr(error, "response", None), "headers", None)
                return RawReply(
                    status, cast("Mapping[str, str]", headers or {}), None, redacted(str(error))
                )
            if any(kind.__name__ in _CONNECTION for kind in type(error).__mro__):
                raise ConnectionError(str(error)) from error
            raise
        return RawReply(200, {}, without(self._secrets, _plain(result)), "")

    async def _awaited(self, body: Mapping[str, Any]) -> Any:
        """The result of an async client, which may hold connections of a loop that has ended."""
        loop = asyncio.get_running_loop()
        if loop not in self._keepers:
            self._keepers = {
                known: keeper for known, keeper in self._keepers.items() if not known.is_closed()
            }
            self._keepers[loop] = _until_the_loop_ends(self._client)
            await anext(self._keepers[loop])
        for _ in range(CONNECTIONS):
            try:
                return await self._create(**body)
            except RuntimeError as error:
                # The call that meets such a connection drops it, and finds another or makes one.
                if "loop is closed" not in str(error):
                    raise
        raise ConnectionError("the client holds only connections of an event loop that has ended")


async def _until_the_loop_ends(client: Any) -> AsyncGenerator[None]:
    """Have a loop close the client's connections that were made in it; a sync method runs one each time."""
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


def keywords_of(function: Callable[..., Any]) -> set[str] | None:
    """The keywords that a function takes, none when it does not say; None when it takes any."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (ValueError, TypeError):
        return set()
    takes_any = any(each.kind is each.VAR_KEYWORD for each in parameters)
    return (
        None
        if takes_any
        else {each.name for each in parameters if each.kind is not each.POSITIONAL_ONLY}
    )


def _plain(value: Any) -> Any:
    if callable(dump := getattr(value, "model_dump", None)):
        return dump()
    if isinstance(value, list | tuple):
        return [_plain(part) for part in cast("list[Any]", value)]
    fields = cast("Any", value) if isinstance(value, Mapping) else getattr(value, "__dict__", None)
    return (
        cast("Any", value)
        if fields is None
        else {name: _plain(part) for name, part in fields.items()}
    )
