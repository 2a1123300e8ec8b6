"""Shares of trials that are not independent: of one attack, of one prompt, with what is alike in them."""

from collections.abc import Sequence

from assay.trust.estimate import Estimate
from assay.trust.shares import LEVEL, wilson


def clustered_wilson(clusters: Sequence[tuple[float, float]], level: float = LEVEL) -> Estimate:
    """A share with Wilson's interval, of clusters given as (successes, trials).

    The trials of a cluster may come out alike, so they count for as many independent ones as give the
    spread that is seen between clusters. Where no spread is seen, since nothing or everything
    succeeded, each cluster counts as one.

    >>> print(clustered_wilson([(2, 2), (2, 2), (0, 2), (0, 2)]))
    0.50 [0.13, 0.87]
    """
    counted = [(successes, trials) for successes, trials in clusters if trials]
    trials = sum(size for _, size in counted)
    share = sum(successes for successes, _ in counted) / trials if trials else 0.0
    effective = _effective(counted, share, trials)
    return wilson(share * effective, effective, level)


def _effective(clusters: Sequence[tuple[float, float]], share: float, trials: float) -> float:
    """How many independent trials would show this spread; never more than there are."""
    count = len(clusters)
    if count < 2 or share in (0.0, 1.0):
        return count
    squares = sum((successes - share * size) ** 2 for successes, size in clusters)
    variance = count / (count - 1) * squares / trials**2
    return min(trials, share * (1 - share) / variance) if variance else trials
