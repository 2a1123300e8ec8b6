"""A rubric is the reward function of OpenRLHF (`--reward.remote_url`), slime (`--custom-rm-path`, `--group-rm`) and AReaL."""

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
from assay.integrations.step import RubricSource, Scored, Step, Value, paid, parts_of
from assay.lazy import read_toml
from assay.redaction import get_logger
from assay.runs.row import COLUMN

logger = get_logger("assay")

# Special tokens that a response may end in, since OpenRLHF decodes with them and hands no tokenizer over.
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
    """A `reward_func(queries, prompts, labels)` for this rubric; a label is the rollout's `answer`.

    A response ends before the special tokens of the `tokenizer` (of transformers) and before `end_tokens`.
    """
    check_policy(unscored, ("raise", "zero"), "OpenRLHF's reward_func")
    special = cast("Sequence[str]", () if tokenizer is None else tokenizer.all_special_tokens)
    step = Step(rubric, value, monitor=monitor, unscored=unscored, judge=judge)
    return partial(_reward_func, step, (*special, *end_tokens))


def without_end(text: str, tokenizer: Any) -> str:
    """A turn of the model less the special tokens that it ends in."""
    return response_of(text, "", (*getattr(tokenizer, "all_special_tokens", ()), *END_TOKENS))


def _reward_func(
    step: Step,
    end_tokens: Sequence[str],
    queries: Sequence[str],
    prompts: Sequence[str],
    labels: Sequence[Any],
) -> dict[str, Any]:
    rows: list[dict[str, Any]] = []
    uncut: dict[int, Scored] = {}
    for place, (query, prompt, label) in enumerate(zip(queries, prompts, labels, strict=True)):
        try:
            response = response_of(query, prompt, end_tokens)
            rows.append({**fields_of_label(label), "prompt": prompt, "completion": response})
        except ValueError as error:
            uncut[place] = step.without_score(str(error))
    cut = [prompt for place, prompt in enumerate(prompts) if place not in uncut]
    scored = iter(run_sync(step.score(rows, cut)))
    found = [uncut.get(place) or next(scored) for place in range(len(queries))]
    for one in found:
        if one.reward is None:  # OpenRLHF swallows whatever is raised
            logger.error("a rollout is unscored: %s", one.error)
    told = rewards_of(found, step.unscored)
    logs = {name: _tensor(column) for name, column in told.pop("extra_logs").items()}
    return {name: _tensor(column) for name, column in told.items()} | {"extra_logs": logs}


def fields_of_label(label: Any) -> dict[str, Any]:
    """What a label tells of its row: the `answer`. One that is a mapping with a `rubric`, or its JSON, tells every field.

    OpenRLHF hands no other column over, and slime's servers see no other.
    """
    fields = label
    if isinstance(label, str) and label.lstrip().startswith("{") and f'"{COLUMN}"' in label:
        with suppress(ValueError):
            fields = json.loads(label)
    if isinstance(fields, Mapping) and COLUMN in fields:
        return {"answer": "", **cast("Mapping[str, Any]", fields)}
    return {"answer": "" if label is None else label}


def rewards_of(
    found: Sequence[Scored], unscored: Policy, groups: Sequence[Hashable] | None = None
) -> dict[str, Any]:
    """What OpenRLHF is told: `rewards`, `scores` between 0 and 1, and `extra_logs` with the same keys in every row."""
    parts = parts_of(found, unscored, groups)
    logs = {name: [own[name] for own in parts] for name in (parts[0] if parts else ())}
    logs["unscored"] = [float(one.reward is None) for one in found]
    rewards, scores = (
        paid(found, unscored, groups),
        fill_unscored([one.score for one in found], unscored, groups),
    )
    return {"rewards": rewards, "scores": scores, "extra_logs": logs}


def response_of(query: str, prompt: str, end_tokens: Sequence[str] = END_TOKENS) -> str:
    """Return what the model wrote: the query less its prompt, and less the tokens it ends in.

    Raises `ValueError` when the query does not begin with its prompt, as when that was too long and was cut.
    """
    response = _after(query, prompt)
    if response is None:
        told = (
            "the query does not begin with its prompt, so what the model wrote cannot be told apart"
        )
        raise ValueError(
            f"{told}: send the prompt as the model read it, and leave room for the whole of it"
        )
    response = response.strip()
    while ending := next(
        (token for token in end_tokens if token and response.endswith(token)), None
    ):
        response = response.removesuffix(ending).rstrip()
    return response


