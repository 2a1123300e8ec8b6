"""Reward functions for OpenRLHF (`--reward.remote_url`), slime (`--custom-rm-path`, `--group-rm`) and AReaL."""

import json
import sys
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, cast

from assay.aggregation import Policy, check_policy, fill_unscored
from assay.concurrency import run_sync
from assay.graders.grader import JudgeSource
from assay.integrations.monitor import RewardMonitor
from assay.integrations.step import (
    RubricSource,
    Scored,
    Step,
    Value,
    fill_parts,
    fill_rewards,
)
from assay.lazy import read_toml
from assay.redaction import get_logger
from assay.runs.row import RUBRIC_COLUMN

logger = get_logger("assay")

# Special tokens at the end of a response: OpenRLHF decodes with them, and gives no tokenizer.
END_TOKENS: Final[tuple[str, ...]] = tuple(
    read_toml("assay.integrations", "end_tokens.toml")["tokens"]
)


def reward_func_of(
    rubric: RubricSource,
    *,
    judge: JudgeSource | None = None,
    unscored: Policy = "raise",
    value: Value = "reward",
    tokenizer: Any = None,
    end_tokens: Sequence[str] = END_TOKENS,
    monitor: RewardMonitor | None = None,
) -> Callable[[Sequence[str], Sequence[str], Sequence[Any]], dict[str, Any]]:
    """Return a `reward_func(queries, prompts, labels)` for this rubric.

    A query is a prompt with its response, and a label is the rollout's `answer`. A response ends
    before the special tokens of the `tokenizer` (of transformers) and before `end_tokens`.
    """
    check_policy(unscored, ("raise", "zero"), "OpenRLHF's reward_func")
    special_tokens: Sequence[str] = ()
    if tokenizer is not None:
        special_tokens = tokenizer.all_special_tokens
    step = Step(rubric, value, monitor=monitor, unscored=unscored, judge=judge)
    return partial(_reward_func, step, (*special_tokens, *end_tokens))


def remove_end_tokens(text: str, tokenizer: Any) -> str:
    """Return a turn of the model without the special tokens at its end."""
    special_tokens = getattr(tokenizer, "all_special_tokens", ())
    return cut_response(text, "", (*special_tokens, *END_TOKENS))


def _reward_func(
    step: Step,
    end_tokens: Sequence[str],
    queries: Sequence[str],
    prompts: Sequence[str],
    labels: Sequence[Any],
) -> dict[str, Any]:
    """Return the rewards as OpenRLHF expects them. A query is a prompt with its response."""
    results: dict[int, Scored] = {}  # by the index of the query
    rows: dict[int, dict[str, Any]] = {}  # those that can be scored, by index
    for index, (query, prompt, label) in enumerate(zip(queries, prompts, labels, strict=True)):
        try:
            response = cut_response(query, prompt, end_tokens)
        except ValueError as error:
            results[index] = step.make_unscored(str(error))
        else:
            rows[index] = {**read_label(label), "prompt": prompt, "completion": response}
    groups = [prompts[index] for index in rows]
    scored = run_sync(step.score(list(rows.values()), groups))
    results.update(zip(rows, scored, strict=True))
    ordered = [results[index] for index in range(len(queries))]
    for result in ordered:
        if result.reward is None:  # OpenRLHF hides exceptions
            logger.error("a rollout is unscored: %s", result.error)
    reply = make_openrlhf_reply(ordered, step.unscored)
    return {
        "rewards": _make_tensor(reply["rewards"]),
        "scores": _make_tensor(reply["scores"]),
        "extra_logs": {name: _make_tensor(column) for name, column in reply["extra_logs"].items()},
    }


def read_label(label: Any) -> dict[str, Any]:
    """Return the columns of a row from its label, which is the `answer`.

    A mapping with a `rubric`, or its JSON, holds all columns, because OpenRLHF and the servers of
    slime give no others.
    """
    fields = label
    if isinstance(label, str) and label.lstrip().startswith("{") and f'"{RUBRIC_COLUMN}"' in label:
        with suppress(ValueError):
            fields = json.loads(label)
    if isinstance(fields, Mapping) and RUBRIC_COLUMN in fields:
        return {"answer": "", **cast("Mapping[str, Any]", fields)}
    return {"answer": "" if label is None else label}


def make_openrlhf_reply(
    results: Sequence[Scored], unscored: Policy, groups: Sequence[Hashable] | None = None
) -> dict[str, Any]:
    """Return `rewards`, `scores` between 0 and 1, and `extra_logs` with a column for every criterion.

    Unscored rollouts are filled in by the policy `unscored`.
    """
    logs: dict[str, list[float | None]] = {}
    for parts in fill_parts(results, unscored, groups):
        for name, value in parts.items():
            logs.setdefault(name, []).append(value)
    logs["unscored"] = [float(result.reward is None) for result in results]
    return {
        "rewards": fill_rewards(results, unscored, groups),
        "scores": fill_unscored([result.score for result in results], unscored, groups),
        "extra_logs": logs,
    }


