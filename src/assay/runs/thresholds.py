"""Thresholds: the one rule by which scores pass or fail, on the command line and in tests.

1. A run that is empty or not complete, or that has an unscored rollout, fails whatever the scores of
   the rest: a mean over what is left would hide what is missing.
2. `fail_under` is compared with the mean score.
3. `fail_interval_under` is compared with the lower end of the mean's 95 % interval. Where there are too
   few examples for an interval, it fails.
4. `fail_rollout_under` is compared with the score of every rollout.

Thresholds lie between 0 and 1, as normalised scores do. A score that is below its threshold by no more
than a rounding error passes.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from assay.runs.stats import MeanEstimate

_NAMED = 3
"""Rollouts below their threshold that are named; the others are counted."""


class Failure(NamedTuple):
    """Why scores fail."""

    reason: str
    is_missed: bool
    """Whether a threshold was missed; False when something has no score, so that none can be compared."""


def is_below(score: float, least: float) -> bool:
    """Whether a score misses a threshold; by a rounding error it does not.

    >>> is_below(0.1 + 0.2 - 1e-16, 0.3), is_below(0.29, 0.3)
    (False, True)
    """
    return score < least - 1e-9


def threshold_of(value: Any) -> float:
    """A threshold, from a number or the text of one.

    >>> threshold_of("80")
    Traceback (most recent call last):
    ValueError: '80' is no threshold: give a score between 0 and 1, as in 0.8
    """
    try:
        found = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        found = math.nan
    if not 0 <= found <= 1:
        raise ValueError(f"{value!r} is no threshold: give a score between 0 and 1, as in 0.8")
    return found


@dataclass(frozen=True)
class Thresholds:
    """Below which scores fail. Without any, only what has no score fails.

    >>> from assay.runs import MeanEstimate
    >>> Thresholds(fail_under=0.5).failure(MeanEstimate(mean=0.4, count=9), rollouts=9).reason
    'the mean score is 0.4 over 9 rollouts, which is below 0.5'
    """

    fail_under: float | None = None
    """For the mean score."""
    fail_interval_under: float | None = None
    """For the lower end of the 95 % interval of the mean score."""
    fail_rollout_under: float | None = None
    """For the score of every rollout."""

    def __post_init__(self) -> None:
        for value in (self.fail_under, self.fail_interval_under, self.fail_rollout_under):
            if value is not None:
                threshold_of(value)

    @property
    def are_set(self) -> bool:
        """Whether there is any."""
        return self.is_for_mean or self.fail_rollout_under is not None

    @property
    def is_for_mean(self) -> bool:
        """Whether there is one for the mean or its interval."""
        return self.fail_under is not None or self.fail_interval_under is not None

    def is_low(self, score: float | None) -> bool:
        """Whether the score of one rollout is below the threshold for every rollout."""
        least = self.fail_rollout_under
        return least is not None and score is not None and is_below(score, least)

    def failure(
        self, score: "MeanEstimate", *, rollouts: int, unscored: int = 0, complete: bool = True, low: Sequence[str] = ()
    ) -> Failure | None:
        """Why a run with this mean score fails; None when it passes.

        `low` names the rollouts that are below the threshold for every rollout.
        """
        incomplete = self._incomplete(score, rollouts, unscored, complete=complete)
        if incomplete is not None:
            return Failure(incomplete, is_missed=False)
        missed = self._missed(score) or self._low(low, rollouts)
        return None if missed is None else Failure(missed, is_missed=True)

    def _incomplete(self, score: "MeanEstimate", rollouts: int, unscored: int, *, complete: bool) -> str | None:
        if not rollouts:
            return "there are no rollouts"
        if unscored:
            have = "has" if unscored == 1 else "have"
            return f"{unscored:,} of {_counted(rollouts)} {have} no score"
        if not self.are_set:
            return None
        if not complete:
            return "the run is not complete, and its thresholds are for all of it"
        if score.mean is None:
            return "nothing in the rubric counts, so there is no score to compare with a threshold"
        return None

    def _missed(self, score: "MeanEstimate") -> str | None:
        said = f"the mean score is {score.mean:.6g} over {_counted(score.count)}"
        if self.fail_under is not None and is_below(score.mean or 0.0, self.fail_under):
            return f"{said}, which is below {self.fail_under:g}"
        least = self.fail_interval_under
        if least is None:
            return None
        if score.low is None:
            return (
                f"{said} of one example, too few for an interval: it cannot be told whether the score is "
                f"below {least:g}"
            )
        if is_below(score.low, least):
            return f"{said}, and its 95 % interval begins at {score.low:.6g}, which is below {least:g}"
        return None

    def _low(self, low: Sequence[str], rollouts: int) -> str | None:
        if not low:
            return None
        more = ", …" if len(low) > _NAMED else ""
        are = "scores" if len(low) == 1 else "score"
        names = f"{', '.join(low[:_NAMED])}{more}"
        return f"{len(low):,} of {_counted(rollouts)} {are} below {self.fail_rollout_under:g}: {names}"


NO_THRESHOLDS: Final = Thresholds()


def _counted(rollouts: int) -> str:
    return f"{rollouts:,} rollout{'' if rollouts == 1 else 's'}"
