"""Estimate means with 95 % intervals and pass rates (pass@k, pass^k), and compare scores with thresholds."""

import math
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import comb
from typing import Any, Final, Literal, NamedTuple, TypeAlias, get_args

from assay.report import EvaluationReport
from assay.wording import format_count

Z = 1.959963984540054  # 95 % of a normal distribution lie within so many standard deviations

# The 97.5 % points of Student's t for 1 to 4 degrees of freedom.
_STUDENT_POINTS = (12.706204736432095, 4.302652729696142, 3.182446305284263, 2.7764451051977987)
# Coefficients of the Cornish-Fisher series for the 97.5 % point of Student's t (Abramowitz and
# Stegun 26.7.5): z, (z³ + z) / 4, and so on.
_SERIES = (Z, 2.372271230298562, 2.8224986157396112, 2.555849679507722, 1.5895340533938225)


@dataclass(frozen=True, slots=True)
class Spread:
    """The spread of values that come in groups, one group per example."""

    mean: float
    squares: (
        float  # Σ_g (S_g − n_g·m)², with the sum S_g and the number n_g of the values of example g
    )
    count: float  # of values
    examples: int
    is_share: bool  # whether every value is 0 or 1

    def bounds(
        self, z: float = Z, t: float | None = None
    ) -> tuple[float, float] | tuple[None, None]:
        """Return the ends of the interval of the mean; None for both if there are too few examples.

        Values of one example depend on each other, so the variance is that between examples
        (clustered standard errors): `self.squares` is the sum over examples of (S − n·mean)², for n
        values whose sum is S. A share of 0 or 1 values gets Wilson's interval.

        It is the 95 % interval unless `z` and `t` give other points of the normal distribution and
        of Student's t.
        """
        if self.is_share and self.examples == self.count:
            return wilson_bounds(self.mean, self.count, z)
        if self.examples < 2:
            return None, None
        if self.is_share and self.mean in (0, 1):
            # There is no variance to estimate from, so only the number of examples counts.
            return wilson_bounds(self.mean, self.examples, z)
        degrees_of_freedom = self.examples - 1
        if t is None:
            t = student(degrees_of_freedom)
        squares = max(0.0, self.squares)
        variance = squares * self.examples / degrees_of_freedom / self.count**2
        if self.is_share:
            # The number of independent values that would have this variance, at most all of them.
            variance_of_value = self.mean * (1 - self.mean)
            if variance_of_value >= variance * self.count:
                independent = self.count
            else:
                independent = variance_of_value / variance
            return wilson_bounds(self.mean, independent, t)
        half_width = t * math.sqrt(variance)
        return self.mean - half_width, self.mean + half_width


def wilson_bounds(share: float, count: float, z: float = Z) -> tuple[float, float]:
    """Return Wilson's interval for a share of `count` independent trials."""
    weight = z * z / count
    middle = share + weight / 2
    half_width = z * math.sqrt(share * (1 - share) / count + weight / (4 * count))
    low = max(0.0, (middle - half_width) / (1 + weight))
    high = min(1.0, (middle + half_width) / (1 + weight))
    if share == 0:  # exactly, whatever the rounding
        low = 0.0
    if share == 1:
        high = 1.0
    return low, high


def student(degrees_of_freedom: int) -> float:
    """Return the 97.5 % point of Student's t: exact for up to 4 degrees of freedom, else to 0.02 %."""
    if degrees_of_freedom <= len(_STUDENT_POINTS):
        return _STUDENT_POINTS[degrees_of_freedom - 1]
    return sum(coefficient / degrees_of_freedom**power for power, coefficient in enumerate(_SERIES))


@dataclass(frozen=True)
class MeanEstimate:
    """A mean with its 95 % interval."""

    mean: float | None = None  # None if there are no values
    low: float | None = None  # None if there are too few examples for an interval
    high: float | None = None
    count: int = 0  # of values
    examples: int = 0  # that the values are of

    def within(self, least: float, most: float) -> "MeanEstimate":
        """Return the estimate with its interval cut to the values that are possible."""
        if self.low is None or self.high is None:
            return self
        return replace(self, low=max(least, self.low), high=min(most, self.high))


_GAP = 8  # an array may have this many unused positions, and a quarter of its size more
NO_ESTIMATE = MeanEstimate()


