"""What is said when a command is not used as it can be: what was wrong, and what to do."""

import re

import click
from click.core import ParameterSource

from assay.wording import did_you_mean, short_repr

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
    return click.UsageError(
        f"there is no command {short_repr(name)}: {did_you_mean(name, known)}", ctx
    )


def no_command(ctx: click.Context) -> click.UsageError:
    """A group was asked for nothing."""
    return click.UsageError(f"say what to do: {', '.join(_commands(ctx))}", ctx)


def given_twice(option: click.Option, ctx: click.Context) -> click.UsageError:
    """One value is wanted, and several are there."""
    return click.UsageError(
        f"{'/'.join(option.opts)} is given more than once, and takes one value: give it once", ctx
    )


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
