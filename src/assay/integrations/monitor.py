"""A RewardMonitor looks for signs of reward hacking: numbers to plot, and warnings where chance is a poor excuse."""

import json
import math
import random
from bisect import bisect_left, bisect_right
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import correlation, fmean, linear_regression
from typing import Any, Final, NamedTuple, TypeAlias

from assay.aggregation import group_by_key
from assay.errors import RubricError
from assay.graders.degenerate import explain_degenerate
from assay.lazy import read_toml
from assay.messages import read_whole_text
from assay.redaction import get_logger
from assay.shaping import measure_repetition
from assay.wording import describe_error

logger = get_logger("assay")

Z: Final = 1.96  # standard errors either side of an estimate that hold 95 % of it

FEW: Final = 5  # steps at the beginning, and at the end, whose means a drift is the difference of

Columns = Mapping[str, Sequence[float | None]]  # the values of each criterion, one a rollout
SecondJudge = Callable[
    [Sequence[Any]], Awaitable[Sequence[float | None]]
]  # from rows to rewards on the scale of ours
Values: TypeAlias = Mapping[str, float]
# A function of a step and its values, or an object with such a `log`.
Sink: TypeAlias = Callable[[int, Values], Any] | Any


@dataclass(frozen=True)
class Alarms:
    """Where each sign becomes a warning."""

    length_correlation: float = (
        0.5  # rank correlation of reward and length that its interval lies wholly above
    )
    saturated: float = (
        0.5  # share of groups in which every rollout got the highest reward of the window
    )
    # Share of groups whose rollouts all got the same reward, so that nothing is learnt from them.
    zero_variance: float = 0.7
    unscored: float = 0.05
    degenerate: float = 0.05
    repeated: float = 0.2  # share of completions that are word for word another one of the step
    drift: float = 0.1  # how far the reward has risen over a second judge's since the beginning
    # Share of the spread of rewards that one criterion of several explains alone, by the lower end of its interval.
    dominance: float = 0.95
    # By how many standard errors the slope of a mean in the newer half of the window differs from that in the older
    # half.
    slope_break: float = 5.0
    length_drift: float = 0.5  # relative change of the mean length since the first steps
    # Change of the share of runs of three words that a text repeats, since the first steps.
    repetition_drift: float = 0.1


# What a monitor tells besides the share of unscored rollouts; not all of them can be told at every step.
SIGNS: Final = (
    *(each.name for each in fields(Alarms) if each.name != "unscored"),
    "length_correlation_low",
)


class _Step(NamedTuple):
    scored: list[tuple[int, float]]  # the length and the reward of each scored rollout
    groups: int  # how many have several rollouts
    flat: list[float]  # the reward of each group whose rewards are all equal
    rollouts: int
    degenerate: int
    repeated: int
    pairs: dict[
        str, list[tuple[float, float]]
    ]  # of each criterion, its value and the reward of each rollout
    means: dict[
        str, float
    ]  # of the length, the repetition, the reward and every criterion that has values


