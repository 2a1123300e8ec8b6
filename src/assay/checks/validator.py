"""JSON Schema validators that fetch nothing, and whose patterns cannot hang."""

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Any, TypeAlias

from assay.checks.pattern import compiled, search
from assay.errors import MissingExtraError, RubricError

Keyword: TypeAlias = Callable[[Any, Any, Any, Any], Iterator[Any]]
"""How `jsonschema` asks about one keyword: validator, its value, the instance, the schema."""

PATTERN_SECONDS = 1.0
"""How long one match of a schema's pattern may take."""


def validator_of(schema: Any) -> Any:
    """A `jsonschema` validator for a schema, or an error that says what is wrong with it."""
    try:
        from jsonschema.exceptions import SchemaError
    except ImportError:
        raise MissingExtraError("json_schema", package="jsonschema", extra="checks") from None
    try:
        return _built(schema)
    except SchemaError as error:
        raise RubricError(
            f"json_schema: the schema is wrong at {place(error)}: {error.message:.300}"
        ) from None
    except RecursionError:
        raise RubricError("json_schema: the schema is nested too deep") from None


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
            raise RubricError(
                f"json_schema: {reference!r} is not in the schema, and nothing is fetched: "
                "put it under $defs"
            ) from None
    for inner in resource.subresources():
        _refuse_unresolvable(inner, resolver.in_subresource(inner))


def _safe_keywords(own: Mapping[str, Keyword]) -> dict[str, Keyword]:
    """The keywords that match patterns, with a time limit on each match."""
    from jsonschema.exceptions import ValidationError

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
            instance = {
                key: inner
                for key, inner in instance.items()
                if key not in named and not any(_matches(each, key) for each in patterns)
            }
            schema = {}
        yield from own["additionalProperties"](validator, value, instance, schema)

    return {
        "pattern": pattern,
        "patternProperties": pattern_properties,
        "additionalProperties": additional,
    }


def _matches(pattern: str, text: str) -> bool:
    return search(compiled(pattern), text, PATTERN_SECONDS)
