"""Checks of JSON: that it is some, and that it has a given shape."""

import json
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NoReturn

from assay.checks.base import BuiltinCheck, unmet
from assay.checks.fields import Flag, Seconds
from assay.checks.validator import first_error, place, validator_of
from assay.errors import RubricError
from assay.messages import completion_text
from assay.parsers import extract_code
from assay.parsers.json_spans import json_spans
from assay.report import Score
from assay.types import Messages


@dataclass(frozen=True)
class JsonValid(BuiltinCheck):
    """The text is JSON; with `fenced`, the last fenced block may be it instead.

    A block marked `json` goes before one that is not.

    >>> JsonValid()('Here it is:\\n```json\\n{"a": 1}\\n```')
    True
    >>> JsonValid()('{"a": 1').reason
    "no JSON: Expecting ',' delimiter: line 1 column 8 (char 7)"
    """

    fenced: Flag = True

    def __call__(self, completion: Messages) -> bool | Score:
        try:
            read_json(completion_text(completion), fenced=self.fenced)
        except ValueError as error:
            return unmet(f"no JSON: {error}")
        except RecursionError:
            return True
        return True


@dataclass(frozen=True)
class JsonSchema(BuiltinCheck):
    """The text is JSON, as for `JsonValid`, and fits the JSON Schema `schema`.

    References outside the schema are never fetched: such a schema is refused. A comparison that takes
    longer than `timeout_seconds` of work is an error, never a no.

    >>> check = JsonSchema({"type": "object", "required": ["verdict"]})
    >>> check('{"score": 3}').reason
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

    def __call__(self, completion: Messages) -> bool | Score:
        try:
            value = read_json(completion_text(completion), fenced=self.fenced)
        except ValueError as error:
            return unmet(f"no JSON: {error}")
        except RecursionError:
            raise ValueError(_TOO_DEEP) from None
        try:
            first = first_error(self._validator, value, self.timeout_seconds)
        except RecursionError:
            raise ValueError(_TOO_DEEP) from None
        return first is None or unmet(f"at {place(first)}: {first.message:.300}")


_TOO_DEEP = "the JSON is nested too deep to compare with the schema"


def read_json(text: str, *, fenced: bool) -> Any:
    """The JSON that a text is, or that its last fenced block is; raises `ValueError` without one.

    Raises `RecursionError` when it is JSON, and nested too deep to be read.
    """
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
        if json_spans(whole) != [(0, len(whole))]:
            raise ValueError("its many brackets do not pair up") from None
        raise


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
