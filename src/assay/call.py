"""Call a user's function with just the arguments it names. Signatures are read once."""

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import repeat
from types import FunctionType, MethodType
from typing import Any, NamedTuple, cast, get_origin

from assay.errors import SignatureError
from assay.rollout import ABSENT, ALWAYS, OUTPUTS, Batch, Gaps

SINGULAR = frozenset({"prompt", "completion", "answer", "task", "state", "info"})
PLURALS = {f"{name}s": name for name in SINGULAR}

_Parameter = inspect.Parameter
_VARIABLE = (_Parameter.VAR_POSITIONAL, _Parameter.VAR_KEYWORD)


class Argument(NamedTuple):
    """One parameter, and the field of a rollout that goes there."""

    name: str
    field: str
    default: Any
    """ABSENT when the function has none."""
    positional_only: bool


class Call:
    """One function, and how to call it for every rollout of a batch.

    Built at construction time, so that whatever is wrong with a signature is said there.
    """

    def __init__(self, function: Callable[..., Any], label: str) -> None:
        self.function = function
        self.label = label
        signature = _signature(function, label)
        self.bound = _bound_names(function, signature)
        named = [p for p in signature.parameters.values() if p.name not in self.bound]
        self.everything = any(p.kind is _Parameter.VAR_KEYWORD for p in named)
        named = [p for p in named if p.kind not in _VARIABLE]
        _refuse_unsuppliable(named, label)
        if signature.parameters and not named and not self.everything and not self.bound:
            raise SignatureError(
                f"check {label!r} takes *args alone, and we pass arguments by name: name them, for example `completion`"
            )
        self.is_async = _is_async(function)
        self.is_group = _is_group(signature, {p.name for p in named}, label)
        # A group function may say that it only takes many at a time: `independent = True`.
        self.compares = self.is_group and getattr(function, "independent", False) is not True
        self.arguments = tuple(_argument(p, self.is_group) for p in named)
        self.positional_only = tuple(a.name for a in self.arguments if a.positional_only)
        self.by_position = _takes_positions(function) and all(p.kind is not _Parameter.KEYWORD_ONLY for p in named)

    def each(self, batch: Batch, objects: Mapping[str, Any], *, whole: Batch | None = None) -> Iterator[Any]:
        """What the function returns for each rollout, lazily. An error ends one item, not the rest.

        Raises at once when a required argument is a field of no rollout of the `whole` batch.
        """
        whole = batch if whole is None else whole
        if self.everything:
            self._refuse_missing(whole, objects)
            function, simple = self.function, not (self.bound or self.positional_only)

            def spread(values: dict[str, Any]) -> Any:
                return function(**values)

            return map(spread if simple else self._with_everything, batch.everything(objects))
        size = len(batch.rows)
        columns = [
            repeat(objects[a.name], size) if a.name in objects else self._column(a, batch, whole)
            for a in self.arguments
        ]
        if self.by_position and columns and Gaps not in map(type, columns):
            return map(self.function, *columns)
        return map(self._by_keyword, batch.rows, *columns)

    def group(self, batch: Batch, objects: Mapping[str, Any]) -> Any:
        """What a group function returns for the whole batch."""
        values: dict[str, Any] = {}
        if self.everything:
            values = {plural: list(batch.usual(name)) for plural, name in PLURALS.items()}
            values |= objects
        for argument in self.arguments:
            if argument.name in objects:
                values[argument.name] = objects[argument.name]
            elif argument.default is ABSENT or not batch.lacks(argument.field):
                column = self._column(argument, batch, batch)
                if isinstance(column, Gaps):
                    place = next(i for i, value in enumerate(column) if value is ABSENT)
                    raise ValueError(f"rollout {place} has no field for {argument.name!r}")
                values[argument.name] = list(column)
        return self._with_everything(values)

    def lacking(self, batch: Batch, objects: Mapping[str, Any]) -> dict[int, str]:
        """The rollouts for which a group function has no argument, and which; refuses if all lack it."""
        found: dict[int, str] = {}
        for argument in self.arguments:
            if argument.name in objects or argument.default is not ABSENT:
                continue
            column = self._column(argument, batch, batch)
            if isinstance(column, Gaps):
                gaps = (place for place, value in enumerate(column) if value is ABSENT)
                found.update(dict.fromkeys(gaps, argument.field))
        return found

    def _refuse_missing(self, batch: Batch, objects: Mapping[str, Any]) -> None:
        for name, field, default, _ in self.arguments:
            if default is not ABSENT or field in ALWAYS or name in objects:
                continue
            if field not in batch.rows[0] and batch.lacks(field):
                raise self._nothing_supplies(name, batch)

    def _column(self, argument: Argument, batch: Batch, whole: Batch) -> Sequence[Any]:
        """A field of every rollout, with the parameter's own default where one has none."""
        column = batch.column(argument.field)
        if type(column) is not Gaps:
            return column
        if argument.default is not ABSENT:
            return column.filled(lambda: argument.default)
        if argument.field not in ALWAYS and whole.lacks(argument.field):
            raise self._nothing_supplies(argument.name, whole)
        return batch.usual(argument.field)

    def _nothing_supplies(self, name: str, batch: Batch) -> SignatureError:
        known = sorted({str(key) for key in batch.rows[0]} | {"state", "parser"})
        return SignatureError(
            f"check {self.label!r} needs an argument {name!r} that nothing supplies: "
            f"give it a default, add_class_object({name!r}, ...), or add a field {name!r} to every "
            f"state (there: {', '.join(known)})"
        )

    def _by_keyword(self, _row: Any, *values: Any) -> Any:
        given: list[Any] = []
        named: dict[str, Any] = {}
        for argument, value in zip(self.arguments, values, strict=True):
            if value is ABSENT:
                raise SignatureError(f"this rollout has no field {argument.name!r}")
            if argument.positional_only:
                given.append(value)
            else:
                named[argument.name] = value
        return self.function(*given, **named)

    def _with_everything(self, values: dict[str, Any]) -> Any:
        for name in self.bound:
            values.pop(name, None)
        given = [values.pop(name) for name in self.positional_only]
        return self.function(*given, **values)


