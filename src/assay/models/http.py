"""Send JSON over HTTP with aiohttp, and fetch what a URL holds.

All requests of a process run on the network thread and share one session of pooled connections.
"""

from __future__ import annotations

import asyncio
import atexit
import json
import os
import socket
import ssl
from base64 import b64encode
from collections.abc import Collection, Mapping
from concurrent.futures import CancelledError
from contextlib import suppress
from functools import cache, lru_cache, partial
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any, NamedTuple
from urllib.parse import SplitResult, unquote, urljoin, urlsplit
from urllib.request import getproxies, proxy_bypass

from pydantic_core import to_json

from assay.errors import AssayError, MissingExtraError, Refused
from assay.models.network_thread import get_network_loop, run_on_network_thread
from assay.models.wire_format import HTTP_OK, Payload, RawReply
from assay.redaction import MASK, redact, select_searchable, split_login
from assay.wording import describe_error, format_value

try:
    import aiohttp
    from multidict import CIMultiDict
    from yarl import URL
except ImportError:
    raise MissingExtraError("asking over HTTP", package="aiohttp", extra="judge") from None

MAX_BODY_BYTES = 64 * 1024 * 1024  # of a reply, after decompression
CONNECT_SECONDS = 30.0
KEEP_ALIVE_SECONDS = 75.0  # how long an idle connection is kept open
CLOSE_SECONDS = 2.0  # how long the end of the program waits for connections to close
_JSON = "application/json"
_DEFAULT_HEADERS = {
    "Accept": _JSON,
    "Accept-Encoding": "identity",
    "Content-Type": _JSON,
    "User-Agent": "assay",
}


class HttpAddress:
    """A URL with the headers of every request to it."""

    def __init__(self, url: str, headers: Mapping[str, str], *, method: str = "POST") -> None:
        """Raise `Refused` if the URL, a header or the proxy of the environment is unusable."""
        parts = _split_url(url)
        url_without_login, _, password = split_login(url)
        self._url = URL(url_without_login)
        self._method = method
        self._headers = CIMultiDict(_DEFAULT_HEADERS | dict(headers))
        if parts.username and "Authorization" not in self._headers:
            # aiohttp refuses a URL with a login if there is a key too, so the login is sent in a
            # header.
            self._headers["Authorization"] = _basic_authorization(parts)
        _check_headers(self._headers)
        key = _find_key(self._headers)
        self._secrets = [secret.encode() for secret in select_searchable(key, password)]
        self._tls = _tls_context() if parts.scheme == "https" else True
        self._proxy = _find_proxy(parts)

    async def post(self, payload: Payload, seconds: float) -> RawReply:
        """Send a payload as JSON and return the reply, with known secrets removed from its text."""
        try:
            body = to_json(payload.body)
        except ValueError:
            # Models under test may write half a surrogate pair. The slower `json` can escape it.
            body = json.dumps(payload.body).encode()
        reply = await self.send(body, seconds)
        if reply.text:
            return reply._replace(text=redact(reply.text))
        return reply

    async def send(self, body: bytes, seconds: float) -> RawReply:
        """Send one request and return the reply, whatever its status.

        Raises `TimeoutError` if no reply comes in `seconds`, and another `OSError` if the
        connection fails.
        """
        return await run_on_network_thread(self._send_request(body, seconds))

    async def _send_request(self, body: bytes, seconds: float) -> RawReply:
        """Do what `send` says. Runs on the network thread."""
        try:
            # Redirects are not followed, because that would send the key to another host.
            response = await _get_session().request(
                self._method,
                self._url,
                data=body or None,
                headers=self._headers,
                proxy=self._proxy,
                ssl=self._tls,
                allow_redirects=False,
                timeout=_timeout(total=seconds),
            )
            async with response:
                reply_body = await _read_body(response)
        except aiohttp.ClientError as error:
            if isinstance(error, TimeoutError):
                raise  # some errors of aiohttp are both
            raise ConnectionError(_describe_failure(error)) from error
        for secret in self._secrets:
            reply_body = reply_body.replace(secret, MASK.encode())
        return RawReply.from_body(response.status, response.headers, reply_body)


def _split_url(url: str) -> SplitResult:
    """Return the parts of a URL. Raise `Refused` if no request can be sent to it."""
    try:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0:
            raise ValueError(url)
        url_without_login, _, _ = split_login(url)
        URL(url_without_login)  # raises ValueError if aiohttp cannot use the address
    except ValueError:
        raise Refused(
            f"{url!r} is not an address: give one such as http://127.0.0.1:8000/v1"
        ) from None
    return parts


def _basic_authorization(parts: SplitResult) -> str:
    """Return the `Authorization` header for the login in a URL."""
    login = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
    return f"Basic {b64encode(login.encode()).decode()}"


