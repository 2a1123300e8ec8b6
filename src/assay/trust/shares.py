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
    share, z = successes / trials, normal_quantile((1 + level) / 2)
    return Estimate(share, *intervals.wilson(share, trials, z))


def clustered_wilson(clusters: Sequence[tuple[float, float]], level: float = LEVEL) -> Estimate:
    """A share with Wilson's interval, of clusters given as (successes, trials).

    The trials of a cluster may come out alike, so they count for as many independent ones as give the
    spread that is seen between clusters. Where no spread is seen, since nothing or everything
    succeeded or there is one cluster alone, each cluster counts as one.

    >>> print(clustered_wilson([(2, 2), (2, 2), (0, 2), (0, 2)]))
    0.50 [0.06, 0.94]
    """
    counted = [(successes, trials) for successes, trials in clusters if trials]
    if not counted:
        return undefined(_NOTHING)
    trials = sum(size for _, size in counted)
    share = sum(successes for successes, _ in counted) / trials
    if len(counted) == 1:
        return wilson(share, 1, level)
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


def difference_of(first: Estimate, second: Estimate) -> Estimate:
    """The first share less the second, from separate trials.

    The interval is Newcombe's, which joins those of the two and stays within -1 and 1.

    >>> print(difference_of(wilson(9, 10), wilson(3, 10)))
    0.60 [0.17, 0.81]
    """
    one, one_low, one_high = first.value, first.low, first.high
    other, other_low, other_high = second.value, second.low, second.high
    if one is None or other is None:
        return undefined("one of the two shares counts nothing")
    if one_low is None or one_high is None or other_low is None or other_high is None:
        return Estimate(one - other, reason="one of the two shares has no interval")
    below = ((one - one_low) ** 2 + (other_high - other) ** 2) ** 0.5
    above = ((one_high - one) ** 2 + (other - other_low) ** 2) ** 0.5
    return Estimate(one - other, one - other - below, one - other + above)
