"""Check that a text is JSON and fits a JSON Schema, with validators that fetch nothing and cannot hang."""

import json
import threading
import time
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import field
from functools import cached_property
from importlib import import_module
from typing import Any, NoReturn, TypeAlias, cast

from assay.checks.check import BuiltinCheck, Flag, Seconds, compiled, search
from assay.errors import RubricError, import_extra
from assay.messages import visible_text
from assay.parsers import extract_code
from assay.parsers.extract import find_json_spans
from assay.report import Score
from assay.types import Messages


class JsonValid(BuiltinCheck):
    """The text is JSON. With `fenced`, the last fenced block may be JSON instead, preferably one marked `json`.

    >>> JsonValid()('{"a": 1').reason
    "no JSON: Expecting ',' delimiter: line 1 column 8 (char 7)"
    """

    fenced: Flag = True

    def __call__(self, completion: Messages, with_reasoning: bool = False) -> bool | Score:
        try:
            read_json(visible_text(completion, with_reasoning), fenced=self.fenced)
        except ValueError as error:
            return Score(False, f"no JSON: {error}")
        except RecursionError:
            return True
        return True


class JsonSchema(BuiltinCheck):
    """The text is JSON, as for `JsonValid`, and fits the JSON Schema `schema`, whose references are never fetched.

    A comparison that takes longer than `timeout_seconds` of work is an error, not a failed check.

    >>> JsonSchema({"type": "object", "required": ["verdict"]})('{"score": 3}').reason
    "at the top: 'verdict' is a required property"
    """

    schema: dict[str, Any] | Flag = field(hash=False)
    fenced: Flag = True
    timeout_seconds: Seconds = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        try:
            # A copy, which no one else can change, of what JSON can hold.
            schema = json.loads(json.dumps(self.schema, allow_nan=False))
        except (TypeError, ValueError, RecursionError) as error:
            raise RubricError(f"json_schema: the schema is no JSON: {error}") from None
        object.__setattr__(self, "schema", schema)
        _ = self._validator

    @cached_property
    def _validator(self) -> Any:
        return validator_of(self.schema)

    def __call__(self, completion: Messages, with_reasoning: bool = False) -> bool | Score:
        try:
            try:
                value = read_json(visible_text(completion, with_reasoning), fenced=self.fenced)
            except ValueError as error:
                return Score(False, f"no JSON: {error}")
            first = first_error(self._validator, value, self.timeout_seconds)
        except RecursionError:
            raise ValueError("the JSON is nested too deep to compare with the schema") from None
        if first is None:
            return True
        return Score(False, f"at {place(first)}: {first.message:.300}")


def read_json(text: str, *, fenced: bool) -> Any:
    """Return the JSON of a text or its last fenced block; raises `ValueError`, or `RecursionError` if too deep."""
    try:
        return _parse(text)
    except ValueError:
        if not fenced:
            raise
        block = extract_code(text, "json") or extract_code(text)
        if block is None:
            raise
    return _parse(block)


