"""The command `assay`. One file a command, loaded when it is asked for.

A command's module has `fill(parser)`, which adds its arguments and names the function to run. That
function takes the parsed options and gives the exit code: 0 for yes, 1 for no, 2 when neither can
be said.
"""

import argparse
import io
import os
import sys
from collections.abc import Sequence
from importlib import import_module

from assay import __version__
from assay.errors import AssayError

COMMANDS = {
    "grade": "grade texts with a rubric file",
    "math": "say whether two mathematical answers are the same",
    "cache": "look into the cache of verdicts, prune it, and move it",
}

BAD_USAGE = 2
INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command that the arguments name, and give its exit code."""
    given = [_as_value(a) for a in (sys.argv[1:] if arguments is None else arguments)]
    parser = _parser(given)
    options = parser.parse_args(given)
    if options.command is None:
        parser.print_help()
        return BAD_USAGE
    _show_any_text()
    try:
        code: int = options.run(options)
        sys.stdout.flush()
    except (AssayError, OSError) as error:
        if isinstance(error, BrokenPipeError):
            return _left_alone()
        print(f"assay {options.command}: {error}", file=sys.stderr)
        return BAD_USAGE
    except KeyboardInterrupt:
        return INTERRUPTED
    return code


def _as_value(argument: str) -> str:
    """An argument such as `-x` as a value: but for `-h`, our options have two dashes.

    A text that begins with a space is no option to argparse, and answers are stripped anyway.
    """
    is_value = argument.startswith("-") and not argument.startswith("--")
    return f" {argument}" if is_value and argument not in ("-", "-h") else argument


def _parser(given: Sequence[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="assay", description="Score what language models write.", allow_abbrev=False
    )
    parser.add_argument("--version", action="version", version=f"assay {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="command", title="commands")
    for name, purpose in COMMANDS.items():
        sentence = f"{purpose[0].upper()}{purpose[1:]}."
        command = commands.add_parser(name, help=purpose, description=sentence, allow_abbrev=False)
        if name in given:
            import_module(f"assay.cli.{name}").fill(command)
    return parser


def _show_any_text() -> None:
    """Have half a character, or one that the terminal cannot show, not stop us."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _left_alone() -> int:
    """Whoever read our output has seen enough; Python must not complain of it once more at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return INTERRUPTED
