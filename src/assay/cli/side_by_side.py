"""Print the transcripts of two rollouts of one example side by side."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterator, Sequence
from itertools import zip_longest

from assay import runs
from assay.cli.transcript import format_part
from assay.display import Section, colour_text, escape_control_characters
from assay.messages import read_parts

_GAP = "  │  "
_MIN_WIDTH = 20  # of a column, in characters


def build_transcript_table(title: str, names: tuple[str, str], pair: Sequence[runs.Row]) -> Section:
    """Return a table of both rollouts, with their messages in two columns under the names."""
    return Section((title, *names), [("", *cells) for cells in _pair_messages(pair)])


def format_transcripts(title: str, names: tuple[str, str], pair: Sequence[runs.Row]) -> str:
    """Return both transcripts as two columns of wrapped text, as wide as the terminal.

    `names` are the headings of the columns.
    """
    terminal_width = shutil.get_terminal_size((120, 24)).columns
    width = max(_MIN_WIDTH, (terminal_width - len(_GAP)) // 2)
    lines = [colour_text(escape_control_characters(title), "bold")]
    lines += _format_cells(names, width)
    lines.append("─" * (2 * width + len(_GAP)))
    for cells in _pair_messages(pair):
        lines += _format_cells(cells, width)
    return "\n".join(lines)


def _pair_messages(pair: Sequence[runs.Row]) -> Iterator[tuple[str, str]]:
    """Yield the messages of both conversations beside each other, as text.

    The completions start on the same line, even if one prompt has more messages than the other.
    """
    first, second = [
        read_parts(row.fields.get("prompt"), row.fields.get("completion")) for row in pair
    ]
    for in_prompt in (True, False):
        first_texts = [format_part(part) for part in first if part.in_prompt is in_prompt]
        second_texts = [format_part(part) for part in second if part.in_prompt is in_prompt]
        yield from zip_longest(first_texts, second_texts, fillvalue="")


def _format_cells(cells: tuple[str, str], width: int) -> Iterator[str]:
    """Yield the lines of two texts that stand beside each other."""
    left, right = [_wrap(cell, width) for cell in cells]
    for left_line, right_line in zip_longest(left, right, fillvalue=""):
        yield f"{left_line:<{width}}{_GAP}{right_line}".rstrip()


def _wrap(text: str, width: int) -> list[str]:
    """Return the lines of a text, with long ones divided at spaces; empty lines are kept."""
    lines: list[str] = []
    for line in escape_control_characters(text).expandtabs(4).splitlines():
        lines += textwrap.wrap(line, width, drop_whitespace=False) or [""]
    return lines
