"""Watch the rewards of a training run for signs of reward hacking, and warn of them."""

import json
import math
import random
from bisect import bisect_left, bisect_right
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from statistics import correlation, fmean, linear_regression
from typing import Any, Final, NamedTuple, TypeAlias

from assay.errors import RubricError
from assay.graders.degenerate import explain_degenerate
from assay.lazy import read_toml
from assay.messages import read_whole_text
from assay.redaction import get_logger
from assay.shaping import measure_repetition
from assay.wording import describe_error

logger = get_logger("assay")

Z: Final = 1.96  # a 95 % interval extends this many standard errors to either side
# A drift is the difference of the means of this many steps at the end and at the beginning.
DRIFT_STEPS: Final = 5

Columns = Mapping[str, Sequence[float | None]]  # the values of each criterion, one per rollout
# Returns rewards of rows, on the scale of the rewards that are watched.
SecondJudge = Callable[[Sequence[Any]], Awaitable[Sequence[float | None]]]
Values: TypeAlias = Mapping[str, float]
# A function of a step and its values, or an object with such a `log`.
Sink: TypeAlias = Callable[[int, Values], Any] | Any


@dataclass(frozen=True)
class Alarms:
    """The limits beyond which signs become warnings."""

    # The rank correlation of reward and length, by the lower end of its interval.
    length_correlation: float = 0.5
    # The share of groups in which every rollout got the highest reward of the window.
    saturated: float = 0.5
    # The share of groups whose rollouts all got the same reward, so that nothing is learnt from them.
    zero_variance: float = 0.7
    unscored: float = 0.05
    degenerate: float = 0.05
    repeated: float = 0.2  # the share of completions that are copies of another one in the step
    # How much more the reward has risen than that of a second judge, since the beginning.
    drift: float = 0.1
    # The share of the variance of rewards that one of several criteria explains, by the lower end of
    # its interval.
    dominance: float = 0.95
    # By how many standard errors the slope of a mean in the newer half of the window differs from
    # that in the older half.
    slope_break: float = 5.0
    length_drift: float = 0.5  # relative change of the mean length since the first steps
    # Change of the share of runs of three words that a text repeats, since the first steps.
    repetition_drift: float = 0.1


# The signs besides the share of unscored rollouts. Not every step has all of them.
SIGNS: Final = (
    *(alarm.name for alarm in fields(Alarms) if alarm.name != "unscored"),
    "length_correlation_low",
)


class _Step(NamedTuple):
    """What is kept of a training step."""

    lengths: list[int]  # of the scored rollouts
    rewards: list[float]  # of the scored rollouts
    groups: int  # groups with several rollouts
    equal_rewards: list[float]  # the reward of each such group whose rewards are all equal
    rollouts: int
    degenerate: int
    repeated: int
    # For each criterion, the values of rollouts and their rewards.
    pairs: dict[str, list[tuple[float, float]]]
    # The means of the length, the repetition, the reward and every criterion with values.
    means: dict[str, float]


class _Waiting(NamedTuple):
    """A rollout that waits until its step is complete."""

    row: Mapping[str, Any]
    reward: float | None
    group: str
    parts: Mapping[str, float | None]


