"""Plain text for people: what rows come to, and the rows themselves on request."""

from collections.abc import Callable
from typing import TextIO

from assay.cli.colours import painted
from assay.cli.overview import Section, headline, number, sections, spending_line
from assay.cli.rows import row_name
from assay.cli.showing import on_one_line, shown_report
from assay.runs import Row, Summary

RowText = Callable[[Row], str]


class Table:
    """Prints rows as they come, if they are wanted, and the summary where it is known."""

    def __init__(
        self, out: TextIO, title: str, about: str, rows: RowText | None, *, sums_up: bool
    ) -> None:
        self.out = out
        self.title = title
        self.about = about
        self.rows = rows
        self.told = not sums_up

    def begin(self, summary: Summary | None) -> None:
        if summary is not None:
            self._tell(summary)
            if self.rows is not None:
                print(file=self.out)

    def row(self, row: Row) -> None:
        if self.rows is not None:
            print(self.rows(row), file=self.out, flush=True)

    def end(self, summary: Summary) -> None:
        if not self.told:
            self._tell(summary)

    def _tell(self, summary: Summary) -> None:
        self.told = True
        head = headline(summary)
        head = painted(head, "red") if summary.unscored else head
        print(f"{on_one_line(self.title)}: {head}", file=self.out)
        if self.about:
            print(on_one_line(self.about), file=self.out)
        for section in sections(summary):
            print(f"\n{laid_out(section)}", file=self.out)
        if spending := spending_line(summary):
            print(f"\n{spending}", file=self.out)


def laid_out(section: Section) -> str:
    """A section as columns padded with spaces."""
    rows = [tuple(map(on_one_line, row)) for row in section.rows]
    widths = [max(map(len, column)) for column in zip(section.columns, *rows, strict=True)]
    lines = [_line(section.columns, widths), *(_line(row, widths) for row in rows)]
    return "\n".join([painted(lines[0], "bold"), *lines[1:]])


def _line(cells: tuple[str, ...], widths: list[int]) -> str:
    pairs = zip(cells, widths, strict=True)
    return "  ".join(f"{cell:<{width}}" for cell, width in pairs).rstrip()


def whole_row(row: Row) -> str:
    """A row with every criterion, its verdict and its reason."""
    if row.error is not None:
        said = on_one_line(row.error)
        return f"{on_one_line(row_name(row))}: {painted('nothing to score', 'red')}, {said}"
    return shown_report(row_name(row), row.report, coloured=True)


def brief_row(row: Row) -> str:
    """A row on one line: score, name, and where it lost."""
    lost = [line.name for line in row.report.lines if line.passed is False and line.counted]
    said = f"  {on_one_line(', '.join(lost))}" if lost else ""
    if row.errors:
        errors = [on_one_line(f"{name}: {error}") for name, error in row.errors.items()]
        said = painted("".join(f"  {error}" for error in errors), "red")
    return f"{number(row.score):<6} {on_one_line(row_name(row))}{said}"
