"""Types of messages, states and reward functions, as users hand them over."""

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import Any, Literal, Self, TypeAlias, cast

Message: TypeAlias = Mapping[str, Any]
"""One chat message: `role`, `content` (text, parts or None), perhaps `tool_calls`."""

Messages: TypeAlias = str | Sequence[Message]  # a plain text, or a chat

Info: TypeAlias = dict[str, Any]  # further data of one dataset row

IndividualRewardFunc: TypeAlias = Callable[..., Any]
"""Scores one rollout; takes any of `prompt completion answer task state info`, columns, class objects."""

GroupRewardFunc: TypeAlias = Callable[..., Any]
"""Scores a group at once; takes the plurals (`completions`, `answers`, …) and returns `list[float]`."""

RewardFunc: TypeAlias = IndividualRewardFunc | GroupRewardFunc

OnError: TypeAlias = Literal["record", "raise"]  # what a failure becomes: an error on its line, or the exception itself

INPUT_FIELDS = frozenset({"prompt", "answer", "task", "info", "example_id"})
"""What a `State` reads from its `input` row when it does not hold the field itself."""


class State(dict[str, Any]):
    """What happened in one rollout: a dict that sees through to its `input` row, for reading, writing and `in`.

    >>> state = State(input={"prompt": "2+2?", "answer": "4"}, completion="4")
    >>> "answer" in state, state["answer"], state.get("answer")
    (True, '4', '4')
    """

    def _row(self, key: object) -> "dict[Any, Any] | None":
        """The input row when it is the one to answer for `key`, else None."""
        if key not in INPUT_FIELDS or super().__contains__(key):
            return None
        row = super().get("input")
        return cast("dict[Any, Any]", row) if isinstance(row, dict) else None

    def __missing__(self, key: str) -> Any:
        row = self._row(key)
        if row is None:
            raise KeyError(key)
        return row[key]

    def __contains__(self, key: object) -> bool:
        row = self._row(key)
        return super().__contains__(key) if row is None else key in row

    def __setitem__(self, key: str, value: Any) -> None:
        row = self._row(key)
        (super() if row is None else row).__setitem__(key, value)

    def __delitem__(self, key: str) -> None:
        row = self._row(key)
        (super() if row is None else row).__delitem__(key)

    # Those of a dict pass by the methods above.
    get = MutableMapping[str, Any].get  # pyright: ignore[reportAssignmentType]
    setdefault, update = MutableMapping[str, Any].setdefault, MutableMapping[str, Any].update

    def pop(self, key: str, *default: Any) -> Any:
        value = self.get(key, *default) if default else self[key]
        if key in self:
            del self[key]
        return value

    def __ior__(self, other: Any) -> Self:  # pyright: ignore[reportIncompatibleMethodOverride]
        self.update(other)
        return self

    def copy(self) -> "State":
        return State(self)
