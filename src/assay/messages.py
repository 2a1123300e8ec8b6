"""Read text, roles, tool calls and parts off messages, which are mappings or objects of an SDK; nothing is changed."""

import json
import math
from base64 import b64decode
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from decimal import Decimal
from hashlib import sha256
from numbers import Real
from os import PathLike
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeAlias, cast

from assay.errors import MediaError, RubricError
from assay.lazy import table_of
from assay.types import Messages
from assay.wording import did_you_mean, short_repr


class ToolCall(NamedTuple):
    """One call of a tool that a model asked for."""

    name: str
    arguments: str  # as the model wrote them: JSON text, which may be broken
    id: str = ""

    @property
    def written(self) -> dict[str, Any]:
        """As a message has it, in the form of OpenAI."""
        return {
            "id": self.id,
            "type": "function",
            "function": {"name": self.name, "arguments": self.arguments},
        }


def text_of(content: object) -> str:
    """Return the text of a message's content: parts joined by a space, other kinds of part left out.

    >>> text_of([{"type": "text", "text": "a"}, {"type": "image_url"}, {"type": "text", "text": "b"}])
    'a b'
    """
    if isinstance(content, str):
        return content
    parts: Any = content if _is_list(content) else (content,)
    return " ".join(filter(None, map(_part_text, parts)))


def _part_text(part: object) -> str:
    if isinstance(part, str):
        return part
    text = field_of(part, "text")
    # Gemini marks a thought by a field beside its text.
    return text if isinstance(text, str) and field_of(part, "thought") is not True else ""


def field_of(message: Any, name: str) -> Any:
    """A field of a message, a reply or a step: a mapping's key or an attribute; None when it has neither."""
    # Nearly every message is a dict, and a look at its class costs a tenth of the question below.
    if message.__class__ is dict:
        return message.get(name)
    if isinstance(message, Mapping):
        return cast("Mapping[str, Any]", message).get(name)
    return getattr(message, name, None)


def role_of(message: object) -> str:
    """The role of a message; the one that Gemini calls `model` is the assistant."""
    role = field_of(message, "role")
    return "assistant" if role == "model" else role if isinstance(role, str) else ""


def message_text(message: object) -> str:
    """The text of one message, whatever its content is made of."""
    return message if isinstance(message, str) else text_of(_content(message))


def _content(message: object) -> Any:
    """What a message holds, which Gemini calls its parts."""
    content = field_of(message, "content")
    return field_of(message, "parts") if content is None else content


def chat_of(messages: object) -> Sequence[Any]:
    """The messages of a chat; one message by itself is a chat too, and a plain text has none."""
    if type(messages) is list:
        return cast("list[Any]", messages)
    if isinstance(messages, Mapping):
        return [cast("object", messages)]
    if isinstance(messages, str | bytes) or not isinstance(messages, Sequence):
        return [messages] if role_of(messages) else []
    return cast("Sequence[Any]", messages)


def with_role(messages: Messages, role: str) -> list[Any]:
    """The messages of one role, in order. A plain text has none."""
    return [message for message in chat_of(messages) if role_of(message) == role]


def last_with_role(messages: Messages, role: str) -> Any | None:
    """The last message of one role, or None. A plain text has none."""
    return next(
        (message for message in reversed(chat_of(messages)) if role_of(message) == role), None
    )


def read_completion(completion: object) -> Any:
    """Return a completion as checks and judges read it: a text, or messages of which the assistant's last has one.

    A number is its text. Anything else raises a TypeError: read as an empty text it would score as if nothing was said.
    """
    text = completion if isinstance(completion, str) else _number_text(completion)
    if text is not None:
        return text
    chat = chat_of(completion)
    last = last_with_role(chat, "assistant")
    if last is None:
        if any(
            _side(item) == "assistant" for item in chat
        ):  # the Responses API has calls that are no messages
            return completion
        ways = "give a text, or messages of which one has the role 'assistant'"
        raise TypeError(f"the completion is {_kind(completion)}: {ways}")
    content, in_parts = (
        field_of(last, "content"),
        isinstance(field_of(last, "parts"), Sequence),
    )  # as Gemini writes it
    calls = field_of(last, "tool_calls") or field_of(last, "function_call")
    if isinstance(content, str) or (content is None and (in_parts or calls)):
        return completion
    number = _number_text(content)
    if number is not None and isinstance(last, Mapping):
        spoken = {**cast("Mapping[str, Any]", last), "content": number}
        return [spoken if message is last else message for message in chat]
    if not _holds_text(content):
        said = f"the content of the assistant's last message is {_kind(content)}"
        raise TypeError(f"{said}: give a text, or a list of parts")
    return completion


