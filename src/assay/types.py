"""Types of the messages, states and reward functions that users pass in."""

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import Any, Literal, Self, TypeAlias, TypedDict

# One chat message: `role`, `content` (text, parts or None), possibly `tool_calls`.
Message: TypeAlias = Mapping[str, Any]

# A plain text, or a chat.
Messages: TypeAlias = str | Sequence[Message]

# Further data of one dataset row.
Info: TypeAlias = dict[str, Any]

# The tags of a response in two sections.
SECTIONS = ("thinking", "output")


class ThinkingOutputDict(TypedDict, total=False):
    """A response in two sections."""

    thinking: str
    output: str


# Scores one rollout. It takes any of `prompt`, `completion`, `answer`, `task`, `state` and `info`,
# columns and class objects.
IndividualRewardFunc: TypeAlias = Callable[..., Any]

# Scores a group at once. It takes the plurals (`completions`, `answers`, …) and returns
# `list[float]`.
GroupRewardFunc: TypeAlias = Callable[..., Any]

RewardFunc: TypeAlias = IndividualRewardFunc | GroupRewardFunc

# One reward per rollout; None for a rollout that is unscored.
Rewards: TypeAlias = Sequence[float | None]

# The methods by which callers score, and which subclasses of Rubric may override.
ScoringMethod: TypeAlias = Literal["score", "score_group", "score_rollout"]

# What happens when a criterion fails: its error is recorded on its line of the report, or raised.
OnError: TypeAlias = Literal["record", "raise"]

# The fields that a `State` looks up in its `input` row if it does not have them itself.
INPUT_FIELDS = frozenset({"prompt", "answer", "task", "info", "example_id"})


# `State` calls the methods of dict by this name, not through super(), which takes longer: a rollout
# reads a dozen fields per turn.
_dict: Any = dict


class State(dict[str, Any]):
    """The state of one rollout: a dict that also reads and writes the fields of its `input` row.

    >>> state = State(input={"prompt": "2+2?", "answer": "4"}, completion="4")
    >>> "answer" in state, state["answer"], state.get("answer")
    (True, '4', '4')
    """

    def _find_owner(self, key: object) -> dict[str, Any]:
        """Return the dict that holds `key`: the input row, or the state itself."""
        if key not in INPUT_FIELDS or _dict.__contains__(self, key):
            return self
        row: Any = _dict.get(self, "input")
        return row if isinstance(row, _dict) else self

    def __missing__(self, key: str) -> Any:
        owner = self._find_owner(key)
        if owner is self:
            raise KeyError(key)
        return owner[key]

    def __contains__(self, key: object) -> bool:
        if _dict.__contains__(self, key):
            return True
        return key in INPUT_FIELDS and _dict.__contains__(self._find_owner(key), key)

    def __setitem__(self, key: str, value: Any) -> None:
        owner = self._find_owner(key) if key in INPUT_FIELDS else self
        _dict.__setitem__(owner, key, value)

    def __delitem__(self, key: str) -> None:
        _dict.__delitem__(self._find_owner(key), key)

    def get(self, key: str, default: Any = None) -> Any:
        owner = self._find_owner(key) if key in INPUT_FIELDS else self
        return _dict.get(owner, key, default)

    # The versions of dict would not call the methods above.
    setdefault = MutableMapping[str, Any].setdefault
    update = MutableMapping[str, Any].update

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
