"""Gates for tests: fail if rollouts score too low, or if a run is worse than a baseline."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any

from assay.concurrency import run_sync
from assay.display import shorten_line
from assay.errors import RubricError, TrustError
from assay.graders.grader import JudgeSource
from assay.integrations.step import RubricSource, load_rubric
from assay.messages import completion_text
from assay.report import CriterionReport, EvaluationReport
from assay.rollout import Rollout
from assay.runs import Run
from assay.runs.stats import Mean, MeanEstimate, Thresholds
from assay.tables import rows_of
from assay.wording import describe_verdict

if TYPE_CHECKING:  # it needs numpy and scipy, which only `assert_not_worse` needs
    from assay.trust import Comparison

WORST = 3  # how many of the worst rollouts a failure shows
_MAX_TEXT = 300  # characters of a completion that a failure shows


@dataclass(frozen=True)
class Grades:
    """The reports on some rollouts, and the mean of their scores."""

    reports: Sequence[EvaluationReport]
    # Over the scored rollouts. Rollouts of one example are not independent.
    score: MeanEstimate

    def __str__(self) -> str:
        mean = self.score.mean
        if mean is None:
            return "no score"
        interval = ""
        if self.score.low is not None and self.score.high is not None:
            interval = f" (95 %: {self.score.low:.3f} to {self.score.high:.3f})"
        return f"{mean:.3f}{interval} over {self.score.count} rollouts"


def assert_grades(
    rubric: RubricSource,
    rollouts: Iterable[Rollout | Mapping[str, Any]] | str | PathLike[str],
    *,
    fail_under: float | None = None,
    fail_interval_under: float | None = None,
    fail_rollout_under: float | None = None,
    judge: JudgeSource | None = None,
) -> Grades:
    """Score rollouts, and fail if their mean is below `fail_under` or one could not be scored.

    `fail_interval_under` is for the lower end of the mean's 95 % interval, `fail_rollout_under` for
    every rollout. `rollouts` may be the path of a file with rows. `judge` answers the judged
    criteria: a grader, a model, or the name of one; by default it is that of the rubric. Rollouts
    with the same `example_id`, or else the same prompt, are one example. The message of a failure
    shows the worst rollouts, with the criteria that they failed and why.

    >>> from assay import Rubric
    >>> rollouts = [{"prompt": str(n), "completion": "yes"} for n in range(9)]
    >>> print(assert_grades(Rubric([lambda completion: completion == "yes"]), rollouts, fail_under=0.9))
    1.000 (95 %: 0.701 to 1.000) over 9 rollouts
    """
    __tracebackhide__ = True  # pytest shows the line of the test instead
    thresholds = Thresholds(fail_under, fail_interval_under, fail_rollout_under)
    if isinstance(rollouts, str | PathLike):
        rollouts = rows_of(rollouts)
    rollouts = list(rollouts)
    if not rollouts:
        raise RubricError("there are no rollouts to grade: give at least one")
    reports = run_sync(load_rubric(rubric).score(rollouts, judge=judge))
    example_numbers: dict[str, int] = {}
    mean = Mean()
    for rollout, report in zip(rollouts, reports, strict=True):
        if report.scored and report.score is not None:
            example = _identify_example(rollout)
            mean.add(report.score, example_numbers.setdefault(example, len(example_numbers)))
    grades = Grades(reports, mean.estimate())
    low_rollouts: list[str] = []
    for number, (rollout, report) in enumerate(zip(rollouts, reports, strict=True)):
        if thresholds.is_low(report.score):
            low_rollouts.append(_name_rollout(rollout, number))
    failure = thresholds.failure(
        grades.score,
        rollouts=len(reports),
        unscored=sum(not report.scored for report in reports),
        low=low_rollouts,
    )
    if failure is not None:
        raise AssertionError("\n".join([failure.reason, *_describe_worst(rollouts, reports)]))
    return grades


def _identify_example(rollout: Rollout | Mapping[str, Any]) -> str:
    """Return a key that is the same for all rollouts of one example.

    A row with neither an id nor a prompt is an example of its own.
    """
    if isinstance(rollout, Rollout):
        return repr(rollout.fields.get("example_id", rollout.prompt))
    return repr(rollout.get("example_id", rollout.get("prompt", id(rollout))))


def _name_rollout(rollout: Rollout | Mapping[str, Any], number: int) -> str:
    """Return the id of a rollout, or its number."""
    fields = rollout.fields if isinstance(rollout, Rollout) else rollout
    for column in ("example_id", "id"):
        if fields.get(column) is not None:
            return str(fields[column])
    return f"number {number}"


def _describe_worst(
    rollouts: Sequence[Rollout | Mapping[str, Any]], reports: Sequence[EvaluationReport]
) -> Iterator[str]:
    """Yield lines about the worst rollouts: text, failed criteria and reasons; unscored ones first."""
    numbers = sorted(range(len(reports)), key=lambda number: _get_rank(reports[number]))
    for number in numbers[:WORST]:
        rollout = rollouts[number]
        report = reports[number]
        completion = (
            rollout.completion if isinstance(rollout, Rollout) else rollout.get("completion")
        )
        score = "unscored" if report.score is None else f"score {report.score:.3g}"
        name = _name_rollout(rollout, number)
        yield f"  {name}, {score}: {_quote_text(completion)}"
        yield from _describe_failed_criteria(report)


def _get_rank(report: EvaluationReport) -> float:
    """Return the score to sort by, from the worst; a missing one is worse than 0."""
    return -1.0 if report.score is None else report.score


def _quote_text(completion: Any) -> str:
    return f"“{shorten_line(completion_text(completion), _MAX_TEXT)}”"


def _describe_failed_criteria(report: EvaluationReport) -> Iterator[str]:
    """Yield a line about each counted criterion that failed or has no answer."""
    for line in report.lines:
        if line.counted and (line.error is not None or line.passed is False):
            yield f"    {_describe_answer(line)}"


def _describe_answer(line: CriterionReport) -> str:
    """Return the name of a criterion, its answer and the reason."""
    if line.error is not None:
        return f"{line.name}: {shorten_line(line.error)}"
    answer = f"{line.name}: {describe_verdict(line.short_answer, line.weight)}"
    if not line.reason:
        return answer
    return f"{answer}, {shorten_line(line.reason)}"


def assert_not_worse(
    run: "Run | str | PathLike[str]", baseline: "Run | str | PathLike[str]"
) -> "Comparison":
    """Fail if a run scores lower than a baseline by more than chance; return the comparison.

    Both are runs or their folders. The rollouts that fell most are shown. Raise `TrustError` if the
    scores cannot be compared, for example because the rubrics differ.
    """
    __tracebackhide__ = True
    from assay.trust import compare

    before = baseline if isinstance(baseline, Run) else Run.open(baseline)
    after = run if isinstance(run, Run) else Run.open(run)
    comparison = compare(before, after)
    conclusion = comparison.decide(("the baseline", "the run"))  # in words
    has_common_examples = bool(comparison.score.examples)
    if comparison.other_rubric or not has_common_examples:
        raise TrustError(
            f"{conclusion}: score the baseline again with the rubric of the run "
            "(assay score BASELINE -r RUBRIC -o FOLDER)"
        )
    if comparison.score.direction == "worse":
        lines = [conclusion, *_describe_falls(comparison, after)]
        raise AssertionError("\n".join(lines))
    return comparison


def _describe_falls(comparison: "Comparison", run: Run) -> Iterator[str]:
    """Yield lines about the rollouts whose score fell most: text, changed criteria and reasons."""
    # `flips` are the rollouts whose result changed, the largest change first.
    fallen = [flip for flip in comparison.flips if flip.difference < 0]
    for flip in fallen[:WORST]:
        completion = run.row(*flip.key).fields.get("completion")
        yield f"  {flip.name}, score {flip.before:.3g} → {flip.after:.3g}: {_quote_text(completion)}"
        for change in flip.changes:
            before, after = change.words
            text = f"    {change.criterion}: {before} → {after}"
            if change.reason_after:
                text += f", {shorten_line(change.reason_after)}"
            yield text
