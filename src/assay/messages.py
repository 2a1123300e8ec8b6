"""Read text, roles, tool calls and parts from messages, which are mappings or objects of an SDK.

Messages are never changed.
"""

import json
import math
from base64 import b64decode
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from decimal import Decimal
from hashlib import sha256
from numbers import Real
from os import PathLike
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeAlias, cast

from assay.errors import MediaError, RubricError
from assay.reasoning import SplitText, remove_reasoning, split_reasoning
from assay.types import Messages
from assay.wording import format_value, suggest_word

# Fields, roles and texts of messages.


def get_field(message: Any, name: str) -> Any:
    """Return a field of a message or a part, or None if there is no such field.

    The field is a key of a mapping, or an attribute of an object.
    """
    # Nearly every message is a dict. This test takes a tenth of the time of the next one.
    if message.__class__ is dict:
        return message.get(name)
    if isinstance(message, Mapping):
        return cast("Mapping[str, Any]", message).get(name)
    return getattr(message, name, None)


def get_role(message: object) -> str:
    """Return the role of a message, or the empty text. Gemini's role `model` is the assistant."""
    role = get_field(message, "role")
    if role == "model":
        return "assistant"
    return role if isinstance(role, str) else ""


def get_content_text(content: object) -> str:
    """Return the text of a message's content. The texts of several parts are joined by a space.

    >>> get_content_text([{"type": "text", "text": "a"}, {"type": "image_url"}, {"type": "text", "text": "b"}])
    'a b'
    """
    if isinstance(content, str):
        return content
    parts: Any = content if _is_list(content) else [content]
    texts = [_get_part_text(part) for part in parts]
    return " ".join(text for text in texts if text)


def _get_part_text(part: object) -> str:
    """Return the text of one part; empty for a part of another kind and for reasoning."""
    if isinstance(part, str):
        return part
    text = get_field(part, "text")
    return text if isinstance(text, str) and not _is_reasoning_part(part) else ""


# The types of parts that hold reasoning, in the formats of Anthropic, Mistral and OpenAI.
_REASONING_TYPES: Final = frozenset({"thinking", "redacted_thinking", "reasoning"})


def _is_reasoning_part(part: object) -> bool:
    # Gemini marks a thought by a field beside its text.
    return get_field(part, "type") in _REASONING_TYPES or get_field(part, "thought") is True


def message_text(message: object) -> str:
    """Return the text of one message, whatever its content is made of."""
    if isinstance(message, str):
        return message
    return get_content_text(_get_content(message))


def _get_content(message: object) -> Any:
    """Return the content of a message, which Gemini calls `parts`."""
    content = get_field(message, "content")
    if content is None:
        return get_field(message, "parts")
    return content


def list_messages(messages: object) -> Sequence[Any]:
    """Return the messages of a chat. One message alone is a chat too; a plain text has none."""
    if type(messages) is list:
        return cast("list[Any]", messages)
    if isinstance(messages, Mapping):
        return [cast("object", messages)]
    if isinstance(messages, Sequence) and not isinstance(messages, str | bytes):
        return cast("Sequence[Any]", messages)
    if get_role(messages):
        return [messages]
    return []


def select_role(messages: Messages, role: str) -> list[Any]:
    """Return the messages with this role, in order. A plain text has none."""
    return [message for message in list_messages(messages) if get_role(message) == role]


def find_last_with_role(messages: Messages, role: str) -> Any | None:
    """Return the last message with this role, or None. A plain text has none."""
    for message in reversed(list_messages(messages)):
        if get_role(message) == role:
            return message
    return None


def completion_text(completion: Messages | None) -> str:
    """Return a completion as text: a plain text as it is, otherwise the last assistant message.

    A number, which a table may hold instead of a text, is formatted as text.
    """
    if completion is None:
        return ""
    if isinstance(completion, str):
        return completion
    number = _format_number(completion)
    if number is not None:
        return number
    return message_text(find_last_with_role(completion, "assistant") or "")


def question_text(prompt: Messages | None) -> str:
    """Return a prompt as text: a plain text as it is, otherwise the last user message."""
    if prompt is None:
        return ""
    if isinstance(prompt, str):
        return prompt
    return message_text(find_last_with_role(prompt, "user") or "")


# Reasoning. It is part of the text, between markers such as `<think>` and `</think>`, or it is in a
# field or a part of its own, if the endpoint has separated it. Both must give the same scores.

# Providers of open models put reasoning into one of these fields of a message.
_REASONING_FIELDS: Final = ("reasoning_content", "reasoning")