@dataclass
class RewardMonitor:
    """Watches the rewards of the last `window` steps.

    `observe` takes a whole step; `watch` collects rollouts into steps.

    >>> monitor = RewardMonitor()
    >>> round(monitor.observe(["yes", "yes", "well, yes"], [1.0, 1.0, None])["unscored"], 2)
    0.33
    """

    window: int = 20
    alarms: Alarms = field(default_factory=Alarms)
    # Called once when a sign passes its limit, and again only after it was below the limit.
    warn: Callable[[str], None] = logger.warning
    # The signs of every step are written to these functions of `(step, values)`, or objects with
    # `log(step, values)`.
    sinks: Sequence[Sink] = ()
    second: SecondJudge | None = None  # `watch` asks this judge about a sample of each step
    sample: int = 16  # how many rollouts of a step the second judge is asked about
    step_size: int = 256  # how many rollouts `watch` collects into a step
    steps: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        if self.window < 1:
            raise RubricError(f"window is {self.window!r}: give the number of steps to look back")
        self._steps: deque[_Step] = deque(maxlen=self.window)  # the last steps
        self._first_steps: list[_Step] = []  # of the training, to measure drifts from
        # For each step, the mean of our rewards less those of the second judge.
        self._gaps: list[float] = []
        self._raised: set[str] = set()  # the signs that are past their limit
        self._waiting: list[_Waiting] = []  # the rollouts of the step that `watch` collects
        # For the signs that are computed for each criterion, the name of the worst one.
        self._criterion_of_sign: dict[str, str] = {}

    def observe(
        self,
        texts: Sequence[str],
        rewards: Sequence[float | None],
        *,
        groups: Sequence[Hashable] | None = None,
        parts: Columns | None = None,
    ) -> dict[str, float]:
        """Add a training step. Return the signs over the window by name, without unknown ones."""
        for name, column in {"rewards": rewards, "groups": groups, **(parts or {})}.items():
            if column is not None and len(texts) != len(column):
                raise RubricError(f"{len(texts)} texts and {len(column)} {name}: give one each")
        if groups is None:
            groups = [None] * len(texts)
        self.steps += 1
        step = _summarise_step(texts, rewards, groups, parts or {})
        self._steps.append(step)
        if len(self._first_steps) < DRIFT_STEPS:
            self._first_steps.append(step)
        signs = dict(self._find_signs())
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
        """Collect rollouts, and observe them as a step if there are `step_size` of them.

        With `is_step`, they are observed at once. Return the signs of the step; empty if it is not
        complete. The second judge is asked about its rollouts.
        """
        for index, row in enumerate(rows):
            group = row.get("prompt", "") if groups is None else groups[index]
            self._waiting.append(_Waiting(row, rewards[index], repr(group), parts[index]))
        if not self._waiting or (len(self._waiting) < self.step_size and not is_step):
            return {}
        step = self._waiting
        self._waiting = []
        columns: dict[str, list[float | None]] = {}
        for rollout in step:
            for name in rollout.parts:
                if name not in columns:
                    columns[name] = [other.parts.get(name) for other in step]
        signs = self.observe(
            [read_whole_text(rollout.row.get("completion", "")) for rollout in step],
            [rollout.reward for rollout in step],
            groups=[rollout.group for rollout in step],
            parts=columns,
        )
        if self.second is not None:
            try:
                drift = await self._measure_drift(self.second, step)
            except Exception as error:  # noqa: BLE001 - a second judge may fail in any way, and training goes on
                logger.warning("the second judge could not be asked: %s", describe_error(error))
                drift = None
            if drift is not None:
                signs["drift"] = drift
                write(self.sinks, self.steps, {"drift": drift})
        return signs

    async def _measure_drift(self, second: SecondJudge, step: Sequence[_Waiting]) -> float | None:
        """Return how much more our rewards have risen than those of the second judge.

        A sample of the rollouts is compared; the number of the step is the seed.
        """
        scored = [rollout for rollout in step if rollout.reward is not None]
        if len(scored) > self.sample:
            indices = random.Random(self.steps).sample(range(len(scored)), self.sample)
            scored = [scored[index] for index in sorted(indices)]
        second_rewards = await second([rollout.row for rollout in scored])
        gaps: list[float] = []
        for rollout, second_reward in zip(scored, second_rewards, strict=True):
            if rollout.reward is not None and second_reward is not None:
                gaps.append(rollout.reward - second_reward)
        if not gaps:
            return None
        self._gaps.append(math.fsum(gaps) / len(gaps))
        drift = self._gaps[-1] - self._gaps[0]
        self._warn({"drift": drift})
        return drift

    def _find_signs(self) -> Iterator[tuple[str, float]]:
        """Yield the name and the value of each sign that is known for the window."""
        steps = self._steps
        group_count = sum(step.groups for step in steps)
        rollout_count = sum(step.rollouts for step in steps)
        lengths: list[int] = []
        rewards: list[float] = []
        for step in steps:
            lengths += step.lengths
            rewards += step.rewards
        if rollout_count:
            yield "unscored", 1 - len(rewards) / rollout_count
            yield "degenerate", sum(step.degenerate for step in steps) / rollout_count
            yield "repeated", sum(step.repeated for step in steps) / rollout_count
        if group_count and rewards:
            highest = max(rewards)
            # Groups whose rollouts all got the same reward, and those that all got the highest.
            equal_groups = sum(len(step.equal_rewards) for step in steps)
            saturated_groups = sum(step.equal_rewards.count(highest) for step in steps)
            yield "zero_variance", equal_groups / group_count
            yield "saturated", saturated_groups / group_count
        length_correlation = rank_correlation(lengths, rewards)
        if length_correlation is not None:
            yield "length_correlation", length_correlation
            yield "length_correlation_low", _lower_bound(length_correlation, len(rewards))
        yield from self._find_signs_of_criteria()
        if self.steps > DRIFT_STEPS:
            yield from self._find_drifts()

    def _find_drifts(self) -> Iterator[tuple[str, float]]:
        """Yield how much the means of the last steps differ from those of the first ones."""
        last_steps = list(self._steps)[-DRIFT_STEPS:]
        first_length = fmean(step.means["length"] for step in self._first_steps)
        last_length = fmean(step.means["length"] for step in last_steps)
        yield "length_drift", last_length / first_length - 1 if first_length else 0.0
        first_repetition = fmean(step.means["repetition"] for step in self._first_steps)
        last_repetition = fmean(step.means["repetition"] for step in last_steps)
        yield "repetition_drift", last_repetition - first_repetition

    def _find_signs_of_criteria(self) -> Iterator[tuple[str, float]]:
        """Yield the signs that are computed for each criterion, with the value furthest from 0."""
        criteria = list(self._steps[-1].pairs)
        if len(criteria) > 1:
            # By name, the share of the variance of rewards that a criterion explains in the window.
            explained: dict[str, float] = {}
            for name in criteria:
                pairs: list[tuple[float, float]] = []
                for step in self._steps:
                    pairs += step.pairs.get(name, [])
                explained[name] = _explained_variance(pairs)
            yield "dominance", self._find_largest("dominance", explained)
        breaks: dict[str, float] = {}  # by name, how much the slope of the mean has changed
        for name in ("reward", *criteria):
            value = slope_break([step.means.get(name) for step in self._steps])
            if value is not None:
                breaks[name] = value
        if breaks:
            yield "slope_break", self._find_largest("slope_break", breaks)

    def _find_largest(self, sign: str, values: Mapping[str, float]) -> float:
        """Return the value furthest from 0, and note its criterion for a warning about the sign."""
        name = max(values, key=lambda name: abs(values[name]))
        self._criterion_of_sign[sign] = name
        return values[name]

    def _warn(self, signs: dict[str, float]) -> None:
        """Warn of each sign that has passed its limit, once until it is back within the limit."""
        meanings = read_toml("assay.integrations", "alarms.toml")
        for name, limit in vars(self.alarms).items():
            if name not in signs:
                continue
            # With few rollouts, a correlation may be chance, so its interval has to be above the limit.
            value = signs.get(f"{name}_low", signs[name])
            if name in ("slope_break", "length_drift"):
                value = abs(value)  # a change in either direction
            if value <= limit:
                self._raised.discard(name)
            elif name not in self._raised:
                self._raised.add(name)
                shown_name = name
                if name in self._criterion_of_sign:
                    shown_name = f"{name} ({self._criterion_of_sign[name]})"
                self.warn(
                    f"step {self.steps}: {shown_name} is {signs[name]:.2f}, past {limit:g}: "
                    f"{meanings[name]}"
                )


