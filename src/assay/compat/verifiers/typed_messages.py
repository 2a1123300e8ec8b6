"""Messages, tools and responses whose fields can be read by key, as in assay, or as attributes.

The classes have the names of those of `verifiers`.
"""

import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, ClassVar, Self, cast

from assay.envs.dataset import read_messages
from assay.errors import import_extra
from assay.models import Reply
from assay.models.callable_tool import CallableTool, assistant_message
from assay.redaction import get_logger


class AttributeRecord(dict[str, Any]):
    """A dict whose fields are attributes, too.

    Keywords of a class definition, such as `role="user"`, are the defaults of its fields.
    """

    __slots__ = ()
    _defaults: ClassVar[dict[str, Any]] = {}
    OPTIONAL: ClassVar[tuple[str, ...]] = ()  # fields that are None if they are not set

    def __init_subclass__(cls, **defaults: Any) -> None:
        cls._defaults = cls._defaults | defaults

    def __init__(self, record: Mapping[str, Any] | None = None, /, **fields: Any) -> None:
        """Copy a record, with these fields changed or added."""
        super().__init__({**self._defaults, **(record or {}), **fields})

    def __missing__(self, name: str) -> Any:
        if name in self.OPTIONAL:
            return None
        raise KeyError(name)

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}") from None

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def model_dump(self, *, exclude_none: bool = False, **options: Any) -> dict[str, Any]:
        """Return all fields as a plain dict, with None for those that are not set."""
        fields = {**dict.fromkeys(self.OPTIONAL), **self}
        if not exclude_none:
            return fields
        return {name: value for name, value in fields.items() if value is not None}

    def model_copy(self, *, update: Mapping[str, Any] | None = None, **options: Any) -> Self:
        """Return a copy with these fields changed."""
        return type(self)(self, **(update or {}))

    @classmethod
    def model_validate(cls, record: Mapping[str, Any]) -> Self:
        return cls(record)


class _Message(AttributeRecord):
    """A message whose content is a text or a list of parts."""

    def __init__(self, record: Mapping[str, Any] | None = None, /, **fields: Any) -> None:
        super().__init__(record, **fields)
        if isinstance(self.get("content"), list):
            self["content"] = [from_raw_content_part(part) for part in self["content"]]


class SystemMessage(_Message, role="system"):
    @classmethod
    def from_path(cls, path: Any) -> Self:
        """Return a message with the text of a file."""
        return cls(content=Path(path).read_text(encoding="utf-8"))


class UserMessage(_Message, role="user"): ...


class ToolMessage(_Message, role="tool"): ...


class TextMessage(_Message, role="text"): ...


class TextContentPart(AttributeRecord, type="text"): ...


class ImageUrlContentPart(AttributeRecord, type="image_url"): ...


class InputAudioContentPart(AttributeRecord, type="input_audio"): ...


class ToolCall(AttributeRecord, type="function"):
    """A call in OpenAI's form, `{"type": "function", "function": {...}}`.

    In verifiers the `name` and the `arguments` of the function are fields of the call, so they can
    be given and read here as well.
    """

    def __init__(self, record: Mapping[str, Any] | None = None, /, **fields: Any) -> None:
        call = {**(record or {}), **fields}
        function = AttributeRecord(call.get("function") or {})
        for name in ("name", "arguments"):
            if name in call:
                function[name] = call.pop(name)
        super().__init__(call, function=function)

    def __missing__(self, name: str) -> Any:
        if name in ("name", "arguments"):
            return self["function"][name]
        raise KeyError(name)

    def model_dump(self, **options: Any) -> dict[str, Any]:
        """Return the call as in verifiers, with the fields of its function."""
        return {"id": self.get("id"), "name": self.name, "arguments": self.arguments}


class AssistantMessage(_Message, role="assistant", content=None):
    """A message of the model."""

    OPTIONAL = ("reasoning_content", "thinking_blocks", "tool_calls")

    def __init__(self, record: Mapping[str, Any] | None = None, /, **fields: Any) -> None:
        super().__init__(record, **fields)
        if self.get("tool_calls"):
            self["tool_calls"] = [ToolCall(call) for call in self["tool_calls"]]


_RESPONSE_FIELDS = ("finish_reason", "is_truncated", "tokens")


class ResponseMessage(AssistantMessage):
    """The message of a response, with fields that say how it ended."""

    OPTIONAL = (*AssistantMessage.OPTIONAL, *_RESPONSE_FIELDS)


