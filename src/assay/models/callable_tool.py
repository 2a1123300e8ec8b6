"""Describe Python functions to a model as tools, check the arguments it gives, and write what was called as messages."""

import inspect
import json
import re
from collections.abc import Callable, Sequence
from functools import partial, update_wrapper
from typing import Any, cast, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError
from pydantic.json_schema import GenerateJsonSchema

from assay.errors import AssayError, import_extra
from assay.models.model import Reply, Tool
from assay.types import State
from assay.wording import did_you_mean, short_repr


def described_by(docstring: str | None) -> tuple[str, dict[str, str]]:
    """The words of a docstring about a function, and about each of its arguments."""
    text = inspect.cleandoc(docstring or "").strip()
    if "\n" not in text:
        return text, {}
    what = "Reading the docstring of a tool"
    found = import_extra("docstring_parser", what, package="docstring-parser", extra="envs").parse(
        text
    )
    words = {each.arg_name: " ".join((each.description or "").split()) for each in found.params}
    arguments = {
        name.lstrip("*"): said
        for names, said in words.items()
        for name in re.split(r"\s*,\s*", names)
    }
    return (found.description or "").strip(), arguments


_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_Parameter = inspect.Parameter


class ToolError(AssayError, ValueError):
    """A function cannot be a tool as it is."""


class ArgumentsError(AssayError, ValueError):
    """A model calls a tool with arguments that it does not take; the message is for the model."""


class CallableTool:
    """A function, told to a model by its docstring and signature; a parameter annotated `State` gets the state."""

    def __init__(self, function: Callable[..., Any], hidden: Sequence[str] = ()) -> None:
        """The model is not told of the `hidden` arguments."""
        if not callable(function):
            raise ToolError(f"{short_repr(function)} is no tool: give a function")
        self.function = function
        self.name = name_of(function)
        inner = _unwrapped(function)
        call = getattr(inner, "__call__", None)  # noqa: B004 - the method itself is wanted
        self.is_async = inspect.iscoroutinefunction(inner) or inspect.iscoroutinefunction(call)
        self._model, self._state, schema = _read(function, self.name, hidden)
        own = None if inspect.isroutine(inner) else getattr(inner, "description", None)
        purpose, about = described_by(own or inspect.getdoc(inner))
        properties: dict[str, Any] = schema.pop("properties", {})
        for argument in properties.keys() & about.keys():
            if said := about[argument]:
                properties[argument].setdefault("description", said)
        schema = {"type": "object", "properties": properties, **schema}
        self.declared = Tool(self.name, purpose, json.dumps(schema))

    def arguments(self, given: str, state: State) -> dict[str, Any]:
        """Check the arguments that a model gives as JSON; an `ArgumentsError` has a message for the model."""
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
            raise ArgumentsError(_complaint(error, list(self._model.model_fields))) from None
        values = {
            info.alias or field: getattr(read, field)
            for field, info in self._model.model_fields.items()
        }
        values |= read.__pydantic_extra__ or {}
        return values | dict.fromkeys(self._state, state)


def _unwrapped(function: Any) -> Any:
    while isinstance(function, partial):
        function = cast("partial[Any]", function).func
    return function


def name_of(function: Any) -> str:
    function = _unwrapped(function)
    name = getattr(function, "__name__", None) or getattr(function, "name", None)
    name = name if isinstance(name, str) else type(function).__name__
    if not _NAME.fullmatch(name):
        raise ToolError(
            f"a tool is called {name!r}: give it a name of at most 64 letters, digits, - and _"
        )
    return name


def _read(
    function: Callable[..., Any], name: str, hidden: Sequence[str]
) -> tuple[type[BaseModel], tuple[str, ...], dict[str, Any]]:
    """A record of what a function takes by name, the parameters that take the state, and the schema of the record."""
    inner = _unwrapped(function)
    annotated = (
        inner if inspect.isroutine(inner) or inspect.isclass(inner) else type(inner).__call__
    )
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError) as error:
        raise ToolError(f"tool {name!r} has no signature to read ({error}): wrap it") from None
    if hidden:
        # What is hidden may have an annotation that cannot be read, as of a name that is imported for type checkers.
        shown = update_wrapper(lambda: None, cast("Any", annotated))
        shown.__annotations__ = {
            k: v for k, v in annotated.__annotations__.items() if k not in hidden
        }
        annotated = shown
    try:
        hints = get_type_hints(annotated, include_extras=True)
    except (NameError, TypeError) as error:
        raise ToolError(f"tool {name!r} has an annotation that cannot be read: {error}") from None
    fields: dict[str, Any] = {}
    state: list[str] = []
    takes_more = False
    for parameter in (each for each in parameters if each.name not in hidden):
        kind = hints.get(parameter.name, Any)
        if parameter.kind in (_Parameter.POSITIONAL_ONLY, _Parameter.VAR_POSITIONAL):
            told = f"tool {name!r} takes {parameter} by position, and models name their arguments"
            raise ToolError(f"{told}: wrap it in a function that names them")
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
        model = create_model(name, __config__=config, **fields)
        schema = model.model_json_schema(by_alias=True, schema_generator=_Untitled)
    except (PydanticSchemaGenerationError, PydanticUserError) as error:
        first = str(error).splitlines()[0]
        raise ToolError(f"tool {name!r} takes something that JSON cannot hold: {first}") from None
    for node in (schema, *schema.get("$defs", {}).values()):
        node.pop("title", None)
    return model, tuple(state), schema


class _Untitled(GenerateJsonSchema):
    """Leaves out the titles of fields, which are only names said again."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


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


_PARTS = {"text", "image_url", "input_audio"}


def content_of(result: Any) -> Any:
    """What a tool returned, as the content of a message: a text as it is, anything else as JSON."""
    # It may be content already: a list of texts, images and the like.
    parts = cast("Sequence[Any]", result if isinstance(cast("object", result), list) else ())
    if isinstance(result, str) or (
        parts and all(type(p) is dict and p.get("type") in _PARTS for p in parts)
    ):
        return result
    dump = getattr(result, "model_dump", None)
    try:
        return json.dumps(dump(mode="json") if callable(dump) else result, ensure_ascii=False)
    except (TypeError, ValueError):
        return str(result)


def assistant_message(reply: Reply, turn: int) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": reply.text}
    if reply.tool_calls:
        calls = enumerate(reply.tool_calls)
        message["tool_calls"] = [
            call._replace(id=call.id or f"call_{turn}_{n}").written for n, call in calls
        ]
    return message
