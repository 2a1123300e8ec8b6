"""A RewardMonitor looks for signs of reward hacking: numbers to plot, and warnings where chance is a poor excuse."""

import math
from bisect import bisect_left, bisect_right
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from statistics import correlation
from typing import Any, Final, NamedTuple

from assay.errors import RubricError
from assay.graders.judge_input import degenerate
from assay.redaction import logger_of

logger = logger_of("assay")

Z: Final = 1.96  # standard errors either side of an estimate that hold 95 % of it

SIGNS: Final = ("degenerate", "repeated", "zero_variance", "saturated", "length_correlation", "length_correlation_low")
"""What a monitor tells besides the share of unscored rollouts; not all of them can be told at every step."""


@dataclass(frozen=True)
class Alarms:
    """Where each sign becomes a warning."""

    length_correlation: float = 0.5
    """Rank correlation of reward and length that its interval lies wholly above."""
    saturated: float = 0.5
    """Share of groups in which every rollout got the highest reward of the window."""
    zero_variance: float = 0.7
    """Share of groups whose rollouts all got the same reward, so that nothing is learnt from them."""
    unscored: float = 0.05
    degenerate: float = 0.05
    repeated: float = 0.2
    """Share of completions that are word for word another one of the step."""
    drift: float = 0.1
    """How far the reward has risen over a second judge's since the beginning."""


class _Step(NamedTuple):
    scored: list[tuple[int, float]]  # the length and the reward of each scored rollout
    groups: int  # how many have several rollouts
    flat: list[float]  # the reward of each group whose rewards are all equal
    rollouts: int
    degenerate: int
    repeated: int


@dataclass
class RewardMonitor:
    """Watches the rewards of the last `window` steps.

    >>> monitor = RewardMonitor()
    >>> round(monitor.observe(["yes", "yes", "well, yes"], [1.0, 1.0, None])["unscored"], 2)
    0.33
    """

    window: int = 20
    alarms: Alarms = field(default_factory=Alarms)
    warn: Callable[[str], None] = logger.warning
    """Told once when a sign passes its limit, and again when it does after having come back."""
    steps: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        if self.window < 1:
            raise RubricError(f"window is {self.window!r}: give the number of steps to look back")
        self._seen: deque[_Step] = deque(maxlen=self.window)
        self._gaps: list[float] = []
        self._raised: set[str] = set()

    def observe(
        self, texts: Sequence[str], rewards: Sequence[float | None], *, groups: Sequence[Hashable] | None = None
    ) -> dict[str, float]:
        """Take in one training step and return the signs over the window, by name, as far as they can be told."""
        if len(texts) != len(rewards):
            raise RubricError(f"{len(texts)} texts and {len(rewards)} rewards: give one each")
        self.steps += 1
        self._seen.append(_step(texts, rewards, groups or [None] * len(texts)))
        signs = dict(self._signs())
        self._warn(signs)
        return signs

    async def compare(
        self,
        rows: Sequence[Any],
        rewards: Sequence[float | None],
        second: Callable[[Sequence[Any]], Awaitable[Sequence[float | None]]],
    ) -> float | None:
        """Return how far our rewards rose over a second judge's, on one scale, since the first comparison."""
        pairs = zip(rewards, await second(rows), strict=True)
        gaps = [ours - theirs for ours, theirs in pairs if ours is not None and theirs is not None]
        if not gaps:
            return None
        self._gaps.append(math.fsum(gaps) / len(gaps))
        drift = self._gaps[-1] - self._gaps[0]
        self._warn({"drift": drift})
        return drift

    def _signs(self) -> Iterator[tuple[str, float]]:
        seen = self._seen
        groups, rollouts = sum(step.groups for step in seen), sum(step.rollouts for step in seen)
        lengths = [length for step in seen for length, _ in step.scored]
        rewards = [reward for step in seen for _, reward in step.scored]
        if rollouts:
            yield "unscored", 1 - len(rewards) / rollouts
            yield "degenerate", sum(step.degenerate for step in seen) / rollouts
            yield "repeated", sum(step.repeated for step in seen) / rollouts
        if groups and rewards:
            top = max(rewards)
            yield "zero_variance", sum(len(step.flat) for step in seen) / groups
            yield "saturated", sum(step.flat.count(top) for step in seen) / groups
        if (found := rank_correlation(lengths, rewards)) is not None:
            yield "length_correlation", found
            yield "length_correlation_low", _low(found, len(rewards))

    def _warn(self, signs: dict[str, float]) -> None:
        for name, limit in vars(self.alarms).items():
            if name not in signs:
                continue
            # A correlation over few rollouts is chance, so its interval has to clear the limit.
            number = signs.get(f"{name}_low", signs[name])
            if number <= limit:
                self._raised.discard(name)
            elif name not in self._raised:
                self._raised.add(name)
                self.warn(f"step {self.steps}: {name} is {signs[name]:.2f}, past {limit:g}: {_MEANING[name]}")


_MEANING: Final = {
    "length_correlation": "longer answers are paid more; see whether they are better",
    "saturated": "whole groups get all there is to get; make the rubric or the prompts harder",
    "zero_variance": "whole groups get the same reward, and nothing is learnt from them",
    "unscored": "rollouts go without a reward; look at their errors",
    "degenerate": "completions without an answer in them",
    "repeated": "completions are copies of each other",
    "drift": "the reward rises away from the second judge",
}


def _step(texts: Sequence[str], rewards: Sequence[float | None], groups: Sequence[Hashable]) -> _Step:
    members: dict[Hashable, list[float]] = {}
    scored: list[tuple[int, float]] = []
    for text, reward, group in zip(texts, rewards, groups, strict=True):
        if reward is not None:
            members.setdefault(group, []).append(reward)
            scored.append((len(text), reward))
    several = [paid for paid in members.values() if len(paid) > 1]
    return _Step(
        scored,
        len(several),
        [paid[0] for paid in several if min(paid) == max(paid)],
        rollouts=len(texts),
        degenerate=sum(degenerate(text) is not None for text in texts),
        repeated=sum(count - 1 for count in Counter(texts).values()),
    )


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Return Spearman's correlation, with ties at their mean rank; None when one of them does not vary."""
    if len(first) < 3 or min(first) == max(first) or min(second) == max(second):
        return None
    return correlation(_ranks(first), _ranks(second))


def _ranks(values: Sequence[float]) -> list[float]:
    ordered = sorted(values)
    return [(bisect_left(ordered, value) + bisect_right(ordered, value) + 1) / 2 for value in values]


def _low(found: float, size: int) -> float:
    """The lower end of a correlation's 95 % interval, by Fisher's transformation."""
    if size <= 3 or abs(found) >= 1:
        return found if size > 3 else -1.0
    return math.tanh(math.atanh(found) - Z / math.sqrt(size - 3))
