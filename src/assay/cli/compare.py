"""`assay compare RUN_A RUN_B`: say whether the second run is better, example by example."""

from __future__ import annotations

from pathlib import Path

import click

from assay import trust
from assay.cli.formats import page_text
from assay.cli.options import count, opened, option, page_option, run_folder
from assay.cli.root import BROKEN, FINE, MISSED, Command


@click.command("compare", cls=Command)
@click.argument("run_a", type=run_folder)
@click.argument("run_b", type=run_folder)
@option("--flips N", "How many of the rollouts that changed to show.", count, 10)
@option("--fail-if-worse", "Exit with 100 when the score has fallen beyond chance.")
@page_option
def command(run_a: str, run_b: str, flips: int, fail_if_worse: bool, layout: str) -> int:
    """Compare RUN_B with RUN_A, paired by example, and test whether the difference could be chance.

    Repeated rollouts of an example count as one. P-values of criteria are adjusted for their number.
    """
    found = trust.compare(opened(run_a), opened(run_b))
    page = found.page((Path(run_a).name, Path(run_b).name), flips)
    print(page_text(page, layout))
    if not found.score.examples:
        return BROKEN
    return MISSED if fail_if_worse and found.score.fell else FINE
