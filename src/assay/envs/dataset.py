"""Read the rows of a data set as examples, with the prompt that asks about each."""

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, cast

from assay.envs.prompt_template import PromptTemplate
from assay.messages import get_role
from assay.tables import TableError, rows_of
from assay.types import Message, Messages
from assay.wording import format_value

# For a type checker these hold any items. A `cast` would cost as much as the test of the type.
_dict: Any = dict
_list: Any = list
# A row with `prompt`, `answer`, `task`, `info`, `example_id`, and every other column it came with.
Example: TypeAlias = dict[str, Any]

COLUMNS_ADVICE = (
    "an environment asks the `question` or the `prompt` of a row, and checks see `answer`, `task`, "
    "`info` and every other column by name"
)


@dataclass(frozen=True)
class ExampleReader:
    """Reads rows as examples. A prompt is the system prompt, the few-shot messages and the question."""

    # Takes the place of `system_prompt` and `few_shot`.
    template: PromptTemplate | None = None
    system_prompt: str | None = None
    few_shot: tuple[Message, ...] = ()
    task: str = "default"  # the task of rows without a `task` or `category`
    # Whether a `prompt` that is a plain text stays one, if no message is put before it.
    keeps_text: bool = False
    # Whether the few-shot messages are put before a `prompt` too, or only before a `question`.
    shots_in_prompts: bool = True
    media: bool = True  # whether a column such as `image` is part of the prompt
    # Whether an `example_id` that is not an integer is replaced by the number of the row.
    numbered: bool = False

    def read(self, source: object, name: str) -> list[Example]:
        """Return the examples of a source. Raise `TableError` for a row that cannot be read."""
        rows = rows_of(source, where=name, media=self.media)
        return [self._make_example(row, number, name) for number, row in enumerate(rows)]

    def _make_example(self, row: dict[str, Any], number: int, name: str) -> Example:
        """Return a row as an example; `number` is its position in the data set of that name."""
        where = f"row {number} of {name}"  # for errors
        example = {
            **row,
            "prompt": self._make_prompt(row, where),
            "info": _read_info(row, where),
            "answer": row.get("answer", ""),
            "task": self._find_task(row),
        }
        example_id = row.get("example_id")
        if self.numbered and type(example_id) is not int:
            example["example_id"] = number
            if example_id is not None:
                example["src_id"] = example_id  # its id in the source
        elif example_id is None:
            row_id = row.get("id")
            example["example_id"] = number if row_id is None else row_id
        return example

    def _find_task(self, row: Mapping[str, Any]) -> str:
        """Return the `task` of a row, or its `category`, by which a summary groups rollouts."""
        for column in ("task", "category"):
            if isinstance(row.get(column), str | int):
                return str(row[column])
        return self.task

    def _make_prompt(self, row: Mapping[str, Any], where: str) -> Messages:
        """Return what the model is asked about a row: by the template, or else by the row itself."""
        template = self.template
        if template is not None and template.user is not None:
            return template.fill(row, where=where)
        prompt = row.get("prompt")
        question = row.get("question") if prompt is None else prompt
        if question is None:
            columns = ", ".join(map(str, row)) or "none"
            raise TableError(f"{where} has the columns {columns}: {COLUMNS_ADVICE}")
        is_text_prompt = isinstance(question, str) and "prompt" in row
        adds_messages = template is not None or self.system_prompt or self.few_shot
        if is_text_prompt and self.keeps_text and not adds_messages:
            return question
        messages = read_messages(question, where)
        if template is not None:
            return template.fill(row, messages, where=where)
        # The system prompt of a row takes the place of the general one.
        system_count = _count_system_messages(messages)
        system = messages[:system_count]
        if not system and self.system_prompt:
            system = [{"role": "system", "content": self.system_prompt}]
        few_shot: tuple[Message, ...] = ()
        if self.shots_in_prompts or prompt is None:
            few_shot = self.few_shot
        return [*system, *few_shot, *messages[system_count:]]


def _count_system_messages(messages: Sequence[Message]) -> int:
    """Return how many messages at the start are system messages."""
    for index, message in enumerate(messages):
        if get_role(message) not in ("system", "developer"):
            return index
    return len(messages)


