"""JSON schemas of reply models, made once each and kept."""

from functools import cache
from json import dumps
from typing import Any, cast

from pydantic import BaseModel


@cache
def json_schema(model: type[BaseModel]) -> dict[str, Any]:
    """The JSON schema of a reply model, in the strict form that providers ask for.

    Every field is required, no other is allowed, and the order is that of the class. Descriptions of
    fields go along; docstrings of classes do not, for they are written for programmers.

    >>> from pydantic import BaseModel
    >>> class Answer(BaseModel):
    ...     reason: str
    ...     verdict: str = "MET"
    >>> schema = json_schema(Answer)
    >>> schema["required"], schema["additionalProperties"]
    (['reason', 'verdict'], False)
    """
    schema = model.model_json_schema()
    for described in (schema, *schema.get("$defs", {}).values()):
        described.pop("description", None)
    return _strict(schema)


@cache
def schema_text(model: type[BaseModel]) -> str:
    """The schema as text: what a cache key and a prompt hold."""
    return dumps(json_schema(model))


_UNSUPPORTED = ("default", "title", "minItems", "maxItems", "minLength", "maxLength")
"""Refused by strict endpoints, or noise. What they say is checked when the reply is read."""


def _strict(node: Any) -> Any:
    if isinstance(node, list):
        return [_strict(item) for item in cast("list[Any]", node)]
    if not isinstance(node, dict):
        return node
    fields = cast("dict[str, Any]", node)
    strict: dict[str, Any] = {
        name: _children(name, value)
        for name, value in fields.items()
        if name not in _UNSUPPORTED or not isinstance(value, str | int)
    }
    if "properties" in strict:
        strict["required"] = list(strict["properties"])
        strict["additionalProperties"] = False
    return strict


def _children(name: str, value: Any) -> Any:
    if name in ("properties", "$defs"):
        # The keys here are names of fields, not words of the schema.
        return {key: _strict(child) for key, child in value.items()}
    return _strict(value)
