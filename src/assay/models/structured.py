"""Read a structured reply: find the JSON that matches the request's schema.

The model's thoughts are ignored. If a reply holds several JSON objects with fields of the schema,
the last one counts, valid or not. If an earlier one gives a different verdict, the reply is an
error: it might be a draft, a quotation or the real answer, and nothing tells which.

Text that is almost JSON is repaired by rules: single quotes, names without quotes, Python's
constants, line breaks in strings, commas too many, brackets missing at the end. An object that was
cut off right after a number is not repaired, because digits may be missing.
"""

import ast
import json
import re
from collections.abc import Sequence
from functools import cache
from typing import Any, cast

from pydantic import BaseModel, ValidationError

from assay.errors import OffMenu, Unreadable
from assay.models.model import Request, json_schema
from assay.parsers.extract import find_json_spans
from assay.wording import explain_first_error

MAX_REPAIRED_LENGTH = 100_000  # characters that are searched for objects that are almost JSON
MAX_REPAIRED_OBJECTS = 8  # how many of the last such objects are tried
SHOWN_LENGTH = 200  # characters of a reply that an error message quotes
# Fields that explain a verdict and are not part of it.
_REASON_FIELDS = frozenset(
    {"explanation", "reason", "reasoning", "rationale", "analysis", "evidence", "feedback"}
)
# The types of pydantic's errors for a value that a `Literal` or an `Enum` in the schema does not
# contain.
_UNLISTED_VALUE_ERRORS = frozenset({"literal_error", "enum"})


def read_structured(text: str, request: Request) -> Any:
    """Return the reply as an object of the request's schema; None if the request has no schema.

    Raise `Unreadable` if the reply holds no such object or contradicts itself, and `OffMenu` if its
    verdict was not offered.
    """
    schema = request.schema
    if schema is None:
        return None
    value = _read_plain_object(text, schema)
    if value is None:
        value = _find_value(text, schema, request)
    problem = _find_problem(value, request)
    if problem is not None:
        raise OffMenu(problem)
    return value


def without_thoughts(text: str) -> str:
    """Return the text after the last `</think>`; an empty text if a thought was not finished."""
    answer = text.rpartition("</think>")[2]
    return "" if "<think>" in answer else answer


def _read_plain_object(text: str, schema: type[BaseModel]) -> BaseModel | None:
    """Return the value of a text that is one valid JSON object, as most replies are.

    Return None if it is not.
    """
    try:
        value = schema.model_validate_json(text)
    except ValidationError:
        return None
    _check_repeated_fields(text, schema)
    return value


def _find_problem(value: BaseModel, request: Request) -> str | None:
    """Return what is wrong with a value by the request's own check; None if nothing is."""
    if request.check is None:
        return None
    return request.check(value)


def _find_value(text: str, schema: type[BaseModel], request: Request) -> BaseModel:
    """Return the last object in a text as a value of the schema.

    Raise `Unreadable` if an object before it gives a different verdict.
    """
    field_names = set(schema.model_fields)
    objects = _find_objects(without_thoughts(text), field_names)
    last_object = objects[-1] if objects else None  # also None if it cannot be read
    if last_object is None:
        shown = f"{text[:SHOWN_LENGTH]!r}" if text.strip() else "it is empty"
        raise Unreadable(f"it holds no JSON object with {', '.join(schema.model_fields)}: {shown}")
    value = _validate(last_object, schema)
    verdict = _verdict_of(value.model_dump())
    for earlier_object in objects[:-1]:
        try:
            earlier_value = _validate(earlier_object, schema)
        except Unreadable:
            continue  # not a verdict, so it contradicts nothing
        earlier_verdict = _verdict_of(earlier_value.model_dump())
        if earlier_verdict == verdict:
            continue
        was_offered = _find_problem(earlier_value, request) is None
        if was_offered:
            raise Unreadable(
                f"it gives two different verdicts, {earlier_verdict!r:.80} and then "
                f"{verdict!r:.80}: give one"
            )
    return value


