"""A CheckFunction calls a reward function with the arguments that its signature names."""

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from inspect import Parameter
from typing import Any, Final, NamedTuple, TypeAlias, cast, get_origin

from assay.errors import SignatureError
from assay.messages import as_messages, get_role, visible_text
from assay.reasoning import THINKING, Thinking
from assay.rollout import ABSENT, OUTPUTS, PLURALS, SINGULAR, Rollout
from assay.wording import suggest_word

# What a check gets for a field that every rollout has, if the rollout leaves it out.
_FIELD_DEFAULTS: Final[Mapping[str, Callable[[], Any]]] = {
    "answer": str,
    "task": lambda: "default",
    "info": dict[str, Any],
}

# Arguments for which the completion must be one that can be read.
_COMPLETION_NAMES: Final = frozenset({"completion", "text", "messages"})
# Arguments of checks of single rollouts, and of group functions.
_SINGLE_NAMES: Final = SINGULAR | {"text"}
_GROUP_NAMES: Final = {**PLURALS, "texts": "text"}
# Arguments that are not looked up among the fields: the state, what is computed from the
# completion, and whether a text check reads reasoning.
_COMPUTED_NAMES: Final = frozenset({"state", "text", "messages", "with_reasoning"})


# Returns a function that takes the same arguments as a check and calls it elsewhere.
WrapFunction: TypeAlias = Callable[[Callable[..., Any]], Callable[..., Any]]


class CheckParameter(NamedTuple):
    """One parameter of a check, and the field of a rollout that is passed for it."""

    name: str
    field: str  # the name itself; for a group function its singular: `completion`
    default: Any  # ABSENT if the parameter has none

    def find_value(self, rollout: Rollout) -> Any:
        """Return the rollout's field or a default for it; ABSENT if there is neither."""
        value = rollout.find(self.field)
        if value is ABSENT:
            value = self.default
        if value is ABSENT and self.field in _FIELD_DEFAULTS:
            value = _FIELD_DEFAULTS[self.field]()
        return value


