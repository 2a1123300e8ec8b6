"""How a run ends: what is said of it, and its exit code."""

import sys
from collections.abc import Iterable, Sequence

from assay.cli.exits import BROKEN, FINE, MISSED
from assay.cli.options import Showing
from assay.cli.rows import row_name
from assay.cli.showing import on_one_line
from assay.runs import Row, Summary


def code_for(summary: Summary, showing: Showing, low: Sequence[str]) -> int:
    """The exit code by the rule of `Thresholds`, whose reason is said where there is a threshold.

    `low` are the names that `low_rows` gives.
    """
    thresholds = showing.thresholds
    failure = thresholds.failure(
        summary.score,
        rollouts=summary.rollouts,
        unscored=summary.unscored,
        complete=summary.complete,
        low=low,
    )
    if failure is None:
        return FINE
    if thresholds.are_set:
        say(failure.reason, showing)
    return MISSED if failure.is_missed else BROKEN


def low_rows(rows: Iterable[Row], showing: Showing) -> list[str]:
    """The names of the rows that are below the threshold for every rollout."""
    thresholds = showing.thresholds
    if thresholds.fail_rollout_under is None:
        return []
    return [on_one_line(row_name(row)) for row in rows if thresholds.is_low(row.score)]


def say(line: str, showing: Showing) -> None:
    """A line on standard error, unless nobody wants to hear."""
    if not showing.quiet:
        print(line, file=sys.stderr, flush=True)
