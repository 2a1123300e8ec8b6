"""Combine the answers to criteria into rewards and scores.

Every formula is here, and no other module multiplies by the weight of a criterion.
"""

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from operator import mul
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeAlias, TypeVar, get_args

from assay.errors import AssayError, RubricError
from assay.types import Rewards
from assay.wording import format_value

Key = TypeVar("Key", bound=Hashable)
Item = TypeVar("Item")

# How totals become a score:
# - "unit": the share of the possible gain, clamped to 0…1
# - "open": the share of the possible gain, not clamped
# - "raw": the weighted sum itself
Scale: TypeAlias = Literal["unit", "open", "raw"]


class Totals(NamedTuple):
    """The weighted sum of some answers, and how much could be gained and lost.

    The sum is between -loss and gain if all values are between 0 and 1.
    """

    # Σ weight · value
    raw: float = 0.0
    # The largest possible gain: the sum of the positive weights.
    gain: float = 0.0
    # The largest possible loss: the sum of the absolute values of the negative weights.
    loss: float = 0.0


def normalise(totals: Totals, scale: Scale = "unit") -> float | None:
    """Return the score for these totals, or None if nothing could be gained or lost.

    The score is the share of the possible gain. If nothing can be gained, the "unit" scale
    starts at 1 and subtracts the share of the possible loss.

    >>> normalise(Totals(raw=12.75, gain=15)), normalise(Totals(raw=-9, loss=60))
    (0.85, 0.85)
    """
    return normalise_sum(totals.raw, totals.gain, totals.loss, scale)


def normalise_sum(raw: float, gain: float, loss: float, scale: Scale) -> float | None:
    """Return the score for the weighted sum `raw`; see `normalise` and `Totals`."""
    if scale == "raw":
        return raw
    if gain > 0:
        share = raw / gain
    elif loss > 0 and scale == "unit":
        # All weights are negative: without any loss the share is 1.
        lost = -raw
        share = 1 - lost / loss
    else:
        return None
    if scale == "open" or 0.0 <= share <= 1.0:
        return share
    # Clamped by hand, since `min` and `max` are slower.
    return 1.0 if share > 1.0 else 0.0


def denormalise(score: float, gain: float, loss: float, scale: Scale = "unit") -> float:
    """Return the raw sum that has this score: the inverse of `normalise`."""
    if scale == "raw":
        return score
    if gain > 0:
        return score * gain
    return (score - 1) * loss


def stakes(weights: Sequence[float]) -> tuple[float, float]:
    """Return the largest possible gain and the largest possible loss under these weights."""
    gain = total(weight for weight in weights if weight > 0)
    loss = total(-weight for weight in weights if weight < 0)
    return gain, loss


def totals_from_share(share: float, weights: Sequence[float]) -> Totals:
    """Return the totals of a rubric that a judge gave one number for, `share` between 0 and 1."""
    gain, loss = stakes(weights)
    return Totals(raw=denormalise(share, gain, loss), gain=gain, loss=loss)


def total(numbers: Iterable[float]) -> float:
    """Return the sum of some numbers, rounded only once, at the end.

    So it is the same in any order of the numbers and on every version of Python.
    """
    return math.fsum(numbers) + 0.0  # + 0.0 turns -0.0 into 0.0


def weighted_sum(weights: Sequence[float], values: Iterable[float]) -> float:
    """Return Σ weight · value, rounded once like `total`."""
    return math.fsum(map(mul, weights, values)) + 0.0


def sum_by_name(pairs: Iterable[tuple[str, float]]) -> dict[str, float]:
    """Return the values by name; values with the same name are added up."""
    pairs = list(pairs)
    sums = dict(pairs)
    if len(sums) == len(pairs):  # nearly always: no name is there twice
        return sums
    for name, values in group_by_key(pairs).items():
        if len(values) == 1:
            sums[name] = values[0]  # the usual case, without any addition
        else:
            sums[name] = total(values)
    return sums


def group_by_key(pairs: Iterable[tuple[Key, Item]]) -> dict[Key, list[Item]]:
    """Return a list of the items of each key. Keys and items keep the order of `pairs`."""
    groups: dict[Key, list[Item]] = {}
    for key, item in pairs:
        groups.setdefault(key, []).append(item)
    return groups


# Aggregations. Each takes the report lines that count and have a value.


class ScoredLine(Protocol):
    """What an aggregation needs of a `CriterionReport`."""

    @property
    def weight(self) -> float: ...

    @property
    def value(self) -> float: ...

    @property
    def passed(self) -> bool | None: ...


def _add_weighted(lines: Sequence[ScoredLine]) -> Totals:
    """Return the weighted sum of the values."""
    weights = [line.weight for line in lines]
    values = [line.value for line in lines]
    gain, loss = stakes(weights)
    return Totals(raw=weighted_sum(weights, values), gain=gain, loss=loss)


def _average(lines: Sequence[ScoredLine]) -> Totals:
    """Return the weighted mean of the values.

    A line with a negative weight is about a fault: it counts with the absolute value of its weight
    and with 1 - value.
    """
    weights: list[float] = []
    values: list[float] = []
    for line in lines:
        weights.append(abs(line.weight))
        values.append(line.value if line.weight > 0 else 1 - line.value)
    total_weight = total(weights)
    if total_weight == 0:
        return Totals()
    mean = weighted_sum(weights, values) / total_weight
    return _make_unit_totals(mean)


def _all_pass(lines: Sequence[ScoredLine]) -> Totals:
    """Return 1 if all lines pass, else 0."""
    if not lines:
        return Totals()
    return _make_unit_totals(float(all(line.passed for line in lines)))