@dataclass
class RewardMonitor:
    """Watches the rewards of the last `window` steps, in any loop: `observe` takes a step, `watch` gathers rollouts into steps.

    >>> monitor = RewardMonitor()
    >>> round(monitor.observe(["yes", "yes", "well, yes"], [1.0, 1.0, None])["unscored"], 2)
    0.33
    """

    window: int = 20
    alarms: Alarms = field(default_factory=Alarms)
    # Told once when a sign passes its limit, and again when it does after having come back.
    warn: Callable[[str], None] = logger.warning
    # Where the signs of every step are written: functions of `(step, values)`, or objects with `log(step, values)`.
    sinks: Sequence[Sink] = ()
    second: SecondJudge | None = None  # another judge, asked by `watch` about a sample of each step
    sample: int = 16  # how many rollouts of a step the second judge is asked about
    step_size: int = 256  # how many rollouts `watch` gathers into a step
    steps: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        if self.window < 1:
            raise RubricError(f"window is {self.window!r}: give the number of steps to look back")
        self._seen: deque[_Step] = deque(maxlen=self.window)
        self._first: list[_Step] = []
        self._gaps: list[float] = []
        self._raised: set[str] = set()
        self._waiting: list[
            tuple[Mapping[str, Any], float | None, Hashable, Mapping[str, float | None]]
        ] = []
        self._named: dict[str, str] = {}  # which criterion a sign is about

    def observe(
        self,
        texts: Sequence[str],
        rewards: Sequence[float | None],
        *,
        groups: Sequence[Hashable] | None = None,
        parts: Columns | None = None,
    ) -> dict[str, float]:
        """Take in one training step and return the signs over the window, by name, as far as they can be told."""
        for name, column in {"rewards": rewards, "groups": groups, **(parts or {})}.items():
            if column is not None and len(texts) != len(column):
                raise RubricError(f"{len(texts)} texts and {len(column)} {name}: give one each")
        self.steps += 1
        self._seen.append(
            _step(texts, rewards, [None] * len(texts) if groups is None else groups, parts or {})
        )
        if len(self._first) < FEW:
            self._first.append(self._seen[-1])
        signs = dict(self._signs())
        self._warn(signs)
        write(self.sinks, self.steps, signs)
        return signs

    async def watch(
        self,
        rows: Sequence[Mapping[str, Any]],
        rewards: Sequence[float | None],
        parts: Sequence[Mapping[str, float | None]],
        groups: Sequence[Hashable] | None = None,
        *,
        is_step: bool = False,
    ) -> dict[str, float]:
        """Gather rollouts and observe them as a step, with the second judge: when there are `step_size`, or at once.

        Returns the signs of that step; none while it waits for more.
        """
        members = [row.get("prompt", "") for row in rows] if groups is None else groups
        self._waiting += zip(rows, rewards, members, parts, strict=True)
        if not self._waiting or (len(self._waiting) < self.step_size and not is_step):
            return {}
        taken, self._waiting = self._waiting, []
        step, paid, members, values = (list(column) for column in zip(*taken, strict=True))
        names = dict.fromkeys(name for one in values for name in one)
        columns = {name: [one.get(name) for one in values] for name in names}
        texts = [read_whole_text(row.get("completion", "")) for row in step]
        signs = self.observe(texts, paid, groups=[repr(group) for group in members], parts=columns)
        if self.second is not None:
            try:
                drift = await self._drift(self.second, step, paid)
            except Exception as error:  # noqa: BLE001 - a second judge may fail in any way, and training goes on
                logger.warning("the second judge could not be asked: %s", describe_error(error))
                drift = None
            if drift is not None:
                signs["drift"] = drift
                write(self.sinks, self.steps, {"drift": drift})
        return signs

    async def _drift(
        self, second: SecondJudge, rows: Sequence[Any], rewards: Sequence[float | None]
    ) -> float | None:
        """How far our rewards rose over a second judge's since the first step, over rows drawn by the number of the step."""
        scored = [place for place, reward in enumerate(rewards) if reward is not None]
        if len(scored) > self.sample:
            scored = sorted(random.Random(self.steps).sample(scored, self.sample))
        pairs = zip(
            [rewards[place] for place in scored],
            await second([rows[place] for place in scored]),
            strict=True,
        )
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
        columns = {
            name: [pair for step in seen for pair in step.pairs.get(name, ())]
            for name in seen[-1].pairs
        }
        if len(columns) > 1:
            yield (
                "dominance",
                self._largest(
                    "dominance", {name: _explained(own) for name, own in columns.items()}
                ),
            )
        means = {name: [step.means.get(name) for step in seen] for name in ("reward", *columns)}
        breaks = {
            name: found for name, own in means.items() if (found := slope_break(own)) is not None
        }
        if breaks:
            yield "slope_break", self._largest("slope_break", breaks)
        if self.steps > FEW:
            ends = [self._first, list(islice(reversed(seen), FEW))]
            then, now = (
                [fmean(step.means[n] for step in steps) for n in ("length", "repetition")]
                for steps in ends
            )
            yield "length_drift", now[0] / then[0] - 1 if then[0] else 0.0
            yield "repetition_drift", now[1] - then[1]

    def _largest(self, sign: str, values: Mapping[str, float]) -> float:
        """The value furthest from 0, whose criterion a warning about the sign names."""
        self._named[sign] = name = max(values, key=lambda name: abs(values[name]))
        return values[name]

    def _warn(self, signs: dict[str, float]) -> None:
        meaning = read_toml("assay.integrations", "alarms.toml")
        for name, limit in vars(self.alarms).items():
            if name not in signs:
                continue
            # A correlation over few rollouts is chance, so its interval has to clear the limit.
            number = signs.get(f"{name}_low", signs[name])
            number = abs(number) if name in ("slope_break", "length_drift") else number
            if number <= limit:
                self._raised.discard(name)
            elif name not in self._raised:
                self._raised.add(name)
                about = f" ({self._named[name]})" if name in self._named else ""
                self.warn(
                    f"step {self.steps}: {name}{about} is {signs[name]:.2f}, past {limit:g}: {meaning[name]}"
                )


