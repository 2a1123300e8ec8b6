"""Call endpoints through OpenAI's chat completions.

Most providers and inference servers accept this format.
"""

import json
from collections.abc import Mapping, Set
from typing import Any, cast

from pydantic import BaseModel

from assay.errors import Refused
from assay.media import Medium
from assay.messages import read_tool_calls
from assay.models.finish_reasons import normalize_finish_reason
from assay.models.model import Reply, Request, Token, Tool, Usage, json_schema
from assay.models.wire_format import (
    Payload,
    WireFormat,
    get_count,
    get_object,
    merge_neighbours,
    parameters_to_send,
    prepare_messages,
    write_parts,
)
from assay.types import Message

OLD_TOKEN_LIMIT = "max_tokens"  # the name of the token limit that most endpoints accept
NEW_TOKEN_LIMIT = "max_completion_tokens"  # the name that replaced it at OpenAI
# The names of audio formats, by media type.
AUDIO_FORMATS = {
    "audio/wav": "wav",
    "audio/mpeg": "mp3",
}


class OpenAIChatFormat(WireFormat):
    """Write requests and read replies as chat completions."""

    path = "/chat/completions"
    sdk_method = "chat.completions.create"
    maker = "openai"

    def __init__(
        self, extra: Mapping[str, Any] | None = None, *, token_limit_name: str = OLD_TOKEN_LIMIT
    ) -> None:
        """`token_limit_name` is the parameter in which the token limit is sent.

        It is `max_tokens` or `max_completion_tokens`. If the endpoint refuses it, the limit is sent
        in the other one.
        """
        super().__init__(extra)
        other_name = OLD_TOKEN_LIMIT if token_limit_name == NEW_TOKEN_LIMIT else NEW_TOKEN_LIMIT
        self._token_limit_names = (token_limit_name, other_name)

    def write_request(self, request: Request, model_name: str, omitted: Set[str]) -> Payload:
        """Return the body of a request, without the optional parameters in `omitted`."""
        body: dict[str, Any] = {
            "model": model_name,
            "messages": write_messages(request, omitted),
            **self.extra,
        }
        if request.tools:
            body["tools"] = [_write_tool(tool) for tool in request.tools]
            if request.schema is not None:
                # The model must not call the tools now. They are listed nevertheless: a prompt
                # begins with its tools, and providers cache the beginning of a prompt.
                body["tool_choice"] = "none"
        used = parameters_to_send(request, omitted, "schema", "temperature", "seed", "logprobs")
        if request.schema is not None and "schema" in used:
            body["response_format"] = _write_response_format(request.schema)
        if "temperature" in used:
            body["temperature"] = request.temperature
        if "seed" in used:
            body["seed"] = request.seed
        if "logprobs" in used:
            body["logprobs"] = True
            body["top_logprobs"] = request.logprobs
        limit_name = self._accepted_limit_name(omitted)
        if request.max_tokens is not None and limit_name is not None:
            body[limit_name] = request.max_tokens
            used.add(limit_name)
        return Payload(body, used)

    def _accepted_limit_name(self, omitted: Set[str]) -> str | None:
        """Return the name under which the model accepts a token limit; None if it refused both."""
        for name in self._token_limit_names:
            if name not in omitted:
                return name
        return None

    def read_reply(self, data: Mapping[str, Any]) -> Reply:
        """Return the first choice of an answer."""
        choice = data["choices"][0]
        message = choice["message"]
        refusal = message.get("refusal")
        if refusal:
            text = refusal
            finish_reason = "refusal"
        else:
            text = read_text(message.get("content"))
            finish_reason = normalize_finish_reason(choice.get("finish_reason"))
        return Reply(
            text=text,
            usage=self.read_usage(data),
            model=data.get("model") or "",
            finish_reason=finish_reason,
            logprobs=_read_logprobs(choice),
            tool_calls=tuple(read_tool_calls(message)),
        )

    def read_usage(self, data: Mapping[str, Any]) -> Usage:
        """Return the tokens that an answer reports."""
        usage = get_object(data, "usage")
        details = get_object(usage, "prompt_tokens_details")
        # DeepSeek reports the cached tokens as `prompt_cache_hit_tokens`.
        cached = get_count(details, "cached_tokens") or get_count(usage, "prompt_cache_hit_tokens")
        return Usage(
            prompt=get_count(usage, "prompt_tokens"),
            cached=cached,
            completion=get_count(usage, "completion_tokens"),
            stored=get_count(details, "cache_write_tokens"),
        )


def write_messages(request: Request, omitted: Set[str]) -> list[Message]:
    """Return the messages of a request with their texts and media as parts of a chat completion.

    Neighbouring messages of one role are joined, unless the request is `verbatim`.
    """
    messages = prepare_messages(request, omitted)
    if not request.verbatim:
        messages = merge_neighbours(messages)
    written: list[Message] = []
    for message in messages:
        if message.get("tool_calls") and not message.get("content"):
            message = {**message, "content": None}  # as the endpoint sent it; some refuse ""
        written.append(write_parts(message, _write_part))
    return written


def _write_part(part: str | Medium) -> dict[str, Any]:
    """Return a text, an image, an audio clip or a PDF as a part of a message."""
    if isinstance(part, str):
        return {"type": "text", "text": part}
    if part.kind == "image":
        return {"type": "image_url", "image_url": {"url": part.url}}
    if part.kind == "file":
        file = {"filename": f"{part.address}.pdf", "file_data": part.url}
        return {"type": "file", "file": file}
    audio_format = AUDIO_FORMATS.get(part.media_type)
    if audio_format is None:
        raise Refused(
            f"{part.address} is {part.media_type}, "
            "but this endpoint accepts only wav and mp3: convert it"
        )
    return {"type": "input_audio", "input_audio": {"data": part.base64, "format": audio_format}}


def _write_tool(tool: Tool) -> dict[str, Any]:
    """Return a tool that the model may call."""
    function = {
        "name": tool.name,
        "description": tool.description,
        "parameters": json.loads(tool.parameters),
    }
    return {"type": "function", "function": function}


def _write_response_format(schema: type[BaseModel]) -> dict[str, Any]:
    """Return the parameter that asks for a reply of this schema."""
    # Providers compile every new schema, and limit how many a user may send. So the schema must be
    # the same in all requests of a kind.
    described = {"name": schema.__name__, "strict": True, "schema": json_schema(schema)}
    return {"type": "json_schema", "json_schema": described}


def read_text(content: Any) -> str:
    """Return the text of a message's content, which is a string, a list of parts or null."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    parts = cast("list[Mapping[str, Any]]", content)
    return "".join(str(part.get("text") or "") for part in parts)


def _read_logprobs(choice: Mapping[str, Any]) -> tuple[Token, ...] | None:
    """Return the tokens of a reply with their alternatives; None if the endpoint sent none."""
    tokens: list[Token] = []
    for entry in get_object(choice, "logprobs").get("content") or ():
        alternatives: dict[str, float] = {}
        for alternative in entry.get("top_logprobs") or ():
            alternatives[alternative["token"]] = alternative["logprob"]
        tokens.append(Token(entry["token"], entry["logprob"], alternatives))
    return tuple(tokens) or None
