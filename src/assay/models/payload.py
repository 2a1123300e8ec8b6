"""Write a request as the payload of a provider, and tell a whole reply from one that is none."""

import json
import re
from collections.abc import Mapping, Sequence, Set
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple, Protocol, cast

from pydantic_core import from_json

from assay.errors import ModelError, Refused, Truncated, Unreadable
from assay.models.model import Reply, Request, schema_text
from assay.types import Message


class Payload(NamedTuple):
    """A request as an endpoint reads it, and which of its optional parameters it uses."""

    body: dict[str, Any]
    used: Set[str]


class RawReply(NamedTuple):
    """What an endpoint sent back, before it is read as a `Reply`."""

    status: int
    headers: Mapping[str, str]
    """Names in lower case."""
    data: Any
    """The body as JSON; None when it is none."""
    text: str
    """The body of an answer that is no success, or no JSON; else empty."""

    @classmethod
    def of(cls, status: int, headers: Mapping[str, str], body: bytes) -> "RawReply":
        """A body that was read."""
        try:
            data = loads(body)
        except (ValueError, RecursionError):
            data = None
        is_plain = status == 200 and data is not None
        return cls(status, headers, data, "" if is_plain else body.decode("utf-8", "replace"))


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


class ProviderFormat(Protocol):
    """The format of one provider: where to post, what to write, how to read."""

    path: str
    """Added to the endpoint's address."""

    def headers(self, key: str | None) -> dict[str, str]:
        """The headers of every call."""
        ...

    def payload(self, request: Request, name: str, left_out: Set[str]) -> Payload:
        """The request for this model, without the parameters that it does not take."""
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


def with_schema_in_words(request: Request) -> tuple[Message, ...]:
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


def joined(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Neighbours of one role as one message, with nothing between them; those with more than text stay."""
    result: list[dict[str, Any]] = []
    open_role = None
    """The role of the last message, where that is a text to which more can be added."""
    for message in messages:
        role, content = message["role"], message["content"]
        is_text = isinstance(content, str) and len(message) == 2
        if is_text and role == open_role:
            result[-1]["content"] += content
        else:
            result.append(dict(message))
            open_role = role if is_text else None
    return result


def text_of(content: Any) -> str:
    """A message's content as text: a text, or the texts among its parts."""
    if isinstance(content, list):
        parts = [cast("Mapping[str, Any]", part) for part in cast("list[Any]", content)]
        return "".join(str(part.get("text") or "") for part in parts)
    return content if isinstance(content, str) else ""


_WHOLE = frozenset(
    {"stop", "end_turn", "stop_sequence", "eos", "eos_token", "end_of_turn", "complete", "completed"}
    | {"tool_calls", "tool_use", "function_call"}
)
"""How a reply ends that is all there, in the words of various endpoints."""
_FILTERED = ("filter", "safety", "recitation", "blocklist", "prohibited", "spii", "sensitive")
"""Parts of the words for a reply that was held back."""


def whole(reply: Reply, where: str, request: Request) -> Reply:
    """The reply if it is a whole one; anything else is an error and no answer."""
    if request.max_tokens == 1 and request.logprobs is not None and request.schema is None:
        # One token was asked for, for its likelihood, and came: nothing is cut off.
        return reply._replace(finish_reason="stop")
    trouble = _trouble(reply, where)
    if trouble is None or (request.verbatim and not isinstance(trouble, Refused)):
        return reply
    raise trouble


def _trouble(reply: Reply, where: str) -> ModelError | None:
    reason = reply.finish_reason.lower()
    if reason in _WHOLE:
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


SCHEMA, TEMPERATURE, SEED, LOGPROBS = "schema", "temperature", "seed", "logprobs"
MAX_TOKENS, MAX_COMPLETION_TOKENS = "max_tokens", "max_completion_tokens"
_NAMED = {
    SCHEMA: re.compile(r"response_format|json_schema|structured|grammar|tool_choice|\btools?\b"),
    TEMPERATURE: re.compile("temperature"),
    MAX_COMPLETION_TOKENS: re.compile("max_completion_tokens"),
    MAX_TOKENS: re.compile("max_tokens"),
    SEED: re.compile(r"\bseed\b"),
    LOGPROBS: re.compile("logprobs"),
}
"""How an endpoint names a parameter that it complains about."""
_VAGUE = frozenset({400, 404, 405, 415, 422, 501})
"""A complaint of this kind that names nothing may still be about the schema."""
_REASONING = re.compile(r"(?:gpt-(?:[5-9]|\d\d)|o\d)(?!\w)(?!-chat)", re.IGNORECASE)


def refused_by_name(name: str) -> frozenset[str]:
    """The parameters that a model of this name refuses: OpenAI's reasoning models take no temperature.

    >>> sorted(refused_by_name("gpt-5-mini")), sorted(refused_by_name("gpt-4.1"))
    (['max_tokens', 'temperature'], [])
    """
    reasons = _REASONING.match(name.rpartition("/")[2])
    # They know the limit of tokens by its newer name, `max_completion_tokens`.
    return frozenset({TEMPERATURE, MAX_TOKENS}) if reasons else frozenset()


def is_named(parameter: str, complaint: str) -> bool:
    """Whether a complaint says which parameter of a request it is about."""
    return _NAMED[parameter].search(complaint.lower()) is not None


def unsupported_parameter(status: int | None, complaint: str, used: Set[str]) -> str | None:
    """The parameter to try without, after such a complaint; None when there is none.

    >>> unsupported_parameter(400, "Unsupported value: 'temperature' must be 1", {"schema", "temperature"})
    'temperature'
    >>> unsupported_parameter(400, "Bad Request", {"schema"}), unsupported_parameter(401, "No", {"schema"})
    ('schema', None)
    """
    if status != 500 and status not in _VAGUE:
        return None
    for parameter in _NAMED:
        if parameter in used and is_named(parameter, complaint):
            return parameter
    return SCHEMA if status in _VAGUE and SCHEMA in used else None
