"""A Rollout is one recorded interaction with a model, ready to be scored."""

from collections.abc import Callable, Mapping
from inspect import Parameter
from typing import Any, Final, TypeAlias, cast

from assay.messages import is_plain_chat, read_completion, visible_text
from assay.types import Info, Messages
from assay.wording import format_value

# Converts a completion to the form that criteria read; raises TypeError if it cannot be read.
ReadCompletion: TypeAlias = Callable[[object], Any]

# Stands for a field that a rollout does not have, and for a parameter without a default.
ABSENT: Final[Any] = Parameter.empty

# The fields that scoring writes into a state. No check may take one of them as an argument.
OUTPUTS: Final = frozenset({"reward", "partial_reward", "metrics", "advantage", "errors"})

# Fields of a rollout that criteria cannot be filled with: what is scored, and the row of which
# every field is a column itself.
_NOT_COLUMNS: Final = OUTPUTS | {"completion", "input"}

SINGULAR: Final = frozenset({"prompt", "completion", "answer", "task", "state", "info"})
PLURALS: Final = {f"{name}s": name for name in SINGULAR}


class Rollout:
    """A prompt, the model's completion, and everything else that is known about them.

    `fields` holds what checks may name as arguments. `state` is what a check that takes `state`
    receives; checks may read it and write to it.

    >>> Rollout(prompt="2+2?", completion="4", answer="4").text
    '4'
    """

    __slots__ = ("fields", "judge_text", "state")

    def __init__(
        self,
        prompt: Messages = "",
        completion: Messages = "",
        answer: Any = "",
        task: str = "default",
        info: Info | None = None,
        state: Mapping[str, Any] | None = None,
        columns: Mapping[str, Any] | None = None,
    ) -> None:
        """`columns` are further fields that checks may name, such as columns of a data set.

        A prompt, an answer, a task or an info among them counts if the argument is left out.
        """
        fields = dict(columns or {})
        fields["completion"] = completion
        if prompt or "prompt" not in fields:
            fields["prompt"] = prompt
        is_answer_left_out = isinstance(answer, str) and not answer
        if not is_answer_left_out or "answer" not in fields:
            fields["answer"] = answer
        if task != "default" or "task" not in fields:
            fields["task"] = task
        if info is not None or "info" not in fields:
            fields["info"] = {} if info is None else info
        self.fields: Mapping[str, Any] = fields
        self.state: Mapping[str, Any] = {} if state is None else state
        # What a judge reads in place of the completion; None if it reads the completion.
        self.judge_text: str | None = None

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> "Rollout":
        """Return the rollout that a state describes; checks may name any field of the state."""
        rollout = object.__new__(cls)
        rollout.fields = state
        rollout.state = state
        rollout.judge_text = None
        return rollout

    @classmethod
    def from_fields(
        cls,
        fields: Mapping[str, Any],
        state: Mapping[str, Any],
        judge_text: str | None = None,
    ) -> "Rollout":
        """Return a rollout that reads `fields` without copying them.

        A check therefore sees what an earlier check wrote into them.
        """
        rollout = object.__new__(cls)
        rollout.fields = fields
        rollout.state = state
        rollout.judge_text = judge_text
        return rollout

    @property
    def is_state(self) -> bool:
        """Whether the fields are those of the state itself."""
        return self.fields is self.state

    def with_completion(self, completion: Any) -> "Rollout":
        """Return a copy with this completion and the same state."""
        fields = {**self.fields, "completion": completion}
        return self.from_fields(fields, self.state, self.judge_text)

    @property
    def has_plain_completion(self) -> bool:
        """Whether the completion is a text or an ordinary chat, which needs no conversion."""
        completion = self.fields.get("completion", "")
        return type(completion) is str or is_plain_chat(completion)

    def with_readable_completion(self, read: ReadCompletion = read_completion) -> "Rollout":
        """Return the rollout with its completion as criteria read it.

        Raises TypeError if the completion cannot be read.
        """
        if self.has_plain_completion:
            return self
        completion = self.fields["completion"]
        readable = read(completion)
        if readable is completion:
            return self
        return self.with_completion(readable)

    def find(self, name: str) -> Any:
        """Look a field up in the rollout, its input row and its state; ABSENT if none has it."""
        if name == "state":
            return self.state
        if name in self.fields:
            return self.fields[name]
        input_row = self._input_row
        if name in input_row:
            return input_row[name]
        return self.state.get(name, ABSENT)

    @property
    def _input_row(self) -> Mapping[str, Any]:
        """The row of the data set that an environment keeps in the field `input`, or nothing."""
        row = self.fields.get("input")
        # Nearly all rollouts have none, and testing for an abstract class is slow.
        if row is None or not isinstance(row, Mapping):
            return {}
        return cast("Mapping[str, Any]", row)

    def all_fields(self) -> dict[str, Any]:
        """Return every field by name, including those of the input row and of the state.

        Where several have a field of one name, the rollout's own takes precedence, then that of
        the input row, then that of the state.
        """
        fields = dict(self.fields)
        if "input" in fields or self.fields is not self.state:
            fields = {**self.state, **self._input_row, **fields}
        fields.setdefault("answer", "")
        fields.setdefault("task", "default")
        fields.setdefault("info", {})
        return fields

    @property
    def columns(self) -> dict[str, Any]:
        """The values, by name, that can fill the placeholders of a rubric.

        These are all fields except the completion and the results of scoring. The task and the
        info are left out too if they have their default values.
        """
        columns = {**self.state, **self._input_row, **self.fields}
        for name in _NOT_COLUMNS:
            columns.pop(name, None)
        if columns.get("task") == "default":
            del columns["task"]
        if columns.get("info") == {}:
            del columns["info"]
        return columns

    @property
    def prompt(self) -> Messages:
        return self._find_or("prompt", "")

    @property
    def completion(self) -> Messages:
        return self._find_or("completion", "")

    @property
    def answer(self) -> Any:
        return self._find_or("answer", "")

    @property
    def task(self) -> str:
        return self._find_or("task", "default")

    @property
    def info(self) -> Info:
        return self._find_or("info", {})

    @property
    def text(self) -> str:
        """The assistant's last message as plain text, without reasoning."""
        return visible_text(self.completion)

    def _find_or(self, name: str, default: Any) -> Any:
        value = self.find(name)
        return default if value is ABSENT else value

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Rollout):
            return NotImplemented
        return self.fields == other.fields and self.state == other.state

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Rollout(prompt={self.prompt!r}, completion={self.completion!r})"


def as_rollout(item: Rollout | Mapping[str, Any]) -> Rollout:
    """Return a rollout as it is; for a state, the rollout that it describes."""
    if isinstance(item, Rollout):
        return item
    # The test for a dict is quick, and that for other mappings is slow.
    if type(item) is not dict and not isinstance(item, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(
            f"a rollout is {format_value(item)}: give a mapping such as {{'completion': ...}}; "
            "rows_of(...) reads files, and grade() takes a text"
        )
    return Rollout.from_state(item)  # pyright: ignore[reportUnknownArgumentType]
