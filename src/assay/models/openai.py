"""The format of OpenAI: chat completions, as nearly every endpoint takes them."""

from collections.abc import Mapping, Set
from functools import cache
from json import loads
from typing import Any

from pydantic import BaseModel

from assay.messages import tool_calls
from assay.models.model import Reply, Request, Token, Tool, Usage, json_schema
from assay.models.payload import (
    LOGPROBS,
    MAX_COMPLETION_TOKENS,
    MAX_TOKENS,
    SCHEMA,
    SEED,
    TEMPERATURE,
    Payload,
    joined,
    text_of,
    with_schema_in_words,
)


class OpenAIFormat:
    """Writes chat completions and reads their answers."""

    path = "/chat/completions"

    def __init__(self, *, limit_name: str = MAX_TOKENS, **extra: Any) -> None:
        """`limit_name` is what this endpoint calls the token limit; `extra` goes with every call."""
        other = MAX_TOKENS if limit_name == MAX_COMPLETION_TOKENS else MAX_COMPLETION_TOKENS
        self._limit_names = (limit_name, other)
        self._extra = extra

    def headers(self, key: str | None) -> dict[str, str]:
        """A bearer token, where there is a key."""
        given = {"Content-Type": "application/json"}
        return given | {"Authorization": f"Bearer {key}"} if key else given

    def payload(self, request: Request, name: str, left_out: Set[str]) -> Payload:
        """The body of a chat completion."""
        by_schema = request.schema is not None and SCHEMA not in left_out
        messages = request.messages if by_schema else with_schema_in_words(request)
        body: dict[str, Any] = {
            "model": name,
            "messages": list(messages) if request.verbatim else joined(messages),
            **self._extra,
        }
        if request.tools:
            body["tools"] = [_function(tool) for tool in request.tools]
        used: set[str] = set()
        for parameter, fields in self._settings(request, left_out).items():
            if parameter not in left_out:
                body |= fields
                used.add(parameter)
        return Payload(body, used)

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


_CUT = frozenset({"length", "max_tokens", "model_length", "max_length", "model_context_window_exceeded"})


@cache
def _response_format(schema: type[BaseModel]) -> dict[str, Any]:
    """Made once for each schema: a provider compiles a new one, and allows few a minute."""
    described = {"name": schema.__name__, "strict": True, "schema": json_schema(schema)}
    return {"type": "json_schema", "json_schema": described}


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
