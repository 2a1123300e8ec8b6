"""How commands end: the exit codes, and what an error is worth."""

from typing import Final

from assay.errors import AssayError, CacheError, Refused

FINE: Final = 0
BROKEN: Final = 1
"""Something could not be scored, or the run broke off."""
USAGE: Final = 2
"""What was given cannot be used: an option, a file, a rubric, a name, a package that is missing."""
MISSED: Final = 100
"""Everything was scored, and a threshold was missed; `assay.runs.thresholds` has the rule."""
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
