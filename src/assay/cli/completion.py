"""`assay completion SHELL`: print the script that completes commands and options in a shell."""

import click
from click.shell_completion import BashComplete, FishComplete, ZshComplete

from assay.cli.base_command import Command

SHELLS = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}


@click.command("completion", cls=Command, example='eval "$(assay completion bash)"')
@click.argument("shell", type=click.Choice(list(SHELLS)))
def command(shell: str) -> None:
    """Print a script that makes the SHELL complete `assay`.

    For every new shell, put the line below, with your SHELL, into ~/.bashrc or ~/.zshrc; for fish,
    save the script as ~/.config/fish/completions/assay.fish.
    """
    from assay.cli.root import COMPLETION_VARIABLE, root

    completion = SHELLS[shell](root, {}, "assay", COMPLETION_VARIABLE)
    print(completion.source())