def to_chat_message(message: Mapping[str, Any]) -> AssistantMessage:
    """Return the message of a response as a message of a chat, without those fields."""
    fields = {name: value for name, value in message.items() if name not in _RESPONSE_FIELDS}
    return AssistantMessage(fields)


class Tool(AttributeRecord):
    """A tool as a model sees it: `name`, `description` and a JSON schema of `parameters`."""

    OPTIONAL = ("strict",)

    def __missing__(self, name: str) -> Any:
        # Programs for versions before 0.1.11 read `tool["function"]["name"]`.
        if name == "function":
            return self
        if name == "type":
            return "function"
        return super().__missing__(name)


def convert_func_to_tool_def(func: Callable[..., Any], args_to_skip: Sequence[str] = ()) -> Tool:
    """Describe a function by its signature and docstring, in the form used since 0.1.11."""
    declared = CallableTool(func, args_to_skip).declared
    return Tool(
        name=declared.name,
        description=declared.description,
        parameters=json.loads(declared.parameters),
    )


def convert_func_to_oai_tool(func: Callable[..., Any]) -> dict[str, Any]:
    """Describe a function by its signature and docstring, in OpenAI's form."""
    return to_oai_tool(convert_func_to_tool_def(func))


def to_oai_tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    """Return a tool in OpenAI's form, which verifiers used before 0.1.11."""
    return {"type": "function", "function": dict(tool)}


_warn_once = cache(get_logger("assay").warning)
_MESSAGE_CLASSES = {
    "system": SystemMessage,
    "user": UserMessage,
    "assistant": AssistantMessage,
    "tool": ToolMessage,
}
_PART_CLASSES = {
    "text": TextContentPart,
    "image_url": ImageUrlContentPart,
    "input_audio": InputAudioContentPart,
}


def _is_typed_chat(value: object) -> bool:
    """Return whether a value is a list of messages of these classes."""
    if not isinstance(value, list):
        return False
    return all(isinstance(message, AttributeRecord) for message in cast("list[Any]", value))


def to_typed_chat(value: object, field_name: str = "messages") -> list[Any]:
    """Return a text or a chat as messages of these classes. Those that are already are kept.

    `field_name` is what an error calls the value.
    """
    if type(value) is list and _is_typed_chat(cast("list[Any]", value)):
        return as_records(cast("list[Any]", value))
    return as_records(read_messages(value, field_name))


def as_records(chat: Sequence[Any]) -> list[Any]:
    """Return the messages of a chat as messages of these classes."""
    records: list[Any] = []
    for message in chat:
        if message["role"] == "text":
            # An endpoint for chats takes a text without a role as a message of the user.
            message = UserMessage(message, role="user")
        elif not isinstance(message, AttributeRecord):
            message = _MESSAGE_CLASSES.get(message["role"], AttributeRecord)(message)
        records.append(message)
    return records


def normalize_messages(value: Any, *, field_name: str = "messages") -> list[Any]:
    """Return a text or a chat as messages of these classes.

    Other objects with `role` and `content` are kept as they are.
    """
    chat: list[Any] = [TextMessage(content=value)] if isinstance(value, str) else [*value]
    messages: list[Any] = []
    for message in chat:
        is_dict = isinstance(cast("object", message), dict)
        has_fields = hasattr(message, "role") and hasattr(message, "content")
        if not is_dict and not has_fields:
            raise TypeError(
                f"{field_name} has an item of type {type(message).__name__}: "
                "give messages, or their dicts"
            )
        messages.append(message if hasattr(message, "role") else from_raw_message(message))
    return messages


def maybe_normalize_messages(value: Any, *, field_name: str = "messages") -> list[Any]:
    """Return what `normalize_messages` does, with a warning the first time.

    A list of messages of these classes is returned unchanged, without a warning.
    """
    if _is_typed_chat(value):
        return value
    _warn_once(
        f"{field_name} has dicts or texts, which have to be converted each time: "
        "give vf.UserMessage and the like"
    )
    return normalize_messages(value, field_name=field_name)


def from_raw_message(message: Mapping[str, Any]) -> Any:
    """Return a dict as a message of the class for its role."""
    classes = {**_MESSAGE_CLASSES, "text": TextMessage}
    role = message["role"]
    if role not in classes:
        raise ValueError(f"Unknown role: {role}: give one of {', '.join(classes)}")
    typed_message = classes[role](message)
    if role == "assistant":
        for call in typed_message.get("tool_calls") or ():
            _complete_call(call)
    return typed_message


