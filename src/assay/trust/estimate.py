"""Figures with confidence intervals. Examples are independent observations; single answers are not."""

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

    # `scipy.stats` has the same functions, but takes half a second longer to import.
    special: Any = import_module("scipy.special")
except ModuleNotFoundError as error:
    raise MissingExtraError(
        "statistics about judges", package=str(error.name), extra="cli"
    ) from None

Array: TypeAlias = NDArray[np.float64]
BoolArray: TypeAlias = NDArray[np.bool_]
IntArray: TypeAlias = NDArray[np.intp]

LEVEL = 0.95  # the default confidence level of all intervals
MAX_KINDS = 256  # up to this many distinct values, drawing their counts is faster than drawing them

_MAX_CELLS = 4_000_000  # random numbers held in memory at once
_ONE_EXAMPLE = "a single example has no variance, so there is no interval"
_NOTHING_COUNTED = "nothing was counted"


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class Record:
    """Base class of results: subclasses become frozen dataclasses with a method `to_dict`."""

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True)(cls)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain data, ready for JSON."""
        names = [record_field.name for record_field in fields(cast("Any", self))]
        return {name: to_plain_data(getattr(self, name)) for name in names}


def to_plain_data(value: Any) -> Any:
    """Return a value as plain data: objects with `to_dict` are converted, in containers too."""
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if isinstance(value, Mapping):
        items = cast("Mapping[str, Any]", value).items()
        return {key: to_plain_data(item) for key, item in items}
    if isinstance(value, tuple | list):
        return [to_plain_data(item) for item in cast("Sequence[Any]", value)]
    return value


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
        return self.format(digits=2)

    def format(self, *, digits: int) -> str:
        """Return the value and its interval as text; a dash if there is no value."""
        if self.value is None:
            return "–"
        value = f"{self.value:.{digits}f}"
        if self.low is None or self.high is None:
            return value
        return f"{value} [{self.low:.{digits}f}, {self.high:.{digits}f}]"

    def clamp(self, least: float, most: float) -> "Estimate":
        """Return a copy in which no number is below `least` or above `most`."""

        def clamp_number(number: float | None) -> float | None:
            return None if number is None else min(max(number, least), most)

        return replace(
            self,
            value=clamp_number(self.value),
            low=clamp_number(self.low),
            high=clamp_number(self.high),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain data; the reason is left out if it is empty."""
        data: dict[str, Any] = {"value": self.value, "low": self.low, "high": self.high}
        if self.reason:
            data["reason"] = self.reason
        return data


# Shares and means.


def wilson(successes: float, trials: float, level: float = LEVEL) -> Estimate:
    """Return a share of independent trials with Wilson's score interval.

    >>> print(wilson(9, 10))
    0.90 [0.60, 0.98]
    """
    if not trials:
        return Estimate(reason=_NOTHING_COUNTED)
    share = successes / trials
    low, high = wilson_bounds(share, trials, normal_quantile((1 + level) / 2))
    return Estimate(share, low, high)


def clustered_wilson(clusters: Sequence[tuple[float, float]], level: float = LEVEL) -> Estimate:
    """Return a share with Wilson's interval, from clusters of (successes, trials).

    The trials of a cluster may depend on each other, so the interval is that of fewer trials: as
    many independent ones as would give the observed spread between clusters. If there is no spread,
    because all trials failed or all succeeded, or because there is one cluster, each cluster counts
    as one trial.
    """
    clusters = [(successes, trials) for successes, trials in clusters if trials]
    if not clusters:
        return Estimate(reason=_NOTHING_COUNTED)
    total = sum(trials for _, trials in clusters)
    share = sum(successes for successes, _ in clusters) / total
    if len(clusters) == 1:
        return wilson(share, 1, level)
    squares = sum((successes - share * trials) ** 2 for successes, trials in clusters)
    spread = Spread(mean=share, squares=squares, count=total, examples=len(clusters), is_share=True)
    return _estimate_from_spread(spread, level)


