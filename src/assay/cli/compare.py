"""`assay compare RUN_A RUN_B`: whether the second run is better, example by example."""

from pathlib import Path

import click

from assay.cli.options import count, page_option
from assay.cli.root import BROKEN, FINE, MISSED, Command

_folder = click.Path(exists=True, file_okay=False)


@click.command(
    "compare",
    cls=Command,
    epilog="Exit code: 0; 1 when no example has a score in both runs; 100 with --fail-if-worse when the score "
    "has fallen beyond chance; 2 when the runs cannot be compared.",
    example="assay compare run-before run-after --flips 20",
)
@click.argument("run_a", type=_folder)
@click.argument("run_b", type=_folder)
@click.option(
    "--flips",
    type=count(),
    default=10,
    show_default=True,
    metavar="N",
    help="How many of the rollouts that changed to show.",
)
@click.option(
    "--fail-if-worse", is_flag=True, help="Exit with 100 when the score has fallen beyond chance."
)
@page_option
def command(run_a: str, run_b: str, flips: int, fail_if_worse: bool, layout: str) -> int:
    """Hold RUN_B against RUN_A, paired by example, and say whether the difference could be chance.

    Repeated rollouts of an example count as one. P-values of criteria are adjusted for their number.
    """
    from assay.cli.compare_page import page_of
    from assay.cli.sources import opened
    from assay.trust import compare

    found = compare(opened(run_a), opened(run_b))
    names = Path(run_a).name, Path(run_b).name
    print(page_of(found, names, flips).text(layout))
    if not found.score.examples:
        return BROKEN
    return MISSED if fail_if_worse and found.score.fell else FINE
