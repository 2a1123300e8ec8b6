"""Reading: the body of a request within its bounds, and the value in it, or a sentence about it."""

import asyncio
import json
from collections.abc import Callable, Coroutine, Mapping, MutableMapping
from contextlib import suppress
from typing import Any, Final, TypeVar, cast

import msgspec

from assay.concurrency import at_once
from assay.server.patience import Patience
from assay.server.refusals import CLOSE, Refusal
from assay.server.settings import Bounds
from assay.wording import short_repr

Message = MutableMapping[str, Any]
Receive = Callable[[], Coroutine[Any, Any, Message]]
Value = TypeVar("Value")

PATIENCE: Final = 5.0
"""Seconds for which a body that is too large is read and thrown away, so that its sender listens."""

_encode = msgspec.json.Encoder().encode


def size_of(headers: Mapping[bytes, bytes], bounds: Bounds) -> int:
    """The bytes that a request announces; when it does not, the most it may have."""
    announced = headers.get(b"content-length")
    if announced is None:
        return bounds.max_bytes
    if not announced.isdigit():
        raise Refusal(
            400, f"the content length is {short_repr(announced)}: give a whole number", CLOSE
        )
    return int(announced)


def refuse_kind(headers: Mapping[bytes, bytes]) -> None:
    """Refuse what is not plain JSON in UTF-8. Nothing is unpacked here, so nothing can blow up."""
    kind = headers.get(b"content-type", b"")
    if kind != b"application/json":
        name, _, parameters = kind.decode("latin-1").lower().partition(";")
        charset = parameters.partition("charset=")[2].strip(' "') or "utf-8"
        if name.strip() != "application/json" or charset not in ("utf-8", "utf8"):
            raise Refusal(
                415, f"the content type is {short_repr(name)}: send JSON, with application/json"
            )
    packed = headers.get(b"content-encoding", b"identity")
    if packed.lower() != b"identity":
        raise Refusal(
            415, f"the body is packed ({packed.decode('latin-1')!r:.60}): send it as it is"
        )


class Disconnected(Exception):  # noqa: N818 - it is nobody's error
    """The client has gone, and nobody waits for an answer."""


async def body_of(receive: Receive, size: int, bounds: Bounds, patience: Patience) -> bytes:
    """The whole body; refuses one that is too large or takes too long to come.

    `size` is what the request announces. One that announces nothing is counted as it comes.
    """
    if size > bounds.max_bytes:
        await _throw_away(receive)
        raise _too_large(f"{size}", bounds)
    # Nearly every body is there when it is asked for, and nobody's patience is tried.
    first = at_once(receive())
    if first is not None and not first.get("more_body"):
        parts, more = [_part(first)], False
    else:
        parts, more = await _parts(receive, first, bounds, patience)
    read = sum(map(len, parts))
    if read > bounds.max_bytes:
        if more:
            await _throw_away(receive)
        raise _too_large(f"{read} or more", bounds)
    return parts[0] if len(parts) == 1 else b"".join(parts)


async def _parts(
    receive: Receive, first: Message | None, bounds: Bounds, patience: Patience
) -> tuple[list[bytes], bool]:
    """The parts of a body as they come, until there are too many; and whether there are more."""
    parts = [] if first is None else [_part(first)]
    read, more = sum(map(len, parts)), True
    try:
        with patience:
            while more and read <= bounds.max_bytes:
                message = await receive()
                parts.append(_part(message))
                read += len(parts[-1])
                more = message.get("more_body", False)
    except TimeoutError:
        seconds = f"{bounds.body_seconds:g} s"
        raise Refusal(
            408, f"not all of it had come after {seconds}: send it at once", CLOSE
        ) from None
    return parts, more


def _part(message: Message) -> bytes:
    if message["type"] == "http.disconnect":
        raise Disconnected
    return message.get("body", b"")


async def _throw_away(receive: Receive) -> None:
    """Read on for a while: whoever is still sending hears nothing."""
    with suppress(TimeoutError):
        async with asyncio.timeout(PATIENCE):
            while (await receive()).get("more_body"):
                pass


def _too_large(size: str, bounds: Bounds) -> Refusal:
    return Refusal(
        413,
        f"the request has {size} bytes, and {bounds.max_bytes} are allowed: send fewer rollouts at "
        "a time",
        CLOSE,
    )


def decoded(body: bytes, decoder: "msgspec.json.Decoder[Value]", *, is_open: bool = False) -> Value:
    """The value in a body, of the decoder's type; refuses what is none, or names a key twice.

    An `is_open` one may have fields that we do not know; they are left out.
    """
    try:
        value = decoder.decode(body)
        if not _is_all(value, body):
            _refuse_dropped(_plainly(body), value, is_open=is_open)
    except RecursionError:
        raise Refusal(400, "the JSON is nested too deep: flatten it") from None
    except msgspec.ValidationError as error:
        raise Refusal(400, f"the request is not as it should be: {error}") from None
    except ValueError as error:
        return _with_half_characters(body, decoder.type, error, is_open=is_open)
    return value


def _is_all(value: Any, body: bytes) -> bool:
    """Whether writing the value gives the body again, in one of the two usual ways: nothing was dropped.

    Else it may still be all, but that takes longer to find out.
    """
    written = _encode(value)
    return written == body or msgspec.json.format(written, indent=0) == body


def _with_half_characters(body: bytes, kind: Any, error: ValueError, *, is_open: bool) -> Any:
    """The value in a body that holds half a surrogate pair, as models under test write them."""
    try:
        plain = _plainly(body) if b"\\u" in body else None
        if plain is not None:
            value = msgspec.convert(plain, kind)
            _refuse_dropped(plain, value, is_open=is_open)
            return value
    except msgspec.ValidationError as other:
        raise Refusal(400, f"the request is not as it should be: {other}") from None
    except (ValueError, RecursionError):
        pass
    raise Refusal(400, f"the body is no JSON: {error}") from None


def _plainly(body: bytes) -> Any:
    """The value in a body, looked at key by key."""
    return _careful.decode(body.decode())


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for place, name in enumerate(names) if name in names[:place])
        raise Refusal(
            400, f"the key {short_repr(twice)} stands twice in one object: drop one of them"
        )
    return mapping


def _no_number(word: str) -> Any:
    raise ValueError(f"{word} is no number of JSON")


_careful: Final = json.JSONDecoder(object_pairs_hook=_each_once, parse_constant=_no_number)


def _refuse_dropped(plain: Any, value: Any, *, is_open: bool) -> None:
    """Refuse fields that decoding left out, since it does not know them."""
    if is_open or plain == value:
        return
    pairs: list[tuple[Any, Any]] = [(plain, value)]
    for there, here in pairs:
        if isinstance(there, dict):
            lost = there.keys() - here.keys()
            if lost:
                name = short_repr(sorted(lost)[0])
                raise Refusal(
                    400, f"{name} is no field: leave it out; what checks name goes into columns"
                )
            pairs += [(value, here[key]) for key, value in cast("dict[str, Any]", there).items()]
        elif isinstance(there, list):
            pairs += list(zip(cast("list[Any]", there), here, strict=True))