def visible_text(completion: Messages | None, with_reasoning: bool = False) -> str:
    """Return the text of the assistant's last message, without reasoning unless it is asked for.

    With reasoning, a text is returned as it is, and what is in a field comes first, in `<think>`
    tags.

    >>> visible_text("<think>17 + 26 = 43</think> I cannot say.")
    'I cannot say.'
    """
    if isinstance(completion, str):
        return completion if with_reasoning else remove_reasoning(completion)
    last = None if completion is None else find_last_with_role(completion, "assistant")
    if last is None:
        return completion_text(completion)  # a number, or nothing
    if with_reasoning:
        return text_with_reasoning(last)
    return split_message(last).answer


def split_message(message: object) -> SplitText:
    """Return the reasoning of a message, in its text and in its fields, and the rest of its text."""
    split = split_reasoning(message_text(message))
    reasoning = _get_separate_reasoning(message)
    if not reasoning:
        return split
    texts = [text for text in (reasoning, split.reasoning) if text]
    return SplitText("\n".join(texts), split.answer.strip())


def read_whole_text(completion: Messages | None) -> str:
    """Return everything the assistant wrote in its last message, to measure its length.

    Reasoning comes first, without markers, so that its form does not change the length.
    """
    if isinstance(completion, str):
        split = split_reasoning(completion)
    else:
        last = None if completion is None else find_last_with_role(completion, "assistant")
        if last is None:
            return completion_text(completion)
        split = split_message(last)
    return f"{split.reasoning}\n{split.answer}" if split.reasoning else split.answer


def text_with_reasoning(message: object, tag: str = "think") -> str:
    """Return the text of a message; reasoning from a field comes first, in tags.

    The line breaks are those of most chat templates.
    """
    text = message_text(message)
    reasoning = _get_separate_reasoning(message)
    if not reasoning:
        return text
    return f"<{tag}>\n{reasoning}\n</{tag}>\n\n{text.strip()}"


def hide_reasoning(completion: Any) -> Any:
    """Return a completion without reasoning; the same object if it has none."""
    if isinstance(completion, str):
        return remove_reasoning(completion)
    return _rewrite_replies(completion, lambda message: split_message(message).answer)


def put_reasoning_in_text(completion: Any) -> Any:
    """Return a completion with the reasoning of its fields in `<think>` tags."""
    if isinstance(completion, str):
        return completion
    return _rewrite_replies(completion, text_with_reasoning)


def _rewrite_replies(completion: Any, write: Callable[[object], str]) -> Any:
    """Return messages in which the assistant's texts are replaced; the same object if none changes."""
    messages = list_messages(completion)
    rewritten: list[Any] = []
    has_changed = False
    for message in messages:
        if get_role(message) == "assistant":
            text = write(message)
            if text != message_text(message) or _get_separate_reasoning(message):
                message = _replace_text(message, text)
                has_changed = True
        rewritten.append(message)
    return rewritten if has_changed else completion


def _replace_text(message: object, text: str) -> dict[str, Any]:
    """Return a message with this text, and without fields for reasoning."""
    fields: dict[str, Any] = {}
    if isinstance(message, Mapping):
        fields.update(cast("Mapping[str, Any]", message))
    else:
        calls = get_field(message, "tool_calls")
        if calls:
            fields["tool_calls"] = calls
    for name in (*_REASONING_FIELDS, "parts"):
        fields.pop(name, None)
    return {**fields, "role": "assistant", "content": text}


def _get_separate_reasoning(message: object) -> str:
    """Return the reasoning in a field or in parts of a message; empty if there is none."""
    if message.__class__ is dict:
        fields = cast("dict[str, Any]", message)
        # Nearly every message is like this.
        if fields.get("content").__class__ is str and fields.keys() <= _PLAIN_FIELDS:
            return ""
    if isinstance(message, str):
        return ""
    texts: list[str] = []
    for name in _REASONING_FIELDS:
        reasoning = get_field(message, name)
        if isinstance(reasoning, str) and reasoning.strip():
            texts.append(reasoning.strip())
            break
    content = _get_content(message)
    if content is not None and not isinstance(content, str):
        for piece in _read_content(content):
            if piece.kind == "thinking" and piece.text != _HIDDEN_REASONING:
                texts.append(piece.text.strip())
    return "\n".join(texts)


def as_messages(completion: Messages) -> list[Any]:
    """Return a completion as a list of messages. A text becomes one message of the assistant."""
    if isinstance(completion, str):
        return [{"role": "assistant", "content": completion}]
    number = _format_number(completion)
    if number is not None:
        return [{"role": "assistant", "content": number}]
    messages = list_messages(completion)
    return messages if isinstance(messages, list) else list(messages)


