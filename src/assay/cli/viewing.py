"""A saved run on the screen."""

import json
from itertools import islice

import click

from assay.cli.formats import FOR_PEOPLE, brief_row, whole_row
from assay.cli.options import Showing
from assay.cli.root import FINE
from assay.cli.runner import code_for, low_rows, saved_run_format
from assay.cli.show import Wanted
from assay.cli.sources import opened
from assay.cli.terminal import printable
from assay.runs import Row

FIRST = ("prompt", "completion", "answer")
"""Fields that are shown before the others."""


def show_run(path: str, wanted: Wanted, showing: Showing, *, rows: bool) -> int:
    """Print a run and the rows that are wanted of it, and give the exit code."""
    run = opened(path)
    summary = run.summary()
    format = saved_run_format(run, showing, brief_row if rows else None)
    format.begin(summary)
    if rows or showing.format not in FOR_PEOPLE:
        for row in islice(filter(wanted.has, run.rows()), wanted.limit):
            format.row(row)
    format.end(summary)
    if not showing.thresholds.are_set:
        return FINE
    return code_for(summary, showing, low_rows(run.rows(), showing))


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
    format = saved_run_format(run, showing, brief_row)
    format.begin(None)
    format.row(row)
    if showing.format in ("json", "junit"):
        format.end(run.summary())
    return FINE


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
