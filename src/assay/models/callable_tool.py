"""Describe Python functions to a model as tools, and check the arguments of its calls."""

import inspect
import json
import re
from collections.abc import Callable, Sequence
from functools import partial, update_wrapper
from typing import Any, NamedTuple, cast, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError
from pydantic.json_schema import GenerateJsonSchema

from assay.errors import AssayError, import_extra
from assay.models.model import Reply, Tool
from assay.types import State
from assay.wording import format_value, suggest_word

MAX_PROBLEMS = 3  # problems with arguments that are reported to a model at once
_TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
# Put before the names of parameters, which become fields of a pydantic model: pydantic reserves
# names such as `copy` and `model_config`.
_FIELD_PREFIX = "argument_"
# The types of parts that a tool may return as the content of a message.
_CONTENT_PARTS = frozenset({"text", "image_url", "input_audio"})


class ToolError(AssayError, ValueError):
    """A function cannot be used as a tool."""


class ArgumentsError(AssayError, ValueError):
    """A model called a tool with wrong arguments; the message is written for the model."""


class CallableTool:
    """A function that a model may call, described by its docstring and its signature.

    Parameters annotated with `State` receive the state of the rollout and are not shown to the
    model.
    """

    def __init__(self, function: Callable[..., Any], hidden: Sequence[str] = ()) -> None:
        """Read from the signature and the docstring of `function` how models may call it.

        `hidden` names further parameters that are not shown to the model. Raise `ToolError` if the
        function cannot be a tool.
        """
        if not callable(function):
            raise ToolError(f"{format_value(function)} is not a tool: give a function")
        self.function = function
        self.name = get_tool_name(function)
        inner = _unwrap_partials(function)
        # A callable object is async if its method is.
        call_method = getattr(inner, "__call__", None)  # noqa: B004 - the method itself is needed
        self.is_async = inspect.iscoroutinefunction(inner) or inspect.iscoroutinefunction(
            call_method
        )
        signature = _read_signature(function, self.name, hidden)
        self._arguments_model = signature.arguments_model
        self._state_parameters = signature.state_parameters
        description, argument_descriptions = parse_docstring(_find_docstring(inner))
        schema = _describe_arguments(self._arguments_model, self.name, argument_descriptions)
        self.declared = Tool(self.name, description, json.dumps(schema))

    def arguments(self, arguments_json: str, state: State) -> dict[str, Any]:
        """Return the arguments for a call from the JSON that a model wrote.

        An empty text means no arguments. Raise `ArgumentsError` if they are wrong.
        """
        values: object = {}
        if arguments_json.strip():
            try:
                values = json.loads(arguments_json)
            except (ValueError, RecursionError) as error:
                raise ArgumentsError(f"the arguments are not JSON: {error}") from None
        if not isinstance(values, dict):
            raise ArgumentsError(
                f"the arguments are {format_value(values)}: give an object that maps names to values"
            )
        try:
            validated = self._arguments_model.model_validate(values)
        except ValidationError as error:
            raise ArgumentsError(_describe_problems(error, self._arguments_model)) from None
        arguments: dict[str, Any] = {}
        for field in self._arguments_model.model_fields:
            arguments[field.removeprefix(_FIELD_PREFIX)] = getattr(validated, field)
        # The arguments for `**keywords`, if the function has that.
        arguments |= validated.__pydantic_extra__ or {}
        for parameter in self._state_parameters:
            arguments[parameter] = state
        return arguments


def get_tool_name(function: Any) -> str:
    """Return the name under which a function is offered as a tool.

    Raise `ToolError` if providers would refuse it.
    """
    inner = _unwrap_partials(function)
    name = getattr(inner, "__name__", None) or getattr(inner, "name", None)
    if not isinstance(name, str):
        name = type(inner).__name__
    if not _TOOL_NAME.fullmatch(name):
        raise ToolError(
            f"a tool is called {name!r}: give it a name of at most 64 letters, digits, - and _"
        )
    return name


def _unwrap_partials(function: Any) -> Any:
    """Return the function inside `functools.partial` objects; any other function unchanged."""
    while isinstance(function, partial):
        function = cast("partial[Any]", function).func
    return function


