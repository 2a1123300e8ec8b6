"""Estimate means with their 95 % intervals and pass rates (pass@k, pass^k), and say which scores pass a threshold."""

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

_SMALL = (12.706204736432095, 4.302652729696142, 3.182446305284263, 2.7764451051977987)
# The series of Cornish and Fisher at this point (Abramowitz and Stegun 26.7.5): the first is z, the next (z³ + z) / 4.
_SERIES = (Z, 2.372271230298562, 2.8224986157396112, 2.555849679507722, 1.5895340533938225)


@dataclass(frozen=True, slots=True)
class Spread:
    """How far values are apart, between the examples that they are of."""

    mean: float
    squares: float  # Σ_g (S_g − n_g·m)²
    count: float  # values
    examples: int
    is_share: bool  # whether every value is 0 or 1

    def bounds(
        self, z: float = Z, t: float | None = None
    ) -> tuple[float, float] | tuple[None, None]:
        """The ends of the interval; of 95 %, unless other points of the two distributions are given."""
        if self.is_share and self.examples == self.count:
            return wilson_bounds(self.mean, self.count, z)
        if self.examples < 2:
            return None, None
        if self.is_share and self.mean in (0, 1):
            # All alike: then only how many examples there are says how sure that is.
            return wilson_bounds(self.mean, self.examples, z)
        free = self.examples - 1
        reach = student(free) if t is None else t
        variance = max(0.0, self.squares) * self.examples / free / self.count**2
        if self.is_share:
            # As many independent answers as would have this variance; never more than there are.
            alone = self.mean * (1 - self.mean)
            independent = self.count if alone >= variance * self.count else alone / variance
            return wilson_bounds(self.mean, independent, reach)
        half = reach * math.sqrt(variance)
        return self.mean - half, self.mean + half


def wilson_bounds(share: float, count: float, z: float = Z) -> tuple[float, float]:
    """Wilson's interval for a share of so many independent tries."""
    weight = z * z / count
    middle = share + weight / 2
    reach = z * math.sqrt(share * (1 - share) / count + weight / (4 * count))
    low, high = (middle - reach) / (1 + weight), (middle + reach) / (1 + weight)
    return (0.0 if share == 0 else max(0.0, low)), (1.0 if share == 1 else min(1.0, high))


def student(free: int) -> float:
    """The 97.5 % point of Student's t, without scipy: exact up to 4 degrees of freedom, else within 0.02 %."""
    if free <= len(_SMALL):
        return _SMALL[free - 1]
    return sum(term / free**power for power, term in enumerate(_SERIES))


@dataclass(frozen=True)
class MeanEstimate:
    """A mean, and between which bounds it lies with 95 % confidence."""

    mean: float | None = None  # None when there was nothing to average
    low: float | None = None  # None when too little is known to say
    high: float | None = None
    count: int = 0  # values averaged
    examples: int = 0  # examples they came from

    def within(self, least: float, most: float) -> "MeanEstimate":
        """The same, where nothing outside of these is possible."""
        if self.low is None or self.high is None:
            return self
        return replace(self, low=max(least, self.low), high=min(most, self.high))


_GAP = 8  # examples in a row that may be left out before they are looked up by their number
NO_ESTIMATE = MeanEstimate()


@dataclass(slots=True)
class ExamplePositions:
    """Where examples stand in arrays that hold a value for each of them, by their numbers."""

    _start: int = 0  # the number of the first example
    # The position of each example; None while they stand in the order of their numbers.
    _by_number: dict[int, int] | None = None

    def find(self, number: int, size: int) -> int:
        """Return the position of an example in arrays of this size, or at their end or behind it."""
        if not size:
            self._start = number
        position = number - self._start
        if self._by_number is None and not 0 <= position <= size + _GAP + size // 4:
            # One of many tasks, or a criterion of few rows: gaps would take more memory than values.
            self._by_number = {self._start + index: index for index in range(size)}
        if self._by_number is None:
            return position
        return self._by_number.setdefault(number, size)


