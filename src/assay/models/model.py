"""A model is one async function: it takes a `Request` and returns a `Reply`.

    Request ─▶ cache ─▶ equal requests in flight ─▶ budget ─▶ limits, retries ─▶ HTTP ─▶ Reply

Each step is such a function, too, and wraps the next one. A model that cannot answer raises a
`ModelError`; it never returns an empty or invented reply.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import groupby
from json import dumps
from operator import itemgetter
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeAlias, cast, runtime_checkable

from pydantic import BaseModel

from assay.concurrency import set_variable
from assay.errors import NoReply
from assay.messages import ToolCall
from assay.redaction import redact
from assay.types import Message
from assay.wording import describe_error, format_value

# What answered: the model, a cache, or the model in reply to an equal request in flight.
Source: TypeAlias = Literal["model", "cache", "flight"]


class Tool(NamedTuple):
    """A function that a model may call."""

    name: str
    description: str
    parameters: str  # the JSON schema of the arguments, as text


@dataclass(frozen=True)
class Request:
    """What a model is asked.

    Consecutive messages of one role are sent as one message, joined without a separator, so that a
    prompt can be split where the part ends that it shares with other prompts. The content of a
    message is a text, a tuple of texts and `Medium` objects, or a list of parts in the endpoint's
    own format.

    >>> request = Request.of("You judge.", "<response>4</response>", "Is it even?")
    >>> request.system, request.user, request.shared
    ('You judge.', '<response>4</response>Is it even?', 2)
    """

    messages: tuple[Message, ...]  # mappings with `role` and `content`
    schema: type[BaseModel] | None = None  # what the reply is parsed as; None leaves it a text
    # Returns what is wrong with a parsed reply beyond its schema, or None. The model is asked once
    # more; then `OffMenu` is raised.
    check: Callable[[Any], str | None] | None = field(default=None, compare=False)
    # How many of the first messages other requests share; a cache breakpoint is set after them.
    shared: int = 0
    temperature: float | None = 0.0  # None is the endpoint's default; omitted if a model refuses it
    max_tokens: int | None = (
        None  # of the reply, with its reasoning; None is the endpoint's default
    )
    seed: int | None = None
    logprobs: int | None = None  # the number of alternatives to return for each token
    sample: int = 0  # tells several answers to one question apart, which are asked and cached apart
    # The functions that the model may call, which its reply then lists as `tool_calls`.
    tools: tuple[Tool, ...] = ()
    # For a model under test: messages are not joined, and a cut-off or declined reply is accepted.
    verbatim: bool = False
    # By these a verdict is found in the cache: the hash of the criterion, and the name and version
    # of the prompt (`per_criterion/4`).
    question: str = field(default="", compare=False)
    prompt: str = field(default="", compare=False)

    @classmethod
    def of(cls, system: str, *user: str, schema: type[BaseModel] | None = None) -> Request:
        """Return a request with a system prompt and the parts of a user prompt.

        All messages but the last are marked as shared with other requests.
        """
        messages: list[Message] = [{"role": "system", "content": system}]
        for part in user:
            messages.append({"role": "user", "content": part})
        return cls(tuple(messages), schema, shared=len(messages) - 1)

    @property
    def system(self) -> str:
        """The text of the system messages."""
        return self._text_of("system")

    @property
    def user(self) -> str:
        """The text of the user messages."""
        return self._text_of("user")

    def _text_of(self, role: str) -> str:
        """Return all texts of the messages with this role, without their media."""
        texts: list[str] = []
        for message in self.messages:
            if message["role"] == role:
                parts = parts_in(message["content"])
                texts.extend(part for part in parts if isinstance(part, str))
        return "".join(texts)

    @cached_property
    def content(self) -> str:
        """Everything that affects the answer, as one text: equal requests have the same."""
        settings = (
            f"{self.temperature} {self.max_tokens} {self.seed} {self.logprobs} {self.sample} "
        )
        schema = "" if self.schema is None else schema_text(self.schema)
        # The format must not change, in either case: hashes of this text are keys in users' caches.
        if self.tools or self.verbatim:
            details = [self.verbatim, self.tools, self.messages]
            return settings + schema + dumps(details, default=_describe_medium)
        # Messages of one role are joined, as they are when they are sent. How a prompt was split
        # does not affect the answer.
        texts = [settings, schema]
        for role, messages in groupby(self.messages, itemgetter("role")):
            contents: list[Any] = []
            for message in messages:
                if has_further_fields(message):
                    contents.append(dict(message))
                else:
                    contents.append(message["content"])
            is_text = all(type(content) is str for content in contents)
            text = "".join(contents) if is_text else dumps(contents, default=_describe_medium)
            # The kind, 1 for a text and 0 for JSON, and the length come first, so that no text can
            # look like JSON or like the text of two messages.
            kind = int(is_text)
            texts.append(f"{role} {kind} {len(text)} {text}")
        return "".join(texts)


def has_further_fields(message: Message) -> bool:
    """Return whether a message has more fields than `role` and `content`, such as tool calls."""
    return len(message) > 2


def parts_in(content: Any) -> tuple[Any, ...]:
    """Return the texts and media in the content of a message, which may be a single text."""
    if isinstance(content, tuple):
        return cast("tuple[Any, ...]", content)
    return (content,)


def _describe_medium(part: Any) -> Any:
    """Return a text or a `Medium` as it is written in keys and logs; anything else unchanged."""
    if isinstance(part, str):
        return {"type": "text", "text": part}
    return getattr(part, "description", part)


@cache
def json_schema(model: type[BaseModel]) -> dict[str, Any]:
    """Return the JSON schema of a reply, in the strict form that providers require.

    Every field is required, and no others are allowed.
    """
    schema = model.model_json_schema()
    # The descriptions of classes are their docstrings, which are written for programmers.
    for class_schema in (schema, *schema.get("$defs", {}).values()):
        class_schema.pop("description", None)
    return _make_strict(schema)


@cache
def schema_text(model: type[BaseModel]) -> str:
    """Return the JSON schema as text, as it is in cache keys and prompts."""
    return dumps(json_schema(model))


# Keywords of JSON schemas that strict endpoints refuse or ignore. They still hold for replies,
# which are checked when they are parsed.
_UNSUPPORTED_KEYWORDS = ("default", "title", "minItems", "maxItems", "minLength", "maxLength")


def _make_strict(node: Any) -> Any:
    """Return a JSON schema, or a part of one, in the strict form that providers require.

    Unsupported keywords are removed, all fields are required, and no others are allowed.
    """
    if isinstance(node, list):
        return [_make_strict(item) for item in cast("list[Any]", node)]
    if not isinstance(node, dict):
        return node
    strict: dict[str, Any] = {}
    for name, value in cast("dict[str, Any]", node).items():
        if name in ("properties", "$defs"):
            # The keys are names of fields and classes, and kept even if they equal a keyword.
            strict[name] = {key: _make_strict(child) for key, child in value.items()}
            continue
        is_unsupported = name in _UNSUPPORTED_KEYWORDS and isinstance(value, str | int)
        if not is_unsupported:
            strict[name] = _make_strict(value)
    if "properties" in strict:
        strict["required"] = list(strict["properties"])
        strict["additionalProperties"] = False
    return strict


class Usage(NamedTuple):
    """The tokens of one or more calls. Two of them can be added."""

    prompt: int = 0  # input tokens, including those from the provider's cache
    cached: int = 0  # the input tokens that came from the provider's cache
    completion: int = 0  # output tokens, including reasoning
    # The input tokens that were written to the provider's cache, if the provider charges for that.
    stored: int = 0

    def __add__(self, other: object) -> Usage:
        """Add the tokens of two usages, kind by kind."""
        if not isinstance(other, Usage):
            return NotImplemented
        return Usage(
            prompt=self.prompt + other.prompt,
            cached=self.cached + other.cached,
            completion=self.completion + other.completion,
            stored=self.stored + other.stored,
        )


NOTHING = Usage()


@dataclass(frozen=True)
class Price:
    """Prices in dollars per million tokens.

    `cached` is the price of input from the provider's cache, `stored` of input that is written to
    it; None means the price of other input.

    >>> Price(input=2.0, cached=0.5, output=8.0).of(Usage(prompt=1000, cached=800, completion=100))
    0.0016
    """

    input: float
    output: float
    cached: float | None = None
    stored: float | None = None

    def of(self, usage: Usage) -> float:
        """Return the cost of these tokens in dollars."""
        cached_price = self.input if self.cached is None else self.cached
        stored_price = self.input if self.stored is None else self.stored
        # Some endpoints do not include the cached tokens in `prompt`. No call has a negative cost.
        other_input = max(0, usage.prompt - usage.cached - usage.stored)
        input_cost = (
            other_input * self.input + usage.cached * cached_price + usage.stored * stored_price
        )
        output_cost = usage.completion * self.output
        return (input_cost + output_cost) / 1_000_000


FREE = Price(0.0, 0.0)


class Token(NamedTuple):
    """A token of a reply and the alternatives to it, with their log-probabilities."""

    text: str
    logprob: float
    alternatives: Mapping[str, float] = {}


class Reply(NamedTuple):
    """A complete answer of a model. If there is none, an error is raised."""

    text: str  # as the model wrote it, including reasoning
    value: Any = None  # the parsed text; None if the request has no schema
    usage: Usage = NOTHING  # the tokens of all calls, including one whose reply could not be read
    # The cost of these calls in dollars; None if the price is not known, and 0 from a cache.
    cost: float | None = None
    model: str = ""  # the id that the endpoint gives for the model
    finish_reason: str = "stop"
    # One for each token; None if they were not requested or the endpoint does not return them.
    logprobs: tuple[Token, ...] | None = None
    source: Source = "model"
    tool_calls: tuple[ToolCall, ...] = ()  # the calls of the request's `tools` that the model makes

    def find_wrong_type(self) -> str | None:
        """Return which field of the reply has the wrong type, as a sentence; None if none has.

        Replies come from endpoints and from models that users wrote.
        """
        for name in ("text", "model", "finish_reason"):
            value: object = getattr(self, name)
            if not isinstance(value, str):
                return f"its {name} is {format_value(value)}, not a text"
        for token in self.logprobs or ():
            logprobs: list[object] = [token.logprob, *token.alternatives.values()]
            for logprob in logprobs:
                # Rounding can make it a little larger than 0. The comparison is false for NaN.
                if not isinstance(logprob, int | float) or not logprob < 1:
                    return f"a log-probability is {format_value(logprob)}, not a number up to 0"
        return None


@runtime_checkable
class Model(Protocol):
    """Answers requests. Write one yourself: an `id` and one async function.

    >>> import asyncio
    >>> class Parrot:
    ...     id = "parrot"
    ...     async def __call__(self, request: Request) -> Reply:
    ...         return Reply(request.user)
    >>> isinstance(Parrot(), Model)
    True
    >>> asyncio.run(Parrot()(Request.of("Repeat.", "Hello"))).text
    'Hello'
    """

    @property
    def id(self) -> str:
        """The model's name, with all settings that affect its answers. Part of every cache key."""
        ...

    async def __call__(self, request: Request, /) -> Reply:
        """Return the reply. Raises a `ModelError` if there is none."""
        ...


