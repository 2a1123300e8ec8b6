"""Write requests and read replies in the formats of providers: OpenAI, which many speak, Anthropic and Gemini."""

import json
import re
from collections.abc import Callable, Mapping, Sequence, Set
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple, TypeAlias, cast

from pydantic import BaseModel
from pydantic_core import from_json

from assay.errors import Refused, Truncated, Unreadable
from assay.media import Medium
from assay.messages import ToolCall, tool_calls
from assay.models.model import Reply, Request, Token, Usage, json_schema, parts_in, schema_text
from assay.types import Message
from assay.wording import short_repr

NO_FIELDS: Mapping[str, Any] = {}
Parameters: TypeAlias = Mapping[
    str, Callable[[Any], dict[str, Any]]
]  # how each optional parameter is written


class Payload(NamedTuple):
    """A request as an endpoint reads it, and which of its optional parameters it uses."""

    body: dict[str, Any]
    used: Set[str]


class RawReply(NamedTuple):
    """What an endpoint sent back, before it is read as a `Reply`."""

    status: int
    headers: Mapping[str, str]  # found by their names in lower case
    data: Any  # the body as JSON; None when it is none
    text: str  # the body of an answer that is no success, or no JSON; else empty

    @classmethod
    def of(cls, status: int, headers: Mapping[str, str], body: bytes) -> "RawReply":
        """A body that was read."""
        data = None
        # Half a surrogate pair, which models under test write, is read only by the slower one.
        for load in (from_json, json.loads):
            try:
                data = load(body)
                break
            except (ValueError, RecursionError):
                continue
        is_plain = status == 200 and data is not None
        return cls(status, headers, data, "" if is_plain else body.decode("utf-8", "replace"))


@cache
def _response_format(schema: type[BaseModel]) -> dict[str, Any]:
    """Made once for each schema: a provider compiles a new one, and allows few a minute."""
    described = {"name": schema.__name__, "strict": True, "schema": json_schema(schema)}
    return {"response_format": {"type": "json_schema", "json_schema": described}}


_PARAMETERS: Parameters = {
    "schema": _response_format,
    "temperature": lambda temperature: {"temperature": temperature},
    "seed": lambda seed: {"seed": seed},
    "logprobs": lambda alternatives: {"logprobs": True, "top_logprobs": alternatives},
}


