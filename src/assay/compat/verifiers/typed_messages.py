"""Messages, tools and replies have their fields by key, as ours do, and by attribute, as those of `verifiers` do."""

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
    """A dict whose fields are attributes too. Fields that it may have, and has not, are None."""

    __slots__ = ()
    _fixed: ClassVar[dict[str, Any]] = {}
    OPTIONAL: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, **fixed: Any) -> None:
        cls._fixed = cls._fixed | fixed

    def __init__(self, *given: Mapping[str, Any], **fields: Any) -> None:
        super().__init__({**self._fixed, **(given[0] if given else {}), **fields})

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
        every = {**dict.fromkeys(self.OPTIONAL), **self}
        return {
            name: value for name, value in every.items() if value is not None or not exclude_none
        }

    def model_copy(self, *, update: Mapping[str, Any] | None = None, **options: Any) -> Self:
        return type(self)(self, **(update or {}))

    @classmethod
    def model_validate(cls, given: Mapping[str, Any]) -> Self:
        return cls(given)


class _Message(AttributeRecord):
    def __init__(self, *given: Mapping[str, Any], **fields: Any) -> None:
        super().__init__(*given, **fields)
        if isinstance(self.get("content"), list):
            self["content"] = [from_raw_content_part(part) for part in self["content"]]


class SystemMessage(_Message, role="system"):
    @classmethod
    def from_path(cls, path: Any) -> Self:
        return cls(content=Path(path).read_text(encoding="utf-8"))


class UserMessage(_Message, role="user"): ...


class ToolMessage(_Message, role="tool"): ...


class TextMessage(_Message, role="text"): ...


class TextContentPart(AttributeRecord, type="text"): ...


class ImageUrlContentPart(AttributeRecord, type="image_url"): ...


class InputAudioContentPart(AttributeRecord, type="input_audio"): ...


class ToolCall(AttributeRecord, type="function"):
    """One call, in the form that endpoints take; `name` and `arguments` are those of its `function`."""

    def __init__(self, *given: Mapping[str, Any], **fields: Any) -> None:
        every = {**(given[0] if given else {}), **fields}
        own = {name: every.pop(name) for name in ("name", "arguments") if name in every}
        super().__init__(every, function=AttributeRecord(every.get("function") or {}, **own))

    def __missing__(self, name: str) -> Any:
        if name in ("name", "arguments"):
            return self["function"][name]
        raise KeyError(name)

    def model_dump(self, **options: Any) -> dict[str, Any]:
        return {"id": self.get("id"), "name": self.name, "arguments": self.arguments}


class AssistantMessage(_Message, role="assistant", content=None):
    OPTIONAL = ("reasoning_content", "thinking_blocks", "tool_calls")

    def __init__(self, *given: Mapping[str, Any], **fields: Any) -> None:
        super().__init__(*given, **fields)
        if self.get("tool_calls"):
            self["tool_calls"] = [ToolCall(call) for call in self["tool_calls"]]


class ResponseMessage(AssistantMessage):
    OPTIONAL = (*AssistantMessage.OPTIONAL, "finish_reason", "is_truncated", "tokens")


def to_chat_message(message: Mapping[str, Any]) -> AssistantMessage:
    """The message of a response as it stands in a chat."""
    return AssistantMessage(
        {k: v for k, v in message.items() if k not in ResponseMessage.OPTIONAL[-3:]}
    )


class Tool(AttributeRecord):
    """What a model is told about a tool: `name`, `description` and a JSON schema of `parameters`."""

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
_KINDS = {
    "system": SystemMessage,
    "user": UserMessage,
    "assistant": AssistantMessage,
    "tool": ToolMessage,
}
_PARTS = {
    "text": TextContentPart,
    "image_url": ImageUrlContentPart,
    "input_audio": InputAudioContentPart,
}


def to_typed_chat(value: object, field_name: str = "messages") -> list[Any]:
    """A chat with messages of these classes; those that have one are kept as they are."""
    chat = cast("list[Any]", value)
    if type(value) is not list or not all(isinstance(message, AttributeRecord) for message in chat):
        chat = read_messages(cast("object", value), field_name)
    return as_records(chat)


def as_records(chat: Sequence[Any]) -> list[Any]:
    """Messages of these classes for plain ones."""
    # A text without a role is what the user says, for an endpoint of chats.
    chat = [UserMessage(m, role="user") if m["role"] == "text" else m for m in chat]
    return [
        m if isinstance(m, AttributeRecord) else _KINDS.get(m["role"], AttributeRecord)(m)
        for m in chat
    ]


def normalize_messages(value: Any, *, field_name: str = "messages") -> list[Any]:
    """A text or a chat as messages of these classes; other objects with `role` and `content` are kept as they are."""
    chat: list[Any] = [TextMessage(content=value)] if isinstance(value, str) else [*value]
    if strange := [
        m
        for m in chat
        if not isinstance(m, dict) and not (hasattr(m, "role") and hasattr(m, "content"))
    ]:
        raise TypeError(
            f"{field_name} has an item of type {type(strange[0]).__name__}: give messages, or their dicts"
        )
    return [m if hasattr(m, "role") else from_raw_message(m) for m in chat]


def maybe_normalize_messages(value: Any, *, field_name: str = "messages") -> list[Any]:
    """As `normalize_messages`, with a warning the first time; a list of messages of these classes is kept as it is."""
    if isinstance(value, list) and all(
        isinstance(message, AttributeRecord) for message in cast("list[Any]", value)
    ):
        return cast("list[Any]", value)
    _warn_once(
        f"{field_name} has dicts or texts, which have to be read each time: give vf.UserMessage and its kin"
    )
    return normalize_messages(value, field_name=field_name)


