"""Define the exit codes of commands, and the base classes that every command and group uses."""

from __future__ import annotations

import sys
from typing import Any, Final

import click

from assay.cli.config import SETTINGS, read_project_config, use_config_file

EXIT_OK: Final = 0
EXIT_ERROR: Final = 1  # something could not be scored, or the run ended early
EXIT_USAGE: Final = 2  # an option, a file, a rubric or a package cannot be used
EXIT_THRESHOLD: Final = 100  # everything was scored, but a threshold was missed
EXIT_INTERRUPTED: Final = 130


class ConfigContext(click.Context):
    """A context that takes the defaults of options from the config file."""

    def lookup_default(self, name: str, call: bool = True) -> Any:
        """Return the setting of that name, or the default of the option if there is none."""
        if name in SETTINGS and not self.resilient_parsing:
            allow_code = bool(self.params.get("allow_code"))
            setting = read_project_config(self).get(name, allow_code=allow_code)
            if setting is not None:
                return setting
        return super().lookup_default(name, call)


class Command(click.Command):
    """A command whose help ends with an example.

    A command with an option that can stand in the config file also has the option `--config`.
    """

    context_class = ConfigContext

    def __init__(self, name: str | None, *, example: str, **settings: Any) -> None:
        super().__init__(name, **settings)
        self.example = example
        if any(param.name in SETTINGS for param in self.params):
            self.params.append(_make_config_option())

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_epilog(ctx, formatter)
        indent = " " * (formatter.current_indent + formatter.indent_increment)
        with formatter.section("Example"):
            for line in self.example.splitlines():
                formatter.write(f"{indent}{line}\n")


class Group(Command, click.Group):
    """A command with subcommands, which its help lists in the order in which they were added."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


def _make_config_option() -> click.Option:
    return click.Option(
        ["--config"],
        type=click.Path(),
        metavar="FILE",
        envvar="ASSAY_CONFIG",
        show_envvar=True,
        is_eager=True,  # read before the options whose defaults it holds
        expose_value=False,
        callback=use_config_file,
        help="A file with settings, which is trusted. A file that was only found in this folder "
        "or above cannot name Python code or send keys to other machines.",
    )


def print_note(line: str, *, quiet: bool) -> None:
    """Print a line to standard error, except with `--quiet`."""
    if not quiet:
        print(line, file=sys.stderr, flush=True)