def _validate(fields: Any, schema: type[BaseModel]) -> BaseModel:
    """Return the fields as an object of the schema.

    Raise `OffMenu` if the fields are right, but a value is not one of those that the schema lists:
    a verdict that was not offered. Raise `Unreadable` if anything else is wrong.
    """
    try:
        return schema.model_validate(fields)
    except ValidationError as error:
        _, sentence = explain_first_error(error)
        error_types = {problem["type"] for problem in error.errors(include_url=False)}
        has_only_unlisted_values = error_types <= _UNLISTED_VALUE_ERRORS
        if has_only_unlisted_values:
            raise OffMenu(f"{sentence}: it is not one of the choices") from None
        raise Unreadable(f"it does not match the schema: {sentence}") from None


def _verdict_of(value: Any) -> Any:
    """Return the verdict in a value, in a form in which two verdicts can be compared.

    Reasons are left out, and texts are in lower case.
    """
    if isinstance(value, dict):
        verdict: dict[str, Any] = {}
        for name, item in cast("dict[str, Any]", value).items():
            if name not in _REASON_FIELDS:
                verdict[name] = _verdict_of(item)
        return verdict
    if isinstance(value, list):
        return [_verdict_of(item) for item in cast("list[Any]", value)]
    if isinstance(value, str):
        return value.strip().casefold()
    return value


# Fields that are given twice. JSON parsers keep the last value without an error, although it may
# contradict the first one.


def _check_repeated_fields(text: str, schema: type[BaseModel]) -> None:
    """Raise `Unreadable` if a JSON text gives a field twice, with different values."""
    # Most replies have each name only once, and need not be parsed a second time.
    may_repeat = any(text.count(name) > 1 for name in _quoted_field_names(schema))
    if may_repeat:
        json.loads(text, object_pairs_hook=_build_object)  # which raises the error


@cache
def _quoted_field_names(schema: type[BaseModel]) -> tuple[str, ...]:
    """Return the names of a schema's fields, also in nested objects, in quotes as in JSON."""
    description = json_schema(schema)
    names = set[str](description.get("properties", {}))
    for definition in description.get("$defs", {}).values():
        names |= definition.get("properties", {}).keys()
    return tuple(json.dumps(name) for name in sorted(names))


