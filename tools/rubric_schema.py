"""Make the JSON Schema of rubric files from the models, and save it where the package ships it.

python tools/rubric_schema.py
"""

import inspect
import json
import re
from dataclasses import MISSING, fields
from typing import Any, Final, cast, get_args

from pydantic import TypeAdapter

from assay import Criterion
from assay.aggregation import AGGREGATIONS
from assay.checks import BUILTIN, BuiltinCheck
from assay.criterion import DEFAULT_TIMEOUT, MAX_MAGNITUDE, AskJudge
from assay.loading import SCHEMA_FILE
from assay.loading.rubric_reader import REFERENCE
from assay.messages import SHOWS
from assay.parsers.named import PARSERS
from assay.reasoning import Thinking
from assay.shaping import SHAPINGS, build_options_model

_NUMBER_TEXT: Final = {
    "type": "string",
    "pattern": r"^\s*[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?\s*$",
}
_TEXT: Final = {"type": "string"}
_COLUMN: Final = {"type": "string", "pattern": r"\{[^{}\s]+\}"}
_TEXTS: Final = {"type": "array", "items": _TEXT}
_REFERENCE: Final = {"type": "string", "pattern": REFERENCE}
_KINDS: Final[dict[Any, Any]] = {
    float: {"$ref": "#/$defs/number"},
    bool: {"type": "boolean"},
    str: _TEXT,
    str | None: {"type": "string", "pattern": r"\S"},
}
_OWN: Final[dict[str, Any]] = {
    "check": {"$ref": "#/$defs/check"},
    "choices": {"type": "array", "items": {"type": "string", "pattern": r"\S"}, "minItems": 2},
    "tags": {"anyOf": [_TEXT, _TEXTS]},
    "reference": {"anyOf": [_TEXT, _TEXTS]},
    "timeout": {
        "anyOf": [{"type": "number", "exclusiveMinimum": 0, "maximum": MAX_MAGNITUDE}, _NUMBER_TEXT]
    },
    "when": {"$ref": "#/$defs/when"},
    **{
        name: {"enum": [*get_args(Criterion.model_fields[name].annotation)]}
        for name in ("scope", "combine", "credit", "when_false")
    },
    "thinking": {"$ref": "#/$defs/thinking"},
}
"""Fields that a file may write in more ways than the model has types."""


def rubric_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of rubric files."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:assay:rubric-file",
        "title": "A rubric: weighted criteria whose answers add up",
        "$ref": "#/$defs/file",
        "$defs": {
            "file": {"anyOf": [{"$ref": "#/$defs/rubric"}, _group()]},
            "rubric": {"anyOf": [{"$ref": "#/$defs/list"}, _rubric()]},
            "list": {
                "type": "array",
                "minItems": 1,
                "items": {
                    "if": {"required": ["criteria"]},
                    "then": {"$ref": "#/$defs/section"},
                    "else": {"$ref": "#/$defs/criterion"},
                },
            },
            "section": _section(),
            "criterion": _criterion(),
            "when": _when(),
            "shows": {
                "anyOf": [
                    {"enum": [*SHOWS]},
                    {"type": "array", "minItems": 1, "items": {"enum": [*SHOWS]}},
                ]
            },
            "thinking": {"enum": [*get_args(Thinking)]},
            "parser": _parser(),
            "shaping": _shaping(),
            "check": _check(),
            "number": {
                "anyOf": [
                    {"type": "number", "minimum": -MAX_MAGNITUDE, "maximum": MAX_MAGNITUDE},
                    _NUMBER_TEXT,
                ]
            },
        },
    }


def schema_text() -> str:
    """The schema as it is saved."""
    return json.dumps(rubric_schema(), indent=2, ensure_ascii=False) + "\n"


def _mapping(properties: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "additionalProperties": False, **more}


def _rubric() -> dict[str, Any]:
    holders = {
        "criteria": {"$ref": "#/$defs/list"},
        "sections": {"$ref": "#/$defs/list"},
        "rubric": {"$ref": "#/$defs/rubric"},
    }
    properties = {
        **holders,
        "name": _TEXT,
        "description": True,
        "aggregation": {"anyOf": [{"enum": [*AGGREGATIONS]}, _REFERENCE]},
        "golden": _golden(),
        "parser": {"$ref": "#/$defs/parser"},
        "shows": {"$ref": "#/$defs/shows"},
        "thinking": {"$ref": "#/$defs/thinking"},
        "shaping": {"$ref": "#/$defs/shaping"},
        "ask_judge": {"enum": [*get_args(AskJudge)]},
        "reference": _OWN["reference"],
        "$schema": True,
    }
    return _mapping(properties, oneOf=[{"required": [holder]} for holder in holders])


def _parser() -> dict[str, Any]:
    names = [name for name in PARSERS if name != "xml"]
    field = {"anyOf": [_TEXT, _TEXTS]}
    tags = {"type": "array", "minItems": 1, "items": field}
    options = _mapping({"fields": tags, "answer_field": _TEXT}, required=["fields"])
    xml = _mapping({"xml": {"anyOf": [tags, options]}}, required=["xml"])
    return {"anyOf": [{"enum": names}, xml, _REFERENCE]}


def _shaping() -> dict[str, Any]:
    """A list of parts, each under its name with its options, or as a function that is named."""
    parts = {name: build_options_model(name).model_json_schema() for name in SHAPINGS}
    return {
        "type": "array",
        "items": {"anyOf": [_mapping(parts, minProperties=1, maxProperties=1), _REFERENCE]},
    }


