"""Add answers up to rewards: every formula, and the only place that multiplies the weight of a criterion."""

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from operator import mul
from typing import Any, Final, Literal, NamedTuple, TypeAlias, TypeVar, get_args

from assay.errors import AssayError, RubricError
from assay.types import Rewards
from assay.wording import short_repr

Key = TypeVar("Key", bound=Hashable)
Item = TypeVar("Item")
# How totals become a score: a share clamped to 0…1, a share left as it is, or the raw sum.
Scale: TypeAlias = Literal["unit", "open", "raw"]


class Totals(NamedTuple):
    """What answers come to: the sum, the most it could gain and the most it could lose."""

    raw: float = 0.0
    gain: float = 0.0
    loss: float = 0.0


def normalise(totals: Totals, scale: Scale = "unit") -> float | None:
    """The score of some totals; None when nothing was at stake.

    A share of what could be gained; when nothing can be gained, what is left after the faults.

    >>> normalise(Totals(raw=12.75, gain=15)), normalise(Totals(raw=-9, loss=60))
    (0.85, 0.85)
    """
    raw, gain, loss = totals
    if scale == "raw":
        return raw
    if gain > 0:
        share = raw / gain
    elif loss > 0 and scale == "unit":
        share = 1 + raw / loss
    else:
        return None
    return min(1.0, max(0.0, share)) if scale == "unit" else share


def stakes(weights: Sequence[float]) -> tuple[float, float]:
    """What these weights could gain, and what they could lose."""
    return total(w for w in weights if w > 0), total(-w for w in weights if w < 0)


def total(numbers: Iterable[float]) -> float:
    """The sum of some numbers, rounded once: the same in any order and on every version of Python."""
    return math.fsum(numbers) + 0.0  # + 0.0: no reward is -0.0


def grouped(pairs: Iterable[tuple[Key, Item]]) -> dict[Key, list[Item]]:
    """The items of each key, in order."""
    groups: dict[Key, list[Item]] = {}
    for key, item in pairs:
        groups.setdefault(key, []).append(item)
    return groups


def summed_by_name(pairs: Iterable[tuple[str, float]]) -> dict[str, float]:
    """The values by name; those of equal names are added."""
    return {name: own[0] if len(own) == 1 else total(own) for name, own in grouped(pairs).items()}


def weighted_sums(weights: Sequence[float], rows: Iterable[Sequence[float]]) -> list[float]:
    """Σ weight · value of each row: the rewards."""
    return [
        math.fsum(map(mul, weights, row)) + 0.0 for row in rows
    ]  # as `total`, without a call for each rollout


def weighted_sum(weights: Sequence[float], values: Sequence[float]) -> float:
    return weighted_sums(weights, (values,))[0]


def sum_behind(score: float, gain: float, loss: float, scale: Scale = "unit") -> float:
    """The sum that comes to this score."""
    if scale == "raw":
        return score
    return score * gain if gain > 0 else (score - 1) * loss


def share_of(share: float, weights: Sequence[float]) -> Totals:
    """The totals of a rubric that was judged as a whole to be worth `share` (0…1) of its best."""
    gain, loss = stakes(weights)
    return Totals(sum_behind(share, gain, loss), gain, loss)


def _weighted(lines: Sequence[Any]) -> Totals:
    weights = [line.weight for line in lines]
    return Totals(weighted_sum(weights, [line.value for line in lines]), *stakes(weights))


def _mean(lines: Sequence[Any]) -> Totals:
    """The mean by size of weight; a fault (negative weight) is worth how far it was avoided."""
    sizes = [abs(line.weight) for line in lines]
    worth = [line.value if line.weight > 0 else 1 - line.value for line in lines]
    most = total(sizes)
    return Totals(weighted_sum(sizes, worth) / most, 1.0) if most else Totals()


def _share_passed(
    quantifier: Callable[[Iterable[bool]], bool],
) -> Callable[[Sequence[Any]], Totals]:
    return lambda lines: (
        Totals(float(quantifier(line.passed for line in lines)), 1.0) if lines else Totals()
    )


