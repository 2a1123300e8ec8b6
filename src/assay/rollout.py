"""A Rollout is what happened, ready to be scored; a Call asks a check about one, with just the arguments it names."""

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from inspect import Parameter
from operator import itemgetter
from types import FunctionType, MethodType
from typing import Any, Final, NamedTuple, TypeAlias, cast, get_origin

from assay.errors import SignatureError
from assay.messages import completion_text, is_plain_chat, read_completion
from assay.types import Info, Messages
from assay.wording import described

Read: TypeAlias = Callable[[object], Any]  # reads a completion, or raises a TypeError
ABSENT: Final[Any] = (
    Parameter.empty
)  # stands where a rollout does not have a field, or a parameter no default
# What scoring writes into a state; no check may name one as an argument.
OUTPUTS: Final = frozenset({"reward", "partial_reward", "metrics", "advantage", "errors"})
SINGULAR: Final = frozenset({"prompt", "completion", "answer", "task", "state", "info"})
PLURALS: Final = {f"{name}s": name for name in SINGULAR}
# Fields that every rollout has, given or not.
_DEFAULTS: Final[Mapping[str, Callable[[], Any]]] = {
    "answer": str,
    "task": lambda: "default",
    "info": dict[str, Any],
}


@dataclass(frozen=True, slots=True)
class Rollout:
    """What happened: a prompt, what the model made of it, and what we know about it.

    >>> Rollout(prompt="2+2?", completion="4", answer="4").text
    '4'
    """

    prompt: Messages = ""
    completion: Messages = ""
    answer: Any = ""
    task: str = "default"
    info: Info = field(default_factory=dict[str, Any])
    # What checks receive as `state`; theirs to read and to write.
    state: Mapping[str, Any] = field(default_factory=dict[str, Any])
    # Further fields that checks may name, such as dataset columns.
    columns: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> "Rollout":
        """The rollout that a state describes; every field of the state can be named by a check."""
        return _rollout(state, state)

    @property
    def text(self) -> str:
        """What the model finally said, as plain text."""
        return completion_text(self.completion)

    def fields(self) -> dict[str, Any]:
        """Every field that a check may name, except `state` itself."""
        # By name and not in a loop over _NAMES, which takes a fifth of the time of scoring a rollout by plain functions.
        return {
            **self.columns,
            "prompt": self.prompt,
            "completion": self.completion,
            "answer": self.answer,
            "task": self.task,
            "info": self.info,
        }


_NAMES = ("prompt", "completion", "answer", "task", "info")


def _rollout(row: Mapping[str, Any], state: Mapping[str, Any]) -> Rollout:
    fields = _with_defaults(row)
    return Rollout(
        **{name: fields[name] for name in _NAMES if name in fields}, state=state, columns=row
    )


def _with_defaults(row: Mapping[str, Any]) -> dict[str, Any]:
    """Every field of a row by name: those of its input row too, with the usual defaults."""
    inherited = row.get("input")
    if isinstance(inherited, Mapping):
        row = {**cast("Mapping[str, Any]", inherited), **row}
    return {"answer": "", "task": "default", "info": {}, **row}


def _look_up(row: Mapping[str, Any], state: Mapping[str, Any], name: str) -> Any:
    if name == "state":
        return state
    for fields in (row, row.get("input"), state):
        if isinstance(fields, Mapping) and name in fields:
            return cast("Mapping[str, Any]", fields)[name]
    return ABSENT


