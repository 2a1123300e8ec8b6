"""SkyRL: a rubric as the reward of a single-turn `BaseTextEnv`."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, cast

from assay.aggregation import Policy, fallback_of
from assay.concurrency import run_sync
from assay.integrations.step import RubricSource, Step, Value, rubric_of


def as_skyrl_env(rubric: RubricSource, *, unscored: Policy = "raise", value: Value = "reward") -> type[Any]:
    """An environment class to register with skyrl_gym: one answer, scored by the rubric.

    The row's `reward_spec` gives the `ground_truth` as `answer`; its other columns can be named by
    checks. SkyRL wants a float for every rollout, so `unscored` is `raise` or `zero`.
    """
    base: Any = import_module("skyrl_gym.envs.base_text_env")
    step = Step(rubric_of(rubric), value)
    fallback = fallback_of(unscored, ("raise", "zero"), "SkyRL")

    class RubricEnv(base.BaseTextEnv):
        """One question, one answer, one reward."""

        def __init__(self, env_config: Any = None, extras: Mapping[str, Any] | None = None) -> None:
            super().__init__()  # pyright: ignore[reportUnknownMemberType]
            self.extras = dict(extras or {})
            self.question: Any = ""
            self.metrics: dict[str, float] = {}

        def init(self, prompt: Any) -> tuple[Any, dict[str, Any]]:
            self.question = prompt
            return prompt, {}

        def step(self, action: str) -> dict[str, Any]:
            self.turns: int = self.turns + 1
            row = {**self.extras, "prompt": self.question, "completion": action}
            [found] = run_sync(step.score([row | {"answer": _truth(self.extras)}]))
            [reward] = fallback.fill([found.reward], errors=[found.error])
            self.metrics = {name: part for name, part in found.parts.items() if part is not None}
            self.metrics["unscored"] = float(found.reward is None)
            return {"observations": [], "reward": reward, "done": True, "metadata": dict(self.metrics)}

        def get_metrics(self) -> dict[str, float]:
            return self.metrics

    return RubricEnv


def _truth(extras: Mapping[str, Any]) -> Any:
    spec = cast("object", extras.get("reward_spec") or extras.get("reward_model"))
    if isinstance(spec, Mapping) and "ground_truth" in spec:
        return cast("Mapping[str, Any]", spec)["ground_truth"]
    return extras.get("answer", "")
