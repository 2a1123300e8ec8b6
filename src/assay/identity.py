"""Identify checks and criteria: by names for people, references for files, hashes for machines."""

import hashlib
import json
import re
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, cast

from assay.errors import RubricError


def name_of(check: object) -> str:
    """The name a check goes by; empty for a lambda, which has none."""
    while isinstance(check, partial):
        check = cast("partial[Any]", check).func
    own = getattr(check, "name", None)
    if isinstance(own, str) and own:
        return own
    name = getattr(check, "__name__", None) or type(check).__name__
    return "" if name == "<lambda>" else str(name)


def slug(requirement: str, limit: int = 48) -> str:
    """A requirement as a short key: lower-case words joined by underscores, cut between words.

    >>> slug("States Q4 2023 base margin as 17.2%")
    'states_q4_2023_base_margin_as_17_2'
    """
    words = re.findall(r"\w+", requirement[:1000].casefold())
    kept = ""
    for word in words:
        longer = f"{kept}_{word}" if kept else word
        if len(longer) > limit and kept:
            break
        kept = longer[:limit]
    return kept


def path_of(thing: object) -> str:
    while isinstance(thing, partial):
        thing = cast("partial[Any]", thing).func
    named = thing if hasattr(thing, "__qualname__") else type(thing)
    return f"{named.__module__}:{getattr(named, '__qualname__', '')}"


def reference_of(function: object) -> str:
    """The `package.module:function` that a file can name a function by.

    >>> from assay.messages import completion_text
    >>> reference_of(completion_text)
    'assay.messages:completion_text'
    """
    reference = path_of(function)
    module, _, path = reference.partition(":")
    found: object = sys.modules.get(module)
    for step in path.split("."):
        found = getattr(found, step, None)
    # What is in `__main__` has that name in this program alone.
    if module == "__main__" or found != function:
        raise RubricError(
            f"{function!r} cannot be written to a file: only built-in checks, and functions that "
            "can be imported by name, can"
        )
    return reference


def hash_of(value: object) -> str:
    """The SHA-256 of a value of JSON, the same for every order of keys and spelling of numbers."""
    text = json.dumps(_canonical(value), sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _canonical(value: object) -> object:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Mapping):
        items = cast("Mapping[str, object]", value).items()
        return {str(key): _canonical(inner) for key, inner in items}
    if isinstance(value, list | tuple):
        return [_canonical(inner) for inner in cast("Sequence[object]", value)]
    return value
