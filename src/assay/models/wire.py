"""Wire: how a request is written for an endpoint, and how its answer is read."""

import json
from collections.abc import Mapping, Sequence, Set
from functools import cache, lru_cache
from importlib.resources import files
from json.encoder import encode_basestring_ascii
from typing import Any, NamedTuple, Protocol, cast

from pydantic_core import from_json

from assay.errors import ModelError, Refused, Truncated, Unreadable
from assay.models.base import Reply, Request
from assay.models.schema import schema_text
from assay.types import Message


class RawReply(NamedTuple):
    """What an endpoint sent back, before it is read as a `Reply`."""

    status: int
    headers: Mapping[str, str]
    """Names in lower case."""
    data: Any
    """The body as JSON; None when it is none."""
    text: str
    """The body of an answer that is no success, or no JSON; else empty."""


def raw_reply(status: int, headers: Mapping[str, str], body: bytes) -> RawReply:
    """A body that was read."""
    try:
        data = loads(body)
    except (ValueError, RecursionError):
        data = None
    is_plain = status == 200 and data is not None
    return RawReply(status, headers, data, "" if is_plain else body.decode("utf-8", "replace"))


def loads(body: bytes) -> Any:
    """JSON from bytes; a `ValueError` for what is none."""
    try:
        return from_json(body, cache_strings="keys")
    except ValueError:
        # Half a surrogate pair, which models under test write, is read only by the slower one.
        return json.loads(body)


def dumps(value: Any) -> bytes:
    """JSON as bytes; half a surrogate pair is escaped."""
    return json.dumps(value).encode()


class Payload(NamedTuple):
    """A request as an endpoint reads it, and which of its optional parts it uses."""

    body: Mapping[str, Any]
    """All fields; without the messages where those are given in pieces."""
    used: Set[str]
    pieces: Sequence[tuple[str, Sequence[str]]] = ()
    """Role and pieces of each message. Pieces are shared, and written once for all who share them."""
    rest: bytes = b""
    """The body as JSON, where it is at hand."""

    def whole(self) -> dict[str, Any]:
        """All fields, with the messages in one piece each."""
        if not self.pieces:
            return dict(self.body)
        messages = [{"role": role, "content": "".join(texts)} for role, texts in self.pieces]
        return {**self.body, "messages": messages}

    def written(self) -> bytes:
        """The same as JSON."""
        if not self.pieces:
            return dumps(self.body)
        parts: list[bytes] = []
        for role, texts in self.pieces:
            parts += (b',{"role":"' if parts else _BEFORE, role.encode(), b'","content":"')
            parts += map(_escaped, texts)
            parts.append(b'"}')
        # What comes after is an object of its own, and its first brace is left out.
        parts += (b"],", (self.rest or dumps(self.body))[1:])
        return b"".join(parts)


_BEFORE = b'{"messages":[{"role":"'


@lru_cache(maxsize=512)
def _escaped(text: str) -> bytes:
    """A text as it stands between the quotes of JSON; in ASCII, so half a character can go too."""
    return encode_basestring_ascii(text)[1:-1].encode()


class Wire(Protocol):
    """One protocol: where to post, what to write, how to read."""

    path: str
    """Added to the endpoint's address."""

    def headers(self, key: str | None) -> dict[str, str]:
        """The headers of every call."""
        ...

    def payload(self, request: Request, name: str, left_out: Set[str]) -> Payload:
        """The request for this model, without the features that it refuses."""
        ...

    def reply(self, data: Mapping[str, Any]) -> Reply:
        """The reply in an answer, with its usage, whole or not. `KeyError` when it is none.

        What it asks to have called is in `tool_calls`, also where that is how it keeps to a schema.
        """
        ...


@cache
def prompt(name: str) -> str:
    """The words in `prompts/`."""
    path = files("assay.models").joinpath("prompts", f"{name}.md")
    return path.read_text(encoding="utf-8").strip()