class OpenAIFormat:
    """Writes payloads and reads replies as chat completions; the formats of other providers replace what they do otherwise."""

    path = "/chat/completions"  # added to the endpoint's address
    maker = "openai"  # of the models that this format was made for
    text_type = "text"  # what a part that is a text is called

    def __init__(self, *, limit_name: str = "max_tokens", **extra: Any) -> None:
        """`limit_name` is what this endpoint calls the token limit; `extra` goes with every call."""
        other = "max_tokens" if limit_name == "max_completion_tokens" else "max_completion_tokens"
        self._limit_names = (limit_name, other)
        self.extra = extra

    def headers(self, key: str | None) -> dict[str, str]:
        """The headers of every call: a bearer token, where there is a key."""
        return {"Authorization": f"Bearer {key}"} if key else {}

    def payload(self, request: Request, name: str, left_out: Set[str]) -> Payload:
        """The request for the model of this name, without the parameters that it does not take."""
        body: dict[str, Any] = {
            "model": name,
            "messages": self.turns(request, left_out),
            **self.extra,
        }
        if request.tools:
            functions = (
                tool._asdict() | {"parameters": json.loads(tool.parameters)}
                for tool in request.tools
            )
            body["tools"] = [{"type": "function", "function": each} for each in functions]
            if request.schema is not None:
                # Named all the same: providers cache what a prompt begins with, and these come first.
                body["tool_choice"] = "none"
        fields, used = optional(request, left_out, _PARAMETERS)
        limit = next((known for known in self._limit_names if known not in left_out), None)
        if request.max_tokens is not None and limit is not None:
            return Payload(body | fields | {limit: request.max_tokens}, {*used, limit})
        return Payload(body | fields, used)

    def turns(self, request: Request, left_out: Set[str]) -> list[Message]:
        """The messages of a request as they go out: neighbours of one role as one, but for a model under test."""
        messages = messages_for(request, left_out)
        return [
            self.written(message)
            for message in (messages if request.verbatim else joined(messages))
        ]

    def written(self, message: Message) -> Message:
        """A message with its texts and media as this endpoint has them; one without media as it is."""
        if not isinstance(message.get("content"), tuple):
            return message
        kind = self.text_type
        parts = (
            ({"type": kind, "text": each} if isinstance(each, str) else each)
            for each in message["content"]
        )
        return {
            **message,
            "content": [self.medium(each) if isinstance(each, Medium) else each for each in parts],
        }

    def medium(self, medium: Medium) -> dict[str, Any]:
        """An image, an audio clip or a PDF as a part of a message."""
        if medium.kind == "image":
            return {"type": "image_url", "image_url": {"url": medium.url}}
        if medium.kind == "file":
            return {
                "type": "file",
                "file": {"filename": f"{medium.address}.pdf", "file_data": medium.url},
            }
        format = {"audio/wav": "wav", "audio/mpeg": "mp3"}.get(medium.media_type)
        if format is None:
            raise Refused(
                f"{medium.address} is {medium.media_type}, and this endpoint takes wav and mp3: convert it"
            )
        return {"type": "input_audio", "input_audio": {"data": medium.base64, "format": format}}

    def reply(self, data: Mapping[str, Any]) -> Reply:
        """The first choice of an answer, with its usage, whole or not. `KeyError` when there is none."""
        choice = data["choices"][0]
        message = choice["message"]
        refusal = message.get("refusal")
        usage = data.get("usage") or NO_FIELDS
        details = usage.get("prompt_tokens_details") or NO_FIELDS
        read, written = usage.get("prompt_tokens") or 0, usage.get("completion_tokens") or 0
        cached = details.get("cached_tokens") or usage.get("prompt_cache_hit_tokens") or 0
        tokens = (choice.get("logprobs") or NO_FIELDS).get("content") or ()
        return Reply(
            refusal or text_of(message.get("content")),
            usage=Usage(read, cached, written, details.get("cache_write_tokens") or 0),
            model=data.get("model") or "",
            finish_reason="refusal" if refusal else _ended(choice.get("finish_reason")),
            logprobs=_tokens(tokens, [token.get("top_logprobs") for token in tokens], "logprob"),
            tool_calls=tuple(tool_calls(message)) if message.get("tool_calls") else (),
        )


class ResponsesFormat(OpenAIFormat):
    """Writes requests and reads replies as OpenAI's Responses API has them, which knows no seeds and no audio."""

    path, text_type = "/responses", "input_text"

    def payload(self, request: Request, name: str, left_out: Set[str]) -> Payload:
        if request.tools:
            raise Refused(
                f"tools are not offered to {name} through the Responses API: leave `api=responses` out"
            )
        body, used = super().payload(request, name, left_out | {"seed", "logprobs"})
        turns, schema = body.pop("messages"), body.pop("response_format", None)
        limit = next((body.pop(each) for each in self._limit_names if each in body), None)
        more: dict[str, Any] = (
            {} if limit is None else {"max_output_tokens": max(16, limit)}
        )  # which is the least
        if schema is not None:
            more["text"] = {"format": {"type": "json_schema", **schema["json_schema"]}}
        return Payload({**body, "input": turns, "store": False, **more}, used)

    def medium(self, medium: Medium) -> dict[str, Any]:
        if medium.kind == "image":
            return {"type": "input_image", "image_url": medium.url, "detail": "auto"}
        return {"type": "input_file", "filename": f"{medium.address}.pdf", "file_data": medium.url}

    def reply(self, data: Mapping[str, Any]) -> Reply:
        parts = [
            part for item in data["output"] if item["type"] == "message" for part in item["content"]
        ]
        message = {
            "content": parts,
            "refusal": "".join(part.get("refusal") or "" for part in parts),
        }
        ended = (data.get("incomplete_details") or NO_FIELDS).get("reason") or data.get("status")
        usage = {
            name.replace("input", "prompt").replace("output", "completion"): n
            for name, n in (data.get("usage") or NO_FIELDS).items()
        }
        return super().reply(
            {**data, "usage": usage, "choices": [{"message": message, "finish_reason": ended}]}
        )


