"""A saved run on the screen."""

import json
from itertools import islice

import click

from assay.cli.exits import FINE
from assay.cli.finishing import code_for, low_rows
from assay.cli.formats import Format, format_of
from assay.cli.options import Showing
from assay.cli.show import Wanted
from assay.cli.showing import printable
from assay.cli.table import RowText, brief_row, whole_row
from assay.runs import Row, Run, RunAbout, RunError, Summary

FOR_PEOPLE = ("table", "markdown")
"""Formats that say it all in the summary, and show rows only on request."""

FIRST = ("prompt", "completion", "answer")
"""Fields that are shown before the others."""


def opened(path: str) -> Run:
    """The run in a folder; a folder that holds none is a mistake of whoever named it."""
    try:
        return Run.open(path)
    except RunError as error:
        raise click.UsageError(str(error)) from None


def show_run(path: str, wanted: Wanted, showing: Showing, *, rows: bool) -> int:
    """Print a run and the rows that are wanted of it, and give the exit code."""
    run = opened(path)
    summary = run.summary()
    format = _format(run, showing, brief_row if rows else None)
    format.begin(summary)
    if rows or showing.format not in FOR_PEOPLE:
        for row in islice(filter(wanted.has, run.rows()), wanted.limit):
            format.row(row)
    format.end(summary)
    if not showing.thresholds.are_set:
        return FINE
    return code_for(summary, showing, low_rows(run.rows(), showing))


def show_saved(folder: str, summary: Summary, showing: Showing) -> None:
    """Print a run that was just saved."""
    run = Run.open(folder)
    format = _format(run, showing, None)
    format.begin(summary)
    if showing.format not in FOR_PEOPLE:
        for row in run.rows():
            format.row(row)
    format.end(summary)


def show_row(path: str, example: str, sample: int, showing: Showing) -> int:
    """Print one row of a run."""
    run = opened(path)
    try:
        row = run.row(example, sample)
    except KeyError as error:
        raise click.UsageError(f"{error.args[0]}: --rows lists those there are") from None
    if showing.format == "table":
        print(_all_of(row))
        return FINE
    format = _format(run, showing, brief_row)
    format.begin(None)
    format.row(row)
    if showing.format in ("json", "junit"):
        format.end(run.summary())
    return FINE


def _format(run: Run, showing: Showing, rows: RowText | None) -> Format:
    about = run.about
    return format_of(
        showing.format,
        str(run.path),
        about=_said(about),
        criteria=[criterion.name for criterion in about.criteria],
        judge=about.judge,
        thresholds=showing.thresholds,
        rows=rows,
    )


def _said(about: RunAbout) -> str:
    """What a run is, in a few words."""
    parts = [f"{about.kind}, {about.created}"]
    if about.rubric is not None:
        parts.append(f"rubric {about.rubric.name or about.rubric.hash[:12]}")
    parts += [f"model {about.model}"] if about.model else []
    parts += [f"judge {about.judge}"] if about.judge else []
    return "; ".join(parts)


def _all_of(row: Row) -> str:
    """Every field of a row, and then its report."""
    names = sorted(row.fields, key=lambda name: FIRST.index(name) if name in FIRST else len(FIRST))
    lines = [f"{name}: {_text(row.fields[name])}" for name in names]
    lines += [f"model: {row.model}"] if row.model else []
    seconds = ", ".join(f"{name} {took:.2f} s" for name, took in row.timing.items())
    lines += [f"timing: {seconds}"] if seconds else []
    return "\n".join([*map(printable, lines), whole_row(row)])


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
