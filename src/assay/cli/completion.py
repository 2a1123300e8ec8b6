"""`assay completion SHELL`: what makes a shell complete commands and options."""

import click
from click.shell_completion import get_completion_class

from assay import cli

SHELLS = ("bash", "zsh", "fish")


@click.command("completion", cls=cli.Command)
@click.argument("shell", type=click.Choice(SHELLS))
def command(shell: str) -> None:
    """Print a script that makes the SHELL complete `assay`.

    For every new shell, put the line below, with your SHELL, into ~/.bashrc or ~/.zshrc; for fish,
    save the script as ~/.config/fish/completions/assay.fish.
    """
    from assay.cli.root import COMPLETE, root

    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"this click cannot complete for {shell}")
    print(kind(root, {}, "assay", COMPLETE).source())
