"""The OpenAI-compatible wire: chat completions, as nearly every endpoint speaks them."""

from collections.abc import Hashable, Mapping, Set
from json import loads
from typing import Any

from assay.messages import tool_calls
from assay.models.base import Reply, Request, Token, Tool, Usage
from assay.models.dialect import (
    LOGPROBS,
    MAX_COMPLETION_TOKENS,
    MAX_TOKENS,
    SCHEMA,
    SEED,
    TEMPERATURE,
)
from assay.models.schema import json_schema
from assay.models.wire import Payload, dumps, in_pieces, in_words, joined, text_of

MOST_KEPT = 256
"""Payloads without messages that are kept."""


class OpenAIWire:
    """Writes chat completions and reads their answers."""

    path = "/chat/completions"

    def __init__(self, *, limit_name: str = MAX_TOKENS, **extra: Any) -> None:
        """`limit_name` is what this endpoint calls the token limit; `extra` goes with every call."""
        other = MAX_TOKENS if limit_name == MAX_COMPLETION_TOKENS else MAX_COMPLETION_TOKENS
        self._limit_names = (limit_name, other)
        self._extra = extra
        self._kept: dict[Hashable, Payload] = {}

    def headers(self, key: str | None) -> dict[str, str]:
        """A bearer token, where there is a key."""
        given = {"Content-Type": "application/json"}
        return given | {"Authorization": f"Bearer {key}"} if key else given

    def payload(self, request: Request, name: str, left_out: Set[str]) -> Payload:
        """The body of a chat completion."""
        by_schema = request.schema is not None and SCHEMA not in left_out
        messages = request.messages if by_schema else in_words(request)
        pieces = in_pieces(messages, verbatim=request.verbatim)
        fixed = self._fixed(request, name, frozenset(left_out))
        if pieces:
            return Payload(fixed.body, fixed.used, pieces, fixed.rest)
        sent = list(messages) if request.verbatim else joined(messages)
        return Payload({**fixed.body, "messages": sent}, fixed.used)

    def _fixed(self, request: Request, name: str, left_out: frozenset[str]) -> Payload:
        """All but the messages. It is the same for nearly all requests, so it is kept."""
        settings = (request.temperature, request.max_tokens, request.seed, request.logprobs)
        key = (name, request.schema, settings, left_out, request.tools)
        known = self._kept.get(key)
        if known is None:
            body: dict[str, Any] = {"model": name, **self._extra}
            if request.tools:
                body["tools"] = [_function(tool) for tool in request.tools]
            used: set[str] = set()
            for feature, fields in self._settings(request, left_out).items():
                if feature not in left_out:
                    body |= fields
                    used.add(feature)
            if len(self._kept) >= MOST_KEPT:
                # A seed of its own for every call would fill the memory.
                self._kept.clear()
            known = self._kept[key] = Payload(body, used, rest=dumps(body))
        return known

    def _settings(self, request: Request, left_out: Set[str]) -> dict[str, dict[str, Any]]:
        settings: dict[str, dict[str, Any]] = {}
        if request.schema is not None:
            settings[SCHEMA] = {"response_format": _response_format(request.schema)}
        if request.temperature is not None:
            settings[TEMPERATURE] = {"temperature": request.temperature}
        if request.max_tokens is not None:
            names = [name for name in self._limit_names if name not in left_out]
            settings |= {name: {name: request.max_tokens} for name in names[:1]}
        if request.seed is not None:
            settings[SEED] = {"seed": request.seed}
        if request.logprobs is not None:
            settings[LOGPROBS] = {"logprobs": True, "top_logprobs": request.logprobs}
        return settings

    def reply(self, data: Mapping[str, Any]) -> Reply:
        """The first choice of an answer."""
        choice = data["choices"][0]
        message = choice["message"]
        refusal = message.get("refusal")
        return Reply(
            refusal or text_of(message.get("content")),
            usage=_usage(data.get("usage") or {}),
            model=data.get("model") or "",
            finish_reason="refusal" if refusal else _finish(choice.get("finish_reason")),
            logprobs=_logprobs(choice.get("logprobs") or {}),
            tool_calls=tuple(tool_calls(message)) if message.get("tool_calls") else (),
        )


def _function(tool: Tool) -> dict[str, Any]:
    described = {"name": tool.name, "description": tool.description}
    return {"type": "function", "function": {**described, "parameters": loads(tool.parameters)}}


def _finish(reason: str | None) -> str:
    """How a reply ended, in the words of the first of these endpoints."""
    said = (reason or "stop").lower()
    return "length" if said in _CUT else said


_CUT = frozenset(
    {"length", "max_tokens", "model_length", "max_length", "model_context_window_exceeded"}
)


_formats: dict[type, dict[str, Any]] = {}


def _response_format(schema: Any) -> dict[str, Any]:
    """Made once for each schema: a provider compiles a new one, and allows few a minute."""
    made = _formats.get(schema)
    if made is None:
        described = {"name": schema.__name__, "strict": True, "schema": json_schema(schema)}
        made = _formats[schema] = {"type": "json_schema", "json_schema": described}
    return made


def _usage(usage: Mapping[str, Any]) -> Usage:
    details: Mapping[str, Any] = usage.get("prompt_tokens_details") or {}
    cached: int = details.get("cached_tokens") or usage.get("prompt_cache_hit_tokens") or 0
    return Usage(
        prompt=usage.get("prompt_tokens") or 0,
        cached=cached,
        completion=usage.get("completion_tokens") or 0,
        stored=details.get("cache_write_tokens") or 0,
    )


def _logprobs(given: Mapping[str, Any]) -> tuple[Token, ...] | None:
    tokens = given.get("content")
    if not tokens:
        return None
    return tuple(
        Token(
            token["token"],
            token["logprob"],
            {other["token"]: other["logprob"] for other in token.get("top_logprobs") or ()},
        )
        for token in tokens
    )
