"""Format tables and notes as text, Markdown or HTML, for terminals, files and notebooks.

Text written by a model is never printed as it is: a terminal would obey its control characters.
"""

import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from importlib import import_module
from typing import Any, NamedTuple

_COLOUR_CODES = {"green": "32", "yellow": "33", "red": "31", "bold": "1"}
_TONE_COLOURS = {"good": "green", "bad": "red", "error": "red", "": ""}
# All control characters except tab and newline.
_CONTROL_CHARACTERS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_MARKDOWN_CHARACTERS = re.compile(r"([\\`*_\[\]<>|~])")


class Section(NamedTuple):
    """A table: the names of its columns, and rows of cells. The first column names the row."""

    columns: Sequence[str]
    rows: Sequence[Sequence[object]]


@dataclass(frozen=True)
class Page:
    """A title, tables, and notes below the tables. `data` holds the same content as JSON values."""

    title: str
    sections: Sequence[Section]
    notes: Sequence[str] = ()
    data: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def text(self, layout: str = "table") -> str:
        """Return the page as `table`, `markdown` or `html`; tables without rows are left out.

        >>> Page("Two runs", [Section(("", "mean"), [("score", 0.5)])]).text("markdown")
        '## Two runs\\n\\n|  | mean |\\n|---|---|\\n| score | 0.5 |'
        """
        sections = [section for section in self.sections if section.rows]
        if layout == "html":
            return self._to_html(sections)
        if layout == "markdown":
            paragraphs = [f"## {escape_markdown(self.title)}"]
            paragraphs.extend(format_markdown_table(section) for section in sections)
            notes = [f"- {escape_markdown(note)}" for note in self.notes]
        else:
            paragraphs = [colour_text(escape_control_characters(self.title), "bold")]
            paragraphs.extend(format_table(section) for section in sections)
            notes = [escape_control_characters(note) for note in self.notes]
        if notes:
            paragraphs.append("\n".join(notes))
        return "\n\n".join(paragraphs)

    def _to_html(self, sections: Sequence[Section]) -> str:
        """Return the page as HTML with its own style sheet, for a notebook."""
        from pkgutil import get_data  # only notebooks need it

        style_sheet = (get_data("assay", "notebook.css") or b"").decode()
        parts = [
            f"<style>{style_sheet}</style>",
            '<div class="assay">',
            f"<b>{escape(format_line(self.title))}</b>",
        ]
        parts.extend(format_html_table(section) for section in sections)
        if self.notes:
            items = [f"<li>{escape(format_line(note))}</li>" for note in self.notes]
            parts.append(f"<ul>{''.join(items)}</ul>")
        parts.append("</div>")
        return "".join(parts)


def format_table(section: Section) -> str:
    """Return a section as columns padded with spaces."""
    rows = [section.columns, *section.rows]
    columns = zip(*rows, strict=True)
    widths = [max(len(format_cell(cell)) for cell in column) for column in columns]
    lines: list[str] = []
    for row in rows:
        line = ""
        gap = 0  # spaces between the last text and the next one
        for cell, width in zip(row, widths, strict=True):
            text = format_cell(cell)
            if text:
                line += " " * gap + _colour_cell(cell, text)
                gap = 0
            gap += width - len(text) + 2
        lines.append(line)
    lines[0] = colour_text(lines[0], "bold")
    return "\n".join(lines)


def _colour_cell(cell: object, text: str) -> str:
    if not isinstance(cell, TonedCell):
        return text
    return colour_text(text, _TONE_COLOURS[cell.tone])


def format_markdown_table(section: Section) -> str:
    """Return a section as a Markdown table."""
    lines: list[str] = []
    for row in (section.columns, *section.rows):
        cells = [escape_markdown(cell) for cell in row]
        lines.append(f"| {' | '.join(cells)} |")
    separator = f"|{'---|' * len(section.columns)}"
    return "\n".join([lines[0], separator, *lines[1:]])


class TonedCell(NamedTuple):
    """A cell in a colour, on terminals and in HTML: its tone is `good`, `bad`, `error` or empty."""

    text: str
    tone: str

    def __str__(self) -> str:
        return self.text


