"""Keys: who may ask."""

import binascii
import hmac
import os
from base64 import b64decode
from collections.abc import Mapping
from pathlib import Path

from assay.server.refusals import Refusal
from assay.server.settings import KEY, SettingsError


def refuse_stranger(key: bytes, headers: Mapping[bytes, bytes]) -> None:
    """Refuse whoever does not carry the key. Nobody needs one where none is set."""
    if key and not knows(key, headers):
        raise Refusal(
            401,
            "the key is missing or wrong: send it as Authorization: Bearer KEY, or as the password "
            "in the address",
            ((b"www-authenticate", b"Bearer"),),
        )


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
