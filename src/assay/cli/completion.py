"""`assay completion SHELL`: what makes a shell complete commands and options."""

import click
from click.shell_completion import BashComplete, FishComplete, ZshComplete

from assay import cli

SHELLS = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}


@click.command("completion", cls=cli.Command)
@click.argument("shell", type=click.Choice(list(SHELLS)))
def command(shell: str) -> None:
    """Print a script that makes the SHELL complete `assay`.

    For every new shell, put the line below, with your SHELL, into ~/.bashrc or ~/.zshrc; for fish,
    save the script as ~/.config/fish/completions/assay.fish.
    """
    from assay.cli.root import COMPLETE, root

    print(SHELLS[shell](root, {}, "assay", COMPLETE).source())
