"""`assay view PATH...`: open the page of runs in a browser."""

from __future__ import annotations

import click

from assay.cli.base_command import Command
from assay.cli.judging import allow_media_folder
from assay.cli.options import existing_path, media_folder_option, parse_port


@click.command(
    "view",
    cls=Command,
    epilog="Exit codes: 0 stopped by Ctrl-C, 1 the port is in use, 2 bad usage, such as a folder "
    "without a run.",
    example="assay view run\nassay view runs",
)
@click.argument("paths", metavar="PATH...", type=existing_path, nargs=-1, required=True)
@click.option(
    "--port",
    metavar="PORT",
    type=parse_port,
    help="The port of the page; by default the first free one from 7600 on.",
)
@media_folder_option
@click.option(
    "--no-open",
    is_flag=True,
    help="Only print the address. Without a display, no browser is opened either.",
)
def command(
    paths: tuple[str, ...], port: int | None, media_folder: str | None, no_open: bool
) -> None:
    """Open a page in the browser that shows runs: summaries, every rollout, and comparisons.

    PATH is the folder of a run, or a folder with several runs, which the page lists. A run that is
    still being written is updated live. The page can be opened only on this machine. Press Ctrl-C to
    stop.
    """
    from assay.runs.run_errors import RunError
    from assay.viewer.page_server import has_display, serve_page

    def print_address(address: str) -> None:
        click.echo(f"{address} (press Ctrl-C to stop)")

    try:
        with allow_media_folder(media_folder):
            serve_page(
                paths,
                port=port,
                opens_browser=not no_open and has_display(),
                print_address=print_address,
            )
    except RunError as error:
        raise click.UsageError(str(error)) from None
