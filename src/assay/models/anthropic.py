"""The format of Anthropic: messages, with a tool in place of a schema and a cache breakpoint."""

from collections.abc import Mapping, Sequence, Set
from json import loads
from typing import Any, cast

from assay.errors import Refused
from assay.messages import ToolCall, tool_calls
from assay.models.model import Reply, Request, Tool, Usage, json_schema
from assay.models.payload import SCHEMA, TEMPERATURE, Payload, dumps, with_schema_in_words
from assay.types import Message

LONGEST_REPLY = 4096
"""Tokens to write when the request names no limit; this endpoint insists on one."""

_STOPS = {
    "end_turn": "stop", "stop_sequence": "stop", "tool_use": "stop", "max_tokens": "length",
    "model_context_window_exceeded": "length", "refusal": "content_filter",
}  # fmt: skip
_TOOL = "reply"


class AnthropicFormat:
    """Writes messages and reads their answers."""

    path = "/messages"

    def __init__(self, **extra: Any) -> None:
        """`extra` goes with every call."""
        self._extra = extra

    def headers(self, key: str | None) -> dict[str, str]:
        """The key and the version of the protocol."""
        given = {"Content-Type": "application/json", "anthropic-version": "2023-06-01"}
        return given | {"x-api-key": key} if key else given

    def payload(self, request: Request, name: str, left_out: Set[str]) -> Payload:
        """The body of a message."""
        by_tool = request.schema is not None and SCHEMA not in left_out
        messages = request.messages if by_tool else with_schema_in_words(request)
        added = len(messages) - len(request.messages)
        blocks = _blocks(messages, request.shared + added if request.shared else 0)
        body: dict[str, Any] = {
            "model": name,
            "max_tokens": request.max_tokens or LONGEST_REPLY,
            "messages": _turns([block for block in blocks if block[0] != "system"]),
            **self._extra,
        }
        system = [content for role, content in blocks if role == "system"]
        body |= {"system": system} if system else {}
        used: set[str] = set()
        if request.tools:
            body["tools"] = [_offered(tool) for tool in request.tools]
        if by_tool:
            used.add(SCHEMA)
            body |= _forced_tool(request.schema)
        if request.temperature is not None and TEMPERATURE not in left_out:
            used.add(TEMPERATURE)
            body["temperature"] = request.temperature
        return Payload(body, used)

    def reply(self, data: Mapping[str, Any]) -> Reply:
        """What was written: the tool's input as JSON, else the text. Thoughts are left out."""
        parts = data["content"]
        calls = [_call(part) for part in parts if part["type"] == "tool_use"]
        forced = [call.arguments for call in calls if call.name == _TOOL]
        text = "".join(part["text"] for part in parts if part["type"] == "text")
        stop = data.get("stop_reason") or ""
        return Reply(
            forced[-1] if forced else text,
            usage=_usage(data.get("usage") or {}),
            model=data.get("model") or "",
            finish_reason=_STOPS.get(stop, stop or "stop"),
            tool_calls=tuple(call for call in calls if call.name != _TOOL),
        )


def _blocks(messages: Sequence[Message], shared: int) -> list[tuple[str, Any]]:
    """Role and content block of each message; the last shared one carries the breakpoint."""
    blocks: list[tuple[str, Any]] = []
    for number, message in enumerate(messages, start=1):
        if len(message) > 2:
            blocks.append(_of_tools(message))
            continue
        content = message["content"]
        block = {"type": "text", "text": content} if isinstance(content, str) else content
        if number == shared and isinstance(content, str):
            block = {**block, "cache_control": {"type": "ephemeral"}}
        blocks.append((message["role"], block))
    return blocks


def _of_tools(message: Message) -> tuple[str, list[Any]]:
    """A call of tools, or what one of them replied, which the user says here."""
    content = message.get("content")
    parts: list[Any] = [{"type": "text", "text": content}] if isinstance(content, str) else []
    parts = parts if parts or content is None else list(content)
    if message["role"] == "tool":
        result = {"type": "tool_result", "tool_use_id": message["tool_call_id"], "content": parts}
        return "user", [result]
    calls = [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": _input(call)} for call in tool_calls(message)
    ]
    said = [part for part in parts if part.get("text") != ""]
    return message["role"], said + calls


def _input(call: ToolCall) -> Any:
    """Its arguments; this endpoint takes an object only, and a broken one was answered as such."""
    try:
        given = loads(call.arguments)
    except ValueError:
        return {}
    return cast("Any", given) if isinstance(given, dict) else {}


def _call(part: Mapping[str, Any]) -> ToolCall:
    return ToolCall(part.get("name", _TOOL), dumps(part["input"]).decode(), part.get("id") or "")


def _offered(tool: Tool) -> dict[str, Any]:
    if tool.name == _TOOL:
        raise Refused(f"a tool is called {_TOOL!r}, which has a meaning here: rename it")
    schema = loads(tool.parameters)
    return {"name": tool.name, "description": tool.description, "input_schema": schema}


def _turns(blocks: Sequence[tuple[str, Any]]) -> list[dict[str, Any]]:
    """Blocks of neighbouring messages of one role, together."""
    turns: list[dict[str, Any]] = []
    for role, block in blocks:
        if not turns or turns[-1]["role"] != role:
            turns.append({"role": role, "content": []})
        turns[-1]["content"] += block if isinstance(block, list) else [block]
    return turns


def _forced_tool(schema: Any) -> dict[str, Any]:
    tool = {"name": _TOOL, "description": "Give the reply.", "input_schema": json_schema(schema)}
    return {"tools": [tool], "tool_choice": {"type": "tool", "name": _TOOL}}


def _usage(usage: Mapping[str, Any]) -> Usage:
    cached = usage.get("cache_read_input_tokens") or 0
    stored = usage.get("cache_creation_input_tokens") or 0
    return Usage(
        prompt=(usage.get("input_tokens") or 0) + cached + stored,
        cached=cached,
        completion=usage.get("output_tokens") or 0,
        stored=stored,
    )
