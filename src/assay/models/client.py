"""Client: one pooled HTTP client for each event loop, closed when its loop ends.

A sync door runs a loop of its own, so clients come and go with loops. Each is closed by an
asynchronous generator: a loop finishes those before it closes, and needs to know nothing of us.
"""

import asyncio
import atexit
import json
import os
import threading
from collections.abc import AsyncGenerator, Callable, Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from assay.errors import MissingExtraError
from assay.wording import described

if TYPE_CHECKING:
    from aiohttp import ClientSession

KEEP_ALIVE = 75.0
"""Seconds that an idle connection is kept."""


class Answer(NamedTuple):
    """What came back: a status, headers, and the body as JSON."""

    status: int
    headers: Mapping[str, str]
    data: Any
    """None when the body is no JSON."""
    text: str
    """The body of an answer that is no success, or no JSON; else empty."""


class Client:
    """POSTs JSON. One for each loop: `Client.here()`."""

    _clients: "dict[asyncio.AbstractEventLoop, Client]" = {}  # noqa: RUF012 - one for the process
    _lock = threading.Lock()

    def __init__(self, session: "ClientSession") -> None:
        self.session = session
        # Not all of them are `OSError`s, and a connection that closes early may be none of them.
        self._errors = (http_package().ClientError, RuntimeError)

    @classmethod
    async def here(cls) -> "Client":
        """The client of the running loop."""
        loop = asyncio.get_running_loop()
        client = cls._clients.get(loop)
        if client is None or client.session.closed:
            client = await cls._open(loop)
        return client

    @classmethod
    async def _open(cls, loop: asyncio.AbstractEventLoop) -> "Client":
        session = _session()
        client = cls(session)
        with cls._lock:
            for gone in [known for known in cls._clients if known.is_closed()]:
                _drop(cls._clients.pop(gone).session)
            cls._clients[loop] = client
        # Held by the loop's list of generators and by this client; finished by the loop.
        client.keeper = _until_the_loop_ends(loop, session)
        await anext(client.keeper)
        return client

    keeper: AsyncGenerator[None, None]

    async def post(
        self, url: Any, body: bytes, headers: Mapping[str, str], proxy: str | None = None
    ) -> Answer:
        """The answer to one POST, whatever its status. Connection errors are `OSError`s."""
        try:
            async with self.session.post(
                url, data=body, headers=headers, proxy=proxy, allow_redirects=False
            ) as response:
                return answer_of(response.status, response.headers, await response.read())
        except self._errors as error:
            raise ConnectionError(described(error)) from error


def answer_of(status: int, headers: Mapping[str, str], body: bytes) -> Answer:
    """A body that was read, as an answer."""
    try:
        data = loads(body)
    except ValueError:
        data = None
    is_plain = status == 200 and data is not None
    return Answer(status, headers, data, "" if is_plain else body.decode("utf-8", "replace"))


def http_package() -> Any:
    """`aiohttp`, which takes a moment to import: ask for it before the loop is busy."""
    try:
        return import_module("aiohttp")
    except ImportError:
        raise MissingExtraError(
            "asking a model over HTTP", package="aiohttp", extra="models"
        ) from None


def _session() -> "ClientSession":
    aiohttp = http_package()
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_ALIVE, ttl_dns_cache=300),
        # How long to wait is ours to say; a client that reads the environment reads it every time.
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=30),
        cookie_jar=aiohttp.DummyCookieJar(),
        skip_auto_headers=("Accept", "Accept-Encoding", "User-Agent"),
    )


async def _until_the_loop_ends(
    loop: asyncio.AbstractEventLoop, session: "ClientSession"
) -> AsyncGenerator[None, None]:
    try:
        yield
    finally:
        Client._clients.pop(loop, None)  # pyright: ignore[reportPrivateUsage]
        await session.close()


def _drop(session: "ClientSession") -> None:
    """Let go of a session whose loop ended without finishing its generators."""
    connector: Any = session.connector
    session.detach()
    if connector is not None:
        # Its public close() is a coroutine, and there is no loop left to run it.
        connector._close()


@atexit.register
def _drop_all() -> None:
    for client in list(Client._clients.values()):  # pyright: ignore[reportPrivateUsage]
        _drop(client.session)


_left_behind: list[Client] = []


def _after_fork() -> None:
    """A forked child must neither use nor close its parent's connections, so it keeps them."""
    clients = Client._clients  # pyright: ignore[reportPrivateUsage]
    _left_behind.extend(clients.values())
    clients.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


@cache
def proxy_for(url: str) -> str | None:
    """The proxy that the environment names for an address; looked up once."""
    parts = urlsplit(url)
    if not parts.hostname or proxy_bypass(parts.hostname):
        return None
    return getproxies().get(parts.scheme)


try:
    _fast: Any = import_module("orjson")
except ImportError:
    _fast = None

loads: Callable[[bytes], Any] = json.loads if _fast is None else _fast.loads
"""JSON from bytes; by `orjson` where it is installed."""


def dumps(value: Any) -> bytes:
    """JSON as bytes; half a surrogate pair, which models under test write, is escaped."""
    if _fast is not None:
        try:
            return _fast.dumps(value)
        except TypeError:
            pass
    return json.dumps(value).encode()
