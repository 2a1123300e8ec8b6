"""`assay report RUN... -o page.html`: the page of runs as one file."""

from pathlib import Path

import click

from assay import cli


@cli.declare("report")
def command(
    runs: tuple[str, ...] = cli.argument("RUN...", nargs=-1, required=True),
    output: str = cli.value_of(required=True),
    media_folder: str | None = cli.value_of(cli.run_folder, callback=cli.allow_media),
    quiet: bool = cli.value_of(),
) -> None:
    """Write the page of the RUNs into one FILE that opens from disk, without a network.

    It holds every rollout, so give it only to those who may read them.
    """
    path = Path(output)
    if path.is_dir():
        raise click.UsageError(f"{output} is a folder: name a file")
    with cli.whole_file(path, "w") as file, cli.shown_progress("rollouts", quiet=quiet) as tell:
        rows = cli.write_report(runs, file, tell)
    if not quiet:
        click.echo(f"{rows:,} rollouts in {output} ({path.stat().st_size / 1e6:.1f} MB)", err=True)
