"""Define the exit codes of commands, and the base classes that every command and group uses."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Any, Final, cast

import click

from assay.cli.config import SETTINGS, read_project_config, use_config_file

# The names of options in other tools, with our names. In a command without `--model`, the judge is
# the only model.
_NAMES_IN_OTHER_TOOLS: Final = {
    "-m": "--judge",
    "--model": "--judge",
    "--epochs": "--samples",
    "--repeat": "--samples",
    "--provider": "--model",
    "--providers": "--model",
    "--max-concurrency": "--concurrency",
    "--max-connections": "--concurrency",
    "--log-dir": "--output",
}

EXIT_OK: Final = 0
EXIT_ERROR: Final = 1  # something could not be scored, or the run ended early
EXIT_USAGE: Final = 2  # an option, a file, a rubric or a package cannot be used
EXIT_THRESHOLD: Final = 100  # everything was scored, but a threshold was missed
EXIT_INTERRUPTED: Final = 130


class ConfigContext(click.Context):
    """A context that takes the defaults of options from the config file."""

    def lookup_default(self, name: str, call: bool = True) -> Any:
        """Return the setting of that name in the config file, or click's default if it has none."""
        is_completing = self.resilient_parsing  # the shell asks what could come next
        if name not in SETTINGS or is_completing:
            return super().lookup_default(name, call)
        # A config file that was found may name Python code only with --allow-code.
        allow_code = bool(self.params.get("allow_code"))
        setting = read_project_config(self).get(name, allow_code=allow_code)
        if setting is None:
            return super().lookup_default(name, call)
        if self._is_multiple(name) and not isinstance(setting, list):
            return [setting]  # the file may hold one value for a repeatable option
        return cast("object", setting)

    def _is_multiple(self, name: str) -> bool:
        """Return whether the option of that name may be given several times."""
        for param in self.command.params:
            if param.name == name:
                return isinstance(param, click.Option) and param.multiple
        return False


