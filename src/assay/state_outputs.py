"""Write the results of scoring into states. No other module does."""

from collections.abc import Mapping, MutableMapping
from typing import Any, cast

from assay.report import EvaluationReport


def write_outputs(
    state: MutableMapping[str, Any],
    report: EvaluationReport,
    reward: float | None,
    metrics: Mapping[str, float],
) -> None:
    """Write a report's numbers into a state, in place of those of an earlier scoring.

    `reward` and `metrics` are those of the report, except for rubrics of
    `assay.compat.verifiers`, which write a number even if the report has no reward. If `reward`
    is None, `partial_reward` holds the sum of what was answered.
    """
    state["reward"] = reward
    state["metrics"] = dict(metrics)
    errors = report.errors
    if report.raw_score is None and not errors:
        errors = report.why_unscored
    if errors or "errors" in state:  # those of an earlier scoring are replaced
        state["errors"] = dict(errors)
    if reward is None:
        state["partial_reward"] = report.partial_reward
    elif "partial_reward" in state:
        del state["partial_reward"]


def write_timing(state: MutableMapping[str, Any], elapsed_ms: float) -> None:
    """Write how long scoring took; this replaces the time of an earlier scoring."""
    timing: object = state.get("timing")
    if timing is None:
        state["timing"] = {"scoring_ms": elapsed_ms, "total_ms": elapsed_ms}
    elif type(timing) is dict or isinstance(timing, MutableMapping):
        timing = cast("MutableMapping[str, Any]", timing)
        earlier_ms = timing.get("scoring_ms") or 0.0
        total_ms = timing.get("total_ms") or 0.0
        timing["scoring_ms"] = elapsed_ms
        timing["total_ms"] = total_ms - earlier_ms + elapsed_ms


def write_step_rewards(
    state: Mapping[str, Any],
    reward: float | None,
    advantage: float | None,
    step_rewards: Mapping[str, float | None] | None,
) -> None:
    """Write rewards and the advantage into the steps of a state's trajectory.

    A step gets its own reward if there is one per step, otherwise the reward of the rollout
    unless it has one already.
    """
    trajectory: Any = state.get("trajectory")
    if not isinstance(trajectory, list) or not trajectory:
        return
    steps = cast("list[Any]", trajectory)
    rewards: list[float | None] | None = None
    if step_rewards is not None and len(step_rewards) == len(steps):
        rewards = list(step_rewards.values())
    for index, item in enumerate(steps):
        if not isinstance(item, MutableMapping):
            continue
        step = cast("MutableMapping[str, Any]", item)
        if rewards is not None:
            step["reward"] = rewards[index]
        elif step.get("reward") is None:
            step["reward"] = reward
        if advantage is not None and step.get("advantage") is None:
            step["advantage"] = advantage