LONGEST_REPLY = (
    4096  # tokens to write when the request names no limit; this endpoint insists on one
)
_TOOL = "reply"
_ANTHROPIC_PARAMETERS: Parameters = {
    "schema": lambda schema: {
        "tools": [
            {"name": _TOOL, "description": "Give the reply.", "input_schema": json_schema(schema)}
        ],
        "tool_choice": {"type": "tool", "name": _TOOL},
    },
    "temperature": _PARAMETERS["temperature"],
}


class AnthropicFormat(OpenAIFormat):
    """Writes requests and reads replies as Anthropic has them: a tool in place of a schema, and a cache breakpoint."""

    path, maker = "/messages", "anthropic"

    def headers(self, key: str | None) -> dict[str, str]:
        given = {"anthropic-version": "2023-06-01"}
        return given | {"x-api-key": key} if key else given

    def payload(self, request: Request, name: str, left_out: Set[str]) -> Payload:
        messages = messages_for(request, left_out)
        shared = request.shared + len(messages) - len(request.messages) if request.shared else 0
        turns: list[dict[str, Any]] = []
        system: list[Any] = []
        for number, message in enumerate(messages, start=1):
            role, blocks = _blocks(self.written(message), is_breakpoint=number == shared)
            if role == "system":
                system += blocks
            elif turns and turns[-1]["role"] == role:
                turns[-1]["content"] += blocks
            else:
                turns.append({"role": role, "content": blocks})
        body = {
            "model": name,
            "max_tokens": request.max_tokens or LONGEST_REPLY,
            "messages": turns,
            **self.extra,
        }
        if system:
            body["system"] = system
        if any(tool.name == _TOOL for tool in request.tools):
            raise Refused(f"a tool is called {_TOOL!r}, which has a meaning here: rename it")
        tools: list[Any] = [
            {
                "name": tool.name,
                "description": tool.description,
                "input_schema": json.loads(tool.parameters),
            }
            for tool in request.tools
        ]
        fields, used = optional(request, left_out, _ANTHROPIC_PARAMETERS)
        # The reply's own tool comes last: providers cache what a prompt begins with.
        tools += fields.pop("tools", ())
        return Payload(body | fields | ({"tools": tools} if tools else {}), used)

    def medium(self, medium: Medium) -> dict[str, Any]:
        source = {"type": "base64", "media_type": medium.media_type, "data": medium.base64}
        return {"type": "image" if medium.kind == "image" else "document", "source": source}

    def reply(self, data: Mapping[str, Any]) -> Reply:
        """What was written: the forced tool's input as JSON, else the text. Thoughts are left out."""
        parts = data["content"]
        used = (part for part in parts if part["type"] == "tool_use")
        calls = [
            ToolCall(part.get("name", _TOOL), json.dumps(part["input"]), part.get("id") or "")
            for part in used
        ]
        forced = [call.arguments for call in calls if call.name == _TOOL]
        stop = _ended(data.get("stop_reason"))
        usage = data.get("usage") or NO_FIELDS
        cached, stored = (
            usage.get("cache_read_input_tokens") or 0,
            usage.get("cache_creation_input_tokens") or 0,
        )
        read, written = usage.get("input_tokens") or 0, usage.get("output_tokens") or 0
        return Reply(
            forced[-1]
            if forced
            else "".join(part["text"] for part in parts if part["type"] == "text"),
            usage=Usage(read + cached + stored, cached, written, stored),
            model=data.get("model") or "",
            finish_reason="content_filter" if stop == "refusal" else stop,
            tool_calls=tuple(call for call in calls if call.name != _TOOL),
        )