class Command(click.Command):
    """A command whose help ends with an example.

    A command with an option that can stand in the config file also has the option `--config`. Help
    lists options in sections, see `SectionOption`, after those that everyone needs.
    """

    context_class = ConfigContext

    def __init__(
        self,
        name: str | None,
        *,
        example: str,
        main_options: Sequence[str] = (),
        **settings: Any,
    ) -> None:
        """`main_options` are the names of the parameters that help lists first."""
        super().__init__(name, **settings)
        self.example = example
        self.main_options = main_options
        if any(param.name in SETTINGS for param in self.params):
            self.params.append(_make_config_option())

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments as click does, with errors for mistakes that click does not explain."""
        is_completing = ctx.resilient_parsing  # the shell asks what could come next
        try:
            if not is_completing:
                self._reject_typographic_dashes(ctx, args)
                self._reject_repeated_options(ctx, args)
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            options = [name for param in self.get_params(ctx) for name in param.opts]
            nearest = _NAMES_IN_OTHER_TOOLS.get(error.option_name)
            if nearest not in options:
                nearest = _find_nearest_option(error.option_name, options)
            # Not click's NoSuchOption, whose own suggestions lack names that are spelled differently.
            message = f"No such option {error.option_name!r}."
            if nearest is not None:
                message += f" Did you mean {nearest!r}?"
            raise click.UsageError(message, ctx) from None

    def _reject_repeated_options(self, ctx: click.Context, args: list[str]) -> None:
        """Raise a usage error for an option that is given twice; click would use the last value."""
        # click's parser returns the parameters in the order in which they were typed, with repeats.
        _, _, typed_params = self.make_parser(ctx).parse_args(args=list(args))
        for param, times in Counter(typed_params).items():
            if times > 1 and isinstance(param, click.Option) and not param.multiple:
                long_name = max(param.opts, key=len)
                raise click.UsageError(f"{long_name} was given {times} times: give it once", ctx)

    def _reject_typographic_dashes(self, ctx: click.Context, args: Sequence[str]) -> None:
        """Raise a usage error for an option with the dash of a word processor, as in `–limit`."""
        options = {name for param in self.get_params(ctx) for name in param.opts}
        for arg in args:
            if arg == "--":  # only arguments follow
                return
            match = re.fullmatch(r"-?[–—−]+(?P<name>[a-z][a-z-]*)(=.*)?", arg, re.DOTALL)
            if match is None:
                continue
            short_option = f"-{match['name']}"
            long_option = f"--{match['name']}"
            for option in (short_option, long_option):
                if option in options:
                    raise click.UsageError(
                        f"{arg!r} begins with a typographic dash: write {option}", ctx
                    )

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options into the help: the main ones, those with a section, and the others."""
        # Options as click formats them, names and help, by the title of their section.
        sections: dict[str, list[tuple[str, str]]] = {}
        main_options: dict[str, tuple[str, str]] = {}  # by the name of the parameter
        for param in self.get_params(ctx):
            names_and_help = param.get_help_record(ctx)
            if not isinstance(param, click.Option) or names_and_help is None:
                continue
            if param.name in self.main_options:
                main_options[param.name] = names_and_help
                continue
            section = param.section if isinstance(param, SectionOption) else "Options"
            sections.setdefault(section, []).append(names_and_help)
        if main_options:
            with formatter.section("Main options"):
                formatter.write_dl([main_options[name] for name in self.main_options])
        other_options = sections.pop("Options", [])
        for section, options in sections.items():
            with formatter.section(section):
                formatter.write_dl(options)
        with formatter.section("Other options" if main_options or sections else "Options"):
            formatter.write_dl(other_options)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the epilog into the help, and then the example."""
        super().format_epilog(ctx, formatter)
        indent = " " * (formatter.current_indent + formatter.indent_increment)
        with formatter.section("Example"):
            for line in self.example.splitlines():
                formatter.write(f"{indent}{line}\n")


def _find_nearest_option(name: str, options: list[str]) -> str | None:
    """Return the option that is most similar to an unknown one; None if none is similar.

    An option that starts with the given letters, or differs in a letter or two, comes first. Then
    shared words count more than shared letters: for `--prompt-template`, `--prompt` is nearer than
    `--temperature`.
    """
    name = name.lstrip("-")
    words = set(name.split("-"))
    # Each with what it is compared by, the most important first.
    candidates: list[tuple[bool, float, float, str]] = []
    for option in options:
        if not option.startswith("--"):
            continue
        option_name = option.lstrip("-")
        option_words = set(option_name.split("-"))
        shared_words = len(words & option_words) / len(words | option_words)
        shared_letters = SequenceMatcher(None, name, option_name).ratio()
        is_start = option_name.startswith(name)
        is_likely = is_start or shared_letters >= 0.85
        if is_likely or shared_words or shared_letters >= 0.65:
            candidates.append((is_likely, shared_words, shared_letters, option))
    if not candidates:
        return None
    *_, nearest = max(candidates)
    return nearest


class SectionOption(click.Option):
    """An option that help lists under the title of a section, with others about the same thing."""

    def __init__(self, *args: Any, section: str, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.section = section


class Group(Command, click.Group):
    """A command with subcommands, which its help lists in the order in which they were added."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_options(ctx, formatter)
        self.format_commands(ctx, formatter)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


def _make_config_option() -> click.Option:
    """Return the option `--config`, which sets no argument of the command but reads the file."""
    return click.Option(
        ["--config"],
        type=click.Path(),
        metavar="FILE",
        envvar="ASSAY_CONFIG",
        show_envvar=True,
        is_eager=True,  # read before the options whose defaults it holds
        expose_value=False,
        callback=use_config_file,
        help="A file with settings, which is trusted. A file that is found automatically in this folder or above cannot name Python code or send keys to other machines.",
    )


def print_note(line: str, *, quiet: bool) -> None:
    """Print a line to standard error, except with `--quiet`."""
    if not quiet:
        print(line, file=sys.stderr, flush=True)
