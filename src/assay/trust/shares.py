"""Shares: how many of how many, with intervals that hold for small samples too."""

from assay.trust.estimate import Estimate, undefined
from assay.trust.numeric import beta_quantile, normal_quantile

LEVEL = 0.95
"""The confidence of every interval unless said otherwise."""
_NOTHING = "nothing was counted"


def wilson(successes: float, trials: float, level: float = LEVEL) -> Estimate:
    """A share of independent trials with Wilson's score interval.

    >>> print(wilson(9, 10))
    0.90 [0.60, 0.98]
    """
    if not trials:
        return undefined(_NOTHING)
    low, high = _wilson_ends(successes / trials, trials, level)
    return Estimate(successes / trials, low, high)


def _wilson_ends(share: float, trials: float, level: float) -> tuple[float, float]:
    z = normal_quantile((1 + level) / 2)
    extra = z * z / trials
    centre = (share + extra / 2) / (1 + extra)
    half = z / (1 + extra) * (share * (1 - share) / trials + extra / (4 * trials)) ** 0.5
    return max(0.0, centre - half), min(1.0, centre + half)


def clopper_pearson(successes: int, trials: int, level: float = LEVEL) -> Estimate:
    """A share of independent trials with the exact interval of Clopper and Pearson.

    >>> print(clopper_pearson(10, 10))
    1.00 [0.69, 1.00]
    """
    if not trials:
        return undefined(_NOTHING)
    tail = (1 - level) / 2
    failures = trials - successes
    low = beta_quantile(tail, successes, failures + 1) if successes else 0.0
    high = beta_quantile(1 - tail, successes + 1, failures) if failures else 1.0
    return Estimate(successes / trials, low, high)


def share_difference(
    first: tuple[float, float], second: tuple[float, float], level: float = LEVEL
) -> Estimate:
    """The first share less the second, each given as (successes, trials), from separate trials.

    The interval is Newcombe's, which joins two Wilson intervals and stays within -1 and 1.

    >>> print(share_difference((9, 10), (3, 10)))
    0.60 [0.17, 0.81]
    """
    if not first[1] or not second[1]:
        return undefined("one of the two shares counts nothing")
    one, other = first[0] / first[1], second[0] / second[1]
    one_low, one_high = _wilson_ends(one, first[1], level)
    other_low, other_high = _wilson_ends(other, second[1], level)
    below = ((one - one_low) ** 2 + (other_high - other) ** 2) ** 0.5
    above = ((one_high - one) ** 2 + (other - other_low) ** 2) ** 0.5
    return Estimate(one - other, one - other - below, one - other + above)
