"""Send JSON over HTTP by aiohttp, with one session of pooled connections for each event loop; and fetch what a URL holds.

A synchronous method runs an event loop of its own, so sessions come and go with loops. Each is closed by an asynchronous
generator: a loop finishes those before it closes, and needs to know nothing of us.
"""

import asyncio
import json
import os
import socket
import ssl
import threading
from base64 import b64encode
from collections.abc import AsyncGenerator, Collection, Mapping
from functools import cache, lru_cache, partial
from ipaddress import ip_address, ip_network
from typing import Any, NamedTuple
from urllib.parse import SplitResult, unquote, urljoin, urlsplit
from urllib.request import getproxies, proxy_bypass

from pydantic_core import to_json

from assay.errors import AssayError, MissingExtraError, Refused
from assay.models.wire_format import Payload, RawReply
from assay.redaction import STRUCK, parted_from_login, redacted, telltale
from assay.wording import described, short_repr

try:
    import aiohttp
    from multidict import CIMultiDict
    from yarl import URL
except ImportError:
    raise MissingExtraError("asking over HTTP", package="aiohttp", extra="judge") from None

LONGEST_BODY = 64 * 1024 * 1024  # bytes of a reply, also once it is decompressed
CONNECT_SECONDS = 30.0
_tls = cache(
    ssl.create_default_context
)  # by the machine's certificates, or those of SSL_CERT_FILE; read once
_timeout = lru_cache(
    partial(aiohttp.ClientTimeout, sock_connect=CONNECT_SECONDS)
)  # nearly all calls have the same
KEEP_ALIVE = 75.0  # seconds that an idle connection is kept
MOST_REDIRECTS = 5
_TRANSLATED = ip_network(
    "64:ff9b::/96"
)  # each of these holds an IPv4 address, which may be private
_JSON = "application/json"
_HEADERS = {
    "Accept": _JSON,
    "Accept-Encoding": "identity",
    "Content-Type": _JSON,
    "User-Agent": "assay",
}


class HttpAddress:
    """A URL with the headers of every request to it. Raises `Refused` for a URL that is none."""

    def __init__(self, url: str, headers: Mapping[str, str], *, method: str = "POST") -> None:
        """The proxy is the one that the environment names for this URL."""
        bare, _, password = parted_from_login(url)
        parts = _split(url)
        # Taken off the address: aiohttp refuses one with a login beside a header with a key.
        self._url = URL(bare)
        self._method = method
        self._headers = CIMultiDict(_HEADERS | dict(headers))
        if parts.username and "Authorization" not in self._headers:
            pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            self._headers["Authorization"] = f"Basic {b64encode(pair.encode()).decode()}"
        for name, value in self._headers.items():
            if not value.isascii() or not value.isprintable():
                # The value is not shown, for it may be a key.
                advice = "see that the key is one line, without quotes or blanks around it"
                raise Refused(
                    f"the header {name} holds a line break, or a letter beyond ASCII: {advice}"
                )
        key = self._headers.get("Authorization", "").rpartition(" ")[2]
        sent = telltale(key or self._headers.get("x-api-key"), password)
        self._secrets = tuple(secret.encode() for secret in sent)
        self._tls = _tls() if parts.scheme == "https" else True
        # Not left to aiohttp (`trust_env`), which would take a login from .netrc in place of the key as well.
        self._proxy = (
            None if proxy_bypass(parts.hostname or "") else getproxies().get(parts.scheme) or None
        )
        if self._proxy:
            _split(self._proxy)

    async def post(self, payload: Payload, seconds: float) -> RawReply:
        """The answer to a payload; what it repeats of known secrets is struck out of its text."""
        try:
            body = to_json(payload.body)
        except ValueError:
            # Half a surrogate pair, which models under test write, is escaped by the slower one.
            body = json.dumps(payload.body).encode()
        reply = await self.send(body, seconds)
        return reply._replace(text=redacted(reply.text)) if reply.text else reply

    async def send(self, body: bytes, seconds: float) -> RawReply:
        """The answer to one request, whatever its status; a `TimeoutError` or another `OSError` when there is none."""
        session = await _session()
        try:
            # Redirects are not followed: a key that is meant for one host is not sent to another.
            async with await session.request(
                self._method,
                self._url,
                data=body or None,
                headers=self._headers,
                proxy=self._proxy,
                ssl=self._tls,
                allow_redirects=False,
                timeout=_timeout(total=seconds),
            ) as response:
                said = await _body(response)
        except aiohttp.ClientError as error:
            if isinstance(error, TimeoutError):
                raise
            why = str(error) or described(error)
            if isinstance(error, aiohttp.ServerDisconnectedError):
                why = "the server closed the connection before its answer was whole"
            if isinstance(error, aiohttp.ClientConnectorError):
                why = str(error.os_error)
            raise ConnectionError(why) from error
        for secret in self._secrets:
            said = said.replace(secret, STRUCK.encode())
        return RawReply.from_body(response.status, response.headers, said)


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0:
            raise ValueError(url)
        URL(parted_from_login(url)[0])
    except ValueError:
        raise Refused(f"{url!r} is no address: give one such as http://127.0.0.1:8000/v1") from None
    return parts


async def _body(response: aiohttp.ClientResponse) -> bytes:
    content, pieces, total = response.content, list[bytes](), 0
    announced = response.content_length or 0
    # By the piece, and not afterwards: a million compressed bytes can hold a thousand million.
    while max(total, announced) <= LONGEST_BODY:
        if content.at_eof():
            return b"".join(pieces)
        pieces.append(await content.readany())
        total += len(pieces[-1])
    # Refused and not tried again: the next one would be as long.
    raise Refused(
        f"the reply is longer than {LONGEST_BODY >> 20} MiB, which no answer of a model is"
    )


