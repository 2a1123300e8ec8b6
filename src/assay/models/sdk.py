"""Send requests through an SDK client of the user.

Supported are the clients of `openai` (also Azure), `anthropic` (also Bedrock and Vertex) and
`google-genai`, sync and async.
"""

import asyncio
import inspect
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Any, cast

from assay.errors import Refused
from assay.models.anthropic_messages import AnthropicFormat
from assay.models.gemini_content import GeminiFormat
from assay.models.openai_chat import OpenAIChatFormat
from assay.models.wire_format import HTTP_OK, Payload, RawReply, WireFormat
from assay.redaction import redact, replace_secrets
from assay.wording import format_value

MAX_CONNECTIONS = 1000  # that the pool of an SDK's client may hold
# A client's format is the first of these whose method it has.
_FORMATS: tuple[type[WireFormat], ...] = (OpenAIChatFormat, AnthropicFormat, GeminiFormat)
# Names of the exceptions of SDKs, and of the HTTP clients they use, for a connection that failed or
# broke.
_CONNECTION_ERRORS = frozenset(
    {
        "APIConnectionError",
        "TransportError",
        "ClientConnectionError",
        "ClientPayloadError",
    }
)


def format_of_client(client: Any) -> type[WireFormat] | None:
    """Return the wire format of an SDK's client; None if the object is not such a client."""
    for wire_format in _FORMATS:
        if _find_method(client, wire_format.sdk_method) is not None:
            return wire_format
    return None


def _find_method(client: Any, path: str) -> Callable[..., Any] | None:
    """Return the method of a client at a dotted path such as `messages.create`.

    Return None if it has no such method.
    """
    method = client
    for name in path.split("."):
        method = getattr(method, name, None)
    return method if callable(method) else None


def read_url_and_key(client: Any) -> tuple[str, str]:
    """Return the base URL and the key of a client; each is empty if the client does not show it."""
    google_client = getattr(client, "_api_client", None)
    google_options = getattr(google_client, "_http_options", None)
    url = getattr(client, "base_url", None) or getattr(google_options, "base_url", None)
    key = getattr(client, "api_key", None) or getattr(google_client, "api_key", None)
    return str(url or "").rstrip("/"), str(key or "")


