"""CallableTool: a Python function as a tool that a model may call, with its arguments checked."""

import inspect
import json
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, cast, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError

from assay.envs.docstrings import described_by
from assay.errors import AssayError
from assay.models.base import Tool
from assay.types import State
from assay.wording import did_you_mean, short_repr

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_Parameter = inspect.Parameter


class ToolError(AssayError, ValueError):
    """A function cannot be a tool as it is."""


class ArgumentsError(AssayError, ValueError):
    """A model calls a tool with arguments that it does not take; the message is for the model."""


class CallableTool:
    """A function, and how a model is told of it.

    What it is for comes from its docstring, what it takes from its signature. A parameter that is
    annotated `State` is the rollout's own state, of which the model is told nothing.

    >>> def add(a: int, b: int = 1) -> int:
    ...     '''Add two numbers.'''
    ...     return a + b
    >>> tool = CallableTool(add)
    >>> tool.declared.name, tool.declared.description, tool.arguments('{"a": "2"}', State())
    ('add', 'Add two numbers.', {'a': 2, 'b': 1})
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        if not callable(function):
            raise ToolError(f"{short_repr(function)} is no tool: give a function")
        self.function = function
        self.name = name_of(function)
        self.is_async = _is_async(function)
        self._model, self._state = _read(function, self.name)
        described = described_by(_docstring(function))
        schema = _schema(self._model, described.arguments, self.name)
        self.declared = Tool(self.name, described.purpose, json.dumps(schema))

    def arguments(self, given: str, state: State) -> dict[str, Any]:
        """The arguments that a model gives, as JSON, made into what the function takes.

        Raises `ArgumentsError`, with a message for the model.
        """
        try:
            found: object = json.loads(given) if given.strip() else {}
        except (ValueError, RecursionError) as error:
            raise ArgumentsError(f"the arguments are no JSON: {error}") from None
        if not isinstance(found, dict):
            raise ArgumentsError(
                f"the arguments are {short_repr(found)}: give an object, name to value"
            )
        try:
            read = self._model.model_validate(found)
        except ValidationError as error:
            names = list(self._model.model_fields)
            raise ArgumentsError(_complaint(error, names)) from None
        values = {name: getattr(read, field) for field, name in self._names().items()}
        values |= read.__pydantic_extra__ or {}
        return values | dict.fromkeys(self._state, state)

    def _names(self) -> dict[str, str]:
        fields = self._model.model_fields
        return {field: info.alias or field for field, info in fields.items()}


def name_of(function: Any) -> str:
    """What a tool is called."""
    while isinstance(function, partial):
        function = cast("partial[Any]", function).func
    name = getattr(function, "__name__", None) or getattr(function, "name", None)
    name = name if isinstance(name, str) else type(function).__name__
    if not _NAME.fullmatch(name):
        raise ToolError(
            f"a tool is called {name!r}: give it a name of at most 64 letters, digits, - and _"
        )
    return name


def _is_async(function: Any) -> bool:
    while isinstance(function, partial):
        function = cast("partial[Any]", function).func
    inner = getattr(function, "__call__", None)  # noqa: B004 - the method itself is wanted
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(inner)


def _docstring(function: Any) -> str | None:
    while isinstance(function, partial):
        function = cast("partial[Any]", function).func
    if inspect.isroutine(function):
        return inspect.getdoc(function)
    return getattr(function, "description", None) or inspect.getdoc(function)


def _read(function: Callable[..., Any], name: str) -> tuple[type[BaseModel], tuple[str, ...]]:
    """A record of what a function takes by name, and the parameters that take the state."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError) as error:
        raise ToolError(f"tool {name!r} has no signature to read ({error}): wrap it") from None
    hints = _hints(function)
    fields: dict[str, Any] = {}
    state: list[str] = []
    takes_more = False
    for parameter in parameters:
        kind = hints.get(parameter.name, Any)
        if parameter.kind in (_Parameter.POSITIONAL_ONLY, _Parameter.VAR_POSITIONAL):
            raise ToolError(
                f"tool {name!r} takes {parameter} by position, and models name their arguments: "
                "wrap it in a function that names them"
            )
        if parameter.kind is _Parameter.VAR_KEYWORD:
            takes_more = True
        elif kind is State:
            state.append(parameter.name)
        else:
            default = ... if parameter.default is parameter.empty else parameter.default
            # A field of its own name, since a model of records has names that it keeps to itself.
            fields[f"argument_{parameter.name}"] = (kind, Field(default, alias=parameter.name))
    config = ConfigDict(
        extra="allow" if takes_more else "forbid", arbitrary_types_allowed=False, defer_build=False
    )
    try:
        return create_model(name, __config__=config, **fields), tuple(state)
    except (PydanticSchemaGenerationError, PydanticUserError) as error:
        first = str(error).splitlines()[0]
        raise ToolError(f"tool {name!r} takes something that JSON cannot hold: {first}") from None


def _hints(function: Any) -> Mapping[str, Any]:
    while isinstance(function, partial):
        function = cast("partial[Any]", function).func
    if not inspect.isroutine(function) and not inspect.isclass(function):
        function = type(function).__call__
    try:
        return get_type_hints(function, include_extras=True)
    except (NameError, TypeError) as error:
        raise ToolError(
            f"tool {name_of(function)!r} has an annotation that cannot be read: {error}"
        ) from None


def _schema(model: type[BaseModel], words: Mapping[str, str], name: str) -> dict[str, Any]:
    try:
        schema = model.model_json_schema(by_alias=True)
    except PydanticUserError as error:
        first = str(error).splitlines()[0]
        raise ToolError(f"tool {name!r} takes something that JSON cannot hold: {first}") from None
    untitled = _untitled(schema)
    for argument, described in words.items():
        if argument in untitled.get("properties", {}) and described:
            untitled["properties"][argument].setdefault("description", described)
    return {"type": "object", "properties": untitled.pop("properties", {}), **untitled}


def _untitled(schema: Any) -> Any:
    """Without the titles that are only names said again."""
    if isinstance(schema, list):
        return [_untitled(part) for part in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    named = cast("dict[str, Any]", schema)
    return {
        key: {name: _untitled(part) for name, part in value.items()}
        if key in ("properties", "$defs")
        else _untitled(value)
        for key, value in named.items()
        if key != "title" or not isinstance(value, str)
    }


def _complaint(error: ValidationError, names: list[str]) -> str:
    """What is wrong with arguments, in a sentence for the model."""
    known = [name.removeprefix("argument_") for name in names]
    complaints: list[str] = []
    for problem in error.errors(include_url=False)[:3]:
        where = ".".join(map(str, problem["loc"]))
        if problem["type"] == "missing" and len(problem["loc"]) == 1:
            complaints.append(f"argument {where!r} is missing")
        elif problem["type"] == "extra_forbidden" and len(problem["loc"]) == 1:
            complaints.append(f"there is no argument {where!r}: {did_you_mean(where, known)}")
        else:
            complaints.append(
                f"argument {where!r} is {short_repr(problem['input'])}: {problem['msg']}"
            )
    return "; ".join(complaints)
