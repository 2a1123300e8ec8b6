"""Repair: the object that a model meant where it wrote almost JSON.

Single quotes, bare names, Python's constants, line breaks in strings, commas too many, brackets too few. Each is
mended by rule; nothing is guessed, and what is still no object is none.
"""

import ast
import json
import re
from typing import Any, cast

LONGEST = 100_000
"""Characters of a reply that are looked at; a judge's object is far shorter."""

_TOKENS = re.compile(
    r"""
    (?P<string>"(?:[^"\\]|\\.)*+" | '(?:[^'\\]|\\.)*+')
  | (?P<escape>\\.)                    # or each quote behind one is tried to the end of the text
  | (?<!\w)(?P<name>[A-Za-z_]\w*+)(?=\s*+:)
  | (?P<open>[{\[]) | (?P<close>[}\]])
  | (?P<comma>,)(?=\s*+(?:[}\]]|\Z))
    """,
    re.VERBOSE | re.DOTALL,
)


def mended(text: str, fields: set[str]) -> dict[str, Any] | None:
    """The last object with one of these fields, read leniently; None when there is none.

    >>> mended("so {'verdict': 'MET', 'why': 'it\\\\'s there',}", {"verdict"})
    {'verdict': 'MET', 'why': "it's there"}
    >>> mended('{"why": "two\\nlines", "verdict": "MET"', {"why", "verdict"})
    {'why': 'two\\nlines', 'verdict': 'MET'}
    """
    text = text[-LONGEST:]
    for start in reversed(almost_objects(text, fields)[-8:]):
        found = _loaded(_closed(text[start:]))
        if found is not None and fields & found.keys():
            return found
    return None


def almost_objects(text: str, fields: set[str]) -> list[int]:
    """Where something starts that looks like an object with one of these fields first."""
    names = "|".join(re.escape(name) for name in sorted(fields))
    return [found.start() for found in re.finditer(rf"\{{\s*+[\"']?(?:{names})\b", text)]


def _closed(text: str) -> str:
    """The first object of a text, with its brackets closed and no comma before them."""
    open_brackets: list[str] = []
    pieces: list[str] = []
    position = 0
    for token in _TOKENS.finditer(text):
        pieces.append(text[position : token.start()])
        position = token.end()
        if token["comma"]:
            continue
        pieces.append(f'"{token[0]}"' if token["name"] else token[0])
        if token["open"]:
            open_brackets.append("}" if token[0] == "{" else "]")
        elif token["close"]:
            if open_brackets:
                open_brackets.pop()
            if not open_brackets:
                return "".join(pieces)
    # An ellipsis or prose after an object that never ends is no part of it, but cannot be told apart.
    return "".join([*pieces, text[position:].rstrip(), *reversed(open_brackets)])


def _loaded(source: str) -> dict[str, Any] | None:
    for load in (_lenient_json, ast.literal_eval):
        try:
            found = load(source)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
        if isinstance(found, dict):
            return cast("dict[str, Any]", found)
    return None


def _lenient_json(source: str) -> Any:
    return json.loads(source, strict=False)