def estimate_mean(values: Array, examples: Array, level: float = LEVEL) -> Estimate:
    """Return the mean of values with an interval, in which only examples are independent.

    `values[i]` belongs to the example with the number `examples[i]`. Several values of one example
    may depend on each other.
    """
    if not len(values):
        return Estimate(reason="there are no values")
    mean = float(values.mean())
    deviations = sums_by_example(values - mean, examples)  # one for each example
    spread = Spread(
        mean=mean,
        squares=float((deviations**2).sum()),
        count=len(values),
        examples=len(deviations),
        is_share=bool(np.isin(values, (0.0, 1.0)).all()),
    )
    return _estimate_from_spread(spread, level)


def _estimate_from_spread(spread: Spread, level: float) -> Estimate:
    """Return a mean with its interval at this level, such as 0.95, or the reason for having none."""
    probability = (1 + level) / 2  # below the upper end of a two-sided interval
    degrees_of_freedom = max(1, spread.examples - 1)
    low, high = spread.bounds(
        z=normal_quantile(probability), t=t_quantile(probability, degrees_of_freedom)
    )
    reason = _ONE_EXAMPLE if low is None else ""
    return Estimate(spread.mean, low, high, reason)


def subtract_shares(first: Estimate, second: Estimate) -> Estimate:
    """Return the first share minus the second, from separate trials, with Newcombe's interval."""
    if first.value is None or second.value is None:
        return Estimate(reason="one of the two shares has no observations")
    difference = first.value - second.value
    if first.low is None or first.high is None or second.low is None or second.high is None:
        return Estimate(difference, reason="one of the two shares has no interval")
    # The difference is lowest where the first share is low and the second is high.
    distance_to_low = ((first.value - first.low) ** 2 + (second.high - second.value) ** 2) ** 0.5
    distance_to_high = ((first.high - first.value) ** 2 + (second.value - second.low) ** 2) ** 0.5
    return Estimate(
        difference, low=difference - distance_to_low, high=difference + distance_to_high
    )


def normal_quantile(probability: float) -> float:
    """Return the value below which a standard normal variable lies with this probability."""
    return float(special.ndtri(probability))


def t_quantile(probability: float, degrees_of_freedom: float) -> float:
    """Return the value below which Student's t lies with this probability."""
    return float(special.stdtrit(degrees_of_freedom, probability))


def divide(numerators: Array, denominators: Array, *, above: float = 0.0) -> Array:
    """Return the quotients; NaN where the denominator is not larger than `above`."""
    shape = np.broadcast_shapes(np.shape(numerators), np.shape(denominators))
    undefined = np.full(shape, np.nan)
    is_defined = np.asarray(denominators) > above
    return np.divide(numerators, denominators, out=undefined, where=is_defined)


def measure_design_effect(influence: Array, examples: Array) -> float:
    """Return by what factor rollouts of the same example increase the variance; at least 1.

    The factor is 1 if rollouts of the same example are independent. `influence[i]` is how much
    rollout i moves the estimate, and `examples[i]` the number of its example.
    """
    variance_if_independent = float((influence**2).sum())
    if variance_if_independent <= 0:
        return 1.0
    variance = float((sums_by_example(influence, examples) ** 2).sum())
    return max(1.0, variance / variance_if_independent)


def sums_by_example(values: Array, examples: Sequence[int] | Array) -> Array:
    """Return the sum of the values of each example; `values` may also be an array of rows.

    `values[i]` belongs to the example with the number `examples[i]`. The sums are in the order of
    these numbers.
    """
    _, indices = np.unique(examples, return_inverse=True)
    example_count = int(indices.max(initial=-1)) + 1
    sums = np.zeros((example_count, *values.shape[1:]))
    np.add.at(sums, indices, values)
    return sums


def number_examples(examples: Sequence[str]) -> list[int]:
    """Return a number for each example, counted from 0 in the order of their first mention."""
    numbers = {example: number for number, example in enumerate(dict.fromkeys(examples))}
    return [numbers[example] for example in examples]


# Other figures, by resampling whole examples.


