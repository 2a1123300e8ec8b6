"""A model is one async function: it takes a `Request` and returns a `Reply`.

    Request ─▶ cache ─▶ single flight ─▶ budget ─▶ limits, retries ─▶ wire ─▶ Reply

Everything between is such a function too, around another one. A model that cannot answer raises a
`ModelError`; it never returns an empty or made-up reply.
"""

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import groupby
from json import dumps
from operator import itemgetter
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, cast, runtime_checkable

from pydantic import BaseModel

from assay.concurrency import setting
from assay.messages import ToolCall
from assay.redaction import redacted
from assay.types import Message
from assay.wording import described

# What answered: the model, a cache, or the model for an equal request that was under way.
Source: TypeAlias = Literal["model", "cache", "flight"]


class Tool(NamedTuple):
    """A function that a model may ask to have called; `parameters` is the JSON schema of its arguments, as text."""

    name: str
    description: str
    parameters: str


@dataclass(frozen=True)
class Request:
    """What a model is asked.

    Neighbouring messages of one role are one message on the wire, with nothing put between, so a prompt can be cut where
    its shared part ends. A content is a text, a tuple of texts and `Medium`s, or parts as the endpoint has them.

    >>> request = Request.of("You judge.", "<response>4</response>", "Is it even?")
    >>> request.system, request.user, request.shared
    ('You judge.', '<response>4</response>Is it even?', 2)
    """

    messages: tuple[Message, ...]  # mappings with `role` and `content`
    schema: type[BaseModel] | None = None  # what the reply is read as; None leaves it a text
    # What is wrong with a read reply that its schema cannot say: asked about once more, then raised as `OffMenu`.
    check: Callable[[Any], str | None] | None = field(default=None, compare=False)
    shared: int = 0  # how many leading messages other requests start with too; a cache breakpoint goes after them
    temperature: float | None = (
        0.0  # None leaves it to the endpoint; left out where a model refuses it
    )
    max_tokens: int | None = (
        None  # most tokens to write, thoughts included; None leaves it to the endpoint
    )
    seed: int | None = None
    logprobs: int | None = None  # how many alternatives to give with each token
    sample: int = 0  # which of several answers to the same question this is. Each is asked, and cached, for itself
    tools: tuple[
        Tool, ...
    ] = ()  # what it may ask to have called, by `tool_calls`; beside a schema, none just now
    verbatim: bool = False  # for a model under test: messages go out one by one, and a reply may be cut off or declined
    # To find verdicts in a cache by: the hash of the criterion, and the prompt's name and version (`per_criterion/2`).
    question: str = field(default="", compare=False)
    prompt: str = field(default="", compare=False)

    @classmethod
    def of(cls, system: str, *user: str, schema: type[BaseModel] | None = None) -> "Request":
        """One question: a system prompt and the parts of a user prompt, all but the last shared."""
        parts = tuple({"role": "user", "content": part} for part in user)
        return cls(({"role": "system", "content": system}, *parts), schema, shared=len(parts))

    @property
    def system(self) -> str:
        """The text of the system messages."""
        return self._text_of("system")

    @property
    def user(self) -> str:
        """The text of the user messages."""
        return self._text_of("user")

    def _text_of(self, role: str) -> str:
        said = [
            parts_in(message["content"]) for message in self.messages if message["role"] == role
        ]
        return "".join(part for parts in said for part in parts if isinstance(part, str))

    @cached_property
    def content(self) -> str:
        """All that decides the answer, as one text: equal requests have equal contents."""
        settings = (
            f"{self.temperature} {self.max_tokens} {self.seed} {self.logprobs} {self.sample} "
        )
        parts = [settings, "" if self.schema is None else schema_text(self.schema)]
        if self.tools or self.verbatim:
            # Only then, so that what was kept before there were any is found under its old key.
            return "".join(
                [*parts, dumps([self.verbatim, self.tools, self.messages], default=_told)]
            )
        # As they go over the wire: where a prompt is cut decides nothing.
        for role, said in groupby(self.messages, itemgetter("role")):
            contents: list[Any] = [
                message["content"] if len(message) < 3 else dict(message) for message in said
            ]
            plain = {*map(type, contents)} == {str}
            text = "".join(contents) if plain else dumps(contents, default=_told)
            # Each part has its length before it, so that no part can pass for two.
            parts.append(f"{role} {plain:d} {len(text)} {text}")
        return "".join(parts)


def parts_in(content: Any) -> tuple[Any, ...]:
    """The texts and media of a message's content, which may be one text."""
    return cast("tuple[Any, ...]", content) if isinstance(content, tuple) else (content,)


def _told(medium: Any) -> Any:
    """A `Medium` as a key or a log has it; what is none as it is."""
    return (
        {"type": "text", "text": medium}
        if isinstance(medium, str)
        else getattr(medium, "told", medium)
    )


@cache
def json_schema(model: type[BaseModel]) -> dict[str, Any]:
    """The JSON schema of a reply model in the strict form of providers: every field is required, and no other allowed."""
    schema = model.model_json_schema()
    # Descriptions of fields go along; docstrings of classes do not, for they are written for programmers.
    for node in (schema, *schema.get("$defs", {}).values()):
        node.pop("description", None)
    return _strict(schema)


@cache
def schema_text(model: type[BaseModel]) -> str:
    """The schema as text: what a cache key and a prompt hold."""
    return dumps(json_schema(model))


# Refused by strict endpoints, or noise. What they say is checked when the reply is read.
_UNSUPPORTED = ("default", "title", "minItems", "maxItems", "minLength", "maxLength")