@dataclass(slots=True)
class Batch:
    """Rollouts that are scored together. `rows` hold the fields, `states` what checks receive as `state`."""

    rows: Sequence[Mapping[str, Any]]
    states: Sequence[Mapping[str, Any]]
    views: Sequence[str] | None = (
        None  # what a judge reads of each rollout; None for the text of its completion
    )
    is_whole: bool = True  # false where these are some rows of many: a field that none of them has may be in others

    @classmethod
    def of_rollouts(cls, rollouts: Sequence[Rollout | Mapping[str, Any]]) -> "Batch":
        """A state may stand for its rollout."""
        made = [r if isinstance(r, Rollout) else Rollout.from_state(r) for r in rollouts]
        # A rollout made from a state is read from there, so that checks see what checks wrote.
        rows = [r.state if r.columns is r.state else r.fields() for r in made]
        return cls(rows, [rollout.state for rollout in made])

    def __len__(self) -> int:
        return len(self.rows)

    def readable(self, read: Read = read_completion) -> "tuple[Batch, dict[int, str]]":
        """Return the batch with every completion as it is read, and why some cannot be read, by place."""
        errors: dict[int, str] = {}
        if {type(row.get("completion", "")) for row in self.rows} == {str}:  # as nearly always
            return self, errors
        changed: dict[int, Any] = {}
        for place, row in enumerate(self.rows):
            completion = row.get("completion", "")
            if type(completion) is str or is_plain_chat(completion):
                continue
            try:
                text = read(completion)
                if text is not completion:
                    changed[place] = {**row, "completion": text}
            except TypeError as error:
                errors[place] = described(error)
        if not changed:
            return self, errors
        return replace(
            self, rows=[changed.get(place, row) for place, row in enumerate(self.rows)]
        ), errors

    def lacks(self, name: str) -> bool:
        """Whether it is certain that no rollout has this field."""
        pairs = zip(self.rows, self.states, strict=True)
        return (
            self.is_whole
            and bool(self.rows)
            and all(_look_up(row, state, name) is ABSENT for row, state in pairs)
        )

    def select(self, places: Sequence[int]) -> "Batch":
        """The rollouts at these places, in this order."""
        rows = [self.rows[i] for i in places]
        states = rows if self.rows is self.states else [self.states[i] for i in places]
        return Batch(
            rows,
            states,
            None if self.views is None else [self.views[i] for i in places],
            self.is_whole,
        )

    def rollouts(self) -> list[Rollout]:
        return [_rollout(row, state) for row, state in zip(self.rows, self.states, strict=True)]


_UNPLACED: Final = (0, None, None)


class Argument(NamedTuple):
    """One parameter, and the field of a rollout that goes there."""

    name: str
    field: str
    default: Any  # ABSENT when the function has none
    positional_only: bool

    def of(self, row: Mapping[str, Any], state: Mapping[str, Any]) -> Any:
        """What a rollout has for it, else its default, else what every rollout has; ABSENT without any."""
        value = _look_up(row, state, self.field)
        if value is ABSENT:
            value = self.default
        if value is ABSENT and self.field in _DEFAULTS:
            return _DEFAULTS[self.field]()
        return value


