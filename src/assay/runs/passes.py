"""Passes: whether one of k rollouts succeeds (pass@k), and whether all k do (pass^k)."""

from array import array
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from math import comb


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
