"""The command `assay`. One file a command, loaded when it is asked for.

A command's module has `command`, a click command or group, and stands in `root.COMMANDS`. What
takes long to load, it loads when it runs: its help, and the completion of its options, come at once.
What the command returns is the exit code; see the top of `root`.

root     finds the command and its config, runs it, and turns errors into sentences and exit codes
options  the records that options fill, and the set-up of a command that is made from one
sources  the rubric, the texts and the judge that options name
runner   does the work within the budget, with progress and Ctrl-C
formats  prints it as a table, Markdown, JSON, CSV or JUnit
"""

import sys
from collections.abc import Sequence

from assay.errors import MissingExtraError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command that the arguments name, and give its exit code."""
    try:
        from assay.cli.root import run
    except ModuleNotFoundError as error:
        if error.name != "click":
            raise
        print(MissingExtraError("the command line", package="click", extra="cli"), file=sys.stderr)
        return 2
    return run(sys.argv[1:] if arguments is None else arguments)
