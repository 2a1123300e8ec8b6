"""Call a user's function with just the arguments it names. Signatures are read once."""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import repeat
from types import FunctionType, MethodType
from typing import Any, cast, get_origin

from assay.errors import SignatureError
from assay.rollout import ABSENT, ALWAYS, OUTPUTS, Batch, Gaps

SINGULAR = frozenset({"prompt", "completion", "answer", "task", "state", "info"})
PLURALS = {f"{name}s": name for name in SINGULAR}

_Parameter = inspect.Parameter
_POSITIONAL = (_Parameter.POSITIONAL_ONLY, _Parameter.POSITIONAL_OR_KEYWORD)


class Call:
    """One function, and how to call it for every rollout of a batch.

    Built at construction time, so that whatever is wrong with a signature is said there.
    """

    __slots__ = (
        "by_position",
        "everything",
        "function",
        "is_async",
        "is_group",
        "label",
        "needed",
        "parameters",
        "positional_only",
    )

    def __init__(self, function: Callable[..., Any], label: str) -> None:
        self.function = function
        self.label = label
        signature = _signature(function, label)
        bound = _bound_keywords(function)
        kinds = [p for p in signature.parameters.values() if p.name not in bound]
        _refuse_outputs(kinds, label)
        self.everything = any(p.kind is _Parameter.VAR_KEYWORD for p in kinds)
        self.parameters = tuple(
            p for p in kinds if p.kind not in (_Parameter.VAR_KEYWORD, _Parameter.VAR_POSITIONAL)
        )
        self.is_async = _is_async(function)
        self.is_group = _is_group(signature, self.parameters, label)
        # A wrapper may take keywords only, so arguments go by position to plain functions alone.
        self.by_position = (
            isinstance(function, FunctionType | MethodType)
            and not hasattr(function, "__wrapped__")
            and all(p.kind in _POSITIONAL for p in self.parameters)
        )
        self.needed = tuple(
            p.name
            for p in self.parameters
            if p.default is p.empty and self._field(p.name) not in ALWAYS
        )
        self.positional_only = tuple(
            p.name for p in self.parameters if p.kind is _Parameter.POSITIONAL_ONLY
        )
        if any(p.name == "self" and p.default is p.empty for p in self.parameters):
            raise SignatureError(
                f"check {label!r} wants 'self', so it is a method of no object: "
                "pass a bound method (object.method) or a method of the rubric's own class"
            )

    def each(
        self, batch: Batch, objects: Mapping[str, Any], *, whole: Batch | None = None
    ) -> Iterator[Any]:
        """What the function returns for each rollout, lazily. An error ends one item, not the rest.

        Raises at once when a required argument is a field of no rollout of the `whole` batch.
        """
        whole = batch if whole is None else whole
        if self.everything:
            self._refuse_missing(whole, objects)
            return map(self._with_everything, batch.everything(objects))
        size = len(batch.rows)
        columns = [
            repeat(objects[p.name], size) if p.name in objects else self._column(p, batch, whole)
            for p in self.parameters
        ]
        if self.by_position and columns and Gaps not in map(type, columns):
            return map(self.function, *columns)
        return map(self._by_keyword, batch.rows, *columns)

    def group(self, batch: Batch, objects: Mapping[str, Any]) -> Any:
        """What a group function returns for the whole batch."""
        arguments: dict[str, Any] = {}
        if self.everything:
            arguments = {plural: list(batch.usual(name)) for plural, name in PLURALS.items()}
            arguments |= objects
        for parameter in self.parameters:
            name = parameter.name
            if name in objects:
                arguments[name] = objects[name]
            elif parameter.default is parameter.empty or not batch.lacks(self._field(name)):
                column = self._column(parameter, batch, batch)
                if isinstance(column, Gaps):
                    raise ValueError(f"rollout {column.index(ABSENT)} has no field for {name!r}")
                arguments[name] = list(column)
        return self._with_everything(arguments)

    def _refuse_missing(self, batch: Batch, objects: Mapping[str, Any]) -> None:
        for name in self.needed:
            if name not in objects and name not in batch.rows[0] and batch.lacks(name):
                raise self._nothing_supplies(name, batch)

    def _field(self, name: str) -> str:
        return PLURALS.get(name, name) if self.is_group else name

    def _column(self, parameter: _Parameter, batch: Batch, whole: Batch) -> Sequence[Any]:
        """A field of every rollout, with the parameter's own default where one has none."""
        field = self._field(parameter.name)
        column = batch.column(field)
        if type(column) is not Gaps:
            return column
        if parameter.default is not parameter.empty:
            return column.filled(lambda: parameter.default)
        if field not in ALWAYS and whole.lacks(field):
            raise self._nothing_supplies(parameter.name, whole)
        return batch.usual(field)

    def _nothing_supplies(self, name: str, batch: Batch) -> SignatureError:
        known = sorted({str(key) for key in batch.rows[0]} | {"state", "parser"})
        return SignatureError(
            f"check {self.label!r} needs an argument {name!r} that nothing supplies: "
            f"give it a default, add_class_object({name!r}, ...), or add a field {name!r} to every "
            f"state (there: {', '.join(known)})"
        )

    def _by_keyword(self, _row: Any, *arguments: Any) -> Any:
        given: list[Any] = []
        named: dict[str, Any] = {}
        for parameter, argument in zip(self.parameters, arguments, strict=True):
            if argument is ABSENT:
                raise SignatureError(f"this rollout has no field {parameter.name!r}")
            if parameter.kind is _Parameter.POSITIONAL_ONLY:
                given.append(argument)
            else:
                named[parameter.name] = argument
        return self.function(*given, **named)

    def _with_everything(self, arguments: dict[str, Any]) -> Any:
        if not self.positional_only:
            return self.function(**arguments)
        given = [arguments.pop(name) for name in self.positional_only]
        return self.function(*given, **arguments)


