"""Intervals: between which bounds a mean lies, when rollouts of one example are no independent draws.

The spread is taken over examples:

    se = √( G/(G−1) · Σ_g (S_g − n_g·m)² ) / N

for G examples with n_g rollouts that sum to S_g, N rollouts in all and their mean m; times Student's t
with G−1 degrees of freedom. Zeros and ones have Wilson's interval, for as many independent answers as
would have this error. Theirs holds where one in twenty is met, and the plain one does not.
"""

import math
from dataclasses import dataclass
from typing import TypeAlias

Z = 1.959963984540054
"""95 % of a normal distribution lie within so many standard deviations."""

Bounds: TypeAlias = tuple[float, float] | tuple[None, None]

_SMALL = (12.706204736432095, 4.302652729696142, 3.182446305284263, 2.7764451051977987)


@dataclass(frozen=True, slots=True)
class Spread:
    """How far values are apart, between the examples that they are of."""

    mean: float
    squares: float
    """Σ_g (S_g − n_g·m)²."""
    count: float
    """Values."""
    examples: int
    is_share: bool
    """Whether every value is 0 or 1."""

    def bounds(self, z: float = Z, t: float | None = None) -> Bounds:
        """The ends of the interval; of 95 %, unless other points of the two distributions are given.

        >>> low, high = Spread(mean=0.5, squares=4.0, count=8, examples=4, is_share=True).bounds()
        >>> round(low, 2), round(high, 2)
        (0.06, 0.94)
        """
        if self.is_share and self.examples == self.count:
            return wilson_bounds(self.mean, self.count, z)
        if self.examples < 2:
            return None, None
        if self.is_share and self.mean in (0, 1):
            # All alike: then only how many examples there are says how sure that is.
            return wilson_bounds(self.mean, self.examples, z)
        free = self.examples - 1
        reach = student(free) if t is None else t
        variance = max(0.0, self.squares) * self.examples / free / self.count**2
        if self.is_share:
            return wilson_bounds(self.mean, self._independent(variance), reach)
        half = reach * math.sqrt(variance)
        return self.mean - half, self.mean + half

    def _independent(self, variance: float) -> float:
        """How many independent answers would have this variance; never more than there are."""
        alone = self.mean * (1 - self.mean)
        return self.count if alone >= variance * self.count else alone / variance


def wilson_bounds(share: float, count: float, z: float = Z) -> tuple[float, float]:
    """Wilson's interval for a share of so many independent tries.

    >>> tuple(round(bound, 4) for bound in wilson_bounds(0.5, 10))
    (0.2366, 0.7634)
    """
    weight = z * z / count
    middle = share + weight / 2
    reach = z * math.sqrt(share * (1 - share) / count + weight / (4 * count))
    low, high = (middle - reach) / (1 + weight), (middle + reach) / (1 + weight)
    return (0.0 if share == 0 else max(0.0, low)), (1.0 if share == 1 else min(1.0, high))


def student(free: int) -> float:
    """The 97.5 % point of Student's t: exact up to 4 degrees of freedom, else within 0.02 %.

    The series is Cornish and Fisher's (Abramowitz and Stegun 26.7.5).

    >>> [round(student(free), 2) for free in (1, 2, 10, 1000)]
    [12.71, 4.3, 2.23, 1.96]
    """
    if free <= len(_SMALL):
        return _SMALL[free - 1]
    z = Z
    terms = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return sum(term / free**power for power, term in enumerate(terms))
