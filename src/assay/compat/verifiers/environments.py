"""Environments of ours are made and asked with the keywords of those in `verifiers`."""

from collections.abc import Callable
from typing import Any

from assay import envs
from assay.compat.verifiers.numeric_rubrics import warn_unscored
from assay.envs.base_env import Given

OURS = frozenset({"dataset", "max_turns", "tools", "stop_errors", *Given.__annotations__})
UNNEEDED = frozenset({"message_type", "max_workers", "map_kwargs", "max_seq_len", "interleaved_rollouts"})
"""What theirs takes, and ours has no use for."""
UNNEEDED_IN_A_CALL = frozenset({"save_results", "independent_scoring", "max_retries", "on_start", "on_log"})


class Environment(envs.Environment):
    """Takes every keyword that theirs does; what neither knows becomes an attribute, as there."""

    def __init__(self, dataset: Any = None, **given: Any) -> None:
        if given.get("message_type", "chat") != "chat":
            raise ValueError(
                f"message_type is {given['message_type']!r}: only 'chat' is there; a `prompt` that is a "
                "plain text is answered in plain text"
            )
        ours = {name: value for name, value in given.items() if name in OURS}
        super().__init__(dataset, **ours)
        for name, value in given.items():
            if name not in OURS and name not in UNNEEDED:
                setattr(self, name, value)

    def evaluate(self, client: Any = None, model: Any = None, **options: Any) -> envs.Evaluation:
        """As ours. A `results_path` is the folder of a run, which is gone on with if it is there."""
        return super().evaluate(client, model, **_translated(options))

    def generate(self, inputs: Any = None, client: Any = None, model: Any = None, **options: Any) -> envs.Evaluation:
        return super().generate(inputs, client, model, **_translated(options))

    async def _carry_out(self, examples: Any, data: Any, client: Any, model: Any, options: Any) -> envs.Results:
        """As ours, but every reward is a number; what is unscored has its errors beside it."""
        results = await super()._carry_out(examples, data, client, model, options)
        unscored = [output for output in results.outputs if output["reward"] is None]
        for output in unscored:
            output["reward"] = output.pop("partial_reward", 0.0)
        for state in results.states:
            if state.get("reward") is None:
                state["reward"] = state.pop("partial_reward", 0.0)
        if unscored:
            warn_unscored(len(unscored), len(results.outputs))
        return results


def _translated(options: dict[str, Any]) -> dict[str, Any]:
    """The options of a call in our words: retries and groups are seen to without being asked for."""
    for name in ("push_to_hf_hub", "hf_hub_dataset_name"):
        if options.pop(name, None):
            raise ValueError(f"{name} is not there: push results.to_dataset() yourself")
    given = {name: v for name, v in options.items() if name not in UNNEEDED_IN_A_CALL}
    path = given.pop("results_path", None)
    if path is not None:
        given |= {"run": path, "resume": True}
    if given.get("state_columns") is None:
        given.pop("state_columns", None)
    return given


class MultiTurnEnv(Environment, envs.MultiTurnEnv):
    """Ours, with their keywords."""


class SingleTurnEnv(MultiTurnEnv, envs.SingleTurnEnv):
    """Ours, with their keywords."""


class ToolEnv(MultiTurnEnv, envs.ToolEnv):
    error_formatter: Callable[[Exception], str] | None = None

    def said_of(self, error: Exception) -> str:
        """What a model is told when a tool raises: in the words of `error_formatter` if there is one."""
        given: Any = self.error_formatter
        return super().said_of(error) if given is None else given(error)
