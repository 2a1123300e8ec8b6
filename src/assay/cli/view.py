"""`assay view RUN...`: look at runs in a browser."""

import click

from assay import cli


@cli.declare("view")
def command(
    runs: tuple[str, ...] = cli.argument("RUN...", nargs=-1, required=True),
    port: int = cli.value_of(cli.count, 0, show_default=False),
    media_folder: str | None = cli.value_of(cli.run_folder, callback=cli.allow_media),
    browser: bool = cli.value_of(),
) -> None:
    """Serve a page that shows the RUNs: what they come to, every rollout, and two runs compared.

    A run that is still being written is shown as it grows. Only this machine can open the page. Press Ctrl-C to stop.
    """
    cli.serve_page(runs, port=port, browser=browser, told=lambda address: click.echo(address))