class _Request(aiohttp.ClientRequest):
    """A request that is not sent where its answer could be mistaken for another one."""

    async def send(self, conn: "aiohttp.connector.Connection") -> aiohttp.ClientResponse:
        # Bytes that came in while a connection was idle would be read as the answer to this request.
        if conn.protocol is not None and conn.protocol.should_close:
            raise aiohttp.ClientConnectionError("the server sent what was not asked for")
        return await super().send(conn)


# The session of each loop, and the generator that closes it when the loop ends.
_sessions: dict[asyncio.AbstractEventLoop, tuple[aiohttp.ClientSession, AsyncGenerator[None]]] = {}
_lock = threading.Lock()
_left_behind: list[object] = []


async def _session() -> aiohttp.ClientSession:
    loop = asyncio.get_running_loop()
    known = _sessions.get(loop)
    if known is not None and not known[0].closed:
        return known[0]
    session = aiohttp.ClientSession(
        # How many calls go at once is decided by the limiter, so there is no second limit here.
        connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_ALIVE),
        request_class=_Request,
        cookie_jar=aiohttp.DummyCookieJar(),
    )
    keeper = _until_the_loop_ends(session)
    with _lock:
        for gone in [known for known in _sessions if known.is_closed()]:
            del _sessions[gone]
        _sessions[loop] = session, keeper
    await anext(keeper)
    return session


async def _until_the_loop_ends(session: aiohttp.ClientSession) -> AsyncGenerator[None]:
    try:
        yield
    finally:
        await session.close()
        # Sockets are closed by the loop, in its next turn.
        await asyncio.sleep(0)


def _after_fork() -> None:
    """A forked child must neither use nor close its parent's connections, so it keeps them."""
    _left_behind.extend(_sessions.values())
    _sessions.clear()


os.register_at_fork(after_in_child=_after_fork)


class FetchError(AssayError):
    """A URL may not be fetched, or did not give what was asked for."""


class Fetched(NamedTuple):
    """What a URL held."""

    url: str  # the one that was read in the end, after redirects
    kind: str  # its media type, such as `text/html`
    body: bytes


async def fetched(
    url: str,
    *,
    hosts: Collection[str] | None = None,
    most_bytes: int = 20_000_000,
    seconds: float = 20.0,
    allow_private: bool = False,
) -> Fetched:
    """What a URL holds, after redirects, each of which is looked at like the first. Raises a `FetchError`.

    `hosts` are the names that may be asked, exactly as they are; None is any. Addresses that are not public, and `http`,
    are refused, unless `allow_private`, which is meant for tests.
    """
    # As it is, and not compressed: a short body could hold a thousand times as much.
    headers = {"User-Agent": "assay", "Accept-Encoding": "identity"}
    connector = aiohttp.TCPConnector(socket_factory=None if allow_private else _public_socket)
    try:
        async with (
            asyncio.timeout(seconds),
            aiohttp.ClientSession(connector=connector, headers=headers) as session,
        ):
            for _ in range(MOST_REDIRECTS + 1):
                _refuse(url, hosts, allow_private)
                async with session.get(URL(url), allow_redirects=False) as response:
                    where = response.headers.get("Location")
                    if 300 <= response.status < 400 and where:
                        url = urljoin(url, where)
                        continue
                    if response.status != 200:
                        raise FetchError(f"{url} answers with status {response.status}")
                    body = bytearray()
                    async for piece in response.content.iter_any():
                        body += piece
                        if len(body) > most_bytes:
                            raise FetchError(
                                f"{url} holds more than {most_bytes:,} bytes, which is the most"
                            )
                    return Fetched(url, response.content_type, bytes(body))
            raise FetchError(f"{url} is redirected to more than {MOST_REDIRECTS} times in a row")
    except TimeoutError:
        raise FetchError(f"{url} gave no answer within {seconds:g} seconds") from None
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise FetchError(
            f"{url} cannot be fetched: {getattr(error, 'os_error', None) or described(error)}"
        ) from None


def _refuse(url: str, hosts: Collection[str] | None, allow_private: bool) -> None:
    """Raise for a URL that may not be asked; where it leads is looked at when it is connected to."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        raise FetchError(
            f"{short_repr(url)} is no URL: give one such as https://example.org/page"
        ) from None
    if not host or parts.scheme not in (("https", "http") if allow_private else ("https",)):
        raise FetchError(f"{short_repr(url)} is not fetched: give a URL that begins with https://")
    if parts.username is not None:
        raise FetchError(f"{short_repr(host)} would be sent a login, which no URL here may hold")
    if hosts is not None and host not in {name.casefold() for name in hosts}:
        raise FetchError(
            f"the host {short_repr(host)} is not on the list: {', '.join(sorted(hosts)) or 'none is'}"
        )


def _public_socket(found: Any) -> socket.socket:
    """A socket for a public address: called with the very address that is connected to, so that no name can hide one."""
    family, kind, protocol, _, (host, *_) = found
    address = ip_address(host.partition("%")[0])
    address = (
        getattr(address, "ipv4_mapped", None) or getattr(address, "sixtofour", None) or address
    )
    if not address.is_global or address.is_multicast or address in _TRANSLATED:
        raise OSError(f"{address} is no public address, and is not asked")
    return socket.socket(family, kind, protocol)
