"""Types of messages, states and reward functions, as users hand them over."""

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import Any, Literal, Self, TypeAlias

Message: TypeAlias = Mapping[str, Any]
"""One chat message: `role`, `content` (text, parts or None), perhaps `tool_calls`."""

Messages: TypeAlias = str | Sequence[Message]  # a plain text, or a chat

Info: TypeAlias = dict[str, Any]  # further data of one dataset row

IndividualRewardFunc: TypeAlias = Callable[..., Any]
"""Scores one rollout; takes any of `prompt completion answer task state info`, columns, class objects."""

GroupRewardFunc: TypeAlias = Callable[..., Any]
"""Scores a group at once; takes the plurals (`completions`, `answers`, …) and returns `list[float]`."""

RewardFunc: TypeAlias = IndividualRewardFunc | GroupRewardFunc

Rewards: TypeAlias = Sequence[float | None]  # one a rollout; None where it is unscored

OnError: TypeAlias = Literal[
    "record", "raise"
]  # what a failure becomes: an error on its line, or the exception itself

# What a `State` reads from its `input` row when it does not hold the field itself.
INPUT_FIELDS = frozenset({"prompt", "answer", "task", "info", "example_id"})

_own: Any = (
    dict  # whose methods are called straight: every turn of a rollout looks at a dozen fields
)


class State(dict[str, Any]):
    """What happened in one rollout: a dict that sees through to its `input` row, for reading, writing and `in`.

    >>> state = State(input={"prompt": "2+2?", "answer": "4"}, completion="4")
    >>> "answer" in state, state["answer"], state.get("answer")
    (True, '4', '4')
    """

    def _home(self, key: object) -> dict[Any, Any]:
        """What holds `key`: the input row, where it is the one to answer for it, else the state itself."""
        row: Any = (
            _own.get(self, "input")
            if key in INPUT_FIELDS and not _own.__contains__(self, key)
            else None
        )
        return row if isinstance(row, _own) else self

    def __missing__(self, key: str) -> Any:
        home = self._home(key)
        if home is self:
            raise KeyError(key)
        return home[key]

    def __contains__(self, key: object) -> bool:
        return _own.__contains__(self, key) or (
            key in INPUT_FIELDS and _own.__contains__(self._home(key), key)
        )

    def __setitem__(self, key: str, value: Any) -> None:
        _own.__setitem__(self._home(key) if key in INPUT_FIELDS else self, key, value)

    def __delitem__(self, key: str) -> None:
        _own.__delitem__(self._home(key), key)

    def get(self, key: str, default: Any = None) -> Any:
        return _own.get(self._home(key) if key in INPUT_FIELDS else self, key, default)

    # Those of a dict pass by the methods above.
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
