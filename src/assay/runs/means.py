"""Means with what can be said for them: 95 % intervals that take repeated rollouts for what they are."""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import mul

from assay.runs.intervals import Spread


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


_BITS = frozenset({0, 1})
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
        if place is None:
            self.add_all([value])
            return
        if not self.count:
            self._first = float(value)
        self.count += 1
        if value not in (0, 1):
            self._binary = False
        part = value - self._first
        before, total = self._by_example.add(place, part)
        self.examples += not before
        self._total += part
        self._squares += part * (2 * total + part)
        self._cross += total + part * (before + 1)
        self._sizes += 2 * before + 1

    def add_all(self, values: Sequence[float]) -> None:
        """Count values of as many examples, each of which comes only once."""
        if not values:
            return
        if not self.count:
            self._first = float(values[0])
        size, first = len(values), self._first
        parts = [value - first for value in values]
        total = sum(parts)
        self.count += size
        self.examples += size
        self._binary = self._binary and _BITS.issuperset(values)
        self._total += total
        self._squares += sum(map(mul, parts, parts))
        self._cross += total
        self._sizes += size

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
