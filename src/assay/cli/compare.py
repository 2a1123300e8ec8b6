"""`assay compare RUN_A RUN_B`: test whether the second run is better, example by example."""

from __future__ import annotations

from pathlib import Path

import click

from assay import trust
from assay.cli.base_command import EXIT_ERROR, EXIT_OK, EXIT_THRESHOLD, Command
from assay.cli.formats import format_page
from assay.cli.inputs import open_run
from assay.cli.options import count, page_format_option, run_path


@click.command(
    "compare",
    cls=Command,
    epilog="Exit codes: 0 compared, 100 with --fail-if-worse if the score has fallen by more than "
    "chance, 1 no example has a score in both runs, 2 the runs cannot be compared.",
    example="assay compare run-before run-after --flips 20",
)
@click.argument("run_a", metavar="RUN_A", type=run_path)
@click.argument("run_b", metavar="RUN_B", type=run_path)
@click.option(
    "--flips",
    metavar="N",
    type=count,
    default=10,
    show_default=True,
    help="How many of the rollouts whose result changed to show.",
)
@click.option(
    "--fail-if-worse",
    is_flag=True,
    help="Exit with 100 if the score has fallen by more than chance.",
)
@page_format_option
def command(run_a: str, run_b: str, flips: int, fail_if_worse: bool, layout: str) -> int:
    """Compare RUN_B with RUN_A, paired by example, and test whether the difference could be chance.

    Repeated rollouts of an example count as one. The p-values of criteria are adjusted for the
    number of criteria.
    """
    comparison = trust.compare(open_run(run_a), open_run(run_b))
    page = comparison.page((Path(run_a).name, Path(run_b).name), flips)
    print(format_page(page, layout))
    if not comparison.score.examples:
        return EXIT_ERROR
    if fail_if_worse and comparison.score.fell:
        return EXIT_THRESHOLD
    return EXIT_OK
