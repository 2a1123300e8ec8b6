"""Formats: what a command prints of rows as they come, and of what they come to at the end."""

import csv
import re
import sys
from collections.abc import Sequence
from typing import Any, Protocol, TextIO

from assay.cli.junit import Junit
from assay.cli.markdown import Markdown
from assay.cli.rows import json_text, row_data
from assay.cli.showing import printable
from assay.cli.table import RowText, Table
from assay.runs import Row, Summary
from assay.runs.row_rubrics import own_rubric
from assay.runs.summary import names_of
from assay.runs.thresholds import NO_THRESHOLDS, Thresholds


class Format(Protocol):
    """Takes rows one by one, and then their summary, which may also be known before."""

    def begin(self, summary: Summary | None) -> None: ...

    def row(self, row: Row) -> None: ...

    def end(self, summary: Summary) -> None: ...


class JsonLines:
    """One object a rollout, as soon as it is there. The summary is not printed."""

    def __init__(self, out: TextIO, judge: str | None) -> None:
        self.out = out
        self.judge = judge

    def begin(self, summary: Summary | None) -> None:
        """A line a rollout, and no more."""

    def row(self, row: Row) -> None:
        self.out.write(f"{json_text(row_data(row, self.judge))}\n")
        self.out.flush()

    def end(self, summary: Summary) -> None:
        """Every line has been said."""


class Json:
    """One object with `rollouts` and `summary`, written as it grows."""

    def __init__(self, out: TextIO, judge: str | None) -> None:
        self.out = out
        self.judge = judge
        self.between = "\n"

    def begin(self, summary: Summary | None) -> None:
        self.out.write('{"rollouts": [')

    def row(self, row: Row) -> None:
        self.out.write(f"{self.between}{json_text(row_data(row, self.judge))}")
        self.between = ",\n"

    def end(self, summary: Summary) -> None:
        self.out.write(f'\n], "summary": {json_text(summary.to_dict())}}}\n')


class Csv:
    """One row a rollout, with a column for every criterion: of the rubric, and of those that rows bring."""

    FIRST = ("example", "sample", "score", "reward", "errors")

    def __init__(self, out: TextIO, criteria: Sequence[str]) -> None:
        self.names = list(dict.fromkeys(criteria))
        self.writer = csv.writer(out, lineterminator="\n")
        self.waiting: list[tuple[list[Any], dict[str, float]]] | None = None
        """Rows, where the columns are known only after the last of them, for rows bring criteria of their own."""

    def begin(self, summary: Summary | None) -> None:
        if summary is not None:
            # Equal names of a group are numbered in a summary, and summed up here.
            known = {name for name in summary.criteria if _NUMBERED.sub("", name) in self.names}
            self.names += [name for name in summary.criteria if name not in {*self.names, *known}]
        elif not self.names:
            self.waiting = []
            return
        self._write([*self.FIRST, *self.names])

    def row(self, row: Row) -> None:
        metrics = _metrics(row)
        errors = "; ".join(f"{name}: {error}" for name, error in row.errors.items())
        cells: list[Any] = [row.example, row.sample, row.score, row.reward, errors]
        if self.waiting is None:
            self._write([*cells, *map(metrics.get, self.names)])
        else:
            self.waiting.append((cells, metrics))

    def end(self, summary: Summary) -> None:
        waiting, self.waiting = self.waiting, None
        if waiting is not None:
            self.begin(summary)
            for cells, metrics in waiting:
                self._write([*cells, *map(metrics.get, self.names)])

    def _write(self, cells: Sequence[Any]) -> None:
        self.writer.writerow([_cell(cell) if isinstance(cell, str) else cell for cell in cells])


def _metrics(row: Row) -> dict[str, float]:
    """The value of every criterion by the name that it has in a summary; equal names are summed."""
    if own_rubric(row.fields) is None:
        return row.report.metrics
    lines = row.report.lines
    named = zip(names_of(lines, is_own=True), lines, strict=True)
    return {name: line.value for name, line in named if line.value is not None}


def _cell(text: str) -> str:
    """A text so that no program that opens the file takes it for a formula, and no terminal for a command.

    >>> _cell("=1+1"), _cell("-0.5"), _cell("\\x1b[31mred")
    ("'=1+1", '-0.5', '\\\\x1b[31mred')
    """
    if text.startswith(("=", "+", "-", "@", "\t", "\r")) and not _NUMBER.fullmatch(text):
        text = f"'{text}"
    return printable(text)


_NUMBERED = re.compile(r"_\d+$")
_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?")


def format_of(
    name: str,
    title: str,
    *,
    about: str = "",
    criteria: Sequence[str],
    judge: str | None = None,
    thresholds: Thresholds = NO_THRESHOLDS,
    rows: RowText | None = None,
    sums_up: bool = True,
) -> Format:
    """The format of that name, to standard output. `about` is a line about all of it.

    With `rows`, formats for people show every rollout too, and the plain one in these words; unless
    it `sums_up`, only these.
    """
    out = sys.stdout
    if name == "json":
        return Json(out, judge)
    if name == "jsonl":
        return JsonLines(out, judge)
    if name == "csv":
        return Csv(out, criteria)
    if name == "junit":
        return Junit(out, title, thresholds)
    if name == "markdown":
        return Markdown(out, title, about, rows=rows is not None)
    return Table(out, title, about, rows, sums_up=sums_up)
