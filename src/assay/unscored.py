"""Unscored: what a trainer that takes nothing but numbers gets for a rollout that has none.

A failed judge is not a bad answer, so there is no right number. Which wrong one does the least harm is
the user's word, and how often it was needed is counted.
"""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias, get_args

from assay.errors import AssayError, RubricError

Policy: TypeAlias = Literal["raise", "zero", "group_mean", "drop"]
"""`raise` stops; `zero` pays 0; `group_mean` pays what the group's scored rollouts got on average, so
that its advantage is 0; `drop` leaves the rollout out, where the trainer can."""

POLICIES: Final[tuple[Policy, ...]] = get_args(Policy)


class UnscoredError(AssayError):
    """A rollout has no score, and nobody said what to pay for it."""


@dataclass
class Fallback:
    """A policy, and how often it was needed.

    >>> fallback = Fallback("group_mean")
    >>> fallback.fill([1.0, None, 0.0, 0.5], ["a", "a", "b", "b"])
    [1.0, 1.0, 0.0, 0.5]
    >>> fallback.rollouts, fallback.unscored
    (4, 1)
    """

    policy: Policy = "raise"
    rollouts: int = field(default=0, init=False)
    """How many rollouts it has seen."""
    unscored: int = field(default=0, init=False)
    """How many of them had no score."""

    def __post_init__(self) -> None:
        if self.policy not in POLICIES:
            raise RubricError(
                f"unscored is {self.policy!r}: give one of {', '.join(map(repr, POLICIES))}"
            )

    @property
    def share(self) -> float:
        """The unscored share of what it has seen."""
        return self.unscored / self.rollouts if self.rollouts else 0.0

    def fill(
        self,
        rewards: Sequence[float | None],
        groups: Sequence[Hashable] | None = None,
        errors: Sequence[str] | None = None,
    ) -> list[float | None]:
        """The rewards with the gaps filled; with `drop`, still None, for the caller to leave out.

        `groups` says which rollouts answer the same prompt; without it all do. `errors` is why a
        rollout has no score, for the message of `raise`.
        """
        missing = [place for place, reward in enumerate(rewards) if reward is None]
        self.rollouts += len(rewards)
        self.unscored += len(missing)
        if not missing or self.policy == "drop":
            return list(rewards)
        if self.policy == "raise":
            raise UnscoredError(_why(missing, len(rewards), errors))
        if self.policy == "zero":
            return [0.0 if reward is None else reward for reward in rewards]
        means = _means(rewards, groups or [None] * len(rewards))
        return [
            means[group] if reward is None else reward
            for reward, group in zip(rewards, groups or [None] * len(rewards), strict=True)
        ]


def fallback_of(policy: Policy, able: Sequence[Policy], where: str) -> Fallback:
    """The fallback for a trainer that can do only some of them; says which when asked for another."""
    fallback = Fallback(policy)
    if policy not in able:
        raise RubricError(
            f"{where} cannot do unscored={policy!r}: give {' or '.join(map(repr, able))}"
        )
    return fallback


def _means(rewards: Sequence[float | None], groups: Sequence[Hashable]) -> dict[Hashable, float]:
    """The mean of each group's scored rollouts; a group without any cannot be filled."""
    scored: dict[Hashable, list[float]] = {}
    for reward, group in zip(rewards, groups, strict=True):
        members = scored.setdefault(group, [])
        if reward is not None:
            members.append(reward)
    if not all(scored.values()):
        raise UnscoredError(
            "no rollout of a group has a score, so there is no group mean to pay: look at the "
            "errors, or give unscored='zero'"
        )
    return {group: math.fsum(members) / len(members) for group, members in scored.items()}


def _why(missing: Sequence[int], count: int, errors: Sequence[str] | None) -> str:
    said = f" ({errors[missing[0]]})" if errors and errors[missing[0]] else ""
    return (
        f"{len(missing)} of {count} rollouts have no score{said}: give unscored='zero' or "
        "'group_mean' to train on, or mend what failed"
    )
