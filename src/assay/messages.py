"""Read text, roles and tool calls off messages, which are mappings or objects of an SDK; nothing is changed."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from numbers import Real
from typing import Any, NamedTuple, cast

from assay.types import Messages
from assay.wording import short_repr


class ToolCall(NamedTuple):
    """One call of a tool that a model asked for."""

    name: str
    arguments: str  # as the model wrote them: JSON text, which may be broken
    id: str = ""


def text_of(content: object) -> str:
    """Return the text of a message's content: parts joined by a space, other kinds of part left out.

    >>> text_of([{"type": "text", "text": "a"}, {"type": "image_url"}, {"type": "text", "text": "b"}])
    'a b'
    """
    if isinstance(content, str):
        return content
    if content is None:
        return ""
    if isinstance(content, Iterable) and not isinstance(content, (bytes, Mapping)):
        texts = (_part_text(part) for part in cast("Iterable[object]", content))
        return " ".join(text for text in texts if text)
    return _part_text(cast("object", content))


def _part_text(part: object) -> str:
    if isinstance(part, str):
        return part
    text = _field(part, "text")
    return text if isinstance(text, str) else ""


def _field(message: object, name: str) -> Any:
    # Nearly every message is a dict, and a look at its type costs a tenth of the question below.
    if type(message) is dict or isinstance(message, Mapping):
        return cast("Mapping[str, Any]", message).get(name)
    return getattr(message, name, None)


def role_of(message: object) -> str:
    role = _field(message, "role")
    return role if isinstance(role, str) else ""


def message_text(message: object) -> str:
    """The text of one message, whatever its content is made of."""
    return message if isinstance(message, str) else text_of(_field(message, "content"))


def chat_of(messages: object) -> Sequence[Any]:
    """The messages of a chat; one message by itself is a chat too, and a plain text has none."""
    if type(messages) is list:
        return cast("list[Any]", messages)
    if isinstance(messages, Mapping):
        return [cast("object", messages)]
    if isinstance(messages, str | bytes) or not isinstance(messages, Sequence):
        return []
    return cast("Sequence[Any]", messages)


def with_role(messages: Messages, role: str) -> list[Any]:
    """The messages of one role, in order. A plain text has none."""
    return [message for message in chat_of(messages) if role_of(message) == role]


def last_with_role(messages: Messages, role: str) -> Any | None:
    """The last message of one role, or None. A plain text has none."""
    return next((message for message in reversed(chat_of(messages)) if role_of(message) == role), None)


def read_completion(completion: object) -> Any:
    """Return a completion as checks and judges read it: a text, or messages of which the assistant's last has one.

    A number is its text. Anything else raises a TypeError: read as an empty text it would score as if nothing was said.
    """
    if isinstance(completion, str):
        return completion
    number = _number_text(completion)
    if number is not None:
        return number
    chat = chat_of(completion)
    last = last_with_role(chat, "assistant")
    if last is None:
        raise TypeError(
            f"the completion is {_kind(completion)}: give a text, or messages of which one has the role 'assistant'"
        )
    content = _field(last, "content")
    if isinstance(content, str) or (content is None and (_field(last, "tool_calls") or _field(last, "function_call"))):
        return completion
    number = _number_text(content)
    if number is not None and isinstance(last, Mapping):
        spoken = {**cast("Mapping[str, Any]", last), "content": number}
        return [spoken if message is last else message for message in chat]
    if not _holds_text(content):
        raise TypeError(
            f"the content of the assistant's last message is {_kind(content)}: give a text, or a list of parts"
        )
    return completion


def is_plain_chat(completion: Any) -> bool:
    """Whether it is a list that ends with a text of the assistant, as nearly always: a quick look for many."""
    last: Any = completion[-1] if completion.__class__ is list and completion else None
    return last.__class__ is dict and last.get("role") == "assistant" and last.get("content").__class__ is str


def _number_text(value: object) -> str | None:
    """A finite number as text; None for anything else, True and False among them."""
    if isinstance(value, bool) or not isinstance(value, Real | Decimal):
        return None
    return str(value) if math.isfinite(value) else None


def _holds_text(content: object) -> bool:
    """Whether content that is no plain text holds texts, or parts of kinds that have none."""
    if isinstance(content, Sequence) and not isinstance(content, bytes):
        parts = cast("Sequence[object]", content)
        return all(isinstance(part, str) or _field(part, "type") is not None for part in parts)
    return isinstance(_field(content, "text"), str)


def _kind(value: object) -> str:
    if value is None:
        return "null, and no text"
    kind = type(value)
    name = kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
    return f"{short_repr(value)}, of the type {name}, and no text"


def completion_text(completion: Messages | None) -> str:
    """Return what the model finally said: a plain text as it is, else its last assistant message."""
    if completion is None or isinstance(completion, str):
        return completion or ""
    return _number_text(completion) or message_text(last_with_role(completion, "assistant") or "")


def question_text(prompt: Messages | None) -> str:
    """What was asked: a plain text as it is, else the last user message."""
    if prompt is None or isinstance(prompt, str):
        return prompt or ""
    return message_text(last_with_role(prompt, "user") or "")


def tool_calls(message: object) -> list[ToolCall]:
    """The tool calls of one message, from native `tool_calls`; entries saved as JSON text are read too."""
    calls = _field(message, "tool_calls")
    if not isinstance(calls, Iterable) or isinstance(calls, (str, bytes)):
        return []
    found = (_tool_call(entry) for entry in cast("Iterable[object]", calls))
    return [call for call in found if call is not None]


def _tool_call(entry: object) -> ToolCall | None:
    if isinstance(entry, str):
        try:
            entry = json.loads(entry)
        except ValueError:
            return None
    function = _field(entry, "function") or entry
    name = _field(function, "name")
    if not isinstance(name, str):
        return None
    arguments: object = _field(function, "arguments")
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments if arguments is not None else {})
    return ToolCall(name, arguments, str(_field(entry, "id") or ""))
