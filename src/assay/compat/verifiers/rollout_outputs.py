"""The outputs of rollouts in the form of `verifiers`: as results, in files, and for progress callbacks."""

import json
from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from pathlib import Path
from typing import Any, cast

from assay import compat, envs
from assay.compat.verifiers import example_data
from assay.compat.verifiers.numeric_rubrics import fill_with_zeros
from assay.compat.verifiers.typed_messages import sanitize_tool_calls
from assay.graders.verdicts import to_finite_float
from assay.report import NOTHING_APPLIES
from assay.runs.jsonable import to_jsonable
from assay.types import State

# The fields of a state that every output has.
_OUTPUT_FIELDS = (
    "example_id",
    "prompt",
    "completion",
    "answer",
    "info",
    "error",
    "timing",
    "is_truncated",
    "stop_condition",
)


def state_to_output(state: State, state_columns: Sequence[str] | None = None) -> dict[str, Any]:
    """Return what verifiers saves of a rollout, with further fields of its state."""
    names = (*_OUTPUT_FIELDS, *(state_columns or ()))
    output = {name: state.get(name) for name in names}
    set_numeric_reward(output, state)
    output = {**state["metrics"], **output}
    usage: dict[str, float] = state.get("usage") or {}
    if any(usage.values()):
        output["token_usage"] = dict(usage)
    return output


def set_numeric_reward(output: dict[str, Any], state: State) -> None:
    """Write a number as the reward of an output and its state, and the other fields of verifiers.

    The reward of an unscored rollout is what its answered criteria sum to.
    """
    # The state comes first, since a hook may have changed it after scoring. What it wrote there is
    # ignored if it is not a number, or for metrics not a mapping.
    if to_finite_float(state.get("reward")) is None:
        reward = output.get("reward")
    else:
        reward = state["reward"]
    if reward is None:
        partial_reward = output.pop("partial_reward", 0.0)
        reward = state.pop("partial_reward", partial_reward)

    metrics: Any = state.get("metrics") or {}
    if not isinstance(metrics, Mapping):
        metrics = output.get("metrics", {})
    metrics = cast("dict[str, float]", metrics)
    if not compat.strict:
        errors: dict[str, str] = state.get("errors") or {}
        failed = [name for name, reason in errors.items() if reason != NOTHING_APPLIES]
        metrics = fill_with_zeros(metrics, failed)
        output.update(metrics)

    output.update(
        reward=reward,
        metrics=metrics,
        is_completed=True,
        tool_defs=state.get("tool_defs"),
    )
    state.update(reward=reward, metrics=metrics)
    error = state.get("error")
    if isinstance(error, BaseException):
        output["error"] = example_data.error_info(error)


def save_results(folder: Path, results: envs.Results) -> None:
    """Write `results.jsonl` and `metadata.json` to a folder, in the form of verifiers."""
    lines: list[str] = []
    for output in results.outputs:
        chats = {name: sanitize_tool_calls(output[name]) for name in ("prompt", "completion")}
        line = json.dumps(to_jsonable(output | chats))
        lines.append(f"{line}\n")
    (folder / "results.jsonl").write_text("".join(lines), encoding="utf-8")
    metadata = json.dumps(to_jsonable(results.metadata))
    (folder / "metadata.json").write_text(metadata, encoding="utf-8")


def is_verifiers_progress(on_progress: Any) -> bool:
    """Return whether `on_progress` is of verifiers: a list, or a function of several arguments.

    A function of assay has a single argument, a `Progress`.
    """
    if on_progress is None:
        return False
    return isinstance(on_progress, list) or len(signature(on_progress).parameters) > 1


class ProgressReporter:
    """Calls `on_progress` of verifiers, one function or a list, after each group of rollouts.

    A function gets all outputs until then, those of the group, and the metadata.
    """

    def __init__(
        self,
        on_progress: Callable[..., Any] | list[Callable[..., Any]],
        state_columns: Sequence[str] | None,
        metadata: dict[str, Any],
    ) -> None:
        if isinstance(on_progress, list):
            self._callbacks = cast("list[Callable[..., Any]]", on_progress)
        else:
            self._callbacks = [on_progress]
        self._state_columns = state_columns
        self._outputs: list[dict[str, Any]] = []
        self._metadata = {**metadata, "avg_reward": 0.0}

    def report(self, states: Sequence[State]) -> None:
        """Call the callbacks with the outputs of a group, whose states are given."""
        new_outputs = [state_to_output(state, self._state_columns) for state in states]
        self._outputs += new_outputs
        mean = self._metadata["avg_reward"]
        change = sum(output["reward"] - mean for output in new_outputs) / len(self._outputs)
        self._metadata["avg_reward"] = mean + change
        for callback in self._callbacks:
            callback(self._outputs, new_outputs, self._metadata)
