"""assert_grades scores rollouts in a test, which fails by the rule of `assay.runs.stats`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from assay.concurrency import run_sync
from assay.errors import RubricError
from assay.graders.grader import Grader
from assay.integrations.step import RubricSource, rubric_of
from assay.report import EvaluationReport
from assay.rollout import Rollout
from assay.runs.stats import Mean, MeanEstimate, Thresholds


@dataclass(frozen=True)
class Grades:
    """The reports on some rollouts, and the mean of their scores."""

    reports: Sequence[EvaluationReport]
    score: MeanEstimate  # over the scored rollouts; those of one prompt are no independent draws

    def __str__(self) -> str:
        low, mean, high = self.score.low, self.score.mean, self.score.high
        if mean is None:
            return "no score"
        interval = "" if low is None or high is None else f" (95 %: {low:.3f} to {high:.3f})"
        return f"{mean:.3f}{interval} over {self.score.count} rollouts"


def assert_grades(
    rubric: RubricSource,
    rollouts: Sequence[Rollout | Mapping[str, Any]],
    *,
    fail_under: float | None = None,
    fail_interval_under: float | None = None,
    fail_rollout_under: float | None = None,
    autograder: Grader | None = None,
) -> Grades:
    """Score the rollouts, and fail when their mean score is below `fail_under`, or when one could not be scored.

    `fail_interval_under` is for the lower end of the mean's 95 % interval, `fail_rollout_under` for every rollout. Rollouts
    with one `example_id`, or one prompt, are one example.

    >>> from assay import Rubric
    >>> rollouts = [{"prompt": str(n), "completion": "yes"} for n in range(9)]
    >>> print(assert_grades(Rubric([lambda completion: completion == "yes"]), rollouts, fail_under=0.9))
    1.000 (95 %: 0.701 to 1.000) over 9 rollouts
    """
    __tracebackhide__ = True
    thresholds = Thresholds(fail_under, fail_interval_under, fail_rollout_under)
    if not rollouts:
        raise RubricError("there are no rollouts to grade: give at least one")
    reports = run_sync(rubric_of(rubric).score(rollouts, autograder=autograder))
    places, mean = dict[str, int](), Mean()
    for rollout, report in zip(rollouts, reports, strict=True):
        if isinstance(rollout, Rollout):
            example = rollout.fields.get("example_id", rollout.prompt)
        else:
            example = rollout.get("example_id", rollout.get("prompt", id(rollout)))
        if report.scored and report.score is not None:
            mean.add(report.score, places.setdefault(repr(example), len(places)))
    found = Grades(reports, mean.estimate())
    low = [f"number {n}" for n, report in enumerate(reports) if thresholds.is_low(report.score)]
    unscored = [report for report in reports if not report.scored]
    failure = thresholds.failure(
        found.score, rollouts=len(reports), unscored=len(unscored), low=low
    )
    if failure is not None:
        errors = [
            f"\n  {name}: {why}" for report in unscored for name, why in report.errors.items()
        ]
        raise AssertionError(failure.reason + "".join(errors[:1]))
    return found
