"""A rubric is one reward function of TRL's trainers, and of trainers that take TRL's."""
# TRL sums several functions with missing ones skipped, so a judge that failed would count as one that said 0.

import json
import math
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Final, cast

from assay.aggregation import Policy
from assay.concurrency import run_sync
from assay.errors import RubricError
from assay.graders.grader import JudgeSource, grader_of
from assay.integrations.monitor import SIGNS, RewardMonitor
from assay.integrations.step import RubricSource, Scored, Step, Value, paid, rubric_of, watched
from assay.plan import Traits
from assay.redaction import get_logger
from assay.rubric import Rubric

logger = get_logger("assay")

MASKED_SINCE: Final = (
    1,
    6,
)  # the version of TRL from which on a reward of None is left out, and is no 0


def as_trl_reward(
    rubric: RubricSource,
    *,
    judge: JudgeSource | None = None,
    name: str = "",
    value: Value = "reward",
    columns: Mapping[str, str] | None = None,
    timeout: float | None = None,
    unscored: Policy = "drop",
    group_size: int | None = None,
    monitor: RewardMonitor | None = None,
) -> "TrlReward | AsyncTrlReward":
    """Return the rubric as one reward function, which can be pickled if the checks can.

    It is an async function if a criterion waits, as for a judge, or with `timeout`; else a plain one.
    `judge` answers the judged criteria: a grader, a model, or the name of one; by default it is that of the rubric.
    An unscored rollout is None (`drop`), or is paid by `unscored`; TRL before 1.6 and ms-swift take None for 0, and `drop`
    is refused there. `columns={"answer": "solution"}` says what a field is called in the dataset; a column `rubric` holds the
    rubric of its row. With `timeout` what is not scored after so many seconds is unscored; TRL itself waits for ever. With
    `group_size` (TRL's `num_generations`) checks that compare refuse a group of another size, as when it is split over ranks.
    """
    if unscored == "drop":
        _refuse_trainers_without_none()
    step = Step(rubric, value, timeout, unscored=unscored, judge=judge)
    title = name or getattr(step.rubric, "name", None) or "assay"
    waits = timeout is not None or Traits.of(step.rubric).waits
    reward_class = AsyncTrlReward if waits else TrlReward
    return reward_class(title, step, dict(columns or {}), group_size, monitor)


def _refuse_trainers_without_none() -> None:
    instead = "give unscored='group_mean', 'zero' or 'raise'"
    if "swift" in sys.modules:
        raise RubricError(f"ms-swift takes a reward of None for 0: {instead}")
    trl = sys.modules.get("trl")
    found = getattr(trl, "__version__", "")
    numbers = re.findall(r"\d+", found)[:2]
    if numbers and tuple(map(int, numbers)) < MASKED_SINCE:
        raise RubricError(
            f"TRL {found} takes a reward of None for 0: install trl>=1.6, or {instead}"
        )


@dataclass
class _Reward:
    """What TRL calls by keyword: `prompts`, `completions`, and every column of the dataset as a list."""

    title: str
    step: Step
    columns: Mapping[str, str]
    group_size: int | None
    monitor: RewardMonitor | None
    is_warned: bool = False  # that groups may be split

    @property
    def __name__(self) -> str:  # TRL logs under it, so two rubrics in one run need two
        return self.title

    async def _score(
        self,
        prompts: Sequence[Any],
        completions: Sequence[Any],
        log_extra: Callable[[str, list[Any]], None] | None = None,
        log_metric: Callable[[str, float], None] | None = None,
        **given: Any,
    ) -> list[float | None]:
        step, title = self.step, self.title
        rows = _rows(prompts, completions, given, self.columns)
        groups = [
            p if isinstance(p, str) else json.dumps(p, default=str, sort_keys=True) for p in prompts
        ]
        if step.rubric.compares and groups:
            self._look_for_split_groups(groups)
        found = await step.score(rows, groups)
        _publish(title, [*found[0].parts] if found else step.names, found, log_extra, log_metric)
        if self.monitor is not None:
            signs = await watched(self.monitor, rows, found, groups, is_step=True)
            if log_metric is not None:
                for sign in SIGNS:
                    log_metric(f"{title}/{sign}", signs.get(sign, math.nan))
        rewards = paid(found, step.unscored, groups)
        if None in rewards:
            _refuse_trainers_without_none()  # the trainer may have been imported after the adapter was made
        return rewards

    def _look_for_split_groups(self, groups: Sequence[str]) -> None:
        sizes = Counter(groups).values()
        split = (
            [] if self.group_size is None else [size for size in sizes if size % self.group_size]
        )
        if split:
            told = f"there are {split[0]} of its {self.group_size} rollouts here"
            advice = "choose a batch size per device that is a multiple of num_generations"
            raise RubricError(f"a check compares the rollouts of a group, and {told}: {advice}")
        if (
            self.group_size is None
            and not self.is_warned
            and int(os.environ.get("WORLD_SIZE", "1")) > 1
        ):
            self.is_warned = True
            logger.warning(
                "%s: a check compares the rollouts of a group, and this rank sees %d of one prompt; if num_generations is "
                "more, the group is split over ranks: give group_size=num_generations to be sure",
                self.title,
                min(sizes),
            )


