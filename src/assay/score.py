"""Score: one answer to one question."""

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

from assay.wording import described

NOT_APPLICABLE = "N/A"


class Score(NamedTuple):
    """One answer. `value` is None when nobody could answer, and `error` says why.

    A check returns one when it has more to say than a number:

    >>> Score(0.5, reason="two of four sources found").value
    0.5
    """

    value: float | None = None
    reason: str = ""
    verdict: str | None = None
    """The choice that was made, where the question offers choices; `N/A` when it does not apply."""
    error: str | None = None
    """Kind and message of what went wrong."""
    lines: Sequence[Any] = ()
    """The report lines of a nested rubric, or of each judge that was asked."""
    disagreement: float | None = None
    """How far apart two of several answers are on average, 0 to 1; None when there was only one."""

    @classmethod
    def given(cls, value: float, reason: str, verdict: str) -> "Score":
        """A verdict and what it is worth. The constructor's defaults cost more than the rest."""
        return cast("Score", tuple.__new__(cls, (value, reason, verdict, None, (), None)))  # pyright: ignore[reportUnknownMemberType]

    @classmethod
    def failed(cls, error: BaseException | str, reason: str = "") -> "Score":
        """No answer, and why."""
        return cls(error=error if isinstance(error, str) else described(error), reason=reason)

    @classmethod
    def not_applicable(cls, reason: str = "") -> "Score":
        """The question does not arise: the line leaves the score and counts as answered."""
        return cls(verdict=NOT_APPLICABLE, reason=reason)

    @property
    def applies(self) -> bool:
        return self.verdict != NOT_APPLICABLE


UNASKED = Score(error="RuntimeError: the question was never asked")
"""Stands where an answer belongs until there is one."""
