"""`assay score DATA -r RUBRIC -o FOLDER`: saved rollouts, or a saved run, scored."""

import click

from assay.cli.options import (
    Crew,
    Input,
    Judging,
    Rubrics,
    Saving,
    Showing,
    crew_options,
    input_options,
    judge_options,
    rubric_options,
    save_options,
    show_options,
)
from assay.cli.root import Command


@click.command(
    "score",
    cls=Command,
    epilog="Exit code: 0 all scored, 100 a threshold missed, 1 one unscored or broken off, 2 bad "
    "usage or data, 130 stopped.",
    example="assay score rollouts.jsonl -r rubric.yaml -o run",
)
@input_options("DATA...", several=True)
@rubric_options(required=False)
@save_options
@crew_options
@judge_options("-m", "--model")
@show_options
def command(
    given: Input, rubrics: Rubrics, saving: Saving, crew: Crew, judging: Judging, showing: Showing
) -> int:
    """Score rollouts that were saved: .jsonl, .json, .csv, .tsv or .parquet files, or - for standard input.

    A row has a `completion`, and whatever else its criteria need: `prompt`, `answer`, columns of your
    own. One with a `rubric` of its own is scored by that. A folder of tables stands for all of them.

    Where DATA is the folder of a run, that run is scored again by the rubric, into another folder:
    nothing is generated, and judges are asked only what they were not asked before.
    """
    from assay.cli.scoring import score

    return score(given, rubrics, saving, crew, judging, showing)
