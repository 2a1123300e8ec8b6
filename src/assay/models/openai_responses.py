"""Call endpoints through OpenAI's Responses API.

It has no seeds. Log-probabilities, tools and audio are not used through it.
"""

from collections.abc import Mapping, Set
from typing import Any

from assay.errors import Refused
from assay.media import Medium
from assay.models.finish_reasons import normalize_finish_reason
from assay.models.model import Reply, Request, Usage, json_schema
from assay.models.openai_chat import read_text
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

MIN_OUTPUT_TOKENS = 16  # the API refuses a smaller limit


class OpenAIResponsesFormat(WireFormat):
    """Write requests and read replies as the Responses API has them."""

    path = "/responses"
    sdk_method = "responses.create"
    maker = "openai"
    unsupported_media = frozenset({"audio"})

    def write_request(self, request: Request, model_name: str, omitted: Set[str]) -> Payload:
        """Return the body of a request, without the optional parameters in `omitted`.

        Raise `Refused` if the request has tools.
        """
        if request.tools:
            raise Refused(
                f"tools are not offered to {model_name} through the Responses API: "
                "remove `api=responses`"
            )
        messages = prepare_messages(request, omitted)
        if not request.verbatim:
            messages = merge_neighbours(messages)
        body: dict[str, Any] = {"model": model_name, **self.extra}
        used = parameters_to_send(request, omitted, "schema", "temperature")
        if "temperature" in used:
            body["temperature"] = request.temperature
        body["input"] = [write_parts(message, _write_part) for message in messages]
        body["store"] = False  # by default OpenAI stores the reply
        if request.max_tokens is not None:
            body["max_output_tokens"] = max(MIN_OUTPUT_TOKENS, request.max_tokens)
        if request.schema is not None and "schema" in used:
            response_format = {
                "type": "json_schema",
                "name": request.schema.__name__,
                "strict": True,
                "schema": json_schema(request.schema),
            }
            body["text"] = {"format": response_format}
        return Payload(body, used)

    def read_reply(self, data: Mapping[str, Any]) -> Reply:
        """Return the text of an answer; its reasoning is left out."""
        parts: list[Mapping[str, Any]] = []
        for item in data["output"]:
            if item["type"] == "message":
                parts += item["content"]
        refusal = "".join(part.get("refusal") or "" for part in parts)
        if refusal:
            text = refusal
            finish_reason = "refusal"
        else:
            text = read_text(parts)
            # The reason is given only if the reply is incomplete; otherwise the status is
            # "completed".
            reason = get_object(data, "incomplete_details").get("reason")
            finish_reason = normalize_finish_reason(reason or data.get("status"))
        return Reply(
            text=text,
            usage=self.read_usage(data),
            model=data.get("model") or "",
            finish_reason=finish_reason,
        )

    def read_usage(self, data: Mapping[str, Any]) -> Usage:
        """Return the tokens that an answer reports."""
        usage = get_object(data, "usage")
        details = get_object(usage, "input_tokens_details")
        return Usage(
            prompt=get_count(usage, "input_tokens"),
            cached=get_count(details, "cached_tokens"),
            completion=get_count(usage, "output_tokens"),
            stored=get_count(details, "cache_write_tokens"),
        )


def _write_part(part: str | Medium) -> dict[str, Any]:
    """Return a text, an image or a PDF as a part of a message."""
    if isinstance(part, str):
        return {"type": "input_text", "text": part}
    if part.kind == "image":
        return {"type": "input_image", "image_url": part.url, "detail": "auto"}
    return {"type": "input_file", "filename": f"{part.address}.pdf", "file_data": part.url}
