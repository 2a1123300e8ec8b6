"""Keys and hosts: who may ask, and under which name."""

import binascii
import hmac
import os
from base64 import b64decode
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from assay.server.refusals import CLOSE, Refusal
from assay.server.settings import KEY, Settings, SettingsError, is_loopback
from assay.wording import short_repr

MOST_KNOWN: Final = 64


def refuse_stranger(key: bytes, headers: Mapping[bytes, bytes]) -> None:
    """Refuse whoever does not carry the key. Nobody needs one where none is set."""
    if key and not knows(key, headers):
        raise Refusal(
            401,
            "the key is missing or wrong: send it as Authorization: Bearer KEY, or as the password "
            "in the address",
            ((b"www-authenticate", b"Bearer"),),
        )


class Hosts:
    """The names under which the server may be asked.

    A page in a browser can have its own name resolve to this machine and then ask as if it were the
    server's own page (DNS rebinding). It cannot send another name than its own, so a name that is not the
    server's is refused wherever no key does that.

    >>> Hosts(Settings()).refuse([(b"host", b"evil.example:8000")])
    Traceback (most recent call last):
    assay.server.refusals.Refusal: this server is not 'evil.example': ask 127.0.0.1, or start it with --allow-host evil.example
    """

    def __init__(self, settings: Settings) -> None:
        self._checks = not settings.key or bool(settings.allow_hosts)
        self._names = {name.lower() for name in ("localhost", settings.host, *settings.allow_hosts)}
        self._host = settings.host
        self._known: set[bytes] = set()
        """Headers that were found right, so that each is read once."""

    def refuse(self, headers: Iterable[tuple[bytes, bytes]]) -> None:
        """Refuse a request under another name. One that names none comes from no browser."""
        if not self._checks:
            return
        for name, value in headers:
            if name == b"host" and value not in self._known:
                self._look(value)

    def _look(self, value: bytes) -> None:
        host = host_name(value.decode("latin-1"))
        if host.lower() not in self._names and not is_loopback(host):
            raise Refusal(
                403,
                f"this server is not {short_repr(host)}: ask {self._host}, or start it with --allow-host "
                f"{host[:100]}",
                CLOSE,
            )
        if len(self._known) < MOST_KNOWN:
            self._known.add(value)


def host_name(value: str) -> str:
    """The name in a `Host` header, without its port.

    >>> host_name("127.0.0.1:8000"), host_name("[::1]:8000"), host_name("localhost")
    ('127.0.0.1', '::1', 'localhost')
    """
    if value.startswith("["):
        return value[1:].partition("]")[0]
    return value.partition(":")[0]


def knows(key: bytes, headers: Mapping[bytes, bytes]) -> bool:
    """Whether a request carries the key. It takes as long for a nearly right one as for any other."""
    scheme, _, given = headers.get(b"authorization", b"").partition(b" ")
    if scheme.lower() == b"basic":
        given = _password(given)
    elif scheme.lower() != b"bearer":
        return False
    return hmac.compare_digest(given.strip(), key)


def _password(given: bytes) -> bytes:
    """What a client sends that has the key in its address, since it can send it no other way."""
    try:
        return b64decode(given, validate=True).partition(b":")[2]
    except (binascii.Error, ValueError):
        return b""


def key_from(file: str | Path | None) -> str:
    """The key of the server: from a file, else from the environment; empty when there is none."""
    if file is None:
        return os.environ.get(KEY, "").strip()
    key = Path(file).read_text(encoding="utf-8").strip()
    if not key:
        raise SettingsError(f"the key file {file} is empty: put one line with the key into it")
    return key
