"""RubricService scores the rollouts of requests with one rubric, each within its deadline."""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from assay.concurrency import FAILURES, is_stop_request, run_concurrently
from assay.graders.grader import JudgeSource, grader_of
from assay.report import EvaluationReport, Score, aggregate, make_line
from assay.rollout import Rollout
from assay.rubric import Rubric
from assay.runs.row import own_rubric
from assay.runs.row_rubrics import RowRubrics
from assay.wording import describe_error

# The errors of rollouts that were not scored in time start with this.
LATE_ERROR_START: Final = "DeadlineExceeded: not scored within"


class RubricService:
    """Scores rollouts with a rubric.

    Criteria that wait (for a judge, or for another process) have a deadline per rollout. Code that
    never waits cannot be interrupted. A rollout that brings a rubric of its own is scored by that.
    """

    def __init__(
        self, rubric: Rubric, item_seconds: float, *, judge: JudgeSource | None = None
    ) -> None:
        """`item_seconds` is how long one rollout may take. `judge` replaces that of the rubric."""
        traits = rubric.traits
        self.rubric = rubric
        self._grader = grader_of(judge)
        self.hash = rubric.content_hash
        # The names of criteria that compare the rollouts of a request with each other, or of a
        # method of a subclass that does; empty if nothing compares them.
        self.comparing_criteria = traits.comparing_criteria
        self.names = tuple(dict.fromkeys(rubric.get_reward_func_names()))  # of the criteria
        # Scores rollouts by the rubrics that they bring.
        self._row_rubrics = RowRubrics(rubric, judge=self._grader or rubric.grader)
        # Whether a subclass overrides a method that scores several rollouts together.
        self._takes_many = traits.takes_many
        # Such a method may wait for anything.
        self._waits = traits.waits or traits.takes_many
        self._item_seconds = item_seconds
        # Running tasks; the event loop itself keeps only weak references to them.
        self._tasks: set[asyncio.Task[Any]] = set()

    def may_wait(self, rollouts: Sequence[Rollout]) -> bool:
        """Return True if scoring these rollouts may wait for a judge or another process.

        It may if they bring their own rubrics, because these are not known yet.
        """
        return self._waits or any(_has_own_rubric(rollout) for rollout in rollouts)

    async def score(self, rollouts: Sequence[Rollout]) -> list[EvaluationReport]:
        """Return one report per rollout, in order.

        If a rollout could not be scored, every line of its report has the error.
        """
        with_own_rubric = [rollout for rollout in rollouts if _has_own_rubric(rollout)]
        if not with_own_rubric:
            return await self._score_by_served_rubric(rollouts)
        others = [rollout for rollout in rollouts if not _has_own_rubric(rollout)]
        own_reports, other_reports = await asyncio.gather(
            run_concurrently(self._score_alone, with_own_rubric),
            self._score_by_served_rubric(others),
        )
        # Put the two lists of reports together again, in the order of the rollouts.
        next_own = iter(own_reports)
        next_other = iter(other_reports)
        return [
            next(next_own) if _has_own_rubric(rollout) else next(next_other) for rollout in rollouts
        ]

    async def _score_by_served_rubric(self, rollouts: Sequence[Rollout]) -> list[EvaluationReport]:
        """Score rollouts that bring no rubric of their own, by the rubric that is served."""
        if not rollouts:
            return []
        if not self._waits:  # a deadline could not be enforced
            return await self._score_safely(rollouts)
        if self.comparing_criteria:  # they must be scored together, and are late together
            reports = await self._score_in_time(rollouts)
            if reports is None:
                return [self.report_failure(self._late_error)] * len(rollouts)
            return reports
        if self._takes_many and len(rollouts) > 1:
            reports = await self._score_in_time(rollouts)
            if reports is not None:
                return reports
        # Score each by itself, so that those that take too long do not delay the others.
        return await run_concurrently(self._score_alone, rollouts)

    async def _score_alone(self, rollout: Rollout) -> EvaluationReport:
        """Score one rollout; if it is not scored in time, report that as its error."""
        reports = await self._score_in_time([rollout])
        if reports is None:
            return self.report_failure(self._late_error)
        return reports[0]

    async def _score_in_time(self, rollouts: Sequence[Rollout]) -> list[EvaluationReport] | None:
        """Return the reports; None if scoring takes longer than `item_seconds`.

        A check may ignore that it is cancelled, so the task is not awaited after the deadline.
        """
        task = asyncio.create_task(self._score_safely(rollouts))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            await asyncio.wait([task], timeout=self._item_seconds)
        finally:
            task.cancel()  # has no effect on a task that is done
        if not task.done():
            return None
        return task.result()

    async def _score_safely(self, rollouts: Sequence[Rollout]) -> list[EvaluationReport]:
        """Score rollouts; whatever is raised becomes the error of the rollout that caused it.

        If rollouts are compared with each other, it is the error of all of them.
        """
        rubric: Rubric | RowRubrics = self.rubric
        # Rollouts with rubrics of their own are always scored one at a time, see `score`.
        if len(rollouts) == 1 and _has_own_rubric(rollouts[0]):
            rubric = self._row_rubrics
        # Pass `judge` only if there is one: a method of a subclass may not have this parameter.
        options = {} if self._grader is None else {"judge": self._grader}
        try:
            return await rubric.score(rollouts, **options)
        except FAILURES as error:
            if is_stop_request(error):
                raise
            if len(rollouts) == 1 or self.comparing_criteria:  # they cannot be scored separately
                return [self.report_failure(describe_error(error))] * len(rollouts)

        # An error was raised, perhaps because of one rollout only: score each by itself.
        async def score_one(rollout: Rollout) -> EvaluationReport:
            [report] = await self._score_safely([rollout])
            return report

        return await run_concurrently(score_one, rollouts)

    def report_failure(self, error: str) -> EvaluationReport:
        """Return the report on a rollout that could not be scored, with this error on every line."""
        criteria = self.rubric.criteria
        failed = Score.failed(error)
        lines = [make_line(criterion, failed) for criterion in criteria]
        return aggregate(lines, criteria, aggregation=self.rubric.aggregation)

    @property
    def _late_error(self) -> str:
        """The error of a rollout that was not scored in time."""
        return f"{LATE_ERROR_START} {self._item_seconds:g} s"


def _has_own_rubric(rollout: Rollout) -> bool:
    """Return whether a rollout brings a rubric, in its field `rubric`."""
    return own_rubric(rollout.fields) is not None
