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
    """Return the conversation and the other fields of a row, and then its report."""
    lines = list(_list_conversation(row))
    # The run has the last two under the names `example` and `sample` too.
    shown_elsewhere = ("prompt", "completion", "answer", "example_id", "sample")
    other_names = [name for name in row.fields if name not in shown_elsewhere]
    for name in ("answer", *other_names):
        if name in row.fields:
            lines.append(f"{name}: {_format_value(row.fields[name])}")
    for role, spent in (("model", row.spent_on_model), ("judge", row.spent_on_judge)):
        parts: list[str] = []
        if role == "model" and row.model:
            parts.append(row.model)
        if spent.calls or spent.hits:
            parts.append(describe_spending(spent))
        if parts:
            lines.append(f"{role}: {', '.join(parts)}")
    if row.timing:
        seconds = ", ".join(f"{name} {value:.2f} s" for name, value in row.timing.items())
        lines.append(f"timing: {seconds}")
    safe_lines = [escape_control_characters(line) for line in lines]
    return "\n".join([*safe_lines, format_full_row(row, {}, with_names=True)])


def _list_conversation(row: runs.Row) -> Iterator[str]:
    """Yield the lines of prompt and completion: a text beside its name, or a message on each line."""
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
    """Return a piece of a conversation, with who says it and what it is."""
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
        role = "to the judge" if call.get("role", "judge") == "judge" else "to the model under test"
        title = f"request {role}, {call['model']}"
        if call.get("criterion"):
            title += f", about {call['criterion']}"
        lines = [title, _format_request(call)]
        lines += [_REPLY_TITLES[call["source"]], _indent(str(call["reply"]))]
        blocks.append("\n".join(escape_control_characters(line) for line in lines))
    return "\n\n".join(blocks)


def _format_request(call: Mapping[str, Any]) -> str:
    """Return the body of a request as JSON, or its messages if no request was sent for it."""
    body = call.get("request")
    if body is None:
        body = {"messages": call["messages"]}
    return json.dumps(body, indent=2, ensure_ascii=False)