def _blocks(message: Message, *, is_breakpoint: bool) -> tuple[str, list[Any]]:
    """The role and the content blocks of a message; what a tool replied is said by the user here."""
    role, content = message["role"], message.get("content")
    blocks: list[Any] = (
        [{"type": "text", "text": content}] if isinstance(content, str) else list(content or ())
    )
    if role == "tool":
        role, blocks = (
            "user",
            [{"type": "tool_result", "tool_use_id": message["tool_call_id"], "content": blocks}],
        )
    elif len(message) > 2:
        calls = [
            {"type": "tool_use", "id": c.id, "name": c.name, "input": _input(c)}
            for c in tool_calls(message)
        ]
        blocks = [block for block in blocks if block.get("text") != ""] + calls
    if is_breakpoint and blocks and blocks[-1].get("type") in ("text", "tool_result"):
        blocks[-1] = {**blocks[-1], "cache_control": {"type": "ephemeral"}}
    return role, blocks


def _input(call: ToolCall) -> Any:
    """Its arguments; this endpoint takes an object only, and a broken one was answered as such."""
    try:
        given = json.loads(call.arguments)
    except ValueError:
        return {}
    return cast("Any", given) if isinstance(given, dict) else {}


_GEMINI_PARAMETERS: Parameters = {
    **_PARAMETERS,
    "schema": lambda schema: {
        "response_mime_type": "application/json",
        "response_json_schema": json_schema(schema),
    },
    "logprobs": lambda alternatives: {"response_logprobs": True, "logprobs": alternatives},
}


class GeminiFormat(OpenAIFormat):
    """Writes the arguments of `generate_content` and reads what it returns; the client of `google-genai` knows path and headers."""

    maker = "gemini"

    def __init__(self, *, timeout: float, **extra: Any) -> None:
        """`timeout` is seconds for one attempt; `extra` goes into the config of every call."""
        options = {"timeout": int(timeout * 1000), "retry_options": {"attempts": 1}}
        super().__init__()
        self.extra = {"http_options": options, **extra}

    def payload(self, request: Request, name: str, left_out: Set[str]) -> Payload:
        if request.tools:
            raise _unsupported(
                "tools are not offered to a model through a client of google-genai", name
            )
        config, contents = dict(self.extra), list[dict[str, Any]]()
        for message in self.turns(request, left_out):
            role, parts = message["role"], _parts(message, name)
            if role == "system":
                config["system_instruction"] = [*config.get("system_instruction", ()), *parts]
            elif role in ("user", "assistant"):
                contents.append({"role": "user" if role == "user" else "model", "parts": parts})
            else:
                given = (
                    f"a message has the role {role!r}, which a client of google-genai does not take"
                )
                raise _unsupported(given, name)
        if request.max_tokens is not None:
            config["max_output_tokens"] = request.max_tokens
        fields, used = optional(request, left_out, _GEMINI_PARAMETERS)
        return Payload({"model": name, "contents": contents, "config": config | fields}, used)

    def medium(self, medium: Medium) -> dict[str, Any]:
        return {"inline_data": {"mime_type": medium.media_type, "data": medium.data}}

    def reply(self, data: Mapping[str, Any]) -> Reply:
        """The first candidate of an answer. Thoughts are left out."""
        blocked = (data.get("prompt_feedback") or NO_FIELDS).get("block_reason") and not data.get(
            "candidates"
        )
        found: Mapping[str, Any] = {"finish_reason": "SAFETY"} if blocked else data["candidates"][0]
        parts: Sequence[Mapping[str, Any]] = (found.get("content") or NO_FIELDS).get("parts") or ()
        reason, likely = found.get("finish_reason"), found.get("logprobs_result") or NO_FIELDS
        chosen = likely.get("chosen_candidates") or ()
        top: Sequence[Any] = likely.get("top_candidates") or [NO_FIELDS] * len(chosen)
        usage = data.get("usage_metadata") or NO_FIELDS
        read, cached = (
            usage.get("prompt_token_count") or 0,
            usage.get("cached_content_token_count") or 0,
        )
        written = (usage.get("candidates_token_count") or 0) + (
            usage.get("thoughts_token_count") or 0
        )
        return Reply(
            "".join(part.get("text") or "" for part in parts if not part.get("thought")),
            usage=Usage(read, cached, written),
            model=data.get("model_version") or "",
            finish_reason=_ended(getattr(reason, "value", reason)),
            logprobs=_tokens(
                chosen, [each.get("candidates") for each in top if chosen], "log_probability"
            ),
        )


