"""ScoringGrader: a grader whose one step is to find a score for every criterion."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from assay.criterion import Criterion
from assay.errors import JudgeError
from assay.graders.base import Autograder, overrides
from assay.graders.length import penalised
from assay.report import EvaluationReport, Score, line_of
from assay.types import OnError


class ScoringGrader(Autograder):
    """A grader that writes `ask()`. The rest follows from the scores."""

    @abstractmethod
    async def ask(
        self, to_grade: str, criteria: list[Criterion], query: str | None, on_error: OnError
    ) -> list[Score] | EvaluationReport:
        """One score a criterion, or one report for the whole. Raises when nothing was answered."""

    async def found(
        self, to_grade: str, criteria: list[Criterion], query: str | None, on_error: OnError
    ) -> list[Score] | EvaluationReport:
        """What `ask()` gives, and what can be said without asking."""
        return await self.ask(to_grade, criteria, query, on_error)

    async def judge(self, to_grade: str, rubric: list[Criterion], query: str | None = None) -> Any:
        """One report line a criterion, or one report for the whole. The first failure is raised."""
        answer = await self.found(to_grade, rubric, query, "raise")
        if isinstance(answer, EvaluationReport):
            return answer
        return [line_of(criterion, score) for criterion, score in zip(rubric, answer, strict=True)]

    async def answer(
        self,
        to_grade: str,
        criteria: list[Criterion],
        query: str | None = None,
        *,
        on_error: OnError = "record",
    ) -> list[Score] | EvaluationReport:
        if overrides(self, ScoringGrader, "judge", "aggregate", "grade"):
            # A subclass with steps of its own gets whole results only, or an exception.
            return await super().answer(to_grade, criteria, query, on_error=on_error)
        answer = await self.found(to_grade, criteria, query, on_error)
        if self.length_penalty is None:
            return answer
        report = self.report_of(answer, criteria)
        return penalised(report, to_grade, self.length_penalty, floor=self.normalize)


def refuse_errors(criteria: Sequence[Criterion], scores: Sequence[Score]) -> None:
    """Raise the first error among these scores."""
    for criterion, score in zip(criteria, scores, strict=True):
        if score.error is not None:
            raise JudgeError(f"criterion {criterion.name!r} has no answer: {score.error}")
