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
        """Return the arguments of `generate_content`, without the optional ones in `omitted`.

        Raise `Refused` if the request has tools.
        """
        if request.tools:
            raise Refused(
                "tools are not offered to a model through a client of google-genai: "
                f"name the model instead, as 'gemini/{model_name}'"
            )
        system_parts, contents = _write_messages(request, model_name, omitted)
        config = dict(self.extra)
        if system_parts:
            config["system_instruction"] = [*config.get("system_instruction", ()), *system_parts]
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
        is_prompt_blocked = bool(get_object(data, "prompt_feedback").get("block_reason"))
        candidate: Mapping[str, Any]
        if is_prompt_blocked and not data.get("candidates"):
            # The answer holds no candidate: read it as one that the safety filter stopped.
            candidate = {"finish_reason": "SAFETY"}
        else:
            candidate = data["candidates"][0]
        texts: list[str] = []
        for part in get_object(candidate, "content").get("parts") or ():
            if not part.get("thought"):
                texts.append(part.get("text") or "")
        finish_reason = candidate.get("finish_reason")  # a text, or an enum of google-genai
        finish_reason = getattr(finish_reason, "value", finish_reason)
        return Reply(
            text="".join(texts),
            usage=self.read_usage(data),
            model=data.get("model_version") or "",
            finish_reason=normalize_finish_reason(finish_reason),
            logprobs=_read_logprobs(candidate),
        )

    def read_usage(self, data: Mapping[str, Any]) -> Usage:
        """Return the tokens that an answer reports; those of thoughts count as completion."""
        usage = get_object(data, "usage_metadata")
        answer = get_count(usage, "candidates_token_count")
        thoughts = get_count(usage, "thoughts_token_count")
        return Usage(
            prompt=get_count(usage, "prompt_token_count"),
            cached=get_count(usage, "cached_content_token_count"),
            completion=answer + thoughts,
        )


def _write_messages(
    request: Request, model_name: str, omitted: Set[str]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the parts of the system prompt, and the other messages."""
    messages = prepare_messages(request, omitted)
    if not request.verbatim:
        messages = merge_neighbours(messages)
    system_parts: list[dict[str, Any]] = []
    contents: list[dict[str, Any]] = []
    for message in messages:
        role = message["role"]
        parts = _write_content(message, model_name)
        if role == "system":
            system_parts += parts
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
    return system_parts, contents


def _write_content(message: Message, model_name: str) -> list[dict[str, Any]]:
    """Return the content of a message as Gemini's parts.

    The content may already be a list of parts, in the format of Gemini or of OpenAI. Raise
    `Refused` for a part that is neither text nor media.
    """
    content = write_parts(message, _write_part).get("content")
    if isinstance(content, str):
        return [_write_part(content)]
    parts: list[dict[str, Any]] = []
    for part in cast("list[dict[str, Any]]", content or []):
        is_openai_text = part.get("type") == "text"
        is_gemini_text = part.keys() == {"text"}
        is_gemini_medium = "inline_data" in part
        if is_openai_text:
            parts.append(_write_part(part["text"]))
        elif is_gemini_text or is_gemini_medium:
            parts.append(part)
        else:
            raise Refused(
                f"a message holds {format_value(part)}, "
                "but a client of google-genai is sent only texts and media: "
                f"name the model instead, as 'gemini/{model_name}'"
            )
    return parts


def _write_part(part: str | Medium) -> dict[str, Any]:
    """Return a text or a medium as a part of Gemini's."""
    if isinstance(part, str):
        return {"text": part}
    return {"inline_data": {"mime_type": part.media_type, "data": part.data}}


def _read_logprobs(candidate: Mapping[str, Any]) -> tuple[Token, ...] | None:
    """Return the tokens of a reply with their alternatives; None if the endpoint sent none."""
    result = get_object(candidate, "logprobs_result")
    chosen_tokens: Sequence[Mapping[str, Any]] = result.get("chosen_candidates") or ()
    if not chosen_tokens:
        return None
    # One entry for each token, with the candidates for its position.
    top_candidates: Sequence[Mapping[str, Any]] = result.get("top_candidates") or ()
    if not top_candidates:
        top_candidates = [{"candidates": None}] * len(chosen_tokens)
    tokens: list[Token] = []
    for token, entry in zip(chosen_tokens, top_candidates, strict=True):
        alternatives: dict[str, float] = {}
        for alternative in entry.get("candidates") or ():
            alternatives[alternative["token"]] = alternative["log_probability"]
        tokens.append(Token(token["token"], token["log_probability"], alternatives))
    return tuple(tokens)
