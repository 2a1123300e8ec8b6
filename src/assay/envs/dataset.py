"""Examples are the rows of a data set, ready to be asked."""

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

_dict: Any = (
    dict  # of any items to a checker of types: a `cast` at every look costs as much as the look
)
_list: Any = list
# A row with `prompt`, `answer`, `task`, `info`, `example_id`, and every other column it came with.
Example: TypeAlias = dict[str, Any]

NEEDED = (
    "an environment asks what stands under `question` or `prompt`, and checks see `answer`, `task`, "
    "`info` and every other column by name"
)


@dataclass(frozen=True)
class Asking:
    """How a question becomes a prompt: system prompt, then examples of answers, then the question."""

    # Takes the place of `system_prompt` and `few_shot`.
    template: PromptTemplate | None = None
    system_prompt: str | None = None
    few_shot: tuple[Message, ...] = ()
    task: str = "default"  # what rows without a `task` are called
    keeps_text: bool = (
        False  # whether a plain text under `prompt` stays one, if nothing goes before it
    )
    shots_in_prompts: bool = (
        True  # whether examples of answers go into a `prompt` too, or only before a `question`
    )
    media: bool = True  # whether a column such as `image` is part of the prompt
    numbered: bool = False  # whether an `example_id` that is no whole number is replaced by the number of the row

    def examples(self, source: object, name: str) -> list[Example]:
        """The rows of a source, each ready to be asked. A wrong row is named in a `TableError`."""
        rows = rows_of(source, where=name, media=self.media)
        return [self._example(row, number, name) for number, row in enumerate(rows)]

    def _example(self, row: dict[str, Any], number: int, name: str) -> Example:
        where = f"row {number + 1} of {name}"
        example = {**row, "prompt": self._prompt(row, where), "info": _info(row, where)}
        example["answer"] = row.get("answer", "")
        example["task"] = self._find_task(row)
        own = row.get("example_id")
        if self.numbered and type(own) is not int:
            example |= (
                {"example_id": number} if own is None else {"example_id": number, "src_id": own}
            )
        elif own is None:
            example["example_id"] = number if row.get("id") is None else row["id"]
        return example

    def _find_task(self, row: Mapping[str, Any]) -> str:
        """Return the `task` of a row, or its `category`, by which a summary groups rollouts."""
        for column in ("task", "category"):
            if isinstance(row.get(column), str | int):
                return str(row[column])
        return self.task

    def _prompt(self, row: Mapping[str, Any], where: str) -> Messages:
        template = self.template
        if template is not None and template.user is not None:
            return template.fill(row, where=where)
        asked = row.get("prompt") if row.get("prompt") is not None else row.get("question")
        if asked is None:
            found = ", ".join(map(str, row)) or "none"
            raise TableError(f"{where} has the columns {found}: {NEEDED}")
        is_alone = (
            self.keeps_text and template is None and not self.system_prompt and not self.few_shot
        )
        if is_alone and isinstance(asked, str) and "prompt" in row:
            return asked
        messages = messages_of(asked, where)
        if template is not None:
            return template.fill(row, messages, where=where)
        # A system prompt that the row brings takes the place of ours.
        others = (
            n
            for n, message in enumerate(messages)
            if get_role(message) not in ("system", "developer")
        )
        leading = next(others, len(messages))
        system = messages[:leading]
        if not system and self.system_prompt:
            system = [{"role": "system", "content": self.system_prompt}]
        shots = self.few_shot if self.shots_in_prompts or row.get("prompt") is None else ()
        return [*system, *shots, *messages[leading:]]


def _info(row: Mapping[str, Any], where: str) -> dict[str, Any]:
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
            f"{where}: info is {format_value(info)}: give a mapping, or one as JSON text"
        )
    return dict(cast("Mapping[str, Any]", info))


def messages_of(value: Any, where: str) -> list[Message]:
    """A chat as plain messages; a text is what the user says. Raises `TableError` on anything else."""
    if type(value) is _list and all(map(_is_plain, value)):
        # As nearly all are, and every turn looks at all that was said before.
        return value.copy()
    if isinstance(value, str):
        return [{"role": "user", "content": value}]
    if isinstance(value, Mapping) or hasattr(cast("object", value), "role"):
        return [_message(cast("object", value), where)]
    if not isinstance(value, Sequence) or isinstance(value, bytes):
        raise TableError(
            f"{where}: {format_value(value)} is not a chat: give a text or a list of messages"
        )
    return [_message(message, where) for message in cast("Sequence[object]", value)]


def _is_plain(message: Any) -> bool:
    return (
        type(message) is _dict
        and len(message) == 2
        and type(message.get("content")) is str
        and type(message.get("role")) is str
    )


def _message(message: object, where: str) -> Message:
    dump: Callable[[], Any] | None = getattr(message, "model_dump", None)
    given: object = dump() if dump is not None else message
    fields = cast("Mapping[str, Any]", given if isinstance(given, Mapping) else {})
    if not get_role(fields):
        raise TableError(
            f'{where}: {format_value(message)} is no message: give {{"role": ..., "content": ...}}'
        )
    # A table has a cell for every field that any message has, or any part of one; an empty one says nothing.
    kept = {name: value for name, value in fields.items() if value is not None}
    return {"role": kept.pop("role"), "content": _filled(kept.pop("content", "")), **kept}


def _filled(value: Any) -> Any:
    if isinstance(value, Mapping):
        fields = cast("Mapping[str, Any]", value).items()
        return {name: _filled(field) for name, field in fields if field is not None}
    return list(map(_filled, cast("list[Any]", value))) if type(value) is list else value


def copied(value: Any) -> Any:
    if type(value) is _dict:
        # Nearly all that is in it are texts, and a call for each costs more than the rest.
        return {name: v if type(v) is str else copied(v) for name, v in value.items()}
    return list(map(copied, value)) if type(value) is _list else value


def examples_of(source: Any, name: str, asking: Asking) -> list[Example] | None:
    """The examples of a source, or of the function that gives it; None when there is none."""
    if source is None:
        return None
    given: Any = source() if callable(source) else source
    return asking.examples(given, str(given) if isinstance(given, str | Path) else name)


def first_of(examples: Sequence[Example], count: int, seed: int | None = None) -> list[Example]:
    """The first so many, shuffled before if there is a seed; all for -1."""
    if count == 0 or count < -1:
        raise ValueError(f"num_examples is {count}: give 1 or more, or -1 for all")
    if seed is not None:
        examples = random.Random(seed).sample(examples, len(examples))
    return list(examples if count == -1 else examples[:count])


def in_turn(examples: Sequence[Example], count: int) -> list[Example]:
    if count < 1:
        raise ValueError(f"n_samples is {count}: give 1 or more")
    return [examples[number % len(examples)] for number in range(count)] if examples else []
