"""Rubrics pay a number for every rollout, also for one that is unscored, as programs for `verifiers` expect."""

from collections.abc import Iterable, Mapping
from logging import Logger
from typing import Any, cast

import assay
from assay import compat, presets
from assay.criterion import Criterion
from assay.engine import Outcomes
from assay.redaction import logger_of

logger = logger_of("assay")


class Rubric(assay.Rubric):
    """Ours, under their name: an unscored rollout's reward is the sum of what was answered, and not None."""

    _has_warned = False
    logger: Logger = logger

    def __init__(self, *args: Any, parallelize_scoring: bool = True, **options: Any) -> None:
        """As ours. Whether checks run side by side is for the engine to decide, whatever `parallelize_scoring` says."""
        super().__init__(*args, **options)

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name in ("score_group", "score_rollout"):
            # A method that is replaced on the rubric itself counts as one of a subclass.
            super().__setattr__("_own", self._own | {name})

    @property
    def has_group_rewards(self) -> bool:
        return self.compares

    def _criteria_of(self, funcs: Any, weights: Iterable[float | None] | None) -> list[Criterion]:
        criteria = super()._criteria_of(funcs, weights)
        return [c if c.name or c.judged else c.with_fields(name="<lambda>") for c in criteria]

    def _read_completion(self, completion: object) -> Any:
        # Their functions get what was said as it is, and also nothing: a rollout may end before the model is asked.
        return cast("Any", completion) if isinstance(completion, list) else super()._read_completion(completion)

    def _paid(self, outcomes: Outcomes) -> Outcomes:
        if outcomes.errors is not None and not compat.strict:
            outcomes = outcomes._replace(metrics=list(map(zeroed, outcomes.metrics, outcomes.errors)))
        if None not in outcomes.rewards:
            return outcomes
        if not self._has_warned and outcomes.errors is not None:
            self._has_warned = True
            warn_unscored([*outcomes.rewards].count(None), len(outcomes.rewards))
        return outcomes._replace(rewards=outcomes.partial)


def zeroed(metrics: Mapping[str, float], problems: Mapping[str, str]) -> dict[str, float]:
    """The metrics with 0.0 for each that has no value, as theirs are."""
    return {**metrics, **dict.fromkeys(problems, 0.0)}


class JudgeRubric(Rubric, assay.JudgeRubric):
    """Ours, with their order of arguments. A prompt may leave out the answer, for functions that ask by themselves."""

    shows_answer = False

    def __init__(self, parser: Any = None, parallelize_scoring: bool = False, judge_client: Any = None, **given: Any):
        self.judges_alone = compat.strict
        super().__init__(parser=parser, judge_client=judge_client, **{"hardened": compat.strict, **given})


class MathRubric(Rubric, assay.MathRubric):
    """Ours, with a reward that is always a number."""


class RubricGroup(Rubric, assay.RubricGroup):
    """Ours, with a reward that is always a number. Functions of its own are passed over, as there."""

    def __init__(self, rubrics: Any, *, funcs: Any = None, weights: Any = None, **options: Any) -> None:
        if funcs:
            logger.warning("a RubricGroup scores by its rubrics, and passes over the funcs= that it was given")
        super().__init__(rubrics, **options)


class ToolRubric(Rubric, presets.ToolRubric):
    """Ours, with a reward that is always a number."""


class SmolaToolRubric(ToolRubric, presets.SmolaToolRubric):
    """Ours, with a reward that is always a number."""


def warn_unscored(count: int, size: int) -> None:
    logger.warning(
        "%d of %d rollouts are unscored, and get a number as their reward nevertheless, as in "
        "verifiers: leave out those with `errors`, or import Rubric from assay, where it is None",
        count, size,
    )  # fmt: skip
