"""Decide whether a request is allowed: by its key, and by the host name that it uses."""

import hmac
from base64 import b64decode

from starlette.exceptions import HTTPException
from starlette.requests import Request

from assay.server.settings import Settings, is_loopback
from assay.wording import format_value


class AccessRules:
    """The key of a server, and the host names under which requests may reach it."""

    def __init__(self, settings: Settings) -> None:
        self._host = settings.host
        self._key = settings.key.encode()
        # A web page does not know the key, so a server with a key accepts any host name, unless the
        # settings list some.
        self._checks_host = not settings.key or bool(settings.allow_hosts)
        names = ("localhost", settings.host, *settings.allow_hosts)
        self._allowed_hosts = {name.lower() for name in names}

    def check(self, request: Request) -> None:
        """Raise HTTPException for a request with a wrong host name, or without the key."""
        self.check_host(request)
        if not self.has_key(request):
            raise HTTPException(
                401,
                "the key is missing or wrong: send it as Authorization: Bearer KEY, "
                "or as the password in the address",
                {"www-authenticate": "Bearer"},
            )

    def check_host(self, request: Request) -> None:
        """Raise HTTPException for a request with a wrong host name.

        This stops web pages that attack a server on the machine of their reader. Such a page can
        make its own host name resolve to this machine (DNS rebinding), but the browser sends that
        name with each request. A request without a host name does not come from a browser.
        """
        header = request.headers.get("host")
        if not self._checks_host or header is None:
            return
        host = _remove_port(header)
        if host.lower() not in self._allowed_hosts and not is_loopback(host):
            raise HTTPException(
                403,
                f"this server is not {format_value(host)}: "
                f"use {self._host}, or start it with --allow-host {host[:100]}",
                {"connection": "close"},
            )

    def has_key(self, request: Request) -> bool:
        """Return True if a request carries the key, or if the server has none."""
        if not self._key:
            return True
        header = request.headers.get("authorization", "").encode("latin-1")
        scheme, _, credentials = header.partition(b" ")
        if scheme.lower() == b"basic":  # of clients that have the key in the URL: http://:KEY@host
            key = _read_password(credentials)
        elif scheme.lower() == b"bearer":
            key = credentials.strip()
        else:
            return False
        # Unlike ==, this takes the same time for all wrong keys, so that its duration does not show
        # how many characters are right.
        return hmac.compare_digest(key, self._key)


def _remove_port(header: str) -> str:
    """Return the host name or address in the value of a Host header."""
    if header.startswith("["):  # an IPv6 address
        return header[1:].partition("]")[0]
    return header.partition(":")[0]


def _read_password(credentials: bytes) -> bytes:
    """Return the password in the credentials of basic authentication, which is USER:PASSWORD in base64.

    It is empty if they cannot be decoded.
    """
    try:
        _, _, password = b64decode(credentials, validate=True).partition(b":")
    except ValueError:
        return b""
    return password.strip()