class TrlReward(_Reward):
    """A reward function of a rubric that waits for nothing."""

    def __call__(
        self, prompts: Sequence[Any], completions: Sequence[Any], **given: Any
    ) -> list[float | None]:
        return run_sync(self._score(prompts, completions, **given))

    # What a function has: trainers ask `inspect.iscoroutinefunction`, which looks at no `__call__`.
    __code__ = __call__.__code__
    __defaults__ = __kwdefaults__ = None


class AsyncTrlReward(_Reward):
    """A reward function of a rubric that waits for a judge, a process or a network."""

    async def __call__(
        self, prompts: Sequence[Any], completions: Sequence[Any], **given: Any
    ) -> list[float | None]:
        return await self._score(prompts, completions, **given)

    __code__ = __call__.__code__
    __defaults__ = __kwdefaults__ = None


def as_trl_rewards(
    rubric: RubricSource,
    *,
    judge: JudgeSource | None = None,
    columns: Mapping[str, str] | None = None,
    timeout: float | None = None,
    unscored: Policy = "drop",
) -> tuple[list[TrlReward | AsyncTrlReward], list[float]]:
    """Return one function a counted criterion and their `reward_weights`, for normalising each by itself (GDPO).

    TRL takes a criterion without an answer for a 0 as soon as another has one.
    """
    asked = rubric_of(rubric)
    if not isinstance(asked, Rubric):
        raise RubricError(f"{asked!r} cannot be taken apart: use as_trl_reward")
    counted = [criterion for criterion in asked.criteria if criterion.counts]
    if asked.ask_judge != "always":
        raise RubricError(
            f"the rubric has ask_judge {asked.ask_judge!r}, so its judged criteria depend on the "
            "checks and are not reward functions by themselves: use as_trl_reward"
        )
    for criterion in counted:
        if criterion.when or criterion.required:
            told = f"{criterion.name!r} depends on others or caps them, so it is not a reward function by itself"
            raise RubricError(f"criterion {told}: use as_trl_reward")
    grader = grader_of(judge) or asked.grader  # one for all, which shares its calls
    rewards: list[TrlReward | AsyncTrlReward] = []
    for criterion in counted:
        alone = [criterion.with_fields(weight=1.0)]
        single = Rubric(
            alone,
            parser=asked.parser,
            judge=grader,
            name=criterion.name,
            shows=asked.shows,
            thinking=asked.thinking,
        )
        rewards.append(as_trl_reward(single, columns=columns, timeout=timeout, unscored=unscored))
    return rewards, [criterion.weight for criterion in counted]


def _rows(
    prompts: Sequence[Any],
    completions: Sequence[Any],
    given: Mapping[str, Any],
    columns: Mapping[str, str],
) -> list[dict[str, Any]]:
    size = len(completions)
    listed: dict[str, Sequence[Any]] = {
        name: column
        for name, column in given.items()
        if isinstance(column, (list, tuple)) and len(cast("Sequence[Any]", column)) == size
    }
    missing = [column for column in columns.values() if column not in listed]
    if missing:
        held = ", ".join(sorted(listed))
        raise RubricError(
            f"the dataset has no column {missing[0]!r} (it has: {held}): name one of those in columns="
        )
    listed |= {field: listed[column] for field, column in columns.items()}
    table = {"prompt": prompts, "completion": completions, **listed}
    return [{name: column[place] for name, column in table.items()} for place in range(size)]


def _publish(
    title: str,
    names: Sequence[str],
    found: Sequence[Scored],
    log_extra: Callable[[str, list[Any]], None] | None,
    log_metric: Callable[[str, float], None] | None,
) -> None:
    """Every part into TRL's table and metrics, and how many rollouts are unscored into the log.

    The keys are the same in every step: ranks gather them in turn, and a column of the table that is shorter than the
    others ends the training. A part without any answer is NaN in the metrics, which TRL leaves out of its means.
    """
    unscored = [one for one in found if one.reward is None]
    if unscored:
        first = unscored[0].error
        logger.warning(
            "%s: %d of %d rollouts are unscored; the first: %s",
            title,
            len(unscored),
            len(found),
            first,
        )
    columns = {name: [one.parts[name] for one in found] for name in names}
    if log_metric is not None:
        log_metric(f"{title}/unscored", len(unscored) / len(found) if found else 0.0)
        for name, column in columns.items():
            answered = [value for value in column if value is not None]
            log_metric(f"{title}/{name}", fmean(answered) if answered else math.nan)
    if log_extra is not None:
        for name, column in columns.items():
            log_extra(f"{title}/{name}", column)
        log_extra(f"{title}/error", [one.error for one in found])
        if any(one.version for one in found):
            log_extra(f"{title}/rubric", [one.version for one in found])
