"""Reward functions and an agent loop for verl.

To use a rubric file, name this module as verl's custom reward function, and the file in `reward_kwargs`.
"""
# verl checks whether the function itself is async, and takes the columns from the first sample, so all
# samples have the same keys.

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cache, partial
from importlib import import_module
from typing import Any, Final, TypeAlias, cast

from assay.aggregation import Policy, check_policy
from assay.concurrency import run_sync
from assay.errors import RubricError
from assay.graders.grader import JudgeSource
from assay.integrations.monitor import RewardMonitor
from assay.integrations.reward_functions import remove_end_tokens
from assay.integrations.step import (
    RubricSource,
    Scored,
    Step,
    Value,
    fill_parts,
    fill_rewards,
)

# The result of a sample for verl. It leaves texts out of its metrics, and keeps them in its rows.
SampleResult: TypeAlias = dict[str, float | str]
# The keys of extra_info that identify the question of a sample.
QUESTION_KEYS: Final = ("question", "prompt", "index", "uid")
# The keys of a result beside the parts: the reward, 1 if there is no score, and the hash of a
# rubric that may change.
RESERVED_KEYS: Final = ("score", "unscored", "rubric_version")


async def compute_score(
    *sample: Any,
    rubric: str,
    judge: str | None = None,
    unscored: Policy = "raise",
    value: Value = "reward",
    **named: Any,
) -> SampleResult:
    """Return the reward of one sample as `score`, and the value of every criterion (0 for no answer).

    `rubric` is the path of a file, and `judge` the name of the model that answers the judged
    criteria. verl does not pass the prompt: keep it in `extra_info` as `question` or `prompt` if a
    criterion needs it.
    """
    return await _from_file(rubric, judge=judge, unscored=unscored, value=value)(*sample, **named)


def compute_score_sync(*sample: Any, **options: Any) -> SampleResult:
    """Return the same for verl's `remote` manager, whose workers cannot call async functions."""
    return run_sync(compute_score(*sample, **options))


def compute_score_of(
    rubric: RubricSource,
    *,
    judge: JudgeSource | None = None,
    unscored: Policy = "raise",
    value: Value = "reward",
    monitor: RewardMonitor | None = None,
) -> Callable[..., Awaitable[SampleResult]]:
    """Return a `compute_score` for this rubric. There are no groups, so `unscored` is `raise` or `zero`."""
    step = _make_step(rubric, judge, unscored, value, monitor, "verl's compute_score")
    return partial(_compute_score, step)


_from_file = cache(compute_score_of)  # a file is read once


async def _compute_score(
    step: Step,
    data_source: str,
    solution_str: str,
    ground_truth: Any,
    extra_info: Mapping[str, Any] | None = None,
    **_: Any,
) -> SampleResult:
    """Return the result of one sample. The names of the parameters are those of verl."""
    row = _make_row(data_source, solution_str, ground_truth, extra_info)
    [result] = _make_results(step, await step.score([row]))
    return result


def compute_scores_of(
    rubric: RubricSource,
    *,
    judge: JudgeSource | None = None,
    unscored: Policy = "raise",
    value: Value = "reward",
    monitor: RewardMonitor | None = None,
) -> Callable[..., list[SampleResult]]:
    """Return a function for the `batch` manager of older versions of verl, which calls it with lists.

    The samples of one question are a group. The `question`, `prompt`, `index` or `uid` in
    `extra_info` identifies the question.
    """
    check_policy(unscored, ("raise", "zero", "group_mean"), "verl's batch manager")
    return partial(_compute_scores, _make_step(rubric, judge, unscored, value, monitor))


def _compute_scores(
    step: Step,
    data_sources: Sequence[str],
    solution_strs: Sequence[str],
    ground_truths: Sequence[Any],
    extra_infos: Sequence[Mapping[str, Any] | None] | None = None,
    **_: Any,
) -> list[SampleResult]:
    """Return the results of a batch. The names of the parameters are those of verl."""
    infos = [None] * len(solution_strs) if extra_infos is None else extra_infos
    samples = zip(data_sources, solution_strs, ground_truths, infos, strict=True)
    rows = [_make_row(*sample) for sample in samples]
    needs_groups = step.rubric.compares or step.unscored == "group_mean"
    groups: list[str] = []
    for row in rows:
        question = _find_question(row["info"])
        if question is None and needs_groups:
            raise RubricError(
                f"a sample's extra_info has none of {', '.join(QUESTION_KEYS)}, so its group is "
                "not known: keep the question in it"
            )
        groups.append(repr((row["task"], question)))
    return _make_results(step, run_sync(step.score(rows, groups)), groups)


def _find_question(info: Mapping[str, Any]) -> Any:
    """Return what identifies the question of a sample; None if nothing does."""
    for key in QUESTION_KEYS:
        if info.get(key) is not None:
            return info[key]
    return None


