"""Turn the rewards of groups into advantages. Rollouts without a reward have no advantage."""

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Final, Literal, TypeAlias

from assay.types import Rewards

# How the advantage of a rollout is computed. `gdpo_advantages` computes "gdpo", and `advantages`
# computes and explains the others.
Estimator: TypeAlias = Literal["mean", "dr_grpo", "grpo", "rloo", "gdpo"]
EPSILON: Final = 1e-6  # added to a standard deviation, as verl does; TRL adds 1e-4
# The smallest number that is added to the standard deviation of all rollouts in the last step of
# GDPO. TRL adds this number; verl adds its square to the variance.
GDPO_MIN_EPSILON: Final = 1e-4


def advantages(
    rewards: Rewards,
    estimator: Estimator = "mean",
    *,
    groups: Sequence[Hashable] | None = None,
    baselines: Rewards | None = None,
    epsilon: float = EPSILON,
) -> list[float | None]:
    """Return the advantage of each rollout in its group; None for a rollout without a reward.

    `estimator` is the formula:

    - "mean" and "dr_grpo": the reward minus the mean of the group
    - "grpo": the same, divided by the standard deviation of the group plus `epsilon`
    - "rloo": the reward minus the mean of the other rewards of the group

    `groups` holds the group of each rollout; without it, all rollouts are one group. Rollouts
    without a reward are not part of any mean. If only one rollout of a group has a reward, its
    advantage is 0.

    `baselines`, for "rloo" only, holds an additional reward for each rollout, such as the reward
    of a greedy answer. It counts as one more of the other rewards of the group.

    >>> advantages([1.0, 0.0, None])
    [0.5, -0.5, None]
    >>> advantages([1.0, 0.0, 0.0], "rloo")
    [1.0, -0.5, -0.5]
    """
    _check_arguments(rewards, estimator, groups, baselines)
    if groups is None and baselines is None:
        scored = [reward for reward in rewards if reward is not None]
        if scored and len(scored) == len(rewards):  # the usual case: nothing has to be sorted out
            return [*_compute_without_baselines(scored, estimator, epsilon)]
    results: list[float | None] = [None] * len(rewards)
    for indices, group_rewards in _group_scored(rewards, groups):
        if baselines is None:
            group_advantages = _compute_without_baselines(group_rewards, estimator, epsilon)
        else:
            group_baselines = [baselines[index] for index in indices]
            group_advantages = _compute_rloo_with_baselines(group_rewards, group_baselines)
        for index, advantage in zip(indices, group_advantages, strict=True):
            results[index] = advantage
    return results


def _check_arguments(
    rewards: Rewards,
    estimator: Estimator,
    groups: Sequence[Hashable] | None,
    baselines: Rewards | None,
) -> None:
    """Raise ValueError for arguments that do not fit together, and for infinite or NaN rewards."""
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
    known = [reward for reward in all_rewards if reward is not None]
    if all(map(math.isfinite, known)):
        return
    for reward in known:
        if not math.isfinite(reward):
            raise ValueError(f"a reward is {reward}: give None for a rollout without a reward")


def _group_scored(
    rewards: Rewards, groups: Sequence[Hashable] | None
) -> list[tuple[list[int], list[float]]]:
    """Return the indices and the rewards of each group's rollouts that have a reward."""
    scored_by_group: dict[Hashable, tuple[list[int], list[float]]] = {}
    group: Hashable = None  # if there are no groups, all rollouts are one
    for index, reward in enumerate(rewards):
        if groups is not None:
            group = groups[index]
        if reward is None:
            continue
        if group not in scored_by_group:
            scored_by_group[group] = ([], [])
        indices, group_rewards = scored_by_group[group]
        indices.append(index)
        group_rewards.append(reward)
    return list(scored_by_group.values())