def innermost(model: Model) -> Model:
    """Return the model that others wrap, such as a cache; each of them has the next as `inner`."""
    while (inner := getattr(model, "inner", None)) is not None:
        model = inner
    return model


def media_of(model: Model) -> frozenset[str]:
    """Return the kinds of media that a model accepts, as its `media` attribute tells."""
    return frozenset(getattr(innermost(model), "media", ()))


def limiter_of(model: Model) -> Any:
    """Return the limiter of a model's endpoint; None for a model without an endpoint."""
    endpoint = getattr(innermost(model), "endpoint", None)
    return getattr(endpoint, "limiter", None)


def has_room(model: Model) -> bool:
    """Return whether a call to a model would be sent soon. True for a model without an endpoint."""
    return getattr(limiter_of(model), "has_room", True)


class LoggedCall(NamedTuple):
    """One question to a judge, or one call of the model under test, and its answer."""

    model: str  # the id of the model that was asked
    question: str  # the hash of the criterion's question; empty if several were asked at once
    messages: tuple[Message, ...]
    reply: str  # the text of the reply; for a failed call, the error
    source: Source | Literal["error"]
    role: Literal["judge", "model"] = "judge"
    # The name of the criterion that it was about; empty if that is not known, or it was about several.
    criterion: str = ""
    # The body that was sent last; None if the reply came from a cache or from a function.
    request: Mapping[str, Any] | None = None
    # What the call took, in tokens and dollars; None for a call that failed, and for a cost that is
    # not known.
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost: float | None = None


