"""Estimate: one figure from a sample, with the interval it may stand for."""

from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class Estimate:
    """A figure and its confidence interval. Without a value, `reason` says why there is none.

    >>> print(Estimate(0.52, 0.31, 0.7))
    0.52 [0.31, 0.70]
    """

    value: float | None = None
    low: float | None = None
    high: float | None = None
    """Ends of the interval; None when the sample gives no interval, and `reason` says why."""
    reason: str = ""

    def __str__(self) -> str:
        return self.to_digits(2)

    def to_digits(self, digits: int) -> str:
        """The figure with its interval, to so many digits after the point; a dash when there is none.

        >>> Estimate(0.52, 0.31, 0.7).to_digits(1), Estimate(0.52).to_digits(3), Estimate().to_digits(3)
        ('0.5 [0.3, 0.7]', '0.520', '–')
        """
        if self.value is None:
            return "–"
        shown = f"{self.value:.{digits}f}"
        if self.low is None or self.high is None:
            return shown
        return f"{shown} [{self.low:.{digits}f}, {self.high:.{digits}f}]"

    @property
    def half_width(self) -> float | None:
        """Half of the interval's length; None without an interval."""
        return None if self.low is None or self.high is None else (self.high - self.low) / 2

    def within(self, least: float, most: float) -> "Estimate":
        """The same, where nothing outside of these is possible."""
        value, low, high = (
            None if end is None else min(max(end, least), most)
            for end in (self.value, self.low, self.high)
        )
        return replace(self, value=value, low=low, high=high)

    def to_dict(self) -> dict[str, Any]:
        """Plain data; the reason only where there is one."""
        fields: dict[str, Any] = {"value": self.value, "low": self.low, "high": self.high}
        return {**fields, "reason": self.reason} if self.reason else fields


def undefined(reason: str) -> Estimate:
    """No figure, and why."""
    return Estimate(reason=reason)
