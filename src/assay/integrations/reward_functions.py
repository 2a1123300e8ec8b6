"""A rubric is the reward function of OpenRLHF (`--reward.remote_url`) and of slime (`--custom-rm-path`, `--group-rm`).

OpenRLHF swallows whatever the function raises: so what is unscored is also logged here, at ERROR.
"""

import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias, cast

from assay.aggregation import Fallback, Policy, UnscoredError, fallback_of
from assay.concurrency import run_sync
from assay.integrations.step import RubricSource, Step, Value, paid
from assay.redaction import logger_of

logger = logger_of("assay")

RewardFunc: TypeAlias = Callable[[Sequence[str], Sequence[str], Sequence[Any]], dict[str, Any]]
CustomRm: TypeAlias = Callable[..., Awaitable[float | list[float]]]

END_TOKENS: Final = (
    "<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|end_of_text|>", "<|end|>", "<end_of_turn>", "</s>", "<eos>",
)  # fmt: skip
"""Special tokens that a response may end in, since OpenRLHF decodes with them."""


def reward_func_of(
    rubric: RubricSource, *, unscored: Policy = "raise", value: Value = "reward", end_tokens: Sequence[str] = END_TOKENS
) -> RewardFunc:
    """A `reward_func(queries, prompts, labels)` for this rubric; a label is the rollout's `answer`."""
    step = Step(rubric, value)
    fallback = fallback_of(unscored, ("raise", "zero"), "OpenRLHF's reward_func")

    def reward_func(queries: Sequence[str], prompts: Sequence[str], labels: Sequence[Any]) -> dict[str, Any]:
        rows = [
            {"prompt": prompt, "completion": response_of(query, prompt, end_tokens), "answer": label}
            for query, prompt, label in zip(queries, prompts, labels, strict=True)
        ]
        found = run_sync(step.score(rows, list(prompts)))
        try:
            rewards = _tensor(paid(found, fallback))
        except UnscoredError as error:
            logger.error("%s", error)
            raise
        logs: dict[str, list[float | None]] = {"unscored": [float(one.reward is None) for one in found]}
        logs |= {name: [one.parts[name] for one in found] for name in step.names}
        told = {name: _tensor(column) for name, column in logs.items() if None not in column}
        return {"rewards": rewards, "scores": rewards, "extra_logs": told}

    return reward_func


def response_of(query: str, prompt: str, end_tokens: Sequence[str] = END_TOKENS) -> str:
    """Return what the model wrote: the query less its prompt, and less the tokens it ends in."""
    response = query.removeprefix(prompt).strip()
    while ending := next((token for token in end_tokens if response.endswith(token)), None):
        response = response.removesuffix(ending).rstrip()
    return response


def _tensor(values: Sequence[float | None]) -> Any:
    """A tensor where there is torch, as in OpenRLHF itself; else the list."""
    torch: Any = sys.modules.get("torch")
    return list(values) if torch is None else torch.tensor(values)


def custom_rm_of(rubric: RubricSource, *, unscored: Policy = "raise", value: Value = "reward") -> CustomRm:
    """Return a `custom_rm(args, sample)` for this rubric: a float, or a list of them for a group of samples.

    Checks can name what a sample's `metadata` holds; values are left there under `assay`. `group_mean` and `drop` need
    `--group-rm`; `drop` marks `remove_sample`, and pays the group's mean so that the baseline does not shift.
    """
    step = Step(rubric, value)
    fallback = Fallback(unscored)

    async def custom_rm(args: Any, sample: Any, **_: Any) -> float | list[float]:
        if isinstance(sample, Sequence):
            return await _scored_samples(step, cast("Sequence[Any]", sample), fallback)
        fallback_of(unscored, ("raise", "zero"), "slime without --group-rm")
        return (await _scored_samples(step, [sample], fallback))[0]

    return custom_rm


async def _scored_samples(step: Step, samples: Sequence[Any], fallback: Fallback) -> list[float]:
    rows: list[dict[str, Any]] = []
    for sample in samples:
        metadata = cast("Mapping[str, Any]", getattr(sample, "metadata", None) or {})
        answer = "" if sample.label is None else sample.label
        told = {"prompt": sample.prompt, "completion": sample.response, "answer": answer, "info": dict(metadata)}
        rows.append({**metadata, **told})
    found = await step.score(rows, [0] * len(samples))
    for sample, one in zip(samples, found, strict=True):
        if isinstance(getattr(sample, "metadata", None), dict):
            sample.metadata["assay"] = {"unscored": one.reward is None, **one.parts}
    rewards = paid(found, fallback)
    if fallback.policy == "drop":
        for sample, reward in zip(samples, rewards, strict=True):
            sample.remove_sample = sample.remove_sample or reward is None
        rewards = paid(found, Fallback("group_mean"))
    return [reward for reward in rewards if reward is not None]
