"""Tools that a model can call. Each takes and returns text, and a failure begins with `Error:`."""

from assay.lazy import attach


def failure(why: object) -> str:
    return f"Error: {why}"


def is_failure(reply: str) -> bool:
    """Whether the reply of a tool says that it failed."""
    return reply.lstrip().startswith("Error:")


def as_output(text: str) -> str:
    """Return the reply of a successful tool, which must not look like a failure.

    That is `Error: …`, a traceback, or a JSON object with an `error`: see `TrajectoryStep.failed`.
    """
    start = text.lstrip()
    looks_failed = (
        start[:6].lower() == "error:"
        or start.startswith("Traceback (most recent call last)")
        or (start.startswith("{") and '"error"' in start)
    )
    return f"Output:\n{text}" if looks_failed else text


__getattr__, __dir__, __all__ = attach(__name__)
__all__ += ["as_output", "failure", "is_failure"]