def as_text_if_single(completion: Any) -> Any:
    """Return the text of a completion that is one message of the assistant; else the completion.

    A message with tool calls or media is not only text, so it stays a message.

    >>> as_text_if_single([{"role": "assistant", "content": "4"}])
    '4'
    """
    if isinstance(completion, str):
        return completion
    messages = list_messages(completion)
    if len(messages) != 1 or get_role(messages[0]) != "assistant":
        return completion
    pieces = list(_read_message(messages[0]))
    if any(piece.kind not in ("text", "thinking") for piece in pieces):
        return completion
    if not pieces and not isinstance(_get_content(messages[0]), str):
        return completion  # without any text: scoring says that it cannot be read
    return text_with_reasoning(messages[0])


# Completions, as checks and judges read them.


def read_completion(completion: object) -> Any:
    """Return a completion as checks and judges read it: a text, or messages.

    A number is formatted as text. Raises TypeError if the last assistant message has no text, parts,
    tool calls or reasoning. To read it as an empty text would score it as if the model had said
    nothing.
    """
    if isinstance(completion, str):
        return completion
    number = _format_number(completion)
    if number is not None:
        return number
    messages = list_messages(completion)
    last = find_last_with_role(messages, "assistant")
    if last is None:
        # Tool calls of the Responses API are items without a role.
        if any(_get_sender(item) == "assistant" for item in messages):
            return completion
        raise TypeError(
            f"the completion is {_describe(completion)}: "
            "give a text, or messages of which one has the role 'assistant'"
        )
    content = get_field(last, "content")
    if isinstance(content, str):
        return completion
    if content is None:
        has_parts = isinstance(get_field(last, "parts"), Sequence)  # in the format of Gemini
        if has_parts or get_field(last, "tool_calls") or get_field(last, "function_call"):
            return completion
        if _get_separate_reasoning(last):
            return completion  # reasoning that was cut off, and no answer
    number = _format_number(content)
    if number is not None and isinstance(last, Mapping):
        last_with_text = {**cast("Mapping[str, Any]", last), "content": number}
        return [last_with_text if message is last else message for message in messages]
    if not _has_texts_or_parts(content):
        raise TypeError(
            f"the content of the assistant's last message is {_describe(content)}: "
            "give a text, or a list of parts"
        )
    return completion


def is_plain_chat(completion: Any) -> bool:
    """Return True for a list that ends with a text of the assistant, which is the usual case.

    The test is cheap, because it is made for every rollout: `__class__` is faster than isinstance.
    """
    if completion.__class__ is not list or not completion:
        return False
    last: Any = completion[-1]
    return (
        last.__class__ is dict
        and last.get("role") == "assistant"
        and last.get("content").__class__ is str
    )


# Python does not write integers of more than 4,300 digits, which have up to 14,283 bits.
MAX_INTEGER_BITS: Final = 14_283


def _format_number(value: object) -> str | None:
    """Return a finite number as text; None for anything else, including True and False."""
    if isinstance(value, bool) or not isinstance(value, Real | Decimal):
        return None
    if isinstance(value, int):
        # It may be too large for `isfinite`, which converts it to a float.
        return str(value) if value.bit_length() <= MAX_INTEGER_BITS else None
    return str(value) if math.isfinite(value) else None


def _has_texts_or_parts(content: object) -> bool:
    """Return True for a list of texts and typed parts, and for a single part with a text."""
    if isinstance(content, Sequence) and not isinstance(content, bytes):
        parts = cast("Sequence[object]", content)
        return all(isinstance(part, str) or get_field(part, "type") is not None for part in parts)
    return isinstance(get_field(content, "text"), str)


def _describe(value: object) -> str:
    """Return a value that is not a text, for an error message."""
    if value is None:
        return "null, not text"
    type_name = f"{type(value).__module__}.{type(value).__name__}".removeprefix("builtins.")
    return f"{format_value(value)}, of the type {type_name}, not text"


# Tool calls.


class ToolCall(NamedTuple):
    """One tool call of a model."""

    name: str
    arguments: str  # as the model wrote them: JSON text, which may be broken
    id: str = ""

    @property
    def openai_entry(self) -> dict[str, Any]:
        """The call in the format of OpenAI, as an entry of `tool_calls`."""
        return {
            "id": self.id,
            "type": "function",
            "function": {"name": self.name, "arguments": self.arguments},
        }


def read_tool_calls(message: object) -> list[ToolCall]:
    """Return the tool calls in the field `tool_calls` of a message.

    An entry may be an object or its JSON text. Entries that cannot be read are left out.
    """
    entries = get_field(message, "tool_calls")
    if not _is_list(entries):
        return []
    calls = [_read_tool_call(entry) for entry in entries]
    return [call for call in calls if call is not None]


def _read_tool_call(entry: object) -> ToolCall | None:
    """Return an entry of `tool_calls`; None if it is not JSON or has no name."""
    if isinstance(entry, str):
        try:
            entry = json.loads(entry)
        except ValueError:
            return None
    function = get_field(entry, "function") or entry
    name = get_field(function, "name")
    if not isinstance(name, str):
        return None
    arguments: object = get_field(function, "arguments")
    if arguments is None:
        arguments = "{}"
    elif not isinstance(arguments, str):
        arguments = json.dumps(arguments)
    return ToolCall(name, arguments, str(get_field(entry, "id") or ""))