def _any_pass(lines: Sequence[ScoredLine]) -> Totals:
    """Return 1 if at least one line passes, else 0."""
    if not lines:
        return Totals()
    return _make_unit_totals(float(any(line.passed for line in lines)))


def _make_unit_totals(score: float) -> Totals:
    """Return the totals whose normalised score is `score`: at most 1 can be gained."""
    return Totals(raw=score, gain=1.0)


def _apply_formula(
    formula: Callable[[Sequence[Any]], object], name: str, lines: Sequence[ScoredLine]
) -> Totals:
    """Return the result of a caller's formula as totals; raise `RubricError` for a non-number."""
    if not lines:
        return Totals()
    result = formula(lines)
    if not isinstance(result, int | float) or not math.isfinite(result):
        raise RubricError(
            f"aggregation {name!r} returned {format_value(result)}: return a finite number"
        )
    return _make_unit_totals(float(result))


@dataclass(frozen=True, slots=True)
class Aggregation:
    """A named rule that combines the answers to criteria."""

    name: str
    # Takes the report lines that count and have a value.
    total: Callable[[Sequence[Any]], Totals]
    scale: Scale = "unit"
    # Whether the total is Σ weight · value, so that a reward can be computed without report lines.
    sums: bool = False
    # A caller's function, whose result is both the reward and the score.
    formula: Callable[[Sequence[Any]], object] | None = None


AGGREGATIONS: dict[str, Aggregation] = {
    "weighted": Aggregation("weighted", _add_weighted, sums=True),
    "sum": Aggregation("sum", _add_weighted, scale="raw", sums=True),
    "mean": Aggregation("mean", _average),
    "tree": Aggregation("tree", _average),
    "healthbench": Aggregation("healthbench", _add_weighted, scale="open", sums=True),
    "all_pass": Aggregation("all_pass", _all_pass),
    "any_pass": Aggregation("any_pass", _any_pass),
}


def find_aggregation(spec: object) -> Aggregation:
    """Return the aggregation for a name, or for a function of report lines."""
    if isinstance(spec, Aggregation):
        return spec
    if isinstance(spec, str) and spec in AGGREGATIONS:
        return AGGREGATIONS[spec]
    if callable(spec):
        name = getattr(spec, "__name__", type(spec).__name__)
        # A partial instead of a closure, so that the rubric can be pickled.
        apply = partial(_apply_formula, spec, name)
        return Aggregation(name, apply, scale="raw", formula=spec)
    raise RubricError(
        f"unknown aggregation {spec!r}: give one of {', '.join(AGGREGATIONS)}, or a function"
    )


# The reward of a rollout that has no score:
# - "raise": raise `UnscoredError`
# - "zero": 0
# - "group_mean": the mean of the group's scored rollouts, so that the advantage is 0
# - "drop": None; the trainer leaves the rollout out, if it can
Policy: TypeAlias = Literal["raise", "zero", "group_mean", "drop"]

POLICIES: Final[tuple[Policy, ...]] = get_args(Policy)


class UnscoredError(AssayError):
    """Raised when a rollout has no score and no policy supplies a reward."""


def check_policy(
    policy: Policy, supported: Sequence[Policy] = POLICIES, trainer: str = "this trainer"
) -> None:
    """Raise `RubricError` if a policy is unknown, or if the trainer does not support it."""
    if policy not in POLICIES:
        raise RubricError(f"unscored is {policy!r}: give one of {', '.join(map(repr, POLICIES))}")
    if policy not in supported:
        raise RubricError(
            f"{trainer} does not support unscored={policy!r}: "
            f"give {' or '.join(map(repr, supported))}"
        )


def fill_unscored(
    rewards: Rewards,
    policy: Policy = "raise",
    groups: Sequence[Hashable] | None = None,
    errors: Sequence[str] = (),
) -> list[float | None]:
    """Return the rewards with those of unscored rollouts filled in; with "drop" they stay None.

    `groups` holds the group of each rollout; without it, all rollouts are one group.
    `errors` holds the error of each rollout, for the message of `UnscoredError`.

    >>> fill_unscored([1.0, None, 0.0, 0.5], "group_mean", ["a", "a", "b", "b"])
    [1.0, 1.0, 0.0, 0.5]
    """
    unscored = [index for index, reward in enumerate(rewards) if reward is None]
    if not unscored or policy == "drop":
        return list(rewards)
    if policy == "raise":
        first_error = errors[unscored[0]] if errors else ""
        detail = f" ({first_error})" if first_error else ""
        raise UnscoredError(
            f"{len(unscored)} of {len(rewards)} rollouts have no score{detail}: "
            "fix what failed, or give unscored='zero' or 'group_mean' to train anyway"
        )
    if policy == "zero":
        return [0.0 if reward is None else reward for reward in rewards]
    if not groups:
        groups = [None] * len(rewards)
    return _fill_with_group_mean(rewards, groups)


def _fill_with_group_mean(rewards: Rewards, groups: Sequence[Hashable]) -> list[float | None]:
    """Return the rewards with each None replaced by the mean of its group.

    Raises `UnscoredError` if a group has no reward at all.
    """
    scored: list[tuple[Hashable, float]] = []
    for group, reward in zip(groups, rewards, strict=True):
        if reward is not None:
            scored.append((group, reward))
    means: dict[Hashable, float] = {}
    for group, group_rewards in group_by_key(scored).items():
        means[group] = math.fsum(group_rewards) / len(group_rewards)
    filled: list[float | None] = []
    for group, reward in zip(groups, rewards, strict=True):
        if reward is not None:
            filled.append(reward)
        elif group in means:
            filled.append(means[group])
        else:
            raise UnscoredError(
                "no rollout of a group has a score, so the group has no mean: "
                "look at the errors, or give unscored='zero'"
            )
    return filled