class Call:
    """One function, and how to call it about a rollout or a whole batch; a wrong signature is refused at once."""

    def __init__(self, function: Callable[..., Any], label: str) -> None:
        self.function = function
        self.label = label
        who = f"check {label!r}"
        try:
            signature = inspect.signature(function)
        except (TypeError, ValueError) as error:
            wrapped = f"`def {label}(completion): return ...`"
            raise SignatureError(
                f"{who} has no signature to read ({error}): wrap it, for example {wrapped}"
            ) from None
        self._bound = frozenset[str]()
        """What a partial has been given already: the caller's choice, which we leave alone."""
        bare: Any = function
        if isinstance(bare, partial):
            given = inspect.signature(bare.func).parameters.keys() - signature.parameters.keys()
            self._bound = frozenset(given | bare.keywords.keys())
        while isinstance(bare, partial):
            bare = bare.func
        named = [p for p in signature.parameters.values() if p.name not in self._bound]
        self.everything = any(p.kind is Parameter.VAR_KEYWORD for p in named)
        """Whether it takes `**kwargs`, and so all that a rollout has."""
        named = [
            p for p in named if p.kind not in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
        ]
        _refuse_unsuppliable(named, label)
        if signature.parameters and not named and not self.everything and not self._bound:
            advice = "name them, for example `completion`"
            raise SignatureError(
                f"{who} takes *args alone, and we pass arguments by name: {advice}"
            )
        called = getattr(bare, "__call__", None)  # noqa: B004 - the method itself is wanted
        self.is_async = inspect.iscoroutinefunction(bare) or inspect.iscoroutinefunction(called)
        self.is_group = _is_group(signature, {p.name for p in named}, label)
        # A group function may say that it only takes many at a time: `independent = True`.
        self.compares = self.is_group and getattr(function, "independent", False) is not True
        plurals = PLURALS if self.is_group else dict[str, str]()
        self.arguments = tuple(
            Argument(
                p.name, plurals.get(p.name, p.name), p.default, p.kind is Parameter.POSITIONAL_ONLY
            )
            for p in named
        )
        self.names = frozenset(a.name for a in self.arguments)
        self._is_odd = bool(self._bound) or any(a.positional_only for a in self.arguments)
        self._fields: tuple[int, Any, Any] = _UNPLACED
        """Where all arguments are fields of a row and can go by position: how many, and the names of the first two, which
        is the quickest way to call; in place of the first name what takes them all, where there are more."""
        by_position = _takes_positions(function) and all(
            p.kind is not Parameter.KEYWORD_ONLY for p in named
        )
        if by_position and named and not self.everything and "state" not in self.names:
            names = [a.field for a in self.arguments]
            self._fields = len(names), itemgetter(*names) if len(names) > 2 else names[0], names[-1]

    def run_by(self, function: Callable[..., Any]) -> None:
        """Have an async function called instead, which takes the same arguments by name."""
        self.function, self.is_async, self._fields = function, True, _UNPLACED

    def bound(self, objects: Mapping[str, Any]) -> tuple[Callable[..., Any], int, Any, Any]:
        """The function with its `_fields`; without any, it takes a row and its state, and has these objects."""
        if self._fields[0] and self.names.isdisjoint(objects):
            return self.function, *self._fields
        if not self.everything:
            return partial(self.by_name, objects), *_UNPLACED

        def ask_with_everything(row: Mapping[str, Any], state: Mapping[str, Any]) -> Any:
            # A state sees the fields of its input row, but a copy of it would not.
            if (
                row is state
                and "input" not in row
                and "answer" in row
                and "task" in row
                and "info" in row
            ):
                values = {**row, "state": state, **objects}
            else:
                values = {**state, **_with_defaults(row), "state": state, **objects}
            return self._with(values) if self._is_odd else self.function(**values)

        return ask_with_everything, *_UNPLACED

    def by_name(
        self, objects: Mapping[str, Any], row: Mapping[str, Any], state: Mapping[str, Any]
    ) -> Any:
        named: dict[str, Any] = {}
        for argument in self.arguments:
            name = argument.name
            named[name] = objects[name] if name in objects else argument.of(row, state)
            if named[name] is ABSENT:
                raise SignatureError(f"this rollout has no field {name!r}")
        return self._with(named)

    def _with(self, values: dict[str, Any]) -> Any:
        for name in self._bound:
            values.pop(name, None)
        given = [
            values.pop(argument.name) for argument in self.arguments if argument.positional_only
        ]
        return self.function(*given, **values)

    def group(self, batch: Batch, objects: Mapping[str, Any]) -> Any:
        """What a group function returns for the whole batch."""
        pairs = list(zip(batch.rows, batch.states, strict=True))
        values: dict[str, Any] = {}
        if self.everything:
            for plural, name in PLURALS.items():
                found = [Argument(plural, name, ABSENT, False).of(*pair) for pair in pairs]
                values[plural] = [None if value is ABSENT else value for value in found]
            values |= objects
        for argument in self.arguments:
            name = argument.name
            if name in objects:
                values[name] = objects[name]
            elif argument.default is ABSENT or not batch.lacks(argument.field):
                values[name] = [argument.of(*pair) for pair in pairs]
                gap = next(
                    (place for place, value in enumerate(values[name]) if value is ABSENT), None
                )
                if gap is not None:
                    self.refuse_unsupplied(batch, objects)
                    raise ValueError(f"rollout {gap} has no field for {name!r}")
        return self._with(values)

    def lacking(self, batch: Batch, objects: Mapping[str, Any]) -> dict[int, str]:
        """The rollouts for which a group function has no argument, and which; refuses if all lack it."""
        self.refuse_unsupplied(batch, objects)
        return {
            place: argument.field
            for argument in self.arguments
            if argument.name not in objects and argument.default is ABSENT
            for place, (row, state) in enumerate(zip(batch.rows, batch.states, strict=True))
            if argument.of(row, state) is ABSENT
        }

    def refuse_unsupplied(self, batch: Batch, objects: Mapping[str, Any]) -> None:
        """Raise when an argument is a field of no rollout of a batch."""
        for name, field_, default, _ in self.arguments:
            if (
                default is ABSENT
                and name not in objects
                and field_ not in _DEFAULTS
                and batch.lacks(field_)
            ):
                known = ", ".join(sorted({str(key) for key in batch.rows[0]} | {"state", "parser"}))
                ways = f"give it a default, add_class_object({name!r}, ...), or add a field {name!r} to every state"
                said = f"check {self.label!r} needs an argument {name!r} that nothing supplies"
                raise SignatureError(f"{said}: {ways} (there: {known})")