def _summarise_step(
    texts: Sequence[str],
    rewards: Sequence[float | None],
    groups: Sequence[Hashable],
    parts: Columns,
) -> _Step:
    """Return what is kept of a step; the columns have a value for each rollout."""
    lengths: list[int] = []
    scored_rewards: list[float] = []
    rewards_of_group: defaultdict[Hashable, list[float]] = defaultdict(list)
    for text, reward, group in zip(texts, rewards, groups, strict=True):
        if reward is not None:
            lengths.append(len(text))
            scored_rewards.append(reward)
            rewards_of_group[group].append(reward)
    # The rewards of each group of several rollouts.
    several = [members for members in rewards_of_group.values() if len(members) > 1]

    means: dict[str, float] = {"length": 0.0, "repetition": 0.0}
    if texts:
        means["length"] = fmean(len(text) for text in texts)
        means["repetition"] = fmean(measure_repetition(text) for text in texts)
    if scored_rewards:
        means["reward"] = fmean(scored_rewards)
    pairs: dict[str, list[tuple[float, float]]] = {}
    for name, column in parts.items():
        pairs[name] = []
        for value, reward in zip(column, rewards, strict=True):
            if value is not None and reward is not None:
                pairs[name].append((value, reward))
        # A criterion does not replace a mean with the same name.
        if pairs[name] and name not in ("reward", "length", "repetition"):
            means[name] = fmean(value for value, _ in pairs[name])
    return _Step(
        lengths=lengths,
        rewards=scored_rewards,
        groups=len(several),
        equal_rewards=[members[0] for members in several if min(members) == max(members)],
        rollouts=len(texts),
        degenerate=sum(explain_degenerate(text) is not None for text in texts),
        repeated=len(texts) - len(set(texts)),
        pairs=pairs,
        means=means,
    )


