"""Give figures an interval that takes whole examples for independent, and never single answers."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from assay.runs.stats import Spread
from assay.trust.estimate import (
    ALONE,
    LEVEL,
    Array,
    Estimate,
    clustered_wilson,
    normal_cdf,
    normal_quantile,
    np,
    ratio,
    spread_estimate,
    t_quantile,
    undefined,
)

_CELLS = 4_000_000
"""Random numbers held at once."""
_FEW = 256
"""Distinct rows up to which it is quicker to draw how often each comes than to draw examples."""
_DEFINED = 0.9
"""The share of resamples that must have the figure for an interval to be given."""
_DIGITS = 12
"""Digits in which sums must differ to be others: those of the same numbers in another order do in the last."""


class Resampling(NamedTuple):
    """How intervals are made."""

    resamples: int = 5000
    level: float = LEVEL
    seed: int = 0


DEFAULT_RESAMPLING = Resampling()


@dataclass(frozen=True)
class Statistic:
    """A figure worked out from sums, for many resamples at once."""

    of: Callable[[Array], Array]
    """Sums of any number of resamples, and the figure of each; NaN where it is not defined."""
    undefined: str
    """What is so when it is not defined."""
    parts: Callable[[Array], tuple[Array, Array]] | None = None
    """Of a share: how many are counted, of how many. It needs no resampling."""

    def alone(self, sums: Array) -> Estimate:
        """The figure of these sums, without an interval."""
        value = float(self.of(sums))
        return Estimate(value) if np.isfinite(value) else undefined(self.undefined)


def share(parts: Callable[[Array], tuple[Array, Array]], undefined: str) -> Statistic:
    """A share, from what is counted and of how many."""
    return Statistic(lambda sums: ratio(*parts(sums)), undefined, parts)


def _first_two(sums: Array) -> tuple[Array, Array]:
    return sums[..., 0], sums[..., 1]


SHARE = share(_first_two, "nothing was counted")
"""The first sum over the second, of values that are 0 or 1."""
MEAN = Statistic(SHARE.of, SHARE.undefined)
"""The same of any values."""


@dataclass(frozen=True)
class Clustered:
    """The sums of each example. Resampling draws whole examples, with all answers about them."""

    sums: Array
    """One row an example; whatever the figures need, summed over the example's answers."""
    resampling: Resampling = DEFAULT_RESAMPLING

    @cached_property
    def total(self) -> Array:
        """The sums over all examples."""
        return self.sums.sum(axis=0)

    @cached_property
    def distinct(self) -> tuple[Array, Array]:
        """The sums that occur, and how often. Yes and no leave few, and equal ones are drawn together."""
        scale = float(np.abs(self.sums).max(initial=0.0)) or 1.0
        rounded = np.round(self.sums / scale, _DIGITS)
        _, places, times = np.unique(rounded, axis=0, return_index=True, return_counts=True)
        return self.sums[places], times.astype(np.float64)

    @cached_property
    def drawn(self) -> Array:
        """The sums of each resample: as many examples as there are, drawn with replacement."""
        rows, times = self.distinct
        flat = rows.reshape(len(rows), -1)
        drawn = np.concatenate([counts @ flat for counts in self._counts(times)])
        return drawn.reshape(-1, *self.sums.shape[1:])

    def _counts(self, times: Array) -> Iterator[Array]:
        """How often each of the distinct rows is in each resample, some resamples at a time."""
        generator = np.random.default_rng(self.resampling.seed)
        examples, kinds, resamples = len(self.sums), len(times), self.resampling.resamples
        if kinds <= _FEW:
            counts = generator.multinomial(examples, times / times.sum(), size=resamples)
            yield counts.astype(np.float64)
            return
        # Many kinds are drawn example by example: a multinomial of them is slow.
        kind_of = np.repeat(np.arange(kinds), times.astype(np.intp))
        step = max(1, _CELLS // examples)
        for start in range(0, resamples, step):
            size = min(step, resamples - start)
            picks = kind_of[generator.integers(examples, size=(size, examples))]
            picks += np.arange(size)[:, None] * kinds
            counts = np.bincount(picks.ravel(), minlength=size * kinds)
            yield counts.reshape(size, kinds).astype(np.float64)

    def estimate(self, statistic: Statistic) -> Estimate:
        """The figure over all examples: a share with Wilson's interval, others with the bootstrap's.

        That is bias-corrected and accelerated (Efron's BCa). Its ends are moved out as Student's t is, since few
        examples spread less than all would (Hesterberg 2015, "What teachers should know").
        """
        found = statistic.alone(self.total)
        value = found.value
        if value is None:
            return found
        if statistic.parts is not None:
            counted, of = statistic.parts(self.sums)
            return clustered_wilson(list(zip(counted.tolist(), of.tolist(), strict=True)), self.resampling.level)
        if len(self.sums) < 2:
            return Estimate(value, reason=ALONE)
        drawn = statistic.of(self.drawn)
        defined = drawn[np.isfinite(drawn)]
        if len(defined) < _DEFINED * len(drawn):
            return Estimate(value, reason=f"no interval: in many resamples {statistic.undefined}")
        if np.ptp(defined) < 1e-12:
            # Which does not make the figure certain.
            reason = f"no interval: all {len(self.sums)} examples are alike in this"
            return Estimate(value, reason=reason)
        rows, times = self.distinct
        skew = _acceleration(statistic.of(self.total - rows), times)
        return Estimate(value, *_bca_interval(value, defined, skew, self._reach()))

    def _reach(self) -> float:
        """How many standard errors the interval reaches to either side."""
        count = len(self.sums)
        return t_quantile((1 + self.resampling.level) / 2, count - 1) * (count / (count - 1)) ** 0.5


def _bca_interval(value: float, drawn: Array, skew: float, reach: float) -> tuple[float, float]:
    """The ends of Efron's BCa interval."""
    gaps = drawn - value
    trace = 1e-9 * float(np.abs(gaps).max())
    below = float((gaps < -trace).mean()) + float((np.abs(gaps) <= trace).mean()) / 2
    edge = 1 / (2 * len(drawn))
    bias = normal_quantile(min(max(below, edge), 1 - edge))
    low, high = np.quantile(drawn, [_shifted(bias, skew, z) for z in (-reach, reach)])
    return float(low), float(high)


def _acceleration(without_one: Array, times: Array) -> float:
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


def clustered_values(values: Sequence[float] | Array, examples: Sequence[str], resampling: Resampling) -> Clustered:
    """What `MEAN` and `SHARE` need: the sum of each example's values, and how many they are."""
    counted = np.stack([np.asarray(values, dtype=np.float64), np.ones(len(values))], axis=1)
    return Clustered(sums_by_example(counted, example_numbers(examples)), resampling)


def mean_of(values: Array, examples: Array, level: float = LEVEL) -> Estimate:
    """The mean, with an interval that takes whole examples for independent."""
    if not len(values):
        return undefined("there are no values")
    mean = float(values.mean())
    together = sums_by_example(values - mean, examples)
    is_share = bool(np.isin(values, (0.0, 1.0)).all())
    squares = float((together**2).sum())
    return spread_estimate(Spread(mean, squares, len(values), len(together), is_share), level)


def design_effect(influence: Array, examples: Array) -> float:
    """How much larger the variance is than if all rollouts were independent; at least 1.

    `influence` is what each rollout adds to the estimate.
    """
    alone = float((influence**2).sum())
    if alone <= 0:
        return 1.0
    return max(1.0, float((sums_by_example(influence, examples) ** 2).sum()) / alone)


def sums_by_example(values: Array, examples: Sequence[int] | Array) -> Array:
    """The values, or rows of them, added up: a sum for each example, which is given by number."""
    _, places = np.unique(examples, return_inverse=True)
    sums = np.zeros((int(places.max(initial=-1)) + 1, *values.shape[1:]))
    np.add.at(sums, places, values)
    return sums


def example_numbers(examples: Sequence[str]) -> list[int]:
    """The number of each example, counted by first mention."""
    numbers = {example: number for number, example in enumerate(dict.fromkeys(examples))}
    return [numbers[example] for example in examples]