def in_words(request: Request) -> tuple[Message, ...]:
    """The messages, with the schema said in the system prompt, for an endpoint that takes none.

    There it is the same for every request of a kind, so what they share stays shared.
    """
    if request.schema is None:
        return request.messages
    said = prompt("json").replace("{schema}", schema_text(request.schema))
    last = max((n for n, m in enumerate(request.messages) if m["role"] == "system"), default=-1)
    before, after = request.messages[: last + 1], request.messages[last + 1 :]
    gap = "\n\n" if before else ""
    return (*before, {"role": "system", "content": gap + said}, *after)


def in_pieces(
    messages: Sequence[Message], *, verbatim: bool = False
) -> list[tuple[str, list[str]]] | None:
    """Role and texts of neighbours of one role; None when there is more to them than texts.

    Verbatim, each message by itself.
    """
    pieces: list[tuple[str, list[str]]] = []
    for message in messages:
        role, content = message["role"], message["content"]
        if type(content) is not str or len(message) > 2 or role not in _ROLES:
            return None
        if not verbatim and pieces and pieces[-1][0] == role:
            pieces[-1][1].append(content)
        else:
            pieces.append((role, [content]))
    return pieces


_ROLES = frozenset({"system", "developer", "user", "assistant"})


def joined(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Neighbours of one role as one message, with nothing between them."""
    result: list[dict[str, Any]] = []
    for message in messages:
        last = result[-1] if result else None
        if last is not None and last["role"] == message["role"] and _are_texts(last, message):
            last["content"] += message["content"]
        else:
            result.append(dict(message))
    return result


def _are_texts(*messages: Mapping[str, Any]) -> bool:
    return all(
        isinstance(message["content"], str) and set(message) == {"role", "content"}
        for message in messages
    )


def whole(reply: Reply, where: str, request: Request) -> Reply:
    """The reply if it is a whole one; anything else is an error and no answer."""
    if request.max_tokens == 1 and request.logprobs is not None and request.schema is None:
        # One token was asked for, for its likelihood, and came: nothing is cut off.
        return reply._replace(finish_reason="stop")
    trouble = _trouble(reply, where)
    if trouble is None or (request.verbatim and not isinstance(trouble, Refused)):
        return reply
    raise trouble


WHOLE = frozenset(
    {
        "stop",
        "end_turn",
        "stop_sequence",
        "eos",
        "eos_token",
        "end_of_turn",
        "complete",
        "completed",
    }
    | {"tool_calls", "tool_use", "function_call"}
)
"""How a reply ends that is all there, in the words of various endpoints."""

_FILTERED = ("filter", "safety", "recitation", "blocklist", "prohibited", "spii", "sensitive")
"""Parts of the words for a reply that was held back."""


def _trouble(reply: Reply, where: str) -> ModelError | None:
    reason = reply.finish_reason.lower()
    if reason in WHOLE:
        return None
    if reason == "length":
        return Truncated(
            f"{where} stopped in the middle after {reply.usage.completion} tokens: "
            f"…{reply.text[-60:]!r}; allow more max_tokens, or ask for a shorter reason"
        )
    if any(word in reason for word in _FILTERED):
        return Refused(f"{where} does not answer: its content filter stopped the reply")
    if reason == "refusal":
        return Unreadable(f"{where} declines to answer: {reply.text[:200]!r}")
    return Truncated(
        f"{where} ended its reply with the reason {reply.finish_reason!r:.80}, so it may not be whole: "
        f"…{reply.text[-60:]!r}; see the endpoint's log"
    )


def text_of(content: Any) -> str:
    """A message's content as text: a text, or the texts among its parts."""
    if isinstance(content, list):
        parts = [cast("Mapping[str, Any]", part) for part in cast("list[Any]", content)]
        return "".join(str(part.get("text") or "") for part in parts)
    return content if isinstance(content, str) else ""