def _strict(node: Any) -> Any:
    if isinstance(node, list):
        return [_strict(item) for item in cast("list[Any]", node)]
    if not isinstance(node, dict):
        return node
    strict: dict[str, Any] = {}
    for name, value in cast("dict[str, Any]", node).items():
        if name in ("properties", "$defs"):
            # The keys here are names of fields, not words of the schema.
            strict[name] = {key: _strict(child) for key, child in value.items()}
        elif name not in _UNSUPPORTED or not isinstance(value, str | int):
            strict[name] = _strict(value)
    if "properties" in strict:
        strict |= {"required": list(strict["properties"]), "additionalProperties": False}
    return strict


class Usage(NamedTuple):
    """Tokens of one or more calls. They add up."""

    prompt: int = 0  # input tokens, those from the provider's cache included
    cached: int = 0  # of these, the tokens that came from the provider's cache
    completion: int = 0  # output tokens, thoughts included
    stored: int = 0  # of the input tokens, those that went into the provider's cache, where that has its price

    def __add__(self, other: object) -> "Usage":
        if not isinstance(other, Usage):
            return NotImplemented
        return Usage(self[0] + other[0], self[1] + other[1], self[2] + other[2], self[3] + other[3])


NOTHING = Usage()


@dataclass(frozen=True)
class Price:
    """Dollars for a million tokens; input `cached` by the provider, or `stored` there, costs as any when None.

    >>> Price(input=2.0, cached=0.5, output=8.0).of(Usage(prompt=1000, cached=800, completion=100))
    0.0016
    """

    input: float
    output: float
    cached: float | None = None
    stored: float | None = None

    def of(self, usage: Usage) -> float:
        """What so many tokens cost, in dollars."""
        cached = self.input if self.cached is None else self.cached
        stored = self.input if self.stored is None else self.stored
        fresh = usage.prompt - usage.cached - usage.stored
        total = fresh * self.input + usage.cached * cached + usage.stored * stored
        return (total + usage.completion * self.output) / 1_000_000


FREE = Price(0.0, 0.0)


class Token(NamedTuple):
    """A written token and the alternatives to it, each with its log-probability."""

    text: str
    logprob: float
    alternatives: Mapping[str, float] = {}


class Reply(NamedTuple):
    """What a model said. There is always one whole answer in it; anything else was an error."""

    text: str  # as it was written, thoughts included
    value: Any = None  # the text read as the request's schema; None when it has none
    usage: Usage = (
        NOTHING  # tokens of every call it took, also of one whose reply could not be read
    )
    cost: float | None = (
        None  # what those calls cost, in dollars; None when the price is not known. 0 from a cache
    )
    model: str = ""  # the id that the endpoint resolved the model's name to
    finish_reason: str = "stop"
    logprobs: tuple[Token, ...] | None = (
        None  # one a token, where they were asked for and the endpoint has them
    )
    source: Source = "model"
    tool_calls: tuple[ToolCall, ...] = ()  # what it asks to have called, of the request's `tools`


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
        """The name of the model with everything that can change its answers: part of every cache key."""
        ...

    async def __call__(self, request: Request, /) -> Reply:
        """The reply. Raises a `ModelError` when there is none."""
        ...


def innermost(model: Model) -> Model:
    """The model at the end, behind whatever is put in front of it as its `inner`."""
    while (inner := getattr(model, "inner", None)) is not None:
        model = inner
    return model


def media_of(model: Model) -> frozenset[str]:
    """The kinds of media that a model takes; none of one that does not say so by its `media`."""
    return frozenset(getattr(innermost(model), "media", ()))


def limiter_of(model: Model) -> Any:
    """The limiter of a model's endpoint; None for a model without one."""
    return getattr(getattr(innermost(model), "endpoint", None), "limiter", None)


def has_room(model: Model) -> bool:
    """Whether a call to a model would go out soon; True of a model without an endpoint of ours."""
    return getattr(limiter_of(model), "has_room", True)


class LoggedCall(NamedTuple):
    """One question to a judge and its answer."""

    judge: str  # the model's id
    question: str  # the hash of the criterion's question; empty when several were asked at once
    messages: tuple[Message, ...]
    reply: str  # what it said; of a call that came to nothing, why
    source: Source | Literal["error"]


_LOG: ContextVar[list[LoggedCall] | None] = ContextVar("assay_judge_log", default=None)


@contextmanager
def judge_log(*, wanted: bool = True) -> Generator[list[LoggedCall]]:
    """Log word for word every call of a judge inside; the list grows as they come, unless they are not `wanted`."""
    calls: list[LoggedCall] = []
    with setting(_LOG, calls if wanted else _LOG.get()):
        yield calls


async def ask_judge(model: Model, request: Request, logged: int = 0) -> Reply:
    """The model's reply, logged where there is a log, but for so many messages that were logged with the call before."""
    log = _LOG.get()
    if log is None:
        return await model(request)
    messages = (
        {**each, "content": [*map(_told, parts_in(each["content"]))]}
        if type(each["content"]) is tuple
        else each
        for each in request.messages[logged:]
    )
    asked = (redacted(model.id), request.question, tuple(messages))
    try:
        reply = await model(request)
    except Exception as error:
        log.append(LoggedCall(*asked, described(error), "error"))
        raise
    calls = [f"{call.name}({call.arguments})" for call in reply.tool_calls]
    log.append(LoggedCall(*asked, "\n".join(filter(None, [reply.text, *calls])), reply.source))
    return reply
