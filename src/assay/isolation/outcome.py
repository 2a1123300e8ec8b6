"""Outcome: what came back from a worker."""

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

Kind: TypeAlias = Literal["timeout", "memory", "raised", "crashed", "lost"]
"""What went wrong: out of time, out of memory, an exception, a worker that died of the task, or one
that died of something else, twice."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """A value, or what went wrong instead. Nothing that goes wrong in a worker is raised here.

    >>> Outcome(4).ok, Outcome(kind="timeout", message="TimeoutError: still working").ok
    (True, False)
    """

    value: Any = None
    """What the function returned; None also when it returned nothing, so look at `ok`."""
    kind: Kind | None = None
    """What went wrong; None when nothing did."""
    message: str = ""
    """The same in words, as an error reads: `ValueError: no such field`."""
    seconds: float = 0.0
    """How long it worked: not counting the wait for a worker, or for a processor."""
    trace: str = ""
    """Where the function raised, as Python prints it."""

    @property
    def ok(self) -> bool:
        """Whether there is a value."""
        return self.kind is None