class SdkSender:
    """Send payloads through a client.

    Calls of a sync client run in threads, so only a few run at once.
    """

    def __init__(
        self,
        client: Any,
        wire_format: type[WireFormat],
        *,
        timeout: float,
        secrets: Sequence[str] = (),
    ) -> None:
        """`timeout` is the number of seconds for one attempt.

        `secrets` are keys and passwords that the client sends. If an answer repeats them, they are
        removed from it.
        """
        self._client = _without_retries(client, timeout)
        create = _find_method(self._client, wire_format.sdk_method)
        if create is None:
            raise Refused(
                f"{format_value(client)} has no method {wire_format.sdk_method}: "
                "pass a client of openai, anthropic or google-genai"
            )
        self._create = create
        self._keywords = accepted_keywords(create)
        self._is_async = _is_async(client, create)
        self._is_google = wire_format is GeminiFormat
        self._timeout = timeout
        self._secrets = secrets
        # For each event loop, the generator that closes its connections when it ends.
        self._cleanups: dict[asyncio.AbstractEventLoop, AsyncGenerator[None]] = {}

    async def __call__(self, payload: Payload, seconds: float) -> RawReply:
        """Return the answer, even if its status is an error.

        Raise `ConnectionError` or `TimeoutError` if there was no answer.
        """
        arguments = self._write_arguments(payload.body)
        try:
            async with asyncio.timeout(seconds):
                if self._is_async:
                    answer = await self._call_async(arguments)
                else:
                    answer = await asyncio.to_thread(self._create, **arguments)
        except Exception as error:
            error_reply = _read_error_reply(error)
            if error_reply is not None:
                return error_reply
            class_names = {base.__name__ for base in type(error).__mro__}
            if class_names & _CONNECTION_ERRORS:
                raise ConnectionError(str(error)) from error
            raise
        data = replace_secrets(self._secrets, _to_json_data(answer))
        return RawReply(HTTP_OK, headers={}, data=data, text="")

    def _write_arguments(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields of a request's body as keyword arguments of the client's method.

        Fields for which the method has no keyword are put into `extra_body`, if it takes that; the
        SDK then adds them to the body.
        """
        arguments = dict(body)
        if self._is_google:
            # Other clients get the timeout and the retries once, in `_without_retries`. Those of
            # google-genai take them with each call.
            http_options = {
                "timeout": int(self._timeout * 1000),
                "retry_options": {"attempts": 1},
            }
            arguments["config"] = {"http_options": http_options, **arguments["config"]}
        if self._keywords is None or "extra_body" not in self._keywords:
            return arguments
        # As an example, the method of `anthropic` 1.17 has no keyword `temperature`.
        extra_body: dict[str, Any] = {}
        for name in list(arguments):
            if name not in self._keywords:
                extra_body[name] = arguments.pop(name)
        if extra_body:
            arguments["extra_body"] = {**extra_body, **arguments.get("extra_body", {})}
        return arguments

    async def _call_async(self, arguments: Mapping[str, Any]) -> Any:
        """Return the result of an async client.

        The client may still hold connections of an event loop that has ended. A call on one of them
        fails, and is made again.
        """
        await self._schedule_cleanup()
        for _ in range(MAX_CONNECTIONS):
            try:
                return await self._create(**arguments)
            except RuntimeError as error:
                # The client drops such a connection when a call fails on it, so the next call uses
                # another.
                if "loop is closed" not in str(error):
                    raise
        raise ConnectionError(
            "the client holds only connections of an event loop that has ended: make a new client"
        )

    async def _schedule_cleanup(self) -> None:
        """Make sure that the connections of the running event loop are closed when the loop ends.

        A connection that outlives its loop would be dead in the next one.
        """
        loop = asyncio.get_running_loop()
        if loop in self._cleanups:
            return
        for known_loop in list(self._cleanups):
            if known_loop.is_closed():
                del self._cleanups[known_loop]
        # `asyncio.run` closes the async generators that were started in its loop, and so runs what
        # follows their `yield`.
        cleanup = _close_connections_at_end(self._client)
        self._cleanups[loop] = cleanup
        await anext(cleanup)  # starts it, and runs it up to its `yield`


def _read_error_reply(error: Exception) -> RawReply | None:
    """Return the response for which an SDK raised an exception; None if there was no response."""
    status = getattr(error, "status_code", None) or getattr(error, "code", None)
    if not isinstance(status, int) or not 400 <= status < 600:
        return None
    response = getattr(error, "response", None)
    headers: Mapping[str, str] = getattr(response, "headers", None) or {}
    message = str(error)
    code = getattr(error, "code", None)
    if isinstance(code, str) and code not in message:
        message = f"{message} ({code})"  # such as "prompt_too_long", which says more than 400
    return RawReply(status, headers, data=None, text=redact(message))


def _without_retries(client: Any, timeout: float) -> Any:
    """Return the client with its retries switched off. `retry` does them, within the limits."""
    with_options = getattr(client, "with_options", None)
    if with_options is None:
        return client
    return with_options(max_retries=0, timeout=timeout)


def _is_async(client: Any, create: Callable[..., Any]) -> bool:
    """Return True if the calls of a client have to be awaited.

    The `create` method of some async clients does not show it, but their closing method does.
    """
    methods = (create, getattr(client, "close", None), getattr(client, "aclose", None))
    return any(inspect.iscoroutinefunction(method) for method in methods)


async def _close_connections_at_end(client: Any) -> AsyncGenerator[None]:
    """Close the idle connections of a client when the running event loop ends.

    Each of our sync methods runs a new event loop. A connection that an earlier loop left open is
    dead in the next one. SDKs have no public method to close only the connections, so this reads
    their private attributes.
    """
    try:
        yield
    finally:
        # Where the SDKs keep their httpx client: openai and anthropic in `_client`, google-genai in
        # its inner client.
        google_client = getattr(client, "_api_client", None)
        http_client = getattr(client, "_client", None)
        if http_client is None:
            http_client = getattr(google_client, "_async_httpx_client", None)
        transport = getattr(http_client, "_transport", None)
        pool = getattr(transport, "_pool", None)
        for connection in getattr(pool, "connections", ()):
            if connection.is_idle():
                await connection.aclose()
        # If aiohttp is installed, Google's client has a session for each loop.
        sessions = getattr(google_client, "_aiohttp_sessions", {})
        session = sessions.get(asyncio.get_running_loop())
        if session is not None:
            await session.close()


def accepted_keywords(function: Callable[..., Any]) -> set[str] | None:
    """Return the keywords that a function accepts.

    Return None if it accepts any keyword, and an empty set if its signature cannot be read.
    """
    try:
        parameters = inspect.signature(function).parameters.values()
    except (ValueError, TypeError):
        return set()
    keywords = set[str]()
    for parameter in parameters:
        if parameter.kind is parameter.VAR_KEYWORD:
            return None
        if parameter.kind is not parameter.POSITIONAL_ONLY:
            keywords.add(parameter.name)
    return keywords


def _to_json_data(value: Any) -> Any:
    """Return the objects of an SDK as dicts, lists and plain values."""
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return dump()
    if isinstance(value, list | tuple):
        return [_to_json_data(item) for item in cast("list[Any]", value)]
    if isinstance(value, Mapping):
        fields = cast("Mapping[str, Any]", value)
    else:
        fields = cast("Mapping[str, Any] | None", getattr(value, "__dict__", None))
    if fields is None:
        return cast("Any", value)
    return {name: _to_json_data(item) for name, item in fields.items()}
