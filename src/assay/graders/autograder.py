"""Adapt graders that are written as `judge()` and `aggregate()`, or `grade()`, to `Grader.answer()`.

`Autograder` is the base class of such graders. `BuiltInGrader` is the base class of the graders in
this package: they write `answer()`, and a subclass may still override `judge()`, `aggregate()` or
`grade()`. It is then asked through these methods.
"""

from abc import abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, ClassVar, cast

from assay.concurrency import set_variable
from assay.criterion import Criterion
from assay.errors import JudgeError
from assay.graders.grader import (
    Grader,
    JudgeAnswer,
    complete_report,
    refuse_step_criteria,
    report_from,
)
from assay.graders.judge_input import JudgeInput, ToGrade, build_judge_input
from assay.graders.length import apply_length_penalty
from assay.graders.verdicts import add_verdict_value, check_citations, coerce_judge_answer
from assay.report import CriterionReport, EvaluationReport, aggregate, make_line
from assay.types import OnError

# The input of the `judge()` or `grade()` that is running. These methods get only its text, and may
# call `super().judge()` or `super().grade()`, which need the rest.
_current_input: ContextVar[JudgeInput | None] = ContextVar("current_input", default=None)


class Autograder(Grader):
    """A grader written as `judge()`, and `aggregate()` if it has a formula of its own.

    `judge()` gets the text of the response. A grader that needs more of the rollout (media, the
    reference, fields), or whose questions can fail one by one, subclasses `Grader` instead.

    >>> from assay import Rubric
    >>> class Shouting(Autograder):
    ...     async def judge(self, to_grade, rubric, query=None):
    ...         return ["MET" if to_grade.isupper() else "UNMET" for _ in rubric]
    >>> rubric = Rubric.from_dict([{"requirement": "Is loud"}])
    >>> rubric.grade_sync("HEY", autograder=Shouting()).score
    1.0
    """

    # Which of the methods `judge`, `aggregate` and `grade` a subclass overrides.
    _overridden: ClassVar[frozenset[str]] = frozenset()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls._overridden = _find_overridden(cls)
        if cls._overridden:
            cls.answer = Autograder.answer  # in place of the `answer()` of a built-in grader
        if cls._overridden & {"aggregate", "grade"}:
            cls.returns_report = True
        if "grade" in cls._overridden:
            cls.penalises_itself = True

    @abstractmethod
    async def judge(self, to_grade: str, rubric: list[Criterion], query: str | None = None) -> Any:
        """Return one answer per criterion, in order, or one report for all of them.

        An answer is a verdict, a number, a `Score` or a report line. An exception is an error of
        every criterion.
        """

    async def aggregate(self, judge_results: Any, *, normalize: bool = True) -> EvaluationReport:
        """Turn the results of `judge()` into a report."""
        if isinstance(judge_results, EvaluationReport):
            return judge_results
        lines = [
            add_verdict_value(line) for line in cast("Sequence[CriterionReport]", judge_results)
        ]
        return aggregate(lines, scale="unit" if normalize else "raw")

    async def grade(
        self, to_grade: ToGrade, rubric: list[Criterion], query: str | None = None
    ) -> EvaluationReport:
        """Judge and aggregate without a rubric. Failures are raised."""
        if not self._overridden:
            return await super().grade(to_grade, rubric, query)
        refuse_step_criteria(rubric)
        judge_input = _find_input(to_grade, query)
        if judge_input is None:
            judge_input = build_judge_input(
                {"prompt": query, "completion": to_grade}, takes_media=self.takes_media
            )
        answer = await self._judge_and_aggregate(judge_input, rubric)
        report = report_from(answer, rubric, self.scale)
        return apply_length_penalty(
            report, judge_input.assistant_text, self.length_penalty, floor=self.normalize
        )

    async def answer(
        self, judge_input: JudgeInput, criteria: list[Criterion], *, on_error: OnError
    ) -> JudgeAnswer:
        """Answer through the overridden methods. Results are complete, or an exception is raised."""
        if "grade" not in self._overridden:
            return await self._judge_and_aggregate(judge_input, criteria)
        with set_variable(_current_input, judge_input):
            report = await self.grade(judge_input.text, criteria, judge_input.query)
        return self._check_report(report, criteria)

    async def _judge_and_aggregate(
        self, judge_input: JudgeInput, criteria: list[Criterion]
    ) -> JudgeAnswer:
        with set_variable(_current_input, judge_input):
            results = await self.judge(judge_input.text, criteria, judge_input.query)
            if "aggregate" in self._overridden:
                report = await self.aggregate(results, normalize=self.normalize)
                return self._check_report(report, criteria)
        if isinstance(results, EvaluationReport):
            return complete_report(results, criteria, self.scale)
        answers = _check_results(results, criteria)
        return [
            check_citations(criterion, coerce_judge_answer(criterion, answer), judge_input)
            for criterion, answer in zip(criteria, answers, strict=True)
        ]

    def _check_report(self, report: object, criteria: list[Criterion]) -> EvaluationReport:
        if not isinstance(report, EvaluationReport):
            raise JudgeError(f"aggregate() returned {report!r:.200}: return an EvaluationReport")
        return complete_report(report, criteria, self.scale)