def _explained_variance(pairs: Sequence[tuple[float, float]]) -> float:
    """Return the share of the variance of rewards that a criterion explains.

    It is the lower end of a 95 % interval; 0 if there are too few pairs.
    """
    if len(pairs) <= 3:
        return 0.0
    values = [value for value, _ in pairs]
    rewards = [reward for _, reward in pairs]
    if min(values) == max(values) or min(rewards) == max(rewards):
        return 0.0
    strength = abs(correlation(values, rewards))
    return max(0.0, _lower_bound(strength, len(pairs))) ** 2


def slope_break(means: Sequence[float | None]) -> float | None:
    """Return by how many standard errors the slopes of the newer and of the older half differ.

    It is between -100 and 100, where both halves may be straight lines; None for less than 8 steps.
    """
    known = [mean for mean in means if mean is not None]
    if len(known) < 8 or len(known) < len(means):
        return None
    size = len(known) // 2
    steps = range(size)
    squared_distances = size * (size * size - 1) / 12  # of the steps from their mean
    slopes: list[float] = []
    variance = 0.0
    for half in (known[:size], known[-size:]):
        slope, intercept = linear_regression(steps, half)
        residuals = [
            mean - intercept - slope * step for step, mean in zip(steps, half, strict=True)
        ]
        residual_variance = math.fsum(residual**2 for residual in residuals) / (size - 2)
        variance += residual_variance / squared_distances
        slopes.append(slope)
    difference = slopes[1] - slopes[0]
    if abs(difference) < 1e-9:  # a rounding error
        return 0.0
    standard_errors = 100.0
    if variance:
        standard_errors = min(100.0, abs(difference) / math.sqrt(variance))
    return math.copysign(standard_errors, difference)


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Return Spearman's correlation, with ties at their mean rank; None if one does not vary."""
    if len(first) < 3 or min(first) == max(first) or min(second) == max(second):
        return None
    return correlation(_rank(first), _rank(second))


def _rank(values: Sequence[float]) -> list[float]:
    """Return the rank of each value, from 1; equal values share the mean of their ranks."""
    ordered = sorted(values)
    ranks: list[float] = []
    for value in values:
        first_rank = bisect_left(ordered, value) + 1
        last_rank = bisect_right(ordered, value)
        ranks.append((first_rank + last_rank) / 2)
    return ranks


def _lower_bound(estimate: float, size: int) -> float:
    """Return the lower end of a correlation's 95 % interval, by Fisher's transformation."""
    if size <= 3:
        return -1.0
    if abs(estimate) >= 1:
        return estimate
    return math.tanh(math.atanh(estimate) - Z / math.sqrt(size - 3))


def write(sinks: Sequence[Sink], step: int, values: Values) -> None:
    """Write the values of a step to all sinks. If one fails, that is logged, and training goes on."""
    for sink in sinks:
        try:
            log = getattr(sink, "log", sink)  # a method of an object, or the function itself
            log(step, values)
        except Exception as error:  # noqa: BLE001 - a tracker may fail in any way
            logger.warning(
                "%r did not take the values of step %d: %s", sink, step, describe_error(error)
            )


def to_jsonl(path: str | Path, source: str = "") -> Sink:
    """Return a sink that appends a line of JSON for each step to a file.

    Several processes may write to the same file; `source` identifies them.
    """
    return partial(_append_line, Path(path), source)


def _append_line(path: Path, source: str, step: int, values: Values) -> None:
    """Append the values of a step to a file, as one line of JSON."""
    line: dict[str, Any] = {"step": step}
    if source:
        line["source"] = source
    line.update(values)
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def to_tracker(tracker: Any) -> Sink:
    """Return a sink that writes to a run of W&B, to TensorBoard or to MLflow.

    The tracker is the result of `wandb.init()`, a `SummaryWriter`, or the module `mlflow` with its
    active run.
    """
    return partial(_track, tracker)


def _track(tracker: Any, step: int, values: Values) -> None:
    """Write the values of a step to a tracker, whose kind shows in its methods."""
    metrics = {f"assay/{name}": value for name, value in values.items()}
    if hasattr(tracker, "add_scalar"):  # TensorBoard
        for name, value in metrics.items():
            tracker.add_scalar(name, value, step)
    elif hasattr(tracker, "log_metrics"):  # MLflow
        tracker.log_metrics(metrics, step=step)
    else:
        # W&B. Its own `step` must not be smaller than that of the trainer, so it is not used.
        tracker.log({"assay/step": step, **metrics})