def _read_info(row: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return the `info` of a row, which may be JSON text."""
    info = row.get("info")
    if isinstance(info, str) and info.strip():
        try:
            info = json.loads(info)
        except ValueError as error:
            raise TableError(
                f"{where}: info is not a JSON object ({error}): {format_value(info)}"
            ) from None
    if info is None or info == "":
        return {}
    if not isinstance(info, Mapping):
        raise TableError(
            f"{where}: info is {format_value(info)}: give a mapping, or a JSON object as text"
        )
    return dict(cast("Mapping[str, Any]", info))


def read_messages(value: Any, where: str) -> list[Message]:
    """Return a chat as plain messages; a text is a message of the user.

    Raises `TableError` for anything else.
    """
    if type(value) is _list and all(map(_is_plain, value)):
        # The usual case. It must be fast, since every turn reads all earlier messages.
        return value.copy()
    if isinstance(value, str):
        return [{"role": "user", "content": value}]
    if isinstance(value, Mapping) or hasattr(cast("object", value), "role"):
        return [_read_message(cast("object", value), where)]
    if not isinstance(value, Sequence) or isinstance(value, bytes):
        raise TableError(
            f"{where}: {format_value(value)} is not a chat: give a text or a list of messages"
        )
    return [_read_message(message, where) for message in cast("Sequence[object]", value)]


def _is_plain(message: Any) -> bool:
    """Return whether a message is a dict with a role and a text, and nothing else."""
    return (
        type(message) is _dict
        and len(message) == 2
        and type(message.get("content")) is str
        and type(message.get("role")) is str
    )


def _read_message(message: object, where: str) -> Message:
    """Return a message, which may be an object of pydantic, as a mapping without empty fields."""
    dump: Callable[[], Any] | None = getattr(message, "model_dump", None)
    fields: Any = message if dump is None else dump()
    if not isinstance(fields, Mapping) or not get_role(cast("Message", fields)):
        raise TableError(
            f"{where}: {format_value(message)} is not a message: "
            'give {"role": ..., "content": ...}'
        )
    # A table has a cell for every field of any message, or of any part of one. Most are empty.
    filled = _drop_empty_fields(cast("Mapping[str, Any]", fields))
    return {"role": filled.pop("role"), "content": filled.pop("content", ""), **filled}


def _drop_empty_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message without fields that are None, also in the parts of its content."""
    filled = {name: value for name, value in fields.items() if value is not None}
    if "content" in filled:
        filled["content"] = _drop_empty_values(filled["content"])
    return filled


def _drop_empty_values(value: Any) -> Any:
    """Return a content without fields that are None, at any depth."""
    if isinstance(value, Mapping):
        fields = cast("Mapping[str, Any]", value).items()
        return {name: _drop_empty_values(field) for name, field in fields if field is not None}
    if type(value) is list:
        return [_drop_empty_values(item) for item in cast("list[Any]", value)]
    return value


def copy_nested(value: Any) -> Any:
    """Return a copy of nested dicts and lists, which shares the other values with the original."""
    # `_dict` and `_list` are `dict` and `list`, for a type checker with items of any type.
    if type(value) is _dict:
        # Most values are texts. Testing for that here is faster than a call for each.
        return {
            name: item if type(item) is str else copy_nested(item) for name, item in value.items()
        }
    if type(value) is _list:
        return [copy_nested(item) for item in value]
    return value


def read_examples(source: Any, name: str, reader: ExampleReader) -> list[Example] | None:
    """Return the examples of a source, or of the function that returns it; None without a source.

    In errors the source is called by its path, or else by `name`.
    """
    if source is None:
        return None
    rows: Any = source() if callable(source) else source
    if isinstance(rows, str | Path):
        name = str(rows)
    return reader.read(rows, name)


def select_first(examples: Sequence[Example], count: int, seed: int | None = None) -> list[Example]:
    """Return the first `count` examples, all for -1, shuffled before if there is a seed."""
    if count == 0 or count < -1:
        raise ValueError(f"num_examples is {count}: give 1 or more, or -1 for all")
    if seed is not None:
        examples = random.Random(seed).sample(examples, len(examples))
    return list(examples if count == -1 else examples[:count])


def repeat_examples(examples: Sequence[Example], count: int) -> list[Example]:
    """Return `count` examples, beginning again at the first after the last."""
    if count < 1:
        raise ValueError(f"n_samples is {count}: give 1 or more")
    if not examples:
        return []
    return [examples[number % len(examples)] for number in range(count)]
