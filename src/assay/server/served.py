"""Served: the rubric that requests are scored with, and how: together, or each with its deadline."""

import asyncio
from collections.abc import Sequence
from typing import Any

from assay.call import Call
from assay.concurrency import FAILURES, is_stop, side_by_side
from assay.criterion import Criterion, is_scorer
from assay.report import EvaluationReport, Score, aggregate, line_of
from assay.rollout import Rollout
from assay.rubric import Rubric
from assay.server.gathering import FEW, Gathering
from assay.wording import described

LATE = "DeadlineExceeded: not scored within"
"""How the error of a rollout begins that was not scored in time."""


class Served:
    """A rubric, and what is known about it from the start."""

    def __init__(self, rubric: Rubric) -> None:
        criteria = _all(rubric)
        self.rubric = rubric
        self.hash = rubric.content_hash
        own = rubric.own_methods
        group = ("score_group",) if "score_group" in own else ()
        self.compares = (
            *(c.name for c in criteria if (call := _call(c)) and call.compares),
            *group,
        )
        """What weighs the rollouts of a request against each other: criteria, or a method of a subclass."""
        self.waits = bool(own) or any(map(_waits, criteria))
        """Whether a criterion waits for a judge, another process or anything else, so that a deadline can hold."""
        steady = (c.name for c in rubric.criteria if c.counts and not c.when and not c.allow_na)
        self.steady = tuple(dict.fromkeys(steady))
        """The criteria that have a value whenever a rollout is scored."""
        self._takes_many = any(
            (c := _call(each)) and c.is_async and c.is_group for each in criteria
        )
        """Whether a criterion waits for the answers about many rollouts at once."""
        self._scoring: set[asyncio.Task[list[EvaluationReport]]] = set()
        """What is being scored, also what is not waited for any more; the loop itself would forget it."""
        self._gathering = (
            Gathering(rubric.score, self._score) if not self.waits and not self.compares else None
        )

    async def reports(self, rollouts: Sequence[Rollout], seconds: float) -> list[EvaluationReport]:
        """One report a rollout. Where there could be none, every line of it says why."""
        if self._gathering is not None and len(rollouts) <= FEW:
            return await self._gathering.reports(rollouts)
        if not self.waits:
            return await self._score(rollouts)
        if self.compares or (self._takes_many and len(rollouts) > 1):
            reports = await self._in_time(rollouts, seconds)
            if reports is not None:
                return reports
        if self.compares:
            return [self._failed(f"{LATE} {seconds:g} s")] * len(rollouts)
        # Each by itself: one that takes too long must not take the others with it.
        return await side_by_side(lambda rollout: self._alone(rollout, seconds), rollouts)

    async def _alone(self, rollout: Rollout, seconds: float) -> EvaluationReport:
        reports = await self._in_time([rollout], seconds)
        return self._failed(f"{LATE} {seconds:g} s") if reports is None else reports[0]

    async def _in_time(
        self, rollouts: Sequence[Rollout], seconds: float
    ) -> list[EvaluationReport] | None:
        """The reports; None when they are not there in time.

        A check need not heed that it is cancelled, so it is not waited for.
        """
        scoring = asyncio.ensure_future(self._score(rollouts))
        self._scoring.add(scoring)
        scoring.add_done_callback(self._scoring.discard)
        try:
            await asyncio.wait([scoring], timeout=seconds)
        finally:
            # Does nothing to what is done.
            scoring.cancel()
        return scoring.result() if scoring.done() else None

    async def _score(self, rollouts: Sequence[Rollout]) -> list[EvaluationReport]:
        try:
            return await self.rubric.score(rollouts)
        except FAILURES as error:  # whatever it is, it is an error on the lines
            if is_stop(error):
                raise
            if len(rollouts) > 1 and not self.compares:
                each = await side_by_side(lambda rollout: self._score([rollout]), rollouts)
                return [report for [report] in each]
            return [self._failed(described(error))] * len(rollouts)

    def _failed(self, error: str) -> EvaluationReport:
        criteria = self.rubric.criteria
        lines = [line_of(criterion, Score.failed(error)) for criterion in criteria]
        return aggregate(lines, criteria, aggregation=self.rubric.aggregation)


def _all(rubric: Any) -> list[Criterion]:
    """Every criterion of a rubric, those of the rubrics inside it too."""
    found: list[Criterion] = []
    for criterion in getattr(rubric, "criteria", ()):
        found.append(criterion)
        if is_scorer(criterion.check):
            found += _all(criterion.check)
    return found


def _waits(criterion: Criterion) -> bool:
    call = _call(criterion)
    if call is None:
        return True
    return criterion.isolate or call.is_async


def _call(criterion: Criterion) -> Call | None:
    """How its check is called; None when a model, or a whole rubric, answers."""
    if criterion.judged or is_scorer(criterion.check):
        return None
    return Call(criterion.check, criterion.name)