def _parse(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except RecursionError:
        whole = text.strip()
        if find_json_spans(whole) != [(0, len(whole))]:
            raise ValueError("its many brackets do not pair up") from None
        raise


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


# A function of `jsonschema` for a keyword: of the validator, its value, the instance and the schema.
Keyword: TypeAlias = Callable[[Any, Any, Any, Any], Iterator[Any]]

PATTERN_SECONDS = 1.0  # how long one match of a schema's pattern may take


def validator_of(schema: Any) -> Any:
    """Return a `jsonschema` validator for a schema. Raise `RubricError` if the schema is wrong."""
    exceptions = import_extra("jsonschema.exceptions", "json_schema")
    try:
        return _build_validator(schema)
    except exceptions.SchemaError as error:
        raise RubricError(
            f"json_schema: the schema is wrong at {place(error)}: {error.message:.300}"
        ) from None
    except RecursionError:
        raise RubricError("json_schema: the schema is nested too deep") from None


class _Deadline(threading.local):
    """The deadline of this thread for one value, in its own processor time, so load does not count."""

    end = float("inf")
    seconds = 0.0

    def check(self) -> None:
        if time.thread_time() > self.end:
            raise TimeoutError(
                f"the JSON was still being compared with the schema after {self.seconds:g} s of "
                "work: give a larger timeout_seconds, or a schema with fewer alternatives inside "
                "alternatives"
            )


_deadline = _Deadline()


def first_error(validator: Any, value: Any, seconds: float) -> Any:
    """Return the first error in a value, or None. Raise `TimeoutError` after `seconds` of work."""
    _deadline.seconds = seconds
    _deadline.end = time.thread_time() + seconds
    return next(validator.iter_errors(value), None)


def place(error: Any) -> str:
    """Return the path of a `jsonschema` error in the value: `items[2].name`."""
    path = ""
    for step in error.absolute_path:
        path += f"[{step}]" if isinstance(step, int) else f".{step}"
    return path.removeprefix(".")[:200] or "the top"


def _build_validator(schema: Any) -> Any:
    from referencing.jsonschema import DRAFT202012, EMPTY_REGISTRY, specification_with

    validators: Any = import_module("jsonschema.validators")
    specifications: Any = import_module("jsonschema_specifications")
    draft: Any = None
    if schema not in (True, False):
        draft = schema.get("$schema")
    kind: Any = validators.Draft202012Validator
    if isinstance(draft, str):
        kind = validators.validator_for({"$schema": draft}, default=kind)
    kind.check_schema(schema)
    if draft is not None:
        # With `$schema`, a `$ref: "#"` would use the draft's own keywords.
        schema = {key: value for key, value in schema.items() if key != "$schema"}
    dialect = specification_with(kind.META_SCHEMA["$schema"], default=DRAFT202012)
    resource: Any = dialect.create_resource(schema)
    _refuse_unresolvable(resource, specifications.REGISTRY.resolver_with_root(resource))
    safe = validators.extend(kind, _safe_keywords(kind.VALIDATORS))
    # An empty registry, since the default one fetches unknown references.
    return safe(schema, registry=EMPTY_REGISTRY)


def _refuse_unresolvable(resource: Any, resolver: Any) -> None:
    from referencing.exceptions import Unresolvable

    contents: dict[str, Any] = {}
    if resource.contents not in (True, False):
        contents = resource.contents
    for keyword in ("$ref", "$dynamicRef"):
        reference = contents.get(keyword)
        if not isinstance(reference, str):
            continue
        try:
            resolver.lookup(reference)
        except Unresolvable:
            raise RubricError(
                f"json_schema: {reference!r} is not in the schema, and nothing is fetched: "
                "put it under $defs"
            ) from None
    for inner in resource.subresources():
        _refuse_unresolvable(inner, resolver.in_subresource(inner))


def _safe_keywords(keywords: Mapping[str, Keyword]) -> dict[str, Keyword]:
    """Return all keywords. Each checks the deadline first, and patterns have a timeout for each match."""
    from jsonschema.exceptions import ValidationError

    # It takes linear time; `jsonschema` compares all pairs.
    def unique_items(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:
        if value and validator.is_type(instance, "array"):
            distinct = {json_key(item) for item in instance}
            if len(distinct) < len(instance):
                yield ValidationError(f"{instance!r} has non-unique elements")

    def pattern(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:
        if validator.is_type(instance, "string") and not _matches(value, instance):
            yield ValidationError(f"{instance!r} does not match {value!r}")

    def pattern_properties(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:
        if validator.is_type(instance, "object"):
            for name_pattern, inner in value.items():
                for key in instance:
                    if _matches(name_pattern, key):
                        yield from validator.descend(
                            instance[key], inner, path=key, schema_path=name_pattern
                        )

    def additional_properties(
        validator: Any, value: Any, instance: Any, schema: Any
    ) -> Iterator[Any]:
        patterns = schema.get("patternProperties", {})
        if patterns and validator.is_type(instance, "object"):
            # `jsonschema` would match the patterns itself, so it gets only the additional properties.
            additional: dict[str, Any] = {}
            for key, item in instance.items():
                is_named = key in schema.get("properties", {})
                if not is_named and not any(_matches(pattern, key) for pattern in patterns):
                    additional[key] = item
            instance = additional
            schema = {}
        yield from keywords["additionalProperties"](validator, value, instance, schema)

    safe: dict[str, Keyword] = {
        **keywords,
        "pattern": pattern,
        "patternProperties": pattern_properties,
        "additionalProperties": additional_properties,
        "uniqueItems": unique_items,
    }

    def with_deadline(keyword: Keyword) -> Keyword:
        # Alternatives inside alternatives take exponential time, and every step of it calls a keyword.
        def check_deadline_first(*arguments: Any) -> Iterator[Any]:
            _deadline.check()
            return keyword(*arguments)

        return check_deadline_first

    return {name: with_deadline(keyword) for name, keyword in safe.items() if name in keywords}


def json_key(value: Any) -> Hashable:
    """Return a key that only values which are equal in JSON share: 1 and 1.0, but not 1 and true."""
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value).items()
        return "object", frozenset((name, json_key(inner)) for name, inner in members)
    if isinstance(value, list):
        return "array", tuple(map(json_key, cast("list[Any]", value)))
    if isinstance(value, bool):
        return "boolean", value
    return isinstance(value, str), value


def _matches(pattern: str, text: str) -> bool:
    return search(compiled(pattern), text, PATTERN_SECONDS)
