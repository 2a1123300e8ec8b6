"""What can go wrong with a run."""

from assay.errors import AssayError


class RunError(AssayError):
    """A run's folder cannot be read, written or gone on with; the message says what to do."""
