"""What can go wrong with a run."""

from assay.errors import AssayError


class RunError(AssayError):
    """A run's folder cannot be read, written or gone on with; the message says what to do."""


class RunRefused(RunError, ValueError):  # noqa: N818 - named as `Refused` is
    """What was given makes no run: a folder, rows or settings that do not fit it or each other."""
