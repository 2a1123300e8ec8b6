"""PerCriterionGrader: one call a criterion, side by side."""

from inspect import isawaitable
from typing import Any

from assay.concurrency import side_by_side
from assay.criterion import Criterion, Score
from assay.graders.generate import PerCriterionGenerateFn
from assay.graders.model import ModelGrader, read_verdict, refuse_errors
from assay.graders.prompting import one_criterion, opening
from assay.types import OnError


class PerCriterionGrader(ModelGrader[PerCriterionGenerateFn]):
    """Asks about each criterion in a call of its own. A call that fails fails its criterion alone.

    >>> from assay import PerCriterionOutput, Rubric
    >>> async def ask(system_prompt, user_prompt):
    ...     status = "MET" if "mentions Paris" in user_prompt else "UNMET"
    ...     return PerCriterionOutput(criterion_status=status, explanation="as asked")
    >>> rubric = Rubric.from_dict([
    ...     {"requirement": "Response mentions Paris", "weight": 10},
    ...     {"requirement": "Response is concise", "weight": 5},
    ... ])
    >>> rubric.grade_sync("Paris.", autograder=PerCriterionGrader(generate_fn=ask)).raw_score
    10.0
    """

    prompt = "per_criterion"

    async def ask(
        self, to_grade: str, criteria: list[Criterion], query: str | None, on_error: OnError
    ) -> list[Score]:
        """One score a criterion; the first failure is raised, and ends the rest, on request."""
        generate, system_prompt = self.model, self.system_prompt
        shared = opening(to_grade, query)

        async def asked(criterion: Criterion) -> Score:
            try:
                reply: Any = generate(
                    system_prompt=system_prompt, user_prompt=shared + one_criterion(criterion)
                )
                if isawaitable(reply):
                    reply = await reply
                score = read_verdict(criterion, reply)
            except Exception as error:
                if on_error == "raise":
                    raise
                return Score.failed(error)
            if score.error is not None and on_error == "raise":
                refuse_errors([criterion], [score])
            return score

        return await side_by_side(asked, criteria)