def _build_object(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object as a dict of its fields.

    Raise `Unreadable` if a field is given twice with different values.
    """
    fields: dict[str, Any] = {}
    for name, value in pairs:
        if name in fields and fields[name] != value:
            raise Unreadable(
                f"it gives {name} twice, as {fields[name]!r:.80} and as {value!r:.80}: "
                "give one verdict"
            )
        fields[name] = value
    return fields


# Objects in a text.


def _find_objects(text: str, names: set[str]) -> list[dict[str, Any] | None]:
    """Return the objects in a text that have one of the named fields, in order.

    Between valid objects there may be some that are almost JSON. These are repaired. The last item
    is None if the text after the last valid object has such an object that cannot be repaired.
    """
    alternatives = "|".join(re.escape(name) for name in sorted(names))
    # Where such an object begins: a bracket and the name of a field, maybe in quotes.
    opening = re.compile(rf"\{{\s*+[\"']?(?:{alternatives})\b")
    objects: list[dict[str, Any] | None] = []
    end_of_last_valid = 0
    for start, end in find_json_spans(text):
        json_object = _parse_object(text[start:end])
        if json_object is not None and names & json_object.keys():
            text_before = text[end_of_last_valid:start]
            objects += _repair_objects(text_before, opening, names)
            objects.append(json_object)
            end_of_last_valid = end
    text_after = text[end_of_last_valid:]
    repaired = _repair_objects(text_after, opening, names)
    objects += repaired
    if not repaired:
        # The same part of the text in which `_repair_objects` has looked.
        searched_text = text_after[-MAX_REPAIRED_LENGTH:]
        has_unreadable_object = opening.search(searched_text) is not None
        if has_unreadable_object:
            objects.append(None)
    return objects


def _repair_objects(text: str, opening: re.Pattern[str], names: set[str]) -> list[dict[str, Any]]:
    """Return the objects in a text that are almost JSON and have one of the named fields, in order.

    `opening` matches where such an object begins. Objects that cannot be read are skipped.
    """
    text = text[-MAX_REPAIRED_LENGTH:]
    starts = [match.start() for match in opening.finditer(text)]
    objects: list[dict[str, Any]] = []
    position = 0  # the end of the last object that was read
    for start in starts[-MAX_REPAIRED_OBJECTS:]:
        if start < position:
            continue  # part of the object before, whose reason may quote another object
        source, length = _repair_object(text[start:])
        repaired = _parse_object(source)
        if repaired is not None and names & repaired.keys():
            objects.append(repaired)
            position = start + length
    return objects


# The parts of an object that its repair looks at. An `escape` is a backslash outside of strings and
# the character after it. It is matched because otherwise each escaped quote would begin a string,
# whose end would be searched for through the whole text.
_TOKENS = re.compile(
    r"""
    (?P<string>"(?:[^"\\]|\\.)*+" | '(?:[^'\\]|\\.)*+')
  | (?P<escape>\\.)
  | (?<!\w)(?P<name>[A-Za-z_]\w*+)(?=\s*+:)
  | (?P<open>[{\[]) | (?P<close>[}\]])
  | (?P<comma>,)(?=\s*+(?:[}\]]|\Z))   # before a closing bracket, where JSON allows none
    """,
    re.VERBOSE | re.DOTALL,
)
_CUT_NUMBER = re.compile(r"[\d.+-]\Z")
_CLOSING_BRACKETS = {"{": "}", "[": "]"}


def _repair_object(text: str) -> tuple[str, int]:
    """Return the object that a text begins with as valid JSON, and its length before the repair.

    Names get quotes, superfluous commas are removed, and missing brackets are added at the end. If
    the object was cut off in a number, digits may be missing, so an empty text is returned for it.
    """
    missing_brackets: list[str] = []  # those that close the open ones, the innermost last
    pieces: list[str] = []  # of the repaired object
    position = 0  # how much of the text was read
    for token in _TOKENS.finditer(text):
        pieces.append(text[position : token.start()])
        position = token.end()
        token_text = token[0]
        if token["comma"]:
            continue  # a superfluous one
        if token["name"]:
            token_text = f'"{token_text}"'
        pieces.append(token_text)
        if token["open"]:
            missing_brackets.append(_CLOSING_BRACKETS[token_text])
        elif token["close"]:
            if missing_brackets:
                missing_brackets.pop()
            if not missing_brackets:
                return "".join(pieces), position
    # The text ended before the object was closed. All of it is taken as part of the object.
    rest = text[position:].rstrip()
    if _CUT_NUMBER.search(rest):
        return "", len(text)
    pieces.append(rest)
    pieces += reversed(missing_brackets)
    return "".join(pieces), len(text)


def _parse_object(source: str) -> dict[str, Any] | None:
    """Return the object in a text that is JSON, with line breaks allowed in strings, or Python.

    Return None if it is neither.
    """
    value: Any = None
    try:
        value = json.loads(source, strict=False, object_pairs_hook=_build_object)
    except (ValueError, RecursionError):
        try:
            value = _parse_python(source)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            return None
    if not isinstance(value, dict):
        return None
    return cast("dict[str, Any]", value)


def _parse_python(source: str) -> Any:
    """Return the value of a Python literal; raise `Unreadable` if a dict in it has a key twice."""
    tree = ast.parse(source, mode="eval")
    for node in ast.walk(tree):
        if not isinstance(node, ast.Dict):
            continue
        known_keys = set[str]()
        for key in node.keys:
            if not isinstance(key, ast.Constant):
                continue
            name = repr(key.value)
            if name in known_keys:
                raise Unreadable(f"it gives {name} twice: give one verdict")
            known_keys.add(name)
    return ast.literal_eval(tree)
