"""The command `assay` itself: it finds the command, runs it, and turns errors into sentences and exit codes."""

import io
import os
import re
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr
from gettext import gettext
from importlib import import_module
from pathlib import Path
from typing import Any, Final, TextIO, cast

import click
from click.core import ParameterSource
from click.shell_completion import shell_complete

from assay import __version__
from assay.cli.config import SETTINGS, Config, config_of
from assay.errors import AssayError, CacheError, Refused
from assay.redaction import redacted
from assay.wording import did_you_mean, short_repr

FINE: Final = 0
BROKEN: Final = 1
"""Something could not be scored, or the run broke off."""
USAGE: Final = 2
"""What was given cannot be used: an option, a file, a rubric, a name, a package that is missing."""
MISSED: Final = 100
"""Everything was scored, and a threshold was missed; `assay.runs.stats` has the rule."""
INTERRUPTED: Final = 130

_USAGE: Final = (ValueError, TypeError, ImportError, Refused, CacheError)
_NO_SUCH_FILE: Final = (FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError)


def code_of(error: AssayError | OSError) -> int:
    """The exit code for an error that ended a command.

    >>> from assay.errors import Overloaded, RubricError
    >>> code_of(RubricError("no such field")), code_of(Overloaded("it does not answer"))
    (2, 1)
    """
    is_usage = isinstance(error, _USAGE if isinstance(error, AssayError) else _NO_SUCH_FILE)
    return USAGE if is_usage else BROKEN


COMMANDS: Final[dict[str, tuple[str, str]]] = {
    "init": ("init", "write a rubric and rollouts to begin with"),
    "grade": ("grade", "grade texts with a rubric"),
    "score": ("score", "score saved rollouts, or a saved run again"),
    "eval": ("eval", "ask a model the questions of a data set, and score its answers"),
    "show": ("show", "show what a saved run came to"),
    "view": ("view", "look at runs in a browser"),
    "report": ("report", "write the page of runs into one file"),
    "serve": ("serve", "serve a rubric over HTTP, as a reward for trainers"),
    "agree": ("agree", "say how far the judge of a run agrees with people"),
    "correct": ("correct", "say what a run would come to if people had judged it"),
    "compare": ("compare", "say whether one run is better than another, or it is chance"),
    "math": ("math", "say whether two mathematical answers are the same"),
    "lint": ("lint", "find what judges will stumble over in a rubric, and mend it"),
    "probe": ("probe", "attack the judge of a rubric, and count how often it is fooled"),
    "suggest": ("suggest", "draft criteria from references, or from pairs of which one is preferred"),
    "rubric": ("rubric", "look at a rubric, find what is wrong with it, test it, convert it"),
    "models": ("models", "list and fetch the models that run on this machine"),
    "cache": ("cache", "look into the cache of verdicts, prune it, and move it"),
    "completion": ("completion", "make your shell complete commands and options"),
}
"""The module of a command in `assay.cli`, which has it as `command`, and its purpose in a line.

In the order that `assay --help` lists them.
"""


_EXTRA = re.compile(r"unexpected extra argument\w*\(?s?\)? \((.+)\)")


def complaint(error: click.ClickException, command: str) -> str:
    """The error as one line that names the command; the one given, where the error knows none."""
    if not isinstance(error, click.UsageError):
        return f"{command}: {error.format_message()}"
    path = command if error.ctx is None else error.ctx.command_path
    return f"{path}: {_sentence(error, error.ctx)} ({path} --help tells more)"


def _sentence(error: click.UsageError, ctx: click.Context | None) -> str:
    if isinstance(error, click.NoSuchOption):
        params = [] if ctx is None else ctx.command.get_params(ctx)
        known = [name for param in params for name in param.opts]
        return f"there is no option {error.option_name}: {did_you_mean(error.option_name, known)}"
    if isinstance(error, click.MissingParameter) and error.param is not None:
        return f"{_name(error.param)} is missing: give {_form(error.param)}"
    if isinstance(error, click.BadParameter) and error.param is not None:
        return f"{_origin(error.param, ctx)}{_name(error.param)}: {error.message.rstrip('.')}"
    if isinstance(error, click.BadOptionUsage) and "requires" in error.message:
        return f"{error.option_name} wants a value: give it one"
    if extra := _EXTRA.search(error.format_message()):
        return f"{extra[1]} is more than it takes: leave it out, or put a text in quotes"
    return error.format_message().rstrip(".")


def no_such_command(name: str, ctx: click.Context) -> click.UsageError:
    """There is none of that name, but others."""
    known = _commands(ctx)
    return click.UsageError(f"there is no command {short_repr(name)}: {did_you_mean(name, known)}", ctx)


def no_command(ctx: click.Context) -> click.UsageError:
    """A group was asked for nothing."""
    return click.UsageError(f"say what to do: {', '.join(_commands(ctx))}", ctx)


def given_twice(option: click.Option, ctx: click.Context) -> click.UsageError:
    """One value is wanted, and several are there."""
    return click.UsageError(f"{'/'.join(option.opts)} is given more than once, and takes one value: give it once", ctx)


def _commands(ctx: click.Context) -> list[str]:
    return ctx.command.list_commands(ctx) if isinstance(ctx.command, click.Group) else []


def _name(param: click.Parameter) -> str:
    if isinstance(param, click.Option):
        return param.opts[-1]
    return param.human_readable_name.removesuffix("...")


def _form(param: click.Parameter) -> str:
    if not isinstance(param, click.Option):
        return "it, or - for standard input" if param.nargs == -1 else "it"
    variable = param.envvar if isinstance(param.envvar, str) else None
    also = f", or set {variable}" if variable else ""
    return f"{'/'.join(param.opts)} {param.metavar or ''}".rstrip() + also


