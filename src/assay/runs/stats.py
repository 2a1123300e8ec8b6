"""Estimate means with 95 % intervals and pass rates (pass@k, pass^k), and compare scores with thresholds."""

import math
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
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
    """What the interval of a mean is computed from. The values come in groups, one per example."""

    mean: float
    # The sum over all examples of (S − n·mean)², for an example with n values whose sum is S.
    squares: float
    count: float  # of values
    examples: int
    is_share: bool  # whether every value is 0 or 1

    def bounds(
        self, z: float = Z, t: float | None = None
    ) -> tuple[float, float] | tuple[None, None]:
        """Return the low and the high end of the interval of the mean.

        Both are None if there are too few examples. It is the 95 % interval unless `z` and `t` give
        other points of the normal distribution and of Student's t.

        Values of one example depend on each other, so the variance is computed from the sums of
        whole examples (clustered standard errors): `self.squares` is the sum over examples of
        (S − n·mean)², for n values whose sum is S. If all values are 0 or 1, so that their mean is a
        share, it is Wilson's interval.
        """
        if self.is_share and self.examples == self.count:  # one value per example
            return wilson_bounds(self.mean, self.count, z)
        if self.examples < 2:
            return None, None
        if self.is_share and self.mean in (0, 1):
            # All values are equal, so no variance can be estimated. Assume that the values of an
            # example are copies of each other.
            return wilson_bounds(self.mean, self.examples, z)
        degrees_of_freedom = self.examples - 1
        if t is None:
            t = student(degrees_of_freedom)
        squares = max(0.0, self.squares)  # rounding errors may make it negative
        variance = squares * self.examples / degrees_of_freedom / self.count**2  # of the mean
        if self.is_share:
            # Wilson's interval is for independent values, so find how many of those would have this
            # variance: at most all of them.
            variance_of_value = self.mean * (1 - self.mean)
            if variance_of_value >= variance * self.count:
                independent = self.count
            else:
                independent = variance_of_value / variance
            return wilson_bounds(self.mean, independent, t)
        half_width = t * math.sqrt(variance)
        return self.mean - half_width, self.mean + half_width


def wilson_bounds(share: float, count: float, z: float = Z) -> tuple[float, float]:
    """Return the ends of Wilson's interval for a share of `count` independent trials."""
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
    """Return the 97.5 % point of Student's t, exact to 0.02 % or better."""
    if degrees_of_freedom <= len(_STUDENT_POINTS):
        return _STUDENT_POINTS[degrees_of_freedom - 1]
    return sum(coefficient / degrees_of_freedom**power for power, coefficient in enumerate(_SERIES))


@dataclass(frozen=True)
class MeanEstimate:
    """A mean of values with its 95 % interval, which runs from `low` to `high`."""

    mean: float | None = None  # None if there are no values
    low: float | None = None  # None if there are too few examples for an interval
    high: float | None = None
    count: int = 0  # of values
    examples: int = 0  # that the values are of

    def within(self, least: float, most: float) -> "MeanEstimate":
        """Return the estimate with its interval limited to the values from `least` to `most`."""
        if self.low is None or self.high is None:
            return self
        return replace(self, low=max(least, self.low), high=min(most, self.high))


# A new example may leave this many positions of an array unused, and a quarter of its size more.
_GAP = 8
NO_ESTIMATE = MeanEstimate()


@dataclass(slots=True)
class ExamplePositions:
    """Finds where an example has its value in arrays with one value per example.

    Examples are identified by numbers.
    """

    _start: int = 0  # the number of the first example
    # The position of each example by its number; None while it is the number minus `_start`.
    _positions: dict[int, int] | None = None

    def find(self, number: int, size: int) -> int:
        """Return the position of an example in arrays that have `size` values so far.

        If the example is new, the position is `size` or more, and the caller extends the arrays.

        New examples usually have increasing numbers, so that the position follows from the number.
        But the examples of one of many tasks may have wide gaps between their numbers, and unused
        positions would waste memory. Then a dictionary holds the positions.
        """
        if not size:
            self._start = number
        if self._positions is None:
            position = number - self._start
            largest_position = size + _GAP + size // 4
            if 0 <= position <= largest_position:
                return position
            # There is a wide gap, so from now on a dictionary holds the positions. First come those
            # of the examples so far, which followed from their numbers.
            self._positions = {self._start + index: index for index in range(size)}
        return self._positions.setdefault(number, size)


