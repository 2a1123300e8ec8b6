"""MathVerdict: whether two answers are the same mathematics, and why."""

from dataclasses import dataclass
from typing import Literal

Status = Literal[
    "equal",
    "different",
    "no_answer",
    "answer_unparsable",
    "gold_unparsable",
    "out_of_time",
    "too_large",
    "error",
]
"""How a comparison ended. Only `equal` is a yes; `gold_unparsable` and `error` are nobody's answer."""

Tier = Literal["normalize", "algebra", "symbolic"]


@dataclass(frozen=True, slots=True)
class MathVerdict:
    """Whether the answer equals the gold, and the reason in words. True in a condition when equal.

    >>> MathVerdict("equal", "equal as numbers: 1/2", "normalize").equal
    True
    """

    status: Status
    reason: str
    """A sentence for people: equal as what, different where, unparsable on which side."""
    tier: Tier
    """Who decided."""

    @property
    def equal(self) -> bool:
        return self.status == "equal"

    @property
    def decided(self) -> bool:
        """Whether this says something of the answer: False when the gold or a worker failed."""
        return self.status not in ("gold_unparsable", "error")

    def __bool__(self) -> bool:
        return self.equal
