"""Write requests and read replies in the format of Anthropic: a tool in place of a schema, and a cache breakpoint."""

from collections.abc import Mapping, Set
from json import dumps, loads
from typing import Any, cast

from assay.errors import Refused
from assay.media import Medium
from assay.messages import ToolCall, tool_calls
from assay.models.model import Reply, Request, Usage, json_schema
from assay.models.openai import NO_FIELDS, OpenAIFormat, Parameters, Payload, messages_for, optional
from assay.types import Message

LONGEST_REPLY = 4096  # tokens to write when the request names no limit; this endpoint insists on one
_STOPS = {
    "end_turn": "stop", "stop_sequence": "stop", "tool_use": "stop", "max_tokens": "length",
    "model_context_window_exceeded": "length", "refusal": "content_filter",
}  # fmt: skip
_TOOL = "reply"
_PARAMETERS: Parameters = {
    "schema": lambda schema: {
        "tools": [{"name": _TOOL, "description": "Give the reply.", "input_schema": json_schema(schema)}],
        "tool_choice": {"type": "tool", "name": _TOOL},
    },
    "temperature": lambda temperature: {"temperature": temperature},
}


class AnthropicFormat(OpenAIFormat):
    """Writes messages and reads their answers."""

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
        body = {"model": name, "max_tokens": request.max_tokens or LONGEST_REPLY, "messages": turns, **self.extra}
        if system:
            body["system"] = system
        if any(tool.name == _TOOL for tool in request.tools):
            raise Refused(f"a tool is called {_TOOL!r}, which has a meaning here: rename it")
        tools: list[Any] = [
            {"name": tool.name, "description": tool.description, "input_schema": loads(tool.parameters)}
            for tool in request.tools
        ]
        fields, used = optional(request, left_out, _PARAMETERS)
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
        calls = [ToolCall(part.get("name", _TOOL), dumps(part["input"]), part.get("id") or "") for part in used]
        forced = [call.arguments for call in calls if call.name == _TOOL]
        stop = data.get("stop_reason") or "stop"
        usage = data.get("usage") or NO_FIELDS
        cached, stored = usage.get("cache_read_input_tokens") or 0, usage.get("cache_creation_input_tokens") or 0
        read, written = usage.get("input_tokens") or 0, usage.get("output_tokens") or 0
        return Reply(
            forced[-1] if forced else "".join(part["text"] for part in parts if part["type"] == "text"),
            usage=Usage(read + cached + stored, cached, written, stored),
            model=data.get("model") or "",
            finish_reason=_STOPS.get(stop, stop),
            tool_calls=tuple(call for call in calls if call.name != _TOOL),
        )


def _blocks(message: Message, *, is_breakpoint: bool) -> tuple[str, list[Any]]:
    """The role and the content blocks of a message; what a tool replied is said by the user here."""
    role, content = message["role"], message.get("content")
    blocks: list[Any] = [{"type": "text", "text": content}] if isinstance(content, str) else list(content or ())
    if len(message) == 2:
        if is_breakpoint and blocks and blocks[-1].get("type") == "text":
            blocks[-1] = {**blocks[-1], "cache_control": {"type": "ephemeral"}}
        return role, blocks
    if role == "tool":
        result = {"type": "tool_result", "tool_use_id": message["tool_call_id"], "content": blocks}
        return "user", [result | ({"cache_control": {"type": "ephemeral"}} if is_breakpoint else {})]
    calls = [{"type": "tool_use", "id": c.id, "name": c.name, "input": _input(c)} for c in tool_calls(message)]
    return role, [block for block in blocks if block.get("text") != ""] + calls


def _input(call: ToolCall) -> Any:
    """Its arguments; this endpoint takes an object only, and a broken one was answered as such."""
    try:
        given = loads(call.arguments)
    except ValueError:
        return {}
    return cast("Any", given) if isinstance(given, dict) else {}
