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
    for name in names:
        group = current.command
        subcommand = group.get_command(current, name) if isinstance(group, click.Group) else None
        if subcommand is None:
            known = group.list_commands(current) if isinstance(group, click.Group) else []
            advice = (
                suggest_word(name, known)
                if known
                else f"assay {' '.join(names[:-1])} has no commands"
            )
            raise click.UsageError(f"there is no command {' '.join(names)!r}: {advice}")
        current = click.Context(subcommand, info_name=name, parent=current)
    click.echo(current.get_help())
    return EXIT_OK
