"""Formats: what a command prints of rows as they come, and of what they come to at the end."""

import csv
import sys
from collections.abc import Sequence
from typing import Any, Protocol, TextIO

from assay.cli.junit import Junit
from assay.cli.markdown import Markdown
from assay.cli.rows import json_text, row_data
from assay.cli.table import RowText, Table
from assay.runs import Row, Summary
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
    """One row a rollout, with a column for every criterion of the rubric."""

    FIRST = ("example", "sample", "score", "reward", "errors")

    def __init__(self, out: TextIO, criteria: Sequence[str]) -> None:
        self.names = list(dict.fromkeys(criteria))
        self.writer = csv.writer(out, lineterminator="\n")

    def begin(self, summary: Summary | None) -> None:
        self.writer.writerow([*self.FIRST, *self.names, *self._others("others")])

    def row(self, row: Row) -> None:
        metrics = row.report.metrics
        errors = "; ".join(f"{name}: {error}" for name, error in row.errors.items())
        cells: list[Any] = [row.example, row.sample, row.score, row.reward, errors]
        cells += [metrics.pop(name, None) for name in self.names]
        self.writer.writerow([*cells, *self._others(json_text(metrics) if metrics else "")])

    def _others(self, cell: str) -> list[str]:
        """A last cell where the criteria are not known before, since every row has its own."""
        return [] if self.names else [cell]

    def end(self, summary: Summary) -> None:
        """Every row has been said."""


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
