"""Estimate figures with confidence intervals that take whole examples for independent, and never single answers."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from importlib import import_module
from typing import Any, TypeAlias, cast, dataclass_transform

from assay.errors import MissingExtraError
from assay.runs.stats import Spread, wilson_bounds

try:
    import numpy as np
    from numpy.typing import NDArray

    # `scipy.stats` has the same functions, and takes half a second longer to import.
    special: Any = import_module("scipy.special")
except ModuleNotFoundError as error:
    raise MissingExtraError(
        "statistics about judges", package=str(error.name), extra="trust"
    ) from None

Array: TypeAlias = NDArray[np.float64]
BoolArray: TypeAlias = NDArray[np.bool_]
IntArray: TypeAlias = NDArray[np.intp]

LEVEL = 0.95  # the confidence of every interval unless said otherwise
_ALONE = "one example alone has no spread, so there is no interval"
_NOTHING = "nothing was counted"
_CELLS = 4_000_000  # random numbers held at once
FEW = 256  # distinct values up to which it is quicker to draw how often each comes than to draw them one by one


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class Record:
    """A frozen dataclass, which a subclass need not say, that turns into plain data field by field."""

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True)(cls)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        return {each.name: plain(getattr(self, each.name)) for each in fields(cast("Any", self))}


def plain(value: Any) -> Any:
    """A value as JSON has it: what turns into plain data as that, in mappings and lists too."""
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if isinstance(value, Mapping):
        return {key: plain(each) for key, each in cast("Mapping[str, Any]", value).items()}
    return (
        [plain(each) for each in cast("Sequence[Any]", value)]
        if isinstance(value, tuple | list)
        else value
    )


@dataclass(frozen=True)
class Estimate:
    """A figure and its confidence interval. `reason` says why there is no value, or no interval.

    >>> print(Estimate(0.52, 0.31, 0.7))
    0.52 [0.31, 0.70]
    """

    value: float | None = None
    low: float | None = None
    high: float | None = None
    reason: str = ""

    def __str__(self) -> str:
        return self.to_digits(2)

    def to_digits(self, digits: int) -> str:
        """The figure with its interval, to so many digits after the point; a dash when there is none."""
        if self.value is None:
            return "–"
        shown = f"{self.value:.{digits}f}"
        if self.low is None or self.high is None:
            return shown
        return f"{shown} [{self.low:.{digits}f}, {self.high:.{digits}f}]"

    def within(self, least: float, most: float) -> "Estimate":
        """The same, where nothing outside of these is possible."""
        ends = (self.value, self.low, self.high)
        value, low, high = (None if end is None else min(max(end, least), most) for end in ends)
        return replace(self, value=value, low=low, high=high)

    def to_dict(self) -> dict[str, Any]:
        """Plain data; the reason only where there is one."""
        ends: dict[str, Any] = {"value": self.value, "low": self.low, "high": self.high}
        return {**ends, "reason": self.reason} if self.reason else ends


# Shares and means.


def wilson(successes: float, trials: float, level: float = LEVEL) -> Estimate:
    """A share of independent trials with Wilson's score interval.

    >>> print(wilson(9, 10))
    0.90 [0.60, 0.98]
    """
    if not trials:
        return Estimate(reason=_NOTHING)
    share = successes / trials
    return Estimate(share, *wilson_bounds(share, trials, normal_quantile((1 + level) / 2)))


def clustered_wilson(clusters: Sequence[tuple[float, float]], level: float = LEVEL) -> Estimate:
    """A share with Wilson's interval, of clusters given as (successes, trials).

    The trials of a cluster may come out alike, so they count for as many independent ones as give the
    spread that is seen between clusters. Where no spread is seen, since nothing or everything
    succeeded or there is one cluster alone, each cluster counts as one.
    """
    counted = [(successes, trials) for successes, trials in clusters if trials]
    if not counted:
        return Estimate(reason=_NOTHING)
    trials = sum(size for _, size in counted)
    share = sum(successes for successes, _ in counted) / trials
    if len(counted) == 1:
        return wilson(share, 1, level)
    squares = sum((successes - share * size) ** 2 for successes, size in counted)
    return _spread_estimate(Spread(share, squares, trials, len(counted), is_share=True), level)


def mean_of(values: Array, examples: Array, level: float = LEVEL) -> Estimate:
    """The mean, with an interval that takes whole examples for independent."""
    if not len(values):
        return Estimate(reason="there are no values")
    mean = float(values.mean())
    together = sums_by_example(values - mean, examples)
    is_share = bool(np.isin(values, (0.0, 1.0)).all())
    return _spread_estimate(
        Spread(mean, float((together**2).sum()), len(values), len(together), is_share), level
    )


def _spread_estimate(spread: Spread, level: float) -> Estimate:
    upper = (1 + level) / 2
    low, high = spread.bounds(
        normal_quantile(upper), t_quantile(upper, max(1, spread.examples - 1))
    )
    return Estimate(spread.mean, low, high, "" if low is not None else _ALONE)


def difference_of(first: Estimate, second: Estimate) -> Estimate:
    """The first share less the second, from separate trials, with Newcombe's interval."""
    one, one_low, one_high = first.value, first.low, first.high
    other, other_low, other_high = second.value, second.low, second.high
    if one is None or other is None:
        return Estimate(reason="one of the two shares counts nothing")
    if one_low is None or one_high is None or other_low is None or other_high is None:
        return Estimate(one - other, reason="one of the two shares has no interval")
    below = ((one - one_low) ** 2 + (other_high - other) ** 2) ** 0.5
    above = ((one_high - one) ** 2 + (other - other_low) ** 2) ** 0.5
    return Estimate(one - other, one - other - below, one - other + above)


