"""Turn the rewards of groups into advantages. Rollouts without a reward have no advantage."""

import math
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from typing import Final, Literal, TypeAlias

from assay.types import Rewards

# How the advantage of a rollout is computed:
# - "mean" and "dr_grpo": its reward minus the mean of its group
# - "grpo": the same, divided by the standard deviation of the group
# - "rloo": its reward minus the mean of the other rollouts of its group
# - "gdpo": "grpo" for each criterion separately, added up (see `gdpo_advantages`)
Estimator: TypeAlias = Literal["mean", "dr_grpo", "grpo", "rloo", "gdpo"]
EPSILON: Final = 1e-6  # added to a standard deviation, as verl does; TRL adds 1e-4
# Added to the standard deviation of all rollouts in the last step of GDPO, as TRL does. verl adds
# the square of this number to the variance.
WHITENING: Final = 1e-4


def advantages(
    rewards: Rewards,
    estimator: Estimator = "mean",
    *,
    groups: Sequence[Hashable] | None = None,
    baselines: Rewards | None = None,
    epsilon: float = EPSILON,
) -> list[float | None]:
    """Return the advantage of each rollout in its group; None for a rollout without a reward.

    `groups` holds the group of each rollout; without it, all rollouts are one group. Rollouts
    without a reward are not part of any mean. The only rollout of a group that has a reward has
    the advantage 0.

    `baselines`, for "rloo" only, holds one more reward to compare each rollout with, such as that
    of a greedy answer.

    >>> advantages([1.0, 0.0, None])
    [0.5, -0.5, None]
    >>> advantages([1.0, 0.0, 0.0], "rloo")
    [1.0, -0.5, -0.5]
    """
    _check_arguments(rewards, estimator, groups, baselines)
    results: list[float | None] = [None] * len(rewards)
    for members in _group_scored(rewards, groups):
        indices = [index for index, _ in members]
        group_rewards = [reward for _, reward in members]
        if baselines is None:
            group_advantages = _compare_with_mean(group_rewards, estimator, epsilon)
        else:
            group_baselines = [baselines[index] for index in indices]
            group_advantages = _compare_with_others(group_rewards, group_baselines)
        for index, advantage in zip(indices, group_advantages, strict=True):
            results[index] = advantage
    return results


def _check_arguments(
    rewards: Rewards,
    estimator: Estimator,
    groups: Sequence[Hashable] | None,
    baselines: Rewards | None,
) -> None:
    """Raise ValueError for an unknown estimator, columns of unequal length, or NaN."""
    if estimator not in ("mean", "dr_grpo", "grpo", "rloo"):
        raise ValueError(
            f"estimator is {estimator!r}: give 'mean', 'dr_grpo', 'grpo' or 'rloo', "
            "or call gdpo_advantages with a column for each criterion"
        )
    if baselines is not None and estimator != "rloo":
        raise ValueError(
            f"the estimator {estimator!r} takes no baselines: give 'rloo', or leave them out"
        )
    for name, column in (("groups", groups), ("baselines", baselines)):
        if column is not None and len(column) != len(rewards):
            raise ValueError(
                f"there are {len(rewards)} rewards and {len(column)} {name}: "
                f"give one of the {name} for each rollout"
            )
    all_rewards = [*rewards] if baselines is None else [*rewards, *baselines]
    for reward in all_rewards:
        if reward is not None and not math.isfinite(reward):
            raise ValueError(f"a reward is {reward}: give None for a rollout without a reward")


def _group_scored(
    rewards: Rewards, groups: Sequence[Hashable] | None
) -> list[list[tuple[int, float]]]:
    """Return, for each group, the index and the reward of its rollouts that have a reward."""
    members: defaultdict[Hashable, list[tuple[int, float]]] = defaultdict(list)
    for index, reward in enumerate(rewards):
        if reward is not None:
            group = None if groups is None else groups[index]
            members[group].append((index, reward))
    return list(members.values())


def _compare_with_mean(
    rewards: Sequence[float], estimator: Estimator, epsilon: float
) -> list[float]:
    """Return the advantages of one group whose only baseline is its own mean."""
    size = len(rewards)
    if min(rewards) == max(rewards):
        # Exactly 0. The mean of equal rewards may differ from them by a rounding error.
        return [0.0] * size
    mean = math.fsum(rewards) / size
    differences = [reward - mean for reward in rewards]
    if estimator == "rloo":
        # reward - mean of the others = (reward - mean) * size / (size - 1)
        return [difference * size / (size - 1) for difference in differences]
    if estimator == "grpo":
        # hypot avoids squares that overflow or vanish.
        deviation = math.hypot(*differences) / math.sqrt(size - 1)
        return [difference / (deviation + epsilon) for difference in differences]
    return differences


def _compare_with_others(rewards: Sequence[float], baselines: Rewards) -> list[float]:
    """Return each reward minus the mean of the other rewards and its baseline.

    A rollout with neither other rewards nor a baseline has the advantage 0.
    """
    reward_sum = math.fsum(rewards)
    results: list[float] = []
    for reward, baseline in zip(rewards, baselines, strict=True):
        other_sum = reward_sum - reward
        other_count = len(rewards) - 1
        if baseline is not None:
            other_sum += baseline
            other_count += 1
        results.append(reward - other_sum / other_count if other_count else 0.0)
    return results


def gdpo_advantages(
    columns: Mapping[str, Rewards],
    weights: Mapping[str, float] | None = None,
    *,
    rewards: Rewards | None = None,
    groups: Sequence[Hashable] | None = None,
    epsilon: float = EPSILON,
) -> list[float | None]:
    """Return the advantages by GDPO.

    The values of each criterion are normalised within their group, added up by weight, and the
    sums are normalised over all rollouts.

    `columns` holds the values of each criterion. A rollout is unscored if its reward is None, or,
    without `rewards`, if one of its values is None. A missing value of a scored rollout, whose
    criterion does not apply, adds 0.
    """
    if not columns:
        raise ValueError("there are no criteria to normalise: give a column of values for each")
    lengths = {name: len(column) for name, column in columns.items()}
    if rewards is not None:
        lengths["rewards"] = len(rewards)
    if len(set(lengths.values())) > 1:
        raise ValueError(
            f"the columns differ in length ({lengths}): give one value per rollout, or None"
        )
    if rewards is None:
        is_scored = [None not in values for values in zip(*columns.values(), strict=True)]
    else:
        is_scored = [reward is not None for reward in rewards]
    terms: list[list[float]] = [[] for _ in is_scored]  # of the sum for each rollout
    for name, column in columns.items():
        weight = 1.0 if weights is None else weights[name]
        scored_values = [
            value if scored else None for value, scored in zip(column, is_scored, strict=True)
        ]
        normalised = advantages(scored_values, "grpo", groups=groups, epsilon=epsilon)
        for rollout_terms, value in zip(terms, normalised, strict=True):
            rollout_terms.append(0.0 if value is None else weight * value)
    sums: list[float | None] = [
        math.fsum(rollout_terms) if scored else None
        for rollout_terms, scored in zip(terms, is_scored, strict=True)
    ]
    # If criteria cancel out, only rounding errors remain, and a smaller epsilon would magnify them.
    return advantages(sums, "grpo", epsilon=max(epsilon, WHITENING))
