"""Use a rubric in verifiers 0.4 (v1): as a reward of tasks, or as a judge that a configuration names."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import Any

from assay.errors import RubricError
from assay.graders import Grader, JudgeSource, PerCriterionGrader
from assay.integrations.monitor import RewardMonitor
from assay.integrations.step import RubricSource, Step, Value
from assay.models import budget, model_of
from assay.models.budgets import Ledger
from assay.models.model import LoggedCall, log_calls

TRAINER = "verifiers"  # the name in messages


def as_verifiers_reward(
    rubric: RubricSource,
    *,
    judge: JudgeSource | None = None,
    value: Value = "reward",
    monitor: RewardMonitor | None = None,
) -> Callable[[Any, Any], Awaitable[float]]:
    """Return an async function of a task's data and its trace.

    Await it in a `@vf.reward` method, or name it as the `fn` of a table in `[env.taskset.task.rewards]`.
    Checks can name the fields of the task's data. What judges were asked, and what that has cost, is
    recorded in the trace. A rollout without a score raises, so that verifiers keeps it out of the
    baseline.
    """
    step = Step(rubric, value, single_rollout_trainer=TRAINER, monitor=monitor, judge=judge)
    return partial(_score_trace, step, "rubric")


def as_verifiers_judge(
    rubric: RubricSource,
    name: str = "rubric",
    *,
    judge: JudgeSource | None = None,
    value: Value = "reward",
) -> type[Any]:
    """Return a `vf.Judge` class for a rubric.

    A configuration names the class by its id, after an installed package has exported it. If the
    configuration has a `model`, that model answers the judged criteria, at the `base_url` of the
    configuration, with its key, headers and `sampling`. Without a `model`, `judge` does, or else the
    judge of the rubric. `name` is the key of the reward unless the configuration has one.
    """
    v1: Any = import_module("verifiers.v1")

    class RubricJudgeConfig(v1.JudgeConfig):
        model: str = ""  # empty means: the judge of the rubric

    class RubricJudge(v1.Judge[float, RubricJudgeConfig]):
        """Scores rollouts with a rubric of assay."""

        def __init__(self, config: Any = None) -> None:
            super().__init__(config)  # pyright: ignore[reportUnknownMemberType]
            configured = _make_grader(self.config)
            self._step = Step(
                rubric,
                value,
                single_rollout_trainer=TRAINER,
                judge=judge if configured is None else configured,
            )

        @property
        def reward_name(self) -> str:
            return self.config.name or name

        async def score(self, task: Any, trace: Any) -> float:
            return await _score_trace(self._step, self.reward_name, task, trace)

    return RubricJudge


def _make_grader(config: Any) -> Grader | None:
    """Return a grader that asks the model of a judge's configuration; None if it names no model."""
    if config.prompt is not None:
        raise RubricError(
            f"the judge has prompt {str(config.prompt)!r}, but a rubric writes its own prompts: "
            "leave prompt out, or use the judges of verifiers"
        )
    sampling = config.sampling.model_dump(exclude_none=True)
    if not config.model:
        if sampling:
            raise RubricError(
                f"the judge has sampling {sampling} without a model: "
                "name the model that is to be asked with it"
            )
        return None
    # A grader sends its own temperature with every call, and not that of the model.
    temperature = sampling.pop("temperature", 0.0)
    client: Any = import_module("verifiers.v1.configs.client")
    model = model_of(
        f"{config.base_url}#{config.model}",
        api_key=client.resolve_api_key(config),
        headers=client.resolve_headers(config),
        **sampling,
    )
    grader = PerCriterionGrader(model=model)
    return grader.with_options(lambda options: replace(options, temperature=temperature))


async def _score_trace(step: Step, name: str, task: Any, trace: Any) -> float:
    """Score a rollout; write metrics, the rewards of turns and the calls of judges into its trace."""
    row: dict[str, Any] = dict(task.model_dump())
    row |= {
        "prompt": task.prompt_text,
        "completion": _read_completion(trace),
        "answer": row.get("answer", ""),
    }
    with log_calls() as calls, budget() as ledger:
        [scored] = await step.score([row])
    _record_calls(trace, name, calls, ledger)
    trace.record_metrics(scored.answered)
    if scored.steps is not None:
        trace.info["assay"] = {"steps": scored.steps}
        for number, reward in enumerate(scored.steps, 1):
            if reward is not None:
                trace.record_metric(f"turn_{number}", reward)
    return step.get_single_reward(scored)


def _read_completion(trace: Any) -> Any:
    """Return the last reply as a text; after several turns, the messages of the last branch.

    A single reply with reasoning in a field is returned as its message, since `last_reply` has only
    the text.
    """
    nodes: Sequence[Any] = ()
    if trace.root_reply is None and trace.nodes:
        nodes = trace.branches[-1].nodes
    turns = [index for index, node in enumerate(nodes) if node.sampled]
    if len(turns) >= 2:
        return [node.message.model_dump(exclude_none=True) for node in nodes[turns[0] :]]
    if turns:
        message: Any = nodes[turns[0]].message
        if message.reasoning_content:
            return [message.model_dump(exclude_none=True)]
    return trace.last_reply


def _record_calls(trace: Any, name: str, calls: Sequence[LoggedCall], ledger: Ledger) -> None:
    """Record what judges were asked and replied, and the tokens and dollars of all calls together.

    Failed calls have no reply. They are in the error of the rollout if it cannot be scored.
    """
    v1: Any = import_module("verifiers.v1")
    for call in calls:
        if call.source != "error":
            trace.record_judge_call(
                name=name,
                request={"model": call.model, "messages": [dict(m) for m in call.messages]},
                response=v1.JudgeResponse(text=call.reply),
            )
    if ledger.calls:
        usage = ledger.usage
        cost = ledger.cost if ledger.unpriced == 0 else None
        trace.extra_usage.append(
            v1.Usage(
                prompt_tokens=usage.prompt - usage.cached,
                completion_tokens=usage.completion,
                cached_input_tokens=usage.cached,
                cost=cost,
            )
        )
