"""`assay report RUN... -o page.html`: the page of runs as one file."""

from pathlib import Path

import click

from assay import cli
from assay.cli.options import CommandOptions, allow_media, argument, declare, run_folder, value_of


class ReportOptions(CommandOptions):
    """Which runs the page shows, and the file that it is written to."""

    runs: tuple[str, ...] = argument("RUN...", nargs=-1, required=True)
    output: str = value_of(required=True)
    media_folder: str | None = value_of(run_folder, callback=allow_media)
    quiet: bool = value_of()


@declare("report")
def command(options: ReportOptions) -> None:
    """Write the page of the RUNs into one FILE that opens from disk, without a network.

    It holds every rollout, so give it only to those who may read them.
    """
    from assay.runs.folder import whole_file
    from assay.viewer.page_export import write_report

    path, quiet = Path(options.output), options.quiet
    if path.is_dir():
        raise click.UsageError(f"{options.output} is a folder: name a file")
    with whole_file(path, "w") as file, cli.shown_progress("rollouts", quiet=quiet) as tell:
        rows = write_report(options.runs, file, tell)
    if not quiet:
        click.echo(f"{rows:,} rollouts in {options.output} ({path.stat().st_size / 1e6:.1f} MB)", err=True)