def is_plain_chat(completion: Any) -> bool:
    """Whether it is a list that ends with a text of the assistant, as nearly always: a quick look for many."""
    last: Any = completion[-1] if completion.__class__ is list and completion else None
    return (
        last.__class__ is dict
        and last.get("role") == "assistant"
        and last.get("content").__class__ is str
    )


def _number_text(value: object) -> str | None:
    """A finite number as text; None for anything else, True and False among them."""
    if isinstance(value, bool) or not isinstance(value, Real | Decimal):
        return None
    return str(value) if math.isfinite(value) else None


def _holds_text(content: object) -> bool:
    """Whether content that is no plain text holds texts, or parts of kinds that have none."""
    if isinstance(content, Sequence) and not isinstance(content, bytes):
        parts = cast("Sequence[object]", content)
        return all(isinstance(part, str) or field_of(part, "type") is not None for part in parts)
    return isinstance(field_of(content, "text"), str)


def _kind(value: object) -> str:
    if value is None:
        return "null, and no text"
    name = f"{type(value).__module__}.{type(value).__name__}".removeprefix("builtins.")
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
    calls = field_of(message, "tool_calls")
    return [call for call in map(_tool_call, calls if _is_list(calls) else ()) if call is not None]


def _tool_call(entry: object) -> ToolCall | None:
    if isinstance(entry, str):
        try:
            entry = json.loads(entry)
        except ValueError:
            return None
    function = field_of(entry, "function") or entry
    name = field_of(function, "name")
    if not isinstance(name, str):
        return None
    arguments: object = field_of(function, "arguments")
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments if arguments is not None else {})
    return ToolCall(name, arguments, str(field_of(entry, "id") or ""))


# Parts: all that a conversation holds, one by one.

Kind: TypeAlias = Literal["text", "thinking", "call", "result", "image", "audio", "file"]
MEDIA: Final = frozenset({"image", "audio", "file"})  # the kinds of part that are not made of text
_NAMES: Final = table_of("assay", "parts.toml")
# The columns of a table that hold media, of paths, URLs, bytes, or as Hugging Face has them; one or a list of them.
MEDIA_COLUMNS: Final[Mapping[str, Kind]] = {
    name: kind for kind, names in _NAMES["columns"].items() for name in names
}


class Part(NamedTuple):
    """One piece of a conversation, under an address that does not depend on what is shown of it."""

    address: str  # `m3` for the text of the third message, `m3.call1` or `m3.image1` for what else it holds
    kind: Kind
    role: str
    # What it says. Of a call its name and arguments; of media their type and size, and a digest of the content.
    text: str
    in_prompt: bool
    call: str = ""  # of the result of a tool, the address of the call
    given: Any = None  # media as they were given

    @property
    def message(self) -> str:
        """The address of the message that holds it."""
        return self.address.partition(".")[0]


class MediaPlaces(NamedTuple):
    # From where media may be read that are named and not given.
    folders: tuple[Path, ...] = ()
    urls: bool = False
    allow_private: bool = False


MEDIA_PLACES: ContextVar[MediaPlaces] = ContextVar("media_places", default=MediaPlaces())  # noqa: B039 - it is a tuple


@contextmanager
def media_access(
    folder: str | PathLike[str] | Sequence[str | PathLike[str]] = (),
    *,
    urls: bool = False,
    allow_private: bool = False,
) -> Generator[None]:
    """Allow media of rollouts to be read from a folder, or several, and from URLs, inside the block.

    Files are read for prompts alone, since a model under test could name any file, and never outside of the folder. URLs
    are those of public addresses that begin with https; `allow_private=True`, for tests, takes others too.
    """
    folders = (folder,) if isinstance(folder, str | PathLike) else folder
    for each in folders:
        if not Path(each).is_dir():
            raise MediaError(
                f"{str(each)!r} is no folder: name the one that holds images, audio and files"
            )
    before = MEDIA_PLACES.get()
    MEDIA_PLACES.set(MediaPlaces(tuple(map(Path, folders)), urls, allow_private))
    try:
        yield
    finally:
        MEDIA_PLACES.set(before)  # by its value, since a worker process ends in another context


Shows: TypeAlias = tuple[str, ...]
# What a judge may be shown of a rollout, by name; several narrow it together. `docs/concepts/judging.md` explains
# each.
SHOWS: Final = ("all", "last", "transcript", "no_thinking", "no_tools", "no_media", "described")


