"""A rubric is verl's `compute_score`: name this module as the custom reward function, the file in `reward_kwargs`."""
# verl looks at the function itself for async, and takes its columns from the first sample: all have the same keys.

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cache, partial
from importlib import import_module
from typing import Any, Final, TypeAlias, cast

from assay.aggregation import Policy, check_policy
from assay.concurrency import run_sync
from assay.errors import RubricError
from assay.graders.grader import JudgeSource
from assay.integrations.monitor import RewardMonitor
from assay.integrations.reward_functions import without_end
from assay.integrations.step import RubricSource, Scored, Step, Value, paid, parts_of

# What verl is told of a sample; a text is left out of its metrics, and kept in its rows.
Told: TypeAlias = dict[str, float | str]
QUESTIONS: Final = (
    "question",
    "prompt",
    "index",
    "uid",
)  # what tells the questions of a batch apart, in extra_info
# The keys that are ours beside `outcome`: what verl reads, 1 where a rollout has no score, and the hash of a rubric
# that changes.
OWN: Final = ("score", "unscored", "rubric_version")


async def compute_score(
    *sample: Any,
    rubric: str,
    judge: str | None = None,
    unscored: Policy = "raise",
    value: Value = "reward",
    **named: Any,
) -> Told:
    """Return the reward of one sample under `score`, and every criterion (0: no answer); `rubric` is a file's path.

    `judge` is the name of the model that answers the judged criteria.
    verl does not hand over the prompt: keep it in `extra_info` as `question` or `prompt` if a criterion needs it.
    """
    return await _from_file(rubric, judge=judge, unscored=unscored, value=value)(*sample, **named)


def compute_score_sync(*sample: Any, **options: Any) -> Told:
    """The same for verl's `remote` manager, whose worker processes call no async function."""
    return run_sync(compute_score(*sample, **options))


def compute_score_of(
    rubric: RubricSource,
    *,
    judge: JudgeSource | None = None,
    unscored: Policy = "raise",
    value: Value = "reward",
    monitor: RewardMonitor | None = None,
) -> Callable[..., Awaitable[Told]]:
    """Return a `compute_score` for this rubric. One sample is no group, so `unscored` is `raise` or `zero`."""
    step = _step(rubric, judge, unscored, value, monitor, "verl's compute_score")
    return partial(_compute_score, step)


_from_file = cache(compute_score_of)  # a file is read once


async def _compute_score(
    step: Step,
    data_source: str,
    solution_str: str,
    ground_truth: Any,
    extra_info: Mapping[str, Any] | None = None,
    **_: Any,
) -> Told:
    row = _row(data_source, solution_str, ground_truth, extra_info)
    return _told(step, await step.score([row]))[0]


def compute_scores_of(
    rubric: RubricSource,
    *,
    judge: JudgeSource | None = None,
    unscored: Policy = "raise",
    value: Value = "reward",
    monitor: RewardMonitor | None = None,
) -> Callable[..., list[Told]]:
    """The same for the `batch` manager of older versions, which calls once with lists; samples of one question are a group.

    What tells questions apart is the `question`, `prompt`, `index` or `uid` in `extra_info`.
    """
    check_policy(unscored, ("raise", "zero", "group_mean"), "verl's batch manager")
    return partial(_compute_scores, _step(rubric, judge, unscored, value, monitor))


def _compute_scores(
    step: Step,
    data_sources: Sequence[str],
    solution_strs: Sequence[str],
    ground_truths: Sequence[Any],
    extra_infos: Sequence[Mapping[str, Any] | None] | None = None,
    **_: Any,
) -> list[Told]:
    infos = [None] * len(solution_strs) if extra_infos is None else extra_infos
    rows = [
        _row(*sample)
        for sample in zip(data_sources, solution_strs, ground_truths, infos, strict=True)
    ]
    groups: list[str] = []
    for row in rows:
        question = next(
            (row[name] for name in QUESTIONS if row["info"].get(name) is not None), None
        )
        if question is None and (step.rubric.compares or step.unscored == "group_mean"):
            told = f"a sample's extra_info names none of {', '.join(QUESTIONS)}, so that its group cannot be told"
            raise RubricError(f"{told}: keep the question in it")
        groups.append(repr((row["task"], question)))
    return _told(step, run_sync(step.score(rows, groups)), groups)


