"""Read a structured reply: the value of the request's schema, in whatever the model wrote around it.

Thoughts are left out. Of several JSON objects with the schema's fields the last one counts, right or wrong. An earlier one
that gives another verdict makes the reply an error: which of the two is a draft or a quotation cannot be told.

What is almost JSON is repaired by rule: single quotes, bare names, Python's constants, line breaks in strings, commas
too many, brackets too few. A number at the very end of an object that was never closed is not: digits may be cut off.
"""

import ast
import json
import re
from collections.abc import Sequence
from functools import cache, partial
from typing import Any, cast

from pydantic import BaseModel, ValidationError

from assay.errors import OffMenu, Unreadable
from assay.models.model import Request, json_schema
from assay.parsers.extract import json_spans
from assay.wording import first_error

LONGEST = 100_000  # characters of a reply that are repaired; a judge's object is far shorter
_REASONS = frozenset(
    {"explanation", "reason", "reasoning", "rationale", "analysis", "evidence", "feedback"}
)


def read(text: str, request: Request) -> Any:
    """The reply as the request's schema; raises `Unreadable`, or `OffMenu` for a wrong verdict."""
    schema, check = request.schema, request.check
    if schema is None:
        return None
    try:
        # Nearly always all of it is one object.
        value = schema.model_validate_json(text)
        if any(text.count(name) > 1 for name in _quoted_fields(schema)):
            json.loads(text, object_pairs_hook=_without_doubles)
        earlier: Sequence[dict[str, Any]] = ()
    except ValidationError:
        *earlier, found = _objects(without_thoughts(text), set(schema.model_fields)) or [{}]
        if not found:
            shown = f"{text[:200]!r}" if text.strip() else "empty"
            raise Unreadable(
                f"it holds no JSON object with {', '.join(schema.model_fields)}: {shown}"
            ) from None
        value = _validated(found, schema)
    for other in earlier:
        try:
            draft = _validated(other, schema)
        except Unreadable:
            continue
        first, second = _verdict(draft.model_dump()), _verdict(value.model_dump())
        # An earlier one counts where it is a verdict on offer.
        if first != second and (check is None or check(draft) is None):
            raise Unreadable(
                f"it gives two different verdicts, {first!r:.80} and then {second!r:.80}: give one"
            )
    problem = None if check is None else check(value)
    if problem is not None:
        raise OffMenu(problem)
    return value


def without_thoughts(text: str) -> str:
    """What follows the last thought; nothing when one was never finished."""
    answer = text.rpartition("</think>")[2]
    return "" if "<think>" in answer else answer


@cache
def _quoted_fields(schema: type[BaseModel]) -> tuple[str, ...]:
    """The names of all fields, also of nested objects, as they stand in JSON."""
    described = json_schema(schema)
    nodes = [described, *described.get("$defs", {}).values()]
    return tuple(
        json.dumps(name)
        for name in sorted({name for node in nodes for name in node.get("properties", {})})
    )


def _validated(found: dict[str, Any], schema: type[BaseModel]) -> BaseModel:
    try:
        return schema.model_validate(found)
    except ValidationError as error:
        _, sentence = first_error(error)
        if {problem["type"] for problem in error.errors(include_url=False)} <= {
            "literal_error",
            "enum",
        }:
            raise OffMenu(f"{sentence}: it was not on offer") from None
        raise Unreadable(f"it does not fit: {sentence}") from None


def _verdict(value: Any) -> Any:
    """What a read reply decides: all of it but the reasons, in whatever case it is written."""
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value).items()
        return {name: _verdict(part) for name, part in fields if name not in _REASONS}
    if isinstance(value, list):
        return [_verdict(part) for part in cast("list[Any]", value)]
    return value.strip().casefold() if isinstance(value, str) else value


def _objects(text: str, fields: set[str]) -> list[dict[str, Any]]:
    """The objects with one of these fields, in order; {} in the place of a last one that is broken."""
    names = "|".join(re.escape(name) for name in sorted(fields))
    looks_like_one = re.compile(rf"\{{\s*+[\"']?(?:{names})\b")
    objects: list[dict[str, Any]] = []
    position = 0
    for start, end in [*json_spans(text), (len(text), len(text))]:
        found = _loaded(text[start:end])
        if fields & found.keys() or start == end:
            # One that is almost JSON and comes last is the last word, though it may be unreadable.
            between = _repaired(text[position:start][-LONGEST:], looks_like_one, fields)
            objects += [each for each in between if each or start == end] + [found] * (start < end)
            position = end
    return objects


def _repaired(text: str, looks_like_one: re.Pattern[str], fields: set[str]) -> list[dict[str, Any]]:
    """The objects that are almost JSON, in order; the last few of very many, and {} when none can be read."""
    objects: list[dict[str, Any]] = []
    starts = [found.start() for found in looks_like_one.finditer(text)]
    end = 0
    for start in starts[-8:]:
        # Not inside an object that was read: a reason may quote another one.
        if start >= end:
            source, length = _closed(text[start:])
            found = _loaded(source)
            if fields & found.keys():
                objects.append(found)
                end = start + length
    return objects or [{}] * bool(starts)


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
            del open_brackets[-1:]
            if not open_brackets:
                return "".join(pieces), position
    # An ellipsis or prose after an object that never ends is no part of it, but cannot be told apart.
    rest = text[position:].rstrip()
    is_cut_number = re.search(r"[\d.+-]\Z", rest)
    return "" if is_cut_number else "".join([*pieces, rest, *reversed(open_brackets)]), len(text)


def _loaded(source: str) -> dict[str, Any]:
    """The object in a text that is JSON, almost JSON or Python; {} when it is none."""
    for load in (_lenient_json, _python):
        try:
            found = load(source)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
        return cast("dict[str, Any]", found) if isinstance(found, dict) else {}
    return {}


def _python(source: str) -> Any:
    tree = ast.parse(source, mode="eval")
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict):
            # Written out and not worked out, so that nested objects cost no more than flat ones.
            _without_doubles(
                [(repr(getattr(key, "value", "**")), place) for place, key in enumerate(node.keys)]
            )
    return ast.literal_eval(tree)


def _without_doubles(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """An object from its fields. Raises `Unreadable` when one is given twice with different values."""
    known: dict[str, Any] = {}
    for name, value in pairs:
        if known.setdefault(name, value) != value:
            raise Unreadable(
                f"it gives {name} twice, as {known[name]!r:.80} and as {value!r:.80}: give one verdict"
            )
    return known


_lenient_json = partial(json.loads, strict=False, object_pairs_hook=_without_doubles)
