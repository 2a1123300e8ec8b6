"""`assay correct RUN [LABELS]`: the score of a run with the judge's bias taken out."""

from pathlib import Path
from typing import Any

import click

from assay.cli.options import Labelling, label_options, page_option
from assay.cli.root import BROKEN, FINE, Command


@click.command(
    "correct",
    cls=Command,
    epilog="Exit code: 0; 1 when every correction was refused; 2 when labels cannot be read or do not fit.",
    example="assay correct run labels.csv\nassay correct run labels.csv --drift run-of-last-month",
)
@label_options
@click.option(
    "--drift",
    "earlier",
    metavar="RUN",
    type=click.Path(exists=True, file_okay=False),
    help="An earlier run that judged the same rollouts: says whether the judge has moved since.",
)
@page_option
def command(labelling: Labelling, earlier: str | None, layout: str) -> int:
    """Say what a saved RUN would come to if people had judged all of it, from LABELS on some.

    The labelled rollouts have to be drawn at random from the run. At least 30 are needed, and a judge that
    is better than chance.
    """
    from assay.cli.correct_page import page_of
    from assay.cli.sources import opened
    from assay.trust import correct, drift_between

    run, labels = opened(labelling.run), labelling.labels()
    taken: dict[str, Any] = {
        "skip_unknown": labelling.skip_unknown,
        "any_wording": labelling.any_wording,
    }
    found = correct(run, labels, **taken)
    drift = None if earlier is None else drift_between(opened(earlier), run, labels, **taken)
    print(page_of(found, drift, Path(labelling.run).name).text(layout))
    return FINE if any(each.corrected for each in found.figures) else BROKEN