def shows_of(given: object) -> Shows:
    """The names of what a judge is shown: one, or a list of them. Raises a `RubricError` for others."""
    names = [given] if isinstance(given, str) else given
    if not isinstance(names, list | tuple) or not names:
        raise RubricError(f"shows is {short_repr(given)}: give one or more of {', '.join(SHOWS)}")
    for name in cast("Sequence[object]", names):
        if not isinstance(name, str) or name not in SHOWS:
            raise RubricError(
                f"there is no way to show {short_repr(name)} to a judge: {did_you_mean(name, SHOWS)}"
            )
    chosen = dict.fromkeys(cast("Sequence[str]", names))
    if len(chosen.keys() & {"all", "last", "transcript"}) > 1:
        raise RubricError(f"shows is {', '.join(chosen)}: give one of all, last and transcript")
    return tuple(chosen)


def parts_of(prompt: object, completion: object = None) -> list[Part]:
    """Every part of a rollout in order, the prompt's first: from chats of OpenAI (also Responses), Anthropic and Gemini.

    Messages are numbered from 1 through both. Without a prompt, what comes before the first reply is the prompt. What is
    of no known kind is a text, as JSON.

    >>> call = {"id": "a", "function": {"name": "search", "arguments": "{}"}}
    >>> for part in parts_of("Where is it?", [{"role": "assistant", "content": "I look.", "tool_calls": [call]}]):
    ...     print(part.address, part.kind, part.text)
    m1 text Where is it?
    m2 text I look.
    m2.call1 call search({})
    """
    asked, said = turns_of(prompt, "user"), turns_of(completion, "assistant")
    if not asked:
        first = next((place for place, turn in enumerate(said) if _side(turn) == "assistant"), 0)
        asked, said = said[:first], said[first:]
    found: list[Part] = []
    calls: dict[str, str] = {}
    for number, turn in enumerate((*asked, *said), start=1):
        in_prompt = number <= len(asked)
        role = _side(turn) or ("user" if in_prompt else "assistant")
        counts: dict[str, int] = {}
        for kind, text, link, given in _pieces(turn):
            if kind == "text" and role == "tool":
                kind, link = "result", str(field_of(turn, "tool_call_id") or "")
            counts[kind] = count = counts.get(kind, 0) + 1
            is_text = kind == "text" or (kind == "result" and role == "tool")
            address = f"m{number}" if is_text and count == 1 else f"m{number}.{kind}{count}"
            if kind == "call" and link:
                calls[link] = address
            answered = calls.get(link, "") if kind == "result" else ""
            found.append(Part(address, kind, role, text, in_prompt, answered, given))
    return found


_Piece: TypeAlias = tuple[
    Kind, str, str, Any
]  # its kind and text, the id of the call it is or answers, media
_SYSTEM: Final = ("system", "instructions", "system_instruction", "systemInstruction")
_HOLDERS: Final = ("messages", "contents", "input")


def turns_of(said: object, role: str) -> list[Any]:
    """The messages of a chat, of a request that holds one, or of a text; none for an empty text."""
    holder = next((name for name in _HOLDERS if field_of(said, name) is not None), None)
    if holder is not None and not role_of(said) and field_of(said, "type") is None:
        system: Any = next((value for name in _SYSTEM if (value := field_of(said, name))), None)
        held: Any = system if _content(system) is None else _content(system)
        opening: list[Any] = [] if system is None else [{"role": "system", "content": held}]
        return opening + turns_of(field_of(said, holder), role)
    text = said if isinstance(said, str) else _number_text(said)
    if text is not None:
        return [{"role": role, "content": text}] if text else []
    return [
        {"role": role, "content": turn} if isinstance(turn, str) else turn for turn in chat_of(said)
    ]


def _side(turn: object) -> str:
    """The role of a message, or of an item of the Responses API, which has none; empty for neither."""
    role = role_of(turn)
    if role:
        return "tool" if role == "function" else role
    kind = field_of(turn, "type")
    if not isinstance(kind, str):
        return ""
    return (
        "assistant"
        if kind == "reasoning" or kind.endswith("_call")
        else "tool"
        if kind.endswith("_output")
        else ""
    )


_USUAL: Final = frozenset({"role", "content", "tool_call_id", "name", "id"})