# What judges are shown.

Shows: TypeAlias = tuple[str, ...]
# What a judge may be shown of a rollout. Several names narrow it together;
# `docs/concepts/judging.md` explains each.
SHOWS: Final = ("all", "last", "transcript", "no_tools", "no_media", "described")


def read_shows(shows: object) -> Shows:
    """Return one name or a list of names from `SHOWS` as a tuple; raise `RubricError` for others."""
    names = [shows] if isinstance(shows, str) else shows
    if not isinstance(names, list | tuple) or not names:
        raise RubricError(f"shows is {format_value(shows)}: give one or more of {', '.join(SHOWS)}")
    for name in cast("Sequence[object]", names):
        if name == "no_thinking":
            raise RubricError(
                "shows has no 'no_thinking': remove it, since reasoning is hidden unless "
                "`thinking: shown` is set"
            )
        if not isinstance(name, str) or name not in SHOWS:
            raise RubricError(
                f"there is no way to show {format_value(name)} to a judge: "
                f"{suggest_word(name, SHOWS)}"
            )
    unique_names = tuple(dict.fromkeys(cast("Sequence[str]", names)))
    # These three exclude each other; all other names can be combined.
    if len({"all", "last", "transcript"}.intersection(unique_names)) > 1:
        raise RubricError(
            f"shows is {', '.join(unique_names)}: give one of all, last and transcript"
        )
    return unique_names


# Where media may be read from.


class AllowedMedia(NamedTuple):
    """Which media that a message names by path or URL may be read."""

    # Files in these folders.
    folders: tuple[Path, ...] = ()
    # Whether URLs may be fetched.
    urls: bool = False
    # Whether URLs may point to private networks.
    allow_private: bool = False


ALLOWED_MEDIA: ContextVar[AllowedMedia] = ContextVar("allowed_media", default=AllowedMedia())  # noqa: B039 - it is a tuple


@contextmanager
def media_access(
    folder: str | PathLike[str] | Sequence[str | PathLike[str]] = (),
    *,
    urls: bool = False,
    allow_private: bool = False,
) -> Generator[None]:
    """Allow media of rollouts to be read from folders and URLs, inside the block.

    Files are read only for prompts, since a model under test could name any file, and only from
    inside the folders. URLs must be public and begin with https; `allow_private=True`, for tests,
    accepts others too.
    """
    folders = (folder,) if isinstance(folder, str | PathLike) else folder
    for path in folders:
        if not Path(path).is_dir():
            raise MediaError(
                f"{str(path)!r} is not a folder: "
                "name the folder that holds the images, audio and files"
            )
    previous = ALLOWED_MEDIA.get()
    ALLOWED_MEDIA.set(AllowedMedia(tuple(map(Path, folders)), urls, allow_private))
    try:
        yield
    finally:
        # Not `reset(token)`: a worker process leaves the block in another context.
        ALLOWED_MEDIA.set(previous)


# Parts: everything that a conversation holds, piece by piece.

Kind: TypeAlias = Literal["text", "thinking", "call", "result", "image", "audio", "file"]
MEDIA_KINDS: Final = frozenset({"image", "audio", "file"})  # the kinds of part that are not text

# The columns of a table that hold media: paths, URLs, bytes, or the records of Hugging Face
# datasets; one of them or a list.
MEDIA_COLUMNS: Final[Mapping[str, Kind]] = {
    "image": "image",
    "images": "image",
    "audio": "audio",
    "audios": "audio",
    "pdf": "file",
    "pdfs": "file",
}


class Part(NamedTuple):
    """One piece of a conversation."""

    # `m3` for the text of the third message, `m3.call1` or `m3.image1` for its other parts. It does
    # not depend on what a judge is shown.
    address: str
    kind: Kind
    role: str
    # For a call, its name and arguments; for media, their type, size and a hash of their content.
    text: str
    in_prompt: bool
    # For the result of a tool, the address of its call.
    call: str = ""
    # For media, the part of the message as the provider's format has it.
    original: Any = None

    @property
    def message(self) -> str:
        """The address of the message that holds this part."""
        return self.address.partition(".")[0]