def _complete_call(call: Any) -> None:
    """Give a tool call an id, and write its arguments as JSON."""
    arguments: object = call["function"].get("arguments")
    if arguments is None:
        arguments = {}
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments, default=str)
    call.update(
        id=call.get("id") or call.name,  # a call without an id is identified by its name
        function=AttributeRecord(call["function"], arguments=arguments),
    )


def from_raw_content_part(part: Any) -> Any:
    """Return a part of a message as one of these classes; one of an unknown type is unchanged."""
    part_class = _PART_CLASSES.get(_get_fields(part).get("type", ""))
    if part_class is None:
        return part
    fields: dict[str, Any] = {}
    for name, value in part.items():
        # A part from a table has a cell, which may be None, for every field that any part has.
        if value is not None:
            is_record = bool(_get_fields(value))  # such as `{"url": "..."}`
            fields[name] = AttributeRecord(value) if is_record else value
    return part_class(fields)


def _get_fields(message: object) -> dict[str, Any]:
    """Return the fields of a dict or of an object; of anything else, such as a text, there are none."""
    if isinstance(message, dict):
        return cast("dict[str, Any]", message)
    return getattr(message, "__dict__", {})


def message_to_printable(message: Any) -> Any:
    """Return the message with its parts joined to one text, with `[image]` and `[audio]` for media."""
    fields = _get_fields(message)
    if not isinstance(fields.get("content"), list):
        return message
    placeholders = {"image_url": "[image]", "input_audio": "[audio]", "audio": "[audio]"}
    texts: list[str] = []
    for part in map(_get_fields, fields["content"]):
        kind = part.get("type", "")
        text = part.get("text") if kind == "text" else placeholders.get(kind)
        if isinstance(text, str):
            texts.append(text)
    content = " ".join(texts).strip()
    if hasattr(message, "model_copy"):
        return message.model_copy(update={"content": content})
    printable = {"role": fields.get("role"), "content": content}
    for name in ("reasoning_content", "tool_calls"):
        if fields.get(name) is not None:
            printable[name] = fields[name]
    return printable


def serialize_message_for_output(message: Any) -> Any:
    """Return the message with its parts in OpenAI's form, and only with fields that exist there."""
    fields = _get_fields(message)
    if not isinstance(fields.get("content"), list):
        return message
    parts = [_to_oai_part(part) for part in fields["content"]]
    serialized: dict[str, Any] = {
        "role": fields.get("role"),
        "content": [part for part in parts if part is not None],
    }
    for name in ("reasoning_content", "tool_calls", "tool_call_id", "name"):
        if fields.get(name) is not None:
            serialized[name] = fields[name]
    if "tool_calls" in serialized:
        calls: list[Any] = []
        for call in serialized["tool_calls"]:
            calls.append(call.model_dump() if isinstance(call, ToolCall) else call)
        serialized["tool_calls"] = calls
    return serialized


def _to_oai_part(part: Any) -> Any:
    """Return a part of a message in OpenAI's form; None for a text or an image without content.

    A part of an unknown type is unchanged. Audio that cannot be sent becomes the text `[audio]`.
    """
    fields = _get_fields(part)
    if fields.get("type") == "audio":
        # Its `data` and `format` may be in `input_audio`, or in the part itself.
        fields = {"input_audio": fields, **fields, "type": "input_audio"}
    match fields:
        case {"type": "text", "text": str(text)}:
            return {"type": "text", "text": text}
        case {"type": "image_url", "image_url": str(url) | {"url": str(url)}}:
            return {"type": "image_url", "image_url": {"url": url}}
        case {"type": "input_audio", "input_audio": {"data": str(data), "format": str(form)}} if (
            data.strip() and form
        ):
            audio = {"data": "".join(data.split()), "format": form.strip().lower()}
            return {"type": "input_audio", "input_audio": audio}
        case {"type": "input_audio"}:
            return {"type": "text", "text": "[audio]"}
        case _:
            return None if fields.get("type") in ("text", "image_url") else part


