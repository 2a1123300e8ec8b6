"""Phrases for messages about wrong values and errors."""

import math
import reprlib
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

from assay.redaction import redact

if TYPE_CHECKING:  # pydantic takes longer to load than anything else a worker process needs
    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

# The length at which an error's message is cut, in characters, so that it does not flood a log.
MAX_MESSAGE_LENGTH = 2000

# What to do about a value that pydantic refuses, by the beginning of the error's type. The first
# entry that matches is used.
_ADVICE: Mapping[str, str] = {
    "finite_number": "give a finite number",
    "float_": "give a number",
    "int_": "give a whole number",
    "bool_": "give true or false",
    "string_type": "give a text, in quotes",
    "string_unicode": "it holds half a character, a lone surrogate: correct the text",
    "string_too_short": "it may not be empty",
    "too_short": "name at least one",
    "tuple_type": "give a list",
    "dict_type": "give a mapping",
    "extra_forbidden": "there is no such field",
    "less_than_equal": "give {le:g} or less",
    "greater_than_equal": "give {ge:g} or more",
    "greater_than": "give more than {gt:g}",
    "literal_error": "give {expected}",
}


def format_value(value: object) -> str:
    """Return the repr of a value for a message, with long texts and lists shortened."""
    formatter = reprlib.Repr()
    formatter.maxstring = 62
    formatter.maxother = 62
    try:
        return formatter.repr(value)
    except ValueError:  # it holds an integer of more than 4,300 digits, which Python does not write
        return f"a {type(value).__name__} with a number of thousands of digits"


def format_dollars(amount: float) -> str:
    """Return an amount with four digits behind the point, or two that are not zero if it is tiny.

    >>> format_dollars(0.02347), format_dollars(0.0000032), format_dollars(0)
    ('$0.0235', '$0.0000032', '$0')
    """
    if amount == 0:
        return "$0"
    if amount >= 0.0001:
        return f"${amount:.4f}"
    digits = 1 - math.floor(math.log10(amount))
    return f"${amount:.{digits}f}"


def explain_first_error(error: "ValidationError", field: str = "") -> tuple[str, str]:
    """Return the name of the first field that pydantic refuses, and a sentence about its value.

    `field` is the name of the field if only the value of one field was validated.
    """
    details = error.errors(include_url=False)[0]
    path = details["loc"]  # the name of the field, then keys and indices inside its value
    if field:
        path = (field, *path)
    name = str(path[0]) if path else ""
    if details["type"] == "value_error":  # raised by a validator of this package, with its message
        message = details.get("ctx", {}).get("error", details["msg"])
        return name, str(message)
    is_list_entry = bool(path) and isinstance(path[-1], int)
    verb = "holds" if is_list_entry else "is"
    value = format_value(details["input"])
    return name, f"{name or 'it'} {verb} {value}: {_find_advice(details)}"


def suggest_number(text: object) -> str | None:
    """Return what to write for a number with a decimal comma or a typographic minus; else None.

    >>> suggest_number("1,5"), suggest_number("\u22122"), suggest_number("heavy")
    ('write 1.5', 'write -2', None)
    """
    if not isinstance(text, str):
        return None
    number = text.strip().replace(",", ".")
    for minus in ("\u2212", "\u2013", "\u2014"):  # a minus sign and two dashes
        number = number.replace(minus, "-")
    try:
        is_number = math.isfinite(float(number))
    except ValueError:
        return None
    if not is_number or number == text:
        return None
    return f"write {number}"


def suggest_path(path: str | Path) -> str:
    """Return the end of a message about a missing file or folder: one of a similar name, if any."""
    folder, name = Path(path).parent, Path(path).name
    try:
        names = [entry.name for entry in folder.iterdir()]
    except OSError:
        return ""
    # Another ending is more likely than another name: rubric.yml for rubric.yaml.
    matches = [other for other in names if Path(other).stem == Path(name).stem]
    matches += get_close_matches(name, names, n=1)
    if not matches:
        return ""
    return f": did you mean {str(folder / matches[0])!r}?"


def _find_advice(details: "ErrorDetails") -> str:
    """Return what to do about an error of pydantic; pydantic's message if there is no advice."""
    if details["type"].startswith(("float_", "int_")):
        advice = suggest_number(details["input"])
        if advice is not None:
            return advice
    for error_type, advice in _ADVICE.items():
        if details["type"].startswith(error_type):
            return advice.format(**details.get("ctx", {}))
    return details["msg"]


def suggest_word(word: object, words: Iterable[str]) -> str:
    """Return the end of a message about an unknown word: the closest known word, or all of them."""
    known_words = list(words)
    matches = get_close_matches(str(word), known_words, n=1)
    if matches:
        return f"did you mean {matches[0]!r}?"
    return f"use {', '.join(known_words)}"


def format_count(number: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun: `1 text`, `2,000 texts`."""
    if number == 1:
        return f"{number:,} {noun}"
    return f"{number:,} {plural or noun + 's'}"


def describe_verdict(verdict: str, weight: float | None) -> str:
    """Return the word by which people read a verdict.

    A negative criterion names something bad, so MET reads as `happened` and UNMET as `avoided`.
    Files and JSON keep MET and UNMET.

    >>> describe_verdict("UNMET", -2.0), describe_verdict("UNMET", 2.0), describe_verdict("N/A", -2.0)
    ('avoided', 'UNMET', 'N/A')
    """
    if weight is None or weight >= 0:
        return verdict
    return {"MET": "happened", "UNMET": "avoided"}.get(verdict, verdict)


def describe_error(error: BaseException) -> str:
    """Return the type and message of an error. Secrets are removed, and a long message is cut."""
    try:
        message = redact(str(error))
    except Exception:  # noqa: BLE001 - `__str__` may be a caller's code that fails
        message = "its message cannot be shown"
    if len(message) > MAX_MESSAGE_LENGTH:
        message = f"{message[:MAX_MESSAGE_LENGTH]}… ({len(message)} characters)"
    return f"{type(error).__name__}: {message}"
