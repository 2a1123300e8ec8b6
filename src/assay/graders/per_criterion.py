"""PerCriterionGrader: one call a criterion, side by side."""

from collections.abc import Callable, Iterator
from inspect import isawaitable
from types import CoroutineType
from typing import Any

from assay.concurrency import FAILURES, is_stop, walk_together
from assay.criterion import Criterion
from assay.graders.asker import Asker, Opened, Recent
from assay.graders.degenerate import Degenerate
from assay.graders.generate import PerCriterionGenerateFn
from assay.graders.length import LengthPenalty
from assay.graders.model import ModelGrader, read_verdict
from assay.graders.prompting import one_criterion, opening
from assay.graders.scoring import refuse_errors
from assay.models.base import announce
from assay.models.providers import keeps_prefixes
from assay.report import UNASKED, Score
from assay.types import OnError

WORTH = 2000
"""Characters of query and response from which reading them once pays for waiting on one call."""

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

    def __init__(
        self,
        generate_fn: PerCriterionGenerateFn | None = None,
        *,
        model: Any = None,
        system_prompt: str | None = None,
        normalize: bool = True,
        length_penalty: LengthPenalty | None = None,
        degenerate: Degenerate = "lowest",
        warm: bool | None = None,
    ) -> None:
        """As other graders, and `warm`: whether one call goes ahead of the rest about a response.

        An endpoint that remembers how prompts began has then read the response when the rest come,
        which makes those cheaper and the first answer no later. None does so where it pays: for long
        responses, and endpoints that are known to remember.
        """
        super().__init__(
            generate_fn,
            model=model,
            system_prompt=system_prompt,
            normalize=normalize,
            length_penalty=length_penalty,
            degenerate=degenerate,
        )
        self.warm = warm
        self._recent = Recent()

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

        ahead = 0
        if isinstance(ask, Asker) and self._warms(shared, len(criteria)):
            model, following = self.model, len(criteria) - 1
            # Or so many texts would be begun meanwhile that those calls come all at once.
            announce(model, following)
            try:
                # What a cache answers warms nothing, so the next one goes ahead too.
                while ahead < len(criteria) and not ask.reached:
                    await walk(iter((ahead,)))
                    ahead += 1
            finally:
                announce(model, -following)
        await walk_together(lambda places: walk(ahead + n for n in places), len(criteria) - ahead)
        return scores

    def _warms(self, shared: str, calls: int) -> bool:
        if self.warm is None:
            return calls > 1 and len(shared) >= WORTH and keeps_prefixes(self.model.id)
        return self.warm and calls > 1

    def _asker(self, shared: str) -> Callable[[Criterion], Any]:
        """A function that asks about one criterion, in a prompt that opens with `shared`."""
        generate, system_prompt, reverse = self.generate_fn, self.instructions, self.manner.reverse
        if generate is None:
            opened = Opened(self.model, system_prompt, shared, self._recent)
            return Asker(opened, self.manner, self.wording)
        return lambda criterion: generate(
            system_prompt=system_prompt,
            user_prompt=shared + one_criterion(criterion, reverse=reverse),
        )
