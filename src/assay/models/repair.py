"""Repair: the object that a model meant where it wrote almost JSON.

Single quotes, bare names, Python's constants, line breaks in strings, commas too many, brackets too few. Each is
mended by rule; nothing is guessed, and what is still no object is none. A number at the very end of an object that was
never closed is not mended: more digits may have been cut off.
"""

import ast
import json
import re
from collections.abc import Sequence
from typing import Any, cast

from assay.errors import Unreadable

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


def mended(text: str, fields: set[str]) -> list[dict[str, Any]]:
    """The objects with one of these fields, read leniently, in order; the last few of very many.

    >>> mended("so {'verdict': 'MET', 'why': 'it\\\\'s there',}", {"verdict"})
    [{'verdict': 'MET', 'why': "it's there"}]
    >>> mended('{"why": "two\\nlines", "verdict": "MET"', {"why", "verdict"})
    [{'why': 'two\\nlines', 'verdict': 'MET'}]
    >>> mended('{"why": "cut off", "score": 8', {"score", "why"})
    []
    """
    text = text[-LONGEST:]
    objects: list[dict[str, Any]] = []
    end = 0
    for start in almost_objects(text, fields)[-8:]:
        if start < end:
            # Inside an object that was read: a reason may quote another one.
            continue
        source, length = _closed(text[start:])
        found = _loaded(source)
        if found is not None and fields & found.keys():
            objects.append(found)
            end = start + length
    return objects


def without_doubles(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """An object from its fields. Raises `Unreadable` when one is given twice with different values."""
    known: dict[str, Any] = {}
    for name, value in pairs:
        if known.setdefault(name, value) != value:
            raise Unreadable(
                f"it gives {name} twice, as {known[name]!r:.80} and as {value!r:.80}: give one verdict"
            )
    return known


def almost_objects(text: str, fields: set[str]) -> list[int]:
    """Where something starts that looks like an object with one of these fields first."""
    names = "|".join(re.escape(name) for name in sorted(fields))
    return [found.start() for found in re.finditer(rf"\{{\s*+[\"']?(?:{names})\b", text)]


def _closed(text: str) -> tuple[str, int]:
    """The first object of a text, with its brackets closed and no comma before them, and its length."""
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
                return "".join(pieces), position
    # An ellipsis or prose after an object that never ends is no part of it, but cannot be told apart.
    rest = text[position:].rstrip()
    if _CUT_NUMBER.search(rest):
        return "", len(text)
    return "".join([*pieces, rest, *reversed(open_brackets)]), len(text)


_CUT_NUMBER = re.compile(r"[\d.+-]\Z")


def _loaded(source: str) -> dict[str, Any] | None:
    for load in (_lenient_json, _python_literal):
        try:
            found = load(source)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
        if isinstance(found, dict):
            return cast("dict[str, Any]", found)
    return None


def _lenient_json(source: str) -> Any:
    return json.loads(source, strict=False, object_pairs_hook=without_doubles)


def _python_literal(source: str) -> Any:
    tree = ast.parse(source, mode="eval")
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict):
            # Written out and not worked out, so that nested objects cost no more than flat ones.
            keys = [
                (repr(getattr(key, "value", "**")), place) for place, key in enumerate(node.keys)
            ]
            without_doubles(keys)
    return ast.literal_eval(tree)
