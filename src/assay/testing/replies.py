"""Read requests and write replies as OpenAI-compatible, Anthropic and Gemini endpoints do."""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from assay.messages import ToolCall
from assay.models.openai import text_of


@dataclass(frozen=True)
class Said:
    """A reply, before it has a shape."""

    text: str
    finish_reason: str
    model: str
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    confidence: float
    tool_calls: tuple[ToolCall, ...] = ()


def prompts_of(body: Mapping[str, Any]) -> tuple[str, str]:
    instruction: Mapping[str, Any] = body.get("systemInstruction") or {}
    system, user = text_of(body.get("system") or instruction.get("parts")), ""
    told: list[Mapping[str, Any]] = body.get("messages") or body.get("contents") or []
    for message in told:
        content = text_of(message.get("content") or message.get("parts"))
        if message.get("role") == "system":
            system += content
        else:
            user += content
    return system, user


def chat_completion(said: Said, body: Mapping[str, Any]) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": said.text}
    finish = said.finish_reason
    if said.tool_calls:
        calls = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in said.tool_calls
        ]
        message |= {"content": said.text or None, "tool_calls": calls}
        finish = "tool_calls"
    logprobs = {"content": _tokens(said)} if body.get("logprobs") else None
    usage = {
        "prompt_tokens": said.prompt_tokens,
        "completion_tokens": said.completion_tokens,
        "total_tokens": said.prompt_tokens + said.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": said.cached_tokens},
    }
    choice = {"index": 0, "message": message, "finish_reason": finish, "logprobs": logprobs}
    told = {"id": "chatcmpl-test", "object": "chat.completion", "created": 0, "model": said.model}
    return {**told, "choices": [choice], "usage": usage}


def message(said: Said, body: Mapping[str, Any]) -> dict[str, Any]:
    """As Anthropic's endpoint answers: by the tool, where one has to be used."""
    part: dict[str, Any] = {"type": "text", "text": said.text}
    calls = [_tool_use(call.id, call.name, call.arguments) for call in said.tool_calls]
    stop = "max_tokens" if said.finish_reason == "length" else "end_turn"
    if body.get("tool_choice") and stop == "end_turn":
        part, stop = _tool_use("toolu_test", body["tool_choice"]["name"], said.text), "tool_use"
    usage = {
        "input_tokens": said.prompt_tokens - said.cached_tokens,
        "cache_read_input_tokens": said.cached_tokens,
        "cache_creation_input_tokens": 0,
        "output_tokens": said.completion_tokens,
    }
    told = {"id": "msg_test", "type": "message", "role": "assistant", "model": said.model}
    content = [part, *calls] if said.text or not calls else calls
    stopped = {"stop_reason": "tool_use" if calls else stop, "stop_sequence": None}
    return {**told, "content": content, **stopped, "usage": usage}


def generate_content(said: Said, body: Mapping[str, Any]) -> dict[str, Any]:
    candidate: dict[str, Any] = {
        "content": {"role": "model", "parts": [{"text": said.text}]},
        "finishReason": "MAX_TOKENS" if said.finish_reason == "length" else "STOP",
    }
    config: Mapping[str, Any] = body.get("generationConfig") or {}
    if config.get("responseLogprobs"):
        tokens = [
            [{"token": t["token"], "logProbability": t["logprob"]} for t in token["top_logprobs"]]
            for token in _tokens(said)
        ]
        candidate["logprobsResult"] = {
            "chosenCandidates": [alternatives[0] for alternatives in tokens],
            "topCandidates": [{"candidates": alternatives} for alternatives in tokens],
        }
    usage = {
        "promptTokenCount": said.prompt_tokens,
        "cachedContentTokenCount": said.cached_tokens,
        "candidatesTokenCount": said.completion_tokens,
    }
    return {"candidates": [candidate], "modelVersion": said.model, "usageMetadata": usage}


def _tool_use(number: str, name: str, text: str) -> dict[str, Any]:
    try:
        arguments = json.loads(text)
    except ValueError:
        arguments = {"text": text}
    return {"type": "tool_use", "id": number, "name": name, "input": arguments}


def _tokens(said: Said) -> list[dict[str, Any]]:
    """The text as tokens. A verdict is one, and its opposite has the rest of the confidence."""
    sure = math.log(said.confidence) if said.confidence else -20.0
    unsure = math.log(1 - said.confidence) if said.confidence < 1 else -20.0
    tokens: list[dict[str, Any]] = []
    for piece in re.findall(r"UNMET|MET|\w{1,4}|\s+|[^\w\s]", said.text):
        other = {"MET": "UNMET", "UNMET": "MET"}.get(piece)
        alternatives = {piece: sure if other else -0.01} | ({other: unsure} if other else {})
        shown = [{"token": t, "logprob": p, "bytes": None} for t, p in alternatives.items()]
        tokens.append({**shown[0], "top_logprobs": shown})
    return tokens