def read_parts(prompt: object, completion: object = None) -> list[Part]:
    """Return all parts of a rollout in order, those of the prompt first.

    The formats of OpenAI (Chat and Responses), Anthropic and Gemini are read. A part of an unknown
    type becomes a text, as JSON. Messages are numbered from 1 through prompt and completion.
    Without a prompt, the messages before the first assistant message are the prompt.

    >>> call = {"id": "a", "function": {"name": "search", "arguments": "{}"}}
    >>> reply = {"role": "assistant", "content": "I look.", "tool_calls": [call]}
    >>> for part in read_parts("Where is it?", [reply]):
    ...     print(part.address, part.kind, part.text)
    m1 text Where is it?
    m2 text I look.
    m2.call1 call search({})
    """
    prompt_messages = read_conversation(prompt, "user")
    messages = [*prompt_messages, *read_conversation(completion, "assistant")]
    prompt_length = len(prompt_messages) or _find_first_reply(messages)
    parts: list[Part] = []
    call_addresses: dict[str, str] = {}  # by the id of the call
    for number, message in enumerate(messages, start=1):
        in_prompt = number <= prompt_length
        role = _get_sender(message) or ("user" if in_prompt else "assistant")
        counts: dict[str, int] = {}  # how many parts of each kind this message has so far
        pieces = _read_message(message)
        if role == "assistant":
            pieces = _separate_reasoning(pieces)
        for kind, text, call_id, original in pieces:
            if kind == "text" and role == "tool":
                # The text of a tool's message is the result of a call.
                kind = "result"
                call_id = str(get_field(message, "tool_call_id") or "")
            counts[kind] = counts.get(kind, 0) + 1
            address = _make_address(number, role, kind, counts[kind])
            call_address = ""
            if kind == "call" and call_id:
                call_addresses[call_id] = address
            elif kind == "result":
                call_address = call_addresses.get(call_id, "")
            parts.append(
                Part(
                    address=address,
                    kind=kind,
                    role=role,
                    text=text,
                    in_prompt=in_prompt,
                    call=call_address,
                    original=original,
                )
            )
    return parts


def _separate_reasoning(pieces: Iterable["_Piece"]) -> Iterator["_Piece"]:
    """Yield the pieces of a message, with reasoning in a text as a piece of its own.

    What the same message would be if its reasoning had come in a field.
    """
    has_reasoning = False
    for piece in pieces:
        if piece.kind == "thinking":
            has_reasoning = True
            yield piece._replace(text=piece.text.strip())
            continue
        if piece.kind != "text":
            yield piece
            continue
        split = split_reasoning(piece.text)
        if split.reasoning:
            has_reasoning = True
            yield _Piece("thinking", split.reasoning)
        answer = split.answer.strip() if has_reasoning else split.answer
        if answer:
            yield piece._replace(text=answer)


def _make_address(message_number: int, role: str, kind: Kind, count: int) -> str:
    """Return the address of a part, which is the `count`-th of its kind in its message.

    The first text of a message has the address of the message, such as `m3`, and so has the first
    result in a tool's message. All other parts have addresses such as `m3.text2` or `m3.call1`.
    """
    is_main_text = kind == "text" or (kind == "result" and role == "tool")
    if is_main_text and count == 1:
        return f"m{message_number}"
    return f"m{message_number}.{kind}{count}"


def _find_first_reply(messages: Sequence[object]) -> int:
    """Return the index of the first message of the assistant; 0 if there is none."""
    for index, message in enumerate(messages):
        if _get_sender(message) == "assistant":
            return index
    return 0


# The fields of a provider's request that hold its messages, and those that hold its system prompt.
_MESSAGE_FIELDS: Final = ("messages", "contents", "input")
_SYSTEM_FIELDS: Final = ("system", "instructions", "system_instruction", "systemInstruction")


def read_conversation(conversation: object, role: str) -> list[Any]:
    """Return the messages of a chat, of a provider's request with a chat in it, or of a text.

    A text becomes a message with this role; an empty text becomes no message.
    """
    message_field = _find_message_field(conversation)
    if message_field is not None:
        messages = read_conversation(get_field(conversation, message_field), role)
        return [*_read_system_prompt(conversation), *messages]
    text = conversation if isinstance(conversation, str) else _format_number(conversation)
    if text is not None:
        return [{"role": role, "content": text}] if text else []
    messages: list[Any] = []
    for message in list_messages(conversation):
        if isinstance(message, str):
            messages.append({"role": role, "content": message})
        else:
            messages.append(message)
    return messages


def _find_message_field(conversation: object) -> str | None:
    """Return the name of the field with the messages of a request; None if this is not a request."""
    for name in _MESSAGE_FIELDS:
        if get_field(conversation, name) is None:
            continue
        # A single message may have such a field too, but a request has neither role nor type.
        is_message = get_role(conversation) or get_field(conversation, "type") is not None
        return None if is_message else name
    return None


def _read_system_prompt(request: object) -> list[Any]:
    """Return the system prompt of a request as a list of one message, or an empty list."""
    for name in _SYSTEM_FIELDS:
        system = get_field(request, name)
        if system:
            content = _get_content(system)  # None if the system prompt is a text or a list
            return [{"role": "system", "content": system if content is None else content}]
    return []


