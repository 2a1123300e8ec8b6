"""Lay out tables and notes as text, Markdown or HTML, for terminals, files and notebooks.

What a model wrote is never printed as it is: a terminal would obey its control characters.
"""

import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from importlib import import_module
from typing import Any, NamedTuple

_COLOURS = {"green": "32", "yellow": "33", "red": "31", "bold": "1"}
_CONTROLS = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f]"
)  # control characters but for tab and new line


def painted(text: str, colour: str) -> str:
    """The text in that colour; as it is unless standard output is a terminal that shows colours."""
    is_wanted = (
        sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    )
    return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m" if colour and is_wanted else text


def printable(text: str) -> str:
    """The text without what would act on a terminal, since a model may have written it."""
    return _CONTROLS.sub(lambda found: repr(found[0])[1:-1], text)


def on_one_line(text: str) -> str:
    """The text as `printable`, with its line ends as spaces."""
    return printable(" ".join(text.split()))


def shortened(text: str, most: int = 160) -> str:
    """The text on one line, cut where that grows too long; `--json` has all of it."""
    words = on_one_line(text)
    return words if len(words) <= most else f"{words[:most]}…"


def chance(p: float | None) -> str:
    """A p-value as people write it."""
    return "–" if p is None else "< 0.001" if p < 0.001 else f"{p:.3f}"


class Section(NamedTuple):
    """Rows of cells under the names of their columns; the first column names the row."""

    columns: Sequence[str]
    rows: Sequence[Sequence[object]]


def cell_text(value: object) -> str:
    """A number to three places, a count with its thousands apart, a dash for nothing, anything else in its words."""
    if value is None:
        return "–"
    if isinstance(value, int | float):
        return f"{value:,}" if isinstance(value, int) else f"{value:.3g}"
    return on_one_line(str(value))


def laid_out(section: Section) -> str:
    """A section as columns padded with spaces."""
    table = [[cell_text(cell) for cell in cells] for cells in (section.columns, *section.rows)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in table]
    return "\n".join([painted(lines[0], "bold"), *lines[1:]])


def escaped(value: object) -> str:
    """A value so that Markdown shows it as it is, on one line."""
    return re.sub(r"([\\`*_\[\]<>|~])", r"\\\1", cell_text(value))


def markdown_table(section: Section) -> str:
    """A section as a table of Markdown."""
    head, *rows = (
        f"| {' | '.join(map(escaped, cells))} |" for cells in (section.columns, *section.rows)
    )
    return "\n".join([head, f"|{'---|' * len(section.columns)}", *rows])


class Toned(NamedTuple):
    """A cell with a tone: `good`, `bad` or `error`."""

    text: str
    tone: str

    def __str__(self) -> str:
        return self.text


def html_table(section: Section) -> str:
    """A section as a table of HTML, in which every text is escaped."""
    head = "".join(f"<th>{escape(cell_text(name))}</th>" for name in section.columns)
    rows = ""
    for row in section.rows:
        tones = (f' class="{cell.tone}"' if isinstance(cell, Toned) else "" for cell in row)
        cells = (
            f"<td{tone}>{escape(cell_text(cell))}</td>"
            for cell, tone in zip(row, tones, strict=True)
        )
        rows += f"<tr>{''.join(cells)}</tr>"
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


@dataclass(frozen=True)
class Page:
    """A title, tables under it, and sentences under those; and all of it as data."""

    title: str
    sections: Sequence[Section]
    notes: Sequence[str] = ()
    data: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def text(self, layout: str = "table") -> str:
        """The page as `table`, `markdown` or `html`, without tables that have no rows.

        >>> Page("Two runs", [Section(("", "mean"), [("score", 0.5)])]).text("markdown")
        '## Two runs\\n\\n|  | mean |\\n|---|---|\\n| score | 0.5 |'
        """
        sections = [section for section in self.sections if section.rows]
        if layout == "html":
            from pkgutil import get_data  # only a notebook needs it

            notes = "".join(f"<li>{escape(on_one_line(note))}</li>" for note in self.notes)
            parts = [f"<b>{escape(on_one_line(self.title))}</b>", *map(html_table, sections)]
            style = f"<style>{(get_data('assay', 'notebook.css') or b'').decode()}</style>"
            return "".join(
                [
                    style,
                    '<div class="assay">',
                    *parts,
                    f"<ul>{notes}</ul>" if notes else "",
                    "</div>",
                ]
            )
        if layout == "markdown":
            parts = [f"## {escaped(self.title)}", *map(markdown_table, sections)]
            lines = [f"- {escaped(note)}" for note in self.notes]
        else:
            parts = [painted(printable(self.title), "bold"), *map(laid_out, sections)]
            lines = [printable(note) for note in self.notes]
        return "\n\n".join([*parts, "\n".join(lines)] if lines else parts)


def notebook_bar() -> Callable[[str, int, int | None], None] | None:
    """A progress bar in the output of a notebook's cell, called with a text and how much is done; None elsewhere."""
    ipython: Any = sys.modules.get("IPython")
    if ipython is None or not hasattr(ipython.get_ipython(), "kernel"):
        return None
    shown: Any = import_module("IPython.display")
    handle: Any = None

    def tell(text: str, done: int, total: int | None) -> None:
        nonlocal handle
        bar = (
            f'<progress value="{done}" max="{max(1, total)}"></progress> '
            if total is not None
            else ""
        )
        data = {"text/html": f'<div class="assay">{bar}{escape(text)}</div>', "text/plain": text}
        if handle is None:
            handle = shown.display(data, raw=True, display_id=True)
        else:
            handle.update(data, raw=True)

    return tell
