"""Turn the rewards of groups into advantages: every estimator, each with rollouts that have no reward left out."""

import math
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from typing import Final, Literal, TypeAlias

from assay.types import Rewards

# `mean` and `dr_grpo` are the reward less the mean of its group; `grpo` divides that by the standard deviation of the
# group; `rloo` is the reward less the mean of the others; `gdpo` does as `grpo` for every criterion by itself, and
# adds them up.
Estimator: TypeAlias = Literal["mean", "dr_grpo", "grpo", "rloo", "gdpo"]
EPSILON: Final = 1e-6  # added to a standard deviation, as verl does; TRL adds 1e-4
# Added to that of all rollouts at the end of GDPO, as TRL does; verl adds its square to the variance.
WHITENING: Final = 1e-4


def advantages(
    rewards: Rewards,
    estimator: Estimator = "mean",
    *,
    groups: Sequence[Hashable] | None = None,
    baselines: Rewards | None = None,
    epsilon: float = EPSILON,
) -> list[float | None]:
    """Return the advantage of each rollout in its group; None stays None, and counts in no baseline.

    All rollouts are one group unless `groups` says otherwise. A rollout that is the only one with a reward has the advantage 0.
    With `rloo`, `baselines` gives each rollout one more reward to be compared with, such as that of a greedy answer.

    >>> advantages([1.0, 0.0, None])
    [0.5, -0.5, None]
    >>> advantages([1.0, 0.0, 0.0], "rloo")
    [1.0, -0.5, -0.5]
    """
    if estimator not in ("mean", "dr_grpo", "grpo", "rloo"):
        others = (
            "'mean', 'dr_grpo', 'grpo' or 'rloo'; gdpo_advantages takes the columns of criteria"
        )
        raise ValueError(f"estimator is {estimator!r}: give {others}")
    if baselines is not None and estimator != "rloo":
        raise ValueError(
            f"the estimator {estimator!r} takes no baselines: give 'rloo', or leave them out"
        )
    for name, column in (("groups", groups), ("baselines", baselines)):
        if column is not None and len(column) != len(rewards):
            raise ValueError(
                f"there are {len(rewards)} rewards and {len(column)} {name}: give one of each a rollout"
            )
    known = [
        reward
        for reward in (*rewards, *(() if baselines is None else baselines))
        if reward is not None
    ]
    if not all(map(math.isfinite, known)):
        raise ValueError("a reward is NaN or infinite: leave it out as None")
    if (
        groups is None and baselines is None and known and len(known) == len(rewards)
    ):  # as nearly always
        return [*_less_mean(known, estimator, epsilon)]
    found: list[float | None] = [None] * len(rewards)
    members: defaultdict[Hashable, list[int]] = defaultdict(
        list
    )  # the places of the scored rollouts of each group
    for place, reward in enumerate(rewards):
        if reward is not None:
            members[None if groups is None else groups[place]].append(place)
    for places in members.values():
        own = [reward for place in places if (reward := rewards[place]) is not None]
        if baselines is not None:
            numbers = _less_others(own, [baselines[place] for place in places])
        else:
            numbers = _less_mean(own, estimator, epsilon)
        for place, number in zip(places, numbers, strict=True):
            found[place] = number
    return found


def gdpo_advantages(
    columns: Mapping[str, Rewards],
    weights: Mapping[str, float] | None = None,
    *,
    rewards: Rewards | None = None,
    groups: Sequence[Hashable] | None = None,
    epsilon: float = EPSILON,
) -> list[float | None]:
    """Normalise each criterion by itself within its group, add up by weight, and normalise over all rollouts (GDPO).

    `columns` holds the values of each criterion. A rollout is unscored where its reward is None, or, without `rewards`, where one
    of its values is. A value that is missing otherwise, since the criterion does not apply, adds 0.
    """
    if not columns:
        raise ValueError("there are no criteria to normalise: give a column of values for each")
    sizes = {
        name: len(column)
        for name, column in {**columns, "rewards": rewards}.items()
        if column is not None
    }
    if len(set(sizes.values())) > 1:
        raise ValueError(
            f"the columns differ in length ({sizes}): give one value a rollout, or None"
        )
    complete = [None if None in row else 0.0 for row in zip(*columns.values(), strict=True)]
    each = complete if rewards is None else rewards
    sums: list[list[float]] = [[] for _ in each]
    for name, column in columns.items():
        scored = [
            value if one is not None else None for value, one in zip(column, each, strict=True)
        ]
        weight = 1.0 if weights is None else weights[name]
        for own, value in zip(
            sums, advantages(scored, "grpo", groups=groups, epsilon=epsilon), strict=True
        ):
            own.append(0.0 if value is None else weight * value)
    added = [None if one is None else math.fsum(own) for own, one in zip(sums, each, strict=True)]
    # Criteria that cancel out leave rounding behind, which a smaller number would blow up.
    return advantages(added, "grpo", epsilon=max(epsilon, WHITENING))


def _less_mean(scored: Sequence[float], estimator: Estimator, epsilon: float) -> list[float]:
    size = len(scored)
    if min(scored) == max(scored):
        # Equal rewards are exactly 0 apart; a mean in floating point might say otherwise.
        return [0.0] * size
    mean = math.fsum(scored) / size
    gaps = [reward - mean for reward in scored]
    if estimator == "rloo":  # what is left of the mean without the reward itself
        return [gap * size / (size - 1) for gap in gaps]
    if estimator != "grpo":
        return gaps
    # By hypot: neither squares that overflow nor squares that vanish.
    unit = math.hypot(*gaps) / math.sqrt(size - 1) + epsilon
    return [gap / unit for gap in gaps]


def _less_others(scored: Sequence[float], baselines: Rewards) -> list[float]:
    """Each reward less the mean of the others and its own baseline, where there is any of them."""
    whole, found = math.fsum(scored), list[float]()
    for reward, baseline in zip(scored, baselines, strict=True):
        others = len(scored) - (baseline is None)
        found.append(reward - (whole - reward + (baseline or 0.0)) / others if others else 0.0)
    return found
