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
    """The text is JSON; with `fenced`, the last fenced block may be it instead, one marked `json` before others.

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

    A comparison that takes longer than `timeout_seconds` of work is an error, never a no.

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
        return first is None or Score(False, f"at {place(first)}: {first.message:.300}")


def read_json(text: str, *, fenced: bool) -> Any:
    """Return the JSON of a text or its last fenced block; raises `ValueError`, or `RecursionError` if too deep."""
    try:
        return _loaded(text)
    except ValueError:
        block = None if not fenced else extract_code(text, "json") or extract_code(text)
        if block is None:
            raise
    return _loaded(block)


def _loaded(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except RecursionError:
        whole = text.strip()
        if find_json_spans(whole) != [(0, len(whole))]:
            raise ValueError("its many brackets do not pair up") from None
        raise


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


# How `jsonschema` asks about one keyword: validator, its value, the instance, the schema.
Keyword: TypeAlias = Callable[[Any, Any, Any, Any], Iterator[Any]]

PATTERN_SECONDS = 1.0  # how long one match of a schema's pattern may take


def validator_of(schema: Any) -> Any:
    """A `jsonschema` validator for a schema, or an error that says what is wrong with it."""
    exceptions = import_extra("jsonschema.exceptions", "json_schema")
    try:
        return _built(schema)
    except exceptions.SchemaError as error:
        raise RubricError(
            f"json_schema: the schema is wrong at {place(error)}: {error.message:.300}"
        ) from None
    except RecursionError:
        raise RubricError("json_schema: the schema is nested too deep") from None


class _Deadline(threading.local):
    """Until when this thread may work on one value, by its own processor time: load does not count."""

    end = float("inf")
    seconds = 0.0

    def check(self) -> None:
        if time.thread_time() > self.end:
            told = f"the JSON was still being compared with the schema after {self.seconds:g} s of work"
            advice = "give a larger timeout_seconds, or a schema with fewer alternatives inside alternatives"
            raise TimeoutError(f"{told}: {advice}")


_deadline = _Deadline()


def first_error(validator: Any, value: Any, seconds: float) -> Any:
    """The first thing that is wrong with a value, or None; raises `TimeoutError` after `seconds` of work."""
    _deadline.seconds, _deadline.end = seconds, time.thread_time() + seconds
    return next(validator.iter_errors(value), None)


def place(error: Any) -> str:
    """Where in a value a `jsonschema` error is: `items[2].name`."""
    steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in error.absolute_path)
    return "".join(steps).removeprefix(".")[:200] or "the top"


def _built(schema: Any) -> Any:
    from referencing.jsonschema import DRAFT202012, EMPTY_REGISTRY, specification_with

    validators: Any = import_module("jsonschema.validators")
    specifications: Any = import_module("jsonschema_specifications")
    draft: Any = None if schema in (True, False) else schema.get("$schema")
    known = {"$schema": draft} if isinstance(draft, str) else {}
    kind: Any = validators.validator_for(known, default=validators.Draft202012Validator)
    kind.check_schema(schema)
    if draft is not None:
        # With the mark left in, `$ref: "#"` would go back to the draft's own keywords.
        schema = {key: value for key, value in schema.items() if key != "$schema"}
    dialect = specification_with(kind.META_SCHEMA["$schema"], default=DRAFT202012)
    resource: Any = dialect.create_resource(schema)
    _refuse_unresolvable(resource, specifications.REGISTRY.resolver_with_root(resource))
    safe = validators.extend(kind, _safe_keywords(kind.VALIDATORS))
    # A registry of our own, since the usual one fetches what it does not know.
    return safe(schema, registry=EMPTY_REGISTRY)


def _refuse_unresolvable(resource: Any, resolver: Any) -> None:
    from referencing.exceptions import Unresolvable

    contents: dict[str, Any] = {} if resource.contents in (True, False) else resource.contents
    for reference in (contents.get("$ref"), contents.get("$dynamicRef")):
        try:
            _ = resolver.lookup(reference) if isinstance(reference, str) else None
        except Unresolvable:
            told = f"json_schema: {reference!r} is not in the schema, and nothing is fetched"
            raise RubricError(f"{told}: put it under $defs") from None
    for inner in resource.subresources():
        _refuse_unresolvable(inner, resolver.in_subresource(inner))


def _safe_keywords(own: Mapping[str, Keyword]) -> dict[str, Keyword]:
    """All keywords, each of which looks at the deadline first; patterns have a limit on each match."""
    from jsonschema.exceptions import ValidationError

    # In linear time; `jsonschema` compares each with each.
    def unique_items(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:
        if (
            value
            and validator.is_type(instance, "array")
            and len(set(map(json_key, instance))) < len(instance)
        ):
            yield ValidationError(f"{instance!r} has non-unique elements")

    def pattern(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:
        if validator.is_type(instance, "string") and not _matches(value, instance):
            yield ValidationError(f"{instance!r} does not match {value!r}")

    def pattern_properties(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:
        if validator.is_type(instance, "object"):
            for each, inner in value.items():
                for key in (key for key in instance if _matches(each, key)):
                    yield from validator.descend(instance[key], inner, path=key, schema_path=each)

    def additional(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:
        patterns = schema.get("patternProperties", {})
        if patterns and validator.is_type(instance, "object"):
            named = schema.get("properties", {})
            other = (
                key
                for key in instance
                if key not in named and not any(_matches(p, key) for p in patterns)
            )
            instance, schema = {key: instance[key] for key in other}, {}
        yield from own["additionalProperties"](validator, value, instance, schema)

    safe = {**own, "pattern": pattern, "patternProperties": pattern_properties}
    safe |= {"additionalProperties": additional, "uniqueItems": unique_items}

    def with_deadline(keyword: Keyword) -> Keyword:
        # Alternatives inside alternatives take exponential time, and every step of it is some keyword's.
        def checked(*arguments: Any) -> Iterator[Any]:
            _deadline.check()
            return keyword(*arguments)

        return checked

    return {name: with_deadline(keyword) for name, keyword in safe.items() if name in own}


def json_key(value: Any) -> Hashable:
    """What equal values of JSON share, and no others: 1 and 1.0 do, 1 and true do not."""
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value).items()
        return "object", frozenset((name, json_key(inner)) for name, inner in members)
    if isinstance(value, list):
        return "array", tuple(map(json_key, cast("list[Any]", value)))
    return ("boolean", value) if isinstance(value, bool) else (isinstance(value, str), value)


def _matches(pattern: str, text: str) -> bool:
    return search(compiled(pattern), text, PATTERN_SECONDS)
