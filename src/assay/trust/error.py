"""What goes wrong before a statistic: labels that do not fit, runs that cannot be held together."""

from assay.errors import AssayError


class TrustError(AssayError, ValueError):
    """A question about trust that the given runs and labels cannot answer; the message says why."""


class LabelError(TrustError):
    """Labels that cannot be read, or do not fit the run they are for."""
