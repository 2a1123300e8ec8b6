"""A Rollout is what happened, ready to be scored; a Batch is many of them, seen by column."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Any, Final, cast

from assay.messages import completion_text, question_text, read_completion
from assay.types import Info, Messages
from assay.wording import described

ABSENT: Final[Any] = object()
"""Stands in a column where a rollout does not have the field."""

OUTPUTS: Final = frozenset({"reward", "partial_reward", "metrics", "advantage", "errors"})
"""What scoring writes into a state; no check may name one as an argument."""

ALWAYS: Final = frozenset({"answer", "task", "info"})
"""Fields that every rollout has, given or not."""

_DEFAULTS: Final[Mapping[str, Callable[[], Any]]] = {"answer": str, "task": lambda: "default", "info": dict}


def _no_state() -> dict[str, Any]:
    return {}


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
    info: Info = field(default_factory=_no_state)
    state: Mapping[str, Any] = field(default_factory=_no_state)
    """What checks receive as `state`; theirs to read and to write."""
    columns: Mapping[str, Any] = field(default_factory=_no_state)
    """Further fields that checks may name, such as dataset columns."""

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> "Rollout":
        """The rollout that a state describes; every field of the state can be named by a check."""
        return _rollout(state, state)

    @property
    def text(self) -> str:
        """What the model finally said, as plain text."""
        return completion_text(self.completion)

    @property
    def question(self) -> str:
        """What was asked, as plain text."""
        return question_text(self.prompt)

    def fields(self) -> dict[str, Any]:
        """Every field that a check may name, except `state` itself."""
        return {
            **self.columns,
            "prompt": self.prompt,
            "completion": self.completion,
            "answer": self.answer,
            "task": self.task,
            "info": self.info,
        }


def _rollout(row: Mapping[str, Any], state: Mapping[str, Any]) -> Rollout:
    fields = everything(row)
    names = ("prompt", "completion", "answer", "task", "info")
    known = {name: fields[name] for name in names if name in fields}
    return Rollout(**known, state=state, columns=row)


def everything(row: Mapping[str, Any]) -> dict[str, Any]:
    """Every field of a state by name: those of its input row too, with the usual defaults."""
    inherited = row.get("input")
    if isinstance(inherited, Mapping):
        row = {**cast("Mapping[str, Any]", inherited), **row}
    return {"answer": "", "task": "default", "info": {}, **row}


def _look_up(row: Mapping[str, Any], state: Mapping[str, Any], name: str) -> Any:
    for fields in (row, row.get("input"), state):
        if isinstance(fields, Mapping) and name in fields:
            return cast("Mapping[str, Any]", fields)[name]
    return ABSENT


class Gaps(list[Any]):
    """A column in which some rollouts, or all, have no such field."""

    def filled(self, default: Callable[[], Any]) -> list[Any]:
        return [default() if value is ABSENT else value for value in self]


@dataclass(slots=True)
class Batch:
    """Rollouts seen by column. `rows` hold the fields, `states` what checks receive as `state`."""

    rows: Sequence[Mapping[str, Any]]
    states: Sequence[Mapping[str, Any]]
    views: Sequence[str] | None = None
    """What a judge reads of each rollout; None for the text of its completion."""

    @classmethod
    def of_rollouts(cls, rollouts: Sequence[Rollout | Mapping[str, Any]]) -> "Batch":
        """A state may stand for its rollout."""
        made = [r if isinstance(r, Rollout) else Rollout.from_state(r) for r in rollouts]
        # A rollout made from a state is read from there, so that checks see what checks wrote.
        rows = [r.state if r.columns is r.state else r.fields() for r in made]
        return cls(rows, [rollout.state for rollout in made])

    @classmethod
    def of_states(cls, states: Sequence[Mapping[str, Any]]) -> "Batch":
        return cls(states, states)

    def __len__(self) -> int:
        return len(self.rows)

    def readable(self, read: Callable[[object], Any] = read_completion) -> "tuple[Batch, dict[int, str]]":
        """The batch with every completion as it is read, and why some cannot be read, by place.

        A rollout that has no such field is left alone: its checks may need none.
        """
        column = [row.get("completion", "") for row in self.rows]
        if {str}.issuperset(map(type, column)):
            return self, {}
        errors: dict[int, str] = {}
        rows: list[Mapping[str, Any]] = list(self.rows)
        for place, completion in enumerate(column):
            try:
                text = read(completion)
            except TypeError as error:
                errors[place] = described(error)
                continue
            if text is not completion:
                rows[place] = {**rows[place], "completion": text}
        changed = any(row is not given for row, given in zip(rows, self.rows, strict=True))
        return (replace(self, rows=rows) if changed else self), errors

    def lacks(self, name: str) -> bool:
        """Whether no rollout has this field."""
        if name == "state" or not self.rows:
            return False
        return all(value is ABSENT for value in self._looked_up(name))

    def column(self, name: str) -> Sequence[Any]:
        """One field of every rollout; `Gaps` when a rollout does not have it."""
        if name == "state":
            return self.states
        try:
            return list(map(itemgetter(name), self.rows))
        except KeyError:
            found = list(self._looked_up(name))
        return Gaps(found) if any(value is ABSENT for value in found) else found

    def _looked_up(self, name: str) -> Iterator[Any]:
        pairs = zip(self.rows, self.states, strict=True)
        return (_look_up(row, state, name) for row, state in pairs)

    def usual(self, name: str) -> Sequence[Any]:
        """As `column`, but `answer`, `task` and `info` are never missing."""
        column = self.column(name)
        if isinstance(column, Gaps) and name in _DEFAULTS:
            return column.filled(_DEFAULTS[name])
        return column

    def everything(self, objects: Mapping[str, Any]) -> list[dict[str, Any]]:
        """All that a check with `**kwargs` gets, one dict a rollout."""
        complete = all("info" in r and "answer" in r and "task" in r for r in self.rows)
        # A state sees the fields of its input row, but a copy of it would not.
        complete = complete and not any("input" in r for r in self.rows)
        if complete and self.rows is self.states:
            return [{**row, "state": row, **objects} for row in self.rows]
        pairs = zip(self.rows, self.states, strict=True)
        return [{**state, **everything(row), "state": state, **objects} for row, state in pairs]

    def select(self, indices: Sequence[int]) -> "Batch":
        """The rollouts at these places, in this order."""
        rows = [self.rows[i] for i in indices]
        states = rows if self.rows is self.states else [self.states[i] for i in indices]
        views = None if self.views is None else [self.views[i] for i in indices]
        return Batch(rows, states, views)

    def rollouts(self) -> list[Rollout]:
        """Every rollout as a value of its own."""
        pairs = zip(self.rows, self.states, strict=True)
        return [_rollout(row, state) for row, state in pairs]

    def chunks(self, size: int) -> "list[Batch]":
        """The batch cut into pieces of at most `size`."""
        if len(self) <= size:
            return [self]
        return [self._cut(start, start + size) for start in range(0, len(self), size)]

    def _cut(self, start: int, end: int) -> "Batch":
        rows = self.rows[start:end]
        return Batch(rows, rows if self.rows is self.states else self.states[start:end])
