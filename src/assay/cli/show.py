"""`assay show RUN`: what a saved run came to, and its rollouts."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

import click

from assay.cli.formats import FOR_PEOPLE, brief_row, whole_row
from assay.cli.options import DisplayOptions, bundled, count, display_options, files, number
from assay.cli.root import FINE, Command
from assay.cli.terminal import printable
from assay.runs.thresholds import is_below

if TYPE_CHECKING:
    from assay.runs import Row


@dataclass(frozen=True)
class Wanted:
    """The rollouts that are to be shown."""

    errors: bool
    below: float | None
    task: str | None
    limit: int | None

    @property
    def is_some(self) -> bool:
        """Whether some are picked out."""
        return self.errors or self.below is not None or self.task is not None

    def has(self, row: Row) -> bool:
        """Whether a row is one of them."""
        low = self.below is None or (row.score is not None and is_below(row.score, self.below))
        return low and (not self.errors or bool(row.errors)) and self.task in (None, row.task)


_wanted = bundled(
    "wanted",
    Wanted,
    click.option("--errors", is_flag=True, help="Only rollouts where something went wrong."),
    click.option("--below", type=number(), metavar="SCORE", help="Only rollouts with a score below this."),
    click.option("--task", help="Only rollouts of this task."),
    click.option("--limit", type=count(), metavar="N", help="At most so many rollouts."),
)


@click.command(
    "show",
    cls=Command,
    epilog="Exit code: 0; with a threshold 100 when it is missed, and 1 when a rollout has no score or "
    "the run is not complete; 2 bad usage.",
    example="assay show run --errors",
)
@click.argument("run", shell_complete=files)
@click.option("--rows", is_flag=True, help="Show the rollouts too, a line each.")
@click.option("--row", "example", metavar="EXAMPLE", help="Show all of one rollout.")
@click.option("--sample", type=count(), default=0, metavar="N", help="Which rollout of the EXAMPLE, from 0.")
@_wanted
@display_options
def command(run: str, rows: bool, example: str | None, sample: int, wanted: Wanted, display: DisplayOptions) -> int:
    """Print what the saved RUN came to: errors first, then means, then every criterion.

    A run that is still being written is shown as far as it is.
    """

    if example is not None:
        return show_row(run, example, sample, display)
    return show_run(run, wanted, display, rows=rows or wanted.is_some)


FIRST = ("prompt", "completion", "answer")
"""Fields that are shown before the others."""


def show_run(path: str, wanted: Wanted, display: DisplayOptions, *, rows: bool) -> int:
    """Print a run and the rows that are wanted of it, and give the exit code."""
    from assay.cli.runner import code_for, low_rows, saved_run_format
    from assay.cli.sources import opened

    run = opened(path)
    summary = run.summary()
    format = saved_run_format(str(run.path), run.about, display, brief_row if rows else None)
    format.begin(summary)
    if rows or display.format not in FOR_PEOPLE:
        for row in islice(filter(wanted.has, run.rows()), wanted.limit):
            format.row(row)
    format.end(summary)
    if not display.thresholds.are_set:
        return FINE
    return code_for(summary, display, low_rows(run.rows(), display))


def show_row(path: str, example: str, sample: int, display: DisplayOptions) -> int:
    """Print one row of a run."""
    from assay.cli.runner import saved_run_format
    from assay.cli.sources import opened

    run = opened(path)
    try:
        row = run.row(example, sample)
    except KeyError as error:
        raise click.UsageError(f"{error.args[0]}: --rows lists those there are") from None
    if display.format == "table":
        print(_all_of(row))
        return FINE
    format = saved_run_format(str(run.path), run.about, display, brief_row)
    format.begin(None)
    format.row(row)
    if display.format in ("json", "junit"):
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
