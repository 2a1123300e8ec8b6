"""A rubric is one reward function of TRL's trainers, and of trainers that take TRL's.

TRL sums several functions with missing ones skipped, so a judge that failed would count as one that said 0.
"""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeAlias, cast

from assay.errors import RubricError
from assay.integrations.monitor import RewardMonitor
from assay.integrations.step import RubricSource, Scored, Step, Value, rubric_of
from assay.messages import completion_text
from assay.redaction import logger_of
from assay.rubric import Rubric
from assay.runs.pipeline import RowRubrics

logger = logger_of("assay")

TrlReward: TypeAlias = Callable[..., Awaitable[list[float | None]]]
"""What TRL calls by keyword: `prompts`, `completions`, and every column of the dataset as a list."""


def as_trl_reward(
    rubric: RubricSource,
    *,
    name: str = "",
    value: Value = "reward",
    columns: Mapping[str, str] | None = None,
    timeout: float | None = None,
    monitor: RewardMonitor | None = None,
) -> TrlReward:
    """Return the rubric as one reward function; None for a rollout that is unscored.

    `columns={"answer": "solution"}` says what a field is called in the dataset; a column `rubric` holds the rubric of
    its row. With `timeout` what is not scored after so many seconds is unscored; TRL itself waits for ever.
    """
    asked = rubric_of(rubric)
    # A rubric behind a server keeps its grader and its name to itself.
    step = Step(asked, value, timeout, RowRubrics(asked, autograder=getattr(asked, "autograder", None)))
    title = name or getattr(asked, "name", None) or "assay"

    async def reward(
        prompts: Sequence[Any],
        completions: Sequence[Any],
        log_extra: Callable[[str, list[Any]], None] | None = None,
        log_metric: Callable[[str, float], None] | None = None,
        **given: Any,
    ) -> list[float | None]:
        rows = _rows(prompts, completions, given, columns or {})
        groups = [p if isinstance(p, str) else json.dumps(p, default=str, sort_keys=True) for p in prompts]
        found = await step.score(rows, groups)
        _publish(title, found, log_extra, log_metric)
        if monitor is not None:
            texts = [completion_text(completion) for completion in completions]
            watched = monitor.observe(texts, [one.reward for one in found], groups=groups)
            for metric, number in watched.items():
                if log_metric is not None:
                    log_metric(f"{title}/{metric}", number)
        return [one.reward for one in found]

    # TRL logs under this name, so two rubrics in one run need two.
    reward.__name__ = reward.__qualname__ = title
    return reward


def as_trl_rewards(
    rubric: RubricSource, *, columns: Mapping[str, str] | None = None, timeout: float | None = None
) -> tuple[list[TrlReward], list[float]]:
    """Return one function a counted criterion and their `reward_weights`, for normalising each by itself (GDPO).

    TRL takes a criterion without an answer for a 0 as soon as another has one.
    """
    asked = rubric_of(rubric)
    if not isinstance(asked, Rubric):
        raise RubricError(f"{asked!r} cannot be taken apart: use as_trl_reward")
    counted = [criterion for criterion in asked.criteria if criterion.counts]
    for criterion in counted:
        if criterion.when or criterion.required:
            raise RubricError(
                f"criterion {criterion.name!r} depends on others or caps them, so it cannot be a "
                "reward function by itself: use as_trl_reward"
            )
    rewards: list[TrlReward] = []
    for criterion in counted:
        alone = [criterion.with_fields(weight=1.0)]
        single = Rubric(alone, parser=asked.parser, autograder=asked.autograder, name=criterion.name)
        rewards.append(as_trl_reward(single, columns=columns, timeout=timeout))
    return rewards, [criterion.weight for criterion in counted]


def _rows(
    prompts: Sequence[Any], completions: Sequence[Any], given: Mapping[str, Any], columns: Mapping[str, str]
) -> list[dict[str, Any]]:
    size = len(completions)
    listed: dict[str, Sequence[Any]] = {
        name: column
        for name, column in given.items()
        if isinstance(column, (list, tuple)) and len(cast("Sequence[Any]", column)) == size
    }
    missing = [column for column in columns.values() if column not in listed]
    if missing:
        raise RubricError(
            f"the dataset has no column {missing[0]!r} (it has: {', '.join(sorted(listed))}): "
            "name one of those in columns="
        )
    listed |= {field: listed[column] for field, column in columns.items()}
    return [
        {"prompt": prompts[i], "completion": completions[i]} | {name: column[i] for name, column in listed.items()}
        for i in range(size)
    ]


def _publish(
    title: str,
    found: Sequence[Scored],
    log_extra: Callable[[str, list[Any]], None] | None,
    log_metric: Callable[[str, float], None] | None,
) -> None:
    """Every part into TRL's table and metrics, and how many rollouts are unscored into the log."""
    unscored = [one for one in found if one.reward is None]
    if unscored:
        logger.warning(
            "%s: %d of %d rollouts are unscored; the first: %s",
            title, len(unscored), len(found), unscored[0].error,
        )  # fmt: skip
    if log_metric is not None:
        log_metric(f"{title}/unscored", len(unscored) / len(found) if found else 0.0)
    for part in found[0].parts if found else ():
        values = [one.parts[part] for one in found]
        answered = [value for value in values if value is not None]
        if log_extra is not None:
            log_extra(f"{title}/{part}", values)
        if log_metric is not None and answered:
            log_metric(f"{title}/{part}", sum(answered) / len(answered))
    if log_extra is not None and unscored:
        log_extra(f"{title}/error", [one.error for one in found])
