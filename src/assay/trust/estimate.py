"""Estimate shares with confidence intervals, on scipy's distributions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from importlib import import_module
from typing import Any, TypeAlias, cast

from assay.errors import MissingExtraError
from assay.runs.stats import Spread, wilson_bounds

try:
    import numpy as np
    from numpy.typing import NDArray

    # `scipy.stats` has the same functions, and takes half a second longer to import.
    _special: Any = import_module("scipy.special")
except ModuleNotFoundError as error:
    raise MissingExtraError("statistics about judges", package=str(error.name), extra="trust") from None

Array: TypeAlias = NDArray[np.float64]

LEVEL = 0.95
"""The confidence of every interval unless said otherwise."""
ALONE = "one example alone has no spread, so there is no interval"
_NOTHING = "nothing was counted"


class Record:
    """A dataclass that turns into plain data field by field."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        return {each.name: _plain(getattr(self, each.name)) for each in fields(cast("Any", self))}


def _plain(value: Any) -> Any:
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in cast("Mapping[str, Any]", value).items()}
    if isinstance(value, tuple | list):
        return [_plain(each) for each in cast("Sequence[Any]", value)]
    return value


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
            None if end is None else min(max(end, least), most) for end in (self.value, self.low, self.high)
        )
        return replace(self, value=value, low=low, high=high)

    def to_dict(self) -> dict[str, Any]:
        """Plain data; the reason only where there is one."""
        ends: dict[str, Any] = {"value": self.value, "low": self.low, "high": self.high}
        return {**ends, "reason": self.reason} if self.reason else ends


def undefined(reason: str) -> Estimate:
    """No figure, and why."""
    return Estimate(reason=reason)


def wilson(successes: float, trials: float, level: float = LEVEL) -> Estimate:
    """A share of independent trials with Wilson's score interval.

    >>> print(wilson(9, 10))
    0.90 [0.60, 0.98]
    """
    if not trials:
        return undefined(_NOTHING)
    share, z = successes / trials, normal_quantile((1 + level) / 2)
    return Estimate(share, *wilson_bounds(share, trials, z))


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
    return spread_estimate(Spread(share, squares, trials, len(counted), is_share=True), level)


def spread_estimate(spread: Spread, level: float = LEVEL) -> Estimate:
    """The mean of values, with the interval that their spread between examples gives it."""
    upper = (1 + level) / 2
    t = t_quantile(upper, max(1, spread.examples - 1))
    low, high = spread.bounds(normal_quantile(upper), t)
    return Estimate(spread.mean, low, high, "" if low is not None else ALONE)


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


def normal_quantile(share: float) -> float:
    """The value below which a standard normal falls with this probability.

    >>> round(normal_quantile(0.975), 4)
    1.96
    """
    return float(_special.ndtri(share))


def normal_cdf(value: float) -> float:
    """The probability that a standard normal falls below a value."""
    return float(_special.ndtr(value))


def t_quantile(share: float, freedom: float) -> float:
    """The same as `normal_quantile` for Student's t, with so many degrees of freedom."""
    return float(_special.stdtrit(freedom, share))


def binomial_cdf(successes: int, trials: int, chance: float) -> float:
    """The probability of at most so many successes.

    >>> binomial_cdf(1, 2, 0.5)
    0.75
    """
    return float(_special.bdtr(successes, trials, chance))


def ratio(above: Array, below: Array) -> Array:
    """The quotients; NaN where there is nothing to divide by."""
    shape = np.broadcast_shapes(np.shape(above), np.shape(below))
    return np.divide(above, below, out=np.full(shape, np.nan), where=np.asarray(below) > 0)
