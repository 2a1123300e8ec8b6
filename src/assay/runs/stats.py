"""Estimate means with their 95 % intervals, and pass rates (pass@k and pass^k), in one pass over the values."""

import math
from array import array
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import comb
from typing import TypeAlias

Z = 1.959963984540054
"""95 % of a normal distribution lie within so many standard deviations."""

Bounds: TypeAlias = tuple[float, float] | tuple[None, None]

_SMALL = (12.706204736432095, 4.302652729696142, 3.182446305284263, 2.7764451051977987)


@dataclass(frozen=True, slots=True)
class Spread:
    """How far values are apart, between the examples that they are of."""

    mean: float
    squares: float
    """Σ_g (S_g − n_g·m)²."""
    count: float
    """Values."""
    examples: int
    is_share: bool
    """Whether every value is 0 or 1."""

    def bounds(self, z: float = Z, t: float | None = None) -> Bounds:
        """The ends of the interval; of 95 %, unless other points of the two distributions are given.

        >>> low, high = Spread(mean=0.5, squares=4.0, count=8, examples=4, is_share=True).bounds()
        >>> round(low, 2), round(high, 2)
        (0.06, 0.94)
        """
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
            return wilson_bounds(self.mean, self._independent(variance), reach)
        half = reach * math.sqrt(variance)
        return self.mean - half, self.mean + half

    def _independent(self, variance: float) -> float:
        """How many independent answers would have this variance; never more than there are."""
        alone = self.mean * (1 - self.mean)
        return self.count if alone >= variance * self.count else alone / variance


def wilson_bounds(share: float, count: float, z: float = Z) -> tuple[float, float]:
    """Wilson's interval for a share of so many independent tries.

    >>> tuple(round(bound, 4) for bound in wilson_bounds(0.5, 10))
    (0.2366, 0.7634)
    """
    weight = z * z / count
    middle = share + weight / 2
    reach = z * math.sqrt(share * (1 - share) / count + weight / (4 * count))
    low, high = (middle - reach) / (1 + weight), (middle + reach) / (1 + weight)
    return (0.0 if share == 0 else max(0.0, low)), (1.0 if share == 1 else min(1.0, high))


def student(free: int) -> float:
    """The 97.5 % point of Student's t: exact up to 4 degrees of freedom, else within 0.02 %.

    The series is Cornish and Fisher's (Abramowitz and Stegun 26.7.5).

    >>> [round(student(free), 2) for free in (1, 2, 10, 1000)]
    [12.71, 4.3, 2.23, 1.96]
    """
    if free <= len(_SMALL):
        return _SMALL[free - 1]
    z = Z
    terms = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return sum(term / free**power for power, term in enumerate(terms))


@dataclass(frozen=True)
class MeanEstimate:
    """A mean, and between which bounds it lies with 95 % confidence."""

    mean: float | None = None
    """None when there was nothing to average."""
    low: float | None = None
    """None when too little is known to say."""
    high: float | None = None
    count: int = 0
    """Values averaged."""
    examples: int = 0
    """Examples they came from."""

    def within(self, least: float, most: float) -> "MeanEstimate":
        """The same, where nothing outside of these is possible."""
        if self.low is None or self.high is None:
            return self
        return replace(self, low=max(least, self.low), high=min(most, self.high))


_GAP = 8
"""Examples in a row that may be left out before they are looked up by their number."""
NO_ESTIMATE = MeanEstimate()


class Mean:
    """Values as they come, in a few sums; and two numbers an example, unless each comes once.

    >>> mean = Mean()
    >>> for place, value in enumerate([1, 1, 1, 0]):
    ...     mean.add(value, place)
    >>> estimate = mean.estimate()
    >>> estimate.mean, round(estimate.low, 3), round(estimate.high, 3)
    (0.75, 0.301, 0.954)
    """

    __slots__ = (
        "_binary", "_by_example", "_cross", "_first", "_sizes", "_squares", "_total", "count", "examples",
    )  # fmt: skip

    def __init__(self) -> None:
        self.count = self.examples = 0
        # Taken off every value, since squares of large numbers would drown their differences.
        self._first = 0.0
        self._total = self._squares = self._cross = 0.0
        self._sizes = 0
        self._binary = True
        self._by_example = _ByExample()

    def add(self, value: float, place: int | None = None) -> None:
        """Count a value of the example with this number; None for one that comes only once."""
        if not self.count:
            self._first = float(value)
        self.count += 1
        if value not in (0, 1):
            self._binary = False
        part = value - self._first
        before, total = (0, 0.0) if place is None else self._by_example.add(place, part)
        self.examples += not before
        self._total += part
        self._squares += part * (2 * total + part)
        self._cross += total + part * (before + 1)
        self._sizes += 2 * before + 1

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