def _find_docstring(function: Any) -> str | None:
    """Return the docstring of a function.

    A callable object may have an attribute `description` instead.
    """
    if not inspect.isroutine(function):
        description = getattr(function, "description", None)
        if description:
            return description
    return inspect.getdoc(function)


def parse_docstring(docstring: str | None) -> tuple[str, dict[str, str]]:
    """Return the description of a function, and those of its arguments by name."""
    text = inspect.cleandoc(docstring or "").strip()
    if "\n" not in text:
        return text, {}
    docstring_parser = import_extra(
        "docstring_parser",
        "Reading the docstring of a tool",
        package="docstring-parser",
    )
    parsed = docstring_parser.parse(text)
    argument_descriptions: dict[str, str] = {}
    for parameter in parsed.params:
        description = " ".join((parameter.description or "").split())
        for name in parameter.arg_name.split(","):  # NumPy's style allows "x, y : int"
            argument_descriptions[name.strip().lstrip("*")] = description
    return (parsed.description or "").strip(), argument_descriptions


class _Signature(NamedTuple):
    """What a function takes by name."""

    arguments_model: type[BaseModel]  # validates the arguments that a model gives
    state_parameters: tuple[str, ...]  # the parameters that receive the state of the rollout


def _read_signature(function: Callable[..., Any], name: str, hidden: Sequence[str]) -> _Signature:
    """Return what a tool takes, except for the parameters named in `hidden`.

    Raise `ToolError` for a parameter that a model cannot give.
    """
    parameters = _read_parameters(function, name)
    type_hints = _read_type_hints(function, name, hidden)
    fields: dict[str, Any] = {}
    state_parameters: list[str] = []
    takes_any_keyword = False
    for parameter in parameters:
        if parameter.name in hidden:
            continue
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL):
            raise ToolError(
                f"tool {name!r} takes {parameter} by position, but models give arguments by name: "
                "wrap it in a function that names them"
            )
        annotation = type_hints.get(parameter.name, Any)
        if parameter.kind is parameter.VAR_KEYWORD:
            takes_any_keyword = True
        elif annotation is State:
            state_parameters.append(parameter.name)
        else:
            fields[_FIELD_PREFIX + parameter.name] = (annotation, _make_field(parameter))
    arguments_model = _make_arguments_model(name, fields, takes_any_keyword=takes_any_keyword)
    return _Signature(arguments_model, tuple(state_parameters))


def _read_parameters(function: Callable[..., Any], name: str) -> list[inspect.Parameter]:
    """Return the parameters of a tool. Raise `ToolError` if Python does not know its signature."""
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError) as error:
        raise ToolError(
            f"the signature of tool {name!r} cannot be read ({error}): wrap it in a function"
        ) from None


def _make_field(parameter: inspect.Parameter) -> Any:
    """Return the pydantic field of a parameter, which models give by the parameter's name."""
    if parameter.default is parameter.empty:
        return Field(alias=parameter.name)
    return Field(parameter.default, alias=parameter.name)


def _make_arguments_model(
    name: str, fields: dict[str, Any], *, takes_any_keyword: bool
) -> type[BaseModel]:
    """Return a pydantic model with these fields, by which the arguments of calls are checked."""
    config = ConfigDict(
        extra="allow" if takes_any_keyword else "forbid",
        arbitrary_types_allowed=False,
        defer_build=False,
    )
    try:
        return create_model(name, __config__=config, **fields)
    except (PydanticSchemaGenerationError, PydanticUserError) as error:
        raise _not_json_error(name, error) from None


def _read_type_hints(
    function: Callable[..., Any], name: str, hidden: Sequence[str]
) -> dict[str, Any]:
    """Return the annotations of the parameters that are not hidden."""
    annotated = _unwrap_partials(function)
    is_callable_object = not inspect.isroutine(annotated) and not inspect.isclass(annotated)
    if is_callable_object:
        annotated = type(annotated).__call__
    if hidden:
        annotated = _without_annotations(annotated, hidden)
    try:
        return get_type_hints(annotated, include_extras=True)
    except (NameError, TypeError) as error:
        raise ToolError(f"tool {name!r} has an annotation that cannot be read: {error}") from None


