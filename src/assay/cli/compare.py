"""`assay compare RUN_A RUN_B`: say whether the second run is better, example by example."""

from __future__ import annotations

from pathlib import Path

from assay import trust
from assay.cli.formats import page_text
from assay.cli.options import PAGES, CommandOptions, argument, count, declare, opened, run_folder, value_of
from assay.cli.root import BROKEN, FINE, MISSED


class CompareOptions(CommandOptions):
    """Two runs, what is shown of their difference, and what makes a failure of it."""

    run_a: str = argument("RUN_A", type=run_folder)
    run_b: str = argument("RUN_B", type=run_folder)
    flips: int = value_of(count, 10)
    fail_if_worse: bool = value_of()
    layout: str = value_of(PAGES, "table")


@declare("compare")
def command(options: CompareOptions) -> int:
    """Compare RUN_B with RUN_A, paired by example, and test whether the difference could be chance.

    Repeated rollouts of an example count as one. P-values of criteria are adjusted for their number.
    """
    found = trust.compare(opened(options.run_a), opened(options.run_b))
    page = found.page((Path(options.run_a).name, Path(options.run_b).name), options.flips)
    print(page_text(page, options.layout))
    if not found.score.examples:
        return BROKEN
    return MISSED if options.fail_if_worse and found.score.fell else FINE