def _unsupported(what: str, name: str) -> Refused:
    return Refused(f"{what}: name the model instead, as 'gemini/{name}'")


def _parts(message: Message, name: str) -> list[dict[str, Any]]:
    content: Any = message.get("content")
    parts: Any = [{"type": "text", "text": content}] if isinstance(content, str) else content or ()
    for part in parts:
        if part.get("type") != "text" and "inline_data" not in part:
            held = f"a message holds {short_repr(part)}, and a client of google-genai is sent texts and media only"
            raise _unsupported(held, name)
    return [part if "inline_data" in part else {"text": part["text"]} for part in parts]


def _tokens(chosen: Sequence[Any], others: Sequence[Any], field: str) -> tuple[Token, ...] | None:
    """The tokens of a reply with the others that were likely, by the field of a log-probability; None when none came."""
    likely = [{other["token"]: other[field] for other in each or ()} for each in others]
    return (
        tuple(
            Token(one["token"], one[field], known)
            for one, known in zip(chosen, likely, strict=True)
        )
        or None
    )


def optional(request: Request, left_out: Set[str], parameters: Parameters) -> Payload:
    """The optional parameters that a request sets and a model takes, each written as a provider has it."""
    wanted = [
        name for name in parameters if getattr(request, name) is not None and name not in left_out
    ]
    fields = {
        field: value
        for name in wanted
        for field, value in parameters[name](getattr(request, name)).items()
    }
    return Payload(fields, set(wanted))


@cache
def prompt(name: str) -> str:
    """The words in `prompts/`."""
    return (
        files("assay.models").joinpath("prompts", f"{name}.md").read_text(encoding="utf-8").strip()
    )


def messages_for(request: Request, left_out: Set[str]) -> tuple[Message, ...]:
    """The messages, with the schema said in the system prompt where the endpoint takes none."""
    if request.schema is None or "schema" not in left_out:
        return request.messages
    # There it is the same for every request of a kind, so what they share stays shared.
    said = prompt("json").replace("{schema}", schema_text(request.schema))
    last = max(
        (n for n, message in enumerate(request.messages) if message["role"] == "system"), default=-1
    )
    before, after = request.messages[: last + 1], request.messages[last + 1 :]
    return (*before, {"role": "system", "content": f"\n\n{said}" if before else said}, *after)


