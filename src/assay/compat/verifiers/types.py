"""The shapes of `verifiers.types`."""

from typing import Any, TypeAlias, TypedDict

from assay.envs import Results as GenerateOutputs
from assay.types import GroupRewardFunc, IndividualRewardFunc, Info, Message, Messages, RewardFunc, State

SamplingArgs: TypeAlias = dict[str, Any]
RolloutOutput: TypeAlias = dict[str, Any]


class RolloutTiming(TypedDict, total=False):
    """Milliseconds by stage."""

    start_time: float
    generation_ms: float
    scoring_ms: float
    total_ms: float


class RolloutInput(TypedDict, total=False):
    """One dataset row."""

    prompt: Messages
    example_id: int
    task: str
    answer: str
    info: Info


class RolloutScore(TypedDict):
    """A reward and the metrics behind it."""

    reward: float
    metrics: dict[str, Any]


class RolloutScores(TypedDict):
    """Rewards and metrics by column."""

    reward: list[float]
    metrics: dict[str, list[Any]]


__all__ = [
    "GenerateOutputs",
    "GroupRewardFunc",
    "IndividualRewardFunc",
    "Info",
    "Message",
    "Messages",
    "RewardFunc",
    "RolloutInput",
    "RolloutOutput",
    "RolloutScore",
    "RolloutScores",
    "RolloutTiming",
    "SamplingArgs",
    "State",
]
