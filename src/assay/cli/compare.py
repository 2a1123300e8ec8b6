"""`assay compare RUN_A RUN_B`: say whether the second run is better, example by example."""

from __future__ import annotations

from pathlib import Path

from assay import cli, trust


@cli.declare("compare")
def command(
    run_a: str = cli.argument("RUN_A", type=cli.run_folder),
    run_b: str = cli.argument("RUN_B", type=cli.run_folder),
    flips: int = cli.value_of(cli.count, 10),
    fail_if_worse: bool = cli.value_of(),
    layout: str = cli.value_of(cli.PAGES, "table"),
) -> int:
    """Compare RUN_B with RUN_A, paired by example, and test whether the difference could be chance.

    Repeated rollouts of an example count as one. P-values of criteria are adjusted for their number.
    """
    found = trust.compare(cli.opened(run_a), cli.opened(run_b))
    print(cli.page_text(found.page((Path(run_a).name, Path(run_b).name), flips), layout))
    if not found.score.examples:
        return cli.BROKEN
    return cli.MISSED if fail_if_worse and found.score.fell else cli.FINE
