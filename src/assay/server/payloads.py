"""Read the JSON body of a request within the server's limits, and encode the JSON of a reply."""

import asyncio
import json
import math
from typing import Any, Final, TypeVar

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

from assay.server.settings import Bounds
from assay.tables import RepeatedFieldError, refuse_repeated_fields
from assay.wording import format_value

Value = TypeVar("Value")

# The headers of a reply to a request whose body was not read to its end: what the client sends next
# on this connection would be the rest of the body.
CLOSE_HEADERS: Final = {"connection": "close"}
# How long a body that is too large is read and thrown away, in seconds.
DISCARD_SECONDS: Final = 5.0


def read_announced_size(request: Request, bounds: Bounds) -> int:
    """Return the size of the body in bytes, as the header of a request announces it.

    If it announces none, return the largest size that is allowed. Raise HTTPException if the header
    is not a number.
    """
    announced = request.headers.get("content-length")
    if announced is None:
        return bounds.max_bytes
    if not (announced.isascii() and announced.isdigit()):
        raise HTTPException(
            400,
            f"the content length is {format_value(announced)}: give a whole number",
            CLOSE_HEADERS,
        )
    return int(announced)


def check_content_type(request: Request) -> None:
    """Raise HTTPException if the headers announce anything but uncompressed JSON in UTF-8.

    Compressed bodies are refused, since a small one may expand to a huge one.
    """
    content_type = request.headers.get("content-type", "")
    if content_type != "application/json":  # the usual value needs no parsing
        media_type, _, parameters = content_type.lower().partition(";")
        charset = parameters.partition("charset=")[2].partition(";")[0].strip(' "') or "utf-8"
        if media_type.strip() != "application/json" or charset not in ("utf-8", "utf8"):
            raise HTTPException(
                415,
                f"the content type is {format_value(content_type)}: "
                "send JSON in UTF-8, with application/json",
            )
    encoding = request.headers.get("content-encoding", "identity")
    if encoding.lower() != "identity":
        raise HTTPException(
            415, f"the body is compressed ({format_value(encoding)}): send it as it is"
        )


async def read_body(request: Request, announced_size: int, bounds: Bounds) -> bytes:
    """Return the whole body; raise HTTPException if it is too large or takes too long.

    A body that is too large is still read for a while, but not kept, because most clients read the
    reply only after they have sent the whole body.
    """
    is_too_large = announced_size > bounds.max_bytes
    seconds = DISCARD_SECONDS if is_too_large else bounds.body_seconds
    chunks: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(seconds):
            async for chunk in request.stream():
                size += len(chunk)
                if size > bounds.max_bytes:
                    is_too_large = True
                if not is_too_large:
                    chunks.append(chunk)
    except TimeoutError:
        if not is_too_large:
            raise HTTPException(
                408,
                f"the whole request had not arrived after {seconds:g} s: send it without a pause",
                CLOSE_HEADERS,
            ) from None
    except ClientDisconnect:
        raise HTTPException(
            400, "the connection was closed before the whole body arrived"
        ) from None
    if is_too_large:
        raise HTTPException(
            413,
            f"the request has {max(size, announced_size)} bytes or more, and {bounds.max_bytes} "
            "are allowed: send fewer rollouts at a time",
            CLOSE_HEADERS,
        )
    return b"".join(chunks)


def decode_json(body: bytes) -> Any:
    """Return the value in a body; raise HTTPException for invalid JSON and for repeated keys.

    msgspec would be faster, but it silently keeps the last of two equal keys, and it refuses texts
    with half of a surrogate pair. Models do write such texts.
    """
    try:
        return _decoder.decode(body.decode())
    except RecursionError:
        raise HTTPException(400, "the JSON is nested too deep: flatten it") from None
    except RepeatedFieldError as error:
        raise HTTPException(400, str(error)) from None
    except ValueError as error:
        raise HTTPException(400, f"the body is not valid JSON: {error}") from None


def _read_finite_number(text: str) -> float:
    """Return a number of a JSON text; raise ValueError for NaN, infinities and `1e999`."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{format_value(text)} is not a finite number")
    return number


_decoder: Final = json.JSONDecoder(
    object_pairs_hook=refuse_repeated_fields,
    parse_float=_read_finite_number,
    parse_constant=_read_finite_number,
)


def convert_body(value: Any, body_type: type[Value]) -> Value:
    """Return a decoded JSON body as an object of this type.

    Raise HTTPException if they do not match; its message names the field.
    """
    try:
        return msgspec.convert(value, body_type)
    except msgspec.ValidationError as error:
        hint = ""
        if "unknown field" in str(error):
            hint = "; fields that checks name go into columns"
        raise HTTPException(400, f"the request is not valid: {error}{hint}") from None


def encode_json(value: Any) -> bytes:
    """Return a value as JSON in UTF-8; it may contain objects of msgspec types."""
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:  # half of a surrogate pair, which JSON can hold only as an escape
        return json.dumps(msgspec.to_builtins(value)).encode()


_encoder: Final = msgspec.json.Encoder()
