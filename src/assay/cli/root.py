"""The command `assay` itself: it finds the command and its config, runs it, and turns errors into sentences and exit codes.

A config file that is only found is not trusted, since it may belong to a project which was just downloaded.
"""

import io
import os
import sys
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr
from dataclasses import dataclass, field
from gettext import gettext
from importlib import import_module
from pathlib import Path
from typing import Any, Final, TextIO, cast
from urllib.parse import urlsplit

import click
from click.core import ParameterSource
from click.shell_completion import shell_complete

from assay import __version__
from assay.errors import AssayError, CacheError, Refused
from assay.lazy import read_toml
from assay.redaction import redact
from assay.wording import format_value, suggest_word

FINE: Final = 0
BROKEN: Final = 1  # something could not be scored, or the run broke off
USAGE: Final = 2  # what was given cannot be used: an option, a file, a rubric, a name, a package that is missing
MISSED: Final = (
    100  # everything was scored, and a threshold was missed; `assay.runs.stats` has the rule
)
INTERRUPTED: Final = 130
COMPLETE = "_ASSAY_COMPLETE"  # the variable by which a shell asks what could come next

_TEXTS: Final[dict[str, dict[str, str]]] = read_toml("assay.cli", "commands.toml")
# Every command, which is `command` in the module of its name, and its purpose.
COMMANDS: Final = {name: texts["purpose"] for name, texts in _TEXTS.items() if "purpose" in texts}


def code_of(error: AssayError | OSError) -> int:
    usage = (FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError)
    if isinstance(error, AssayError):
        usage = (ValueError, TypeError, ImportError, Refused, CacheError)
    return USAGE if isinstance(error, usage) else BROKEN


def _complaint(error: click.ClickException, command: str) -> str:
    """The error in the words of click, on one line that names the command, and where a wrong value comes from."""
    if not isinstance(error, click.UsageError):
        return f"{command}: {error.format_message()}"
    path, origin = command if error.ctx is None else error.ctx.command_path, ""
    if isinstance(error, click.BadParameter) and error.ctx is not None and error.param is not None:
        source = error.ctx.get_parameter_source(error.param.name or "")
        origin = "from the config file: " if source is ParameterSource.DEFAULT_MAP else ""
    return f"{path}: {origin}{error.format_message().rstrip('.')} ({path} --help tells more)"


# Every key that a file may have, and what it holds; each is an option of the same name.
SETTINGS: Final[dict[str, type]] = {
    "rubric": str,
    "model": str,
    "judge": str,
    "grader": str,
    "guard": bool,
    "cache": str,
    "budget": float,
    "concurrency": int,
    "samples": int,
    "temperature": float,
    "max_tokens": int,
    "system_prompt": str,
    "format": str,
    "fail_under": float,
    "fail_interval_under": float,
    "fail_rollout_under": float,
    "quiet": bool,
}

_FORMS: Final = {
    str: "a text, in quotes",
    bool: "true or false",
    float: "a number",
    int: "a whole number",
}


class ConfigError(AssayError, ValueError):
    """A config file is wrong; the message names the file and the key."""


@dataclass(frozen=True)
class Config:
    """What a file says. Without a file, nothing."""

    path: Path | None = None
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    is_named: bool = False  # and not found

    @classmethod
    def near(cls, folder: Path) -> "Config":
        """The config of the nearest folder upward that has one."""
        for place in (folder, *folder.parents):
            for path in (place / "assay.toml", place / "pyproject.toml"):
                if (found := _settings(path)) is not None:
                    return cls(path, found)
        return cls()

    def get(self, name: str, *, allow_code: bool = False) -> Any:
        """A setting; None where there is none. Raises `ConfigError` for one that a found file may not have."""
        value = self.settings.get(name)
        if value is None or self.is_named:
            return value
        from assay.loading.rubric_reader import is_reference

        told = f"{self.path}: {name} is {format_value(value)}"
        only_found = "and the file was only found, not named"
        trust = (
            f"give --config {self.path} to trust the file, or --{name.replace('_', '-')} yourself"
        )
        if name == "rubric" and not allow_code and is_reference(value):
            raise ConfigError(
                f"{told}, which runs Python code, {only_found}: give --allow-code, or {trust}"
            )
        if (name in ("judge", "model") and _is_elsewhere(value)) or (
            name == "cache" and "://" in value
        ):
            raise ConfigError(f"{told}, which may be sent keys, {only_found}: {trust}")
        return value


def config_of(ctx: click.Context) -> Config:
    """The config of the folder we are in, read once a command."""
    kept = ctx.find_root().meta
    if "assay.config" not in kept:
        kept["assay.config"] = Config.near(Path.cwd())
    return kept["assay.config"]


def _is_elsewhere(model: str) -> bool:
    """Whether a model is asked at an address that is neither a provider's nor on this machine."""
    from assay.models.providers import provider_at
    from assay.server.settings import is_loopback

    address = model.partition("#")[0]
    try:
        host = urlsplit(address).hostname or ""
    except ValueError:
        return True
    return "://" in model and provider_at(address) is None and not is_loopback(host)


