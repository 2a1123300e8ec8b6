"""PromptTemplate says how a row becomes a prompt: system prompt, few-shot examples, and the question."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, cast

from assay.errors import AssayError, ColumnError
from assay.loading.document import read_file
from assay.messages import get_role, message_text
from assay.placeholders import parse_template
from assay.types import Message
from assay.wording import format_value, suggest_word

_STRUCTURED_SUFFIXES: Final = (".yaml", ".yml", ".json")
_KEYS: Final = ("system", "few_shot", "user", "messages")


class PromptError(AssayError, ValueError):
    """A prompt template or a few-shot example is wrong; the message says what to do."""


@dataclass(frozen=True)
class PromptTemplate:
    """A prompt with placeholders such as `{question}` for the columns of a row.

    The placeholders are those of requirements and checks; see `assay.placeholders`.

    >>> template = PromptTemplate(system="Answer in {language}.", user="Q: {question}")
    >>> [message["content"] for message in template.fill({"language": "French", "question": "1 + 1?"})]
    ['Answer in French.', 'Q: 1 + 1?']
    """

    system: str | None = None
    few_shot: tuple[Message, ...] = ()  # user and assistant messages, with placeholders
    # More examples, whose texts come from data and are therefore not filled in.
    examples: tuple[Message, ...] = ()
    user: str | None = None  # None stands for the `prompt` or `question` of the row
    name: str = ""  # what tables call it, such as the name of its file

    @classmethod
    def from_file(cls, path: str | Path) -> PromptTemplate:
        """Read a template from a file.

        A `.yaml`, `.yml` or `.json` file holds a list of messages, or a mapping with `system`,
        `few_shot` (pairs of `user` and `assistant`) and `user`. Any other file is the text of the
        user message.
        """
        path = Path(path)
        if path.suffix.lower() in _STRUCTURED_SUFFIXES:
            return _read_template(read_file(path).data, path)
        try:
            text = path.read_text(encoding="utf-8-sig")
        except UnicodeDecodeError as error:
            raise PromptError(f"{path} is not UTF-8 text ({error}): save it as UTF-8") from None
        return cls(user=text.rstrip("\n"), name=path.stem)

    def with_examples(
        self, rows: Iterable[Mapping[str, Any]], count: int | None = None
    ) -> PromptTemplate:
        """Return a copy with the first `count` rows as examples, or with all rows.

        The user message of an example is written like that of a question, and the assistant's is
        the column `completion` or `answer` of the row.
        """
        examples: list[Message] = []
        for number, row in enumerate(rows):
            if number == count:
                break
            examples.extend(self._make_example(row, f"few-shot row {number}"))
        row_count = len(examples) // 2  # a question and an answer from each
        if count is not None and row_count < count:
            raise PromptError(
                f"there are {row_count} few-shot rows: add rows, or ask for fewer than {count}"
            )
        return replace(self, examples=(*self.examples, *examples))

    def _make_example(self, row: Mapping[str, Any], where: str) -> list[Message]:
        """Return a row as a question and its answer; `where` names the row in errors."""
        answer = row.get("completion")
        if answer is None:
            answer = row.get("answer")
        if answer is None:
            raise PromptError(
                f"{where} has no `completion` or `answer` (columns: {', '.join(row) or 'none'}): "
                "add what the model should have replied"
            )
        if self.user is not None:
            question: Any = _fill(self.user, row, where)
        else:
            question = row.get("prompt")
            if question is None:
                question = row.get("question")
        if question is None:
            raise PromptError(
                f"{where} has no `prompt` or `question` (columns: {', '.join(row) or 'none'}): "
                "add what the model is asked"
            )
        if not isinstance(question, str):
            question = message_text(_find_last_user_message(question, where))
        return [
            {"role": "user", "content": question},
            {"role": "assistant", "content": answer if isinstance(answer, str) else str(answer)},
        ]

    def fill(
        self,
        row: Mapping[str, Any],
        question: Sequence[Message] = (),
        *,
        where: str = "the row",
    ) -> list[Message]:
        """Return the messages that ask about a row.

        `question` are the row's own messages, which are used if the template has no `user`. A
        system prompt at their start replaces that of the template. The few-shot messages of the
        template are filled with the row's columns too; examples from a file are used as they are.
        Raises `PromptError` if the row
        lacks a column.
        """
        own_system: list[Message] = []
        rest: list[Message] = []
        if self.user is not None:
            rest.append({"role": "user", "content": _fill(self.user, row, where)})
        else:
            for message in question:
                is_system = get_role(message) in ("system", "developer")
                if is_system and not rest:
                    own_system.append(message)
                else:
                    rest.append(message)
        system = own_system
        if self.system is not None and not own_system:
            system = [{"role": "system", "content": _fill(self.system, row, where)}]
        few_shot = [
            {**message, "content": _fill(message["content"], row, where)}
            for message in self.few_shot
        ]
        return [*system, *few_shot, *self.examples, *rest]

    def to_dict(self) -> dict[str, Any]:
        """Return the template as plain data, without its name and without what is empty."""
        data: dict[str, Any] = {
            "system": self.system,
            "few_shot": list(self.few_shot),
            "examples": list(self.examples),
            "user": self.user,
        }
        return {key: value for key, value in data.items() if value}


def _fill(text: str, row: Mapping[str, Any], where: str) -> str:
    """Return a text with the values of a row in its placeholders; `where` names the row in errors."""
    try:
        return parse_template(text).fill(row, allow_empty=True)
    except ColumnError as error:
        raise PromptError(f"{where} does not fill the prompt: {error}") from None


def _find_last_user_message(value: object, where: str) -> Message:
    """Return the last message of the user in a list of messages; `where` names the row in errors."""
    if isinstance(value, list | tuple):
        for message in reversed(cast("Sequence[Any]", value)):
            if isinstance(message, Mapping) and get_role(cast("Message", message)) == "user":
                return cast("Message", message)
    raise PromptError(
        f"{where} asks {format_value(cast('object', value))}: give a text or a list of messages"
    )


def _read_template(data: object, path: Path) -> PromptTemplate:
    """Return the template in the data of a YAML or JSON file: a list of messages, or a mapping."""
    if isinstance(data, list):
        return _from_messages(cast("list[Any]", data), path)
    if not isinstance(data, Mapping):
        raise PromptError(
            f"{path} holds {format_value(data)}: give a list of messages, or a mapping with "
            "system, few_shot and user"
        )
    fields = cast("Mapping[str, object]", data)
    is_unquoted_placeholder = len(fields) == 1 and None in fields.values()
    if is_unquoted_placeholder:
        [key] = fields
        raise PromptError(
            f"{path} holds {{{key}}} without quotes, which YAML reads as a mapping: write "
            f"'user: \"{{{key}}}\"'"
        )
    for key in fields:
        if key not in _KEYS:
            raise PromptError(f"{path} has the key {key!r}: {suggest_word(key, _KEYS)}")
    if "messages" in fields:
        if len(fields) > 1:
            raise PromptError(f"{path} has messages and other keys: put all into messages")
        return _read_template(fields["messages"], path)
    for key in ("system", "user"):
        if not isinstance(fields.get(key, ""), str):
            raise PromptError(
                f"{path}: {key} is {format_value(fields[key])}: give a text, and quote one that "
                "starts with a brace"
            )
    pairs: Any = fields.get("few_shot") or []
    if not isinstance(pairs, list):
        raise PromptError(f"{path}: few_shot is {format_value(pairs)}: give a list of pairs")
    few_shot: list[Message] = []
    for pair in cast("list[Any]", pairs):
        few_shot.extend(_read_pair(pair, path))
    return PromptTemplate(
        system=cast("str | None", fields.get("system")),
        few_shot=tuple(few_shot),
        user=cast("str | None", fields.get("user")),
        name=path.stem,
    )


def _read_pair(pair: Any, path: Path) -> list[Message]:
    """Return the messages of an entry of `few_shot`: a user and an assistant text, or one message."""
    if isinstance(pair, Mapping):
        fields = cast("Mapping[str, object]", pair)
        if set(fields) == {"user", "assistant"}:
            texts = {role: fields[role] for role in ("user", "assistant")}
            return [_make_message(role, text, path) for role, text in texts.items()]
        if set(fields) == {"role", "content"}:
            return [_make_message(fields["role"], fields["content"], path)]
    raise PromptError(
        f"{path}: few_shot holds {format_value(cast('object', pair))}: give pairs such as "
        "{user: '1 + 1?', assistant: '2'}"
    )


def _from_messages(messages: list[Any], path: Path) -> PromptTemplate:
    """Return the template of a list of messages, of which the last asks the question."""
    texts: list[Message] = []
    for message in messages:
        if not isinstance(message, Mapping) or set(cast("Message", message)) != {"role", "content"}:
            raise PromptError(
                f"{path} holds {format_value(cast('object', message))}: "
                "give messages with role and content"
            )
        fields = cast("Mapping[str, object]", message)
        texts.append(_make_message(fields["role"], fields["content"], path))
    system = None
    if texts and texts[0]["role"] == "system":
        system = texts.pop(0)["content"]
    if not texts or texts[-1]["role"] != "user":
        raise PromptError(f"{path} does not end with a user message: add the one that asks")
    user = texts.pop()["content"]
    return PromptTemplate(system=system, few_shot=tuple(texts), user=user, name=path.stem)


def _make_message(role: object, text: object, path: Path) -> Message:
    """Return a message of a template, after checking its role and its text."""
    if role not in ("system", "developer", "user", "assistant"):
        raise PromptError(
            f"{path} has the role {format_value(role)}: use system, user or assistant"
        )
    if not isinstance(text, str):
        raise PromptError(f"{path} has the content {format_value(text)}: give a text")
    return {"role": role, "content": text}
