"""Rubrics pay a number for every rollout, also for one that is unscored, as programs for `verifiers` expect."""

import assay
from assay import presets
from assay.engine import Outcomes
from assay.redaction import logger_of

logger = logger_of("assay")


class Rubric(assay.Rubric):
    """Ours, under their name: an unscored rollout's reward is the sum of what was answered, and not None."""

    _has_warned = False

    def _paid(self, outcomes: Outcomes) -> Outcomes:
        if None not in outcomes.rewards:
            return outcomes
        if not self._has_warned:
            self._has_warned = True
            warn_unscored([*outcomes.rewards].count(None), len(outcomes.rewards))
        return outcomes._replace(rewards=outcomes.partial)


class JudgeRubric(Rubric, assay.JudgeRubric):
    """Ours, with a reward that is always a number."""


class MathRubric(Rubric, assay.MathRubric):
    """Ours, with a reward that is always a number."""


class RubricGroup(Rubric, assay.RubricGroup):
    """Ours, with a reward that is always a number."""


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