def _compute_without_baselines(
    rewards: Sequence[float], estimator: Estimator, epsilon: float
) -> list[float]:
    """Return the advantages of one group, computed from the rewards of the group only."""
    size = len(rewards)
    if min(rewards) == max(rewards):
        # The mean of equal rewards may differ from them by a rounding error, so return exact zeros.
        return [0.0] * size
    mean = math.fsum(rewards) / size
    differences = [reward - mean for reward in rewards]
    if estimator == "rloo":
        # reward - mean of the other rewards = (reward - mean of all rewards) * size / (size - 1)
        return [difference * size / (size - 1) for difference in differences]
    if estimator == "grpo":
        # The square root of the sum of squares. `hypot` works with very large and small numbers.
        norm = math.hypot(*differences)
        deviation = norm / math.sqrt(size - 1)
        return [difference / (deviation + epsilon) for difference in differences]
    return differences  # "mean" and "dr_grpo"


def _compute_rloo_with_baselines(rewards: Sequence[float], baselines: Rewards) -> list[float]:
    """Return the advantages of one group by "rloo", with a baseline or None for each reward.

    Each reward is compared with the mean of all other rewards of the group and its own baseline.
    If there is neither another reward nor a baseline, the advantage is 0.
    """
    reward_sum = math.fsum(rewards)
    results: list[float] = []
    for reward, baseline in zip(rewards, baselines, strict=True):
        other_sum = reward_sum - reward
        other_count = len(rewards) - 1
        if baseline is not None:
            other_sum += baseline
            other_count += 1
        if other_count == 0:
            results.append(0.0)
        else:
            results.append(reward - other_sum / other_count)
    return results


def gdpo_advantages(
    columns: Mapping[str, Rewards],
    weights: Mapping[str, float] | None = None,
    *,
    rewards: Rewards | None = None,
    groups: Sequence[Hashable] | None = None,
    epsilon: float = EPSILON,
) -> list[float | None]:
    """Return the advantage of each rollout by GDPO; None for an unscored rollout.

    The values of each criterion are normalised within their group by "grpo". Each rollout's
    normalised values are multiplied by the weights and added up. These sums are normalised over all
    rollouts.

    `columns` holds, for each criterion, its value for each rollout. The value is None if the
    criterion does not apply; then it adds 0 to the sum. A rollout is unscored if its reward is
    None, or, without `rewards`, if any of its values is None.
    """
    _check_columns(columns, rewards)
    if rewards is None:
        is_scored = [None not in values for values in zip(*columns.values(), strict=True)]
    else:
        is_scored = [reward is not None for reward in rewards]
    terms_by_rollout: list[list[float]] = [[] for _ in is_scored]
    for name, column in columns.items():
        weight = 1.0 if weights is None else weights[name]
        # Values of unscored rollouts must not change the mean of their group.
        scored_values = [
            value if scored else None for value, scored in zip(column, is_scored, strict=True)
        ]
        normalised = advantages(scored_values, "grpo", groups=groups, epsilon=epsilon)
        for terms, value in zip(terms_by_rollout, normalised, strict=True):
            terms.append(0.0 if value is None else weight * value)
    sums: list[float | None] = []
    for terms, scored in zip(terms_by_rollout, is_scored, strict=True):
        sums.append(math.fsum(terms) if scored else None)
    # If the criteria cancel each other out, the sums are only rounding errors. A smaller epsilon
    # would turn these into large advantages.
    return advantages(sums, "grpo", epsilon=max(epsilon, GDPO_MIN_EPSILON))


def _check_columns(columns: Mapping[str, Rewards], rewards: Rewards | None) -> None:
    """Raise ValueError if there are no columns, or if they differ in length."""
    if not columns:
        raise ValueError("there are no criteria to normalise: give a column of values for each")
    lengths = {name: len(column) for name, column in columns.items()}
    if rewards is not None:
        lengths["rewards"] = len(rewards)
    if len(set(lengths.values())) > 1:
        raise ValueError(
            f"the columns differ in length ({lengths}): give one value per rollout, or None"
        )
