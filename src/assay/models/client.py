"""Client: one pool of HTTP connections for each event loop, closed when its loop ends.

A sync door runs a loop of its own, so clients come and go with loops. Each is closed by an
asynchronous generator: a loop finishes those before it closes, and needs to know nothing of us.

Why not a client from a package: judging is many small calls, and what a general client does for each
costs more than all else here together.
"""

import asyncio
import json
import os
import threading
from collections import defaultdict, deque
from collections.abc import AsyncGenerator, Mapping
from typing import Any, NamedTuple

from pydantic_core import from_json

from assay.models.address import Address, Place
from assay.models.connection import Connection, connected

KEEP_ALIVE = 75.0
"""Seconds that an idle connection is kept."""
FRESH = 1.0
"""Seconds after which a connection is looked at before it is used: few servers close one sooner."""


class Answer(NamedTuple):
    """What came back: a status, headers, and the body as JSON."""

    status: int
    headers: Mapping[str, str]
    data: Any
    """None when the body is no JSON."""
    text: str
    """The body of an answer that is no success, or no JSON; else empty."""


class Client:
    """Sends requests and reads JSON. One for each loop: `Client.here()`."""

    _clients: "dict[asyncio.AbstractEventLoop, Client]" = {}  # noqa: RUF012 - one for the process
    _lock = threading.Lock()

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.idle: defaultdict[Place, deque[Connection]] = defaultdict(deque)
        """Connections that nobody uses, the one used last at the end."""
        self._time = loop.time

    @classmethod
    async def here(cls) -> "Client":
        """The client of the running loop."""
        loop = asyncio.get_running_loop()
        return cls._clients.get(loop) or await cls._open(loop)

    @classmethod
    async def _open(cls, loop: asyncio.AbstractEventLoop) -> "Client":
        client = cls(loop)
        with cls._lock:
            for gone in [known for known in cls._clients if known.is_closed()]:
                del cls._clients[gone]
            cls._clients[loop] = client
        # Held by the loop's list of generators and by this client; finished by the loop.
        client.keeper = _until_the_loop_ends(loop, client)
        await anext(client.keeper)
        return client

    keeper: AsyncGenerator[None, None]

    async def ask(self, address: Address, body: bytes, seconds: float) -> Answer:
        """The answer to one request, whatever its status. Connection errors are `OSError`s.

        Raises `TimeoutError` when there is none so many seconds after it was sent.
        """
        connection = self._waiting_at(address.place) or await connected(address.place, seconds)
        response = await connection.ask(address.request(body), seconds)
        if connection.is_open:
            self._keep(connection, address.place)
        body = address.without_secrets(response.body)
        return answer_of(response.status, response.headers, body)

    def close(self) -> None:
        """Close what is idle; what is in use is closed by who uses it."""
        for connections in self.idle.values():
            for connection in connections:
                connection.transport.abort()
        self.idle.clear()

    def _waiting_at(self, place: Place) -> Connection | None:
        """The connection that was used last, which is the least likely to be closed by now."""
        idle = self.idle[place]
        while idle:
            connection = idle.pop()
            rested = self._time() - connection.idle_since > FRESH
            if connection.is_open and not (rested and connection.has_news()):
                return connection
            connection.transport.abort()
        return None

    def _keep(self, connection: Connection, place: Place) -> None:
        now = connection.idle_since = self._time()
        idle = self.idle[place]
        while idle and idle[0].idle_since < now - KEEP_ALIVE:
            idle.popleft().transport.abort()
        idle.append(connection)


def answer_of(status: int, headers: Mapping[str, str], body: bytes) -> Answer:
    """A body that was read, as an answer."""
    try:
        data = loads(body)
    except (ValueError, RecursionError):
        data = None
    is_plain = status == 200 and data is not None
    return Answer(status, headers, data, "" if is_plain else body.decode("utf-8", "replace"))


async def _until_the_loop_ends(
    loop: asyncio.AbstractEventLoop, client: Client
) -> AsyncGenerator[None, None]:
    try:
        yield
    finally:
        Client._clients.pop(loop, None)  # pyright: ignore[reportPrivateUsage]
        client.close()
        # Sockets are closed by the loop, in its next turn.
        await asyncio.sleep(0)


_left_behind: list[Client] = []


def _after_fork() -> None:
    """A forked child must neither use nor close its parent's connections, so it keeps them."""
    clients = Client._clients  # pyright: ignore[reportPrivateUsage]
    _left_behind.extend(clients.values())
    clients.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def loads(body: bytes) -> Any:
    """JSON from bytes; a `ValueError` for what is none."""
    try:
        return from_json(body, cache_strings="keys")
    except ValueError:
        # Half a surrogate pair, which models under test write, is read only by the slower one.
        return json.loads(body)


def dumps(value: Any) -> bytes:
    """JSON as bytes; half a surrogate pair is escaped."""
    return json.dumps(value).encode()