def _without_annotations(function: Any, hidden: Sequence[str]) -> Any:
    """Return a stand-in for a function, which has no annotations for the hidden parameters.

    `get_type_hints` fails if it cannot evaluate one of the annotations. That of a hidden parameter
    may be a name that only type checkers import.
    """

    def stand_in() -> None:
        """Never called: only its annotations are read."""

    update_wrapper(stand_in, function)
    annotations: dict[str, Any] = {}
    for parameter, annotation in function.__annotations__.items():
        if parameter not in hidden:
            annotations[parameter] = annotation
    stand_in.__annotations__ = annotations
    return stand_in


def _describe_arguments(
    arguments_model: type[BaseModel], name: str, descriptions: dict[str, str]
) -> dict[str, Any]:
    """Return the JSON schema of a tool's arguments, with the descriptions of its docstring.

    The titles that pydantic adds are left out, because they only repeat names.
    """
    try:
        schema = arguments_model.model_json_schema(
            by_alias=True, schema_generator=_SchemaWithoutFieldTitles
        )
    except (PydanticSchemaGenerationError, PydanticUserError) as error:
        raise _not_json_error(name, error) from None
    # Only the titles of objects are left, which the generator cannot leave out.
    for object_schema in (schema, *schema.get("$defs", {}).values()):
        object_schema.pop("title", None)
    properties: dict[str, Any] = schema.pop("properties", {})
    for argument, description in descriptions.items():
        if description and argument in properties:
            properties[argument].setdefault("description", description)
    return {"type": "object", "properties": properties, **schema}


def _not_json_error(name: str, error: Exception) -> ToolError:
    """Return the error for a tool with a parameter that cannot be described in JSON."""
    first_line = str(error).splitlines()[0]
    return ToolError(f"tool {name!r} takes a value that JSON cannot hold: {first_line}")


class _SchemaWithoutFieldTitles(GenerateJsonSchema):
    """Leaves out the titles of fields."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def _describe_problems(error: ValidationError, arguments_model: type[BaseModel]) -> str:
    """Return what is wrong with the arguments of a call, in a sentence for the model."""
    known_names = [field.removeprefix(_FIELD_PREFIX) for field in arguments_model.model_fields]
    sentences: list[str] = []
    for problem in error.errors(include_url=False)[:MAX_PROBLEMS]:
        path = ".".join(map(str, problem["loc"]))
        is_top_level = len(problem["loc"]) == 1
        if problem["type"] == "missing" and is_top_level:
            sentences.append(f"argument {path!r} is missing")
        elif problem["type"] == "extra_forbidden" and is_top_level:
            sentences.append(f"there is no argument {path!r}: {suggest_word(path, known_names)}")
        else:
            value = format_value(problem["input"])
            sentences.append(f"argument {path!r} is {value}: {problem['msg']}")
    return "; ".join(sentences)


def result_content(result: Any) -> Any:
    """Return the result of a tool as the content of a message.

    A text, or a list of parts, is returned as it is; anything else is written as JSON.
    """
    if isinstance(result, str) or _is_list_of_parts(result):
        return result
    try:
        dump = getattr(result, "model_dump", None)
        value = dump(mode="json") if callable(dump) else result
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        return str(result)


def _is_list_of_parts(result: Any) -> bool:
    """Return True if a result is a list of texts, images and audio clips as OpenAI writes them."""
    if not isinstance(result, list) or not result:
        return False
    for part in cast("list[Any]", result):
        if type(part) is not dict:
            return False
        if cast("dict[str, Any]", part).get("type") not in _CONTENT_PARTS:
            return False
    return True


def assistant_message(reply: Reply, turn: int) -> dict[str, Any]:
    """Return a reply as a message.

    Tool calls without an id get one, from the turn and their position.
    """
    message: dict[str, Any] = {"role": "assistant", "content": reply.text}
    if reply.tool_calls:
        written_calls: list[dict[str, Any]] = []
        for index, call in enumerate(reply.tool_calls):
            call_id = call.id or f"call_{turn}_{index}"
            written_calls.append(call._replace(id=call_id).openai_entry)
        message["tool_calls"] = written_calls
    return message
