"""The command `assay`. Each command is a file, loaded when it is used.

The module of a command has `command`, a click command or group, which returns the exit code, and is
listed in `root.COMMANDS`. Help and completion must come at once, so modules import what takes long
to load inside functions.
"""

import sys
from collections.abc import Sequence

from assay.errors import MissingExtraError
from assay.garbage import collect_garbage_less_often


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command that the arguments name, and return its exit code."""
    try:
        from assay.cli.root import run
    except ModuleNotFoundError as error:
        if error.name != "click":
            raise
        print(MissingExtraError("the command line", package="click", extra="cli"), file=sys.stderr)
        return 2
    collect_garbage_less_often()
    return run(sys.argv[1:] if arguments is None else arguments)
