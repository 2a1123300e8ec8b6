"""`assay agree RUN [LABELS]`: how far the judge of a run agrees with people."""

from pathlib import Path

import click

from assay.cli.options import Labelling, label_options, page_option
from assay.cli.root import FINE, Command


@click.command(
    "agree",
    cls=Command,
    epilog="Exit code: 0; 2 when labels cannot be read or do not fit the run.",
    example="assay agree run labels.csv\nassay agree run labels.csv --again run-judged-twice",
)
@label_options
@click.option(
    "--against",
    type=click.Choice(("each", "majority")),
    default="each",
    show_default=True,
    help="Hold the judge against each rater in turn, or against what most of them say.",
)
@click.option(
    "--again",
    metavar="RUN",
    type=click.Path(exists=True, file_okay=False),
    help="A second run that judged the same rollouts: shows whether the judge says the same again.",
)
@click.option("--confusion", is_flag=True, help="Show who said what where, for every criterion.")
@page_option
def command(
    labelling: Labelling, against: str, again: str | None, confusion: bool, layout: str
) -> int:
    """Say how far the judge of a saved RUN agrees with people, who are shown beside it.

    LABELS is a CSV or JSONL file with example, criterion, verdict, and if there are several, sample
    and rater. Without it, the labels that were given in the page of the run are taken.
    """
    from assay.cli.agree_page import page_of
    from assay.cli.sources import opened
    from assay.trust import agree

    run = opened(labelling.run)
    found = agree(
        run,
        labelling.labels(),
        again=None if again is None else opened(again),
        reference="majority" if against == "majority" else "each",
        skip_unknown=labelling.skip_unknown,
        any_wording=labelling.any_wording,
    )
    print(page_of(found, Path(labelling.run).name, confusion=confusion).text(layout))
    return FINE