@dataclass(frozen=True)
class Statistic:
    """A figure that is computed from sums, for many resamples at once."""

    # Takes sums with any number of resamples in the first dimensions, and returns the figure of
    # each; NaN where it is undefined.
    compute: Callable[[Array], Array]
    undefined: str  # when the figure is undefined
    # For a share, which needs no resampling: returns successes and trials.
    count: Callable[[Array], tuple[Array, Array]] | None = None

    def estimate(self, sums: Array) -> Estimate:
        """Return the figure of one set of sums, without an interval."""
        value = float(self.compute(sums))
        return Estimate(value) if np.isfinite(value) else Estimate(reason=self.undefined)


def make_share(count: Callable[[Array], tuple[Array, Array]], undefined: str) -> Statistic:
    """Return a statistic that is a share of trials.

    `count` takes the sums of many resamples, and returns the successes and trials of each. The text
    `undefined` says when there are no trials.
    """

    def compute(sums: Array) -> Array:
        successes, trials = count(sums)
        return divide(successes, trials)

    return Statistic(compute, undefined, count)


# The first sum divided by the second, of values that are 0 or 1.
SHARE = make_share(lambda sums: (sums[..., 0], sums[..., 1]), _NOTHING_COUNTED)
# The same for any values.
MEAN = Statistic(SHARE.compute, _NOTHING_COUNTED)


