"""Address: where an endpoint is, and how every request to it begins."""

from base64 import b64encode
from collections.abc import Mapping
from functools import cache
from typing import NamedTuple
from urllib.parse import SplitResult, quote, unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from assay.errors import Refused
from assay.redaction import STRUCK, parted_from_login, telltale

_PORTS = {"http": 80, "https": 443}
_IN_A_PATH = "/%:@!$&'()*+,;=~-._"
_HEADERS = {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "assay"}


class Host(NamedTuple):
    """Who listens where."""

    name: str
    port: int
    secure: bool
    """Whether over TLS."""

    def __str__(self) -> str:
        return f"{f'[{self.name}]' if ':' in self.name else self.name}:{self.port}"


class Place(NamedTuple):
    """The other end of a connection. Any connection to the same place will do."""

    host: Host
    proxy: Host | None = None
    """Asked to pass everything on; None when there is none between."""
    credentials: str = ""
    """What the proxy wants to see, as a header; empty when nothing."""


class Address:
    """An endpoint's URL, taken apart once for all requests. Raises `Refused` for one that is none.

    >>> Address("http://127.0.0.1:8000/v1/chat/completions", {}).place.host
    Host(name='127.0.0.1', port=8000, secure=False)
    """

    def __init__(self, url: str, headers: Mapping[str, str], *, method: str = "POST") -> None:
        """`headers` go with every request. The proxy is the one that the environment names."""
        parts, host = _taken_apart(url)
        target = quote(parts.path or "/", safe=_IN_A_PATH)
        target += f"?{quote(parts.query, safe=_IN_A_PATH + '?')}" if parts.query else ""
        sent = {"Host": _named(host)} | _HEADERS | dict(headers)
        if parts.username and "Authorization" not in sent:
            sent["Authorization"] = _basic(parts)
        key = sent.get("Authorization", "").rpartition(" ")[2] or sent.get("x-api-key")
        password = parted_from_login(url)[2]
        self.secrets = tuple(secret.encode() for secret in telltale(key, password))
        """Credentials that are sent, and struck out of an answer that repeats them."""
        self.place = Place(host)
        proxy = proxy_for(url)
        if proxy is not None:
            proxy_parts, proxy_host = _taken_apart(proxy)
            credentials = _basic(proxy_parts) if proxy_parts.username else ""
            self.place = Place(host, proxy_host, credentials)
            if not host.secure:
                # No tunnel is needed, so the proxy reads where the request is to go.
                target = f"http://{_named(host)}{target}"
                sent |= {"Proxy-Authorization": credentials} if credentials else {}
        lines = "".join(_line(name, value) for name, value in sent.items())
        self._opening = f"{method} {target} HTTP/1.1\r\n{lines}Content-Length: ".encode("latin-1")

    def request(self, body: bytes) -> bytes:
        """A request with this body."""
        return b"%b%d\r\n\r\n%b" % (self._opening, len(body), body)

    def without_secrets(self, body: bytes) -> bytes:
        """An answer's body without the credentials that were sent."""
        for secret in self.secrets:
            body = body.replace(secret, STRUCK.encode())
        return body


def _taken_apart(url: str) -> tuple[SplitResult, Host]:
    try:
        parts = urlsplit(url)
        return parts, _host(parts)
    except (ValueError, KeyError):
        raise Refused(f"{url!r} is no address: give one such as http://127.0.0.1:8000/v1") from None


def _host(parts: SplitResult) -> Host:
    usual = _PORTS[parts.scheme]
    if not parts.hostname:
        raise ValueError("no host")
    name = parts.hostname.encode("idna").decode()
    return Host(name, parts.port or usual, parts.scheme == "https")


def _named(host: Host) -> str:
    """The host as it is named to itself: the port is left out where it goes without saying."""
    usual = _PORTS["https" if host.secure else "http"]
    return str(host).removesuffix(f":{usual}")


def _basic(parts: SplitResult) -> str:
    pair = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
    return f"Basic {b64encode(pair.encode()).decode()}"


def _line(name: str, value: str) -> str:
    if not value.isascii() or not value.isprintable():
        # The value is not shown, for it may be a key.
        raise Refused(
            f"the header {name} holds a line break, or a letter beyond ASCII: see that the key is "
            "one line, without quotes or blanks around it"
        )
    return f"{name}: {value}\r\n"


@cache
def proxy_for(url: str) -> str | None:
    """The proxy that the environment names for an address; looked up once."""
    parts = urlsplit(url)
    if not parts.hostname or proxy_bypass(parts.hostname):
        return None
    return getproxies().get(parts.scheme)
