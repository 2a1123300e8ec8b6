"""The HTTP side of the test server: enough of HTTP/1.1 for clients that keep connections open."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

Handler = Callable[["Call"], Awaitable["Respond | None"]]


class Call(NamedTuple):
    """One request as it came in."""

    method: str
    path: str
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes


class Respond(NamedTuple):
    """What to send back. A `cut` one loses its second half and the connection."""

    status: int
    body: bytes
    headers: Mapping[str, str]
    cut: bool = False

    @classmethod
    def of(cls, value: Any, status: int = 200) -> "Respond":
        """A value as JSON."""
        return cls(status, json.dumps(value).encode(), {})


class Connection(asyncio.Protocol):
    """Reads one request after the other off a connection, and answers each in turn."""

    def __init__(self, handle: Handler, open_ones: "set[Connection]") -> None:
        self._handle = handle
        self._open_ones = open_ones
        self._buffer = bytearray()
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport
        self._open_ones.add(self)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        self._next()

    def connection_lost(self, exc: Exception | None) -> None:
        self._open_ones.discard(self)
        if self._task is not None:
            self._task.cancel()

    def close(self) -> None:
        """Leave whoever is at the other end."""
        self._transport.abort()

    def _next(self) -> None:
        if self._task is not None:
            return
        call = _read(self._buffer)
        if call is not None:
            self._task = asyncio.ensure_future(self._answer(call))

    async def _answer(self, call: Call) -> None:
        respond = await self._handle(call)
        self._task = None
        if respond is None:
            self._transport.abort()
            return
        head = [f"HTTP/1.1 {respond.status} X", f"Content-Length: {len(respond.body)}"]
        head += ["Content-Type: application/json"]
        head += [f"{name}: {value}" for name, value in respond.headers.items()]
        body = respond.body[: len(respond.body) // 2] if respond.cut else respond.body
        self._transport.write("\r\n".join([*head, "", ""]).encode() + body)
        if respond.cut:
            self._transport.close()
        else:
            self._next()


def _read(buffer: bytearray) -> Call | None:
    """Take the first whole request out of the buffer; None when it is not all there."""
    end = buffer.find(b"\r\n\r\n")
    if end < 0:
        return None
    first, *lines = buffer[:end].decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (x.partition(":") for x in lines)}
    start, length = end + 4, int(headers.get("content-length", 0))
    if len(buffer) < start + length:
        return None
    body = bytes(buffer[start : start + length])
    del buffer[: start + length]
    method, path, _ = first.split(" ", 2)
    return Call(method, path, headers, body)
