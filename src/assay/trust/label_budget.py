"""Label budget: what more labels would do for an interval."""

from math import ceil
from typing import NamedTuple


class Budget(NamedTuple):
    """How the variance of an estimate falls with the number of labels: `falling` / labels + `fixed`."""

    falling: float
    fixed: float
    """What is left when labels cost nothing: the rollouts are too few."""

    def variance(self, labels: float) -> float:
        return self.falling / labels + self.fixed

    def to_halve(self, labels: int, rollouts: int) -> int | None:
        """How many more labels halve the interval; None when labelling every rollout would not.

        >>> Budget(falling=1.0, fixed=0.0).to_halve(100, 1000)
        300
        """
        room = self.variance(labels) / 4 - self.fixed
        if room <= 0 or self.falling / room > rollouts:
            return None
        return max(1, ceil(self.falling / room - 1e-9) - labels)

    def left_at_most(self, labels: int, rollouts: int) -> float:
        """The share of the interval that is left when every rollout is labelled."""
        now = self.variance(labels)
        return (self.variance(rollouts) / now) ** 0.5 if now > 0 else 1.0
