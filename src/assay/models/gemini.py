"""The format of `google-genai`: the arguments of its `generate_content`, and its answers read."""

from collections.abc import Mapping, Sequence, Set
from typing import Any

from assay.errors import Refused
from assay.models.model import Reply, Request, Token, Usage, json_schema
from assay.models.payload import LOGPROBS, SCHEMA, SEED, TEMPERATURE, Payload, joined, with_schema_in_words
from assay.types import Message
from assay.wording import short_repr

_STOPS = {"STOP": "stop", "MAX_TOKENS": "length", "FINISH_REASON_UNSPECIFIED": "stop"}
_FILTERED = frozenset({"SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII"})
_FILTER: Mapping[str, Any] = {"finish_reason": "SAFETY"}
_ROLES = {"user": "user", "assistant": "model"}


class GeminiFormat:
    """Writes the arguments of `generate_content` and reads what it returns."""

    path = ""
    """The client knows its own."""

    def __init__(self, *, timeout: float, **extra: Any) -> None:
        """`timeout` is seconds for one attempt; `extra` goes into the config of every call."""
        options = {"timeout": int(timeout * 1000), "retry_options": {"attempts": 1}}
        self._config = {"http_options": options, **extra}

    def headers(self, key: str | None) -> dict[str, str]:
        """None: the client sends its own."""
        return {}

    def payload(self, request: Request, name: str, left_out: Set[str]) -> Payload:
        """The arguments of one call."""
        if request.tools:
            raise Refused(
                "tools are not offered to a model through a client of google-genai: name the "
                f"model instead, as 'gemini/{name}'"
            )
        by_schema = request.schema is not None and SCHEMA not in left_out
        said = request.messages if by_schema else with_schema_in_words(request)
        messages = said if request.verbatim else joined(said)
        system = [_parts(message) for message in messages if message["role"] == "system"]
        settings = _settings(request)
        config: dict[str, Any] = {**self._config}
        if system:
            config["system_instruction"] = [part for parts in system for part in parts]
        if request.max_tokens is not None:
            config["max_output_tokens"] = request.max_tokens
        used = {feature for feature in settings if feature not in left_out}
        for feature in used:
            config |= settings[feature]
        contents = [_turn(message) for message in messages if message["role"] != "system"]
        return Payload({"model": name, "contents": contents, "config": config}, used)

    def reply(self, data: Mapping[str, Any]) -> Reply:
        """The first candidate of an answer. Thoughts are left out."""
        blocked: Mapping[str, Any] = data.get("prompt_feedback") or {}
        filtered = blocked.get("block_reason") and not data.get("candidates")
        found: Mapping[str, Any] = _FILTER if filtered else data["candidates"][0]
        content: Mapping[str, Any] = found.get("content") or {}
        parts: Sequence[Mapping[str, Any]] = content.get("parts") or ()
        return Reply(
            "".join(part.get("text") or "" for part in parts if not part.get("thought")),
            usage=_usage(data.get("usage_metadata") or {}),
            model=data.get("model_version") or "",
            finish_reason=_finish(found.get("finish_reason")),
            logprobs=_logprobs(found.get("logprobs_result") or {}),
        )


def _settings(request: Request) -> dict[str, dict[str, Any]]:
    settings: dict[str, dict[str, Any]] = {}
    if request.schema is not None:
        schema = json_schema(request.schema)
        settings[SCHEMA] = {"response_mime_type": "application/json", "response_json_schema": schema}
    if request.temperature is not None:
        settings[TEMPERATURE] = {"temperature": request.temperature}
    if request.seed is not None:
        settings[SEED] = {"seed": request.seed}
    if request.logprobs is not None:
        settings[LOGPROBS] = {"response_logprobs": True, "logprobs": request.logprobs}
    return settings


def _turn(message: Message) -> dict[str, Any]:
    role = _ROLES.get(message["role"])
    if role is None:
        raise Refused(
            f"a message has the role {message['role']!r}, which a client of google-genai does not "
            "take: name the model instead, as 'gemini/…'"
        )
    return {"role": role, "parts": _parts(message)}


def _parts(message: Message) -> list[dict[str, str]]:
    content = message.get("content")
    if isinstance(content, str):
        return [{"text": content}]
    parts: Sequence[Mapping[str, Any]] = content or ()
    for part in parts:
        if part.get("type") != "text":
            raise Refused(
                f"a message holds {short_repr(part)}, and a client of google-genai is sent texts only: "
                "name the model instead, as 'gemini/…'"
            )
    return [{"text": part["text"]} for part in parts]


def _finish(reason: Any) -> str:
    said = str(getattr(reason, "value", reason) or "STOP")
    return "content_filter" if said in _FILTERED else _STOPS.get(said, said.lower())


def _usage(usage: Mapping[str, Any]) -> Usage:
    written = usage.get("candidates_token_count") or 0
    return Usage(
        prompt=usage.get("prompt_token_count") or 0,
        cached=usage.get("cached_content_token_count") or 0,
        completion=written + (usage.get("thoughts_token_count") or 0),
    )


def _logprobs(given: Mapping[str, Any]) -> tuple[Token, ...] | None:
    chosen = given.get("chosen_candidates")
    if not chosen:
        return None
    none: Mapping[str, Any] = {}
    top: Sequence[Mapping[str, Any]] = given.get("top_candidates") or [none] * len(chosen)
    return tuple(
        Token(one["token"], one["log_probability"], _alternatives(other))
        for one, other in zip(chosen, top, strict=True)
    )


def _alternatives(top: Mapping[str, Any]) -> dict[str, float]:
    return {one["token"]: one["log_probability"] for one in top.get("candidates") or ()}
