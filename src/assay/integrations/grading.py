"""Grades: what some rollouts come to, and whether that is surely below what was asked for.

A mean over a few rollouts is a noisy point, and a test that fails on one fails by chance. So a test
fails when the whole 95 % interval lies below its threshold; `strict` asks for the opposite proof, that
the whole interval lies at or above it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from assay.concurrency import run_sync
from assay.errors import RubricError
from assay.graders.base import Autograder
from assay.integrations.step import RubricSource, rubric_of
from assay.report import EvaluationReport
from assay.rollout import Rollout
from assay.runs.means import Estimate, Mean


@dataclass(frozen=True)
class Grades:
    """The reports on some rollouts, and the mean of their scores."""

    reports: Sequence[EvaluationReport]
    score: Estimate
    """Over the scored rollouts; those of one prompt are no independent draws."""

    @property
    def unscored(self) -> int:
        """Rollouts with a counted criterion that nobody could answer."""
        return sum(not report.scored for report in self.reports)

    @property
    def errors(self) -> list[str]:
        """Why rollouts are unscored, each reason once."""
        told = (f"{name}: {why}" for report in self.reports for name, why in report.errors.items())
        return list(dict.fromkeys(told))

    def complaint(self, fail_under: float, *, strict: bool = False) -> str | None:
        """Why these grades do not do; None when they do."""
        if self.unscored:
            told = f"\n  {self.errors[0]}" if self.errors else ""
            return f"{self.unscored} of {len(self.reports)} rollouts have no score{told}"
        if self.score.mean is None:
            return "nothing in the rubric counts, so there is no score"
        bound = self.score.low if strict else self.score.high
        if bound is None:
            return f"the score is {self}, and one example says too little" if strict else None
        if bound >= fail_under:
            return None
        return f"the score is {self}, and {'not surely' if strict else 'surely not'} {fail_under:g}"

    def __str__(self) -> str:
        low, mean, high = self.score.low, self.score.mean, self.score.high
        if mean is None:
            return "no score"
        interval = "" if low is None or high is None else f" (95 %: {low:.3f} to {high:.3f})"
        return f"{mean:.3f}{interval} over {self.score.count} rollouts"


def grades_of(
    rubric: RubricSource,
    rollouts: Sequence[Rollout | Mapping[str, Any]],
    *,
    autograder: Autograder | None = None,
) -> Grades:
    """Score the rollouts; those with one `example_id`, or one prompt, are one example."""
    if not rollouts:
        raise RubricError("there are no rollouts to grade: give at least one")
    reports = run_sync(rubric_of(rubric).score(rollouts, autograder=autograder))
    places: dict[str, int] = {}
    mean = Mean()
    for rollout, report in zip(rollouts, reports, strict=True):
        if report.scored and report.score is not None:
            mean.add(report.score, places.setdefault(_example(rollout), len(places)))
    return Grades(reports, mean.estimate())


def _example(rollout: Rollout | Mapping[str, Any]) -> str:
    if isinstance(rollout, Rollout):
        return repr(rollout.columns.get("example_id", rollout.prompt))
    return repr(rollout.get("example_id", rollout.get("prompt", id(rollout))))


def assert_grades(
    rubric: RubricSource,
    rollouts: Sequence[Rollout | Mapping[str, Any]],
    *,
    fail_under: float,
    strict: bool = False,
    autograder: Autograder | None = None,
) -> Grades:
    """Score the rollouts, and fail when their mean score is surely below `fail_under`.

    With `strict`, fail unless it is surely not. A rollout that could not be scored fails too, and says
    why.

    >>> from assay import Rubric
    >>> rollouts = [{"prompt": str(n), "completion": "yes"} for n in range(9)]
    >>> print(assert_grades(Rubric([lambda completion: completion == "yes"]), rollouts, fail_under=0.9))
    1.000 (95 %: 0.701 to 1.000) over 9 rollouts
    """
    __tracebackhide__ = True
    found = grades_of(rubric, rollouts, autograder=autograder)
    complaint = found.complaint(fail_under, strict=strict)
    if complaint is not None:
        raise AssertionError(complaint)
    return found
