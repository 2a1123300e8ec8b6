"""Read the body of a request within its limits and decode it as strict JSON, or refuse the request."""

import asyncio
import json
import math
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, TypeVar, cast

import msgspec
from starlette.types import Message, Receive

from assay.concurrency import at_once
from assay.server.settings import Bounds
from assay.wording import short_repr

Value = TypeVar("Value")
Headers = Sequence[tuple[bytes, bytes]]

RETRY: Final[Headers] = ((b"retry-after", b"1"),)
"""Asks the client to come back in a second."""
CLOSE: Final[Headers] = ((b"connection", b"close"),)

DISCARD_SECONDS: Final = 5.0
"""How long a body that is too large is read and thrown away: a client that is still sending reads no reply."""


class HttpRefusal(Exception):  # noqa: N818 - the request is in error, the server is not
    """A request is answered with this status and sentence, and not with a reply."""

    def __init__(self, status: int, sentence: str, headers: Headers = ()) -> None:
        super().__init__(sentence)
        self.status = status
        self.headers = headers

    @property
    def body(self) -> bytes:
        # Not by msgspec: a sentence may quote half a surrogate pair, which only an escape can carry.
        return json.dumps({"error": str(self)}).encode()


def stopping() -> HttpRefusal:
    """The refusal of requests that come after the server was told to stop, or take too long then."""
    return HttpRefusal(503, "the server is stopping: ask again, perhaps another one", RETRY)


class ClientGoneError(Exception):
    """The client has closed the connection, so that no reply is needed."""


def announced_size(headers: Mapping[bytes, bytes], bounds: Bounds) -> int:
    """The bytes that a request announces; the most it may have where it announces nothing."""
    announced = headers.get(b"content-length")
    if announced is None:
        return bounds.max_bytes
    if not announced.isdigit():
        raise HttpRefusal(400, f"the content length is {short_repr(announced)}: give a whole number", CLOSE)
    return int(announced)


def refuse_other_types(headers: Mapping[bytes, bytes]) -> None:
    """Refuse what is not plain JSON in UTF-8. Nothing is decompressed, so that no small body becomes a huge one."""
    kind = headers.get(b"content-type", b"")
    if kind != b"application/json":
        name, _, parameters = kind.decode("latin-1").lower().partition(";")
        charset = parameters.partition("charset=")[2].strip(' "') or "utf-8"
        if name.strip() != "application/json" or charset not in ("utf-8", "utf8"):
            raise HttpRefusal(415, f"the content type is {short_repr(name)}: send JSON, with application/json")
    encoding = headers.get(b"content-encoding", b"identity")
    if encoding.lower() != b"identity":
        raise HttpRefusal(415, f"the body is compressed ({encoding.decode('latin-1')!r:.60}): send it as it is")


async def read_body(receive: Receive, size: int, bounds: Bounds) -> bytes:
    """The whole body of a request that announces `size` bytes; one that announces none is counted as it comes."""
    # Nearly every body is there when it is asked for, and a timer would cost more than reading it.
    message = at_once(cast("Coroutine[Any, Any, Message]", receive())) if size <= bounds.max_bytes else None
    if message is not None and message["type"] == "http.request" and not message.get("more_body"):
        return message.get("body", b"")
    parts = [] if message is None else [_part(message)]
    read, more = max(sum(map(len, parts)), size if size > bounds.max_bytes else 0), True
    try:
        async with asyncio.timeout(bounds.body_seconds):
            while more and read <= bounds.max_bytes:
                message = await receive()
                parts.append(_part(message))
                read += len(parts[-1])
                more = message.get("more_body", False)
    except TimeoutError:
        raise HttpRefusal(
            408, f"not all of it had come after {bounds.body_seconds:g} s: send it at once", CLOSE
        ) from None
    if read <= bounds.max_bytes:
        return b"".join(parts)
    with suppress(TimeoutError):
        async with asyncio.timeout(DISCARD_SECONDS):
            while more:
                more = (await receive()).get("more_body", False)
    raise HttpRefusal(
        413,
        f"the request has {read} bytes or more, and {bounds.max_bytes} are allowed: send fewer rollouts at a time",
        CLOSE,
    )


def _part(message: Message) -> bytes:
    if message["type"] == "http.disconnect":
        raise ClientGoneError
    return message.get("body", b"")


def decode(body: bytes) -> Any:
    """The value in a body; refuses what is not JSON, or names a key twice in one object.

    The standard library's reader is as strict as that, and takes the half surrogate pairs that models under
    test write; msgspec would be faster, but keeps the last of two equal keys.
    """
    try:
        return _STRICT.decode(body.decode())
    except RecursionError:
        raise HttpRefusal(400, "the JSON is nested too deep: flatten it") from None
    except ValueError as error:
        raise HttpRefusal(400, f"the body is no JSON: {error}") from None


def convert(value: Any, kind: type[Value]) -> Value:
    """A decoded value as one of a type, or a refusal that says where it is not."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        hint = "; what checks name goes into columns" if "unknown field" in str(error) else ""
        raise HttpRefusal(400, f"the request is not as it should be: {error}{hint}") from None


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for place, name in enumerate(names) if name in names[:place])
        raise HttpRefusal(400, f"the key {short_repr(twice)} stands twice in one object: drop one of them")
    return mapping


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"{short_repr(digits)} is no finite number")
    return number


_STRICT: Final = json.JSONDecoder(object_pairs_hook=_without_repeats, parse_float=_finite, parse_constant=_finite)
