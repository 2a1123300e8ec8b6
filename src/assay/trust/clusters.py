"""Clusters: figures whose interval comes from resampling whole examples, never single answers."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

from assay.trust.estimate import Estimate, undefined
from assay.trust.numeric import Array, divided, normal_cdf, normal_quantile, np
from assay.trust.shares import LEVEL, clopper_pearson

RESAMPLES = 2000
_CELLS = 4_000_000
"""Random numbers held at once."""
_FEW = 256
"""Distinct rows up to which it is quicker to draw how often each comes than to draw examples."""
_DEFINED = 0.9
"""The share of resamples that must have the figure for an interval to be given."""


@dataclass(frozen=True)
class Statistic:
    """A figure worked out from sums, for many resamples at once."""

    of: Callable[[Array], Array]
    """Sums of any number of resamples, and the figure of each; NaN where it is not defined."""
    undefined: str
    """What is so when it is not defined."""
    is_share: bool = False
    """Whether it is a share of right answers, which has an exact interval when all are alike."""


MEAN = Statistic(lambda sums: divided(sums[..., 0], sums[..., 1]), "nothing was counted")
"""The first sum over the second: a mean, from the sum of the values and their number."""
SHARE = Statistic(MEAN.of, MEAN.undefined, is_share=True)


@dataclass(frozen=True)
class Clustered:
    """The sums of each example. Resampling draws whole examples, with all answers about them."""

    sums: Array
    """One row an example; whatever the figures need, summed over the example's answers."""
    resamples: int = RESAMPLES
    level: float = LEVEL
    seed: int = 0

    @cached_property
    def total(self) -> Array:
        """The sums over all examples."""
        return self.sums.sum(axis=0)

    @cached_property
    def distinct(self) -> tuple[Array, Array]:
        """The sums that occur, and how often. Yes and no leave few, and equal ones are drawn together."""
        rows, times = np.unique(self.sums, axis=0, return_counts=True)
        return rows, times.astype(np.float64)

    @cached_property
    def drawn(self) -> Array:
        """The sums of each resample: as many examples as there are, drawn with replacement."""
        rows, times = self.distinct
        counts = self._drawn_together(times) if len(rows) <= _FEW else self._drawn_apart(times)
        flat = rows.reshape(len(rows), -1)
        drawn = np.concatenate([each @ flat for each in counts])
        return drawn.reshape(-1, *self.sums.shape[1:])

    def _drawn_together(self, times: Array) -> Iterator[Array]:
        """How often each of the distinct rows is in each resample."""
        generator = np.random.default_rng(self.seed)
        shares = times / times.sum()
        yield generator.multinomial(len(self.sums), shares, size=self.resamples).astype(np.float64)

    def _drawn_apart(self, times: Array) -> Iterator[Array]:
        """The same by drawing examples one by one, some resamples at a time."""
        generator = np.random.default_rng(self.seed)
        examples, kinds = len(self.sums), len(times)
        kind_of = np.repeat(np.arange(kinds), times.astype(np.intp))
        step = max(1, _CELLS // examples)
        for start in range(0, self.resamples, step):
            size = min(step, self.resamples - start)
            picks = kind_of[generator.integers(examples, size=(size, examples))]
            picks += np.arange(size)[:, None] * kinds
            counts = np.bincount(picks.ravel(), minlength=size * kinds)
            yield counts.reshape(size, kinds).astype(np.float64)

    def estimate(self, statistic: Statistic) -> Estimate:
        """The figure over all examples, with a bias-corrected and accelerated bootstrap interval."""
        value = float(statistic.of(self.total[None])[0])
        if not np.isfinite(value):
            return undefined(statistic.undefined)
        if len(self.sums) < 2:
            return Estimate(
                value, reason="one example alone has no spread, so there is no interval"
            )
        drawn = statistic.of(self.drawn)
        defined = drawn[np.isfinite(drawn)]
        if len(defined) < _DEFINED * len(drawn):
            return Estimate(value, reason=f"no interval: in most resamples {statistic.undefined}")
        if np.ptp(defined) < 1e-12:
            return self._without_spread(value, statistic)
        rows, times = self.distinct
        without_one = statistic.of(self.total - rows)
        low, high = _accelerated(value, defined, _skewness(without_one, times), self.level)
        return Estimate(value, low, high)

    def _without_spread(self, value: float, statistic: Statistic) -> Estimate:
        """Resampling equal examples shows no spread, which does not make the figure certain."""
        count = len(self.sums)
        if statistic.is_share and value in (0.0, 1.0):
            return clopper_pearson(count if value else 0, count, self.level)
        return Estimate(value, reason=f"no interval: all {count} examples are alike in this")


def _accelerated(value: float, drawn: Array, skew: float, level: float) -> tuple[float, float]:
    """The ends of Efron's BCa interval."""
    below = float((drawn < value).mean()) + float((drawn == value).mean()) / 2
    edge = 1 / (2 * len(drawn))
    bias = normal_quantile(min(max(below, edge), 1 - edge))
    tail = normal_quantile((1 - level) / 2)
    low, high = np.quantile(drawn, [_shifted(bias, skew, z) for z in (tail, -tail)])
    return float(low), float(high)


def _skewness(without_one: Array, times: Array) -> float:
    """The acceleration: how unevenly single examples, left out in turn, move the figure."""
    defined = np.isfinite(without_one)
    kept, weights = without_one[defined], times[defined]
    if not len(kept):
        return 0.0
    gaps = (weights * kept).sum() / weights.sum() - kept
    spread = float((weights * gaps**2).sum()) ** 1.5
    return float((weights * gaps**3).sum()) / (6 * spread) if spread > 0 else 0.0


def _shifted(bias: float, skew: float, z: float) -> float:
    stretch = 1 - skew * (bias + z)
    return normal_cdf(bias + (bias + z) / stretch) if stretch > 0 else normal_cdf(z)