def _check_headers(headers: Mapping[str, str]) -> None:
    """Raise `Refused` if the value of a header cannot be sent."""
    for name, value in headers.items():
        if not value.isascii() or not value.isprintable():
            # The message does not show the value, which may be a key.
            raise Refused(
                f"the header {name} contains a line break or a non-ASCII character: "
                "check that the key is one line, without quotes or spaces around it"
            )


def _find_key(headers: Mapping[str, str]) -> str:
    """Return the key in the headers of a request; empty if there is none."""
    authorization = headers.get("Authorization", "")
    key = authorization.rpartition(" ")[2]  # without the scheme, as in "Bearer <key>"
    return key or headers.get("x-api-key", "")


def _find_proxy(parts: SplitResult) -> str | None:
    """Return the proxy that the environment sets for a URL; None if there is none.

    aiohttp's option `trust_env` is not used, because it would also replace the key by a login from
    `.netrc`.
    """
    if proxy_bypass(parts.hostname or ""):
        return None
    proxy = getproxies().get(parts.scheme)
    if not proxy:
        return None
    _split_url(proxy)  # checks it
    return proxy


# Uses the certificates of the machine, or those of SSL_CERT_FILE.
_tls_context = cache(ssl.create_default_context)
# Nearly all calls have the same timeout.
_timeout = lru_cache(partial(aiohttp.ClientTimeout, sock_connect=CONNECT_SECONDS))


async def _read_body(response: aiohttp.ClientResponse) -> bytes:
    """Return the body of a response.

    Raise `Refused` if it is too long, which is not retried, because the next one would be as long.
    """
    chunks: list[bytes] = []
    size = 0
    is_too_long = (response.content_length or 0) > MAX_BODY_BYTES
    while not is_too_long and not response.content.at_eof():
        chunk = await response.content.readany()
        chunks.append(chunk)
        size += len(chunk)
        # Checked after every chunk: a compressed body may expand to a thousand times its size.
        is_too_long = size > MAX_BODY_BYTES
    if is_too_long:
        raise Refused(
            f"the reply is longer than {MAX_BODY_BYTES >> 20} MiB: "
            "check that the address is that of a model"
        )
    return b"".join(chunks)


def _describe_failure(error: aiohttp.ClientError) -> str:
    """Return why a connection failed, in words for the user."""
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "the server closed the connection before its reply was complete"
    if isinstance(error, aiohttp.ClientConnectorError):
        return str(error.os_error)
    return str(error) or describe_error(error)


# The session of this process, which only the network thread uses; None before the first request.
_session: aiohttp.ClientSession | None = None
_sessions_of_parents: list[aiohttp.ClientSession] = []  # see `_forget_session_of_parent`


def _get_session() -> aiohttp.ClientSession:
    """Return the session of this process. Opens it at the first call."""
    global _session
    if _session is None:
        _session = aiohttp.ClientSession(
            # The number of connections is not limited here, because the limiter limits the calls.
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_ALIVE_SECONDS),
            request_class=_Request,
            cookie_jar=aiohttp.DummyCookieJar(),
        )
    return _session


class _Request(aiohttp.ClientRequest):
    """A request that refuses a connection on which an unexpected reply has arrived."""

    async def send(self, conn: aiohttp.connector.Connection) -> aiohttp.ClientResponse:
        """Send the request, unless bytes have arrived on the connection already.

        They would be read as the reply to this request.
        """
        has_unread_bytes = conn.protocol is not None and conn.protocol.should_close
        if has_unread_bytes:
            raise aiohttp.ClientConnectionError("the server sent data that was not requested")
        return await super().send(conn)


@atexit.register
def _close_session() -> None:
    """Close the connections when the program ends, so that aiohttp does not warn about them."""
    if _session is None:
        return

    async def close(session: aiohttp.ClientSession) -> None:
        await session.close()
        await asyncio.sleep(0)  # the loop closes the sockets in its next iteration

    closing = asyncio.run_coroutine_threadsafe(close(_session), get_network_loop())
    with suppress(TimeoutError, CancelledError):
        closing.result(timeout=CLOSE_SECONDS)


def _forget_session_of_parent() -> None:
    """Let a forked child open its own session. The parent's is kept: to delete it would close it."""
    global _session
    if _session is not None:
        _sessions_of_parents.append(_session)
    _session = None


os.register_at_fork(after_in_child=_forget_session_of_parent)


MAX_REDIRECTS = 5
# Networks that Python counts as global, and that may lead to private addresses.
_NOT_PUBLIC = (
    ip_network("64:ff9b::/96"),  # a NAT64 gateway translates these to the IPv4 address in them
    ip_network("64:ff9b:1::/48"),  # the same, for networks of one's own
    ip_network("::/96"),  # with an IPv4 address at the end, as in `::127.0.0.1`
    ip_network("::ffff:0:0:0/96"),  # the same, for a translator, as in `::ffff:0:127.0.0.1`
    ip_network("fec0::/10"),  # of one site
)