def _by_formula(
    formula: Callable[[Sequence[Any]], object], name: str, lines: Sequence[Any]
) -> Totals:
    raw = formula(lines) if lines else 0.0
    if not isinstance(raw, int | float) or not math.isfinite(raw):
        raise RubricError(
            f"aggregation {name!r} returned {short_repr(raw)}: return a finite number"
        )
    return Totals(float(raw), 1.0 if lines else 0.0)


@dataclass(frozen=True, slots=True)
class Aggregation:
    """A named way to add answers up."""

    name: str
    total: Callable[[Sequence[Any]], Totals]  # of the counted report lines that have a value
    scale: Scale = "unit"
    sums: bool = False  # whether the total is Σ weight · value, so that a reward needs no report
    formula: Callable[[Sequence[Any]], object] | None = (
        None  # a caller's own: its result is reward and score
    )


AGGREGATIONS: dict[str, Aggregation] = {
    aggregation.name: aggregation
    for aggregation in (
        Aggregation("weighted", _weighted, sums=True),
        Aggregation("sum", _weighted, scale="raw", sums=True),
        Aggregation("mean", _mean),
        Aggregation("tree", _mean),
        Aggregation("healthbench", _weighted, scale="open", sums=True),
        Aggregation("all_pass", _share_passed(all)),
        Aggregation("any_pass", _share_passed(any)),
    )
}


def aggregation_of(spec: object) -> Aggregation:
    """The aggregation that a name or a function stands for."""
    if isinstance(spec, Aggregation):
        return spec
    if isinstance(spec, str) and spec in AGGREGATIONS:
        return AGGREGATIONS[spec]
    if callable(spec):
        name = getattr(spec, "__name__", type(spec).__name__)
        return Aggregation(name, partial(_by_formula, spec, name), scale="raw", formula=spec)
    raise RubricError(
        f"aggregation {spec!r} is not known: give one of {', '.join(AGGREGATIONS)}, or a function"
    )


# `raise` stops; `zero` pays 0; `group_mean` pays what the group's scored rollouts got on average, so that its
# advantage is 0; `drop` leaves the rollout out, where the trainer can.
Policy: TypeAlias = Literal["raise", "zero", "group_mean", "drop"]

POLICIES: Final[tuple[Policy, ...]] = get_args(Policy)


class UnscoredError(AssayError):
    """A rollout has no score, and no policy says what to pay for it."""


def refuse_policy(policy: Policy, able: Sequence[Policy] = POLICIES, where: str = "it") -> None:
    """Raise for a policy that is not known, or that is none of those which a trainer is able to follow."""
    if policy not in POLICIES:
        raise RubricError(f"unscored is {policy!r}: give one of {', '.join(map(repr, POLICIES))}")
    if policy not in able:
        raise RubricError(
            f"{where} cannot do unscored={policy!r}: give {' or '.join(map(repr, able))}"
        )


def fill_gaps(
    rewards: Rewards,
    policy: Policy = "raise",
    groups: Sequence[Hashable] | None = None,
    errors: Sequence[str] = (),
) -> list[float | None]:
    """Pay for unscored rollouts by a policy, by `groups` where given; with `drop` they stay None, to be left out.

    >>> fill_gaps([1.0, None, 0.0, 0.5], "group_mean", ["a", "a", "b", "b"])
    [1.0, 1.0, 0.0, 0.5]
    """
    missing = [place for place, reward in enumerate(rewards) if reward is None]
    if not missing or policy == "drop":
        return list(rewards)
    if policy == "raise":
        said = f" ({errors[missing[0]]})" if errors and errors[missing[0]] else ""
        advice = "give unscored='zero' or 'group_mean' to train on, or mend what failed"
        raise UnscoredError(
            f"{len(missing)} of {len(rewards)} rollouts have no score{said}: {advice}"
        )
    if policy == "zero":
        return [0.0 if reward is None else reward for reward in rewards]
    members = groups or [None] * len(rewards)
    scored = grouped(
        (group, reward)
        for reward, group in zip(rewards, members, strict=True)
        if reward is not None
    )
    if not scored.keys() >= set(members):
        told = "no rollout of a group has a score, so there is no group mean to pay"
        raise UnscoredError(f"{told}: look at the errors, or give unscored='zero'")
    means = {group: math.fsum(own) / len(own) for group, own in scored.items()}
    return [
        means[group] if reward is None else reward
        for reward, group in zip(rewards, members, strict=True)
    ]