def _step(
    texts: Sequence[str],
    rewards: Sequence[float | None],
    groups: Sequence[Hashable],
    parts: Columns,
) -> _Step:
    members = group_by_key(
        (group, reward) for group, reward in zip(groups, rewards, strict=True) if reward is not None
    )
    several = [paid for paid in members.values() if len(paid) > 1]
    scored = [
        (len(text), reward)
        for text, reward in zip(texts, rewards, strict=True)
        if reward is not None
    ]
    pairs = {
        name: [
            (v, r) for v, r in zip(column, rewards, strict=True) if v is not None and r is not None
        ]
        for name, column in parts.items()
    }
    values: dict[str, list[float]] = {
        name: [value for value, _ in own] for name, own in pairs.items()
    }
    values |= {
        "reward": [r for _, r in scored],
        "repetition": [measure_repetition(text) for text in texts],
    }
    values["length"] = [float(len(text)) for text in texts]
    return _Step(
        scored,
        len(several),
        [paid[0] for paid in several if min(paid) == max(paid)],
        rollouts=len(texts),
        degenerate=sum(explain_degenerate(text) is not None for text in texts),
        repeated=sum(count - 1 for count in Counter(texts).values()),
        pairs=pairs,
        means={"length": 0.0, "repetition": 0.0}
        | {name: fmean(own) for name, own in values.items() if own},
    )


def _explained(pairs: Sequence[tuple[float, float]]) -> float:
    """The share of the spread of rewards that goes with one criterion, by the lower end of its 95 % interval."""
    values, rewards = zip(*pairs, strict=True) if len(pairs) > 3 else ((), ())
    if not values or min(values) == max(values) or min(rewards) == max(rewards):
        return 0.0
    return max(0.0, _low(abs(correlation(values, rewards)), len(pairs))) ** 2


def slope_break(means: Sequence[float | None]) -> float | None:
    """By how many standard errors the slope in the newer half differs from that in the older; None below 8 steps.

    At most 100 either way, as where both halves are straight lines.
    """
    if len(means) < 8 or None in means:
        return None
    slopes: list[float] = []
    variance, size = 0.0, len(means) // 2
    for half in (means[:size], means[-size:]):
        own = [mean for mean in half if mean is not None]
        slope, start = linear_regression(range(size), own)
        rest = math.fsum((mean - start - slope * place) ** 2 for place, mean in enumerate(own))
        squares = size * (size * size - 1) / 12  # of 0 to size - 1 about their mean
        variance += rest / (size - 2) / squares
        slopes.append(slope)
    apart = slopes[1] - slopes[0]
    if abs(apart) < 1e-9:  # rounding
        return 0.0
    return math.copysign(min(100.0, abs(apart) / math.sqrt(variance) if variance else 100.0), apart)


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Return Spearman's correlation, with ties at their mean rank; None when one of them does not vary."""
    if len(first) < 3 or min(first) == max(first) or min(second) == max(second):
        return None
    return correlation(_ranks(first), _ranks(second))


def _ranks(values: Sequence[float]) -> list[float]:
    ordered = sorted(values)
    return [
        (bisect_left(ordered, value) + bisect_right(ordered, value) + 1) / 2 for value in values
    ]


def _low(found: float, size: int) -> float:
    """The lower end of a correlation's 95 % interval, by Fisher's transformation."""
    if size <= 3 or abs(found) >= 1:
        return found if size > 3 else -1.0
    return math.tanh(math.atanh(found) - Z / math.sqrt(size - 3))


def write(sinks: Sequence[Sink], step: int, values: Values) -> None:
    """Write the values of a step everywhere. A sink that fails is logged, since training must not end with it."""
    for sink in sinks:
        try:
            getattr(sink, "log", sink)(step, values)
        except Exception as error:  # noqa: BLE001 - a tracker may fail in any way
            logger.warning(
                "%r did not take the values of step %d: %s", sink, step, describe_error(error)
            )


def to_jsonl(path: str | Path, source: str = "") -> Sink:
    """One line of JSON a step at the end of a file; several processes may write to it, and `source` tells them apart."""
    return partial(_line, Path(path), {"source": source} if source else {})


def _line(path: Path, about: Mapping[str, str], step: int, values: Values) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"step": step, **about, **values}) + "\n")


def to_tracker(tracker: Any) -> Sink:
    """A run of W&B (`wandb.init()`), a `SummaryWriter` of TensorBoard, or the module `mlflow`, whose active run is written to."""
    return partial(_track, tracker)


def _track(tracker: Any, step: int, values: Values) -> None:
    named = {f"assay/{name}": value for name, value in values.items()}
    if hasattr(tracker, "add_scalar"):
        for name, value in named.items():
            tracker.add_scalar(name, value, step)
    elif hasattr(tracker, "log_metrics"):
        tracker.log_metrics(named, step=step)
    else:  # without W&B's own `step`, which must never fall behind the trainer's
        tracker.log({"assay/step": step, **named})