@dataclass(slots=True)
class ExamplePositions:
    """Positions of examples in arrays with one value per example, by the number of the example."""

    _start: int = 0  # the number of the first example
    # The position of each example; None while position is number minus start.
    _by_number: dict[int, int] | None = None

    def find(self, number: int, size: int) -> int:
        """Return the position of an example in arrays of this size; `size` or more if it is new.

        New examples usually have increasing numbers, so that the position follows from the number.
        If they turn out to have wide gaps between them, as in one of many tasks, the positions are
        kept in a dictionary instead: unused positions would waste memory.
        """
        if not size:
            self._start = number
        position = number - self._start
        end = size + _GAP + size // 4
        if self._by_number is None and not 0 <= position <= end:
            self._by_number = {self._start + index: index for index in range(size)}
        if self._by_number is None:
            return position
        return self._by_number.setdefault(number, size)


@dataclass(slots=True)
class Mean:
    """Averages values that come one by one, in groups by example.

    It keeps a few sums, and two numbers per example unless each example comes only once.
    """

    count: int = 0
    examples: int = 0
    # The first value is subtracted from all: squares of large numbers would lose small differences.
    _first: float = 0.0
    # With n values per example g, whose sum after the subtraction is S:
    _total: float = 0.0  # Σ S
    _squares: float = 0.0  # Σ S²
    _cross: float = 0.0  # Σ n·S
    _sizes: int = 0  # Σ n²
    _is_binary: bool = True  # whether every value is 0 or 1
    _counts: "array[int]" = field(default_factory=lambda: array("L"))  # n of each example
    _sums: "array[float]" = field(default_factory=lambda: array("d"))  # S of each example
    _positions: ExamplePositions = field(default_factory=ExamplePositions)

    def add(self, value: float, example: int | None = None) -> None:
        """Add a value of the example with this number; None for an example that comes only once."""
        if not self.count:
            self._first = float(value)
        self.count += 1
        if self._is_binary and value not in (0, 1):
            self._is_binary = False
        difference = value - self._first
        self._total += difference
        if example is None:  # as in most runs; n is 1 then, and S the difference
            self.examples += 1
            self._squares += difference * difference
            self._cross += difference
            self._sizes += 1
            return
        position = self._find_position(example)
        old_count, old_sum = self._counts[position], self._sums[position]
        self._counts[position] = old_count + 1
        self._sums[position] = old_sum + difference
        if not old_count:
            self.examples += 1
        # What S², n·S and n² of this example grow by.
        self._squares += difference * (2 * old_sum + difference)
        self._cross += old_sum + difference * (old_count + 1)
        self._sizes += 2 * old_count + 1

    def _find_position(self, example: int) -> int:
        """Return the position of an example in the arrays, which are extended if it is new."""
        size = len(self._counts)
        position = self._positions.find(example, size)
        missing = position + 1 - size
        if missing > 0:
            self._counts.extend([0] * missing)
            self._sums.extend([0.0] * missing)
        return position

    def merge(self, other: "Mean") -> None:
        """Add the values of another mean, which has no example in common with this one."""
        if not other.count:
            return
        if not self.count:
            self._first = other._first
        # Both subtracted another first value. With `shift` added to its values, S becomes S + n·shift.
        shift = other._first - self._first
        self._total += other._total + shift * other.count
        self._squares += other._squares + shift * (2 * other._cross + shift * other._sizes)
        self._cross += other._cross + shift * other._sizes
        self._sizes += other._sizes
        self._is_binary = self._is_binary and other._is_binary
        self.count += other.count
        self.examples += other.examples

    def estimate(self) -> MeanEstimate:
        """Return the mean of the values so far, with its interval."""
        if not self.count:
            return NO_ESTIMATE
        mean = (self._first * self.count + self._total) / self.count
        # The mean after the subtraction of the first value: Σ (S − n·m)² = Σ S² − 2m·Σ n·S + m²·Σ n².
        m = self._total / self.count
        spread = Spread(
            mean=mean,
            squares=self._squares - 2 * m * self._cross + m * m * self._sizes,
            count=self.count,
            examples=self.examples,
            is_share=self._is_binary,
        )
        low, high = spread.bounds()
        return MeanEstimate(mean, low, high, count=self.count, examples=self.examples)


