"""The command `assay` itself: it loads the command that is asked for, runs it, and reports its errors."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr
from importlib import import_module
from pathlib import Path
from typing import Any, Final, TextIO, cast

import click
from click.core import ParameterSource
from click.shell_completion import shell_complete

from assay import __version__
from assay.cli.base_command import (
    EXIT_ERROR,
    EXIT_INTERRUPTED,
    EXIT_OK,
    EXIT_USAGE,
    Group,
)
from assay.errors import AssayError, CacheError, Refused
from assay.redaction import redact

# Every command with its purpose, by the sections of the help. Each is `command` in the module of its
# name. The purposes are here so that `assay --help` loads none of the modules.
SECTIONS: Final[dict[str, dict[str, str]]] = {
    "Start here": {
        "demo": "try it without a key: score answers with a scripted judge, and open the page",
        "init": "write a rubric and rollouts to start with",
        "doctor": "check the settings, the judge and the installed extras",
        "help": "show the help of a command",
    },
    "Score": {
        "score": "score saved rollouts, or score a saved run again",
        "eval": "ask a model the questions of a data set, and score its answers",
        "grade": "grade texts with a rubric",
        "math": "check whether two mathematical answers are equal",
    },
    "Look": {
        "show": "show the summary and the rollouts of a saved run",
        "list": "list the runs in a folder, with their scores",
        "view": "open the page of runs in a browser",
        "report": "write the page of runs into one file",
        "compare": "test whether one run is better than another",
    },
    "Trust": {
        "lint": "find and fix what judges will misread in a rubric",
        "agree": "measure how well the judge of a run agrees with people",
        "correct": "estimate the scores of a run without the bias of its judge",
        "probe": "attack the judge of a rubric, and count the attacks that succeed",
        "suggest": "draft criteria from references, or from preference pairs",
    },
    "Serve": {
        "serve": "serve a rubric over HTTP, as a reward for trainers",
    },
    "Files": {
        "rubric": "show, check, test and convert a rubric",
        "models": "list and download the models that run on this machine",
        "cache": "inspect, prune, export and import cached verdicts",
        "completion": "print the completion script of a shell",
    },
}
COMMANDS: Final = {
    name: purpose for section in SECTIONS.values() for name, purpose in section.items()
}

# A shell sets this variable when it asks what could come next.
COMPLETION_VARIABLE: Final = "_ASSAY_COMPLETE"


class LazyGroup(Group):
    """The group of all commands. It loads the module of a command when the command is used."""

    def __init__(self, name: str, **settings: Any) -> None:
        super().__init__(name, **settings)
        # click completes and suggests the names of this dict, and never uses its values.
        self.commands = cast("dict[str, click.Command]", dict.fromkeys(COMMANDS))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        return import_module(f"assay.cli.{cmd_name}").command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands into the help, in sections."""
        width = max(map(len, COMMANDS))
        for title, section in SECTIONS.items():
            with formatter.section(title):
                # All sections have columns of the same width.
                formatter.write_dl([(name.ljust(width), text) for name, text in section.items()])


@click.group(
    "assay",
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    example="assay score rollouts.jsonl -r rubric.yaml -o runs/first\n"
    "assay show runs/first --worst 3\n"
    "assay eval questions.jsonl -m openai/gpt-5-mini -r rubric.yaml -o runs/second",
)
@click.version_option(__version__, "--version", message="assay %(version)s")
def root() -> None:
    """Score what language models write: one rubric, checked by code or judged by a model."""


def run(arguments: Sequence[str]) -> int:
    """Run the command that the arguments name, and return its exit code."""
    _prepare_streams()
    with redirect_stderr(cast("TextIO", _RedactingStream(sys.stderr))):
        # Set by a shell that completes a command, or that wants the script for that.
        instruction = os.environ.get(COMPLETION_VARIABLE)
        if instruction:
            return shell_complete(root, {}, "assay", COMPLETION_VARIABLE, instruction)
        command_name = arguments[0] if arguments else ""
        try:
            exit_code = _invoke(list(arguments))
            sys.stdout.flush()
        except click.exceptions.NoArgsIsHelpError as error:
            error.show()  # a group without a command prints its help
            return EXIT_USAGE
        except click.ClickException as error:
            print(_describe_usage_error(error, command_name), file=sys.stderr)
            return EXIT_USAGE
        except BrokenPipeError:
            # The reader of our output has closed it. Without this, Python would complain at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return EXIT_INTERRUPTED
        except (AssayError, OSError) as error:
            print(f"assay {command_name}: {error}", file=sys.stderr)
            return choose_error_code(error)
        except KeyboardInterrupt:
            return EXIT_INTERRUPTED
        return exit_code


def _prepare_streams() -> None:
    """Make sure that neither a closed stream nor a character it cannot encode stops the program."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


class _RedactingStream:
    """A stream that removes secrets from what is written, such as a key that was typed."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        return self._stream.write(redact(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _invoke(arguments: list[str]) -> int:
    """Run a command and return its exit code; a command that returns None has succeeded."""
    try:
        with root.make_context("assay", list(arguments)) as ctx:
            ctx.meta["assay.arguments"] = arguments  # for messages that repeat the command
            return root.invoke(ctx) or EXIT_OK
    except click.exceptions.Exit as end:
        return end.exit_code


def _describe_usage_error(error: click.ClickException, command_name: str) -> str:
    """Return an error of click on one line, with the command, and how to see its help."""
    if not isinstance(error, click.UsageError):
        return f"assay {command_name}: {error.format_message()}"
    command_path = f"assay {command_name}"
    source = None  # where the wrong value is from, if it is the value of an option
    if error.ctx is not None:
        command_path = error.ctx.command_path  # with the subcommand
        if isinstance(error, click.BadParameter) and error.param is not None:
            source = error.ctx.get_parameter_source(error.param.name or "")
    message = error.format_message().rstrip(".")
    if source is ParameterSource.DEFAULT_MAP:  # as click calls what `ConfigContext` looks up
        message = f"from the config file: {message}"
    return f"{command_path}: {message} (see {command_path} --help)"


def choose_error_code(error: AssayError | OSError) -> int:
    """Return the exit code for an error: 2 if the user can fix the command, else 1."""
    if isinstance(error, AssayError):
        usage_errors = (ValueError, TypeError, ImportError, Refused, CacheError)
    else:
        usage_errors = (
            FileNotFoundError,
            IsADirectoryError,
            NotADirectoryError,
            PermissionError,
        )
    return EXIT_USAGE if isinstance(error, usage_errors) else EXIT_ERROR