def agent_loop(
    rubric: str,
    judge: str | None = None,
    unscored: Policy = "raise",
    value: Value = "reward",
    **options: Any,
) -> Any:
    """Return an agent loop of verl; name this function as `_target_` in a file of agent loops.

    `rubric` is the path of a file, and `judge` the name of the model that answers the judged criteria.
    """
    loop_class = _loop_from_file(rubric, judge=judge, unscored=unscored, value=value)
    return loop_class(**options)


def agent_loop_of(
    rubric: RubricSource,
    *,
    judge: JudgeSource | None = None,
    unscored: Policy = "raise",
    value: Value = "reward",
    monitor: RewardMonitor | None = None,
) -> type[Any]:
    """Return verl's agent loop with tools as a class that scores the whole conversation.

    `unscored` is `raise` or `zero`. The reward is the sample's `reward_score`, so verl calls no
    reward function; `turn_scores` are the rewards of its turns.
    """
    module: Any = import_module("verl.experimental.agent_loop.tool_agent_loop")
    step = _make_step(rubric, judge, unscored, value, monitor, "verl's agent loop")

    class RubricAgentLoop(module.ToolAgentLoop):
        async def _handle_pending_state(
            self, agent_data: Any, sampling_params: dict[str, Any]
        ) -> Any:
            # verl makes a loop for each rollout, but does not return its messages.
            self.agent_data = agent_data
            loop: Any = super()
            return await loop._handle_pending_state(agent_data, sampling_params)

        async def run(self, sampling_params: dict[str, Any], *arguments: Any, **row: Any) -> Any:
            """Run verl's own loop, and add the reward to its output.

            verl passes the columns of the dataset as keywords, and reads these fields of the output.
            """
            loop: Any = super()
            output: Any = await loop.run(sampling_params, *arguments, **row)
            prompt = list(row["raw_prompt"])
            reward_model: Mapping[str, Any] = row.get("reward_model") or {}
            rollout = _make_row(
                row.get("data_source", ""),
                await self._read_completion(prompt),
                reward_model.get("ground_truth", ""),
                row.get("extra_info"),
            )
            rollout["prompt"] = prompt
            [scored] = await step.score([rollout])
            [result] = _make_results(step, [scored])
            output.reward_score = result["score"]
            output.extra_fields["turn_scores"] = list(scored.steps or ())
            output.extra_fields["reward_extra_info"] = result
            return output

        async def _read_completion(self, prompt: list[Any]) -> list[dict[str, Any]]:
            """Return the messages after the prompt, without special tokens."""
            data = self.agent_data
            messages = [dict(message) for message in data.messages[len(prompt) :]]
            turns = sum(message["role"] == "assistant" for message in messages)
            if turns < data.assistant_turns:
                # The last turn is missing if verl stopped there, because of its length or number.
                schemas: Any = [tool.tool_schema for tool in data._active_tools.values()]
                content, data.tool_calls = await self.tool_parser.extract_tool_calls(
                    data.response_ids, schemas
                )
                messages.append(self._build_assistant_message(content, data))
            for message in messages:
                if message["role"] == "assistant":
                    # verl leaves the special tokens in the text.
                    message["content"] = remove_end_tokens(message["content"], self.tokenizer)
            return messages

    return RubricAgentLoop


_loop_from_file = cache(agent_loop_of)  # verl makes a loop for each rollout


def _make_step(
    rubric: RubricSource,
    judge: JudgeSource | None,
    unscored: Policy,
    value: Value,
    monitor: RewardMonitor | None,
    single_rollout_trainer: str = "",
) -> Step:
    """Return the step that scores. Raise `RubricError` if a criterion has a name that verl reads."""
    step = Step(
        rubric,
        value,
        single_rollout_trainer=single_rollout_trainer,
        monitor=monitor,
        unscored=unscored,
        judge=judge,
    )
    for name in step.names:
        if name in RESERVED_KEYS:
            raise RubricError(
                f"a criterion is called {name!r}, which verl reads: give it another name"
            )
    return step


def _make_row(
    data_source: str, solution: Any, ground_truth: Any, extra_info: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Return a sample of verl as a row. Checks can also name the fields of its `extra_info`."""
    info = dict(extra_info or {})
    return {
        **info,
        "prompt": info.get("question") or info.get("prompt") or "",
        "completion": solution,
        "answer": ground_truth,
        "task": data_source,
        "info": info,
    }


def _make_results(
    step: Step, scored: Sequence[Scored], groups: Sequence[str] | None = None
) -> list[SampleResult]:
    """Return the results in verl's form, with unscored rollouts filled in by the policy."""
    rewards = fill_rewards(scored, step.unscored, groups)
    parts = fill_parts(scored, step.unscored, groups)
    results: list[SampleResult] = []
    for sample, reward, sample_parts in zip(scored, rewards, parts, strict=True):
        result: SampleResult = {
            "score": cast("float", reward),
            "unscored": float(sample.reward is None),
            **cast("dict[str, float]", sample_parts),
        }
        if sample.version:
            result["rubric_version"] = sample.version
        results.append(result)
    return results