def _signature(function: Callable[..., Any], label: str) -> inspect.Signature:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError) as error:
        raise SignatureError(
            f"check {label!r} has no signature to read ({error}): wrap it, for example "
            f"`def {label}(completion): return ...`"
        ) from None
    for parameter in signature.parameters.values():
        opaque = parameter.kind is _Parameter.POSITIONAL_ONLY and parameter.name not in SINGULAR
        if opaque and parameter.default is parameter.empty:
            raise SignatureError(
                f"check {label!r} takes {parameter.name!r} by position only, and we pass arguments "
                f"by name: wrap it, for example `lambda completion: {label}(completion)`"
            )
    return signature


def _refuse_outputs(parameters: list[_Parameter], label: str) -> None:
    """A check that read what scoring wrote would give another number the second time."""
    for parameter in parameters:
        if parameter.name in OUTPUTS:
            raise SignatureError(
                f"check {label!r} takes {parameter.name!r}, which is what scoring writes: "
                "take `state` and read it there if you must"
            )


def _bound_keywords(function: object) -> Mapping[str, Any]:
    """What a partial has already been given by name: the caller's choice, which we leave alone."""
    return cast("partial[Any]", function).keywords if isinstance(function, partial) else {}


def _is_async(function: object) -> bool:
    while isinstance(function, partial):
        function = cast("partial[Any]", function).func
    called = getattr(function, "__call__", None)  # noqa: B004 - the method itself is wanted
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(called)


def _is_group(signature: inspect.Signature, parameters: tuple[_Parameter, ...], label: str) -> bool:
    names = {parameter.name for parameter in parameters}
    plurals, singulars = names & PLURALS.keys(), names & SINGULAR
    if plurals and singulars:
        raise SignatureError(
            f"check {label!r} mixes {sorted(singulars)[0]!r} (one rollout) with "
            f"{sorted(plurals)[0]!r} (a whole group): take the plurals for a group, or read "
            f"a dataset column of that name from `state`"
        )
    if plurals:
        return True
    annotation = signature.return_annotation
    if isinstance(annotation, str):
        returns_list = annotation.replace("typing.", "").lower().startswith("list")
    else:
        returns_list = annotation is list or get_origin(annotation) is list
    if returns_list and singulars:
        raise SignatureError(
            f"check {label!r} returns a list but takes {sorted(singulars)[0]!r}: a group function "
            f"takes the plurals ({sorted(singulars)[0]}s), any other returns one number"
        )
    return returns_list
