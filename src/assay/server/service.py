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

# How the error of a rollout begins that was not scored in time.
LATE: Final = "DeadlineExceeded: not scored within"


class RubricService:
    """Scores rollouts with a rubric.

    Criteria that wait (for a judge, or for another process) have a deadline per rollout. Code that
    never waits cannot be interrupted.
    """

    def __init__(
        self, rubric: Rubric, item_seconds: float, *, judge: JudgeSource | None = None
    ) -> None:
        """`judge` takes the place of the rubric's own."""
        traits = rubric.traits
        self.rubric = rubric
        self._grader = grader_of(judge)
        self.hash = rubric.content_hash
        # The criteria that compare the rollouts of a request, or a method of a subclass that does.
        self.compares = traits.compares
        self.names = tuple(dict.fromkeys(rubric.get_reward_func_names()))
        self._row_rubrics = RowRubrics(rubric, judge=self._grader or rubric.grader)
        self._takes_many = traits.takes_many
        self._waits = traits.waits or traits.takes_many
        self._item_seconds = item_seconds
        # Tasks that are under way; the event loop itself keeps only weak references to them.
        self._tasks: set[asyncio.Task[Any]] = set()

    def may_wait(self, rollouts: Sequence[Rollout]) -> bool:
        """Return True if scoring these may wait for a judge, another process or anything else."""
        return self._waits or any(_has_own_rubric(rollout) for rollout in rollouts)

    async def score(self, rollouts: Sequence[Rollout]) -> list[EvaluationReport]:
        """Return one report per rollout, in order.

        If a rollout could not be scored, every line of its report has the error.
        """
        with_own_rubric = [rollout for rollout in rollouts if _has_own_rubric(rollout)]
        if not with_own_rubric:
            return await self._score_by_rubric(rollouts)
        others = [rollout for rollout in rollouts if not _has_own_rubric(rollout)]
        own_reports, other_reports = await asyncio.gather(
            run_concurrently(self._score_alone, with_own_rubric), self._score_by_rubric(others)
        )
        next_own = iter(own_reports)
        next_other = iter(other_reports)
        return [
            next(next_own) if _has_own_rubric(rollout) else next(next_other) for rollout in rollouts
        ]

    async def _score_by_rubric(self, rollouts: Sequence[Rollout]) -> list[EvaluationReport]:
        """Score rollouts by the rubric that is served."""
        if not rollouts:
            return []
        if not self._waits:
            return await self._score_safely(rollouts)
        if self.compares:
            reports = await self._score_in_time(rollouts)
            if reports is None:
                return [self.report_failure(self._late_error)] * len(rollouts)
            return reports
        if self._takes_many and len(rollouts) > 1:
            reports = await self._score_in_time(rollouts)
            if reports is not None:
                return reports
        # Each by itself: a rollout that takes too long must not take the others with it.
        return await run_concurrently(self._score_alone, rollouts)

    async def _score_alone(self, rollout: Rollout) -> EvaluationReport:
        reports = await self._score_in_time([rollout])
        if reports is None:
            return self.report_failure(self._late_error)
        return reports[0]

    async def _score_in_time(self, rollouts: Sequence[Rollout]) -> list[EvaluationReport] | None:
        """Return the reports; None if they are late.

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
        """Score rollouts; whatever is raised becomes the error of the rollout that caused it."""
        rubric: Rubric | RowRubrics = self.rubric
        if len(rollouts) == 1 and _has_own_rubric(rollouts[0]):  # these come one at a time
            rubric = self._row_rubrics
        # Passed only if there is one, since an override may not take it.
        options = {} if self._grader is None else {"judge": self._grader}
        try:
            return await rubric.score(rollouts, **options)
        except FAILURES as error:
            if is_stop_request(error):
                raise
            if len(rollouts) == 1 or self.compares:
                return [self.report_failure(describe_error(error))] * len(rollouts)

        # One of several rollouts failed: score each by itself to find out which.
        async def score_one(rollout: Rollout) -> EvaluationReport:
            [report] = await self._score_safely([rollout])
            return report

        return await run_concurrently(score_one, rollouts)

    def report_failure(self, error: str) -> EvaluationReport:
        """Return the report on a rollout that could not be scored, with this error on every line."""
        criteria = self.rubric.criteria
        lines = [make_line(criterion, Score.failed(error)) for criterion in criteria]
        return aggregate(lines, criteria, aggregation=self.rubric.aggregation)

    @property
    def _late_error(self) -> str:
        return f"{LATE} {self._item_seconds:g} s"


def _has_own_rubric(rollout: Rollout) -> bool:
    return own_rubric(rollout.fields) is not None