class _ByExample:
    """How many values each example has, and their sum, by its number."""

    __slots__ = ("_counts", "_start", "_sums", "_where")

    def __init__(self) -> None:
        self._counts = array("L")
        self._sums = array("d")
        self._start = 0
        """The number of the first example."""
        self._where: dict[int, int] | None = None
        """Where each example stands; None while they stand in the order of their numbers."""

    def add(self, place: int, part: float) -> tuple[int, float]:
        """Add to an example; what it had before."""
        index = self._index(place)
        before, total = self._counts[index], self._sums[index]
        self._counts[index] = before + 1
        self._sums[index] = total + part
        return before, total

    def _index(self, place: int) -> int:
        size = len(self._counts)
        if self._where is None:
            if not size:
                self._start = place
            index = place - self._start
            if 0 <= index <= size + _GAP + size // 4:
                self._extend(index + 1 - size)
                return index
            # One of many tasks, or a criterion of few rows: gaps would fill more memory than values.
            self._where = {self._start + index: index for index in range(size)}
        index = self._where.setdefault(place, size)
        self._extend(index + 1 - size)
        return index

    def _extend(self, missing: int) -> None:
        if missing > 0:
            self._counts.extend([0] * missing)
            self._sums.extend([0.0] * missing)


@dataclass(frozen=True)
class PassRates:
    """Both rates for one k, over the examples that have at least k scored rollouts."""

    any: float
    """pass@k: that at least one of k rollouts succeeds; 1 − C(n−c, k)/C(n, k), on average."""
    all: float
    """pass^k: that all k do; C(c, k)/C(n, k), on average."""
    examples: int


class Passes:
    """How many examples had c successes in n rollouts.

    >>> passes = Passes()
    >>> for place, success in [(0, True), (0, False), (1, True), (1, True)]:
    ...     passes.add(success, place)
    >>> passes.rates()
    {1: PassRates(any=0.75, all=0.75, examples=2), 2: PassRates(any=1.0, all=0.5, examples=2)}
    """

    def __init__(self) -> None:
        self._counts: Counter[tuple[int, int]] = Counter()
        self._once = [0, 0]
        """Examples that come only once: those that fail, and those that succeed."""
        self._tries = array("L")
        self._successes = array("L")

    def add(self, success: bool, place: int | None = None) -> None:
        """Count a rollout of the example with this number; None for one that comes only once."""
        if place is None:
            self._once[success] += 1
            return
        missing = place + 1 - len(self._tries)
        if missing > 0:
            self._tries.extend([0] * missing)
            self._successes.extend([0] * missing)
        tries, successes = self._tries[place], self._successes[place]
        if tries:
            self._counts[tries, successes] -= 1
        tries, successes = tries + 1, successes + success
        self._tries[place], self._successes[place] = tries, successes
        self._counts[tries, successes] += 1

    def merge(self, other: "Passes") -> None:
        """Take in the rollouts of another, whose examples are all others than ours."""
        self._counts.update(other._counts)
        for success, count in enumerate(other._once):
            self._once[success] += count

    def rates(self) -> dict[int, PassRates]:
        """The rates for k = 1, 2, 4, … and for the most rollouts that an example has."""
        counts = self._counts + Counter({(1, c): count for c, count in enumerate(self._once)})
        return {k: _rates(counts, k) for k in _ks(max((tries for tries, _ in counts), default=0))}


def _ks(most: int) -> Iterator[int]:
    k = 1
    while k < most:
        yield k
        k *= 2
    if most:
        yield most


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
