"""Convert values to JSON, and approximate values that JSON cannot represent."""

import json
import math
import re
from collections.abc import Mapping, Sequence, Set
from decimal import Decimal
from functools import cache, partial
from os import PathLike
from typing import Any, TypeAlias, cast
from uuid import UUID

from pydantic import TypeAdapter

from assay.wording import format_value

MAX_LEVELS = 100  # deeper values are replaced by a short description

# What the encoders raise for a value that JSON cannot hold.
_ENCODING_ERRORS = (TypeError, ValueError, RecursionError)

# The check for circular references would take a third of the time. They raise a RecursionError.
_make_encoder = partial(
    json.JSONEncoder, allow_nan=False, check_circular=False, separators=(",", ":")
)
# Return a value as compact JSON, or raise one of the errors above.
as_text = _make_encoder(ensure_ascii=False).encode
as_ascii = _make_encoder().encode  # with characters beyond ASCII escaped
# Return pydantic's adapter for a type, which validates values and dumps them as JSON.
type_adapter = cache(TypeAdapter[Any])

_LONE_SURROGATE = re.compile(r"[\ud800-\udfff]")


def escape_surrogates(text: str) -> str:
    """Escape half characters (lone surrogates) in a text, since UTF-8 and SQLite cannot hold them.

    >>> escape_surrogates("half an emoji: " + chr(0xD83D))
    'half an emoji: \\\\ud83d'
    """
    if text.isascii():
        return text
    return _LONE_SURROGATE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def as_utf_8(value: object) -> bytes:
    """Return any value as compact JSON in UTF-8, with half characters escaped."""
    try:
        text = as_text(value)
    except _ENCODING_ERRORS:
        text = as_text(to_jsonable(value))
    # The backslash is doubled, so that a JSON parser returns the text of the escape, not a half
    # character.
    return _LONE_SURROGATE.sub(lambda match: f"\\\\u{ord(match[0]):04x}", text).encode()


# The JSON of a row's fields, and the names of the fields that were altered for that.
SerializedFields: TypeAlias = tuple[str, tuple[str, ...]]


def serialize_fields(fields: Mapping[str, Any]) -> SerializedFields:
    """Return fields as the JSON of one object, and the names of those that were altered.

    A value is altered if JSON cannot hold it: it is replaced by the nearest value that JSON can.
    """
    try:
        return as_text(fields), ()  # all at once, which is the usual and fast case
    except _ENCODING_ERRORS:
        pass
    values: dict[str, Any] = {}
    altered: list[str] = []
    for name, value in fields.items():
        try:
            as_text(value)
            values[str(name)] = value
        except _ENCODING_ERRORS:
            values[str(name)] = to_jsonable(value)
            altered.append(str(name))
    return as_text(values), tuple(altered)


def to_jsonable(value: Any, level: int = 0) -> Any:
    """Return the nearest value that JSON can hold; a short description if there is none.

    `level` counts the lists and mappings around the value.
    """
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        # By default, Python refuses to convert longer integers to decimal text and back.
        if value.bit_length() >= 14_000:
            return f"{value:#x}"
        return int(value)  # without a subclass, such as an enum
    if isinstance(value, float):
        if math.isnan(value):
            return "NaN"
        if math.isinf(value):
            return "Infinity" if value > 0 else "-Infinity"
        return float(value)  # without a subclass, such as that of numpy
    if level >= MAX_LEVELS:
        return format_value(value)
    if isinstance(value, Mapping):
        items = cast("Mapping[Any, Any]", value).items()
        return {str(key): to_jsonable(inner, level + 1) for key, inner in items}
    if isinstance(value, Sequence | Set) and not isinstance(value, bytes | bytearray | memoryview):
        return [to_jsonable(inner, level + 1) for inner in cast("Sequence[Any]", value)]
    if isinstance(value, Decimal | UUID | PathLike):
        return str(cast("object", value))
    other = cast("Any", value)
    # Arrays, dates and pydantic models convert themselves.
    for method in ("tolist", "isoformat", "model_dump"):
        convert = getattr(other, method, None)
        if callable(convert) and not isinstance(other, type):
            return to_jsonable(convert(), level + 1)
    return format_value(other)