def _convert_chat(convert_message: Callable[[Any], Any], messages: Any) -> Any:
    """Return a chat with every message converted; a text is unchanged, and None is an empty chat."""
    if isinstance(messages, str):
        return messages
    chat: list[Any] = messages or []
    return [convert_message(message) for message in chat]


messages_to_printable = partial(_convert_chat, message_to_printable)
serialize_messages_for_output = partial(_convert_chat, serialize_message_for_output)
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


def format_messages(messages: Any) -> Any:
    """Return a chat as a coloured `Text` of rich, without characters that a terminal cannot show."""
    rich_text = import_extra("rich.text", "a chat in colours", extra="cli").Text
    if isinstance(messages, str):
        styled_messages = [[(messages, "")]]
    else:
        styled_messages = [_style_message(_get_fields(message)) for message in messages]
    texts: list[Any] = []
    for pieces in styled_messages:
        printable = [(_UNPRINTABLE.sub("\ufffd", piece), style) for piece, style in pieces]
        texts.append(rich_text.assemble(*printable))
    return rich_text("\n\n").join(texts)


def _style_message(message: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the pieces of a message's text, each with its style."""
    style = "bright_cyan" if message.get("role") == "assistant" else "bright_magenta"
    pieces = [(f"{message.get('role', '')}: ", "bold")]
    reasoning = message.get("reasoning_content")
    content = message.get("content")
    if isinstance(reasoning, str) and reasoning.strip():
        pieces.append(("\n", ""))
        pieces.append(("[reasoning]\n", "dim"))
        pieces.append((reasoning, "dim"))
        pieces.append(("\n\n" if content else "\n", ""))
    if content:
        pieces.append((str(content), style))
    for call in message.get("tool_calls") or ():
        call_fields = _get_fields(json.loads(call) if isinstance(call, str) else call)
        function = _get_fields(call_fields.get("function") or call_fields)
        arguments: object = function.get("arguments") or {}
        if not isinstance(arguments, str):
            arguments = json.dumps(arguments)
        shown_call = {"name": function.get("name", ""), "args": arguments}
        shown_json = json.dumps(shown_call, indent=2, ensure_ascii=False)
        pieces.append((f"\n\n[tool call]\n{shown_json}", style))
    return pieces


def sanitize_tool_calls(messages: Any) -> Any:
    """Return a chat with each tool call as JSON text, for tables, whose columns have one type."""
    if not isinstance(messages, list):
        return messages
    return [_sanitize_message(message) for message in cast("list[Any]", messages)]


def _sanitize_message(message: Any) -> Any:
    """Return a message with each tool call as JSON text; one without calls is unchanged."""
    fields = _get_fields(message)
    if not fields.get("tool_calls"):
        return message
    call_texts: list[str] = []
    for call in fields["tool_calls"]:
        if isinstance(call, str):
            call = json.loads(call)
        if type(call) is not dict:
            call = call.model_dump(exclude_none=True)
        call_texts.append(json.dumps(call))
    content = fields.get("content", "")
    if hasattr(message, "role"):  # as in verifiers, the content of a plain dict may stay None
        content = content or ""
    sanitized: dict[str, Any] = {
        "role": fields["role"],
        "content": content,
        "tool_calls": call_texts,
    }
    if isinstance(fields.get("reasoning_content"), str):
        sanitized["reasoning_content"] = fields["reasoning_content"]
    return sanitized


class Response(AttributeRecord):
    """A model's response: `message`, as since 0.1.11, and `choices`, as before."""

    OPTIONAL = ("id", "created", "model", "usage")

    @classmethod
    def of(cls, reply: Reply, turn: int) -> Self:
        """Return the response for a reply of our models. `turn` makes the ids of its calls unique."""
        message = AssistantMessage(assistant_message(reply, turn))
        usage = AttributeRecord(
            prompt_tokens=reply.usage.prompt,
            completion_tokens=reply.usage.completion,
            reasoning_tokens=0,
            total_tokens=reply.usage.prompt + reply.usage.completion,
        )
        response_message = ResponseMessage(
            message,
            finish_reason=reply.finish_reason,
            is_truncated=reply.finish_reason == "length",
            tokens=None,
        )
        choice = AttributeRecord(
            index=0,
            message=message,
            text=reply.text,
            finish_reason=reply.finish_reason,
            logprobs=None,
        )
        return cls(
            id="",
            created=int(time.time()),
            model=reply.model,
            usage=usage,
            message=response_message,
            choices=[choice],
        )
