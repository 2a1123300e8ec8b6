"""RubricService scores the rollouts of requests with one rubric, each within its deadline."""

import asyncio
from collections.abc import Sequence
from contextvars import Context, copy_context
from typing import Any, Final

from assay.concurrency import FAILURES, is_stop_request, run_concurrently
from assay.report import EvaluationReport, Score, aggregate, make_line
from assay.rollout import Rollout
from assay.rubric import Rubric
from assay.runs.row import own_rubric
from assay.runs.row_rubrics import RowRubrics
from assay.wording import describe_error

LATE: Final = "DeadlineExceeded: not scored within"  # how the error of a rollout begins that was not scored in time

Reports = list[EvaluationReport]


class RubricService:
    """A rubric, how it has to be scored with, and the requests that wait for it.

    Criteria that wait (for a judge, or for another process) are held to a deadline a rollout. Code that never
    waits cannot be interrupted; there, requests that come in the same turn of the event loop are scored in one
    batch, since trainers send one rollout a request and a batch of sixteen costs little more than one.
    """

    def __init__(self, rubric: Rubric, seconds: float, context: Context | None = None) -> None:
        """`seconds` is the deadline of a rollout; the budget of the `context` is what a judge may spend."""
        traits = rubric.traits
        self.rubric = rubric
        self.hash = rubric.content_hash
        self.compares = traits.compares
        """What weighs the rollouts of a request against each other: criteria, or a method of a subclass."""
        self.waits = traits.waits or traits.takes_many
        """Whether a criterion waits for a judge, another process or anything else, so that a deadline can hold."""
        self.names = tuple(dict.fromkeys(rubric.get_reward_func_names()))
        self._rows = RowRubrics(rubric, autograder=rubric.autograder)
        self._takes_many = traits.takes_many
        self._seconds = seconds
        self._waiting: list[tuple[Sequence[Rollout], asyncio.Future[Reports]]] = []
        self._context = copy_context() if context is None else context
        # The event loop itself forgets a task that is no longer awaited.
        self._tasks: set[asyncio.Task[Any]] = set()

    def waits_for(self, rollouts: Sequence[Rollout]) -> bool:
        """Whether these may wait; of a rollout with a `rubric` of its own that is not known."""
        return self.waits or any(map(_brings_rubric, rollouts))

    async def reports(self, rollouts: Sequence[Rollout], *, alone: bool = False) -> Reports:
        """One report a rollout; where there could be none, its lines say why. One request `alone` waits for no other."""
        brings = [*map(_brings_rubric, rollouts)]
        if True in brings:
            own, other = (
                [r for r, its in zip(rollouts, brings, strict=True) if its is kind]
                for kind in (True, False)
            )
            by_own, others = map(
                iter, await asyncio.gather(run_concurrently(self._alone, own), self.reports(other))
            )
            return [next(by_own if its else others) for its in brings]
        if not rollouts:
            return []
        if not self.waits and alone:
            return await self._score(rollouts)
        if not self.waits:
            if not self._waiting:
                self._task(
                    self._answer()
                )  # in the next turn of the loop; what comes in later makes the next batch
            reports: asyncio.Future[Reports] = asyncio.get_running_loop().create_future()
            self._waiting.append((rollouts, reports))
            return await reports
        if self.compares or (self._takes_many and len(rollouts) > 1):
            found = await self._in_time(rollouts)
            if found is not None:
                return found
            if self.compares:
                return self.failed(f"{LATE} {self._seconds:g} s") * len(rollouts)
        # Each by itself: one that takes too long must not take the others with it.
        return await run_concurrently(self._alone, rollouts)

    async def _answer(self) -> None:
        waiting, self._waiting = self._waiting, []
        try:
            if self.compares:  # a request is a group of its own
                found = [await self._score(rollouts) for rollouts, _ in waiting]
            else:
                reports = iter(
                    await self._score([each for rollouts, _ in waiting for each in rollouts])
                )
                found = [[next(reports) for _ in rollouts] for rollouts, _ in waiting]
            for (_, future), its_reports in zip(waiting, found, strict=True):
                if not future.done():  # the request may have been cancelled
                    future.set_result(its_reports)
        finally:
            for (
                _,
                future,
            ) in waiting:  # no request waits for what will not come; does nothing to what is done
                future.cancel()

    async def _alone(self, rollout: Rollout) -> EvaluationReport:
        [report] = await self._in_time([rollout]) or self.failed(f"{LATE} {self._seconds:g} s")
        return report

    async def _in_time(self, rollouts: Sequence[Rollout]) -> Reports | None:
        """The reports; None when they are not there in time: a check need not heed that it is cancelled."""
        scoring = self._task(self._score(rollouts))
        try:
            await asyncio.wait([scoring], timeout=self._seconds)
        finally:
            scoring.cancel()  # does nothing to what is done
        return scoring.result() if scoring.done() else None

    async def _score(self, rollouts: Sequence[Rollout]) -> Reports:
        try:
            # Rollouts with a rubric of their own come one at a time; all others need no look for one.
            by = self._rows if len(rollouts) == 1 and _brings_rubric(rollouts[0]) else self.rubric
            return await by.score(rollouts)
        except FAILURES as error:  # whatever it is, it is an error on the lines
            if is_stop_request(error):
                raise
            if len(rollouts) > 1 and not self.compares:
                each = await run_concurrently(lambda rollout: self._score([rollout]), rollouts)
                return [report for [report] in each]
            return self.failed(describe_error(error)) * len(rollouts)

    def failed(self, error: str) -> Reports:
        """The report on a rollout that could not be scored, for this reason."""
        criteria = self.rubric.criteria
        lines = [make_line(criterion, Score.failed(error)) for criterion in criteria]
        return [aggregate(lines, criteria, aggregation=self.rubric.aggregation)]

    def _task(self, work: Any) -> "asyncio.Task[Any]":
        task = asyncio.get_running_loop().create_task(work, context=self._context.copy())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _brings_rubric(rollout: Rollout) -> bool:
    return own_rubric(rollout.fields) is not None
