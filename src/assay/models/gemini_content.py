"""Call Gemini through `generate_content` of a `google-genai` client.

A model that is named `gemini/...` is called through chat completions instead: see `providers`.
"""

from collections.abc import Mapping, Sequence, Set
from typing import Any, cast

from assay.errors import Refused
from assay.media import Medium
from assay.models.finish_reasons import normalize_finish_reason
from assay.models.model import Reply, Request, Token, Usage, json_schema
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
from assay.wording import format_value


class GeminiFormat(WireFormat):
    """Write the arguments of `generate_content` and read what it returns."""

    path = ""  # never appended: only the client of google-genai makes these calls
    sdk_method = "models.generate_content"
    maker = "gemini"

    def write_request(self, request: Request, model_name: str, omitted: Set[str]) -> Payload:
        if request.tools:
            raise Refused(
                "tools are not offered to a model through a client of google-genai: "
                f"name the model instead, as 'gemini/{model_name}'"
            )
        config = dict(self.extra)
        contents: list[dict[str, Any]] = []
        messages = prepare_messages(request, omitted)
        if not request.verbatim:
            messages = merge_neighbours(messages)
        for message in messages:
            role = message["role"]
            parts = _write_content(message, model_name)
            if role == "system":
                config["system_instruction"] = [*config.get("system_instruction", ()), *parts]
            elif role == "user":
                contents.append({"role": "user", "parts": parts})
            elif role == "assistant":
                contents.append({"role": "model", "parts": parts})
            else:
                raise Refused(
                    f"a message has the role {role!r}, "
                    "which a client of google-genai does not accept: "
                    f"name the model instead, as 'gemini/{model_name}'"
                )
        if request.max_tokens is not None:
            config["max_output_tokens"] = request.max_tokens
        used = parameters_to_send(request, omitted, "schema", "temperature", "seed", "logprobs")
        if request.schema is not None and "schema" in used:
            config["response_mime_type"] = "application/json"
            config["response_json_schema"] = json_schema(request.schema)
        if "temperature" in used:
            config["temperature"] = request.temperature
        if "seed" in used:
            config["seed"] = request.seed
        if "logprobs" in used:
            config["response_logprobs"] = True
            config["logprobs"] = request.logprobs
        return Payload({"model": model_name, "contents": contents, "config": config}, used)

    def read_reply(self, data: Mapping[str, Any]) -> Reply:
        """Return the first candidate of an answer; the model's thoughts are left out."""
        candidate: Mapping[str, Any]
        if get_object(data, "prompt_feedback").get("block_reason") and not data.get("candidates"):
            candidate = {"finish_reason": "SAFETY"}
        else:
            candidate = data["candidates"][0]
        texts: list[str] = []
        for part in get_object(candidate, "content").get("parts") or ():
            if not part.get("thought"):
                texts.append(part.get("text") or "")
        reason = candidate.get("finish_reason")
        return Reply(
            text="".join(texts),
            usage=self.read_usage(data),
            model=data.get("model_version") or "",
            finish_reason=normalize_finish_reason(getattr(reason, "value", reason)),  # an enum
            logprobs=_read_logprobs(candidate),
        )

    def read_usage(self, data: Mapping[str, Any]) -> Usage:
        usage = get_object(data, "usage_metadata")
        answer = get_count(usage, "candidates_token_count")
        thoughts = get_count(usage, "thoughts_token_count")
        return Usage(
            prompt=get_count(usage, "prompt_token_count"),
            cached=get_count(usage, "cached_content_token_count"),
            completion=answer + thoughts,
        )


def _write_content(message: Message, model_name: str) -> list[dict[str, Any]]:
    """Return the content of a message as Gemini's parts.

    Raise `Refused` for what is neither text nor media.
    """
    content = write_parts(message, _write_part).get("content")
    if isinstance(content, str):
        return [_write_part(content)]
    parts: list[dict[str, Any]] = []
    for part in cast("list[dict[str, Any]]", content or []):
        if part.get("type") == "text":
            parts.append(_write_part(part["text"]))
        elif "inline_data" in part or part.keys() == {"text"}:
            parts.append(part)
        else:
            raise Refused(
                f"a message holds {format_value(part)}, "
                "but a client of google-genai is sent only texts and media: "
                f"name the model instead, as 'gemini/{model_name}'"
            )
    return parts


def _write_part(part: str | Medium) -> dict[str, Any]:
    if isinstance(part, str):
        return {"text": part}
    return {"inline_data": {"mime_type": part.media_type, "data": part.data}}


def _read_logprobs(candidate: Mapping[str, Any]) -> tuple[Token, ...] | None:
    """Return the tokens of a reply with their alternatives; None if the endpoint sent none."""
    result = get_object(candidate, "logprobs_result")
    chosen: Sequence[Mapping[str, Any]] = result.get("chosen_candidates") or ()
    if not chosen:
        return None
    # One entry for each token, with the candidates for its place.
    no_alternatives: Mapping[str, Any] = {}
    alternatives_by_token: Sequence[Mapping[str, Any]]
    alternatives_by_token = result.get("top_candidates") or [no_alternatives] * len(chosen)
    tokens: list[Token] = []
    for token, entry in zip(chosen, alternatives_by_token, strict=True):
        alternatives: dict[str, float] = {}
        for alternative in entry.get("candidates") or ():
            alternatives[alternative["token"]] = alternative["log_probability"]
        tokens.append(Token(token["token"], token["log_probability"], alternatives))
    return tuple(tokens)