@dataclass(slots=True)
class Mean:
    """Values as they come, in a few sums; and two numbers an example, unless each comes once."""

    count: int = 0
    examples: int = 0
    # Taken off every value, since squares of large numbers would drown their differences.
    _first: float = 0.0
    _total: float = 0.0
    _squares: float = 0.0
    _cross: float = 0.0
    _sizes: int = 0
    _binary: bool = True
    _counts: "array[int]" = field(
        default_factory=lambda: array("L")
    )  # how many values each example has
    _sums: "array[float]" = field(default_factory=lambda: array("d"))
    _positions: ExamplePositions = field(default_factory=ExamplePositions)

    def add(self, value: float, place: int | None = None) -> None:
        """Count a value of the example with this number; None for one that comes only once."""
        if not self.count:
            self._first = float(value)
        self.count += 1
        if self._binary and value not in (0, 1):
            self._binary = False
        part = value - self._first
        self._total += part
        if place is None:  # as in most runs, and so without the sums of an example
            self.examples += 1
            self._squares += part * part
            self._cross += part
            self._sizes += 1
            return
        index = self._index(place)
        before, total = self._counts[index], self._sums[index]
        self._counts[index] = before + 1
        self._sums[index] = total + part
        self.examples += not before
        self._squares += part * (2 * total + part)
        self._cross += total + part * (before + 1)
        self._sizes += 2 * before + 1

    def _index(self, place: int) -> int:
        size = len(self._counts)
        index = self._positions.find(place, size)
        missing = index + 1 - size
        if missing > 0:
            self._counts.extend([0] * missing)
            self._sums.extend([0.0] * missing)
        return index

    def merge(self, other: "Mean") -> None:
        """Take in the values of another, whose examples are all others than ours."""
        if not other.count:
            return
        if not self.count:
            self._first = other._first
        # Theirs are counted from another zero, so each of their sums moves by its share.
        shift = other._first - self._first
        self._total += other._total + shift * other.count
        self._squares += other._squares + shift * (2 * other._cross + shift * other._sizes)
        self._cross += other._cross + shift * other._sizes
        self._sizes += other._sizes
        self._binary = self._binary and other._binary
        self.count += other.count
        self.examples += other.examples

    def estimate(self) -> MeanEstimate:
        """What the values so far come to."""
        if not self.count:
            return NO_ESTIMATE
        mean = (self._first * self.count + self._total) / self.count
        part = self._total / self.count
        squares = self._squares - 2 * part * self._cross + part * part * self._sizes
        spread = Spread(mean, squares, self.count, self.examples, self._binary)
        return MeanEstimate(mean, *spread.bounds(), self.count, self.examples)


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
    """Both rates for one k, over the examples that have at least k scored rollouts."""

    any: (
        float  # pass@k: that at least one of k rollouts succeeds; 1 − C(n−c, k)/C(n, k), on average
    )
    all: float  # pass^k: that all k do; C(c, k)/C(n, k), on average
    examples: int


class Passes:
    """How many examples had c successes in n rollouts."""

    def __init__(self) -> None:
        self._apart: Counter[tuple[int, int]] = (
            Counter()
        )  # n and c of examples that come only once, or with a merge
        self._tries = array("L")
        self._successes = array("L")
        self._positions = ExamplePositions()

    def add(self, success: bool, place: int | None = None) -> None:
        """Count a rollout of the example with this number; None for one that comes only once."""
        if place is None:
            self._apart[1, success] += 1
            return
        position = self._positions.find(place, len(self._tries))
        missing = position + 1 - len(self._tries)
        if missing > 0:
            self._tries.extend([0] * missing)
            self._successes.extend([0] * missing)
        self._tries[position] += 1
        self._successes[position] += success

    def _counts(self) -> Counter[tuple[int, int]]:
        return self._apart + Counter(zip(self._tries, self._successes, strict=True))

    def merge(self, other: "Passes") -> None:
        """Take in the rollouts of another, whose examples are all others than ours."""
        self._apart += other._counts()

    def rates(self) -> dict[int, PassRates]:
        """The rates for k = 1, 2, 4, … and for the most rollouts that an example has."""
        counts = self._counts()
        most = max((tries for tries, _ in counts), default=0)
        ks = [1 << power for power in range(most.bit_length()) if 1 << power < most]
        return {k: _rates(counts, k) for k in (*ks, most) if k}


def _rates(counts: Counter[tuple[int, int]], k: int) -> PassRates:
    some = every = 0.0
    examples = 0
    for (tries, successes), count in counts.items():
        if tries >= k:
            ways = comb(tries, k)
            some += count * ((ways - comb(tries - successes, k)) / ways)
            every += count * (comb(successes, k) / ways)
            examples += count
    return PassRates(some / examples, every / examples, examples)


