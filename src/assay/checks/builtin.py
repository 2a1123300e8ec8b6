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
    named: Mapping[Any, Any] = {spec: None} if isinstance(spec, str) else cast("Any", spec)
    if not isinstance(spec, str | Mapping) or len(named) != 1:
        advice = "give one name, such as json_valid, or one name with its fields, such as {max_words: 200}"
        raise RubricError(f"check is {format_value(cast('object', spec))}: {advice}")
    ((name, value),) = named.items()
    if name not in BUILTIN:
        match = re.fullmatch(r"(\w+)[\s(=]+(.+?)\)?", str(name), re.DOTALL)
        if match is not None and match[1] in BUILTIN:
            example = f"{{{match[1]}: {match[2]:.80}}}"
            raise RubricError(f"check is {format_value(name)}: write it in braces, {example}")
        raise RubricError(
            f"there is no built-in check {format_value(name)}: {suggest_word(name, BUILTIN)}"
        )
    kind = BUILTIN[name]
    known = {field.name: field for field in fields(kind)}
    lone, listed = kind.lone_field(), ", ".join(known)
    given: Mapping[Any, Any] = {} if value is None else value
    if not isinstance(value, Mapping | None):
        if lone is None:
            takes = f"its fields by name ({listed})" if known else "no fields"
            raise RubricError(f"{name} takes {takes}, and was given {format_value(value)}")
        given = {lone: value}
    for key in given:
        if not known:
            raise RubricError(f"{name} takes no fields, and was given {format_value(key)}")
        if key not in known:
            raise RubricError(
                f"{name} has no field {format_value(key)}: {suggest_word(key, known)}"
            )
    for key, field in known.items():
        if field.default is MISSING and key not in given:
            raise RubricError(
                f"{name} needs {key!r}: write {{{name}: {{{key}: ...}}}} (its fields: {listed})"
            )
    return make_check(kind, given)