def _argument(parameter: _Parameter, is_group: bool) -> Argument:
    name = parameter.name
    return Argument(
        name=name,
        field=PLURALS.get(name, name) if is_group else name,
        default=ABSENT if parameter.default is parameter.empty else parameter.default,
        positional_only=parameter.kind is _Parameter.POSITIONAL_ONLY,
    )


def _signature(function: Callable[..., Any], label: str) -> inspect.Signature:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError) as error:
        raise SignatureError(
            f"check {label!r} has no signature to read ({error}): wrap it, for example "
            f"`def {label}(completion): return ...`"
        ) from None


def _refuse_unsuppliable(parameters: list[_Parameter], label: str) -> None:
    """Say now what could never be supplied, or must not be."""
    for parameter in parameters:
        name = parameter.name
        if name in OUTPUTS:
            # A check that read what scoring wrote would give another number the second time.
            raise SignatureError(
                f"check {label!r} takes {name!r}, which is what scoring writes: "
                "take `state` and read it there if you must"
            )
        if parameter.kind is _Parameter.POSITIONAL_ONLY and name not in SINGULAR:
            raise SignatureError(
                f"check {label!r} takes {name!r} by position only, and we pass arguments "
                f"by name: wrap it, for example `lambda completion: {label}(completion)`"
            )
        if name == "self" and parameter.default is parameter.empty:
            raise SignatureError(
                f"check {label!r} wants 'self', so it is a method of no object: "
                "pass a bound method (object.method) or a method of the rubric's own class"
            )


def _bound_names(function: object, signature: inspect.Signature) -> frozenset[str]:
    """What a partial has been given already: the caller's choice, which we leave alone."""
    if not isinstance(function, partial):
        return frozenset()
    bare = cast("partial[Any]", function)
    given = inspect.signature(bare.func).parameters.keys() - signature.parameters.keys()
    return frozenset(given | bare.keywords.keys())


def _takes_positions(function: object) -> bool:
    """Whether arguments may go by position: to a plain function, or a wrapper that passes them on.

    A wrapper may also take keywords alone, whatever the function it wraps says.
    """
    if not isinstance(function, FunctionType | MethodType):
        # An object with a method for it, as every built-in check is.
        function = getattr(type(function), "__call__", None)  # noqa: B004 - the method itself is wanted
        if not isinstance(function, FunctionType):
            return False
    if not hasattr(function, "__wrapped__"):
        return True
    own = inspect.signature(function, follow_wrapped=False).parameters.values()
    return any(parameter.kind is _Parameter.VAR_POSITIONAL for parameter in own)


def _is_async(function: object) -> bool:
    while isinstance(function, partial):
        function = cast("partial[Any]", function).func
    called = getattr(function, "__call__", None)  # noqa: B004 - the method itself is wanted
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(called)


def _is_group(signature: inspect.Signature, names: set[str], label: str) -> bool:
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
        returns_list = re.match(r"(typing\.)?[Ll]ist(\[|$)", annotation) is not None
    else:
        returns_list = annotation is list or get_origin(annotation) is list
    if returns_list and singulars:
        raise SignatureError(
            f"check {label!r} returns a list but takes {sorted(singulars)[0]!r}: a group function "
            f"takes the plurals ({sorted(singulars)[0]}s), any other returns one number"
        )
    return returns_list
