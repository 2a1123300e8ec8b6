"""The option of commands whose answer is one page."""

import click

page_option = click.option(
    "-f",
    "--format",
    "layout",
    type=click.Choice(("table", "json", "markdown")),
    default="table",
    show_default=True,
    help="What to print.",
)