class FetchError(AssayError):
    """A URL may not be fetched, or did not return a page."""


class Fetched(NamedTuple):
    """What a URL returned."""

    url: str  # the URL that was read in the end, after redirects
    kind: str  # the media type, such as `text/html`
    body: bytes


async def fetch_url(
    url: str,
    *,
    hosts: Collection[str] | None = None,
    most_bytes: int = 20_000_000,
    seconds: float = 20.0,
    allow_private: bool = False,
) -> Fetched:
    """Return the content of a URL, after redirects. Raise `FetchError` if it cannot be fetched.

    `hosts` are the exact host names that are allowed, also in redirects; None allows any. Only
    public addresses and `https` are allowed, unless `allow_private`, which is meant for tests.
    """
    return await run_on_network_thread(
        _fetch(
            url,
            hosts=hosts,
            most_bytes=most_bytes,
            seconds=seconds,
            allow_private=allow_private,
        )
    )


async def _fetch(
    url: str,
    *,
    hosts: Collection[str] | None,
    most_bytes: int,
    seconds: float,
    allow_private: bool,
) -> Fetched:
    """Do what `fetch_url` says. Runs on the network thread."""
    # Compression is not accepted: a short body could expand to a thousand times its size.
    headers = {"User-Agent": "assay", "Accept-Encoding": "identity"}
    connector = aiohttp.TCPConnector(socket_factory=None if allow_private else _open_public_socket)
    try:
        async with (
            asyncio.timeout(seconds),
            aiohttp.ClientSession(connector=connector, headers=headers) as session,
        ):
            for _ in range(MAX_REDIRECTS + 1):
                _check_url(url, hosts, allow_private=allow_private)
                async with session.get(URL(url), allow_redirects=False) as response:
                    location = response.headers.get("Location")
                    if 300 <= response.status < 400 and location:
                        url = urljoin(url, location)
                        continue
                    return await _read_page(response, url, most_bytes=most_bytes)
            raise FetchError(f"{url} is the end of more than {MAX_REDIRECTS} redirects")
    except TimeoutError:
        raise FetchError(f"{url} did not answer within {seconds:g} seconds") from None
    except (aiohttp.ClientError, OSError, ValueError) as error:
        reason = getattr(error, "os_error", None) or describe_error(error)
        raise FetchError(f"{url} cannot be fetched: {reason}") from None


async def _read_page(response: aiohttp.ClientResponse, url: str, *, most_bytes: int) -> Fetched:
    """Return what a response contains. Raise `FetchError` if it is an error, or too long."""
    if response.status != HTTP_OK:
        raise FetchError(f"{url} returned status {response.status}")
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > most_bytes:
            raise FetchError(f"{url} is longer than {most_bytes:,} bytes, which is the maximum")
    return Fetched(url, response.content_type, bytes(body))


def _check_url(url: str, hosts: Collection[str] | None, *, allow_private: bool) -> None:
    """Raise `FetchError` if a URL may not be fetched.

    Whether its host has a public address is checked later, by `_open_public_socket`.
    """
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        raise FetchError(
            f"{format_value(url)} is not a URL: give one such as https://example.org/page"
        ) from None
    schemes = ("https", "http") if allow_private else ("https",)
    if not host or parts.scheme not in schemes:
        raise FetchError(
            f"{format_value(url)} is not fetched: give a URL that begins with https://"
        )
    if parts.username is not None:
        raise FetchError(
            f"a URL for {format_value(host)} contains a login: give one without a login"
        )
    if hosts is not None:
        allowed_hosts = {name.casefold() for name in hosts}
        if host not in allowed_hosts:
            shown_hosts = ", ".join(sorted(hosts)) or "none"
            raise FetchError(
                f"the host {format_value(host)} is not allowed; allowed are: {shown_hosts}"
            )


def _open_public_socket(address_info: Any) -> socket.socket:
    """Return a socket for a public address; raise `OSError` for any other.

    aiohttp calls this with the address that it is about to connect to, so a host name that resolves
    to a private address cannot get around the check.
    """
    family, kind, protocol, _, socket_address = address_info
    host: str = socket_address[0]
    host_without_zone = host.partition("%")[0]  # fe80::1%eth0 names a network interface
    address = _unwrap_ipv4(ip_address(host_without_zone))
    # Python counts some multicast addresses as global.
    is_public = address.is_global and not address.is_multicast
    if any(address in network for network in _NOT_PUBLIC):
        is_public = False
    if not is_public:
        raise OSError(f"{address} is not a public address")
    return socket.socket(family, kind, protocol)


def _unwrap_ipv4(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """Return the IPv4 address that an IPv6 address contains; any other address unchanged."""
    if isinstance(address, IPv6Address):
        return address.ipv4_mapped or address.sixtofour or address
    return address
