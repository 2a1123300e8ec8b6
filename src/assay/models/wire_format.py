"""Define what a wire format is: how endpoints of one kind are called and their replies read.

A wire format is a class with three methods: one writes a `Request` as the body of a call, one reads
the answer as a `Reply`, one reads its `Usage`. Each format has a module of its own: `openai_chat`,
`openai_responses`, `anthropic_messages` and `gemini_content`. `providers` says which provider uses
which format.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence, Set
from functools import cache
from importlib.resources import files
from typing import Any, ClassVar, NamedTuple, cast

from pydantic_core import from_json

from assay.media import Medium
from assay.models.model import (
    Reply,
    Request,
    Usage,
    has_further_fields,
    parts_in,
    schema_text,
)
from assay.types import Message
from assay.wording import format_value

HTTP_OK = 200
MAX_TOKENS = 1_000_000_000  # that a single call can use; an endpoint that reports more is wrong


class Payload(NamedTuple):
    """The body of a call, and the names of the optional request parameters in it."""

    body: dict[str, Any]
    optional_parameters: Set[str]  # for example {"schema", "temperature"}


class RawReply(NamedTuple):
    """The answer of an endpoint before a wire format reads it."""

    status: int
    headers: Mapping[str, str]  # looked up by lower-case names
    data: Any  # the body parsed as JSON; None if it is not JSON
    text: str  # the body of an error, or of an answer that is not JSON; otherwise empty

    @classmethod
    def from_body(cls, status: int, headers: Mapping[str, str], body: bytes) -> "RawReply":
        """Return the answer with its body parsed as JSON where possible."""
        data = _parse_json(body)
        if status == HTTP_OK and data is not None:
            return cls(status, headers, data, text="")
        return cls(status, headers, data, text=body.decode("utf-8", "replace"))


def _parse_json(body: bytes) -> Any:
    """Return the value of a JSON text; None if it is not JSON."""
    try:
        return from_json(body)
    except (ValueError, RecursionError):
        pass
    # Models under test write lone surrogates, which only the slower parser accepts.
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


class WireFormat(ABC):
    """Write requests and read replies as the endpoints of one kind expect them."""

    path: ClassVar[str]  # appended to the base URL of an endpoint
    sdk_method: ClassVar[str]  # the method that makes such a call, from the client of an SDK
    # The company that designed the format. Its rules estimate the tokens of media, and its price
    # list is used for its models in a cloud.
    maker: ClassVar[str]
    unsupported_media: ClassVar[frozenset[str]] = frozenset()  # kinds of media it cannot send

    def __init__(self, extra: Mapping[str, Any] | None = None) -> None:
        """`extra` holds further fields, which are sent with every call."""
        self.extra = dict(extra or {})

    def headers(self, key: str | None) -> dict[str, str]:
        """Return the headers that carry the key: by default a bearer token."""
        if not key:
            return {}
        return {"Authorization": f"Bearer {key}"}

    @abstractmethod
    def write_request(self, request: Request, model_name: str, omitted: Set[str]) -> Payload:
        """Return the body of a call to the model of this name.

        `omitted` names the optional parameters that the model does not accept: `schema`,
        `temperature`, `seed`, `logprobs`, `max_tokens`, `max_completion_tokens`. Raise `Refused` if
        the format cannot express the request.
        """

    @abstractmethod
    def read_reply(self, data: Mapping[str, Any]) -> Reply:
        """Return the reply in an answer, complete or not, with its usage.

        Raise `KeyError`, `IndexError`, `TypeError`, `AttributeError` or `ValueError` if the answer
        holds no reply, or if its usage is not numbers of tokens.
        """

    @abstractmethod
    def read_usage(self, data: Mapping[str, Any]) -> Usage:
        """Return the tokens that an answer reports; zeros where it reports none."""


# Helpers for writing requests.


def parameters_to_send(request: Request, omitted: Set[str], *supported: str) -> set[str]:
    """Return the optional parameters to send with a request.

    They are those that the request sets, the API has (`supported`), and the model accepts (not in
    `omitted`).
    """
    names = set[str]()
    for name in supported:
        if getattr(request, name) is not None and name not in omitted:
            names.add(name)
    return names


def prepare_messages(request: Request, omitted: Set[str]) -> tuple[Message, ...]:
    """Return the messages of a request, with its schema in words if it must be omitted.

    A message that describes the schema is added after the last system message. It stands early in
    the prompt, because the description is the same in many requests, and providers cache the
    beginning that prompts have in common.
    """
    if request.schema is None or "schema" not in omitted:
        return request.messages
    instructions = load_prompt("json").replace("{schema}", schema_text(request.schema))
    position = 0  # where the message is inserted
    for index, message in enumerate(request.messages):
        if message["role"] == "system":
            position = index + 1
    if position > 0:
        # Messages of one role are joined without a separator.
        instructions = f"\n\n{instructions}"
    schema_message = {"role": "system", "content": instructions}
    return (*request.messages[:position], schema_message, *request.messages[position:])


@cache
def load_prompt(name: str) -> str:
    """Return the text of a file in `prompts/`."""
    file = files("assay.models").joinpath("prompts", f"{name}.md")
    return file.read_text(encoding="utf-8").strip()


def merge_neighbours(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Join neighbouring messages of the same role into one, with nothing between their contents.

    A message with further fields, such as tool calls, is not joined to another one. Nor is a
    message whose content is already in the format of the endpoint.
    """
    merged: list[dict[str, Any]] = []
    open_role: str | None = None  # the role of the last message, if another can be joined to it
    for message in messages:
        role = message["role"]
        content = message["content"]
        can_be_joined = isinstance(content, str | tuple) and not has_further_fields(message)
        if can_be_joined and role == open_role:
            merged[-1]["content"] = _join_contents(merged[-1]["content"], content)
        else:
            merged.append(dict(message))
            open_role = role if can_be_joined else None
    return merged


def _join_contents(first: Any, second: Any) -> Any:
    """Return two contents, each a text or a tuple of texts and media, as one."""
    if isinstance(first, str) and isinstance(second, str):
        return first + second
    return (*parts_in(first), *parts_in(second))


def write_parts(message: Message, write_part: Callable[[str | Medium], dict[str, Any]]) -> Message:
    """Return the message with each text and medium of its content written by `write_part`.

    Only a tuple is written so. A message whose content is a single text, or a list in the format of
    the endpoint, is returned unchanged.
    """
    content = message.get("content")
    if not isinstance(content, tuple):
        return message
    parts: list[Any] = []
    for part in cast("tuple[Any, ...]", content):
        if isinstance(part, str | Medium):
            parts.append(write_part(part))
        else:
            parts.append(part)
    return {**message, "content": parts}


# Helpers for reading replies.


def get_object(data: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return the object in this field; an empty one if the field is missing or null."""
    return data.get(name) or {}


def get_count(data: Mapping[str, Any], name: str) -> int:
    """Return the number of tokens in this field; 0 if the field is missing or null.

    Raise `ValueError` if it is not a whole number from 0 to `MAX_TOKENS`.
    """
    value: object = data.get(name)
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{name} is {format_value(value)}, which is not a number of tokens")
    # The comparison is false for NaN. Some servers write whole numbers as floats, such as 12.0.
    if 0 <= value <= MAX_TOKENS and value == int(value):
        return int(value)
    raise ValueError(f"{name} is {format_value(value)}, which is not a number of tokens")
