"""A rubric is the reward of an environment of SkyRL, and of a task or a judge of verifiers 0.4 (v1)."""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from importlib import import_module
from typing import Any, Literal, TypeAlias, cast, get_args

from assay.aggregation import Fallback, Policy, fallback_of
from assay.concurrency import run_sync
from assay.errors import RubricError
from assay.integrations.agents import Dialogue, Respond
from assay.integrations.monitor import RewardMonitor
from assay.integrations.step import RubricSource, Step, Value, paid

Scoring: TypeAlias = Callable[[Any, Any], Awaitable[float]]
Pays: TypeAlias = Literal["change", "whole", "last"]


def as_skyrl_env(
    rubric: RubricSource, *, respond: Respond | None = None, pays: Pays = "change", unscored: Policy = "raise",
    value: Value = "reward", monitor: RewardMonitor | None = None,
) -> type[Any]:  # fmt: skip
    """Return an environment class for skyrl_gym, scored by the rubric; `unscored` is `raise` or `zero`.

    The row's `reward_spec` gives the `ground_truth` as `answer`; its other columns can be named by checks. Without `respond` it
    is one answer. With it, `respond(messages, row)` replies to every turn until it returns nothing or `max_turns` are over,
    and each turn is paid by `pays`: `change` adds up to the reward of the rollout, wherever that ends; `whole` is for
    `step_wise_trajectories`, where SkyRL reads the last turn alone; `last` scores once.
    """
    base: Any = import_module("skyrl_gym.envs.base_text_env")
    scoring = Step(rubric, value, hands_over_one="SkyRL")
    fallback = fallback_of(unscored, ("raise", "zero"), "SkyRL")
    if pays not in get_args(Pays):
        raise RubricError(f"pays is {pays!r}: give 'change', 'whole' or 'last'")

    class RubricEnv(base.BaseTextEnv):
        def __init__(self, env_config: Any = None, extras: Mapping[str, Any] | None = None) -> None:
            super().__init__()  # pyright: ignore[reportUnknownMemberType]
            self.extras = dict(extras or {})
            self.metrics: dict[str, float] = {}
            self.paid, self.unscored_turns = 0.0, 0
            self.init("")

        def init(self, prompt: Any) -> tuple[Any, dict[str, Any]]:
            spec = cast("object", self.extras.get("reward_spec") or self.extras.get("reward_model"))
            truth: Any = self.extras.get("answer", "")
            if isinstance(spec, Mapping):
                truth = cast("Mapping[str, Any]", spec).get("ground_truth", truth)
            row = {**self.extras, "answer": truth}
            self.dialogue = Dialogue(prompt, row, respond, int(self.extras.get("max_turns") or 0))
            return prompt, {}

        def step(self, action: str) -> dict[str, Any]:
            replies = run_sync(self.dialogue.add(action))
            self.turns, done, reward = self.dialogue.turns, self.dialogue.is_over, 0.0
            self.metrics, steps = {"unscored": 1.0}, None
            if done or pays != "last":
                found = run_sync(self.dialogue.score(scoring, monitor if done else None))
                steps, is_unscored = found.steps, found.reward is None
                reward = cast("float", paid([found], fallback)[0])
                if respond is not None and pays == "change":
                    # A turn that could not be scored changes nothing: the next one that can be is paid for both.
                    reward = 0.0 if is_unscored and not done else reward - self.paid
                    self.paid += reward
                self.unscored_turns += is_unscored
                self.metrics = found.answered | {"unscored": float(is_unscored)}
            if respond is not None:
                self.metrics |= {"turns": float(self.turns), "unscored_turns": float(self.unscored_turns)}
            told = {**self.metrics, "steps": steps}
            return {"observations": replies, "reward": reward, "done": done, "metadata": told}

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
    row |= {"prompt": task.prompt_text, "completion": _said(trace), "answer": row.get("answer", "")}
    found = await step.score([row])
    trace.record_metrics(found[0].answered)
    if (steps := found[0].steps) is not None:
        trace.info["assay"] = {"steps": steps}
        trace.record_metrics({f"turn_{n}": reward for n, reward in enumerate(steps, 1) if reward is not None})
    [reward] = paid(found, Fallback("raise"))
    assert reward is not None
    return reward


def _said(trace: Any) -> Any:
    """The last reply as a text; the messages of the last branch where the model took several turns in it."""
    nodes: list[Any] = trace.branches[-1].nodes if trace.root_reply is None and trace.nodes else []
    turns = [place for place, node in enumerate(nodes) if node.sampled]
    is_text = len(turns) < 2
    return trace.last_reply if is_text else [n.message.model_dump(exclude_none=True) for n in nodes[turns[0] :]]


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
