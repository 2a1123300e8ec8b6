"""Reading: the value in a model's reply, found in whatever it wrote around it.

Thoughts are left out. Of several JSON objects the last one with the schema's fields counts, right
or wrong: an earlier one may be a quotation, or something the judged text wanted said.
"""

import json
from typing import Any, NoReturn, cast

from pydantic import BaseModel, ValidationError

from assay.errors import OffMenu, Unreadable
from assay.models.base import Request
from assay.models.repair import almost_objects, mended
from assay.models.schema import json_schema
from assay.parsers.json_spans import json_spans
from assay.wording import plainly

_CLOSING, _OPENING = "</think>", "<think>"


def read(text: str, request: Request) -> Any:
    """The reply as the request's schema; raises `Unreadable`, or `OffMenu` for a wrong verdict."""
    schema = request.schema
    if schema is None:
        return None
    value = _value(text, schema)
    problem = request.check(value) if request.check is not None else None
    if problem is not None:
        raise OffMenu(problem)
    return value


def _value(text: str, schema: type[BaseModel]) -> BaseModel:
    try:
        # Nearly always all of it is one object.
        return schema.model_validate_json(text)
    except ValidationError:
        pass
    answer = without_thoughts(text)
    found = _last_object(answer, set(schema.model_fields))
    if found is None:
        shown = f"{text[:200]!r}" if text.strip() else "empty"
        raise Unreadable(f"it holds no JSON object with {', '.join(schema.model_fields)}: {shown}")
    try:
        return schema.model_validate(_fitted(found, json_schema(schema), {}))
    except ValidationError as error:
        _refuse(error)


def without_thoughts(text: str) -> str:
    """What follows the last thought; nothing when one was never finished.

    >>> without_thoughts("<think>MET? No.</think> UNMET"), without_thoughts("<think>Well, MET")
    (' UNMET', '')
    """
    answer = text.rpartition(_CLOSING)[2]
    return "" if _OPENING in answer else answer


def _last_object(text: str, fields: set[str]) -> dict[str, Any] | None:
    for start, end in reversed(json_spans(text)):
        loaded = _loaded(text[start:end])
        if fields & loaded.keys():
            # One that is almost JSON and comes later is the last word, though it may be unreadable.
            rest = text[end:]
            return mended(rest, fields) if almost_objects(rest, fields) else loaded
    return mended(text, fields)


def _loaded(source: str) -> dict[str, Any]:
    try:
        value = json.loads(source)
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
    _, sentence = plainly(error)
    kinds = {problem["type"] for problem in error.errors(include_url=False)}
    if kinds <= {"literal_error", "enum"}:
        raise OffMenu(f"{sentence}: it was not on offer") from None
    raise Unreadable(f"it does not fit: {sentence}") from None