_current_log: ContextVar[list[LoggedCall] | None] = ContextVar("assay_call_log", default=None)


@contextmanager
def log_calls(*, wanted: bool = True) -> Generator[list[LoggedCall]]:
    """Log every call of a model inside the block, in the list that the block receives.

    With `wanted=False` the list stays empty, and calls go to the log of an outer block, if any.
    """
    calls: list[LoggedCall] = []
    with set_variable(_current_log, calls if wanted else _current_log.get()):
        yield calls


# The bodies of the calls that are being logged, in the order in which they were sent.
_sent_bodies: ContextVar[list[Mapping[str, Any]] | None] = ContextVar("assay_sent", default=None)


def note_sent_body(body: Mapping[str, Any]) -> None:
    """Keep the body of a call that is sent now, if calls are logged."""
    bodies = _sent_bodies.get()
    if bodies is not None:
        bodies.append(body)


async def ask_and_log(
    model: Model,
    request: Request,
    logged_messages: int = 0,
    *,
    role: Literal["judge", "model"] = "judge",
) -> Reply:
    """Return the model's reply, and log the call if there is a log.

    `logged_messages` is for a conversation: how many of the first messages were logged with an
    earlier call. They are left out of the log of this call.
    """
    log = _current_log.get()
    if log is None:
        return _check_types(await model(request), model)
    new_messages = request.messages[logged_messages:]
    messages = tuple(_describe_message(message) for message in new_messages)

    def make_record(reply: str, source: Source | Literal["error"]) -> LoggedCall:
        """Return the record of this call, with the text of its reply or its error."""
        return LoggedCall(
            model=redact(model.id),
            question=request.question,
            messages=messages,
            reply=reply,
            source=source,
            role=role,
            request=_shorten_media(bodies[-1]) if bodies else None,
        )

    bodies: list[Mapping[str, Any]] = []
    try:
        with set_variable(_sent_bodies, bodies):
            reply = _check_types(await model(request), model)
    except Exception as error:
        log.append(make_record(describe_error(error), "error"))
        raise
    lines = [reply.text] if reply.text else []
    lines += [f"{call.name}({call.arguments})" for call in reply.tool_calls]
    record = make_record("\n".join(lines), reply.source)
    log.append(
        record._replace(
            input_tokens=reply.usage.prompt,
            output_tokens=reply.usage.completion,
            cost=reply.cost,
        )
    )
    return reply


