"""Call endpoints through Anthropic's Messages API.

It has no parameter for a schema, so a structured reply is requested as the input of a tool that the
model has to call.
"""

import json
from collections.abc import Mapping, Set
from typing import Any, cast

from pydantic import BaseModel

from assay.errors import Refused
from assay.media import Medium
from assay.messages import ToolCall, read_tool_calls
from assay.models.finish_reasons import normalize_finish_reason
from assay.models.model import (
    Reply,
    Request,
    Tool,
    Usage,
    has_further_fields,
    json_schema,
)
from assay.models.wire_format import (
    Payload,
    WireFormat,
    get_count,
    get_object,
    parameters_to_send,
    prepare_messages,
    write_parts,
)
from assay.types import Message

DEFAULT_MAX_TOKENS = 4096  # sent when a request sets no limit: the API requires one
REPLY_TOOL = "reply"  # the tool whose input is the structured reply


class AnthropicFormat(WireFormat):
    """Write requests and read replies as the Messages API has them."""

    path = "/messages"
    sdk_method = "messages.create"
    maker = "anthropic"

    def __init__(self, extra: Mapping[str, Any] | None = None) -> None:
        """`extra` holds further fields; `stop`, as OpenAI calls them, are the `stop_sequences`."""
        super().__init__(extra)
        stop = self.extra.pop("stop", None)
        if stop is not None:
            self.extra["stop_sequences"] = [stop] if isinstance(stop, str) else list(stop)

    def headers(self, key: str | None) -> dict[str, str]:
        """Return the headers with the version of the API and, if there is one, the key."""
        headers = {"anthropic-version": "2023-06-01"}
        if key:
            headers["x-api-key"] = key
        return headers

    def write_request(self, request: Request, model_name: str, omitted: Set[str]) -> Payload:
        """Return the body of a request, without the optional parameters in `omitted`."""
        system, turns = _write_messages(request, omitted)
        body: dict[str, Any] = {
            "model": model_name,
            "max_tokens": request.max_tokens or DEFAULT_MAX_TOKENS,
            "messages": turns,
            **self.extra,
        }
        if system:
            body["system"] = system
        tools = [_write_tool(tool) for tool in request.tools]
        used = parameters_to_send(request, omitted, "schema", "temperature")
        if request.schema is not None and "schema" in used:
            # Added last: providers cache the beginning of a prompt, and a prompt begins with the
            # tools.
            tools.append(_write_reply_tool(request.schema))
            body["tool_choice"] = {"type": "tool", "name": REPLY_TOOL}
        if "temperature" in used:
            body["temperature"] = request.temperature
        if tools:
            body["tools"] = tools
        return Payload(body, used)

    def read_reply(self, data: Mapping[str, Any]) -> Reply:
        """Return the reply in an answer, without the model's thinking.

        If the model called the reply tool, the text of the reply is the input of that tool as JSON.
        """
        texts: list[str] = []
        calls: list[ToolCall] = []
        structured_reply: str | None = None
        for block in data["content"]:
            if block["type"] == "text":
                texts.append(block["text"])
            elif block["type"] == "tool_use":
                # A call without a name is taken for a call of the reply tool.
                tool_name = block.get("name", REPLY_TOOL)
                arguments = json.dumps(block["input"])
                if tool_name == REPLY_TOOL:
                    structured_reply = arguments
                else:
                    calls.append(ToolCall(tool_name, arguments, id=block.get("id") or ""))
        finish_reason = normalize_finish_reason(data.get("stop_reason"))
        if finish_reason == "refusal":
            # Here "refusal" means that Anthropic's content filter stopped the model.
            finish_reason = "content_filter"
        text = "".join(texts) if structured_reply is None else structured_reply
        return Reply(
            text=text,
            usage=self.read_usage(data),
            model=data.get("model") or "",
            finish_reason=finish_reason,
            tool_calls=tuple(calls),
        )

    def read_usage(self, data: Mapping[str, Any]) -> Usage:
        """Return the tokens that an answer reports."""
        usage = get_object(data, "usage")
        cached = get_count(usage, "cache_read_input_tokens")
        stored = get_count(usage, "cache_creation_input_tokens")
        return Usage(
            # Anthropic's `input_tokens` do not include the tokens that were read from the cache or
            # written to it.
            prompt=get_count(usage, "input_tokens") + cached + stored,
            cached=cached,
            completion=get_count(usage, "output_tokens"),
            stored=stored,
        )


