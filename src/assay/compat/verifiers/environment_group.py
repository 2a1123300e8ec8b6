"""EnvGroup evaluates several environments as one."""

from collections.abc import Mapping, Sequence
from typing import Any

from assay.compat.verifiers.environments import Environment
from assay.compat.verifiers.numeric_rubrics import Rubric
from assay.envs.base_env import teardown
from assay.types import State


class EnvGroup(Environment):
    """Several environments as one. The `info["env_id"]` of an example names its environment.

    If that environment is a group, too, `env_id` is a list of names, which lead from the outermost
    group to the environment itself.
    """

    def __init__(
        self, envs: Sequence[Environment], env_names: Sequence[str] | None = None, **options: Any
    ) -> None:
        if not envs:
            raise ValueError("EnvGroup requires at least one environment")
        self.envs = list(envs)
        if env_names is None:
            self.env_names = [f"env_{index}" for index in range(len(envs))]
        else:
            self.env_names = list(env_names)
        if len(self.env_names) != len(self.envs):
            raise ValueError("Number of env_names must match number of envs")
        self.env_map = dict(zip(self.env_names, self.envs, strict=True))
        super().__init__(
            self._collect_examples("dataset") or None,
            eval_dataset=self._collect_examples("eval_dataset") or None,
            rubric=EnvGroupRubric(self.env_map),
            **options,
        )

    def _collect_examples(self, dataset_name: str) -> list[dict[str, Any]]:
        """Return the examples of all environments, with new numbers and the names of environments.

        `dataset_name` is `dataset` or `eval_dataset`.
        """
        rows: list[dict[str, Any]] = []
        for name, env in self.env_map.items():
            for example in env._read_examples(dataset_name) or ():
                # The examples of a group already have the names inside that group.
                info = _set_env_names(example["info"], [name, *_list_env_names(example)])
                rows.append({**example, "info": info, "task": name, "example_id": len(rows)})
        return rows

    def _set_option(self, name: str, value: Any) -> None:
        super()._set_option(name, value)
        for env in self.envs:
            env.set_kwargs(**{name: value})

    def get_env_for_name(self, name: str) -> Environment:
        """Return the environment with this name; raise if there is none."""
        return _find_env(self.env_map, {"info": {"env_id": name}})

    def get_env_for_task(self, task: str) -> Environment:
        """Return the environment with this name, or the first one if there is none."""
        return self.env_map.get(task, self.envs[0])

    async def rollout(
        self, input: Any, client: Any, model: Any, sampling_args: Any = None
    ) -> State:
        """Generate a rollout in the environment of the example.

        The environment gets the example as it was in its own data set, without the name that the
        group has added.
        """
        env = _find_env(self.env_map, input)
        names = _list_env_names(input)
        info = dict(input.get("info") or {})
        info.pop("env_id", None)
        if len(names) > 1:
            info = _set_env_names(info, names[1:])
        state = await env.roll_out({**input, "info": info}, client, model, sampling_args)
        if names:
            state["info"] = {**state["info"], "env_id": input["info"]["env_id"]}
        # A group inside this one has already set the innermost environment.
        state.setdefault("environment", env)
        return state

    async def after_scoring(self, states: Sequence[State]) -> None:
        """Let the environment of these rollouts tidy up."""
        for state in states:
            if "environment" in state:
                await state["environment"].after_scoring(states)
                return
        # No environment was found for the example, so that its rollouts have only an error.
        await super().after_scoring(states)

    @teardown
    async def _close_environments(self) -> None:
        for env in self.envs:
            await env.aclose()


def _list_env_names(row: Mapping[str, Any]) -> list[str]:
    """Return the names that lead to a row's environment, the outermost first."""
    info: Mapping[str, Any] = row.get("info") or {}
    env_id: Any = info.get("env_id") or []
    return [env_id] if isinstance(env_id, str) else list(env_id)


def _set_env_names(info: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Return the info of a row with these names as its `env_id`: a text if there is only one."""
    return {**info, "env_id": names[0] if len(names) == 1 else names}


def _find_env(env_map: Mapping[str, Environment], row: Mapping[str, Any]) -> Environment:
    """Return the environment that a row names in `info["env_id"]`, or in `task`, as before 0.1.12.

    A row without an `env_id` belongs to the only environment, if there is only one.
    """
    names = _list_env_names(row)
    name: str = names[0] if names else row.get("task", "")
    if name in env_map:
        return env_map[name]
    if names or len(env_map) > 1:
        raise ValueError(
            f"No environment found for info['env_id']={name!r}: use {', '.join(env_map)}"
        )
    [only_env] = env_map.values()
    return only_env


class EnvGroupRubric(Rubric):
    """Scores each rollout by the rubrics of its own environment."""

    def __init__(self, env_map: Mapping[str, Environment]) -> None:
        super().__init__()
        self.env_map = env_map
        names: set[str] = set()
        for env in env_map.values():
            names.update(env.rubric.get_reward_func_names())
        self.all_reward_names = sorted(names)

    async def score_group(self, states: Any, **options: Any) -> Any:
        # All rollouts of a group are about one example, so they have the same environment.
        rubric = self._find_rubric(states[0])
        return None if rubric is None else await rubric.score_group(states, **options)

    async def score_rollout(self, state: Any) -> Any:
        rubric = self._find_rubric(state)
        return None if rubric is None else await rubric.score_rollout(state)

    def _find_rubric(self, state: Mapping[str, Any]) -> Any:
        """Return the rubric for a rollout; None if its environment does not score."""
        env = state.get("environment") or _find_env(self.env_map, state)
        return env.scoring
