"""TableError: what is said about rows that cannot be read."""

from assay.errors import AssayError


class TableError(AssayError, ValueError):
    """Rows cannot be read as they stand; the message names file and line, what is there, what to do."""
