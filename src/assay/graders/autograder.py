"""Adapt graders that override `judge()`, `aggregate()` or `grade()` to `Grader.answer()`.

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
    raise_if_about_steps,
    raise_if_columns_needed,
    report_from,
)
from assay.graders.judge_input import JudgeInput, ToGrade, build_judge_input
from assay.graders.length import apply_length_penalty
from assay.graders.verdicts import add_verdict_value, check_citations, coerce_judge_answer
from assay.report import CriterionReport, EvaluationReport, Score, aggregate, make_line
from assay.types import OnError

# The input of the overridden method that is running. A method such as `judge()` gets only its text
# and query. If it calls `super().judge()`, the rest of the input is taken from here.
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
    >>> rubric.grade_sync("HEY", judge=Shouting()).score
    1.0
    """

    # Names of the methods that a subclass overrides, out of `judge`, `aggregate` and `grade`.
    _overridden_methods: ClassVar[frozenset[str]] = frozenset()

    def __init_subclass__(cls, **options: Any) -> None:
        """Find which methods a subclass overrides, so that it is asked through these."""
        super().__init_subclass__(**options)
        cls._overridden_methods = _find_overridden(cls)
        if cls._overridden_methods:
            # In place of the `answer()` of a built-in grader, which would not call the overrides.
            cls.answer = Autograder.answer
        if cls._overridden_methods & {"aggregate", "grade"}:
            cls.returns_report = True
        if "grade" in cls._overridden_methods:
            cls.penalises_itself = True  # `grade()` applies the length penalty

    @abstractmethod
    async def judge(self, to_grade: str, rubric: list[Criterion], query: str | None = None) -> Any:
        """Return one answer per criterion, in order, or one report for all of them.

        An answer is a verdict, a number, a `Score` or a report line. An exception is an error of
        every criterion.
        """

    async def aggregate(self, judge_results: Any, *, normalize: bool = True) -> EvaluationReport:
        """Turn the result of `judge()`, report lines or a finished report, into a report.

        With `normalize=False`, the score is the weighted sum.
        """
        if isinstance(judge_results, EvaluationReport):
            return judge_results
        lines = cast("Sequence[CriterionReport]", judge_results)
        lines_with_values = [add_verdict_value(line) for line in lines]
        scale = "unit" if normalize else "raw"
        return aggregate(lines_with_values, scale=scale)

    async def grade(
        self, to_grade: ToGrade, rubric: list[Criterion], query: str | None = None
    ) -> EvaluationReport:
        """Judge one response by some criteria without a `Rubric`. Failures are raised.

        A subclass may override this method, and call it as `super().grade()`.
        """
        if not self._overridden_methods:
            return await super().grade(to_grade, rubric, query)  # which calls `answer()`
        raise_if_about_steps(rubric)
        # A subclass that calls `super().grade()` passes on only the text and the query. If they are
        # from a rollout that is being judged, its media and fields are known too.
        judge_input = _find_whole_input(to_grade, query)
        if judge_input is None:
            raise_if_columns_needed(rubric)
            judge_input = build_judge_input(
                {"prompt": query, "completion": to_grade}, takes_media=self.takes_media
            )
        answer = await self._judge_and_aggregate(judge_input, rubric)
        report = report_from(answer, rubric, self.scale)
        return apply_length_penalty(report, judge_input, self.length_penalty, floor=self.normalize)

    async def answer(
        self, judge_input: JudgeInput, criteria: list[Criterion], *, on_error: OnError
    ) -> JudgeAnswer:
        """Answer through the methods that the subclass overrides.

        An overridden `grade()` is called alone, since it judges and aggregates itself. The methods
        return a result for all criteria or raise, so `on_error` makes no difference.
        """
        if judge_input.reference and not isinstance(self, BuiltInGrader):
            raise JudgeError(
                f"{self.title} gets only the text and the query, so it cannot show the reference: "
                "subclass Grader, whose answer() gets judge_input.reference"
            )
        if "grade" in self._overridden_methods:
            # `grade()` gets only text and query; see `_current_input`.
            with set_variable(_current_input, judge_input):
                report = await self.grade(judge_input.text, criteria, judge_input.query)
            return self._check_report(report, criteria)
        return await self._judge_and_aggregate(judge_input, criteria)

    async def _judge_and_aggregate(
        self, judge_input: JudgeInput, criteria: list[Criterion]
    ) -> JudgeAnswer:
        """Call `judge()`, and `aggregate()` if the subclass overrides it.

        Returns one report if either of them returns one, otherwise one score per criterion.
        """
        # An overridden method gets only text and query. If it calls `super()`, the built-in method
        # finds the whole input in this variable.
        with set_variable(_current_input, judge_input):
            results = await self.judge(judge_input.text, criteria, judge_input.query)
            if "aggregate" in self._overridden_methods:
                report = await self.aggregate(results, normalize=self.normalize)
                return self._check_report(report, criteria)
        if isinstance(results, EvaluationReport):
            return complete_report(results, criteria, self.scale)
        answers = _check_results(results, criteria)
        scores: list[Score] = []
        for criterion, answer in zip(criteria, answers, strict=True):
            score = coerce_judge_answer(criterion, answer)
            scores.append(check_citations(criterion, score, judge_input))
        return scores

    def _check_report(self, report: object, criteria: list[Criterion]) -> EvaluationReport:
        """Return what an overridden method returned, with the missing fields filled in.

        Raises if it is not a report.
        """
        if not isinstance(report, EvaluationReport):
            raise JudgeError(f"aggregate() returned {report!r:.200}: return an EvaluationReport")
        return complete_report(report, criteria, self.scale)