def _find_overridden(cls: type[Autograder]) -> frozenset[str]:
    """Return which methods a class overrides: those defined nearer than the `answer()` it inherits."""
    overridden: set[str] = set()
    for ancestor in cls.__mro__:
        if ancestor is Autograder or _writes_answer(ancestor):
            break
        overridden.update({"judge", "aggregate", "grade"} & vars(ancestor).keys())
    return frozenset(overridden)


def _writes_answer(cls: type) -> bool:
    """Whether a class defines an `answer()` other than the one of `Autograder`."""
    return vars(cls).get("answer", Autograder.answer) is not Autograder.answer


def _find_input(to_grade: ToGrade, query: str | None) -> JudgeInput | None:
    """Return the input of the running `judge()` or `grade()` if this is its text."""
    judge_input = _current_input.get()
    if judge_input is not None and (judge_input.text, judge_input.query) == (to_grade, query):
        return judge_input
    return None


def _check_results(results: object, criteria: Sequence[Criterion]) -> Sequence[object]:
    """Raise unless `judge()` returned one answer per criterion."""
    if isinstance(results, str | Mapping) or not isinstance(results, Sequence):
        raise JudgeError(
            f"judge() returned {results!r:.200}: return one answer per criterion, in order"
        )
    answers = cast("Sequence[object]", results)
    if len(answers) != len(criteria):
        raise JudgeError(
            f"judge() returned {len(answers)} answers to {len(criteria)} criteria: "
            "return one per criterion, in order"
        )
    return answers


class BuiltInGrader(Autograder):
    """A grader that writes `answer()`, and whose subclasses may override `judge()` and the like."""

    @abstractmethod
    async def answer(
        self, judge_input: JudgeInput, criteria: list[Criterion], *, on_error: OnError
    ) -> JudgeAnswer:
        """Return one score per criterion, in order, or one report for all of them."""

    async def judge(self, to_grade: str, rubric: list[Criterion], query: str | None = None) -> Any:
        """Return one report line per criterion, or one report. The first failure is raised."""
        judge_input = _find_input(to_grade, query) or JudgeInput(to_grade, query=query)
        built_in_answer = _find_built_in_answer(type(self))
        answer = await built_in_answer(self, judge_input, rubric, on_error="raise")
        if isinstance(answer, EvaluationReport):
            return answer
        return [
            make_line(criterion, score) for criterion, score in zip(rubric, answer, strict=True)
        ]


def _find_built_in_answer(cls: type[Autograder]) -> Callable[..., Awaitable[JudgeAnswer]]:
    """Return the `answer()` that a class would have if it overrode nothing."""
    writer = next(ancestor for ancestor in cls.__mro__ if _writes_answer(ancestor))
    return vars(writer)["answer"]