def joined(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Neighbours of one role as one message, with nothing between them; those with more than text and media stay."""
    result: list[dict[str, Any]] = []
    open_role = (
        None  # the role of the last message, where that is a text to which more can be added
    )
    for message in messages:
        role, content = message["role"], message["content"]
        is_text = isinstance(content, str | tuple) and len(message) == 2
        if is_text and role == open_role:
            before: Any = result[-1]["content"]
            plain = isinstance(before, str) and isinstance(content, str)
            result[-1]["content"] = (
                f"{before}{content}" if plain else (*parts_in(before), *parts_in(content))
            )
        else:
            result.append(dict(message))
            open_role = role if is_text else None
    return result


def text_of(content: Any) -> str:
    """A message's content as text: a text, or the texts among its parts."""
    if isinstance(content, list):
        return "".join(
            str(part.get("text") or "") for part in cast("list[Mapping[str, Any]]", content)
        )
    return content if isinstance(content, str) else ""


# How a reply ends at the limit of tokens, in the words of various endpoints.
_CUT = frozenset(
    {
        "length",
        "max_tokens",
        "max_output_tokens",
        "model_length",
        "max_length",
        "model_context_window_exceeded",
    }
)
_PLAIN = frozenset(
    {"end_turn", "stop_sequence", "tool_use", "finish_reason_unspecified"}
)  # other words for `stop`


def _ended(reason: Any) -> str:
    word = str(reason or "stop").lower()
    return "length" if word in _CUT else "stop" if word in _PLAIN else word


# How a reply ends that is all there, in the words of various endpoints, and parts of the words for one that was held back.
_WHOLE = _PLAIN | {
    "stop",
    "eos",
    "eos_token",
    "end_of_turn",
    "complete",
    "completed",
    "tool_calls",
    "function_call",
}
_FILTERED = ("filter", "safety", "recitation", "blocklist", "prohibited", "spii", "sensitive")


def whole(reply: Reply, where: str, request: Request) -> Reply:
    """The reply if it is a whole one; anything else is an error and no answer."""
    reason = reply.finish_reason.lower()
    if request.max_tokens == 1 and request.logprobs is not None and request.schema is None:
        # One token was asked for, for its likelihood, and came: nothing is cut off.
        return reply._replace(finish_reason="stop")
    if reason in _WHOLE:
        return reply
    if reason != "length" and any(word in reason for word in _FILTERED):
        raise Refused(f"{where} does not answer: its content filter stopped the reply")
    if request.verbatim:
        return reply
    if reason == "refusal":
        raise Unreadable(f"{where} declines to answer: {reply.text[:200]!r}")
    end = f"…{reply.text[-60:]!r}"
    if reason == "length":
        stopped = f"{where} stopped in the middle after {reply.usage.completion} tokens: {end}"
        raise Truncated(f"{stopped}; allow more max_tokens, or ask for a shorter reason")
    ended = f"{where} ended its reply with the reason {reply.finish_reason!r:.80}"
    raise Truncated(f"{ended}, so it may not be whole: {end}; see the endpoint's log")


# How an endpoint names a parameter that it complains about.
_NAMED = {
    "schema": re.compile(r"response_format|json_schema|structured|grammar|tool_choice|\btools?\b"),
    **{
        name: re.compile(name)
        for name in ("temperature", "max_completion_tokens", "max_tokens", "logprobs")
    },
    "seed": re.compile(r"\bseed\b"),
}
_VAGUE = frozenset(
    {400, 404, 405, 415, 422, 501}
)  # a complaint that names nothing may still be about the schema
_REASONING = re.compile(r"(?:gpt-(?:[5-9]|\d\d)|o\d)(?!\w)(?!-chat)", re.IGNORECASE)


def refused_by_name(name: str) -> frozenset[str]:
    """The parameters that a model of this name refuses: OpenAI's reasoning models take no temperature."""
    # They know the limit of tokens by its newer name, `max_completion_tokens`.
    return frozenset(
        {"temperature", "max_tokens"} if _REASONING.match(name.rpartition("/")[2]) else ()
    )


def is_named(parameter: str, complaint: str) -> bool:
    """Whether a complaint says which parameter of a request it is about."""
    return _NAMED[parameter].search(complaint.lower()) is not None


def unsupported(status: int | None, complaint: str, used: Set[str]) -> str | None:
    """The parameter to try without, after such a complaint; None when there is none."""
    if status != 500 and status not in _VAGUE:
        return None
    named = (
        parameter for parameter in _NAMED if parameter in used and is_named(parameter, complaint)
    )
    return next(named, "schema" if status in _VAGUE and "schema" in used else None)