def _get_sender(message: object) -> str:
    """Return the role of a message, or of an item of the Responses API; empty if it has none."""
    role = get_role(message)
    if role == "function":
        return "tool"
    if role:
        return role
    item_type = get_field(message, "type")
    if not isinstance(item_type, str):
        return ""
    if item_type == "reasoning" or item_type.endswith("_call"):
        return "assistant"
    if item_type.endswith("_output"):
        return "tool"
    return ""


class _Piece(NamedTuple):
    """What becomes a `Part` when its address is known."""

    kind: Kind
    text: str
    # For a call, its id; for a result, the id of its call.
    call_id: str = ""
    # For media, the part of the message as the provider's format has it.
    original: Any = None


# If a message has no other fields than these, all of its parts are in its content.
_PLAIN_FIELDS: Final = frozenset({"role", "content", "tool_call_id", "name", "id"})


def _read_message(message: object) -> Iterator[_Piece]:
    """Yield the parts of one message, or of one item of the Responses API, in order."""
    content = _get_content(message)
    is_plain = message.__class__ is dict and cast("dict[str, Any]", message).keys() <= _PLAIN_FIELDS
    if is_plain:  # nearly every message
        yield from _read_content(content)
        return
    if content is None and not get_role(message):  # an item of the Responses API
        yield from _read_part(message)
        return
    for name in _REASONING_FIELDS:
        reasoning = get_field(message, name)
        if isinstance(reasoning, str) and reasoning:
            yield _Piece("thinking", reasoning)
            break
    yield from _read_content(content)
    refusal = get_field(message, "refusal")
    if isinstance(refusal, str) and refusal:
        yield _Piece("text", refusal)
    audio = get_field(message, "audio")
    if audio is not None:
        yield _read_media("audio", audio)
        transcript = get_field(audio, "transcript")
        if isinstance(transcript, str) and transcript:
            yield _Piece("text", transcript)
    entries = get_field(message, "tool_calls")
    if _is_list(entries):
        for entry in entries:
            yield _read_call_entry(entry)
    function_call = get_field(message, "function_call")
    if function_call:
        yield _read_call_entry(function_call)


def _read_content(content: Any) -> Iterator[_Piece]:
    """Yield the parts of a content: a text, one part, a list of parts, or None."""
    if content is None:
        return
    if content.__class__ is str:
        if content:
            yield _Piece("text", content)
        return
    parts = content if _is_list(content) else [content]
    for part in parts:
        yield from _read_part(part)


def _is_list(content: Any) -> bool:
    """Return True for a list of parts, False for a single part."""
    # A record of an SDK can be iterated over, but it is one part.
    is_record = isinstance(content, str | bytes | Mapping) or hasattr(content, "model_dump")
    return not is_record and isinstance(content, Iterable)


def _read_call_entry(entry: object) -> _Piece:
    """Return an entry of `tool_calls` as a part; as JSON if it cannot be read."""
    call = _read_tool_call(entry)
    if call is not None:
        return _Piece("call", f"{call.name}({call.arguments})", call.id)
    # A custom tool of OpenAI has the field `custom` instead of `function`.
    custom = get_field(entry, "custom") or entry
    if isinstance(get_field(custom, "name"), str):
        return _read_call(custom, get_field(entry, "id"))
    return _Piece("call", entry if isinstance(entry, str) else _to_json(entry))


# The fields by which the types of Gemini's parts are recognised: the name of each field in Python,
# which is also the type here, and its name in JSON.
_GEMINI_FIELDS: Final[Mapping[str, str]] = {
    "function_call": "functionCall",
    "function_response": "functionResponse",
    "inline_data": "inlineData",
    "file_data": "fileData",
    "executable_code": "executableCode",
    "code_execution_result": "codeExecutionResult",
}

# The types of parts that are media.
_MEDIA_TYPES: Final[Mapping[str, Kind]] = {
    "image_url": "image",
    "input_image": "image",
    "image": "image",
    "image_file": "image",
    "computer_screenshot": "image",
    "input_audio": "audio",
    "audio": "audio",
    "audio_url": "audio",
    "inline_data": "file",
    "file_data": "file",
    "file": "file",
    "input_file": "file",
    "document": "file",
    "container_upload": "file",
    "video": "file",
    "video_url": "file",
    "input_video": "file",
}


def _get_part_type(part: object) -> str:
    """Return the type of a part; the empty text if it cannot be recognised as a part."""
    part_type = get_field(part, "type")
    if isinstance(part_type, str):
        return part_type
    # A part of Gemini has no field `type`. It is recognised by another field, such as `inline_data`.
    for name, json_name in _GEMINI_FIELDS.items():
        if get_field(part, name) is not None or get_field(part, json_name) is not None:
            return name
    return "text" if isinstance(get_field(part, "text"), str) else ""


