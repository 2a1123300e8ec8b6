"""`assay view RUN...`: look at runs in a browser."""

import click

from assay.cli.options import CommandOptions, allow_media, argument, count, declare, run_folder, value_of


class ServedPageOptions(CommandOptions):
    """Which runs the page shows, and where it is served."""

    runs: tuple[str, ...] = argument("RUN...", nargs=-1, required=True)
    port: int = value_of(count, 0, show_default=False)
    media_folder: str | None = value_of(run_folder, callback=allow_media)
    browser: bool = value_of()


@declare("view")
def command(options: ServedPageOptions) -> None:
    """Serve a page that shows the RUNs: what they come to, every rollout, and two runs compared.

    A run that is still being written is shown as it grows. Only this machine can open the page. Press Ctrl-C to stop.
    """
    from assay.viewer.page_server import serve_page

    serve_page(options.runs, port=options.port, browser=options.browser, told=lambda address: click.echo(address))
