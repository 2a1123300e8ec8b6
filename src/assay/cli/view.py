"""`assay view RUN...`: look at runs in a browser."""

import click

from assay.cli.options import count, media_option, option
from assay.cli.root import Command


@click.command("view", cls=Command)
@click.argument("runs", nargs=-1, required=True, metavar="RUN...", type=click.Path())
@option("--port PORT", "The port of the page; 0 takes one that is free.", count, 0, show_default=False)
@media_option
@option("--open", "Open the page in your browser.", name="browser")
def command(runs: tuple[str, ...], port: int, browser: bool, media_folder: str | None) -> None:
    """Serve a page that shows the RUNs: what they come to, every rollout, and two runs compared.

    A run that is still being written is shown as it grows. Only this machine can open the page. Press Ctrl-C to stop.
    """
    from assay.viewer.page_server import serve_page

    serve_page(runs, port=port, browser=browser, told=lambda address: click.echo(address))