def _golden() -> dict[str, Any]:
    """Examples, and the verdicts that they should get."""
    said = {"type": "string", "minLength": 1}
    chat = {"anyOf": [_TEXT, {"type": "array", "minItems": 1, "items": {"type": "object"}}]}
    expected = {"anyOf": [_TEXT, {"type": "number"}]}
    bounds = {"at_least": {"type": "number"}, "at_most": {"type": "number"}}
    properties = {
        "name": said,
        "prompt": chat,
        "completion": chat,
        "answer": True,
        "task": said,
        "info": {"type": "object"},
        "columns": {"type": "object"},
        "expect": {"type": "object", "minProperties": 1, "additionalProperties": expected},
        "score": {"anyOf": [{"type": "number"}, _mapping(bounds)]},
    }
    judged = [{"required": ["expect"]}, {"required": ["score"]}]
    example = _mapping(properties, required=["completion"], anyOf=judged)
    return {"type": "array", "minItems": 1, "items": example}


def _group() -> dict[str, Any]:
    parts = {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/file"}}
    properties = {
        "rubrics": parts,
        "name": _TEXT,
        "description": True,
        "parser": {"$ref": "#/$defs/parser"},
        "thinking": {"$ref": "#/$defs/thinking"},
        "shows": {"$ref": "#/$defs/shows"},
    }
    properties |= {"shaping": {"$ref": "#/$defs/shaping"}, "$schema": True}
    return _mapping(properties, required=["rubrics"])


def _section() -> dict[str, Any]:
    titles = {"title": _TEXT, "name": _TEXT, "description": True}
    return _mapping({**titles, "criteria": {"$ref": "#/$defs/list"}}, required=["criteria"])


def _criterion() -> dict[str, Any]:
    comments = _read_field_comments(Criterion)
    properties: dict[str, Any] = {
        name: {**_OWN.get(name, _KINDS.get(field.annotation, {})), "description": comments[name]}
        for name, field in Criterion.model_fields.items()
    }
    properties["rubric"] = {
        "$ref": "#/$defs/rubric",
        "description": "A whole rubric, as one line that is worth its score.",
    }
    ways = ("requirement", "check", "rubric")
    return _mapping(properties, oneOf=[{"required": [way]} for way in ways], allOf=_isolation())


def _isolation() -> list[dict[str, Any]]:
    """What an isolated check needs, and what needs one."""
    isolated = {"required": ["isolate"], "properties": {"isolate": {"const": True}}}
    timed = {
        "required": ["timeout"],
        "properties": {"timeout": {"not": {"const": DEFAULT_TIMEOUT}}},
    }
    return [{"if": isolated, "then": {"required": ["check"]}}, {"if": timed, "then": isolated}]


def _when() -> dict[str, Any]:
    value = {"type": ["string", "number", "boolean"]}
    verdicts = {"anyOf": [value, {"type": "null"}, {"type": "array", "items": value}]}
    one = {"anyOf": [_TEXT, {"type": "object", "additionalProperties": verdicts}]}
    return {"anyOf": [*one["anyOf"], {"type": "array", "items": one}]}


def _check() -> dict[str, Any]:
    bare = [name for name, kind in BUILTIN.items() if not _needed(kind)]
    named = {name: _fields(kind) for name, kind in BUILTIN.items()}
    return {
        "anyOf": [{"enum": bare}, _REFERENCE, _mapping(named, minProperties=1, maxProperties=1)]
    }


def _needed(kind: type[BuiltinCheck]) -> list[str]:
    return [field.name for field in fields(kind) if field.default is MISSING]


def _fields(kind: type[BuiltinCheck]) -> dict[str, Any]:
    """What may stand under the name of a check: its fields, or the one that stands for itself."""
    described = {
        field.name: _or_column(_numbers(TypeAdapter(cast("Any", field.type)).json_schema()))
        for field in fields(kind)
    }
    needed = _needed(kind)
    forms = [_mapping(described, **({"required": needed} if needed else {}))]
    lone = kind.lone_field()
    if lone is not None:
        forms.append({"allOf": [{"not": {"type": "object"}}, described[lone]]})
    if not needed:
        forms.append({"type": "null"})
    return {"description": (inspect.getdoc(kind) or "").split("\n")[0], "anyOf": forms}


def _numbers(schema: Any) -> Any:
    """The schema of a field, with numbers that may also be written as texts."""
    if schema.get("type") != "number":
        return schema
    bounds = {key: value for key, value in schema.items() if key != "type"}
    return {"anyOf": [{"type": "number", **bounds}, _NUMBER_TEXT]}


def _or_column(schema: Any) -> Any:
    """The schema of a field, or a text with a placeholder such as `{limit}`."""
    is_any_text = schema.get("type") == "string" and not {"enum", "pattern"} & schema.keys()
    if is_any_text:
        return schema
    forms = schema["anyOf"] if schema.keys() == {"anyOf"} else [schema]
    return {"anyOf": [*forms, _COLUMN]}


def _read_field_comments(model: type[Any]) -> dict[str, str]:
    """Return the comment above each field of a class, on one line."""
    comments: dict[str, str] = {}
    comment_lines: list[str] = []
    for line in inspect.getsource(model).splitlines():
        text = line.strip()
        field = re.match(r"    (\w+):", line)
        if text.startswith("# "):
            comment_lines.append(text.removeprefix("# "))
        else:
            if field is not None and comment_lines:
                comments[field[1]] = " ".join(comment_lines)
            comment_lines = []
    return comments


if __name__ == "__main__":
    SCHEMA_FILE.write_text(schema_text(), encoding="utf-8")
