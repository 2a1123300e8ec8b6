"""How a run ends: what is said of it, and its exit code."""

import sys

from assay.cli.exits import BROKEN, FINE, MISSED, is_below
from assay.cli.options import Showing
from assay.runs import Summary


def code_for(summary: Summary, showing: Showing) -> int:
    """0 when all is well. A mean over what is left, when something has no score, passes no gate."""
    if summary.unscored or not summary.rollouts:
        return BROKEN
    least, mean = showing.fail_under, summary.score.mean
    if least is None:
        return FINE
    if mean is not None and not is_below(mean, least):
        return FINE
    say(f"the mean score, {'–' if mean is None else f'{mean:.6g}'}, is below {least:g}", showing)
    return MISSED


def say(line: str, showing: Showing) -> None:
    """A line on standard error, unless nobody wants to hear."""
    if not showing.quiet:
        print(line, file=sys.stderr, flush=True)
