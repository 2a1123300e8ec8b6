"""A rubric is the reward of an environment of SkyRL, and of a task or a judge of verifiers 0.4 (v1)."""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from importlib import import_module
from typing import Any, TypeAlias, cast

from assay.aggregation import Fallback, Policy, fallback_of
from assay.concurrency import run_sync
from assay.integrations.monitor import RewardMonitor
from assay.integrations.step import RubricSource, Step, Value, paid

Scoring: TypeAlias = Callable[[Any, Any], Awaitable[float]]


def as_skyrl_env(
    rubric: RubricSource, *, unscored: Policy = "raise", value: Value = "reward", monitor: RewardMonitor | None = None
) -> type[Any]:
    """Return an environment class for skyrl_gym: one answer, scored by the rubric; `unscored` is `raise` or `zero`.

    The row's `reward_spec` gives the `ground_truth` as `answer`; its other columns can be named by checks.
    """
    base: Any = import_module("skyrl_gym.envs.base_text_env")
    scoring = Step(rubric, value, hands_over_one="SkyRL", monitor=monitor)
    fallback = fallback_of(unscored, ("raise", "zero"), "SkyRL")

    class RubricEnv(base.BaseTextEnv):
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
            spec = cast("object", self.extras.get("reward_spec") or self.extras.get("reward_model"))
            truth: Any = self.extras.get("answer", "")
            if isinstance(spec, Mapping):
                truth = cast("Mapping[str, Any]", spec).get("ground_truth", truth)
            row = {**self.extras, "prompt": self.question, "completion": action, "answer": truth}
            found = run_sync(scoring.score([row]))
            [reward] = paid(found, fallback)
            self.metrics = found[0].answered | {"unscored": float(found[0].reward is None)}
            return {"observations": [], "reward": reward, "done": True, "metadata": dict(self.metrics)}

        def get_metrics(self) -> dict[str, float]:
            return self.metrics

    return RubricEnv


def as_verifiers_reward(
    rubric: RubricSource, *, value: Value = "reward", monitor: RewardMonitor | None = None
) -> Scoring:
    """Return an async function of a task's data and its trace, to await inside a `@vf.reward` method.

    Checks can name the fields of the task's data. What is unscored raises: verifiers then keeps it out of the baseline.
    """
    return partial(_verifiers_reward, Step(rubric, value, hands_over_one="verifiers", monitor=monitor))


async def _verifiers_reward(step: Step, task: Any, trace: Any) -> float:
    row: dict[str, Any] = dict(task.model_dump())
    row |= {"prompt": task.prompt_text, "completion": trace.last_reply, "answer": row.get("answer", "")}
    found = await step.score([row])
    trace.record_metrics(found[0].answered)
    [reward] = paid(found, Fallback("raise"))
    assert reward is not None
    return reward


def as_verifiers_judge(rubric: RubricSource, name: str = "rubric", *, value: Value = "reward") -> type[Any]:
    """A `vf.Judge` class around the rubric; export it from a package of your own to plug it by its id."""
    v1: Any = import_module("verifiers.v1")
    scoring = as_verifiers_reward(rubric, value=value)

    class RubricJudge(v1.Judge):
        """Scores with a rubric of assay, and asks no model of its own."""

        @property
        def reward_name(self) -> str:
            return self.config.name or name

        async def score(self, task: Any, trace: Any) -> float:
            return await scoring(task, trace)

    return RubricJudge
