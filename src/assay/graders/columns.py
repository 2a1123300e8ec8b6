"""Show a judge columns of a row: values in a requirement, and a reference."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from assay.criterion import Criterion
from assay.errors import JudgeError
from assay.graders.fences import fence_value, make_tag_escaper
from assay.graders.judge_input import (
    JudgeInput,
    attach_media,
    raise_if_media,
    shows_media,
    write_transcript,
)
from assay.graders.prompt_text import system_prompt
from assay.messages import MEDIA_KINDS, Part, read_parts
from assay.placeholders import empty_column_error, find_column, format_column, parse_template
from assay.wording import format_value

# A value must not contain the tags that separate it from the others.
_escape_tags = make_tag_escaper("column", "passage", "turn", "part")


def fill_requirement(criterion: Criterion, row: Mapping[str, Any]) -> Criterion:
    """Return a criterion with the values of a row in place of its placeholders, such as `{topic}`.

    The values are put in fences, since the model under test may have written them. Raises
    `ColumnError` if the row lacks a column.
    """
    template = parse_template(criterion.requirement or "")
    requirement = template.fill(row)
    fenced = template.fill(row, write_value=fence_value)
    if fenced != requirement:
        requirement = f"{fenced}\n\n{system_prompt('filled')}"
    filled = criterion.with_fields(requirement=requirement)
    # The hash of the template, which is the same for all rows, identifies the question in a run.
    filled.memo["template_hash"] = criterion.question_hash
    return filled


def show_reference(
    judge_input: JudgeInput,
    columns: Sequence[str],
    row: Mapping[str, Any],
    *,
    takes_media: bool = False,
) -> JudgeInput:
    """Return the input with columns of the row as the reference, which the judge is shown.

    A column is a text, a number, messages, or a list of passages; media in it are attached. There is
    at least one column. Raises `ColumnError` if the row lacks one.
    """
    values = [find_column(row, column) for column in columns]
    for column, value in zip(columns, values, strict=True):
        if isinstance(value, str) and not value.strip():
            raise empty_column_error(column)
    is_only_answer = tuple(columns) == ("answer",)
    if is_only_answer and isinstance(values[0], str | int | float):
        # The prompts of judges say that a reference is an answer. Any other column needs a tag with
        # its name.
        reference = format_column(values[0])
        return replace(judge_input, reference=reference, reference_is_tagged=False)
    writer = _ReferenceWriter()
    texts: list[str] = []
    for column, value in zip(columns, values, strict=True):
        name = column.replace('"', "&quot;").replace("<", "&lt;")
        text = writer.write(value, column)
        texts.append(f'<column name="{name}">\n{text}\n</column>')
    media = writer.media
    if media and shows_media() and not takes_media:
        raise_if_media(media, "the judge is asked in text")
    attachments = attach_media(media) if shows_media() else ()
    return replace(
        judge_input,
        reference="\n".join(texts),
        reference_is_tagged=True,
        media=(*attachments, *judge_input.media),
    )


class _ReferenceWriter:
    """Writes columns as text, and collects the media in them."""

    def __init__(self) -> None:
        self.media: list[Part] = []
        self._message_count = 0

    def write(self, value: Any, column: str) -> str:
        """Return the value of a column as text, with tags around its messages or passages."""
        if hasattr(value, "tolist"):  # an array, which Parquet has instead of a list
            value = value.tolist()
        if isinstance(value, bytes | bytearray):
            raise JudgeError(
                f"the reference {column!r} is {format_value(cast('object', value))}: decode the "
                "bytes to a text"
            )
        if _is_content_part(value):
            return self._write_messages([{"role": "user", "content": [value]}])
        if not isinstance(value, list | tuple):
            return _escape_tags(format_column(value))
        entries = cast("Sequence[object]", value)
        if entries and all(map(_is_message, entries)):
            return self._write_messages(entries)
        if entries and all(map(_is_content_part, entries)):
            return self._write_messages([{"role": "user", "content": entries}])
        passages: list[str] = []
        for number, entry in enumerate(entries, start=1):
            text = self.write(entry, column)
            passages.append(f'<passage number="{number}">\n{text}\n</passage>')
        return "\n".join(passages)

    def _write_messages(self, messages: Sequence[object]) -> str:
        """Return messages as a transcript, with an address for each part and without reasoning.

        The addresses start with `r`, since those of the response start with `m`.
        """
        parts: list[Part] = []
        for part in read_parts(None, list(messages)):
            if part.kind == "thinking":
                continue
            address = self._rename(part.address)
            call = self._rename(part.call) if part.call else ""
            # The messages are from the data, as the prompt is. So they may name files in the media
            # folder, which a response may not.
            part = part._replace(address=address, call=call, in_prompt=True)
            parts.append(part)
            if part.kind in MEDIA_KINDS:
                self.media.append(part)
        self._message_count += len(messages)
        return write_transcript(parts, not shows_media())

    def _rename(self, address: str) -> str:
        """Return `r5.call1` for `m2.call1` if three messages were written before."""
        message, dot, rest = address.partition(".")
        return f"r{int(message[1:]) + self._message_count}{dot}{rest}"


def _is_message(value: object) -> bool:
    return isinstance(value, Mapping) and "role" in value


def _is_content_part(value: object) -> bool:
    """Return True for a part of a message, such as an image or a text with a type."""
    return isinstance(value, Mapping) and "type" in value and "role" not in value
