"""The kinds of value a check may be given, and what to say about a wrong one."""

import reprlib
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Annotated, Any, TypeAlias

from annotated_types import Ge, Gt, MinLen
from pydantic import AllowInfNan, BeforeValidator, Strict, ValidationError
from pydantic_core import PydanticCustomError


def _no_bool(value: object) -> object:
    # To pydantic a bool is a number, and `tolerance: true` would pass for 1.
    if isinstance(value, bool):
        raise PydanticCustomError("float_type", "a bool is no number")
    return value


Flag: TypeAlias = Annotated[bool, Strict()]
Count: TypeAlias = Annotated[int, Strict(), Ge(0)]
Number: TypeAlias = Annotated[float, AllowInfNan(False), Ge(0), BeforeValidator(_no_bool)]
Seconds: TypeAlias = Annotated[float, AllowInfNan(False), Gt(0), BeforeValidator(_no_bool)]
Text: TypeAlias = Annotated[str, MinLen(1)]
Texts: TypeAlias = Annotated[tuple[Text, ...], MinLen(1)]

_ADVICE = (
    ("finite_number", "give a finite number"),
    ("float_", "give a number"),
    ("int_", "give a whole number"),
    ("bool_", "give true or false"),
    ("string_type", "give a text, in quotes"),
    ("string_unicode", "it holds half a character, a lone surrogate: mend the text"),
    ("string_too_short", "it may not be empty"),
    ("too_short", "name at least one"),
    ("tuple_type", "give a list"),
    ("dict_type", "give a mapping"),
    ("greater_than_equal", "give 0 or more"),
    ("greater_than", "give more than 0"),
)


def shown(value: object) -> str:
    """A value as a message shows it: short, whatever it is.

    >>> shown("x" * 500)
    "'xxxxxxxxxxxxxxxxxxxxxxxxxxxx...xxxxxxxxxxxxxxxxxxxxxxxxxxxxx'"
    """
    short = reprlib.Repr()
    short.maxstring = short.maxother = 62
    return short.repr(value)


def plainly(error: ValidationError, field: str = "") -> tuple[str, str]:
    """The field that pydantic refuses first, and one plain sentence about it.

    Give the `field` when its value alone was looked at.
    """
    first = error.errors(include_url=False)[0]
    path = (field, *first["loc"]) if field else first["loc"]
    name = str(path[0]) if path else ""
    if first["type"] == "value_error":
        return name, str(first.get("ctx", {}).get("error", first["msg"]))
    verb = "holds" if isinstance(path[-1], int) else "is"
    return name, f"{name} {verb} {shown(first['input'])}: {_advice(first)}"


def _advice(first: Any) -> str:
    for kind, advice in _ADVICE:
        if first["type"].startswith(kind):
            return advice
    if first["type"] == "literal_error":
        return f"give {first['ctx']['expected']}"
    return str(first["msg"])


def meant(word: object, words: Iterable[str]) -> str:
    """The end of a message about an unknown word: the one that was meant, or all there are.

    >>> meant("wieght", ["weight", "name"])
    "did you mean 'weight'?"
    """
    known = list(words)
    close = get_close_matches(str(word), known, n=1)
    return f"did you mean {close[0]!r}?" if close else f"use {', '.join(known)}"
