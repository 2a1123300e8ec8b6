"""Read a structured reply: the value of the request's schema, in whatever the model wrote around it.

Thoughts are left out. Of several JSON objects with the schema's fields the last one counts, right or
wrong. An earlier one that gives another verdict makes the reply an error: one of the two is a draft,
a quotation, or something that the judged text wanted said, and which one cannot be told.

What is almost JSON is repaired by rule: single quotes, bare names, Python's constants, line breaks in strings, commas
too many, brackets too few. Nothing is guessed, and what is still no object is none. A number at the very end of an
object that was never closed is not repaired: more digits may have been cut off.
"""

import ast
import json
import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NoReturn, cast

from pydantic import BaseModel, ValidationError

from assay.errors import OffMenu, Unreadable
from assay.models.model import Request, json_schema
from assay.parsers.extract import json_spans
from assay.wording import first_error

LONGEST = 100_000
"""Characters of a reply that are looked at; a judge's object is far shorter."""
_CLOSING, _OPENING = "</think>", "<think>"


def read(text: str, request: Request) -> Any:
    """The reply as the request's schema; raises `Unreadable`, or `OffMenu` for a wrong verdict."""
    schema = request.schema
    if schema is None:
        return None
    value = _value(text, schema, request.check)
    problem = request.check(value) if request.check is not None else None
    if problem is not None:
        raise OffMenu(problem)
    return value


Check = Callable[[Any], str | None]


def _value(text: str, schema: type[BaseModel], check: Check | None) -> BaseModel:
    try:
        # Nearly always all of it is one object.
        value = schema.model_validate_json(text)
    except ValidationError:
        return _found_value(text, schema, check)
    if any(text.count(name) > 1 for name in _quoted_fields(schema)):
        json.loads(text, object_pairs_hook=without_doubles)
    return value


def _found_value(text: str, schema: type[BaseModel], check: Check | None) -> BaseModel:
    *earlier, found = _objects(without_thoughts(text), set(schema.model_fields)) or [None]
    if found is None:
        shown = f"{text[:200]!r}" if text.strip() else "empty"
        raise Unreadable(f"it holds no JSON object with {', '.join(schema.model_fields)}: {shown}")
    try:
        value = schema.model_validate(_fitted(found, json_schema(schema), {}))
    except ValidationError as error:
        _refuse(error)
    for other in earlier:
        _refuse_another_verdict(other, value, check)
    return value


def _refuse_another_verdict(other: dict[str, Any] | None, value: BaseModel, check: Check | None) -> None:
    """Raise `Unreadable` when an earlier object is a verdict on offer, and another one."""
    schema = type(value)
    try:
        earlier = schema.model_validate(_fitted(other, json_schema(schema), {}))
    except ValidationError:
        return
    if check is not None and check(earlier) is not None:
        return
    first, second = (_verdict(one.model_dump()) for one in (earlier, value))
    if first != second:
        raise Unreadable(f"it gives two different verdicts, {first!r:.80} and then {second!r:.80}: give one")


_REASONS = frozenset({"explanation", "reason", "reasoning", "rationale", "analysis", "evidence", "feedback"})


def _verdict(value: Any) -> Any:
    """What a read reply decides: all of it but the reasons, in whatever case it is written."""
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value).items()
        return {name: _verdict(part) for name, part in fields if name not in _REASONS}
    if isinstance(value, list):
        return [_verdict(part) for part in cast("list[Any]", value)]
    return value.strip().casefold() if isinstance(value, str) else value


@cache
def _quoted_fields(schema: type[BaseModel]) -> tuple[str, ...]:
    """The names of all fields, also of nested objects, as they stand in JSON."""
    described = json_schema(schema)
    nodes = [described, *described.get("$defs", {}).values()]
    names = {name for node in nodes for name in node.get("properties", {})}
    return tuple(json.dumps(name) for name in sorted(names))


def without_thoughts(text: str) -> str:
    """What follows the last thought; nothing when one was never finished.

    >>> without_thoughts("<think>MET? No.</think> UNMET"), without_thoughts("<think>Well, MET")
    (' UNMET', '')
    """
    answer = text.rpartition(_CLOSING)[2]
    return "" if _OPENING in answer else answer


def _objects(text: str, fields: set[str]) -> list[dict[str, Any] | None]:
    """The objects with one of these fields, in order; None in the place of a last one that is broken."""
    objects: list[dict[str, Any] | None] = []
    position = 0
    for start, end in json_spans(text):
        loaded = _loaded(text[start:end])
        if fields & loaded.keys():
            objects += [*repaired(text[position:start], fields), loaded]
            position = end
    rest = text[position:]
    later = repaired(rest, fields)
    # One that is almost JSON and comes later is the last word, though it may be unreadable.
    broken = not later and almost_objects(rest, fields)
    return [*objects, *later, *([None] if broken else [])]


def _loaded(source: str) -> dict[str, Any]:
    try:
        value = json.loads(source, object_pairs_hook=without_doubles)
    except (ValueError, RecursionError):
        return {}
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _fitted(value: Any, node: dict[str, Any], definitions: dict[str, Any]) -> Any:
    """The value, with every word of a list of words spelled as it is listed: ` met` as `MET`."""
    definitions = node.get("$defs", definitions)
    if "$ref" in node:
        node = definitions.get(node["$ref"].rpartition("/")[2], {})
    if isinstance(value, dict) and "properties" in node:
        known: dict[str, Any] = node["properties"]
        return {
            name: _fitted(part, known[name], definitions) if name in known else part
            for name, part in cast("dict[str, Any]", value).items()
        }
    if isinstance(value, list) and "items" in node:
        return [_fitted(part, node["items"], definitions) for part in cast("list[Any]", value)]
    if isinstance(value, str) and "enum" in node:
        folded = value.strip().casefold()
        same = [word for word in node["enum"] if str(word).casefold() == folded]
        return same[0] if same else value
    return cast("Any", value)


def _refuse(error: ValidationError) -> NoReturn:
    _, sentence = first_error(error)
    kinds = {problem["type"] for problem in error.errors(include_url=False)}
    if kinds <= {"literal_error", "enum"}:
        raise OffMenu(f"{sentence}: it was not on offer") from None
    raise Unreadable(f"it does not fit: {sentence}") from None


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


def repaired(text: str, fields: set[str]) -> list[dict[str, Any]]:
    """The objects with one of these fields, read leniently, in order; the last few of very many.

    >>> repaired("so {'verdict': 'MET', 'why': 'it\\\\'s there',}", {"verdict"})
    [{'verdict': 'MET', 'why': "it's there"}]
    >>> repaired('{"why": "two\\nlines", "verdict": "MET"', {"why", "verdict"})
    [{'why': 'two\\nlines', 'verdict': 'MET'}]
    >>> repaired('{"why": "cut off", "score": 8', {"score", "why"})
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
        found = _loaded_leniently(source)
        if found is not None and fields & found.keys():
            objects.append(found)
            end = start + length
    return objects


def without_doubles(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """An object from its fields. Raises `Unreadable` when one is given twice with different values."""
    known: dict[str, Any] = {}
    for name, value in pairs:
        if known.setdefault(name, value) != value:
            raise Unreadable(f"it gives {name} twice, as {known[name]!r:.80} and as {value!r:.80}: give one verdict")
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


def _loaded_leniently(source: str) -> dict[str, Any] | None:
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
            keys = [(repr(getattr(key, "value", "**")), place) for place, key in enumerate(node.keys)]
            without_doubles(keys)
    return ast.literal_eval(tree)