def _pieces(turn: object) -> Iterator[_Piece]:
    """What one message, or one item of the Responses API, holds, in order."""
    content = _content(turn)
    # Nearly every message is a text, or parts of it, and there is nothing else to look for.
    is_usual = turn.__class__ is dict and cast("dict[str, Any]", turn).keys() <= _USUAL
    if not is_usual and not role_of(turn) and content is None:
        yield from _piece(turn)
        return
    thoughts = (
        () if is_usual else (field_of(turn, name) for name in ("reasoning_content", "reasoning"))
    )
    if thought := next((said for said in thoughts if isinstance(said, str) and said), None):
        yield "thinking", thought, "", None
    if content.__class__ is not str:
        yield from _each_piece(content)
    elif content:
        yield "text", content, "", None
    if is_usual:
        return
    if isinstance(refusal := field_of(turn, "refusal"), str) and refusal:
        yield "text", refusal, "", None
    if (spoken := field_of(turn, "audio")) is not None:
        yield _medium("audio", spoken)
        if isinstance(words := field_of(spoken, "transcript"), str) and words:
            yield "text", words, "", None
    calls = field_of(turn, "tool_calls")
    for entry in (
        *(calls if _is_list(calls) else ()),
        *filter(None, [field_of(turn, "function_call")]),
    ):
        call = _tool_call(entry)
        custom = field_of(entry, "custom") or entry
        if call is None and isinstance(field_of(custom, "name"), str):
            yield _call(custom, field_of(entry, "id"))
        elif call is None:
            yield "call", entry if isinstance(entry, str) else _json(entry), "", None
        else:
            yield "call", f"{call.name}({call.arguments})", call.id, None


def _each_piece(content: Any) -> Iterator[_Piece]:
    """What content holds: a text, one part, or a list of parts; nothing for what is empty."""
    if content is None:
        return
    for part in content if _is_list(content) else (content,):
        yield from _piece(part)


def _is_list(content: Any) -> bool:
    # An SDK's record can be iterated over, but it is one part.
    is_record = isinstance(content, str | bytes | Mapping) or hasattr(content, "model_dump")
    return not is_record and isinstance(content, Iterable)


# The fields by which Gemini says what a part is, and how its JSON spells them.
_BY_FIELD: Final[dict[str, str]] = _NAMES["gemini"]
_MEDIA_TYPES: Final[Mapping[str, Kind]] = {
    name: kind for kind, names in _NAMES["types"].items() for name in names
}


def _type(part: object) -> str:
    """What a part says that it is; empty for what is no part."""
    kind = field_of(part, "type")
    if isinstance(kind, str):
        return kind
    for name, other in _BY_FIELD.items():
        if field_of(part, name) is not None or field_of(part, other) is not None:
            return name
    return "text" if isinstance(field_of(part, "text"), str) else ""


def _piece(part: object) -> Iterator[_Piece]:
    """One part as what it is; the result of a tool is followed by the media in it."""
    if isinstance(part, str):
        if part:
            yield "text", part, "", None
        return
    kind, text = _type(part), field_of(part, "text")
    inner = (
        field_of(part, kind)
        if kind not in _BY_FIELD
        else field_of(part, kind) or field_of(part, _BY_FIELD[kind])
    )
    if kind in _MEDIA_TYPES:
        source = field_of(part, "source")
        if kind == "document" and field_of(source, "type") in ("text", "content"):
            yield from _each_piece(field_of(source, "data") or field_of(source, "content"))
        else:
            yield _medium(_MEDIA_TYPES[kind], part)
    elif kind in ("thinking", "redacted_thinking", "reasoning"):
        thoughts = [text_of(field_of(part, name)) for name in ("summary", "content")]
        words = [said for said in (inner, text, *thoughts) if isinstance(said, str) and said]
        yield "thinking", "\n".join(words) or "(hidden by the provider)", "", None
    elif kind == "refusal" and isinstance(inner, str):
        yield "text", inner, "", None
    elif kind.endswith(("_result", "_output")) or kind == "function_response":
        yield from _result(part, inner)
    elif kind == "executable_code":
        yield "call", _json(inner), "", None
    elif kind == "image_generation_call":
        yield _medium("image", part)
    elif kind == "function_call" or kind.endswith(("_use", "_call")):
        yield _call(inner or part, field_of(part, "call_id") or field_of(part, "id"))
        if (output := field_of(part, "output")) is not None:
            yield (
                "result",
                output if isinstance(output, str) else _json(output),
                str(field_of(part, "id") or ""),
                None,
            )
    elif isinstance(text, str):
        if text:
            yield ("thinking" if field_of(part, "thought") is True else "text"), text, "", None
    elif part is not None:
        yield "text", _json(part), "", None