def cut_response(query: str, prompt: str, end_tokens: Sequence[str] = END_TOKENS) -> str:
    """Return what the model wrote: the query without its prompt and without end tokens.

    Raises `ValueError` if the query does not begin with its prompt, for example because the prompt
    was too long and was cut.
    """
    response = _remove_prompt(query, prompt)
    if response is None:
        raise ValueError(
            "the query does not begin with its prompt, so what the model wrote cannot be told "
            "apart: send the prompt as the model read it, and leave room for the whole of it"
        )
    response = response.strip()
    while True:
        end_token = _find_end_token(response, end_tokens)
        if end_token is None:
            return response
        response = response.removesuffix(end_token).rstrip()


def _find_end_token(response: str, end_tokens: Sequence[str]) -> str | None:
    """Return the token with which a response ends; None if it ends with none of them."""
    for token in end_tokens:
        if token and response.endswith(token):
            return token
    return None


def _remove_prompt(query: str, prompt: str) -> str | None:
    """Return the query after its prompt; None if it does not begin with its prompt."""
    if query.startswith(prompt):
        return query[len(prompt) :]
    # Tokenizers may change white space, so it is not compared.
    expected = "".join(prompt.split())
    matched_count = 0  # characters of `expected` that the query has so far
    for position, character in enumerate(query):
        if matched_count == len(expected):
            return query[position:]
        if character.isspace():
            continue
        if character != expected[matched_count]:
            return None
        matched_count += 1
    return "" if matched_count == len(expected) else None


def _make_tensor(values: Sequence[float | None]) -> Any:
    """Return a tensor if torch is loaded, as in OpenRLHF itself; otherwise a list."""
    torch: Any = sys.modules.get("torch")
    if torch is None:
        return list(values)
    return torch.tensor(values)


def custom_rm_of(
    rubric: RubricSource,
    *,
    judge: JudgeSource | None = None,
    unscored: Policy = "raise",
    value: Value = "reward",
    monitor: RewardMonitor | None = None,
) -> Callable[..., Awaitable[float | list[float]]]:
    """Return a `custom_rm(args, sample)` for this rubric: a float, or a list of them for a group of samples.

    Checks can name the fields of a sample's `metadata`, and the values are written there, under
    `assay`. `group_mean` and `drop` need `--group-rm`; `drop` sets `remove_sample`, and gives the
    mean of the group as the reward, so that the baseline does not change.
    """
    step = Step(rubric, value, monitor=monitor, unscored=unscored, judge=judge)
    return partial(_custom_rm, step)


async def _custom_rm(step: Step, args: Any, sample: Any, **_: Any) -> float | list[float]:
    """Return the reward of a sample, or the rewards of a group, which slime gives with `--group-rm`."""
    if isinstance(sample, Sequence):
        return await _score_samples(step, cast("Sequence[Any]", sample))
    check_policy(step.unscored, ("raise", "zero"), "slime without --group-rm")
    [reward] = await _score_samples(step, [sample])
    return reward


async def _score_samples(step: Step, samples: Sequence[Any]) -> list[float]:
    """Return the reward of each sample of a group, and write its values into its metadata."""
    rows: list[dict[str, Any]] = []
    for sample in samples:
        # The fields of the metadata are columns, and also the `info`.
        metadata = cast("Mapping[str, Any]", getattr(sample, "metadata", None) or {})
        rows.append(
            {
                **metadata,
                **read_label(sample.label),
                "info": dict(metadata),
                "prompt": sample.prompt,
                "completion": sample.response,
            }
        )
    one_group = [0] * len(samples)
    results = await step.score(rows, one_group)
    for sample, result in zip(samples, results, strict=True):
        if isinstance(getattr(sample, "metadata", None), dict):
            sample.metadata["assay"] = _describe_result(result)
    rewards = fill_rewards(results, step.unscored)
    if step.unscored == "drop":
        for sample, reward in zip(samples, rewards, strict=True):
            sample.remove_sample = sample.remove_sample or reward is None
        # slime needs a number all the same; the mean does not change the baseline of the group.
        rewards = fill_rewards(results, "group_mean")
    return [reward for reward in rewards if reward is not None]


def _describe_result(result: Scored) -> dict[str, Any]:
    """Return a result as it is written into the metadata of a sample."""
    values: dict[str, Any] = {"unscored": result.reward is None, **result.parts}
    if result.steps is not None:
        values["steps"] = result.steps
    if result.version:
        values["rubric"] = result.version
    return values


def areal_reward_of(
    rubric: RubricSource,
    *,
    judge: JudgeSource | None = None,
    unscored: Policy = "raise",
    value: Value = "reward",
) -> "partial[float]":
    """Return a `reward_fn` for AReaL's workflows, which pass the columns of the row as keywords.

    AReaL calls it in another process, so the rubric has to be picklable: give the path of its file.
    Its wrapper gives 0 for a call that takes longer than its own timeout, so the judge's timeout
    should be shorter.
    """
    step = Step(rubric, value, single_rollout_trainer="AReaL", unscored=unscored, judge=judge)
    return partial(_areal_reward, step)


def _areal_reward(
    step: Step, prompt: str, completions: str, prompt_ids: Any, completion_ids: Any, **row: Any
) -> float:
    """Return the reward of one rollout. The token ids are not used."""
    [result] = run_sync(step.score([{**row, "prompt": prompt, "completion": completions}]))
    return step.get_single_reward(result)