Measure: TypeAlias = Literal["score", "reward"]


@dataclass(frozen=True)
class PassRule:
    """When a rollout passes: its score, or its reward, reaches a threshold."""

    threshold: float = 1.0
    measure: Measure = "score"

    def __post_init__(self) -> None:
        if type(self.threshold) not in (int, float) or not math.isfinite(self.threshold):
            raise ValueError(f"pass_threshold is {self.threshold!r}: give a number")
        if self.measure not in get_args(Measure):
            raise ValueError(f"pass_measure is {self.measure!r}: give 'score' or 'reward'")

    def __str__(self) -> str:
        return f"{self.measure} ≥ {self.threshold:g}"

    def is_passed(self, report: EvaluationReport) -> bool | None:
        """Return whether a rollout passes; None if it has no score, or no reward."""
        value = report.score if self.measure == "score" else report.raw_score
        if value is None:
            return None
        return not is_below(value, self.threshold)


DEFAULT_PASS_RULE = PassRule()


@dataclass(frozen=True)
class PassRates:
    """pass@k and pass^k for one k, averaged over the examples with at least k scored rollouts.

    For an example with c successes in n rollouts, pass@k is 1 − C(n−c, k)/C(n, k) and pass^k is
    C(c, k)/C(n, k).
    """

    any: float  # pass@k: the chance that at least one of k rollouts succeeds
    all: float  # pass^k: the chance that all k succeed
    examples: int


class Passes:
    """Counts the rollouts and successes of each example."""

    def __init__(self) -> None:
        # How many examples have n rollouts with c successes, by (n, c). Only for examples that come
        # once or were merged; the arrays have the others.
        self._examples_by_counts: Counter[tuple[int, int]] = Counter()
        self._rollouts = array("L")
        self._successes = array("L")
        self._positions = ExamplePositions()

    def add(self, success: bool, example: int | None = None) -> None:
        """Add a rollout of the example with this number; None for an example that comes only once."""
        if example is None:  # an example with one rollout
            self._examples_by_counts[1, int(success)] += 1
            return
        size = len(self._rollouts)
        position = self._positions.find(example, size)
        missing = position + 1 - size
        if missing > 0:
            self._rollouts.extend([0] * missing)
            self._successes.extend([0] * missing)
        self._rollouts[position] += 1
        self._successes[position] += success

    def _count_examples(self) -> Counter[tuple[int, int]]:
        """Return how many examples have n rollouts with c successes, by (n, c)."""
        return self._examples_by_counts + Counter(zip(self._rollouts, self._successes, strict=True))

    def merge(self, other: "Passes") -> None:
        """Add the rollouts of another object, which has no example in common with this one."""
        self._examples_by_counts += other._count_examples()

    def rates(self) -> dict[int, PassRates]:
        """Return the rates for k = 1, 2, 4, …, and for the most rollouts that an example has."""
        examples_by_counts = self._count_examples()
        most = max((rollouts for rollouts, _ in examples_by_counts), default=0)
        rates: dict[int, PassRates] = {}
        k = 1
        while k < most:
            rates[k] = _compute_rates(examples_by_counts, k)
            k *= 2
        if most:
            rates[most] = _compute_rates(examples_by_counts, most)
        return rates


def _compute_rates(examples_by_counts: Counter[tuple[int, int]], k: int) -> PassRates:
    any_total = all_total = 0.0
    example_count = 0
    for (rollouts, successes), examples in examples_by_counts.items():
        if rollouts < k:
            continue
        selections = comb(rollouts, k)
        failed_selections = comb(rollouts - successes, k)
        any_total += examples * ((selections - failed_selections) / selections)
        all_total += examples * (comb(successes, k) / selections)
        example_count += examples
    return PassRates(any_total / example_count, all_total / example_count, example_count)


_MAX_NAMES = 3  # rollouts below their threshold that a message names


class Failure(NamedTuple):
    """Why a run fails."""

    reason: str
    is_missed: (
        bool  # whether a threshold was missed; False if scores are missing to compare it with
    )


def is_below(score: float, threshold: float) -> bool:
    """Return whether a score is below a threshold by more than a rounding error."""
    return score < threshold - 1e-9


