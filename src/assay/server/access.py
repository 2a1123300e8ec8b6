"""Check the key and the `Host` header that a request carries."""

import binascii
import hmac
import os
from base64 import b64decode
from collections.abc import Mapping
from pathlib import Path

from assay.server.body import CLOSE, HttpRefusal
from assay.server.settings import KEY, Settings, SettingsError, is_loopback
from assay.wording import short_repr


class Access:
    """The key that requests must carry, and the names under which the server may be asked.

    A page in a browser can have its own name resolve to this machine and then ask as if it were the server's own
    page (DNS rebinding). It cannot send another name than its own, so a name that is not the server's is refused
    wherever no key does that.

    >>> Access(Settings()).check({b"host": b"evil.example:8000"})
    Traceback (most recent call last):
    assay.server.body.HttpRefusal: this server is not 'evil.example': ask 127.0.0.1, or start it with --allow-host evil.example
    """

    def __init__(self, settings: Settings) -> None:
        self._key = settings.key.encode()
        self._host = settings.host
        self._checks_host = not settings.key or bool(settings.allow_hosts)
        self._names = {name.lower() for name in ("localhost", settings.host, *settings.allow_hosts)}

    def check(self, headers: Mapping[bytes, bytes], *, needs_key: bool = True) -> None:
        """Refuse a request under another name, or without the key. One without a `Host` is from no browser."""
        if self._checks_host and b"host" in headers:
            host = host_name(headers[b"host"].decode("latin-1"))
            if host.lower() not in self._names and not is_loopback(host):
                raise HttpRefusal(
                    403,
                    f"this server is not {short_repr(host)}: ask {self._host}, or start it with --allow-host "
                    f"{host[:100]}",
                    CLOSE,
                )
        if needs_key and not self.knows_key(headers):
            raise HttpRefusal(
                401,
                "the key is missing or wrong: send it as Authorization: Bearer KEY, or as the password in the address",
                ((b"www-authenticate", b"Bearer"),),
            )

    def knows_key(self, headers: Mapping[bytes, bytes]) -> bool:
        """Whether a request carries the key; always so where none is set."""
        if not self._key:
            return True
        scheme, _, given = headers.get(b"authorization", b"").partition(b" ")
        if scheme.lower() == b"basic":  # a client that has the key in its address sends it so
            try:
                given = b64decode(given, validate=True).partition(b":")[2]
            except (binascii.Error, ValueError):
                return False
        elif scheme.lower() != b"bearer":
            return False
        # Comparing takes as long for a nearly right key as for any other.
        return hmac.compare_digest(given.strip(), self._key)


def host_name(value: str) -> str:
    """The name in a `Host` header, without its port.

    >>> host_name("127.0.0.1:8000"), host_name("[::1]:8000"), host_name("localhost")
    ('127.0.0.1', '::1', 'localhost')
    """
    if value.startswith("["):
        return value[1:].partition("]")[0]
    return value.partition(":")[0]


def key_from(file: str | Path | None) -> str:
    """The key of the server: from a file, else from the environment; empty when there is none."""
    if file is None:
        return os.environ.get(KEY, "").strip()
    key = Path(file).read_text(encoding="utf-8").strip()
    if not key:
        raise SettingsError(f"the key file {file} is empty: put one line with the key into it")
    return key
