"""Composite: a grader around other graders."""

from collections.abc import Mapping, Sequence
from copy import copy
from typing import ClassVar, Self

from assay.concurrency import FAILURES, is_stop
from assay.criterion import Criterion
from assay.errors import JudgeError
from assay.graders.base import Autograder, overrides
from assay.graders.length import LengthPenalty
from assay.graders.manner import Change
from assay.graders.scoring import ScoringGrader
from assay.graders.verdicts import finite
from assay.models.base import Model
from assay.report import EvaluationReport, Score
from assay.types import OnError
from assay.wording import short_repr


class Composite(ScoringGrader):
    """Asks the graders inside it, and makes one answer of theirs. They can be composites too."""

    takes_wholes: ClassVar[bool] = False
    """Whether graders that give one number for all criteria may be inside."""

    def __init__(
        self,
        inner: Sequence[Autograder],
        *,
        normalize: bool | None = None,
        length_penalty: LengthPenalty | None = None,
    ) -> None:
        """`normalize` is that of the first grader inside unless said otherwise."""
        for grader in inner:
            self._refuse(grader)
        if not inner:
            raise ValueError(
                f"{type(self).__name__} has nobody to ask: give it at least one grader"
            )
        own = inner[0].normalize if normalize is None else normalize
        super().__init__(normalize=own, length_penalty=length_penalty)
        self.inner = tuple(inner)
        self.judges_whole = any(gives_whole(grader) for grader in inner)

    @property
    def title(self) -> str:
        """Who is asked: the one inside, or all of them."""
        titles = list(dict.fromkeys(grader.title for grader in self.inner))
        return titles[0] if len(self.inner) == 1 else f"{type(self).__name__}({', '.join(titles)})"

    def models(self) -> tuple[Model, ...]:
        return tuple(model for grader in self.inner for model in grader.models())

    def asking(self, change: Change) -> Self:
        inner = tuple(grader.asking(change) for grader in self.inner)
        if all(new is old for new, old in zip(inner, self.inner, strict=True)):
            return self
        changed = copy(self)
        changed.inner = inner
        return changed

    def _refuse(self, grader: object) -> None:
        name = type(self).__name__
        if not isinstance(grader, Autograder):
            raise TypeError(f"{name} takes graders, and this is {short_repr(grader)}")
        if grader.length_penalty is not None:
            raise ValueError(
                f"{grader.title} takes a length penalty off a score, and {name} needs its answers: "
                f"give length_penalty to {name}"
            )
        if gives_whole(grader) and not self.takes_wholes:
            raise ValueError(
                f"{grader.title} gives one number for all criteria, and {name} needs an answer to "
                "each: use PerCriterionGrader, PerCriterionOneShotGrader or your own judge()"
            )


def gives_whole(grader: Autograder) -> bool:
    """Whether a grader gives one number for all criteria."""
    return grader.judges_whole or overrides(grader, Autograder, "aggregate", "grade")


async def scores_from(
    grader: Autograder,
    to_grade: str,
    criteria: list[Criterion],
    query: str | None,
    on_error: OnError = "record",
) -> list[Score]:
    """A grader's score on every criterion; where it fails as a whole, that error on each."""
    if not criteria:
        return []
    try:
        answer = await grader.answer(to_grade, criteria, query, on_error=on_error)
        if isinstance(answer, EvaluationReport):
            raise JudgeError(f"{grader.title} gave one number for all criteria, and not one each")
    except FAILURES as error:
        if on_error == "raise" or is_stop(error):
            raise
        return [Score.failed(error)] * len(criteria)
    return [finite(c, score) for c, score in zip(criteria, answer, strict=True)]


def named(graders: Sequence[Autograder] | Mapping[str, Autograder]) -> dict[str, Autograder]:
    """The graders by name: as given, or by title; no name twice."""
    if isinstance(graders, Mapping):
        return dict(graders)
    found: dict[str, Autograder] = {}
    for grader in graders:
        base = name = str(getattr(grader, "title", "?"))
        number = 1
        while name in found:
            number += 1
            name = f"{base}_{number}"
        found[name] = grader
    return found
