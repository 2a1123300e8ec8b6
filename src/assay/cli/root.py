"""The command `assay` itself: it finds the command, runs it, and says how that ended."""

import io
import os
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any, TextIO, cast

import click
from click.shell_completion import shell_complete

from assay import __version__
from assay.cli.exits import FINE, INTERRUPTED, USAGE, code_of
from assay.cli.group import LazyGroup
from assay.cli.usage import complaint
from assay.errors import AssayError
from assay.redaction import redacted

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
