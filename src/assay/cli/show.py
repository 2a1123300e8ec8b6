"""`assay show RUN`: what a saved run came to, and its rollouts."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from assay.cli.options import Showing, bundled, count, files, number, show_options
from assay.cli.root import Command
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

    def has(self, row: "Row") -> bool:
        """Whether a row is one of them."""
        low = self.below is None or (row.score is not None and is_below(row.score, self.below))
        return low and (not self.errors or bool(row.errors)) and self.task in (None, row.task)


_wanted = bundled(
    "wanted",
    Wanted,
    click.option("--errors", is_flag=True, help="Only rollouts where something went wrong."),
    click.option(
        "--below", type=number(), metavar="SCORE", help="Only rollouts with a score below this."
    ),
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
@click.option(
    "--sample", type=count(), default=0, metavar="N", help="Which rollout of the EXAMPLE, from 0."
)
@_wanted
@show_options
def command(
    run: str, rows: bool, example: str | None, sample: int, wanted: Wanted, showing: Showing
) -> int:
    """Print what the saved RUN came to: errors first, then means, then every criterion.

    A run that is still being written is shown as far as it is.
    """
    from assay.cli.viewing import show_row, show_run

    if example is not None:
        return show_row(run, example, sample, showing)
    return show_run(run, wanted, showing, rows=rows or wanted.is_some)
