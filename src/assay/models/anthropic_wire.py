"""The Anthropic wire: messages, with a tool in place of a schema and a cache breakpoint."""

from collections.abc import Mapping, Sequence, Set
from typing import Any

from assay.models.base import Reply, Request, Usage
from assay.models.client import dumps
from assay.models.dialect import SCHEMA, TEMPERATURE
from assay.models.schema import json_schema
from assay.models.wire import Payload, in_words
from assay.types import Message

LONGEST_REPLY = 4096
"""Tokens to write when the request names no limit; this endpoint insists on one."""

_STOPS = {"max_tokens": "length", "refusal": "content_filter"}
_TOOL = "reply"


class AnthropicWire:
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
        messages = request.messages if by_tool else in_words(request)
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
        called = [part["input"] for part in parts if part["type"] == "tool_use"]
        text = "".join(part["text"] for part in parts if part["type"] == "text")
        stop = data.get("stop_reason") or ""
        return Reply(
            dumps(called[-1]).decode() if called else text,
            usage=_usage(data.get("usage") or {}),
            model=data.get("model") or "",
            finish_reason=_STOPS.get(stop, "stop"),
        )


def _blocks(messages: Sequence[Message], shared: int) -> list[tuple[str, Any]]:
    """Role and content block of each message; the last shared one carries the breakpoint."""
    blocks: list[tuple[str, Any]] = []
    for number, message in enumerate(messages, start=1):
        content = message["content"]
        block = {"type": "text", "text": content} if isinstance(content, str) else content
        if number == shared and isinstance(content, str):
            block = {**block, "cache_control": {"type": "ephemeral"}}
        blocks.append((message["role"], block))
    return blocks


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