def format_html_table(section: Section) -> str:
    """Return a section as an HTML table in which every text is escaped."""
    header = "".join(f"<th>{escape(format_cell(name))}</th>" for name in section.columns)
    rows: list[str] = []
    for row in section.rows:
        cells: list[str] = []
        for cell in row:
            attribute = f' class="{cell.tone}"' if isinstance(cell, TonedCell) else ""
            cells.append(f"<td{attribute}>{escape(format_cell(cell))}</td>")
        rows.append(f"<tr>{''.join(cells)}</tr>")
    return f"<table><thead><tr>{header}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def format_cell(value: object) -> str:
    """Return a cell as text.

    A float has three significant digits, a whole number has thousands separators, and None is a
    dash.
    """
    if value is None:
        return "–"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.3g}"
    return format_line(str(value))


def escape_markdown(value: object) -> str:
    """Return a cell as text for Markdown, on one line and with special characters escaped."""
    return _MARKDOWN_CHARACTERS.sub(r"\\\1", format_cell(value))


def colour_text(text: str, colour: str) -> str:
    """Return the text in a colour if standard output is a terminal that shows colours.

    An empty colour leaves the text as it is. NO_COLOR and FORCE_COLOR switch colours off and on.
    """
    if not colour or not _shows_colours():
        return text
    return f"\x1b[{_COLOUR_CODES[colour]}m{text}\x1b[0m"


def _shows_colours() -> bool:
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def escape_control_characters(text: str) -> str:
    """Return the text with control characters escaped, so that it cannot control a terminal."""

    def escape_character(match: re.Match[str]) -> str:
        return repr(match[0])[1:-1]  # `\x1b` for ESC: the repr without its quotes

    return _CONTROL_CHARACTERS.sub(escape_character, text)


def format_line(text: str) -> str:
    """Return the text on one line, with control characters escaped."""
    return escape_control_characters(" ".join(text.split()))


def shorten_line(text: str, most: int = 160) -> str:
    """Return the text on one line, cut after `most` characters."""
    line = format_line(text)
    if len(line) <= most:
        return line
    return f"{line[:most]}…"


def shorten_middle(text: str, most: int = 160) -> str:
    """Return the text on one line; of a long one, the beginning and the end.

    The end of an error's message says what to do.

    >>> shorten_middle("http://127.0.0.1:9 gave no answer: try again later", 30)
    'http://127.0.0 … y again later'
    """
    line = format_line(text)
    if len(line) <= most:
        return line
    end_length = (most - 3) // 2
    beginning_length = most - 3 - end_length
    return f"{line[:beginning_length]} … {line[-end_length:]}"


def format_p_value(p: float | None) -> str:
    """Return a p-value as text: `0.012`, `< 0.001`, or a dash for None."""
    if p is None:
        return "–"
    if p < 0.001:
        return "< 0.001"
    return f"{p:.3f}"


def format_p_value_equation(p: float | None) -> str:
    """Return a p-value as part of a sentence: `p = 0.012` or `p < 0.001`."""
    text = format_p_value(p)
    return f"p {text}" if text.startswith("<") else f"p = {text}"


def make_notebook_bar() -> Callable[[str, int, int | None], None] | None:
    """Return a function that shows a progress bar in a notebook; None outside of notebooks.

    The function takes a text, the number of finished items, and the total or None.
    """
    ipython: Any = sys.modules.get("IPython")
    if ipython is None or not hasattr(ipython.get_ipython(), "kernel"):
        return None
    ipython_display: Any = import_module("IPython.display")
    handle: Any = None  # of the output in the notebook, once something is shown

    def show_progress(text: str, done: int, total: int | None) -> None:
        """Show the bar; after the first call, replace what is shown."""
        nonlocal handle
        bar = ""
        if total is not None:
            bar = f'<progress value="{done}" max="{max(1, total)}"></progress> '
        data = {"text/html": f'<div class="assay">{bar}{escape(text)}</div>', "text/plain": text}
        if handle is None:
            handle = ipython_display.display(data, raw=True, display_id=True)
        else:
            handle.update(data, raw=True)

    return show_progress
