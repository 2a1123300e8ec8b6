"""Turn values into what JSON can hold, and write them as JSON."""

import json
import math
import re
from collections.abc import Mapping, Sequence, Set
from decimal import Decimal
from functools import cache, partial
from os import PathLike
from typing import Any, cast
from uuid import UUID

from pydantic import TypeAdapter

from assay.wording import format_value

MOST_LEVELS = 100  # how deep a value may be nested before the rest is only shown

_UNHOLDABLE = (TypeError, ValueError, RecursionError)

# Without a look for circles, which costs a third of the time: they end in a RecursionError.
_compact = partial(json.JSONEncoder, allow_nan=False, check_circular=False, separators=(",", ":"))
# A value as compact JSON. Raises TypeError, ValueError or RecursionError for what JSON cannot hold.
as_text = _compact(ensure_ascii=False).encode
as_ascii = _compact().encode  # as `as_text`, with every other character by its number
form_of = cache(TypeAdapter[Any])  # what reads and writes values of a type; made once

_LONE_SURROGATE = re.compile(r"[\ud800-\udfff]")


def encodable(text: str) -> str:
    """The text with half characters (lone surrogates) spelled out, since UTF-8 and SQLite hold none.

    >>> encodable("half an emoji: " + chr(0xD83D))
    'half an emoji: \\\\ud83d'
    """
    return (
        text
        if text.isascii()
        else _LONE_SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
    )


def as_utf_8(value: object) -> bytes:
    """A value as compact JSON in UTF-8, whatever it holds; half characters are spelled out in it."""
    try:
        text = as_text(value)
    except _UNHOLDABLE:
        text = as_text(to_jsonable(value))
    # The backslash of the spelling is itself escaped, so that a reader of the JSON sees whole characters only.
    return _LONE_SURROGATE.sub(lambda found: f"\\\\u{ord(found[0]):04x}", text).encode()


def holdable(fields: Mapping[str, Any]) -> tuple[str, tuple[str, ...]]:
    """The fields as JSON, and the names of those that had to be altered for it."""
    try:
        return as_text(fields), ()
    except _UNHOLDABLE:
        pass
    kept: dict[str, Any] = {}
    altered: list[str] = []
    for name, value in fields.items():
        try:
            as_text(value)
            kept[str(name)] = value
        except _UNHOLDABLE:
            kept[str(name)] = to_jsonable(value)
            altered.append(str(name))
    return as_text(kept), tuple(altered)


def to_jsonable(value: Any, level: int = 0) -> Any:
    """The value of JSON that comes nearest; a short description where none does."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        # Longer ones are neither read nor written by Python itself.
        return int(value) if value.bit_length() < 14_000 else f"{value:#x}"
    if isinstance(value, float):
        if math.isfinite(value):
            return float(value)
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if level >= MOST_LEVELS:
        return format_value(value)
    if isinstance(value, Mapping):
        items = cast("Mapping[Any, Any]", value).items()
        return {str(key): to_jsonable(inner, level + 1) for key, inner in items}
    if isinstance(value, Sequence | Set) and not isinstance(value, bytes | bytearray | memoryview):
        return [to_jsonable(inner, level + 1) for inner in cast("Sequence[Any]", value)]
    if isinstance(value, Decimal | UUID | PathLike):
        return str(cast("object", value))
    other = cast("Any", value)
    # What arrays, dates and records say of themselves.
    for method in ("tolist", "isoformat", "model_dump"):
        convert = getattr(other, method, None)
        if callable(convert) and not isinstance(other, type):
            return to_jsonable(convert(), level + 1)
    return format_value(other)
