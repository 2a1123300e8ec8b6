"""Markdown, for a comment on a change: what rows come to, and the rows themselves on request."""

import re
from typing import TextIO

from assay.cli.overview import Section, headline, number, sections, spending_line
from assay.cli.rows import row_name
from assay.cli.showing import on_one_line
from assay.runs import Row, Summary

_SPECIAL = re.compile(r"([\\`*_\[\]<>|~])")
_COLUMNS = ("rollout", "score", "reward", "not met", "errors")


class Markdown:
    """A heading, tables of what the rows come to, and a table of the rows if they are wanted."""

    def __init__(self, out: TextIO, title: str, about: str, *, rows: bool) -> None:
        self.out = out
        self.title = title
        self.about = about
        self.rows = rows
        self.told = self.began = False

    def begin(self, summary: Summary | None) -> None:
        print(f"## {escaped(self.title)}\n", file=self.out)
        if self.about:
            print(f"{escaped(self.about)}\n", file=self.out)
        if summary is not None:
            self._tell(summary)

    def row(self, row: Row) -> None:
        if not self.rows:
            return
        if not self.began:
            print(_header(_COLUMNS), file=self.out)
            self.began = True
        lost = [line.name for line in row.report.lines if line.passed is False and line.counted]
        errors = "; ".join(f"{name}: {error}" for name, error in row.errors.items())
        cells = (row_name(row), number(row.score), number(row.reward), ", ".join(lost), errors)
        print(_line(cells), file=self.out)

    def end(self, summary: Summary) -> None:
        if self.began:
            print(file=self.out)
        if not self.told:
            self._tell(summary)

    def _tell(self, summary: Summary) -> None:
        self.told = True
        print(f"{headline(summary)}\n", file=self.out)
        for section in sections(summary):
            print(f"{markdown_table(section)}\n", file=self.out)
        if spending := spending_line(summary):
            print(f"{spending}\n", file=self.out)


def markdown_table(section: Section) -> str:
    """A section as a table of Markdown."""
    return "\n".join([_header(section.columns), *map(_line, section.rows)])


def _header(columns: tuple[str, ...]) -> str:
    return f"{_line(columns)}\n|{'---|' * len(columns)}"


def _line(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(map(escaped, cells))} |"


def escaped(text: str) -> str:
    """The text so that Markdown shows it as it is, on one line.

    >>> escaped("a|b *c*")
    'a\\\\|b \\\\*c\\\\*'
    """
    return _SPECIAL.sub(r"\\\1", on_one_line(text))
