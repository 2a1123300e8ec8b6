"""`assay report RUN... -o page.html`: write the page of runs into one file."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import click

from assay.cli.base_command import Command, print_note
from assay.cli.judging import allow_media_folder
from assay.cli.options import existing_path, media_folder_option, quiet_option
from assay.cli.runner import show_progress


@click.command(
    "report",
    cls=Command,
    epilog="Exit codes: 0 written, 2 bad usage.",
    example="assay report run -o page.html",
)
@click.argument("runs", metavar="RUN...", type=existing_path, nargs=-1, required=True)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    required=True,
    help="The file to write.",
)
@media_folder_option
@quiet_option
def command(runs: tuple[str, ...], output: str, media_folder: str | None, quiet: bool) -> None:
    """Write the page of the RUNs into one FILE that opens from disk, without a network.

    It contains every rollout, so share it only with people who may read them.
    """
    from assay.viewer.page_export import write_report

    path = Path(output)
    with (
        allow_media_folder(media_folder),
        _write_whole_file(path) as file,
        show_progress("rollouts", quiet=quiet) as on_progress,
    ):
        row_count = write_report(runs, file, on_progress)
    megabytes = path.stat().st_size / 1e6
    print_note(f"{row_count:,} rollouts in {output} ({megabytes:.1f} MB)", quiet=quiet)


@contextmanager
def _write_whole_file(path: Path) -> Generator[IO[str]]:
    """Open a file for writing, which replaces the old file only if everything was written."""
    unfinished = path.with_name(f".{path.name}.new")
    try:
        with unfinished.open("w", encoding="utf-8") as file:
            yield file
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
