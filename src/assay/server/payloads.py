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

CLOSE: Final = {"connection": "close"}  # for a reply to a request whose body was not read
# How long a body is read and thrown away whose announced size is too large, in seconds.
DISCARD_SECONDS: Final = 5.0


def read_announced_size(request: Request, bounds: Bounds) -> int:
    """Return the size that a request announces for its body; if it announces none, the largest allowed."""
    announced = request.headers.get("content-length")
    if announced is None:
        return bounds.max_bytes
    if not (announced.isascii() and announced.isdigit()):
        raise HTTPException(
            400, f"the content length is {format_value(announced)}: give a whole number", CLOSE
        )
    return int(announced)


def check_content_type(request: Request) -> None:
    """Raise HTTPException for anything but uncompressed JSON in UTF-8.

    Nothing is decompressed, so a small body cannot become a huge one.
    """
    content_type = request.headers.get("content-type", "")
    if content_type != "application/json":
        media_type, _, parameters = content_type.lower().partition(";")
        charset = parameters.partition("charset=")[2].strip(' "') or "utf-8"
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

    A body that is too large is still read for a while, without being kept: a client that is still
    sending would not read the reply.
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
                CLOSE,
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
            CLOSE,
        )
    return b"".join(chunks)


def decode_json(body: bytes) -> Any:
    """Return the value in a body; raise HTTPException for invalid JSON and for repeated keys.

    msgspec would be faster, but it keeps the last of two equal keys, and it refuses a text with
    half of a surrogate pair, which models do write.
    """
    try:
        return _decoder.decode(body.decode())
    except RecursionError:
        raise HTTPException(400, "the JSON is nested too deep: flatten it") from None
    except RepeatedFieldError as error:
        raise HTTPException(400, str(error)) from None
    except ValueError as error:
        raise HTTPException(400, f"the body is not valid JSON: {error}") from None


def _read_finite_number(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"{format_value(digits)} is not a finite number")
    return number


_decoder: Final = json.JSONDecoder(
    object_pairs_hook=refuse_repeated_fields,
    parse_float=_read_finite_number,
    parse_constant=_read_finite_number,
)


def convert_body(value: Any, body_type: type[Value]) -> Value:
    """Return a decoded body as a value of a type; raise HTTPException that says where it differs."""
    try:
        return msgspec.convert(value, body_type)
    except msgspec.ValidationError as error:
        hint = ""
        if "unknown field" in str(error):
            hint = "; fields that checks name go into columns"
        raise HTTPException(400, f"the request is not valid: {error}{hint}") from None


def encode_json(value: Any) -> bytes:
    """Return a reply as JSON."""
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:  # half of a surrogate pair, which JSON can hold only as an escape
        return json.dumps(msgspec.to_builtins(value)).encode()


_encoder: Final = msgspec.json.Encoder()