def threshold_of(value: Any) -> float:
    """Read a threshold from a number or text. Raise `ValueError` unless it is from 0 to 1."""
    try:
        threshold = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        threshold = math.nan
    if not 0 <= threshold <= 1:
        raise ValueError(f"{value!r} is not a threshold: give a score between 0 and 1, as in 0.8")
    return threshold


@dataclass(frozen=True)
class Thresholds:
    """The scores below which a run fails, on the command line and in tests.

    A run that is empty or incomplete, or that has an unscored rollout, always fails: the mean of
    the other rollouts would hide what is missing. If there are too few examples for an interval,
    a threshold for its lower end fails. A score that is below a threshold only by a rounding error
    passes.

    >>> Thresholds(fail_under=0.5).failure(MeanEstimate(mean=0.4, count=9), rollouts=9).reason
    'the mean score is 0.4 over 9 rollouts, which is below 0.5'
    """

    fail_under: float | None = None  # for the mean score
    fail_interval_under: float | None = None  # for the lower end of its 95 % interval
    fail_rollout_under: float | None = None  # for the score of every rollout

    def __post_init__(self) -> None:
        for value in (self.fail_under, self.fail_interval_under, self.fail_rollout_under):
            if value is not None:
                threshold_of(value)

    @property
    def are_set(self) -> bool:
        """Whether there is any threshold."""
        return self.is_for_mean or self.fail_rollout_under is not None

    @property
    def is_for_mean(self) -> bool:
        """Whether there is a threshold for the mean or its interval."""
        return self.fail_under is not None or self.fail_interval_under is not None

    def is_low(self, score: float | None) -> bool:
        """Return whether the score of one rollout is below the threshold for every rollout."""
        threshold = self.fail_rollout_under
        return threshold is not None and score is not None and is_below(score, threshold)

    def failure(
        self,
        score: MeanEstimate,
        *,
        rollouts: int,
        unscored: int = 0,
        complete: bool = True,
        low: Sequence[str] = (),
    ) -> Failure | None:
        """Return why a run with this mean score fails; None if it passes.

        `low` names the rollouts that are below the threshold for every rollout.
        """
        missing = self._describe_missing(score, rollouts, unscored, complete)
        if missing is not None:
            return Failure(missing, is_missed=False)
        missed = list(self._describe_missed(score, rollouts, low))
        if missed:
            return Failure(missed[0], is_missed=True)
        return None

    def _describe_missing(
        self, score: MeanEstimate, rollouts: int, unscored: int, complete: bool
    ) -> str | None:
        """Describe which scores are missing to compare with thresholds; None if none are."""
        if not rollouts:
            return "there are no rollouts"
        if unscored:
            verb = "has" if unscored == 1 else "have"
            return f"{unscored:,} of {format_count(rollouts, 'rollout')} {verb} no score"
        if not self.are_set:
            return None
        if not complete:
            return "the run is not complete, so its thresholds cannot be checked"
        if score.mean is None:
            return "the rubric has no weighted criterion, so there is no score to compare with a threshold"
        return None

    def _describe_missed(
        self, score: MeanEstimate, rollouts: int, low: Sequence[str]
    ) -> Iterator[str]:
        """Describe each threshold that the run misses."""
        if score.mean is None:  # then no threshold is set
            return
        mean = f"the mean score is {score.mean:.6g} over {format_count(score.count, 'rollout')}"
        if self.fail_under is not None and is_below(score.mean, self.fail_under):
            yield f"{mean}, which is below {self.fail_under:g}"
        threshold = self.fail_interval_under
        if threshold is not None and score.low is None:
            yield (
                f"{mean} of one example, too few for an interval: it is not known whether the "
                f"score is below {threshold:g}"
            )
        if threshold is not None and score.low is not None and is_below(score.low, threshold):
            yield (
                f"{mean}, and its 95 % interval starts at {score.low:.6g}, which is below "
                f"{threshold:g}"
            )
        if low:
            names = ", ".join(low[:_MAX_NAMES])
            if len(low) > _MAX_NAMES:
                names += ", …"
            verb = "scores" if len(low) == 1 else "score"
            yield (
                f"{len(low):,} of {format_count(rollouts, 'rollout')} {verb} below "
                f"{self.fail_rollout_under:g}: {names}"
            )


NO_THRESHOLDS: Final = Thresholds()
