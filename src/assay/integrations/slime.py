"""slime: a rubric as the async function behind `--custom-rm-path`, for samples and for `--group-rm`."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeAlias, cast

from assay.aggregation import Fallback, Policy, fallback_of
from assay.integrations.step import RubricSource, Scored, Step, Value, rubric_of

CustomRm: TypeAlias = Callable[..., Awaitable[float | list[float]]]


def custom_rm_of(rubric: RubricSource, *, unscored: Policy = "raise", value: Value = "reward") -> CustomRm:
    """A `custom_rm(args, sample)` for this rubric: a float, or a list of them for a group of samples.

    What a sample's `metadata` holds can be named by checks; the values of all criteria are left there
    under `assay`. `group_mean` and `drop` need `--group-rm`; with `drop` a sample is marked
    `remove_sample`, and is paid the group's mean so that it does not shift the baseline.
    """
    step = Step(rubric_of(rubric), value)
    alone = ("raise", "zero")
    fallback = Fallback(unscored)

    async def custom_rm(args: Any, sample: Any, **_: Any) -> float | list[float]:
        if isinstance(sample, Sequence):
            samples = cast("Sequence[Any]", sample)
            return _paid(await _score(step, samples), samples, fallback)
        fallback_of(unscored, alone, "slime without --group-rm")
        return _paid(await _score(step, [sample]), [sample], fallback)[0]

    return custom_rm


async def _score(step: Step, samples: Sequence[Any]) -> list[Scored]:
    found = await step.score([_row(sample) for sample in samples], [0] * len(samples))
    for sample, one in zip(samples, found, strict=True):
        if isinstance(getattr(sample, "metadata", None), dict):
            sample.metadata["assay"] = {"unscored": one.reward is None, **one.parts}
    return found


def _row(sample: Any) -> dict[str, Any]:
    metadata = cast("Mapping[str, Any]", getattr(sample, "metadata", None) or {})
    return {
        **metadata,
        "prompt": sample.prompt,
        "completion": sample.response,
        "answer": "" if sample.label is None else sample.label,
        "info": dict(metadata),
    }


def _paid(found: Sequence[Scored], samples: Sequence[Any], fallback: Fallback) -> list[float]:
    rewards, errors = [one.reward for one in found], [one.error for one in found]
    filled = fallback.fill(rewards, errors=errors)
    if fallback.policy == "drop":
        for sample, reward in zip(samples, rewards, strict=True):
            sample.remove_sample = sample.remove_sample or reward is None
        filled = Fallback("group_mean").fill(rewards)
    return [reward for reward in filled if reward is not None]
