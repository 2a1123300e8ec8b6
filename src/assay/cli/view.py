"""`assay view RUN...`: open the page of runs in a browser."""

from __future__ import annotations

import click

from assay.cli.base_command import Command
from assay.cli.judging import allow_media_folder
from assay.cli.options import count, media_folder_option


@click.command(
    "view",
    cls=Command,
    epilog="Exit codes: 0 stopped by Ctrl-C, 2 bad usage.",
    example="assay view run",
)
@click.argument("runs", metavar="RUN...", type=click.Path(), nargs=-1, required=True)
@click.option(
    "--port",
    metavar="PORT",
    type=count,
    default=0,
    help="The port of the page; by default a free one.",
)
@media_folder_option
@click.option("--open", "browser", is_flag=True, help="Open the page in your browser.")
def command(runs: tuple[str, ...], port: int, media_folder: str | None, browser: bool) -> None:
    """Serve a page that shows the RUNs: summaries, every rollout, and two runs compared.

    A run that is still being written is shown as it grows. Only this machine can open the page.
    Press Ctrl-C to stop.
    """
    from assay.viewer.page_server import serve_page

    with allow_media_folder(media_folder):
        serve_page(runs, port=port, browser=browser, told=click.echo)
