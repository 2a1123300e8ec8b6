"""Expectation: answers weighed by the probability that a model gave to each choice."""

from dataclasses import replace

from assay.criterion import Criterion
from assay.graders.base import Autograder
from assay.graders.composite import Composite, scores_from
from assay.graders.degenerate import degenerate
from assay.graders.length import LengthPenalty
from assay.redaction import logger_of
from assay.report import Score
from assay.types import OnError

logger = logger_of("assay")


class Expectation(Composite):
    """Asks for log-probabilities, and gives each answer its expected value over the choices.

    `MET` with a probability of 0.9 is worth 0.9, and passes as `MET` does; `disagreement` says how far
    apart two draws would be. Where an endpoint gives no log-probabilities the verdict counts as it
    is, with no `disagreement`, and the log says so once.

    >>> from assay import PerCriterionGrader, Rubric
    >>> from assay.testing import ModelServer
    >>> rubric = Rubric.from_dict([{"requirement": "Is polite"}])
    >>> with ModelServer("MET", confidence=0.9) as server:
    ...     judge = PerCriterionGrader(model=server.model)
    ...     round(rubric.grade_sync("Thanks!", Expectation(judge)).score, 6)
    0.9
    """

    def __init__(
        self,
        grader: Autograder,
        *,
        alternatives: int = 20,
        normalize: bool | None = None,
        length_penalty: LengthPenalty | None = None,
    ) -> None:
        """`alternatives` is how many to ask for with each token; most endpoints have up to 20."""
        if alternatives < 1:
            raise ValueError(f"alternatives is {alternatives}: ask for at least 1")
        self._refuse(grader)
        weighed = grader.asking(lambda manner: replace(manner, logprobs=alternatives))
        super().__init__([weighed], normalize=normalize, length_penalty=length_penalty)
        self._warned = False

    async def ask(
        self, to_grade: str, criteria: list[Criterion], query: str | None, on_error: OnError
    ) -> list[Score]:
        """One score a criterion, as the grader inside gives it with log-probabilities."""
        [grader] = self.inner
        scores = await scores_from(grader, to_grade, criteria, query, on_error)
        bare = [s for s in scores if s.value is not None and s.disagreement is None]
        if bare and not self._warned and degenerate(to_grade) is None:
            self._warned = True
            logger.warning(
                "%s gave no log-probabilities, so its verdicts count as they are", grader.title
            )
        return scores
