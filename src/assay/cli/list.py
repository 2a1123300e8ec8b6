"""`assay list [FOLDER]`: list the runs in a folder, with their scores."""

from __future__ import annotations

import click

from assay.cli.base_command import EXIT_ERROR, EXIT_OK, Command
from assay.cli.formats import format_page
from assay.cli.options import existing_path, page_format_option


@click.command(
    "list",
    cls=Command,
    epilog="Exit codes: 0 listed, 1 a run cannot be read, 2 there is no run in the folder.",
    example="assay list runs",
)
@click.argument("folder", metavar="[FOLDER]", type=existing_path, default=".")
@page_format_option
def command(folder: str, layout: str) -> int:
    """List the runs in FOLDER, the newest first: date, rubric, model, judge, score, errors and cost.

    By default the runs in the current folder are listed. `assay view FOLDER` shows the same list in
    the browser.
    """
    from assay.runs.listing import list_runs, make_list_page
    from assay.runs.run_errors import RunError

    try:
        listings = list_runs(folder)
    except RunError as error:
        raise click.UsageError(str(error)) from None
    print(format_page(make_list_page(folder, listings), layout))
    if any(listing.error for listing in listings):
        return EXIT_ERROR
    return EXIT_OK
