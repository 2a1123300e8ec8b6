"""`assay view RUN...`: look at runs in a browser."""

import click

from assay.cli.options import count, files, option
from assay.cli.root import Command


@click.command(
    "view",
    cls=Command,
    epilog="Exit code: 0 when it is stopped; 2 bad usage. Only this machine can open the page.",
    example="assay view run",
)
@click.argument("runs", nargs=-1, required=True, metavar="RUN...", shell_complete=files)
@option("--port PORT", "Listen there; 0 takes one that is free.", count(), 0, show_default=False)
@option("--open", "Open the page in your browser.", name="browser")
def command(runs: tuple[str, ...], port: int, browser: bool) -> None:
    """Serve a page that shows the RUNs: what they come to, every rollout, and two runs compared.

    A run that is still being written is shown as it grows. Press Ctrl-C to stop.
    """
    from assay.viewer.page_server import serve_page

    serve_page(runs, port=port, browser=browser, told=lambda address: click.echo(address))
