"""Autograder: who answers the criteria that a model judges."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, cast

from assay.aggregation import AGGREGATIONS, Scale
from assay.criterion import Criterion, Score
from assay.errors import JudgeError
from assay.report import CriterionReport, EvaluationReport, aggregate, line_of


class Autograder(ABC):
    """Answers judged criteria. Subclass and write `judge()`; write `aggregate()` for a formula of your own.

    >>> from assay import Rubric
    >>> class Shouting(Autograder):
    ...     async def judge(self, to_grade, rubric, query=None):
    ...         return ["MET" if to_grade.isupper() else "UNMET" for _ in rubric]
    >>> Rubric.from_dict([{"requirement": "Is loud", "weight": 1}], autograder=Shouting()).grade_sync("HEY").score
    1.0
    """

    def __init__(self, *, normalize: bool = True) -> None:
        self.normalize = normalize

    @property
    def scale(self) -> Scale | None:
        """The scale this grader asks for; None leaves it to the rubric."""
        return None if getattr(self, "normalize", True) else "raw"

    @abstractmethod
    async def judge(self, to_grade: str, rubric: list[Criterion], query: str | None = None) -> Any:
        """Answers, one a criterion and in order: verdicts, numbers, `Score`s or report lines.

        Or one `EvaluationReport` for the whole. An exception is an error, never a score.
        """

    async def aggregate(self, judge_results: Any, *, normalize: bool = True) -> EvaluationReport:
        """The report that `judge()`'s results come to."""
        if isinstance(judge_results, EvaluationReport):
            return judge_results
        lines = list(cast("Sequence[CriterionReport]", judge_results))
        scale: Scale = "unit" if normalize else "raw"
        return aggregate(lines, aggregation=AGGREGATIONS["weighted"], scale=scale)

    async def grade(
        self, to_grade: str, rubric: list[Criterion], query: str | None = None
    ) -> EvaluationReport:
        """`judge()` and then `aggregate()`, without a rubric around them."""
        results = await self.judge(to_grade, rubric, query)
        if type(self).aggregate is Autograder.aggregate:
            answer = _read(results, rubric)
            results = (
                answer
                if isinstance(answer, EvaluationReport)
                else [line_of(c, score) for c, score in zip(rubric, answer, strict=True)]
            )
        return await self.aggregate(results, normalize=getattr(self, "normalize", True))

    async def answer(
        self, to_grade: str, criteria: list[Criterion], query: str | None = None
    ) -> list[Score] | EvaluationReport:
        """What a rubric asks: one `Score` a criterion, or one report for the whole."""
        results = await self.judge(to_grade, criteria, query)
        if type(self).aggregate is Autograder.aggregate:
            return _read(results, criteria)
        report = await self.aggregate(results, normalize=getattr(self, "normalize", True))
        return as_whole(report, criteria)


def _read(results: Any, criteria: Sequence[Criterion]) -> list[Score] | EvaluationReport:
    """Whatever `judge()` returned, as one score a criterion or one report for the whole."""
    if isinstance(results, EvaluationReport):
        return as_whole(results, criteria)
    if isinstance(results, (str, Mapping)) or not isinstance(results, Sequence):
        raise JudgeError(f"judge() returned {results!r}: return one answer a criterion, in order")
    answers = cast("Sequence[object]", results)
    if len(answers) != len(criteria):
        raise JudgeError(
            f"judge() returned {len(answers)} answers to {len(criteria)} criteria: "
            "return one a criterion, in order"
        )
    return [score_of(c, answer) for c, answer in zip(criteria, answers, strict=True)]


def score_of(criterion: Criterion, answer: object) -> Score:
    """One answer of a judge as a `Score`: a verdict on offer, a number, a score or a report line."""
    if isinstance(answer, Score):
        return answer
    if isinstance(answer, str):
        return verdict_score(criterion, answer)
    if isinstance(answer, CriterionReport):
        if answer.value is None and answer.error is None and answer.verdict is not None:
            return verdict_score(criterion, answer.verdict, answer.reason)
        return Score(answer.value, answer.reason, answer.verdict, answer.error)
    if isinstance(answer, bool):
        return verdict_score(criterion, criterion.choices[-1 if answer else 0])
    if isinstance(answer, int | float):
        return Score(float(answer))
    return Score.failed(JudgeError(f"judge() answered {answer!r}, which is no verdict"))


def verdict_score(criterion: Criterion, verdict: str, reason: str = "") -> Score:
    """The score of a verdict; an error when it was not on offer."""
    value = criterion.value_of(verdict)
    if value is not None:
        return Score(value, reason, verdict)
    folded = verdict.strip().casefold()
    if criterion.allow_na and folded in ("n/a", "na", "not applicable"):
        return Score.not_applicable(reason)
    for choice in criterion.choices:
        if choice.casefold() == folded:
            return Score(criterion.value_of(choice), reason, choice)
    offered = ", ".join(criterion.choices)
    error = JudgeError(f"the verdict {verdict[:80]!r} was not on offer ({offered})")
    return Score.failed(error, reason)


def as_whole(report: EvaluationReport, criteria: Sequence[Criterion]) -> EvaluationReport:
    """A report by somebody else's formula, completed so that it can be added to others."""
    if report.gain or report.loss:
        return report
    counted = sum(criterion.counts for criterion in criteria)
    unanswered = sum(line.counted and not line.answered for line in report.lines)
    raw = report.raw_score if report.raw_score is not None else report.score
    return report.model_copy(
        update={
            "raw_score": raw,
            "gain": _gain_behind(raw, report.score),
            "asked": counted,
            "answered": 0 if raw is None else counted - unanswered,
        }
    )


def _gain_behind(raw: float | None, score: float | None) -> float:
    """The gain that makes `raw` this score, where the report does not say."""
    return raw / score if raw and score and raw / score > 0 else 1.0
