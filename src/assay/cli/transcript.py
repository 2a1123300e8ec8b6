"""Format one rollout as text: its conversation, columns, cost and time, and its requests to models."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from assay import runs
from assay.cli.formats import describe_spending, format_full_row
from assay.display import escape_control_characters
from assay.messages import Part, read_parts


def format_whole_row(row: runs.Row) -> str:
    """Return a row as text: conversation, other columns, cost and time, and then its report."""
    lines = list(_list_conversation(row))
    if "answer" in row.fields:
        lines.append(f"answer: {_format_value(row.fields['answer'])}")
    # The conversation is above. The example and the sample are in the title of the report.
    shown_elsewhere = ("prompt", "completion", "answer", "example_id", "sample")
    for name, value in row.fields.items():
        if name not in shown_elsewhere:
            lines.append(f"{name}: {_format_value(value)}")
    model_parts = [row.model] if row.model else []
    if row.spent_on_model.calls or row.spent_on_model.hits:
        model_parts.append(describe_spending(row.spent_on_model))
    if model_parts:
        lines.append(f"model: {', '.join(model_parts)}")
    if row.spent_on_judge.calls or row.spent_on_judge.hits:
        lines.append(f"judge: {describe_spending(row.spent_on_judge)}")
    if row.timing:
        seconds = ", ".join(f"{name} {value:.2f} s" for name, value in row.timing.items())
        lines.append(f"timing: {seconds}")
    safe_lines = [escape_control_characters(line) for line in lines]
    report = format_full_row(row, known_errors={}, with_names=True)
    return "\n".join([*safe_lines, report])


def _list_conversation(row: runs.Row) -> Iterator[str]:
    """Yield the prompt and the completion: a text on the line of its name, messages below it."""
    prompt = row.fields.get("prompt")
    completion = row.fields.get("completion")
    parts = read_parts(prompt, completion)
    for name, value, in_prompt in (("prompt", prompt, True), ("completion", completion, False)):
        if isinstance(value, str):
            yield f"{name}: {value}"
        elif value is not None:
            yield name
            for part in parts:
                if part.in_prompt is in_prompt:
                    yield _indent(format_part(part))


def format_part(part: Part) -> str:
    """Return a piece of a conversation, such as a text or a tool call, after who says it."""
    if part.kind == "text":
        return f"{part.role}: {part.text}"
    if part.kind == "call":
        return f"{part.role} calls {part.text}"
    if part.kind == "result":
        return f"{part.role} returns: {part.text}"
    return f"{part.role}, {part.kind}: {part.text}"


def _indent(text: str) -> str:
    return "  " + text.replace("\n", "\n    ")


def _format_value(value: object) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)


# What comes before a reply, by its source.
_REPLY_TITLES: Final = {
    "model": "reply",
    "cache": "reply from the cache: the request was not sent",
    "flight": "reply to an identical request of another rollout: this request was not sent",
    "error": "no reply",
}


def format_requests(row: runs.Row) -> str:
    """Return every request that was saved with a row, as it was sent, and what was replied."""
    blocks: list[str] = []
    for call in row.calls:
        is_to_judge = call.get("role", "judge") == "judge"
        role = "the judge" if is_to_judge else "the model under test"
        title = f"request to {role}, {call['model']}"
        if call.get("criterion"):
            title += f", about {call['criterion']}"
        reply_title = _REPLY_TITLES[call["source"]]
        lines = [title, _format_request(call), reply_title, _indent(str(call["reply"]))]
        blocks.append("\n".join(escape_control_characters(line) for line in lines))
    return "\n\n".join(blocks)


def _format_request(call: Mapping[str, Any]) -> str:
    """Return the body of a request as JSON, or its messages if no request was sent for it."""
    body = call.get("request")
    if body is None:
        body = {"messages": call["messages"]}
    return json.dumps(body, indent=2, ensure_ascii=False)
