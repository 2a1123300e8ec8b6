"""Rewards of a group to advantages."""

import math
from collections.abc import Sequence
from typing import Literal


def advantages(
    rewards: Sequence[float | None], *, normalize: Literal["std"] | None = None
) -> list[float | None]:
    """Each reward less the mean of the group; None stays None and counts for nothing.

    With `normalize="std"`, in units of the group's standard deviation (of the population).

    >>> advantages([1.0, 0.0, None])
    [0.5, -0.5, None]
    """
    if normalize not in (None, "std"):
        raise ValueError(f"normalize is {normalize!r}: give 'std' or None")
    scored = [reward for reward in rewards if reward is not None]
    if not scored or min(scored) == max(scored):
        # Equal rewards are exactly 0 apart; a mean in floating point might say otherwise.
        return [None if reward is None else 0.0 for reward in rewards]
    mean = math.fsum(scored) / len(scored)
    if not math.isfinite(mean):
        raise ValueError("a reward is NaN or infinite: leave it out as None")
    unit = 1.0
    if normalize == "std":
        # Neither squares that overflow nor squares that vanish.
        unit = math.hypot(*(reward - mean for reward in scored)) / math.sqrt(len(scored))
    if len(scored) == len(rewards) and unit == 1.0:
        return [reward - mean for reward in scored]
    return [None if reward is None else (reward - mean) / unit for reward in rewards]
