"""Word what messages say about wrong values and errors."""

import reprlib
from collections.abc import Iterable
from difflib import get_close_matches
from typing import TYPE_CHECKING

from assay.lazy import table_of
from assay.redaction import redacted

if TYPE_CHECKING:  # which takes longer to load than all else a worker process needs
    from pydantic import ValidationError

LONGEST = 2000  # characters of an error's own message that are kept; the rest would drown a log


def short_repr(value: object) -> str:
    """Return a value as a message shows it: short, whatever it is."""
    short = reprlib.Repr()
    short.maxstring = short.maxother = 62
    return short.repr(value)


def first_error(error: "ValidationError", field: str = "") -> tuple[str, str]:
    """Return the field that pydantic refuses first, with a plain sentence; `field` when its value alone was given."""
    first = error.errors(include_url=False)[0]
    path = (field, *first["loc"]) if field else first["loc"]
    name = str(path[0]) if path else ""
    if first["type"] == "value_error":
        return name, str(first.get("ctx", {}).get("error", first["msg"]))
    advice = table_of("assay", "advice.toml").items()
    advice = next(
        (
            said.format(**first.get("ctx", {}))
            for kind, said in advice
            if first["type"].startswith(kind)
        ),
        "",
    )
    if first["type"] == "literal_error":
        advice = f"give {first.get('ctx', {})['expected']}"
    verb = "holds" if path and isinstance(path[-1], int) else "is"
    return name, f"{name or 'it'} {verb} {short_repr(first['input'])}: {advice or first['msg']}"


def did_you_mean(word: object, words: Iterable[str]) -> str:
    """Return the end of a message about an unknown word: the one that was meant, or all there are."""
    known = list(words)
    close = get_close_matches(str(word), known, n=1)
    return f"did you mean {close[0]!r}?" if close else f"use {', '.join(known)}"


def counted(number: int, noun: str, plural: str = "") -> str:
    """Return so many of something: `1 text`, `2,000 texts`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def described(error: BaseException) -> str:
    """Return the kind and message of an error, whatever its own `__str__` does, and without secrets."""
    try:
        message = redacted(str(error))
    except Exception:  # noqa: BLE001 - the __str__ of other code
        message = "its message cannot be shown"
    more = f"… ({len(message)} characters)" if len(message) > LONGEST else ""
    return f"{type(error).__name__}: {message[:LONGEST]}{more}"
