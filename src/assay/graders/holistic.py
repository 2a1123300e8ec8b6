"""Ask a model for one number for the whole rubric."""

import math

from assay.aggregation import normalise, share_of
from assay.criterion import Criterion
from assay.errors import JudgeError
from assay.graders.autograder import as_whole
from assay.graders.per_criterion import ModelGrader
from assay.graders.prompting import all_criteria, opening
from assay.graders.verdicts import RubricAsJudgeGenerateFn, RubricAsJudgeOutput, field_of
from assay.report import EvaluationReport
from assay.types import OnError


class RubricAsJudgeGrader(ModelGrader[RubricAsJudgeGenerateFn]):
    """Asks for one number from 0 to 100. The report has no lines.

    `raw_score` is that share of the weights, so it compares with other graders' sums;
    `llm_raw_score` is the number as it was given.

    >>> from assay import Rubric, RubricAsJudgeOutput
    >>> async def ask(system_prompt, user_prompt):
    ...     return RubricAsJudgeOutput(overall_score=85, explanation="nearly all of it")
    >>> rubric = Rubric.from_dict([
    ...     {"requirement": "Names a date", "weight": 10}, {"requirement": "Is short", "weight": 5}
    ... ])
    >>> report = rubric.grade_sync("In 1789.", autograder=RubricAsJudgeGrader(generate_fn=ask))
    >>> report.score, report.raw_score, report.llm_raw_score
    (0.85, 12.75, 85.0)
    """

    prompt = "holistic"
    judges_whole = True

    async def ask(
        self, to_grade: str, criteria: list[Criterion], query: str | None, on_error: OnError
    ) -> EvaluationReport:
        """One report for the whole; no call is made when there are no criteria."""
        if not criteria:
            return EvaluationReport(scale=self.scale or "unit")
        known = self._foregone(to_grade, criteria)
        if len(known) == len(criteria):
            # One number weighs the faults against the rest, so it is foregone for all criteria or for none.
            return as_whole(EvaluationReport(0.0, reason=known[0].reason), criteria, self.scale)
        question = all_criteria(criteria, vetoes=True, reverse=self.options.reverse)
        opened = self.opened(opening(to_grade, query))
        reply = await self.reply(opened, question, RubricAsJudgeOutput)
        number, reason = _number(reply), field_of(reply, "explanation")
        counted = [criterion.weight for criterion in criteria if criterion.counts]
        totals = share_of(min(1.0, max(0.0, number / 100)), counted)
        return EvaluationReport(
            score=normalise(totals, self.scale or "unit") if counted else None,
            raw_score=totals.raw if counted else None,
            llm_raw_score=number,
            gain=totals.gain,
            loss=totals.loss,
            asked=len(counted),
            answered=len(counted),
            scale=self.scale or "unit",
            reason=reason if isinstance(reason, str) else "",
        )


def _number(reply: object) -> float:
    number = field_of(reply, "overall_score")
    if isinstance(number, bool) or not isinstance(number, int | float) or not math.isfinite(number):
        raise JudgeError(
            f"the reply {reply!r:.200} of type {type(reply).__name__} holds no score from 0 to 100: "
            "return a RubricAsJudgeOutput"
        )
    return float(number)
