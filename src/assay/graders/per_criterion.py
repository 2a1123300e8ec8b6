"""PerCriterionGrader: one call a criterion, side by side."""

from collections.abc import Callable, Iterator
from inspect import isawaitable
from types import CoroutineType
from typing import Any

from assay.concurrency import FAILURES, is_stop, walk_together
from assay.criterion import Criterion
from assay.graders.generate import PerCriterionGenerateFn
from assay.graders.model import (
    ModelGrader,
    off_menu,
    question_of,
    read_verdict,
    reply_model,
)
from assay.graders.odds import value_of
from assay.graders.prompting import one_criterion, opening
from assay.graders.scoring import refuse_errors
from assay.models.base import Request
from assay.score import UNASKED, Score
from assay.types import OnError

_COROUTINE: Any = CoroutineType


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
        shared = opening(to_grade, query)
        ask = self._asker(shared)
        scores: list[Score] = [UNASKED] * len(criteria)

        async def walk(places: Iterator[int]) -> None:
            for place in places:
                criterion = criteria[place]
                try:
                    reply: Any = ask(criterion)
                    if type(reply) is _COROUTINE or isawaitable(reply):
                        reply = await reply
                    scores[place] = score = read_verdict(criterion, reply)
                    if score.error is not None and on_error == "raise":
                        refuse_errors([criterion], [score])
                except FAILURES as error:
                    if on_error == "raise" or is_stop(error):
                        raise
                    scores[place] = Score.failed(error)

        await walk_together(walk, len(criteria))
        return scores

    def _asker(self, shared: str) -> Callable[[Criterion], Any]:
        """A function that asks about one criterion, in a prompt that opens with `shared`."""
        generate, system_prompt, manner = self.generate_fn, self.instructions, self.manner
        reverse = manner.reverse
        if generate is not None:
            return lambda criterion: generate(
                system_prompt=system_prompt,
                user_prompt=shared + one_criterion(criterion, reverse=reverse),
            )
        model = self.model
        opened = (
            {"role": "system", "content": system_prompt},
            {"role": "user", "content": shared},
        )

        async def ask(criterion: Criterion) -> Any:
            question = {"role": "user", "content": one_criterion(criterion, reverse=reverse)}
            request = Request(
                (*opened, question),
                reply_model(criterion, reverse=reverse),
                off_menu(criterion, reverse=reverse),
                shared=len(opened),
                temperature=manner.temperature,
                logprobs=manner.logprobs,
                sample=manner.sample,
                question=question_of(criterion),
            )
            return value_of(await model(request))

        return ask
