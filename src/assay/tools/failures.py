"""Say that a tool failed, and tell such replies from others."""

from typing import Final

MARK: Final = "Error:"
"""What the reply of a tool begins with when it failed, and only then."""


def failure(why: object) -> str:
    """The reply of a tool that failed.

    >>> failure("division by zero")
    'Error: division by zero'
    """
    return f"{MARK} {why}"


def is_failure(reply: str) -> bool:
    """Whether the reply of a tool says that it failed.

    >>> is_failure(" Error: division by zero"), is_failure("No Error: all is well")
    (True, False)
    """
    return reply.lstrip().startswith(MARK)
