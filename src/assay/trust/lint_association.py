"""How two columns go together, with intervals that take whole examples for independent."""

from typing import Any

from assay.trust.clusters import sums_by_example
from assay.trust.estimate import LEVEL, Array, Estimate, normal_quantile, np, undefined


def rank_correlation(one: Array, two: Array, examples: Array) -> Estimate:
    """Spearman's correlation.

    >>> rank_correlation(np.array([1.0, 2, 3]), np.array([10.0, 20, 90]), np.arange(3.0)).high
    1.0
    """
    if np.ptp(one) == 0 or np.ptp(two) == 0:
        return undefined("one of the two is always the same")
    first, second = _standard(mid_ranks(one)), _standard(mid_ranks(two))
    value = float(np.clip((first * second).mean(), -1, 1))
    # The influence of each row on a correlation; see Boos and Stefanski, Essential Statistical Inference.
    influence = first * second - value / 2 * (first**2 + second**2)
    return _around(value, influence / len(first), examples, -1.0)


def separation(
    values: Array, high: "np.ndarray[Any, np.dtype[np.bool_]]", examples: Array
) -> Estimate:
    """The chance that a row marked high has the larger value: the area under the ROC curve.

    >>> separation(np.array([1.0, 2, 3, 4]), np.arange(4) > 1, np.arange(4.0)).value
    1.0
    """
    ups, downs = int(high.sum()), int((~high).sum())
    if not ups or not downs:
        return undefined("all rows are alike")
    ranks = mid_ranks(values)
    above = (ranks[high] - mid_ranks(values[high])) / downs
    below = 1 - (ranks[~high] - mid_ranks(values[~high])) / ups
    value = float(above.mean())
    influence = np.empty(len(values))
    # The components of DeLong, DeLong and Clarke-Pearson (1988), summed by example.
    influence[high] = (above - value) / ups
    influence[~high] = (below - value) / downs
    return _around(value, influence, examples, 0.0)


def correlation(one: Array, two: Array, examples: Array) -> Estimate:
    """Pearson's correlation, with Fisher's interval for as many answers as there are examples.

    Where all pairs agree, one that does not may still come: it is taken for 1 - 1/n at the most.
    """
    if np.ptp(one) == 0 or np.ptp(two) == 0:
        return undefined("one of the two is always the same")
    count = len(np.unique(examples))
    value = float(np.clip((_standard(one) * _standard(two)).mean(), -1, 1))
    if count < 4:
        return Estimate(value, reason="fewer than four examples give no interval")
    most = 1 - 1 / count
    centre = np.arctanh(np.clip(value, -most, most))
    half = normal_quantile((1 + LEVEL) / 2) / (count - 3) ** 0.5
    return Estimate(value, float(np.tanh(centre - half)), float(np.tanh(centre + half)))


def mid_ranks(values: Array) -> Array:
    """Ranks from 1; equal values share the mean of theirs.

    >>> mid_ranks(np.array([3.0, 1.0, 3.0])).tolist()
    [2.5, 1.0, 2.5]
    """
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return (ends - (counts - 1) / 2)[places]


def _standard(values: Array) -> Array:
    return (values - values.mean()) / values.std()


def _around(value: float, influence: Array, examples: Array, least: float) -> Estimate:
    """A value with the interval that the influence of whole examples gives it."""
    together = sums_by_example(influence, examples)
    half = normal_quantile((1 + LEVEL) / 2) * float((together**2).sum()) ** 0.5
    return Estimate(value, max(least, value - half), min(1.0, value + half))
