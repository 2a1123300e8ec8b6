"""Shares: how many of how many, with intervals that hold for small samples too."""

from collections.abc import Sequence

from assay.runs import intervals
from assay.runs.intervals import Spread
from assay.trust.estimate import Estimate, undefined
from assay.trust.numeric import beta_quantile, normal_quantile, t_quantile

LEVEL = 0.95
"""The confidence of every interval unless said otherwise."""
ALONE = "one example alone has no spread, so there is no interval"
_NOTHING = "nothing was counted"


def wilson(successes: float, trials: float, level: float = LEVEL) -> Estimate:
    """A share of independent trials with Wilson's score interval.

    >>> print(wilson(9, 10))
    0.90 [0.60, 0.98]
    """
    if not trials:
        return undefined(_NOTHING)
    return Estimate(successes / trials, *_ends((successes, trials), level))


def _ends(share: tuple[float, float], level: float) -> tuple[float, float]:
    return intervals.wilson(share[0] / share[1], share[1], normal_quantile((1 + level) / 2))


def clustered_wilson(clusters: Sequence[tuple[float, float]], level: float = LEVEL) -> Estimate:
    """A share with Wilson's interval, of clusters given as (successes, trials).

    The trials of a cluster may come out alike, so they count for as many independent ones as give the
    spread that is seen between clusters. Where no spread is seen, since nothing or everything
    succeeded, each cluster counts as one.

    >>> print(clustered_wilson([(2, 2), (2, 2), (0, 2), (0, 2)]))
    0.50 [0.06, 0.94]
    """
    counted = [(successes, trials) for successes, trials in clusters if trials]
    if not counted:
        return undefined(_NOTHING)
    trials = sum(size for _, size in counted)
    share = sum(successes for successes, _ in counted) / trials
    squares = sum((successes - share * size) ** 2 for successes, size in counted)
    return estimate_of(Spread(share, squares, trials, len(counted), is_share=True), level)


def estimate_of(spread: Spread, level: float = LEVEL) -> Estimate:
    """The mean of values, with the interval that their spread between examples gives it."""
    upper = (1 + level) / 2
    t = t_quantile(upper, max(1, spread.examples - 1))
    low, high = spread.bounds(normal_quantile(upper), t)
    return Estimate(spread.mean, low, high, "" if low is not None else ALONE)


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
    one_low, one_high = _ends(first, level)
    other_low, other_high = _ends(second, level)
    below = ((one - one_low) ** 2 + (other_high - other) ** 2) ** 0.5
    above = ((one_high - one) ** 2 + (other - other_low) ** 2) ** 0.5
    return Estimate(one - other, one - other - below, one - other + above)