def _refuse_unsuppliable(parameters: list[Parameter], label: str) -> None:
    for parameter in parameters:
        name, takes = parameter.name, f"check {label!r} takes {parameter.name!r}"
        if name in OUTPUTS:
            # A check that read what scoring wrote would give another number the second time.
            raise SignatureError(
                f"{takes}, which is what scoring writes: take `state` and read it there if you must"
            )
        if parameter.kind is Parameter.POSITIONAL_ONLY and name not in SINGULAR:
            wrapped = f"wrap it, for example `lambda completion: {label}(completion)`"
            raise SignatureError(
                f"{takes} by position only, and we pass arguments by name: {wrapped}"
            )
        if name == "self" and parameter.default is parameter.empty:
            advice = "pass a bound method (object.method) or a method of the rubric's own class"
            raise SignatureError(
                f"check {label!r} wants 'self', so it is a method of no object: {advice}"
            )


def _takes_positions(function: object) -> bool:
    """Tell whether arguments may go by position; a wrapper may take keywords alone, whatever its function says."""
    if not isinstance(function, FunctionType | MethodType):
        # An object with a method for it, as every built-in check is.
        function = getattr(type(function), "__call__", None)  # noqa: B004 - the method itself is wanted
        if not isinstance(function, FunctionType):
            return False
    if not hasattr(function, "__wrapped__"):
        return True
    own = inspect.signature(function, follow_wrapped=False).parameters.values()
    return any(parameter.kind is Parameter.VAR_POSITIONAL for parameter in own)


def _is_group(signature: inspect.Signature, names: set[str], label: str) -> bool:
    plurals, singulars = sorted(names & PLURALS.keys()), sorted(names & SINGULAR)
    annotation = signature.return_annotation
    is_named = (
        isinstance(annotation, str)
        and re.match(r"(typing\.)?[Ll]ist(\[|$)", annotation) is not None
    )
    returns_list = is_named or annotation is list or get_origin(annotation) is list
    if plurals and singulars:
        said = f"check {label!r} mixes {singulars[0]!r} (one rollout) with {plurals[0]!r} (a whole group)"
        advice = "take the plurals for a group, or read a dataset column of that name from `state`"
        raise SignatureError(f"{said}: {advice}")
    if returns_list and singulars:
        advice = (
            f"a group function takes the plurals ({singulars[0]}s), any other returns one number"
        )
        raise SignatureError(f"check {label!r} returns a list but takes {singulars[0]!r}: {advice}")
    return bool(plurals) or returns_list