_NAMED = 3  # rollouts below their threshold that are named; the others are counted


class Failure(NamedTuple):
    """Why scores fail."""

    reason: str
    is_missed: bool  # whether a threshold was missed; False when something has no score, so that none can be compared


def is_below(score: float, least: float) -> bool:
    """Whether a score misses a threshold; by a rounding error it does not."""
    return score < least - 1e-9


def threshold_of(value: Any) -> float:
    """A threshold, from a number or the text of one. Raises `ValueError` outside of 0 and 1."""
    try:
        found = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        found = math.nan
    if not 0 <= found <= 1:
        raise ValueError(f"{value!r} is not a threshold: give a score between 0 and 1, as in 0.8")
    return found


@dataclass(frozen=True)
class Thresholds:
    """Below which scores fail: the one rule, on the command line and in tests.

    A run that is empty or not complete, or that has an unscored rollout, fails whatever the scores of the rest:
    a mean over what is left would hide what is missing. Where there are too few examples for an interval, a threshold
    for its lower end fails. A score below its threshold by no more than a rounding error passes.

    >>> Thresholds(fail_under=0.5).failure(MeanEstimate(mean=0.4, count=9), rollouts=9).reason
    'the mean score is 0.4 over 9 rollouts, which is below 0.5'
    """

    fail_under: float | None = None  # for the mean score
    fail_interval_under: float | None = (
        None  # for the lower end of the 95 % interval of the mean score
    )
    fail_rollout_under: float | None = None  # for the score of every rollout

    def __post_init__(self) -> None:
        for value in (self.fail_under, self.fail_interval_under, self.fail_rollout_under):
            if value is not None:
                threshold_of(value)

    @property
    def are_set(self) -> bool:
        """Whether there is any."""
        return self.is_for_mean or self.fail_rollout_under is not None

    @property
    def is_for_mean(self) -> bool:
        """Whether there is one for the mean or its interval."""
        return self.fail_under is not None or self.fail_interval_under is not None

    def is_low(self, score: float | None) -> bool:
        """Whether the score of one rollout is below the threshold for every rollout."""
        least = self.fail_rollout_under
        return least is not None and score is not None and is_below(score, least)

    def failure(
        self,
        score: MeanEstimate,
        *,
        rollouts: int,
        unscored: int = 0,
        complete: bool = True,
        low: Sequence[str] = (),
    ) -> Failure | None:
        """Why a run with this mean score fails; None when it passes.

        `low` names the rollouts that are below the threshold for every rollout.
        """
        missing = ""
        if not rollouts:
            missing = "there are no rollouts"
        elif unscored:
            missing = f"{unscored:,} of {format_count(rollouts, 'rollout')} {'has' if unscored == 1 else 'have'} no score"
        elif self.are_set and not complete:
            missing = "the run is not complete, and its thresholds are for all of it"
        elif self.are_set and score.mean is None:
            missing = (
                "nothing in the rubric counts, so there is no score to compare with a threshold"
            )
        if missing:
            return Failure(missing, is_missed=False)
        missed = next(self._missed(score, rollouts, low), None)
        return None if missed is None else Failure(missed, is_missed=True)

    def _missed(self, score: MeanEstimate, rollouts: int, low: Sequence[str]) -> Iterator[str]:
        least, begins = self.fail_interval_under, score.low
        if score.mean is None:  # then there is no threshold either
            return
        said = f"the mean score is {score.mean:.6g} over {format_count(score.count, 'rollout')}"
        if self.fail_under is not None and is_below(score.mean, self.fail_under):
            yield f"{said}, which is below {self.fail_under:g}"
        if least is not None and begins is None:
            few = "of one example, too few for an interval"
            yield f"{said} {few}: it cannot be told whether the score is below {least:g}"
        if least is not None and begins is not None and is_below(begins, least):
            yield f"{said}, and its 95 % interval begins at {begins:.6g}, which is below {least:g}"
        if low:
            names = f"{', '.join(low[:_NAMED])}{', …' if len(low) > _NAMED else ''}"
            are = "scores" if len(low) == 1 else "score"
            yield f"{len(low):,} of {format_count(rollouts, 'rollout')} {are} below {self.fail_rollout_under:g}: {names}"


NO_THRESHOLDS: Final = Thresholds()
