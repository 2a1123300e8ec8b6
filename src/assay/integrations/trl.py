"""Use a rubric as one reward function of TRL's trainers, or of others that accept the functions of TRL."""
# One function, because TRL skips missing values in its sum of several functions, so a judge that failed
# would count as 0.

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
from assay.integrations.step import (
    RubricSource,
    Scored,
    Step,
    Value,
    fill_rewards,
    load_rubric,
    watch_results,
)
from assay.plan import Traits
from assay.redaction import get_logger
from assay.rubric import Rubric

logger = get_logger("assay")

# The first version of TRL that leaves a reward of None out; earlier ones take it for 0.
FIRST_VERSION_WITH_NONE: Final = (1, 6)


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

    It is async if a criterion waits, for example for a judge, or if there is a `timeout`.

    `judge` answers the judged criteria: a grader, a model, or the name of one; by default it is
    that of the rubric. `columns={"answer": "solution"}` says what a field is called in the dataset;
    a column `rubric` holds the rubric of its row.

    The reward of an unscored rollout is None (`drop`), or follows the policy `unscored`. TRL before
    1.6 and ms-swift take None for 0, so `drop` is refused there. With `timeout`, a rollout that is
    not scored after this many seconds is unscored; TRL itself waits forever. With `group_size`
    (TRL's `num_generations`), checks that compare rollouts refuse groups of another size, which
    arise if a group is split over ranks.
    """
    if unscored == "drop":
        _refuse_trainers_without_none()
    step = Step(rubric, value, timeout, unscored=unscored, judge=judge)
    title = name or getattr(step.rubric, "name", None) or "assay"
    waits = timeout is not None or Traits.of(step.rubric).waits
    reward_class = AsyncTrlReward if waits else TrlReward
    return reward_class(title, step, dict(columns or {}), group_size, monitor)


def _refuse_trainers_without_none() -> None:
    """Raise `RubricError` if a trainer is loaded that takes a missing reward for 0."""
    if "swift" in sys.modules:
        raise RubricError(
            "ms-swift takes a reward of None for 0: give unscored='group_mean', 'zero' or 'raise'"
        )
    trl = sys.modules.get("trl")
    version = getattr(trl, "__version__", "")
    numbers = re.findall(r"\d+", version)[:2]
    if numbers and tuple(map(int, numbers)) < FIRST_VERSION_WITH_NONE:
        raise RubricError(
            f"TRL {version} takes a reward of None for 0: install trl>=1.6, or give "
            "unscored='group_mean', 'zero' or 'raise'"
        )


@dataclass
class _Reward:
    """A function that TRL calls with `prompts`, `completions` and the columns of the dataset."""

    title: str
    step: Step
    columns: Mapping[str, str]
    group_size: int | None
    monitor: RewardMonitor | None
    has_warned: bool = False  # that groups may be split

    @property
    def __name__(self) -> str:  # TRL logs under this name, so two rubrics in one run need two
        return self.title

    async def _score(
        self,
        prompts: Sequence[Any],
        completions: Sequence[Any],
        log_extra: Callable[[str, list[Any]], None] | None = None,
        log_metric: Callable[[str, float], None] | None = None,
        **columns: Any,
    ) -> list[float | None]:
        """Return the reward of each completion, and log the values of its criteria.

        TRL passes `log_extra` and `log_metric`, which write to its table and its metrics, and the
        columns of the dataset.
        """
        step = self.step
        rows = _make_rows(prompts, completions, columns, self.columns)
        groups = [_make_group_key(prompt) for prompt in prompts]
        if step.rubric.compares and groups:
            self._check_group_sizes(groups)
        results = await step.score(rows, groups)
        names = list(results[0].parts) if results else step.names
        _log_results(self.title, names, results, log_extra, log_metric)
        if self.monitor is not None:
            signs = await watch_results(self.monitor, rows, results, groups, is_step=True)
            if log_metric is not None:
                # All of them in every step, since all ranks must log the same metrics.
                for sign in SIGNS:
                    log_metric(f"{self.title}/{sign}", signs.get(sign, math.nan))
        rewards = fill_rewards(results, step.unscored, groups)
        if None in rewards:
            # Checked again, since the trainer may have been imported after this function was made.
            _refuse_trainers_without_none()
        return rewards

    def _check_group_sizes(self, groups: Sequence[str]) -> None:
        """Raise `RubricError` if a group is split over ranks, or warn if that is not known."""
        sizes = Counter(groups).values()
        if self.group_size is not None:
            for size in sizes:
                # A prompt may occur several times in a batch, as several groups.
                if size % self.group_size:
                    raise RubricError(
                        "a check compares the rollouts of a group, and there are "
                        f"{size} of its {self.group_size} rollouts here: choose a batch size per "
                        "device that is a multiple of num_generations"
                    )
            return
        if not self.has_warned and int(os.environ.get("WORLD_SIZE", "1")) > 1:
            self.has_warned = True
            logger.warning(
                "%s: a check compares the rollouts of a group, and this rank sees %d of one prompt; "
                "if num_generations is more, the group is split over ranks: give "
                "group_size=num_generations to be sure",
                self.title,
                min(sizes),
            )


def _make_group_key(prompt: Any) -> str:
    """Return a key for the group of a rollout: all rollouts of one prompt are a group."""
    if isinstance(prompt, str):
        return prompt
    return json.dumps(prompt, default=str, sort_keys=True)


class TrlReward(_Reward):
    """The reward function of a rubric whose checks do not wait for anything."""

    def __call__(
        self, prompts: Sequence[Any], completions: Sequence[Any], **options: Any
    ) -> list[float | None]:
        return run_sync(self._score(prompts, completions, **options))

    # Trainers call `inspect.iscoroutinefunction`, which reads these attributes of functions, and not
    # those of `__call__`.
    __code__ = __call__.__code__
    __defaults__ = __kwdefaults__ = None


class AsyncTrlReward(_Reward):
    """The reward function of a rubric that waits for a judge, a process or a network."""

    async def __call__(
        self, prompts: Sequence[Any], completions: Sequence[Any], **options: Any
    ) -> list[float | None]:
        return await self._score(prompts, completions, **options)

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
    """Return a function for each counted criterion, and their `reward_weights`.

    Trainers such as GDPO normalise each of them by itself. If a criterion has no answer and another
    one does, TRL takes it for 0.
    """
    whole = load_rubric(rubric)
    if not isinstance(whole, Rubric):  # a rubric on a server
        raise RubricError(f"{whole!r} cannot be taken apart: use as_trl_reward")
    if whole.ask_judge != "always":
        raise RubricError(
            f"the rubric has ask_judge {whole.ask_judge!r}, so its judged criteria depend on the "
            "checks and are not reward functions by themselves: use as_trl_reward"
        )
    counted = [criterion for criterion in whole.criteria if criterion.counts]
    for criterion in counted:
        if criterion.when or criterion.required:
            raise RubricError(
                f"criterion {criterion.name!r} depends on others or caps them, so it is not a "
                "reward function by itself: use as_trl_reward"
            )
    grader = grader_of(judge) or whole.grader  # one for all, which shares its calls
    rewards: list[TrlReward | AsyncTrlReward] = []
    for criterion in counted:
        single = Rubric(
            [criterion.with_fields(weight=1.0)],
            parser=whole.parser,
            judge=grader,
            name=criterion.name,
            shows=whole.shows,
            thinking=whole.thinking,
        )
        rewards.append(as_trl_reward(single, columns=columns, timeout=timeout, unscored=unscored))
    return rewards, [criterion.weight for criterion in counted]


def _make_rows(
    prompts: Sequence[Any],
    completions: Sequence[Any],
    arguments: Mapping[str, Any],
    renamed: Mapping[str, str],
) -> list[dict[str, Any]]:
    """Return a row for each completion.

    `arguments` are the keyword arguments of TRL: the columns of the dataset, and others, which are
    ignored. `renamed` says which column a field has its values from.
    """
    row_count = len(completions)
    columns: dict[str, Sequence[Any]] = {}
    for name, value in arguments.items():
        if isinstance(value, (list, tuple)):
            column = cast("Sequence[Any]", value)
            if len(column) == row_count:
                columns[name] = column
    table: dict[str, Sequence[Any]] = {"prompt": prompts, "completion": completions, **columns}
    for field, name in renamed.items():
        if name not in columns:
            raise RubricError(
                f"the dataset has no column {name!r} (it has: {', '.join(sorted(columns))}): "
                "name one of those in columns="
            )
        table[field] = columns[name]
    return [{name: column[index] for name, column in table.items()} for index in range(row_count)]


def _log_results(
    title: str,
    names: Sequence[str],
    results: Sequence[Scored],
    log_extra: Callable[[str, list[Any]], None] | None,
    log_metric: Callable[[str, float], None] | None,
) -> None:
    """Write the values of the criteria into TRL's table and metrics, and log how many are unscored.

    `names` are the parts of the results: the outcome and the criteria. The keys are the same in every step: ranks gather them in turn, and a column of the table that
    is shorter than the others ends the training. A criterion without any answer is NaN in the
    metrics, and TRL ignores it in its means.
    """
    errors = [result.error for result in results if result.reward is None]
    if errors:
        logger.warning(
            "%s: %d of %d rollouts are unscored; the first: %s",
            title,
            len(errors),
            len(results),
            errors[0],
        )
    columns = {name: [result.parts[name] for result in results] for name in names}
    if log_metric is not None:
        log_metric(f"{title}/unscored", len(errors) / len(results) if results else 0.0)
        for name, column in columns.items():
            values = [value for value in column if value is not None]
            log_metric(f"{title}/{name}", fmean(values) if values else math.nan)
    if log_extra is not None:
        for name, column in columns.items():
            log_extra(f"{title}/{name}", column)
        log_extra(f"{title}/error", [result.error for result in results])
        if any(result.version for result in results):
            log_extra(f"{title}/rubric", [result.version for result in results])