def _write_messages(
    request: Request, omitted: Set[str]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the blocks of the system prompt, and the turns of the conversation.

    Neighbouring messages of one role become one turn. A cache breakpoint is set after the messages
    that the request shares with others.
    """
    messages = prepare_messages(request, omitted)
    last_shared = 0  # the number of the last shared message, from 1; 0 if there is none
    if request.shared:
        # `prepare_messages` may have inserted a description of the schema, which is shared too.
        inserted_count = len(messages) - len(request.messages)
        last_shared = request.shared + inserted_count
    system: list[dict[str, Any]] = []
    turns: list[dict[str, Any]] = []
    for number, message in enumerate(messages, start=1):
        role = message["role"]
        if role == "tool":
            role = "user"  # this API expects the results of tools in a turn of the user
        blocks = _write_blocks(message)
        if number == last_shared:
            _set_cache_breakpoint(blocks)
        if role == "system":
            system += blocks
        elif turns and turns[-1]["role"] == role:
            turns[-1]["content"] += blocks
        else:
            turns.append({"role": role, "content": blocks})
    return system, turns


def _write_blocks(message: Message) -> list[dict[str, Any]]:
    """Return the content of a message as a list of blocks.

    Tool calls become blocks too, and a message of a tool becomes one block with its result.
    """
    content = write_parts(message, _write_part).get("content")  # a text, a list of blocks or None
    blocks: list[dict[str, Any]] = []
    if isinstance(content, str):
        blocks.append(_write_part(content))
    elif content:
        blocks.extend(content)
    if message["role"] == "tool":
        result = {
            "type": "tool_result",
            "tool_use_id": message["tool_call_id"],
            "content": blocks,
        }
        return [result]
    if has_further_fields(message):
        # A message with tool calls often has an empty text, which the API refuses.
        blocks = [block for block in blocks if block.get("text") != ""]
        blocks += [_write_tool_call(call) for call in read_tool_calls(message)]
    return blocks


def _write_part(part: str | Medium) -> dict[str, Any]:
    """Return a text, an image or a PDF as a block."""
    if isinstance(part, str):
        return {"type": "text", "text": part}
    source = {"type": "base64", "media_type": part.media_type, "data": part.base64}
    if part.kind == "image":
        return {"type": "image", "source": source}
    return {"type": "document", "source": source}


def _write_tool_call(call: ToolCall) -> dict[str, Any]:
    """Return an earlier tool call of the model as a block."""
    return {
        "type": "tool_use",
        "id": call.id,
        "name": call.name,
        "input": _parse_arguments(call.arguments),
    }


def _parse_arguments(arguments: str) -> dict[str, Any]:
    """Return the arguments of an earlier tool call; {} if they are not a JSON object.

    The API accepts only objects. Nothing is lost: the next message of the conversation is the
    result of this call, and it tells the model what was wrong with its arguments.
    """
    try:
        value = json.loads(arguments)
    except ValueError:
        return {}
    if not isinstance(value, dict):
        return {}
    return cast("dict[str, Any]", value)


def _set_cache_breakpoint(blocks: list[dict[str, Any]]) -> None:
    """Ask Anthropic to cache the prompt up to the end of these blocks.

    This changes the last block in the list.
    """
    if blocks and blocks[-1].get("type") in ("text", "tool_result"):
        blocks[-1] = {**blocks[-1], "cache_control": {"type": "ephemeral"}}


def _write_tool(tool: Tool) -> dict[str, Any]:
    """Return a tool that the model may call. Raise `Refused` if it has the reserved name."""
    if tool.name == REPLY_TOOL:
        raise Refused(
            f"a tool is called {REPLY_TOOL!r}, "
            "which is the name of the tool for structured replies: rename it"
        )
    return {
        "name": tool.name,
        "description": tool.description,
        "input_schema": json.loads(tool.parameters),
    }


def _write_reply_tool(schema: type[BaseModel]) -> dict[str, Any]:
    """Return the tool whose input is the structured reply."""
    return {
        "name": REPLY_TOOL,
        "description": "Give the reply.",
        "input_schema": json_schema(schema),
    }
