"""Combine the answers to criteria into rewards and scores.

Every formula is here, and no other module multiplies by the weight of a criterion.
"""

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from operator import mul
from typing import Any, Final, Literal, NamedTuple, TypeAlias, TypeVar, get_args

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
    """The weighted sum of some answers, and the limits between which it could have been."""

    # Σ weight · value
    raw: float = 0.0
    # The sum of the positive weights.
    gain: float = 0.0
    # The sum of the absolute values of the negative weights.
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
    """Return the score for a weighted sum; see `normalise`."""
    if scale == "raw":
        return raw
    if gain > 0:
        share = raw / gain
    elif loss > 0 and scale == "unit":
        share = 1 + raw / loss
    else:
        return None
    if scale == "open" or 0.0 <= share <= 1.0:
        return share
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
    """Return the totals of a rubric that was judged as a whole and scored `share` (0…1)."""
    gain, loss = stakes(weights)
    return Totals(raw=denormalise(share, gain, loss), gain=gain, loss=loss)


def total(numbers: Iterable[float]) -> float:
    """Return the sum of some numbers, which does not depend on their order.

    The sum is rounded once, at the end, so it is also the same on every version of Python.
    """
    return math.fsum(numbers) + 0.0  # + 0.0 turns -0.0 into 0.0


def weighted_sum(weights: Sequence[float], values: Iterable[float]) -> float:
    """Return Σ weight · value, rounded once like `total`."""
    return math.fsum(map(mul, weights, values)) + 0.0


def sum_by_name(pairs: Iterable[tuple[str, float]]) -> dict[str, float]:
    """Return the values by name; values with the same name are added up."""
    sums: dict[str, float] = {}
    for name, values in group_by_key(pairs).items():
        if len(values) == 1:
            sums[name] = values[0]
        else:
            sums[name] = total(values)
    return sums


def group_by_key(pairs: Iterable[tuple[Key, Item]]) -> dict[Key, list[Item]]:
    """Return the items of each key as a list, keys and items in the order of their appearance."""
    groups: dict[Key, list[Item]] = {}
    for key, item in pairs:
        groups.setdefault(key, []).append(item)
    return groups


# Aggregations. Each formula takes the report lines that count and have a value.


def _add_weighted(lines: Sequence[Any]) -> Totals:
    weights = [line.weight for line in lines]
    values = [line.value for line in lines]
    gain, loss = stakes(weights)
    return Totals(raw=weighted_sum(weights, values), gain=gain, loss=loss)


def _average(lines: Sequence[Any]) -> Totals:
    """Return the mean weighted by |weight|; a fault (negative weight) is worth 1 - value."""
    sizes: list[float] = []
    values: list[float] = []
    for line in lines:
        sizes.append(abs(line.weight))
        values.append(line.value if line.weight > 0 else 1 - line.value)
    size = total(sizes)
    if size == 0:
        return Totals()
    return Totals(raw=weighted_sum(sizes, values) / size, gain=1.0)


def _all_pass(lines: Sequence[Any]) -> Totals:
    if not lines:
        return Totals()
    return Totals(raw=float(all(line.passed for line in lines)), gain=1.0)


def _any_pass(lines: Sequence[Any]) -> Totals:
    if not lines:
        return Totals()
    return Totals(raw=float(any(line.passed for line in lines)), gain=1.0)


def _apply_formula(
    formula: Callable[[Sequence[Any]], object], name: str, lines: Sequence[Any]
) -> Totals:
    """Return the result of a caller's formula as totals; raise `RubricError` for a non-number."""
    if not lines:
        return Totals()
    result = formula(lines)
    if not isinstance(result, int | float) or not math.isfinite(result):
        raise RubricError(
            f"aggregation {name!r} returned {format_value(result)}: return a finite number"
        )
    return Totals(raw=float(result), gain=1.0)


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
    missing = [index for index, reward in enumerate(rewards) if reward is None]
    if not missing or policy == "drop":
        return list(rewards)
    if policy == "raise":
        first_error = errors[missing[0]] if errors else ""
        detail = f" ({first_error})" if first_error else ""
        raise UnscoredError(
            f"{len(missing)} of {len(rewards)} rollouts have no score{detail}: "
            "fix what failed, or give unscored='zero' or 'group_mean' to train anyway"
        )
    if policy == "zero":
        return [0.0 if reward is None else reward for reward in rewards]
    return _fill_with_group_mean(rewards, groups or [None] * len(rewards))


def _fill_with_group_mean(rewards: Rewards, groups: Sequence[Hashable]) -> list[float | None]:
    scored: list[tuple[Hashable, float]] = []
    for group, reward in zip(groups, rewards, strict=True):
        if reward is not None:
            scored.append((group, reward))
    means = {
        group: math.fsum(values) / len(values) for group, values in group_by_key(scored).items()
    }
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
