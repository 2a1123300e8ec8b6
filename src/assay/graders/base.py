"""Autograder: who answers the criteria that a model judges."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, cast

from assay.aggregation import Scale
from assay.criterion import Criterion
from assay.errors import JudgeError
from assay.graders.length import LengthPenalty, penalised
from assay.graders.manner import Change
from assay.graders.verdicts import score_of, with_value
from assay.graders.views import ToGrade, view_of
from assay.graders.whole import as_whole
from assay.models.base import Model
from assay.report import CriterionReport, EvaluationReport, Lines, Score, aggregate
from assay.types import OnError


class Autograder(ABC):
    """Answers judged criteria. Subclass and write `judge()`; write `aggregate()` for a formula of your own.

    >>> from assay import Rubric
    >>> class Shouting(Autograder):
    ...     async def judge(self, to_grade, rubric, query=None):
    ...         return ["MET" if to_grade.isupper() else "UNMET" for _ in rubric]
    >>> Rubric.from_dict([{"requirement": "Is loud", "weight": 1}], autograder=Shouting()).grade_sync("HEY").score
    1.0
    """

    # On the class, for a subclass whose own __init__ leaves them out.
    normalize: bool = True
    length_penalty: LengthPenalty | None = None
    judges_whole: bool = False
    """Whether it gives one number for all criteria, and not an answer to each."""

    def __init__(
        self, *, normalize: bool = True, length_penalty: LengthPenalty | None = None
    ) -> None:
        """`normalize=False` makes the raw sum the score; `length_penalty` is taken off the score."""
        self.normalize = normalize
        self.length_penalty = length_penalty

    def asking(self, change: Change) -> "Autograder":
        """This grader, putting its questions another way.

        One that does not ask through our models has no way of ours to change, and is given back.
        """
        return self

    @property
    def title(self) -> str:
        """What this grader is called among others."""
        return type(self).__name__

    def models(self) -> tuple[Model, ...]:
        """The models it asks; none of a grader that does not ask through ours."""
        return ()

    @property
    def scale(self) -> Scale | None:
        """The scale this grader asks for; None leaves it to the rubric."""
        return None if self.normalize else "raw"

    @abstractmethod
    async def judge(self, to_grade: str, rubric: list[Criterion], query: str | None = None) -> Any:
        """Answers, one a criterion and in order: verdicts, numbers, `Score`s or report lines.

        Or one `EvaluationReport` for the whole. An exception is an error, never a score.
        """

    async def aggregate(self, judge_results: Any, *, normalize: bool = True) -> EvaluationReport:
        """The report that `judge()`'s results come to."""
        if isinstance(judge_results, EvaluationReport):
            return judge_results
        lines = [with_value(line) for line in cast("Sequence[CriterionReport]", judge_results)]
        return aggregate(lines, scale="unit" if normalize else "raw")

    async def grade(
        self, to_grade: ToGrade, rubric: list[Criterion], query: str | None = None
    ) -> EvaluationReport:
        """`judge()` and then `aggregate()`, without a rubric around them. What fails is raised."""
        _, text = view_of(to_grade)
        results = await self.judge(text, rubric, query)
        if overrides(self, Autograder, "aggregate"):
            report = await self.aggregate(results, normalize=self.normalize)
        else:
            report = self.report_of(read(results, rubric, self.scale), rubric)
        return penalised(report, text, self.length_penalty, floor=self.normalize)

    async def answer(
        self,
        to_grade: str,
        criteria: list[Criterion],
        query: str | None = None,
        *,
        on_error: OnError = "record",
    ) -> list[Score] | EvaluationReport:
        """What a rubric asks: one `Score` a criterion, or one report for the whole.

        With a formula of its own or a length penalty a grader adds up itself, so it answers with
        a report. `on_error` is for graders that make several calls: whether one of them may fail
        alone. Whatever is raised from here fails every criterion.
        """
        if self.length_penalty or overrides(self, Autograder, "aggregate", "grade"):
            return as_whole(await self.grade(to_grade, criteria, query), criteria, self.scale)
        return read(await self.judge(to_grade, criteria, query), criteria, self.scale)

    def report_of(
        self, answer: Sequence[Score] | EvaluationReport, criteria: Sequence[Criterion]
    ) -> EvaluationReport:
        """The report that these answers come to, by the weighted rule."""
        if isinstance(answer, EvaluationReport):
            return as_whole(answer, criteria, self.scale)
        return aggregate(Lines(criteria, answer), criteria, scale=self.scale)


def overrides(grader: Autograder, base: type[Autograder], *methods: str) -> bool:
    """Whether the grader's class has a method of its own in place of the base's."""
    return any(getattr(type(grader), name) is not getattr(base, name) for name in methods)


def read(
    results: Any, criteria: Sequence[Criterion], scale: Scale | None = None
) -> list[Score] | EvaluationReport:
    """Whatever `judge()` returned, as one score a criterion or one report for the whole."""
    if isinstance(results, EvaluationReport):
        return as_whole(results, criteria, scale)
    if isinstance(results, (str, Mapping)) or not isinstance(results, Sequence):
        raise JudgeError(
            f"judge() returned {results!r:.200}: return one answer a criterion, in order"
        )
    answers = cast("Sequence[object]", results)
    if len(answers) != len(criteria):
        raise JudgeError(
            f"judge() returned {len(answers)} answers to {len(criteria)} criteria: "
            "return one a criterion, in order"
        )
    return [score_of(c, answer) for c, answer in zip(criteria, answers, strict=True)]