def agent_loop(
    rubric: str,
    judge: str | None = None,
    unscored: Policy = "raise",
    value: Value = "reward",
    **given: Any,
) -> Any:
    """An agent loop of verl, as `_target_` of a file of agent loops; `rubric` is a file's path.

    `judge` is the name of the model that answers the judged criteria.
    """
    return _loop_from_file(rubric, judge=judge, unscored=unscored, value=value)(**given)


def agent_loop_of(
    rubric: RubricSource,
    *,
    judge: JudgeSource | None = None,
    unscored: Policy = "raise",
    value: Value = "reward",
    monitor: RewardMonitor | None = None,
) -> type[Any]:
    """Return verl's agent loop with tools as a class that scores the whole conversation; `unscored` is `raise` or `zero`.

    The reward is the sample's `reward_score`, so that no reward function is called; `turn_scores` are the rewards of its turns.
    """
    module: Any = import_module("verl.experimental.agent_loop.tool_agent_loop")
    step = _step(rubric, judge, unscored, value, monitor, "verl's agent loop")

    class RubricAgentLoop(module.ToolAgentLoop):
        async def _handle_pending_state(
            self, agent_data: Any, sampling_params: dict[str, Any]
        ) -> Any:
            self.rollout = (
                agent_data  # verl makes a loop for each rollout, and keeps the messages to itself
            )
            loop: Any = super()
            return await loop._handle_pending_state(agent_data, sampling_params)

        async def run(self, sampling_params: dict[str, Any], *given: Any, **row: Any) -> Any:
            loop: Any = super()
            output: Any = await loop.run(sampling_params, *given, **row)
            data, prompt = self.rollout, list(row["raw_prompt"])
            said: list[dict[str, Any]] = [dict(message) for message in data.messages[len(prompt) :]]
            if sum(message["role"] == "assistant" for message in said) < data.assistant_turns:
                # A turn after which verl stops, for its length or number, is not among the messages.
                known: Any = [tool.tool_schema for tool in data._active_tools.values()]
                content, data.tool_calls = await self.tool_parser.extract_tool_calls(
                    data.response_ids, known
                )
                said.append(self._build_assistant_message(content, data))
            for message in said:
                if (
                    message["role"] == "assistant"
                ):  # verl leaves the special tokens in what the model wrote
                    message["content"] = without_end(message["content"], self.tokenizer)
            spec: Mapping[str, Any] = row.get("reward_model") or {}
            asked = _row(
                row.get("data_source", ""),
                said,
                spec.get("ground_truth", ""),
                row.get("extra_info"),
            )
            found = await step.score([asked | {"prompt": prompt}])
            [told] = _told(step, found)
            output.reward_score = told["score"]
            output.extra_fields |= {
                "turn_scores": list(found[0].steps or ()),
                "reward_extra_info": told,
            }
            return output

    return RubricAgentLoop


_loop_from_file = cache(agent_loop_of)  # verl makes a loop for each rollout


def _step(
    rubric: RubricSource,
    judge: JudgeSource | None,
    unscored: Policy,
    value: Value,
    monitor: RewardMonitor | None,
    hands_over_one: str = "",
) -> Step:
    step = Step(
        rubric,
        value,
        hands_over_one=hands_over_one,
        monitor=monitor,
        unscored=unscored,
        judge=judge,
    )
    taken = [name for name in step.names if name in OWN]
    if taken:
        raise RubricError(
            f"a criterion is called {taken[0]!r}, which verl reads: call it otherwise"
        )
    return step


def _row(source: str, solution: Any, truth: Any, info: Mapping[str, Any] | None) -> dict[str, Any]:
    extra = dict(info or {})
    prompt = extra.get("question") or extra.get("prompt") or ""
    return {
        **extra,
        "prompt": prompt,
        "completion": solution,
        "answer": truth,
        "task": source,
        "info": extra,
    }


def _told(step: Step, found: Sequence[Scored], groups: Sequence[str] | None = None) -> list[Told]:
    rewards, parts = paid(found, step.unscored, groups), parts_of(found, step.unscored, groups)
    return [
        {
            "score": cast("float", reward),
            "unscored": float(one.reward is None),
            **cast("dict[str, float]", own),
            **({"rubric_version": one.version} if one.version else {}),
        }
        for one, reward, own in zip(found, rewards, parts, strict=True)
    ]