@dataclass(slots=True)
class Mean:
    """Averages values that come one by one, each from an example.

    It keeps a few sums over the examples, and two numbers per example unless each example comes
    only once. The values themselves are not kept.
    """

    count: int = 0
    examples: int = 0
    # The first value is subtracted from all: squares of large numbers would lose small differences.
    _first: float = 0.0
    # Sums over all examples. An example has n values, whose sum after the subtraction is S.
    _total: float = 0.0  # Σ S
    _squares: float = 0.0  # Σ S²
    _cross: float = 0.0  # Σ n·S
    _sizes: int = 0  # Σ n²
    _is_binary: bool = True  # whether every value is 0 or 1
    _counts: "array[int]" = field(default_factory=lambda: array("L"))  # n of each example
    _sums: "array[float]" = field(default_factory=lambda: array("d"))  # S of each example
    _positions: ExamplePositions = field(default_factory=ExamplePositions)

    def add(self, value: float, example: int | None = None) -> None:
        """Add a value of the example with this number; None for an example that comes only once.

        This updates sums over all examples, where an example has n values whose sum is S after the
        first value of all has been subtracted from each.
        """
        if not self.count:
            self._first = float(value)
        self.count += 1
        if self._is_binary and value not in (0, 1):
            self._is_binary = False
        difference = value - self._first
        self._total += difference  # Σ S
        if example is None:  # as in most runs; n is 1 then, and S the difference
            self.examples += 1
            self._squares += difference * difference  # Σ S²
            self._cross += difference  # Σ n·S
            self._sizes += 1  # Σ n²
            return
        position = self._find_position(example)
        old_count, old_sum = self._counts[position], self._sums[position]  # n and S of this example
        self._counts[position] = old_count + 1
        self._sums[position] = old_sum + difference
        if not old_count:
            self.examples += 1
        # Now n grows by 1, and S by the difference. Add what S², n·S and n² grow by.
        self._squares += difference * (2 * old_sum + difference)
        self._cross += old_sum + difference * (old_count + 1)
        self._sizes += 2 * old_count + 1

    def _find_position(self, example: int) -> int:
        """Return the position of an example in the arrays, with zeros there if it is new."""
        size = len(self._counts)
        position = self._positions.find(example, size)
        missing = position + 1 - size
        if missing > 0:
            self._counts.extend([0] * missing)
            self._sums.extend([0.0] * missing)
        return position

    def merge(self, other: "Mean") -> None:
        """Add the values of another mean, which has no example in common with this one.

        Both have only kept sums over their examples, of which each has n values with the sum S:
        `_total` is Σ S, `_squares` is Σ S², `_cross` is Σ n·S, and `_sizes` is Σ n². Before, each
        mean has subtracted the first value that it got from all its values.
        """
        if not other.count:
            return
        if not self.count:
            self._first = other._first
        # To make the values of the other mean as if it had subtracted our first value, `shift` is added
        # to each. So each S becomes S + n·shift.
        shift = other._first - self._first
        # Σ (S + n·shift) = Σ S + shift·Σ n
        self._total += other._total + shift * other.count
        # Σ (S + n·shift)² = Σ S² + 2·shift·Σ n·S + shift²·Σ n²
        self._squares += other._squares + shift * (2 * other._cross + shift * other._sizes)
        # Σ n·(S + n·shift) = Σ n·S + shift·Σ n²
        self._cross += other._cross + shift * other._sizes
        self._sizes += other._sizes
        self._is_binary = self._is_binary and other._is_binary
        self.count += other.count
        self.examples += other.examples

    def estimate(self) -> MeanEstimate:
        """Return the mean of the values so far, with its interval."""
        if not self.count:
            return NO_ESTIMATE
        # The sums are of values from which the first value was subtracted, so add it again.
        mean = (self._first * self.count + self._total) / self.count
        m = self._total / self.count  # the mean after the subtraction, for the same sums
        # For examples with n values of sum S: Σ (S − n·m)² = Σ S² − 2m·Σ n·S + m²·Σ n².
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
    """When a rollout passes, for pass@k: if its score, or its reward, reaches a threshold."""

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
    """Counts the rollouts and successes of each example, for pass@k and pass^k."""

    def __init__(self) -> None:
        # How many examples have n rollouts with c successes, by (n, c). This has the examples that
        # come only once and those of merged objects; the arrays have the others.
        self._examples_by_counts: Counter[tuple[int, int]] = Counter()
        # The numbers of rollouts and of successes, with one value per example.
        self._rollouts = array("L")
        self._successes = array("L")
        self._positions = ExamplePositions()  # of examples in these arrays

    def add(self, success: bool, example: int | None = None) -> None:
        """Add a rollout of the example with this number; None for an example that comes only once."""
        if example is None:
            self._examples_by_counts[1, int(success)] += 1  # an example with one rollout
            return
        size = len(self._rollouts)
        position = self._positions.find(example, size)
        missing = position + 1 - size
        if missing > 0:  # the example is new
            self._rollouts.extend([0] * missing)
            self._successes.extend([0] * missing)
        self._rollouts[position] += 1
        self._successes[position] += success

    def _count_examples(self) -> Counter[tuple[int, int]]:
        """Return how many examples have n rollouts with c successes, by (n, c)."""
        counts_of_examples = zip(self._rollouts, self._successes, strict=True)
        return self._examples_by_counts + Counter(counts_of_examples)

    def merge(self, other: "Passes") -> None:
        """Add the rollouts of another object, which has no example in common with this one."""
        self._examples_by_counts += other._count_examples()

    def rates(self) -> dict[int, PassRates]:
        """Return pass@k and pass^k by k, for k = 1, 2, 4, … and the most rollouts of an example."""
        examples_by_counts = self._count_examples()
        most_rollouts = max((rollouts for rollouts, _ in examples_by_counts), default=0)
        rates: dict[int, PassRates] = {}
        k = 1
        while k < most_rollouts:
            rates[k] = _compute_rates(examples_by_counts, k)
            k *= 2
        if most_rollouts:
            rates[most_rollouts] = _compute_rates(examples_by_counts, most_rollouts)
        return rates