def normal_quantile(share: float) -> float:
    """The value below which a standard normal falls with this probability."""
    return float(special.ndtri(share))


def t_quantile(share: float, freedom: float) -> float:
    """The same for Student's t, with so many degrees of freedom."""
    return float(special.stdtrit(freedom, share))


def ratio(above: Array, below: Array, least: float = 0.0) -> Array:
    """The quotients; NaN where there is nothing, or no more than `least`, to divide by."""
    shape = np.broadcast_shapes(np.shape(above), np.shape(below))
    return np.divide(above, below, out=np.full(shape, np.nan), where=np.asarray(below) > least)


def design_effect(influence: Array, examples: Array) -> float:
    """How much larger the variance is than of independent rollouts, from what each adds to the estimate; at least 1."""
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


# Other figures, by resampling whole examples.


@dataclass(frozen=True)
class Statistic:
    """A figure worked out from sums, for many resamples at once."""

    of: Callable[
        [Array], Array
    ]  # sums of any number of resamples, and the figure of each; NaN where it is not defined
    undefined: str  # what is so when it is not defined
    # Of a share, which needs no resampling: how many of how many.
    parts: Callable[[Array], tuple[Array, Array]] | None = None

    def alone(self, sums: Array) -> Estimate:
        value = float(self.of(sums))
        return Estimate(value) if np.isfinite(value) else Estimate(reason=self.undefined)


def share(parts: Callable[[Array], tuple[Array, Array]], undefined: str) -> Statistic:
    return Statistic(lambda sums: ratio(*parts(sums)), undefined, parts)


# The first sum over the second, of values that are 0 or 1.
SHARE = share(lambda sums: (sums[..., 0], sums[..., 1]), _NOTHING)
MEAN = Statistic(SHARE.of, _NOTHING)  # the same of any values


