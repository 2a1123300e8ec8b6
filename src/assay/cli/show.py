"""`assay show RUN`: show what a saved run came to, and its rollouts."""

from __future__ import annotations

import json
from itertools import islice

import click

from assay import cli, runs
from assay.display import escape_control_characters
from assay.runs.stats import is_below


@cli.declare("show")
def command(
    options: cli.DisplayOptions,
    run: str = cli.argument("RUN"),
    rows: bool = cli.value_of(),
    example: str | None = cli.value_of(),
    sample: int = cli.value_of(cli.count, 0, show_default=False),
    errors: bool = cli.value_of(),
    below: float | None = cli.value_of(cli.number()),
    task: str | None = cli.value_of(),
    limit: int | None = cli.value_of(cli.count),
) -> int:
    """Print the summary of the saved RUN: errors first, then means, then every criterion.

    A run that is still being written is shown as far as it is.
    """

    def is_wanted(row: runs.Row) -> bool:
        is_low = below is None or (row.score is not None and is_below(row.score, below))
        return is_low and (not errors or bool(row.errors)) and task in (None, row.task)

    found = cli.opened(run)
    rows = rows or errors or (example, below, task) != (None,) * 3
    format = cli.saved_format(run, found.about, options, cli.brief_row if rows else None)
    if example is not None:
        try:
            row = found.row(example, sample)
        except KeyError as error:
            raise click.UsageError(f"{error.args[0]}: --rows lists those there are") from None
        if options.format == "table":
            print(_all_of(row))
            return cli.FINE
        format.begin(None)
        format.row(row)
        if options.format in ("json", "junit", "csv"):
            format.end(found.summary())
        return cli.FINE
    summary = found.summary()
    are_shown = rows or options.format not in cli.FOR_PEOPLE
    format.whole(summary, islice(filter(is_wanted, found.rows()), limit if are_shown else 0))
    if not options.thresholds.are_set:
        return cli.FINE
    low = cli.low_rows(found.rows(), options) if options.fail_rollout_under is not None else []
    return cli.code_for(summary, options, low)


def _all_of(row: runs.Row) -> str:
    first = ("prompt", "completion", "answer")
    names = sorted(row.fields, key=lambda name: first.index(name) if name in first else len(first))
    values = [(name, row.fields[name]) for name in names] + (
        [("model", row.model)] if row.model else []
    )
    lines = [
        f"{name}: {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
        for name, value in values
    ]
    seconds = ", ".join(f"{name} {took:.2f} s" for name, took in row.timing.items())
    lines += [f"timing: {seconds}"] if seconds else []
    return "\n".join([*map(escape_control_characters, lines), cli.whole_row(row)])
