"""List the built-in checks by the name they have in rubric files, and make them from what a file says."""

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any, cast

from assay.checks.check import BuiltinCheck
from assay.checks.content import CodeBlock, Contains, MaxWords, MinWords, Regex
from assay.checks.expected import ExactMatch, NumericEqual, OneOf, Similarity
from assay.checks.json_schema import JsonSchema, JsonValid
from assay.checks.math_equal import MathEqual
from assay.checks.refusal import Refusal
from assay.errors import RubricError
from assay.wording import did_you_mean, short_repr

BUILTIN: dict[str, type[BuiltinCheck]] = {
    check.name: check
    for check in (
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
    )
}


def check_of(spec: object) -> BuiltinCheck:
    """The check that a rubric file names: `json_valid`, `{contains: Paris}`, `{max_words: {limit: 9}}`.

    A mapping under the name gives fields by keyword; any other value is the first field, unless
    that is true or false.

    >>> check_of({"max_words": 200})
    MaxWords(limit=200)
    """
    if isinstance(spec, str):
        return _made(_kind(spec), {})
    named: Mapping[Any, Any] = cast("Any", spec) if isinstance(spec, Mapping) else {}
    if len(named) != 1:
        raise RubricError(
            f"check is {short_repr(cast('object', spec))}: give one name, such as json_valid, or one name with its "
            "fields, such as {max_words: 200}"
        )
    ((name, value),) = named.items()
    kind = _kind(name)
    if value is None:
        return _made(kind, {})
    if isinstance(value, Mapping):
        return _made(kind, cast("Mapping[Any, Any]", value))
    lone = kind.lone_field()
    if lone is None:
        known = ", ".join(field.name for field in fields(kind))
        takes = f"its fields by name ({known})" if known else "no fields"
        raise RubricError(f"{name} takes {takes}, and was given {short_repr(value)}")
    return _made(kind, {lone: value})


def _kind(name: object) -> type[BuiltinCheck]:
    if name in BUILTIN:
        return BUILTIN[cast("str", name)]
    raise RubricError(f"there is no built-in check {short_repr(name)}: {did_you_mean(name, BUILTIN)}")


def _made(kind: type[BuiltinCheck], given: Mapping[Any, Any]) -> BuiltinCheck:
    known = {field.name: field for field in fields(kind)}
    for name in given:
        if name not in known:
            raise RubricError(
                f"{kind.name} has no field {short_repr(name)}: {did_you_mean(name, known)}"
                if known
                else f"{kind.name} takes no fields, and was given {short_repr(name)}"
            )
    for name, field in known.items():
        if field.default is MISSING and name not in given:
            raise RubricError(
                f"{kind.name} needs {name!r}: write {{{kind.name}: {{{name}: ...}}}} (its fields: {', '.join(known)})"
            )
    return kind(**given)
