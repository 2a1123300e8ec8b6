"""verifiers 0.4 (v1): a rubric as the `@vf.reward` of a task, or as a judge that a config plugs in.

A rollout whose scoring raises is dropped there and kept out of the baseline, so what is unscored raises.
"""

from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import Any, TypeAlias

from assay.aggregation import Fallback
from assay.integrations.step import RubricSource, Step, Value, rubric_of

Scoring: TypeAlias = Callable[[Any, Any], Awaitable[float]]


def as_verifiers_reward(rubric: RubricSource, *, value: Value = "reward") -> Scoring:
    """An async function of a task's data and its trace, to await inside a `@vf.reward` method.

    Every field of the task's data can be named by checks. The value of each criterion is recorded as
    a metric of the trace.
    """
    step = Step(rubric_of(rubric), value)
    fallback = Fallback("raise")

    async def reward(task: Any, trace: Any) -> float:
        row: dict[str, Any] = dict(task.model_dump())
        row |= {"prompt": task.prompt_text, "completion": trace.last_reply}
        row["answer"] = row.get("answer", "")
        [found] = await step.score([row])
        trace.record_metrics({name: p for name, p in found.parts.items() if p is not None})
        [paid] = fallback.fill([found.reward], errors=[found.error])
        assert paid is not None
        return paid

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