def _find_overridden(cls: type[Autograder]) -> frozenset[str]:
    """Return which of the methods `judge`, `aggregate` and `grade` a class overrides.

    A built-in grader defines `judge()` too, but it is asked through its own `answer()`. So only
    the methods of its subclasses count.
    """
    overridden: set[str] = set()
    for ancestor in cls.__mro__:
        if ancestor is Autograder or _defines_answer(ancestor):
            break  # this is the built-in grader, or the base class of all graders with `judge()`
        overridden.update({"judge", "aggregate", "grade"} & vars(ancestor).keys())
    return frozenset(overridden)


def _defines_answer(cls: type) -> bool:
    """Whether a class itself defines an `answer()`, other than the one of `Autograder`.

    `Autograder.answer` is also in the namespace of a class that overrides `judge()`, because
    `__init_subclass__()` puts it there.
    """
    own_answer = vars(cls).get("answer")
    return own_answer is not None and own_answer is not Autograder.answer


def _find_whole_input(to_grade: ToGrade, query: str | None) -> JudgeInput | None:
    """Return the whole input that this text and query are from, with media and rollout fields.

    It is known if an overridden method is running and passes its text and query on unchanged.
    Returns None if the text is a different one, or if no overridden method is running.
    """
    judge_input = _current_input.get()
    if judge_input is None:
        return None
    if judge_input.text == to_grade and judge_input.query == query:
        return judge_input
    return None


def _check_results(results: object, criteria: Sequence[Criterion]) -> Sequence[object]:
    """Return the results of `judge()` as answers. Raise unless there is one per criterion."""
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
        """Return one report line per criterion, or one report, from the built-in `answer()`.

        The first failure is raised.
        """
        judge_input = _find_whole_input(to_grade, query)
        if judge_input is None:
            raise_if_columns_needed(rubric)
            judge_input = JudgeInput(to_grade, query=query)
        # An overridden `judge()` may have called this method as `super().judge()`. Then
        # `self.answer()` would call the overridden method again, without end.
        built_in_answer = _find_built_in_answer(type(self))
        answer = await built_in_answer(self, judge_input, rubric, on_error="raise")
        if isinstance(answer, EvaluationReport):
            return answer
        return [
            make_line(criterion, score) for criterion, score in zip(rubric, answer, strict=True)
        ]


def _find_built_in_answer(cls: type[Autograder]) -> Callable[..., Awaitable[JudgeAnswer]]:
    """Return the `answer()` of the built-in grader that a class derives from."""
    for ancestor in cls.__mro__:
        if _defines_answer(ancestor):
            return vars(ancestor)["answer"]
    raise TypeError(f"{cls.__name__} does not derive from a grader with answer()")