def _origin(param: click.Parameter, ctx: click.Context | None) -> str:
    source = ctx.get_parameter_source(param.name) if ctx is not None and param.name else None
    if source is ParameterSource.DEFAULT_MAP:
        return "from the config file, "
    if source is ParameterSource.ENVIRONMENT:
        return f"from the environment variable {_variable(param)}, "
    return ""


def _variable(param: click.Parameter) -> str:
    return param.envvar if isinstance(param.envvar, str) else ", ".join(param.envvar or ())


class Context(click.Context):
    """Where an option is given neither by flag nor by environment, the config file is asked."""

    def lookup_default(self, name: str, call: bool = True) -> Any:
        found = None
        if name in SETTINGS and not self.resilient_parsing:
            allow_code = bool(self.params.get("allow_code"))
            found = config_of(self).get(name, allow_code=allow_code)
        return super().lookup_default(name, call) if found is None else found


def _config_option() -> click.Option:
    def use(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
        if value is not None and not ctx.resilient_parsing:
            ctx.find_root().meta["assay.config"] = Config.at(Path(value))

    return click.Option(
        ["--config"],
        type=click.Path(),
        metavar="FILE",
        envvar="ASSAY_CONFIG",
        show_envvar=True,
        is_eager=True,  # since it has the defaults of the other options
        expose_value=False,
        callback=use,
        help="Take settings from this file, which is trusted. One that is found in the folder may neither name "
        "Python code nor have keys sent to other machines.",
    )


class Command(click.Command):
    """A command. Its `example` is what somebody would type; it ends the help, as it stands."""

    context_class = Context

    def __init__(self, *arguments: Any, example: str = "", **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.example = example
        if any(param.name in SETTINGS for param in self.params):
            self.params.append(_config_option())

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not ctx.resilient_parsing:
            # Parsed once more, for click keeps the last of several values without a word.
            *_, order = self.make_parser(ctx).parse_args(list(args))
            for param in order:
                if isinstance(param, click.Option) and _takes_one(param) and order.count(param) > 1:
                    raise given_twice(param, ctx)
        return super().parse_args(ctx, args)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_epilog(ctx, formatter)
        _format_example(formatter, self.example)


class Group(click.Group):
    """Commands under one name. Asked for nothing, it says what there is."""

    context_class = Context
    command_class = Command

    def __init__(self, *arguments: Any, example: str = "", **options: Any) -> None:
        super().__init__(*arguments, **{"no_args_is_help": False, **options})
        self.example = example

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args and not ctx.resilient_parsing:
            raise no_command(ctx)
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        is_known = self.get_command(ctx, args[0]) is not None
        if not is_known and not args[0].startswith("-") and not ctx.resilient_parsing:
            raise no_such_command(args[0], ctx)
        return super().resolve_command(ctx, args)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_epilog(ctx, formatter)
        _format_example(formatter, self.example)


def _takes_one(option: click.Option) -> bool:
    return not (option.multiple or option.is_flag or option.count)


def _format_example(formatter: click.HelpFormatter, example: str) -> None:
    if example:
        with formatter.section("Example"):
            for line in example.strip().splitlines():
                formatter.write(f"{'':>{formatter.current_indent}}{line}\n")


class LazyGroup(Group):
    """Every command of the registry. Naming them loads none of them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _ = COMMANDS[cmd_name]
        return import_module(f"assay.cli.{module}").command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section(gettext("Commands")):
            formatter.write_dl([(name, purpose) for name, (_, purpose) in COMMANDS.items()])


COMPLETE = "_ASSAY_COMPLETE"
"""The variable by which a shell asks what could come next."""


@click.group(
    "assay",
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    example="assay math '\\frac12' 0.5",
)
@click.version_option(__version__, "--version", message="assay %(version)s")
def root() -> None:
    """Score what language models write: one rubric, checked by code or judged by a model."""


def run(arguments: Sequence[str]) -> int:
    """Run the command that the arguments name, and give its exit code."""
    _show_any_text()
    with redirect_stderr(cast("TextIO", _Redacting(sys.stderr))):
        return _run(arguments)


class _Redacting:
    """A stream for people, on which no secret is written; it is otherwise the stream it is made of."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write a text, such as a hint that repeats what was typed, without the login in it."""
        return self._stream.write(redacted(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _run(arguments: Sequence[str]) -> int:
    if instruction := os.environ.get(COMPLETE):
        return shell_complete(root, {}, "assay", COMPLETE, instruction)
    if not arguments:
        _invoked(["--help"])
        return USAGE
    try:
        code = _invoked(list(arguments))
        sys.stdout.flush()
    except click.ClickException as error:
        return _refused(complaint(error, f"assay {arguments[0]}"), USAGE)
    except BrokenPipeError:
        return _left_alone()
    except (AssayError, OSError) as error:
        return _refused(f"assay {arguments[0]}: {error}", code_of(error))
    except KeyboardInterrupt:
        return INTERRUPTED
    return code


def _invoked(arguments: list[str]) -> int:
    """The exit code that a command returns; nothing is fine."""
    try:
        with root.make_context("assay", list(arguments)) as ctx:
            ctx.meta["assay.arguments"] = arguments
            return root.invoke(ctx) or FINE
    except click.exceptions.Exit as end:
        return end.exit_code


def _refused(line: str, code: int) -> int:
    print(line, file=sys.stderr)
    return code


def _show_any_text() -> None:
    """Have no stream that is closed stop us, nor a character that the terminal cannot show."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _left_alone() -> int:
    """Whoever read our output has seen enough; Python must not complain of it once more at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return INTERRUPTED
