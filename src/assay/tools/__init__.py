"""Offer tools that a model can call. Each takes text and gives text, and a failure begins with `Error:`."""

from assay.lazy import attach


def failure(why: object) -> str:
    return f"Error: {why}"


def is_failure(reply: str) -> bool:
    """Whether the reply of a tool says that it failed."""
    return reply.lstrip().startswith("Error:")


__getattr__, __dir__, __all__ = attach(__name__)
__all__ += ["failure", "is_failure"]