@dataclass(frozen=True)
class ExampleSums:
    """Sums over the answers of each example, from which figures are computed.

    Resampling draws whole examples, with all answers about them.
    """

    sums: Array  # the first dimension is the example; the others depend on the figures
    resamples: int = 5000
    seed: int = 0

    @classmethod
    def of_values(cls, values: Sequence[float] | Array, examples: Sequence[str]) -> "ExampleSums":
        """Return what `MEAN` and `SHARE` need: the sum and the number of each example's values."""
        ones = np.ones(len(values))  # whose sum is the number of values
        values_and_ones = np.stack([np.asarray(values, dtype=np.float64), ones], axis=1)
        return cls(sums_by_example(values_and_ones, number_examples(examples)))

    def estimate(self, statistic: Statistic) -> Estimate:
        """Return a figure over all examples, with an interval if there is enough data for one.

        A share has Wilson's interval. That of any other figure comes from the bootstrap.
        """
        estimate = statistic.estimate(self._total)
        if estimate.value is None:
            return estimate
        if statistic.count is not None:
            successes, trials = statistic.count(self.sums)
            return clustered_wilson(list(zip(successes.tolist(), trials.tolist(), strict=True)))
        if len(self.sums) < 2:
            return Estimate(estimate.value, reason=_ONE_EXAMPLE)
        resampled = statistic.compute(self.resampled_sums)
        defined = resampled[np.isfinite(resampled)]
        if len(defined) < 0.9 * len(resampled):
            reason = f"no interval: in many resamples {statistic.undefined}"
            return Estimate(estimate.value, reason=reason)
        if np.ptp(defined) < 1e-12:
            # All resamples give the same figure. An interval of length 0 would claim certainty.
            reason = f"no interval: all {len(self.sums)} examples are equal in this"
            return Estimate(estimate.value, reason=reason)
        low, high = self._find_bounds(statistic, estimate.value, defined)
        return Estimate(estimate.value, low, high)

    @cached_property
    def _total(self) -> Array:
        return self.sums.sum(axis=0)

    @cached_property
    def _kinds(self) -> tuple[Array, Array]:
        """The distinct sums, and how many examples have each of them.

        Examples with the same sums are of one kind. There are few kinds if answers are yes or no,
        and drawing how many of each kind are in a resample is much faster than drawing examples.
        """
        scale = float(np.abs(self.sums).max(initial=0.0)) or 1.0
        # Sums of the same numbers in a different order may differ in the last digits.
        _, indices, counts = np.unique(
            np.round(self.sums / scale, 12), axis=0, return_index=True, return_counts=True
        )
        return self.sums[indices], counts.astype(np.float64)

    @cached_property
    def resampled_sums(self) -> Array:
        """The sums of each resample: as many examples as there are, drawn with replacement."""
        kinds, kind_counts = self._kinds
        flat_kinds = kinds.reshape(len(kinds), -1)
        sums = [counts @ flat_kinds for counts in self._draw_kind_counts(kind_counts)]
        return np.concatenate(sums).reshape(-1, *self.sums.shape[1:])

    def _draw_kind_counts(self, kind_counts: Array) -> Iterator[Array]:
        """Yield how many examples of each kind are in each resample, some resamples at a time."""
        generator = np.random.default_rng(self.seed)
        example_count = len(self.sums)
        kind_count = len(kind_counts)
        if kind_count <= MAX_KINDS:
            probabilities = kind_counts / kind_counts.sum()
            counts = generator.multinomial(example_count, probabilities, size=self.resamples)
            yield counts.astype(np.float64)
            return
        # With many kinds, drawing examples one by one is faster than a multinomial.
        kind_of_example = np.repeat(np.arange(kind_count), kind_counts.astype(np.intp))
        for draws in split_draws(self.resamples, example_count):
            examples = generator.integers(example_count, size=(draws, example_count))
            # `bincount` counts one list of numbers. So that one call counts the kinds of every
            # resample, kind k of resample r has the number r * kind_count + k.
            numbers = kind_of_example[examples] + np.arange(draws)[:, None] * kind_count
            counts = np.bincount(numbers.ravel(), minlength=draws * kind_count)
            yield counts.reshape(draws, kind_count).astype(np.float64)

    def _find_bounds(
        self, statistic: Statistic, value: float, resampled: Array
    ) -> tuple[float, float]:
        """Return both ends of the bootstrap interval of a figure.

        `value` is the figure itself, and `resampled` the figure of each resample. This is the
        bias-corrected and accelerated interval (Efron's BCa), widened as Student's t.
        """
        # The bias: by how many standard deviations the median of the resamples is off the figure.
        differences = resampled - value
        tolerance = 1e-9 * float(np.abs(differences).max())
        share_below = float((differences < -tolerance).mean())
        share_equal = float((np.abs(differences) <= tolerance).mean())
        smallest_share = 1 / (2 * len(resampled))  # the quantile of 0 would be infinite
        share = min(max(share_below + share_equal / 2, smallest_share), 1 - smallest_share)
        bias = normal_quantile(share)

        kinds, kind_counts = self._kinds
        acceleration = _measure_acceleration(statistic.compute(self._total - kinds), kind_counts)

        # Small samples spread less than the population (Hesterberg 2015, "What teachers should know
        # about the bootstrap").
        count = len(self.sums)
        widening = (count / (count - 1)) ** 0.5
        half_width = t_quantile((1 + LEVEL) / 2, count - 1) * widening  # in standard deviations

        probabilities: list[float] = []  # of the resamples, below each end
        for z in (-half_width, half_width):
            divisor = 1 - acceleration * (bias + z)
            corrected_z = bias + (bias + z) / divisor if divisor > 0 else z
            probabilities.append(float(special.ndtr(corrected_z)))
        low, high = np.quantile(resampled, probabilities)
        return float(low), float(high)


def _measure_acceleration(without_one: Array, counts: Array) -> float:
    """Return the acceleration of the BCa interval: how skewed the influence of single examples is.

    Examples are grouped by kind: `without_one[k]` is the figure without one example of kind k, and
    `counts[k]` how many examples are of this kind. The formula is that of the jackknife.
    """
    is_defined = np.isfinite(without_one)
    figures = without_one[is_defined]
    weights = counts[is_defined]
    if not len(figures):
        return 0.0
    mean = (weights * figures).sum() / weights.sum()
    influences = mean - figures
    cubes = float((weights * influences**3).sum())
    squares = float((weights * influences**2).sum())
    return cubes / (6 * squares**1.5) if squares > 0 else 0.0


def split_draws(draws: int, width: int) -> Iterator[int]:
    """Split random draws into batches that fit into memory, and yield the size of each batch.

    `width` is how many numbers one draw takes.
    """
    batch_size = max(1, _MAX_CELLS // width)
    for start in range(0, draws, batch_size):
        yield min(batch_size, draws - start)