def _result(part: object, inner: Any) -> Iterator[_Piece]:
    """The result of a tool, of all that is text in it, and the media in it."""
    link = field_of(part, "tool_use_id") or field_of(part, "call_id")
    output = (
        field_of(part, "output") if field_of(part, "content") is None else field_of(part, "content")
    )
    # Without a call that it answers it is a record inside a result, or Gemini's, whose fields are all of it.
    held: Any = output if link and output is not None else part if inner is None else inner
    link = link or field_of(inner, "id") or ""
    readable = (
        all(map(_type, held))
        if _is_list(held)
        else held.__class__ is str or (held is not part and _type(held))
    )
    pieces = [*_each_piece(held)] if readable else []
    words = (
        [text for kind, text, _, _ in pieces if kind not in MEDIA] if readable else [_json(held)]
    )
    failed = "error: " if field_of(part, "is_error") is True else ""
    yield "result", failed + "\n".join(words), str(link), None
    yield from (piece for piece in pieces if piece[0] in MEDIA)


def _call(called: object, link: object) -> _Piece:
    """A call, from its name and its arguments, whatever they are called."""
    held = (field_of(called, name) for name in ("arguments", "input", "args"))
    arguments = next((value for value in held if value is not None), None)
    name = field_of(called, "name")
    if not isinstance(name, str):  # a tool of the provider's own
        name, arguments = str(field_of(called, "type")), called
    words = (
        arguments if isinstance(arguments, str) else _json({} if arguments is None else arguments)
    )
    return "call", f"{name}({words})", str(link or field_of(called, "id") or ""), None


_TYPES: Final = ("media_type", "mime_type", "mimeType")
_CONTENTS: Final = ("data", "file_data", "result")
_NAMED: Final = (
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


def _medium(kind: Kind, part: object) -> _Piece:
    """An image, audio or file in words: what it is, its size, and a digest of its content, or where it is."""
    media_type, content, _ = media_source(part)
    words = (
        [] if content is None else [f"{len(content):,} bytes, sha256 {sha256(content).hexdigest()}"]
    )
    for name, value in dict(_leaves(part)).items():
        is_content = isinstance(value, bytes) or str(value).startswith("data:")
        if not is_content and name not in ("type", "transcript", *_TYPES, *_CONTENTS):
            words.append(f"{name} {value}")
    by_type = media_type.partition("/")[0]
    kind = cast("Kind", by_type) if by_type in MEDIA else kind
    return kind, ", ".join([media_type or kind, *words]), "", part


def media_source(part: object) -> tuple[str, bytes | None, str]:
    """The media type that a part says, if it does, and its content, or else the path or URL that it names."""
    fields = dict(_leaves(part))
    media_type = next((str(fields[name]) for name in _TYPES if fields.get(name)), "")
    for name, value in fields.items():
        if isinstance(value, str) and value.startswith("data:"):
            head, _, data = value.partition(",")
            return media_type or head[5:].partition(";")[0], _decoded(data), ""
        if isinstance(value, bytes) or name in _CONTENTS:
            media_type = media_type or (
                f"audio/{fields['format']}" if "format" in fields else ""
            )  # as OpenAI says it
            return media_type, value if isinstance(value, bytes) else _decoded(str(value)), ""
    return (
        media_type,
        None,
        next((fields[name] for name in _NAMED if isinstance(fields.get(name), str)), ""),
    )


def _leaves(value: object, name: str = "") -> Iterator[tuple[str, Any]]:
    """The fields of a part that hold something, those of the records in it too."""
    if not isinstance(value, Mapping) and hasattr(value, "__dict__"):
        value = vars(value)
    if isinstance(value, Mapping):
        for key, inner in cast("Mapping[Any, Any]", value).items():
            yield from _leaves(inner, str(key))
    elif value is not None:
        yield name, value


def _decoded(text: str) -> bytes:
    try:
        return b64decode(text)
    except ValueError:
        return text.encode("utf-8", "surrogatepass")


def _json(value: object) -> str:
    def plain(held: Any) -> Any:
        if hasattr(held, "model_dump"):
            return held.model_dump(exclude_none=True)
        if isinstance(held, bytes):
            return f"{len(held):,} bytes, sha256 {sha256(held).hexdigest()}"
        return dict(cast("Mapping[Any, Any]", held)) if isinstance(held, Mapping) else str(held)

    return json.dumps(value, ensure_ascii=False, default=plain)