class CheckFunction:
    """A reward function that can be called about one rollout, or about a group of rollouts.

    The constructor raises SignatureError if the arguments can never be supplied.
    """

    def __init__(
        self, function: Callable[..., Any], name: str, thinking: Thinking | None = None
    ) -> None:
        """`thinking` is what the criterion says about reasoning; None if the rubric says it."""
        self.function = function
        self.name = name
        self._thinking = thinking
        signature = _read_signature(function, name)
        # Arguments that a partial has bound already are the caller's choice: they are not passed.
        self._bound_names = _find_bound_names(function, signature)
        parameters = [p for p in signature.parameters.values() if p.name not in self._bound_names]
        named = [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
        self.takes_kwargs = any(p.kind is p.VAR_KEYWORD for p in parameters)
        takes_only_args = bool(parameters) and not named and not self.takes_kwargs
        if takes_only_args and not self._bound_names:  # a partial may have all it needs
            raise SignatureError(
                f"check {name!r} takes only *args, but arguments are passed by name: "
                "name them, for example `completion`"
            )
        _refuse_unsuppliable(named, name)
        self.is_async = _is_async(function)
        self.is_group = _is_group(signature, {p.name for p in named}, name)
        # A group function that does not compare its rollouts says so by `independent = True`.
        self.compares = self.is_group and getattr(function, "independent", False) is not True
        self.parameters = {p.name: self._describe_parameter(p) for p in named}
        self._field_names = [name for name in self.parameters if name not in _COMPUTED_NAMES]
        self._computed_names = [name for name in self.parameters if name in _COMPUTED_NAMES]
        self._positional_names = [p.name for p in named if p.kind is p.POSITIONAL_ONLY]
        # Whether all arguments can be passed as keywords just as they are.
        self._takes_keywords_only = not (self._positional_names or self._bound_names)

    def _describe_parameter(self, parameter: Parameter) -> CheckParameter:
        name = parameter.name
        field = _GROUP_NAMES.get(name, name) if self.is_group else name
        return CheckParameter(name, field, parameter.default)

    def wrap(self, make_function: WrapFunction, *, is_async: bool) -> None:
        """Call what `make_function` makes of the function, instead of the function itself."""
        self.function = make_function(self.function)
        self.is_async = is_async

    @property
    def reads_completion(self) -> bool:
        """Whether it needs a completion that can be read."""
        fields = [parameter.field for parameter in self.parameters.values()]
        return self.takes_kwargs or not _COMPLETION_NAMES.isdisjoint(fields)

    def call(self, rollout: Rollout, class_objects: Mapping[str, Any]) -> Any:
        """Call the function about one rollout.

        A class object takes precedence over a field of the same name. Raises SignatureError if
        the rollout has no value for an argument.
        """
        arguments: dict[str, Any] = {}
        if self.takes_kwargs:
            # Everything is passed; Python itself complains if a named argument is missing.
            arguments = rollout.all_fields()
            arguments["state"] = rollout.state
            arguments.update(class_objects)
        else:
            fields = rollout.fields
            for name in self._field_names:
                if name in fields and name not in class_objects:  # the usual case, without a call
                    arguments[name] = fields[name]
                else:
                    arguments[name] = self._find_argument(name, rollout, class_objects)
        for name in self._computed_names:
            arguments[name] = self._find_argument(name, rollout, class_objects)
        if self._takes_keywords_only:
            return self.function(**arguments)
        return self._invoke(arguments)

    def _find_argument(self, name: str, rollout: Rollout, class_objects: Mapping[str, Any]) -> Any:
        """Return a class object, the state, what is made of the completion, a field or a default."""
        if name in class_objects:
            return class_objects[name]
        if name == "state":
            return rollout.state
        value = self._find_value(self.parameters[name], rollout)
        if value is ABSENT:
            raise self._missing_argument_error(name, rollout, class_objects)
        return value

    def _find_value(self, parameter: CheckParameter, rollout: Rollout) -> Any:
        """Return the value for a parameter, or its default; ABSENT if there is neither."""
        field = parameter.field
        if field not in ("text", "messages", "with_reasoning"):
            return parameter.find_value(rollout)
        if field == "with_reasoning":
            return self._shows_reasoning
        completion: Any = rollout.find("completion")
        if completion is ABSENT:
            return parameter.default
        column = rollout.find(field)
        # Some tables call the completion itself `text`.
        if column is not ABSENT and column != completion:
            raise SignatureError(
                f"check {self.name!r} takes {parameter.name!r}, which is computed from the "
                f"completion, but the data have a column {field!r} too: rename the column, or take "
                "`state` "
                "and read it from there"
            )
        if field == "text":
            return visible_text(completion, self._shows_reasoning)
        return as_messages(completion)

    @property
    def _shows_reasoning(self) -> bool:
        return (self._thinking or THINKING.get()) == "shown"

    def _missing_argument_error(
        self,
        name: str,
        rollout: Rollout,
        class_objects: Mapping[str, Any],
        rollout_label: str = "this rollout",
    ) -> SignatureError:
        """Return the error for an argument that a rollout has no value for."""
        columns = sorted({str(column) for column in rollout.fields} - OUTPUTS)
        listed = ", ".join(columns[:30]) or "none"
        if len(columns) > 30:
            listed += ", …"
        field = self.parameters[name].field
        if field in _COMPLETION_NAMES:
            field = "completion"
        advice = suggest_word(field, [*columns, *class_objects])
        if not advice.startswith("did you mean"):
            advice = "add the column, or give the argument a default"
            if field == "completion":
                advice = "add the column, or rename the one with the text that is scored"
                messages = rollout.fields.get("messages")
                if isinstance(messages, list):
                    roles = map(get_role, cast("list[object]", messages))
                    advice = "give the messages as `completion`"
                    if "assistant" not in roles:
                        advice = "its `messages` have no message of the assistant"
        return SignatureError(
            f"check {self.name!r} needs an argument {name!r}, but {rollout_label} has no column "
            f"{field!r} (columns: {listed}): {advice}"
        )

    def _invoke(self, arguments: dict[str, Any]) -> Any:
        """Call a partial, or a function that takes arguments by position only."""
        for name in self._bound_names:
            arguments.pop(name, None)
        positional = [arguments.pop(name) for name in self._positional_names]
        return self.function(*positional, **arguments)

    def call_for_group(self, rollouts: Sequence[Rollout], class_objects: Mapping[str, Any]) -> Any:
        """Call a group function; an argument is a list with one value per rollout.

        An argument is a class object, else the column of a field, else the function's default.
        Raises SignatureError if a rollout has no value for an argument.
        """
        arguments: dict[str, Any] = {}
        if self.takes_kwargs:
            arguments = _make_usual_columns(rollouts)
            arguments.update(class_objects)
        for name, parameter in self.parameters.items():
            if name in class_objects:
                arguments[name] = class_objects[name]
                continue
            if parameter.field == "with_reasoning":
                arguments[name] = self._shows_reasoning
                continue
            field = "completion" if parameter.field in _COMPLETION_NAMES else parameter.field
            has_field = any(rollout.find(field) is not ABSENT for rollout in rollouts)
            # If no rollout has the field, the function uses its own default.
            if has_field or parameter.default is ABSENT:
                arguments[name] = self._make_column(parameter, rollouts, class_objects)
        return self._invoke(arguments)

    def _make_column(
        self,
        parameter: CheckParameter,
        rollouts: Sequence[Rollout],
        class_objects: Mapping[str, Any],
    ) -> list[Any]:
        """Return the values of an argument; raise SignatureError if a rollout has none."""
        column: list[Any] = []
        for index, rollout in enumerate(rollouts):
            value = self._find_value(parameter, rollout)
            if value is ABSENT:
                raise self._missing_argument_error(
                    parameter.name, rollout, class_objects, f"rollout {index} of the group"
                )
            column.append(value)
        return column

    def find_missing(
        self, rollout: Rollout, class_objects: Mapping[str, Any]
    ) -> SignatureError | None:
        """Return the error about the first argument that a rollout lacks; None if it has all."""
        for name, parameter in self.parameters.items():
            if name not in class_objects and self._find_value(parameter, rollout) is ABSENT:
                return self._missing_argument_error(name, rollout, class_objects)
        return None


def _make_usual_columns(rollouts: Sequence[Rollout]) -> dict[str, Any]:
    """Return the columns of the usual fields by their plural names; a missing value is None."""
    columns: dict[str, Any] = {}
    for plural, field in PLURALS.items():
        parameter = CheckParameter(plural, field, default=ABSENT)
        values = [parameter.find_value(rollout) for rollout in rollouts]
        columns[plural] = [None if value is ABSENT else value for value in values]
    return columns


def _read_signature(function: Callable[..., Any], name: str) -> inspect.Signature:
    """Return the signature of a check; raise SignatureError if it cannot be read."""
    try:
        return inspect.signature(function)
    except (TypeError, ValueError) as error:
        raise SignatureError(
            f"check {name!r} has no signature that can be read ({error}): "
            f"wrap it, for example `def {name}(completion): return ...`"
        ) from None


def _find_bound_names(function: Any, signature: inspect.Signature) -> frozenset[str]:
    """Return the names of the arguments that a partial has bound."""
    if not isinstance(function, partial):
        return frozenset()
    names_before = inspect.signature(function.func).parameters.keys()
    bound_by_position = names_before - signature.parameters.keys()
    return frozenset(bound_by_position | function.keywords.keys())


def _is_async(function: Any) -> bool:
    while isinstance(function, partial):
        function = function.func
    if inspect.iscoroutinefunction(function):
        return True
    call_method = getattr(function, "__call__", None)  # noqa: B004 - the method itself is needed
    return inspect.iscoroutinefunction(call_method)


def _refuse_unsuppliable(parameters: Sequence[Parameter], check_name: str) -> None:
    """Raise SignatureError for a parameter that no rollout can supply."""
    for parameter in parameters:
        name = parameter.name
        if name in OUTPUTS:
            # A check that read the outputs of scoring would return another number the second time.
            raise SignatureError(
                f"check {check_name!r} takes {name!r}, which scoring writes: "
                "if you need it, take `state` and read it from there"
            )
        # The name of a positional-only parameter may be arbitrary (`x`), so only the names of the
        # usual fields are trusted.
        if parameter.kind is Parameter.POSITIONAL_ONLY and name not in {*_SINGLE_NAMES, "messages"}:
            raise SignatureError(
                f"check {check_name!r} takes {name!r} by position only, but arguments are passed "
                f"by name: wrap it, for example `lambda completion: {check_name}(completion)`"
            )
        if name == "self" and parameter.default is Parameter.empty:
            raise SignatureError(
                f"check {check_name!r} takes 'self', so it is an unbound method: "
                "pass a bound method (object.method) or a method of the rubric's own class"
            )


def _is_group(signature: inspect.Signature, names: set[str], check_name: str) -> bool:
    """Return whether plural arguments or a `list` return annotation mark a group function."""
    plurals = sorted(names & _GROUP_NAMES.keys())
    singulars = sorted(names & _SINGLE_NAMES)
    returns_list = _is_list_annotation(signature.return_annotation)
    if plurals and singulars:
        raise SignatureError(
            f"check {check_name!r} mixes {singulars[0]!r} (one rollout) with {plurals[0]!r} "
            "(a group of rollouts): take only plurals for a group, "
            "or read a column of that name from `state`"
        )
    if returns_list and singulars:
        raise SignatureError(
            f"check {check_name!r} returns a list but takes {singulars[0]!r}: a group function "
            f"takes the plural ({singulars[0]}s), and any other check returns one number"
        )
    return bool(plurals) or returns_list


def _is_list_annotation(annotation: Any) -> bool:
    if isinstance(annotation, str):
        return re.match(r"(typing\.)?[Ll]ist(\[|$)", annotation) is not None
    return annotation is list or get_origin(annotation) is list
