"""SdkSend: payloads sent through a client object that the user made, `openai`'s or `anthropic`'s."""

import asyncio
import inspect
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any, cast

from assay.models.client import Answer
from assay.models.wire import Payload

CONNECTIONS = 1000
"""That a client keeps open at most."""

_CONNECTION = ("APIConnectionError", "APITimeoutError", "ConnectError", "TimeoutException")


def creating(client: Any) -> tuple[str, Callable[..., Any]] | None:
    """Which protocol a client speaks, and its method that asks; None when it is no client."""
    chat = getattr(getattr(client, "chat", None), "completions", None)
    if callable(getattr(chat, "create", None)):
        return "openai", cast("Any", chat).create
    messages = getattr(client, "messages", None)
    if callable(getattr(messages, "create", None)):
        return "anthropic", cast("Any", messages).create
    return None


def without_retries(client: Any, timeout: float) -> Any:
    """The client with its own retries off, for ours count and are counted."""
    options = getattr(client, "with_options", None)
    return client if options is None else options(max_retries=0, timeout=timeout)


class SdkSend:
    """Asks through the client. A sync client waits in a thread, so few calls go at once."""

    def __init__(self, client: Any, create: Callable[..., Any]) -> None:
        self._client = client
        self._create = create
        self._keepers: dict[asyncio.AbstractEventLoop, AsyncGenerator[None, None]] = {}
        marks = (create, getattr(client, "close", None), getattr(client, "aclose", None))
        self._is_async = any(inspect.iscoroutinefunction(mark) for mark in marks)

    async def __call__(self, payload: Payload, seconds: float) -> Answer:
        body = payload.whole()
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
        return Answer(200, {}, _plain(result), "")

    async def _awaited(self, body: Mapping[str, Any]) -> Any:
        """The result of an async client, which may hold connections of a loop that has ended."""
        await self._look_after(asyncio.get_running_loop())
        for _ in range(CONNECTIONS):
            try:
                return await self._create(**body)
            except RuntimeError as error:
                # Whoever meets such a connection drops it, and finds another or makes one.
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
        # Neither SDK has a way to do this. Without it the next loop sends on a dead connection.
        transport = getattr(getattr(client, "_client", None), "_transport", None)
        for connection in getattr(getattr(transport, "_pool", None), "connections", ()):
            if connection.is_idle():
                await connection.aclose()


def _refusal(error: Exception) -> Answer | None:
    """What the endpoint said; an `OSError` when it could not be reached; None for other errors."""
    status = getattr(error, "status_code", None)
    if isinstance(status, int):
        headers = getattr(getattr(error, "response", None), "headers", None)
        return Answer(status, cast("Mapping[str, str]", headers or {}), None, str(error))
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
