"""List the built-in checks by the name they have in rubric files, and make them from what a file says."""

import re
from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any, cast

from assay.checks.calls import Called, FinalState, NoRepeatedCalls, RecoversFromErrors, Trajectory
from assay.checks.check import BuiltinCheck
from assay.checks.content import CodeBlock, Contains, MaxWords, MinWords, Refusal, Regex
from assay.checks.expected import ExactMatch, NumericEqual, OneOf, Similarity
from assay.checks.json_schema import JsonSchema, JsonValid
from assay.checks.math_equal import MathEqual
from assay.checks.template import CheckTemplate, make_check
from assay.errors import RubricError
from assay.wording import format_value, suggest_word

_LISTED = (
    ExactMatch,
    OneOf,
    NumericEqual,
    MathEqual,
    Contains,
    Regex,
    MaxWords,
    MinWords,
    CodeBlock,
    JsonValid,
    JsonSchema,
    Similarity,
    Refusal,
    Called,
    Trajectory,
    NoRepeatedCalls,
    RecoversFromErrors,
    FinalState,
)
BUILTIN: dict[str, type[BuiltinCheck]] = {check.name: check for check in _LISTED}


def check_of(spec: object) -> BuiltinCheck | CheckTemplate:
    """Return the check that a rubric file names: `json_valid`, `{contains: Paris}`, `{max_words: {limit: 9}}`.

    With placeholders in its arguments, such as `{contains: "{city}"}`, it is a `CheckTemplate`.

    >>> check_of({"max_words": 200})
    MaxWords(limit=200)
    """
    name, value = _read_spec(spec)
    if name not in BUILTIN:
        match = re.fullmatch(r"(\w+)[\s(=]+(.+?)\)?", str(name), re.DOTALL)
        if match is not None and match[1] in BUILTIN:
            example = f"{{{match[1]}: {match[2]:.80}}}"
            raise RubricError(f"check is {format_value(name)}: write it in braces, {example}")
        raise RubricError(
            f"there is no built-in check {format_value(name)}: {suggest_word(name, BUILTIN)}"
        )
    kind = BUILTIN[name]
    arguments = _read_arguments(kind, value)
    _check_fields(kind, arguments)
    return make_check(kind, arguments)


def _read_spec(spec: object) -> tuple[Any, Any]:
    """Return the name of a check, and the value behind it; None if there is none."""
    if isinstance(spec, str):
        return spec, None
    if isinstance(spec, Mapping):
        items = list(cast("Mapping[Any, Any]", spec).items())
        if len(items) == 1:
            return items[0]
    raise RubricError(
        f"check is {format_value(cast('object', spec))}: give one name, such as json_valid, or "
        "one name with its fields, such as {max_words: 200}"
    )


def _read_arguments(kind: type[BuiltinCheck], value: Any) -> Mapping[Any, Any]:
    """Return the arguments of a check; a value that is not a mapping is that of its lone field."""
    if value is None:
        return {}
    if isinstance(value, Mapping):
        return cast("Mapping[Any, Any]", value)
    field_name = kind.lone_field()
    if field_name is not None:
        return {field_name: value}
    names = [field.name for field in fields(kind)]
    needed = f"its fields by name ({', '.join(names)})" if names else "no fields"
    raise RubricError(f"{kind.name} takes {needed}, and was given {format_value(value)}")


def _check_fields(kind: type[BuiltinCheck], arguments: Mapping[Any, Any]) -> None:
    """Raise `RubricError` for an unknown field, or for a missing one."""
    known = {field.name: field for field in fields(kind)}
    for name in arguments:
        if not known:
            raise RubricError(f"{kind.name} takes no fields, and was given {format_value(name)}")
        if name not in known:
            raise RubricError(
                f"{kind.name} has no field {format_value(name)}: {suggest_word(name, known)}"
            )
    for name, field in known.items():
        if field.default is MISSING and name not in arguments:
            raise RubricError(
                f"{kind.name} needs {name!r}: write {{{kind.name}: {{{name}: ...}}}} "
                f"(its fields: {', '.join(known)})"
            )