# A data URL, or a text without spaces that is too long for anything else.
_BASE64: Final = re.compile(r"(data:[^,]*,|(?=.{1000}))([A-Za-z0-9+/]+={0,2})")


def _shorten_media(value: Any) -> Any:
    """Return a body with the length and the hash of media in place of their content."""
    if isinstance(value, Mapping):
        items = cast("Mapping[str, Any]", value).items()
        return {name: _shorten_media(item) for name, item in items}
    if isinstance(value, list | tuple):
        return [_shorten_media(item) for item in cast("Sequence[Any]", value)]
    if isinstance(value, str):
        match = _BASE64.fullmatch(value)
        if match is not None:
            digest = hashlib.sha256(match[2].encode()).hexdigest()
            start = match[1] or ""
            return f"{start}({len(match[2]):,} characters of base64, sha256 {digest})"
    return value


def _check_types(reply: Reply, model: Model) -> Reply:
    """Return the reply of a model. Raise `NoReply` if a field of it has the wrong type."""
    problem = reply.find_wrong_type()
    if problem is not None:
        raise NoReply(f"{model.id} gave a reply that cannot be used: {problem}")
    return reply


def _describe_message(message: Message) -> Message:
    """Return a message as it is written in logs, with descriptions in place of media."""
    content = message["content"]
    if not isinstance(content, tuple):
        return message
    return {**message, "content": [_describe_medium(part) for part in parts_in(content)]}