def _read_part(part: object) -> Iterator[_Piece]:
    """Yield the pieces of one part of a message, in the format of any provider.

    Most parts are one piece. A call may be followed by its result, and a result by its media.
    """
    if isinstance(part, str):
        if part:
            yield _Piece("text", part)
        return
    part_type = _get_part_type(part)
    # Many parts have a field that is named like their type: {"type": "refusal", "refusal": "No."}
    body = get_field(part, part_type)
    if not body and part_type in _GEMINI_FIELDS:
        body = get_field(part, _GEMINI_FIELDS[part_type])
    if part_type in _MEDIA_TYPES:
        yield from _read_media_part(part, part_type)
    elif part_type in _REASONING_TYPES:
        yield _read_reasoning(part, body)
    elif part_type == "refusal" and isinstance(body, str):
        yield _Piece("text", body)
    elif part_type.endswith(("_result", "_output")) or part_type == "function_response":
        yield from _read_result(part, body)
    elif part_type == "executable_code":  # Gemini's code interpreter
        yield _Piece("call", _to_json(body))
    elif part_type == "image_generation_call":
        yield _read_media("image", part)
    elif part_type.endswith(("_use", "_call")):
        yield from _read_call_part(part, body)
    else:
        yield from _read_text_part(part)


def _read_text_part(part: object) -> Iterator[_Piece]:
    """Yield a text or a thought. A part of an unknown type becomes a text, as JSON."""
    text = get_field(part, "text")
    if not isinstance(text, str):
        if part is not None:
            yield _Piece("text", _to_json(part))
    elif text:
        is_thought = get_field(part, "thought") is True  # in the format of Gemini
        yield _Piece("thinking" if is_thought else "text", text)


# The text of reasoning that a provider has encrypted.
_HIDDEN_REASONING: Final = "(hidden by the provider)"


def _read_reasoning(part: object, body: Any) -> _Piece:
    """Return reasoning. Its text is in one or more of several fields, or hidden by the provider."""
    texts = [
        get_content_text(body),
        get_field(part, "text"),
        get_content_text(get_field(part, "summary")),
        get_content_text(get_field(part, "content")),
    ]
    texts = [text for text in texts if isinstance(text, str) and text]
    return _Piece("thinking", "\n".join(texts) or _HIDDEN_REASONING)


def _read_media_part(part: object, part_type: str) -> Iterator[_Piece]:
    """Yield an image, audio or file. Anthropic's document may also be made of text."""
    source = get_field(part, "source")
    if part_type == "document" and get_field(source, "type") in ("text", "content"):
        yield from _read_content(get_field(source, "data") or get_field(source, "content"))
    else:
        yield _read_media(_MEDIA_TYPES[part_type], part)


def _read_call_part(part: object, body: Any) -> Iterator[_Piece]:
    """Yield a call, and its result if the same part holds it, as some of the Responses API do.

    `body` is the field of the part that is named like its type, if there is one.
    """
    yield _read_call(body or part, get_field(part, "call_id") or get_field(part, "id"))
    output = get_field(part, "output")
    if output is not None:
        result = output if isinstance(output, str) else _to_json(output)
        yield _Piece("result", result, call_id=str(get_field(part, "id") or ""))


def _read_call(call: object, call_id: object) -> _Piece:
    """Return a call as a part, in the format of any provider.

    Without `call_id`, the call's own field `id` is used.
    """
    arguments: object = None
    for field_name in ("arguments", "input", "args"):
        arguments = get_field(call, field_name)
        if arguments is not None:
            break
    name = get_field(call, "name")
    if not isinstance(name, str):
        # A tool of the provider, such as web search: its type is its name.
        name = str(get_field(call, "type"))
        arguments = call
    if arguments is None:
        arguments = {}
    text = arguments if isinstance(arguments, str) else _to_json(arguments)
    return _Piece("call", f"{name}({text})", call_id=str(call_id or get_field(call, "id") or ""))


def _read_result(part: object, body: Any) -> Iterator[_Piece]:
    """Yield the result of a tool as one piece with all of its text, then the media in it.

    `body` is the field of the part that is named like its type, if there is one.
    """
    call_id = get_field(part, "tool_use_id") or get_field(part, "call_id")
    output = get_field(part, "content")
    if output is None:
        output = get_field(part, "output")
    if not call_id or output is None:
        # A result of Gemini, whose output is its body, or a record that is nested in a result.
        output = part if body is None else body
    if not call_id:
        call_id = get_field(body, "id") or ""
    media: list[_Piece] = []
    if _has_known_parts(output, part):
        texts: list[str] = []
        for piece in _read_content(output):
            if piece.kind in MEDIA_KINDS:
                media.append(piece)
            else:
                texts.append(piece.text)
        text = "\n".join(texts)
    else:
        text = _to_json(output)
    if get_field(part, "is_error") is True:
        text = f"error: {text}"
    yield _Piece("result", text, call_id=str(call_id))
    yield from media


