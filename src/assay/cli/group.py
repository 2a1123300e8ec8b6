"""Commands and groups of them, with an example at the end of their help; and the lazy group of all."""

from gettext import gettext
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from assay.cli.config import SETTINGS, Config, config_of
from assay.cli.registry import COMMANDS
from assay.cli.usage import given_twice, no_command, no_such_command


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