@dataclass(frozen=True)
class Clustered:
    """The sums of each example. Resampling draws whole examples, with all answers about them."""

    sums: Array  # one row an example; whatever the figures need, summed over the example's answers
    resamples: int = 5000
    seed: int = 0

    @cached_property
    def total(self) -> Array:
        return self.sums.sum(axis=0)

    @cached_property
    def distinct(self) -> tuple[Array, Array]:
        """The sums that occur, and how often. Yes and no leave few, and equal ones are drawn together."""
        scale = float(np.abs(self.sums).max(initial=0.0)) or 1.0
        # Sums of the same numbers in another order may differ in the last digits.
        _, places, times = np.unique(
            np.round(self.sums / scale, 12), axis=0, return_index=True, return_counts=True
        )
        return self.sums[places], times.astype(np.float64)

    @cached_property
    def drawn(self) -> Array:
        """The sums of each resample: as many examples as there are, drawn with replacement."""
        rows, times = self.distinct
        flat = rows.reshape(len(rows), -1)
        return np.concatenate([counts @ flat for counts in self._counts(times)]).reshape(
            -1, *self.sums.shape[1:]
        )

    def _counts(self, times: Array) -> Iterator[Array]:
        """How often each of the distinct rows is in each resample, some resamples at a time."""
        generator = np.random.default_rng(self.seed)
        examples, kinds = len(self.sums), len(times)
        if kinds <= FEW:
            counts = generator.multinomial(examples, times / times.sum(), size=self.resamples)
            yield counts.astype(np.float64)
            return
        # Many kinds are drawn example by example: a multinomial of them is slow.
        kind_of = np.repeat(np.arange(kinds), times.astype(np.intp))
        for size in split_draws(self.resamples, examples):
            picks = kind_of[generator.integers(examples, size=(size, examples))]
            picks += np.arange(size)[:, None] * kinds
            counts = np.bincount(picks.ravel(), minlength=size * kinds)
            yield counts.reshape(size, kinds).astype(np.float64)

    def estimate(self, statistic: Statistic) -> Estimate:
        """The figure over all examples: a share with Wilson's interval, others with the bootstrap's."""
        found = statistic.alone(self.total)
        value = found.value
        if value is None:
            return found
        if statistic.parts is not None:
            counted, of = statistic.parts(self.sums)
            return clustered_wilson(list(zip(counted.tolist(), of.tolist(), strict=True)))
        if len(self.sums) < 2:
            return Estimate(value, reason=_ALONE)
        drawn = statistic.of(self.drawn)
        defined = drawn[np.isfinite(drawn)]
        if len(defined) < 0.9 * len(drawn):
            return Estimate(value, reason=f"no interval: in many resamples {statistic.undefined}")
        if np.ptp(defined) < 1e-12:
            # Which does not make the figure certain.
            return Estimate(
                value, reason=f"no interval: all {len(self.sums)} examples are alike in this"
            )
        return Estimate(value, *self._interval(statistic, value, defined))

    def _interval(self, statistic: Statistic, value: float, drawn: Array) -> tuple[float, float]:
        """The ends of the bias-corrected and accelerated interval (Efron's BCa), moved out as Student's t is."""
        gaps = drawn - value
        trace = 1e-9 * float(np.abs(gaps).max())
        below = float((gaps < -trace).mean()) + float((np.abs(gaps) <= trace).mean()) / 2
        edge = 1 / (2 * len(drawn))
        bias = normal_quantile(min(max(below, edge), 1 - edge))
        rows, times = self.distinct
        skew = _acceleration(statistic.of(self.total - rows), times)
        count = len(self.sums)
        # Few examples spread less than all would (Hesterberg 2015, "What teachers should know").
        reach = t_quantile((1 + LEVEL) / 2, count - 1) * (count / (count - 1)) ** 0.5
        ends: list[float] = []
        for z in (-reach, reach):
            stretch = 1 - skew * (bias + z)
            ends.append(float(special.ndtr(bias + (bias + z) / stretch if stretch > 0 else z)))
        low, high = np.quantile(drawn, ends)
        return float(low), float(high)


def _acceleration(without_one: Array, times: Array) -> float:
    """How unevenly single examples, left out in turn, move the figure."""
    defined = np.isfinite(without_one)
    kept, weights = without_one[defined], times[defined]
    if not len(kept):
        return 0.0
    gaps = (weights * kept).sum() / weights.sum() - kept
    spread = float((weights * gaps**2).sum()) ** 1.5
    return float((weights * gaps**3).sum()) / (6 * spread) if spread > 0 else 0.0


def clustered_values(values: Sequence[float] | Array, examples: Sequence[str]) -> Clustered:
    """What `MEAN` and `SHARE` need: the sum of each example's values, and how many they are."""
    counted = np.stack([np.asarray(values, dtype=np.float64), np.ones(len(values))], axis=1)
    return Clustered(sums_by_example(counted, example_numbers(examples)))


def split_draws(draws: int, width: int) -> Iterator[int]:
    """Yield how many draws to hold in memory at once, each of `width` numbers, until all are made."""
    step = max(1, _CELLS // width)
    for start in range(0, draws, step):
        yield min(step, draws - start)