def _compute_rates(examples_by_counts: Counter[tuple[int, int]], k: int) -> PassRates:
    """Return pass@k and pass^k, averaged over the examples with at least k rollouts.

    The keys of `examples_by_counts` are the numbers of rollouts and of successes of an example. For
    each, `comb(rollouts, k)` counts the ways to select k rollouts.
    """
    any_total = 0.0  # the sum of the shares of selections with at least one success
    all_total = 0.0  # the sum of the shares of selections with only successes
    example_count = 0
    for (rollouts, successes), examples in examples_by_counts.items():
        if rollouts < k:
            continue
        selections = comb(rollouts, k)
        failed_selections = comb(rollouts - successes, k)
        successful_selections = comb(successes, k)
        any_total += examples * ((selections - failed_selections) / selections)
        all_total += examples * (successful_selections / selections)
        example_count += examples
    return PassRates(
        any=any_total / example_count,
        all=all_total / example_count,
        examples=example_count,
    )


_MAX_NAMES = 3  # rollouts below their threshold that a message names


class Failure(NamedTuple):
    """Why a run fails."""

    reason: str
    # Whether a score is below its threshold. False if a score is missing, so that it is not known.
    is_missed: bool


def is_below(score: float, threshold: float) -> bool:
    """Return whether a score is below a threshold by more than a rounding error."""
    return score < threshold - 1e-9


def threshold_of(value: Any) -> float:
    """Read a threshold from a number or text. Raise `ValueError` unless it is from 0 to 1."""
    threshold = math.nan  # stays if the value is not a number, and is refused
    if not isinstance(value, bool):
        with suppress(TypeError, ValueError):
            threshold = float(value)
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
        """Return why a run fails; None if it passes.

        `score` is its mean score, `rollouts` and `unscored` are numbers of rollouts, `complete` is
        False if the run was stopped, and `low` names the rollouts that are below the threshold for
        every rollout.
        """
        missing_score = self._describe_missing_score(score, rollouts, unscored, complete)
        if missing_score is not None:
            return Failure(missing_score, is_missed=False)
        for missed_threshold in self._describe_missed_thresholds(score, rollouts, low):
            return Failure(missed_threshold, is_missed=True)  # the first is enough
        return None

    def _describe_missing_score(
        self, score: MeanEstimate, rollouts: int, unscored: int, complete: bool
    ) -> str | None:
        """Return why the score of a run cannot be compared with thresholds; None if it can."""
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

    def _describe_missed_thresholds(
        self, score: MeanEstimate, rollouts: int, low: Sequence[str]
    ) -> Iterator[str]:
        """Yield a sentence about each threshold that the run misses.

        `low` names the rollouts that are below the threshold for every rollout.
        """
        if score.mean is None:  # then no threshold is set, or the run has failed already
            return
        mean = f"the mean score is {score.mean:.6g} over {format_count(score.count, 'rollout')}"
        if self.fail_under is not None and is_below(score.mean, self.fail_under):
            yield f"{mean}, which is below {self.fail_under:g}"
        threshold = self.fail_interval_under
        if threshold is not None:
            if score.low is None:
                yield (
                    f"{mean} of one example, too few for an interval: it is not known whether the "
                    f"score is below {threshold:g}"
                )
            elif is_below(score.low, threshold):
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