def _settings(path: Path) -> dict[str, Any] | None:
    """The settings of a TOML file, or of its table [tool.assay]; None when the file or the table is not there."""
    if not path.is_file():
        return None
    tables = ("tool", "assay") if path.name == "pyproject.toml" else ()
    try:
        found: object = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError) as error:
        if tables:  # a file of other programs, which will complain of it
            return None
        raise ConfigError(f"{path} is no TOML: {error}") from None
    for table in tables:
        found = cast("Mapping[str, Any]", found).get(table) if isinstance(found, Mapping) else None
    if found is None:
        return None
    if not isinstance(found, Mapping):
        raise ConfigError(f"{path}: {'.'.join(tables)} is {format_value(found)}: make it a table")
    settings: dict[str, Any] = {}
    for key, value in cast("Mapping[str, Any]", found).items():
        name = key.replace("-", "_")
        if name not in SETTINGS:
            known = [setting.replace("_", "-") for setting in SETTINGS]
            raise ConfigError(f"{path}: there is no setting {key!r}: {suggest_word(key, known)}")
        kind = SETTINGS[name]
        # To Python True is an int, and 1 is no float.
        kinds = (int, float) if kind is float else kind
        if isinstance(value, bool) is not (kind is bool) or not isinstance(value, kinds):
            raise ConfigError(f"{path}: {key} is {format_value(value)}: give {_FORMS[kind]}")
        if name in ("rubric", "cache") and "://" not in value and ":" not in value[2:]:
            value = str(
                path.parent / Path(value).expanduser()
            )  # as it is seen from the folder of the file
        settings[name] = value
    return settings


class Context(click.Context):
    """Where an option is given neither by flag nor by environment, the config file is asked."""

    def lookup_default(self, name: str, call: bool = True) -> Any:
        found = None
        if name in SETTINGS and not self.resilient_parsing:
            found = config_of(self).get(name, allow_code=bool(self.params.get("allow_code")))
        return super().lookup_default(name, call) if found is None else found


class Command(click.Command):
    """A command that takes settings from the config file; its help ends as `commands.toml` says under its whole name."""

    context_class = Context

    def __init__(self, name: str, **options: Any) -> None:
        texts = _TEXTS.get(name, {})
        super().__init__(name.rpartition(" ")[2], epilog=texts.get("ends"), **options)
        self.example = texts.get("example", "")
        if any(param.name in SETTINGS for param in self.params):
            # It is read first, since it has the defaults of the other options.
            self.params.append(
                click.Option(
                    ["--config"],
                    type=click.Path(),
                    metavar="FILE",
                    envvar="ASSAY_CONFIG",
                    show_envvar=True,
                    is_eager=True,
                    expose_value=False,
                    callback=_use_config,
                    help="A file with settings, which is trusted. One that is found in the folder may neither "
                    "name Python code nor have keys sent to other machines.",
                )
            )

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_epilog(ctx, formatter)
        with formatter.section("Example"):
            for line in self.example.splitlines():
                formatter.write(f"{'':>{formatter.current_indent}}{line}\n")


def _use_config(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    if value is None or ctx.resilient_parsing:
        return
    path = Path(value)
    if (found := _settings(path)) is None:
        what = "holds no table [tool.assay]" if path.is_file() else "is no file"
        raise ConfigError(f"{path} {what}: name a file with settings")
    ctx.find_root().meta["assay.config"] = Config(path, found, is_named=True)


class Group(Command, click.Group):
    """Commands under one name, in the order in which they were written."""

    command_class = Command

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


class LazyGroup(Group):
    """Every command of the registry. Naming them loads none of them."""

    def __init__(self, name: str, **options: Any) -> None:
        super().__init__(name, **options)
        self.commands = cast("dict[str, click.Command]", dict.fromkeys(COMMANDS))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        # `report` and `rubric` are modules of the library already, and no two of ours have one name.
        module = f"{cmd_name}_command" if cmd_name in ("report", "rubric") else cmd_name
        return import_module(f"assay.cli.{module}").command if cmd_name in COMMANDS else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section(gettext("Commands")):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(
    "assay",
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, "--version", message="assay %(version)s")
def root() -> None:
    """Score what language models write: one rubric, checked by code or judged by a model."""


class _Redacting:
    """A stream on which no secret is written, as in a hint that repeats what was typed."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        return self._stream.write(redact(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def run(arguments: Sequence[str]) -> int:
    """Run the command that the arguments name, and give its exit code."""
    for name in ("stdout", "stderr"):
        # Neither a stream that is closed may stop us, nor a character that the terminal cannot show.
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    with redirect_stderr(cast("TextIO", _Redacting(sys.stderr))):
        if instruction := os.environ.get(COMPLETE):
            return shell_complete(root, {}, "assay", COMPLETE, instruction)
        name = arguments[0] if arguments else ""
        try:
            code = _invoke(list(arguments))
            sys.stdout.flush()
        except click.exceptions.NoArgsIsHelpError as error:
            error.show()
            return USAGE
        except click.ClickException as error:
            print(_complaint(error, f"assay {name}"), file=sys.stderr)
            return USAGE
        except BrokenPipeError:
            # The reader of our output has seen enough; Python must not complain of it once more at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return INTERRUPTED
        except (AssayError, OSError) as error:
            print(f"assay {name}: {error}", file=sys.stderr)
            return code_of(error)
        except KeyboardInterrupt:
            return INTERRUPTED
        return code


def _invoke(arguments: list[str]) -> int:
    """Run a command, whose exit code is what it returns; nothing is fine."""
    try:
        with root.make_context("assay", list(arguments)) as ctx:
            ctx.meta["assay.arguments"] = arguments
            return root.invoke(ctx) or FINE
    except click.exceptions.Exit as end:
        return end.exit_code