def _after(query: str, prompt: str) -> str | None:
    """What follows the prompt; None when the query begins with something else."""
    if query.startswith(prompt):
        return query[len(prompt) :]
    # A tokenizer may give other spaces back than it was given, so those do not count.
    wanted = "".join(prompt.split())
    places = [place for place, sign in enumerate(query) if not sign.isspace()][: len(wanted)]
    if "".join(query[place] for place in places) != wanted:
        return None
    return query[places[-1] + 1 :] if places else query


def _tensor(values: Sequence[float | None]) -> Any:
    """A tensor where there is torch, as in OpenRLHF itself; else the list."""
    torch: Any = sys.modules.get("torch")
    return list(values) if torch is None else torch.tensor(values)


def custom_rm_of(
    rubric: RubricSource,
    *,
    judge: JudgeSource | None = None,
    unscored: Policy = "raise",
    value: Value = "reward",
    monitor: RewardMonitor | None = None,
) -> Callable[..., Awaitable[float | list[float]]]:
    """Return a `custom_rm(args, sample)` for this rubric: a float, or a list of them for a group of samples.

    Checks can name what a sample's `metadata` holds; values are left there under `assay`. `group_mean` and `drop` need
    `--group-rm`; `drop` marks `remove_sample`, and pays the group's mean so that the baseline does not shift.
    """
    return partial(_custom_rm, Step(rubric, value, monitor=monitor, unscored=unscored, judge=judge))


async def _custom_rm(step: Step, args: Any, sample: Any, **_: Any) -> float | list[float]:
    if isinstance(sample, Sequence):
        return await _scored_samples(step, cast("Sequence[Any]", sample))
    check_policy(step.unscored, ("raise", "zero"), "slime without --group-rm")
    return (await _scored_samples(step, [sample]))[0]


async def _scored_samples(step: Step, samples: Sequence[Any]) -> list[float]:
    rows: list[dict[str, Any]] = []
    for sample in samples:
        metadata = cast("Mapping[str, Any]", getattr(sample, "metadata", None) or {})
        fields = {**metadata, **fields_of_label(sample.label), "info": dict(metadata)}
        rows.append({**fields, "prompt": sample.prompt, "completion": sample.response})
    found = await step.score(rows, [0] * len(samples))
    for sample, one in zip(samples, found, strict=True):
        if isinstance(getattr(sample, "metadata", None), dict):
            steps = {} if one.steps is None else {"steps": one.steps}
            sample.metadata["assay"] = {"unscored": one.reward is None, **one.parts, **steps}
            if one.version:
                sample.metadata["assay"]["rubric"] = one.version
    rewards = paid(found, step.unscored)
    if step.unscored == "drop":
        for sample, reward in zip(samples, rewards, strict=True):
            sample.remove_sample = sample.remove_sample or reward is None
        rewards = paid(found, "group_mean")
    return [reward for reward in rewards if reward is not None]


def areal_reward_of(
    rubric: RubricSource,
    *,
    judge: JudgeSource | None = None,
    unscored: Policy = "raise",
    value: Value = "reward",
) -> "partial[float]":
    """Return a `reward_fn` for AReaL's workflows; the columns of the row come as keywords, and checks can name them.

    AReaL calls it in another process, so the rubric must pickle: give the path of its file. Its wrapper pays 0 for what takes
    longer than its own timeout, so let the judge's be shorter.
    """
    step = Step(rubric, value, hands_over_one="AReaL", unscored=unscored, judge=judge)
    return partial(_areal_reward, step)


def _areal_reward(
    step: Step, prompt: str, completions: str, prompt_ids: Any, completion_ids: Any, **row: Any
) -> float:
    [found] = run_sync(step.score([{**row, "prompt": prompt, "completion": completions}]))
    return step.paid_alone(found)