def from_raw_message(message: Mapping[str, Any]) -> Any:
    kinds = {**_KINDS, "text": TextMessage}
    role = message["role"]
    if role not in kinds:
        raise ValueError(f"Unknown role: {role}: give one of {', '.join(kinds)}")
    typed_message = kinds[role](message)
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
        id=call.get("id") or call.name,
        function=AttributeRecord(call["function"], arguments=arguments),
    )


def from_raw_content_part(part: Any) -> Any:
    kind = _PARTS.get(_fields(part).get("type", ""))
    if kind is None:
        return part
    # A table has a cell for every field that any part has.
    return kind(
        {n: AttributeRecord(v) if _fields(v) else v for n, v in part.items() if v is not None}
    )


def _fields(message: object) -> dict[str, Any]:
    return cast(
        "dict[str, Any]", message if isinstance(message, dict) else getattr(message, "__dict__", {})
    )


def message_to_printable(message: Any) -> Any:
    """Return the message with its parts joined to one text, with `[image]` and `[audio]` for media."""
    fields = _fields(message)
    if not isinstance(fields.get("content"), list):
        return message
    placeholders = {"image_url": "[image]", "input_audio": "[audio]", "audio": "[audio]"}
    texts: list[str] = []
    for part in map(_fields, fields["content"]):
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
    """The message with its parts in the form of OpenAI, and with no field that is unknown there."""
    fields = _fields(message)
    if not isinstance(fields.get("content"), list):
        return message
    parts = [part for part in map(_plain_part, fields["content"]) if part is not None]
    names = ("reasoning_content", "tool_calls", "tool_call_id", "name")
    kept = {name: fields[name] for name in names if fields.get(name) is not None}
    if "tool_calls" in kept:
        kept["tool_calls"] = [
            call.model_dump() if isinstance(call, ToolCall) else call for call in kept["tool_calls"]
        ]
    return {"role": fields.get("role"), "content": parts, **kept}


def _plain_part(part: Any) -> Any:
    """A part in the form of OpenAI; None for a text or an image that is not there."""
    fields = _fields(part)
    if fields.get("type") == "audio":  # whose fields may stand in it
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


def _each(change: Callable[[Any], Any], messages: Any) -> Any:
    return cast("Any", messages) if isinstance(messages, str) else [*map(change, messages or [])]


messages_to_printable = partial(_each, message_to_printable)
serialize_messages_for_output = partial(_each, serialize_message_for_output)
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


def format_messages(messages: Any) -> Any:
    """A chat as a `Text` of rich, in colours; characters that a terminal cannot show are replaced."""
    text = import_extra("rich.text", "a chat in colours", extra="cli").Text
    chat = (
        [[(messages, "")]]
        if isinstance(messages, str)
        else [_styled(_fields(message)) for message in messages]
    )
    shown = [[(_UNPRINTABLE.sub("\ufffd", said), style) for said, style in parts] for parts in chat]
    return text("\n\n").join([text.assemble(*parts) for parts in shown])


def _styled(message: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The parts of a message, each with its style."""
    style = "bright_cyan" if message.get("role") == "assistant" else "bright_magenta"
    parts = [(f"{message.get('role', '')}: ", "bold")]
    thought, content = message.get("reasoning_content"), message.get("content")
    if isinstance(thought, str) and thought.strip():
        parts += [
            ("\n", ""),
            ("[reasoning]\n", "dim"),
            (thought, "dim"),
            ("\n\n" if content else "\n", ""),
        ]
    if content:
        parts.append((str(content), style))
    for call in message.get("tool_calls") or ():
        called = _fields(json.loads(call) if isinstance(call, str) else call)
        function = _fields(called.get("function") or called)
        given: object = function.get("arguments") or {}
        told = {
            "name": function.get("name", ""),
            "args": given if isinstance(given, str) else json.dumps(given),
        }
        parts.append((f"\n\n[tool call]\n{json.dumps(told, indent=2, ensure_ascii=False)}", style))
    return parts


def sanitize_tool_calls(messages: Any) -> Any:
    # Each call as JSON text, for tables, whose columns have one type.
    return (
        [*map(_sanitized, cast("list[Any]", messages))] if isinstance(messages, list) else messages
    )


def _sanitized(message: Any) -> Any:
    fields = _fields(message)
    if not (calls := fields.get("tool_calls")):
        return message
    calls = [json.loads(call) if isinstance(call, str) else call for call in calls]
    told = [
        json.dumps(call if type(call) is dict else call.model_dump(exclude_none=True))
        for call in calls
    ]
    content = (
        fields.get("content", "") if not hasattr(message, "role") else fields.get("content") or ""
    )
    thought = {n: fields[n] for n in ("reasoning_content",) if isinstance(fields.get(n), str)}
    return {"role": fields["role"], "content": content, "tool_calls": told, **thought}


class Response(AttributeRecord):
    """A model's reply: `message`, as from 0.1.11 on, and `choices`, as before."""

    OPTIONAL = ("id", "created", "model", "usage")

    @classmethod
    def of(cls, reply: Reply, turn: int) -> Self:
        message = AssistantMessage(assistant_message(reply, turn))
        ended = reply.finish_reason
        asked, said = reply.usage.prompt, reply.usage.completion
        usage = AttributeRecord(
            prompt_tokens=asked,
            completion_tokens=said,
            reasoning_tokens=0,
            total_tokens=asked + said,
        )
        whole = ResponseMessage(
            message, finish_reason=ended, is_truncated=ended == "length", tokens=None
        )
        choice = AttributeRecord(
            index=0, message=message, text=reply.text, finish_reason=ended, logprobs=None
        )
        told = {"id": "", "created": int(time.time()), "model": reply.model, "usage": usage}
        return cls(told, message=whole, choices=[choice])
