"""Served: the rubric that requests are scored with, and how: all at once, or each with its deadline."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from assay.call import Call
from assay.concurrency import side_by_side
from assay.criterion import Criterion, is_scorer
from assay.lines import line_of
from assay.report import EvaluationReport, aggregate
from assay.rollout import Rollout
from assay.rubric import Rubric
from assay.score import Score
from assay.wording import described

LATE = "DeadlineExceeded: not scored within"
"""How the error of a rollout begins that was not scored in time."""


@dataclass(frozen=True)
class Served:
    """A rubric, and what is known about it from the start."""

    rubric: Rubric
    hash: str
    compares: tuple[str, ...]
    """The criteria that weigh the rollouts of a request against each other."""
    waits: bool
    """Whether a criterion waits for somebody, a judge or another process, so that a deadline can hold."""
    steady: tuple[str, ...]
    """The criteria that have a value whenever a rollout is scored."""

    @classmethod
    def of(cls, rubric: Rubric) -> "Served":
        criteria = _all(rubric)
        steady = (c.name for c in rubric.criteria if c.counts and not c.when and not c.allow_na)
        return cls(
            rubric,
            rubric.content_hash,
            tuple(criterion.name for criterion in criteria if _compares(criterion)),
            any(map(_waits, criteria)),
            tuple(dict.fromkeys(steady)),
        )

    async def reports(self, rollouts: Sequence[Rollout], seconds: float) -> list[EvaluationReport]:
        """One report a rollout. Where there could be none, every line of it says why."""
        if not self.waits or self.compares:
            return await self._together(rollouts, seconds)
        # Each by itself: one that takes too long must not take the others with it.
        each = await side_by_side(lambda r: self._together([r], seconds), rollouts)
        return [report for [report] in each]

    async def _together(
        self, rollouts: Sequence[Rollout], seconds: float
    ) -> list[EvaluationReport]:
        try:
            if not self.waits:
                return await self.rubric.score(rollouts)
            async with asyncio.timeout(seconds):
                return await self.rubric.score(rollouts)
        except TimeoutError:
            error = f"{LATE} {seconds:g} s"
        except Exception as exception:  # noqa: BLE001 - whatever it is, it is an error on the lines
            error = described(exception)
        return [self._failed(error)] * len(rollouts)

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


def _compares(criterion: Criterion) -> bool:
    call = _call(criterion)
    return call is not None and call.compares


def _waits(criterion: Criterion) -> bool:
    call = _call(criterion)
    if call is None:
        return True
    return criterion.isolate or (call.is_async and not call.is_group)


def _call(criterion: Criterion) -> Call | None:
    """How its check is called; None when a model, or a whole rubric, answers."""
    if criterion.judged or is_scorer(criterion.check):
        return None
    return Call(criterion.check, criterion.name)
