"""The command `assay`. One file a command, loaded when it is asked for.

A command's module has `command`, a click command or group, and stands in `root.COMMANDS`. What
takes long to load, it loads when it runs: its help, and the completion of its options, come at once. So it takes
what it is made of and runs with from this package, which loads the names of its stub when they are used.
What the command returns is the exit code; see the top of `root`.
"""

import sys
from collections.abc import Sequence

from assay.errors import MissingExtraError
from assay.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)


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
