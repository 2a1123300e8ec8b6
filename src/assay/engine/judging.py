"""Judging: hand the criteria that a model answers to the grader, all of a rollout's at once."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from assay.concurrency import FAILURES, is_stop, side_by_side
from assay.criterion import NOT_APPLICABLE, Criterion
from assay.engine.settle import is_plain
from assay.errors import SignatureError
from assay.graders.autograder import Autograder
from assay.graders.judge_input import JudgeInput, view_of
from assay.graders.verdicts import finite
from assay.messages import question_text
from assay.models.budgets import refuse_unpriced, rollout_spending
from assay.models.model import has_room
from assay.report import EvaluationReport, Score
from assay.rollout import Batch
from assay.types import OnError


@dataclass(slots=True)
class Judging:
    """Who is asked, and what happens when that fails."""

    grader: Autograder
    on_error: OnError
    clean: bool = True
    """Whether every answer so far was a number."""

    async def answers(
        self, asked: Sequence[list[Criterion]], batch: Batch
    ) -> list[Sequence[Score] | EvaluationReport]:
        """For each rollout one score a criterion asked of it, or one report for the whole."""

        async def judge(place: int) -> Sequence[Score] | EvaluationReport:
            criteria = asked[place]
            if not criteria:
                return ()
            try:
                view, query = _view(batch, place), _query(batch, place)
                async with rollout_spending():
                    answer = await self.grader.answer(view, criteria, query, on_error=self.on_error)
            except FAILURES as error:
                if self.on_error == "raise" or is_stop(error):
                    raise
                self.clean = False
                return [Score.failed(error)] * len(criteria)
            if isinstance(answer, EvaluationReport) or _is_clean(answer):
                return answer
            self.clean = False
            return [finite(c, score) for c, score in zip(criteria, answer, strict=True)]

        models = self.grader.models()
        refuse_unpriced(models)
        # A text is begun when its calls would soon go out: its prompts then go one after the other,
        # while an endpoint still remembers how the first of them began.
        room = (lambda: all(map(has_room, models))) if models else None
        return await side_by_side(judge, range(len(batch)), room=room)


def _is_clean(scores: Sequence[Score]) -> bool:
    """Whether every score is a number and nothing else, as nearly all are."""
    return (
        is_plain([score.value for score in scores])
        and {score.error for score in scores} <= {None}
        and NOT_APPLICABLE not in [score.verdict for score in scores]
    )


def _view(batch: Batch, place: int) -> JudgeInput:
    row = batch.rows[place]
    if batch.views is not None:
        return JudgeInput(batch.views[place], row)
    if "completion" not in row:
        raise SignatureError("this rollout has no field 'completion' for a model to judge")
    return JudgeInput(view_of(row["completion"])[1], row)


def _query(batch: Batch, place: int) -> str | None:
    row: Any = batch.rows[place]
    return question_text(row.get("prompt")) or None