def _has_known_parts(output: Any, part: object) -> bool:
    """Return True if the output of a tool is a text, or made of parts whose types are known."""
    if _is_list(output):
        return all(_get_part_type(item) for item in output)
    if output.__class__ is str:
        return True
    # If `output is part`, the part is its own output, and its type is that of a result.
    return output is not part and bool(_get_part_type(output))


# The fields of a part, and of the records in it, that hold its media type, its content, and the
# path or URL of its content.
_MEDIA_TYPE_FIELDS: Final = ("media_type", "mime_type", "mimeType")
_CONTENT_FIELDS: Final = ("data", "file_data", "result")
_LOCATION_FIELDS: Final = (
    "path",
    "url",
    "image_url",
    "audio_url",
    "file_url",
    "file_uri",
    "fileUri",
    "image",
    "audio",
    "file",
)
# The fields that are not listed in the description of media.
_UNDESCRIBED_FIELDS: Final = ("type", "transcript", *_MEDIA_TYPE_FIELDS, *_CONTENT_FIELDS)


def _read_media(kind: Kind, part: object) -> _Piece:
    """Return media as a part whose text describes them: their type, size, hash and other fields."""
    media_type, content, _ = find_media_source(part)
    description = [media_type or kind]
    if content is not None:
        description.append(_describe_bytes(content))
    for name, value in dict(_list_fields(part)).items():
        is_content = isinstance(value, bytes) or str(value).startswith("data:")
        if not is_content and name not in _UNDESCRIBED_FIELDS:
            description.append(f"{name} {value}")
    declared_kind = media_type.partition("/")[0]
    if declared_kind in MEDIA_KINDS:
        kind = cast("Kind", declared_kind)
    return _Piece(kind, ", ".join(description), original=part)


class MediaSource(NamedTuple):
    """What a part says about its media."""

    # The declared media type, such as `image/png`; empty if there is none.
    media_type: str
    # The content; None if the part only names its location.
    content: bytes | None
    # A path or URL; empty if there is none, or if there is a content.
    location: str


def find_media_source(part: object) -> MediaSource:
    """Return the media type that a part declares, and its content or location."""
    fields = dict(_list_fields(part))
    media_type = ""
    for name in _MEDIA_TYPE_FIELDS:
        if fields.get(name):
            media_type = str(fields[name])
            break
    for name, value in fields.items():
        if isinstance(value, str) and value.startswith("data:"):
            header, _, data = value.removeprefix("data:").partition(",")
            return MediaSource(media_type or header.partition(";")[0], _decode(data), "")
        if isinstance(value, bytes) or name in _CONTENT_FIELDS:
            if not media_type and "format" in fields:
                media_type = f"audio/{fields['format']}"  # OpenAI's way to declare audio
            content = value if isinstance(value, bytes) else _decode(str(value))
            return MediaSource(media_type, content, "")
    for name in _LOCATION_FIELDS:
        if isinstance(fields.get(name), str):
            return MediaSource(media_type, None, fields[name])
    return MediaSource(media_type, None, "")


def _list_fields(value: object, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the names and values of the fields of a part, including those of nested records."""
    if not isinstance(value, Mapping) and hasattr(value, "__dict__"):
        value = vars(value)
    if isinstance(value, Mapping):
        for key, inner in cast("Mapping[Any, Any]", value).items():
            yield from _list_fields(inner, str(key))
    elif value is not None:
        yield name, value


def _decode(text: str) -> bytes:
    """Return the bytes that a base64 text encodes. A text that is not base64 is encoded as UTF-8."""
    try:
        return b64decode(text)
    except ValueError:
        return text.encode("utf-8", "surrogatepass")


def _describe_bytes(data: bytes) -> str:
    """Return the size and the hash of bytes as text."""
    return f"{len(data):,} bytes, sha256 {sha256(data).hexdigest()}"


def _to_json(value: object) -> str:
    """Return a value as JSON text; bytes are replaced by a description."""
    return json.dumps(value, ensure_ascii=False, default=_replace_for_json)


def _replace_for_json(value: Any) -> Any:
    """Return what `json.dumps` writes instead of a value that JSON does not have."""
    if hasattr(value, "model_dump"):
        return value.model_dump(exclude_none=True)
    if isinstance(value, bytes):
        return _describe_bytes(value)
    if isinstance(value, Mapping):
        return dict(cast("Mapping[Any, Any]", value))
    return str(value)
