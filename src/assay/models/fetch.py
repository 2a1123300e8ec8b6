"""Fetch what a URL holds: from public addresses alone, of so many bytes at most, and in so many seconds."""

import asyncio
import socket
from collections.abc import Collection
from ipaddress import ip_address, ip_network
from typing import Any, NamedTuple
from urllib.parse import urljoin, urlsplit

from assay.errors import AssayError, MissingExtraError
from assay.wording import described, short_repr

try:
    import aiohttp
    from yarl import URL
except ImportError:
    raise MissingExtraError("fetching a URL", package="aiohttp", extra="judge") from None

MOST_REDIRECTS = 5
_TRANSLATED = ip_network("64:ff9b::/96")  # each of these holds an IPv4 address, which may be private


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
        async with asyncio.timeout(seconds), aiohttp.ClientSession(connector=connector, headers=headers) as session:
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
                            raise FetchError(f"{url} holds more than {most_bytes:,} bytes, which is the most")
                    return Fetched(url, response.content_type, bytes(body))
            raise FetchError(f"{url} is redirected to more than {MOST_REDIRECTS} times in a row")
    except TimeoutError:
        raise FetchError(f"{url} gave no answer within {seconds:g} seconds") from None
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise FetchError(f"{url} cannot be fetched: {getattr(error, 'os_error', None) or described(error)}") from None


def _refuse(url: str, hosts: Collection[str] | None, allow_private: bool) -> None:
    """Raise for a URL that may not be asked; where it leads is looked at when it is connected to."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        raise FetchError(f"{short_repr(url)} is no URL: give one such as https://example.org/page") from None
    if not host or parts.scheme not in (("https", "http") if allow_private else ("https",)):
        raise FetchError(f"{short_repr(url)} is not fetched: give a URL that begins with https://")
    if parts.username is not None:
        raise FetchError(f"{short_repr(host)} would be sent a login, which no URL here may hold")
    if hosts is not None and host not in {name.casefold() for name in hosts}:
        raise FetchError(f"the host {short_repr(host)} is not on the list: {', '.join(sorted(hosts)) or 'none is'}")


def _public_socket(found: Any) -> socket.socket:
    """A socket for a public address: called with the very address that is connected to, so that no name can hide one."""
    family, kind, protocol, _, (host, *_) = found
    address = ip_address(host.partition("%")[0])
    address = getattr(address, "ipv4_mapped", None) or getattr(address, "sixtofour", None) or address
    if not address.is_global or address.is_multicast or address in _TRANSLATED:
        raise OSError(f"{address} is no public address, and is not asked")
    return socket.socket(family, kind, protocol)
