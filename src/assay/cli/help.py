"""`assay help [COMMAND...]`: show the help of a command."""

from __future__ import annotations

import click

from assay.cli.base_command import EXIT_OK, Command
from assay.wording import suggest_word


@click.command("help", cls=Command, example="assay help score\nassay help rubric show")
@click.argument("names", metavar="[COMMAND...]", nargs=-1)
@click.pass_context
def command(ctx: click.Context, names: tuple[str, ...]) -> int:
    """Show the help of a COMMAND; without one, the list of all commands."""
    current = ctx.find_root()
    full_name = " ".join(names)
    for name in names:
        group = current.command
        if not isinstance(group, click.Group):
            parent_name = " ".join(names[:-1])
            raise click.UsageError(
                f"there is no command {full_name!r}: assay {parent_name} has no commands"
            )
        subcommand = group.get_command(current, name)
        if subcommand is None:
            advice = suggest_word(name, group.list_commands(current))
            raise click.UsageError(f"there is no command {full_name!r}: {advice}")
        current = click.Context(subcommand, info_name=name, parent=current)
    click.echo(current.get_help())
    return EXIT_OK
