"""Offer tools that a model can call. Each takes text and gives text, and a failure begins with `Error:`.

arithmetic   calculator: an expression, worked out and never run as code
interpreter  python: code, run in a process of its own
warden       the process that watches it and puts up fences
workspace    Workspace: the files below a folder, to list, read and search
"""

from assay.lazy import attach


def failure(why: object) -> str:
    return f"Error: {why}"


def is_failure(reply: str) -> bool:
    """Whether the reply of a tool says that it failed."""
    return reply.lstrip().startswith("Error:")


__getattr__, __dir__, __all__ = attach(__name__)
__all__ += ["failure", "is_failure"]
