"""Define what a grader is: a grader answers the criteria that a model judges, about one text.

`Autograder` is for judges of your own, written as `judge()` and, where you have a formula, `aggregate()`. `Grader` is
for those whose questions can fail one by one, written as `ask()`; a `Composite` is a `Grader` around other graders.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, ClassVar, Self, TypeAlias, TypedDict, cast

from assay.aggregation import Scale, stakes, sum_behind
from assay.concurrency import FAILURES
from assay.criterion import Criterion
from assay.errors import JudgeError
from assay.graders.judge_input import ToGrade, refuse_media, shown
from assay.graders.length import LengthPenalty, penalised
from assay.graders.verdicts import cited, failed_score, finite, score_of, with_value
from assay.models.model import Model
from assay.report import (
    CriterionReport,
    EvaluationReport,
    Score,
    aggregate,
    aggregate_answers,
    line_of,
)
from assay.types import OnError
from assay.wording import short_repr

JudgeAnswer: TypeAlias = (
    list[Score] | EvaluationReport
)  # one score a criterion, in order, or one report for the whole


@dataclass(frozen=True)
class JudgeOptions:
    """What graders around a grader may change about the way it asks; a `generate_fn` sees what changes a prompt."""

    sample: int = (
        0  # which of several answers to one question; each is asked, and cached, for itself
    )
    temperature: float | None = 0.0  # None leaves it to the endpoint
    logprobs: int | None = (
        None  # how many alternatives to ask for with each token; None asks for none
    )
    reverse: bool = False  # whether the choices are listed the other way round
    examples: str = ""  # what follows the system prompt: judged examples


OptionsChange: TypeAlias = Callable[[JudgeOptions], JudgeOptions]


def _refuse_steps(criteria: Sequence[Criterion]) -> None:
    for criterion in criteria:
        if criterion.scope != "rollout":
            raise JudgeError(
                f"criterion {criterion.name!r} is asked about each {criterion.scope}: score by a Rubric"
            )


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
    takes_media: bool = (
        False  # whether `judge()` reads the `media` of what it is given, and not its text alone
    )
    judges_whole: bool = (
        False  # whether it asks for one number for all criteria, and not for an answer to each
    )
    # Which steps the class has in place of the ones in this module; `formula` for one that adds up itself.
    _own_steps: ClassVar[frozenset[str]] = frozenset()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        # Steps may be replaced in any class, a shipped grader's too; what a subclass wrote is used then.
        own = {
            step
            for step in ("judge", "aggregate", "grade")
            if getattr(cls, step).__module__ != __name__
        }
        cls._own_steps = frozenset(own | {"formula"} if own & {"aggregate", "grade"} else own)

    def __init__(
        self, *, normalize: bool = True, length_penalty: LengthPenalty | None = None
    ) -> None:
        """`normalize=False` makes the raw sum the score; `length_penalty` is taken off the score."""
        self.normalize = normalize
        self.length_penalty = length_penalty

    @abstractmethod
    async def judge(self, to_grade: str, rubric: list[Criterion], query: str | None = None) -> Any:
        """One answer a criterion, in order: verdicts, numbers, `Score`s or report lines; or one report for the whole.

        An exception is an error, never a score.
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
        _refuse_steps(rubric)
        text = cast("str", to_grade)
        if not isinstance(to_grade, str):  # a text may be what a rubric has made ready
            text, query = shown(
                {"prompt": query, "completion": to_grade}, takes_media=self.takes_media
            )
        results = await self.judge(text, rubric, query)
        if "aggregate" in self._own_steps:
            report = await self.aggregate(results, normalize=self.normalize)
        else:
            report = self.report_of(read_answers(results, rubric, self.scale), rubric)
        return penalised(report, text, self.length_penalty, floor=self.normalize)

    async def answer(
        self,
        to_grade: str,
        criteria: list[Criterion],
        query: str | None = None,
        *,
        on_error: OnError = "record",
    ) -> JudgeAnswer:
        """What a rubric calls: one `Score` a criterion, or one report for the whole.

        With a formula of its own or a length penalty a grader answers with a report. `on_error` says whether one
        of several calls may fail alone. Whatever is raised from here fails every criterion.
        """
        _refuse_steps(criteria)
        uncheckable = (
            next((c for c in criteria if c.requires_evidence), None) if self.gives_whole else None
        )
        if uncheckable is not None:
            given = f"{self.title} gives one number for all criteria, and {uncheckable.name!r} requires evidence"
            raise JudgeError(f"{given}: use a grader that answers each criterion")
        if not self.takes_media:
            refuse_media(
                [each.part for each in getattr(to_grade, "media", ())], f"{self.title} asks in text"
            )
        if "formula" in self._own_steps:
            return as_whole(await self.grade(to_grade, criteria, query), criteria, self.scale)
        # A subclass with a `judge` of its own gets whole results only, or an exception.
        ask = Autograder.ask if "judge" in self._own_steps else type(self).ask
        answer = await ask(self, to_grade, criteria, query, on_error)
        if self.length_penalty is None:
            return answer
        return penalised(
            self.report_of(answer, criteria), to_grade, self.length_penalty, floor=self.normalize
        )

    async def ask(
        self, to_grade: str, criteria: list[Criterion], query: str | None, on_error: OnError
    ) -> JudgeAnswer:
        """One score a criterion, or one report for the whole. Raises when nothing was answered."""
        found = read_answers(await self.judge(to_grade, criteria, query), criteria, self.scale)
        if isinstance(found, EvaluationReport):
            return found
        return [
            cited(criterion, score, to_grade)
            for criterion, score in zip(criteria, found, strict=True)
        ]

    def report_of(self, answer: JudgeAnswer, criteria: Sequence[Criterion]) -> EvaluationReport:
        """The report that these answers come to, by the weighted rule."""
        if isinstance(answer, EvaluationReport):
            return as_whole(answer, criteria, self.scale)
        return aggregate_answers(criteria, answer, scale=self.scale)

    def with_options(self, change: OptionsChange) -> "Autograder":
        """This grader, putting its questions another way; itself when it does not ask through our models."""
        return self

    @property
    def title(self) -> str:
        """What this grader is called among others."""
        return type(self).__name__

    def models(self) -> tuple[Model, ...]:
        """The models it asks; none of a grader that does not ask through ours."""
        return ()

    @property
    def gives_whole(self) -> bool:
        """Whether a rubric gets one number from it: it asks for one, or has a formula of its own."""
        return self.judges_whole or "formula" in self._own_steps

    @property
    def scale(self) -> Scale | None:
        """The scale this grader asks for; None leaves it to the rubric."""
        return None if self.normalize else "raw"


class Grader(Autograder):
    """A grader that writes `ask()`: some of its answers may fail while others hold."""

    @abstractmethod
    async def ask(
        self, to_grade: str, criteria: list[Criterion], query: str | None, on_error: OnError
    ) -> JudgeAnswer:
        """One score a criterion, or one report for the whole. Raises when nothing was answered."""

    async def judge(self, to_grade: str, rubric: list[Criterion], query: str | None = None) -> Any:
        """One report line a criterion, or one report for the whole. The first failure is raised."""
        answer = await self.ask(to_grade, rubric, query, "raise")
        if isinstance(answer, EvaluationReport):
            return answer
        return [line_of(criterion, score) for criterion, score in zip(rubric, answer, strict=True)]


class WrapOptions(TypedDict, total=False):
    """What every grader around graders takes."""

    normalize: (
        bool | None
    )  # False makes the raw sum the score; None does as the first grader inside
    length_penalty: LengthPenalty | None


class Composite(Grader):
    """Asks the graders inside it, and makes one answer of theirs. They can be composites too."""

    takes_media = True  # those inside refuse what they cannot take
    takes_wholes: ClassVar[bool] = (
        False  # whether graders that give one number for all criteria may be inside
    )

    def __init__(
        self,
        inner: Sequence[Autograder],
        *,
        normalize: bool | None = None,
        length_penalty: LengthPenalty | None = None,
    ) -> None:
        for grader in inner:
            self._refuse(grader)
        if not inner:
            raise ValueError(
                f"{type(self).__name__} has no grader to ask: give it at least one grader"
            )
        own = inner[0].normalize if normalize is None else normalize
        super().__init__(normalize=own, length_penalty=length_penalty)
        self.inner = tuple(inner)
        self.judges_whole = self.judges_whole or any(grader.gives_whole for grader in inner)

    @property
    def title(self) -> str:
        """The title of the one grader inside, or of all of them."""
        titles = list(dict.fromkeys(grader.title for grader in self.inner))
        return titles[0] if len(self.inner) == 1 else f"{type(self).__name__}({', '.join(titles)})"

    def models(self) -> tuple[Model, ...]:
        return tuple(model for grader in self.inner for model in grader.models())

    def with_options(self, change: OptionsChange) -> Self:
        inner = tuple(grader.with_options(change) for grader in self.inner)
        if all(new is old for new, old in zip(inner, self.inner, strict=True)):
            return self
        changed = copy(self)
        changed.inner = inner
        return changed

    def _changed(self, grader: Autograder, change: OptionsChange, cannot: str = "") -> Autograder:
        """The grader, putting its questions another way; `cannot` says what is lost where that cannot be."""
        self._refuse(grader)
        changed = grader.with_options(change)
        if cannot and changed is grader:
            advice = "use a grader that asks a model through `model=` or `generate_fn=`"
            raise ValueError(
                f"{grader.title} puts its questions in its own way, so {cannot}: {advice}"
            )
        return changed

    def _refuse(self, grader: object) -> None:
        name = type(self).__name__
        if not isinstance(grader, Autograder):
            raise TypeError(f"{name} takes graders, and this is {short_repr(grader)}")
        if grader.length_penalty is not None:
            needed = f"{name} needs its answers: give length_penalty to {name}"
            raise ValueError(f"{grader.title} takes a length penalty off a score, and {needed}")
        if grader.gives_whole and not self.takes_wholes:
            advice = "use PerCriterionGrader, PerCriterionOneShotGrader or your own judge()"
            given = f"{grader.title} gives one number for all criteria, and {name} needs an answer to each"
            raise ValueError(f"{given}: {advice}")


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
        return [failed_score(error, on_error)] * len(criteria)
    return [finite(c, score) for c, score in zip(criteria, answer, strict=True)]


def read_answers(
    results: Any, criteria: Sequence[Criterion], scale: Scale | None = None
) -> JudgeAnswer:
    """Whatever `judge()` returned, as one score a criterion or one report for the whole."""
    if isinstance(results, EvaluationReport):
        return as_whole(results, criteria, scale)
    if isinstance(results, (str, Mapping)) or not isinstance(results, Sequence):
        raise JudgeError(
            f"judge() returned {results!r:.200}: return one answer a criterion, in order"
        )
    answers = cast("Sequence[object]", results)
    if len(answers) != len(criteria):
        given = f"{len(answers)} answers to {len(criteria)} criteria"
        raise JudgeError(f"judge() returned {given}: return one a criterion, in order")
    return list(map(score_of, criteria, answers))


def as_whole(
    report: EvaluationReport, criteria: Sequence[Criterion], scale: Scale | None = None
) -> EvaluationReport:
    """A report with what its formula left out: sums, counts, and the values of its lines. The score stays as it is."""
    if not isinstance(report, EvaluationReport):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise JudgeError(f"aggregate() returned {report!r:.200}: return an EvaluationReport")
    for number in (report.score, report.raw_score):
        if number is not None and not math.isfinite(number):
            raise JudgeError(f"the grader's report has a score of {number}: give a finite number")
    if report.gain or report.loss or report.asked or report.unneeded:
        return report
    scale = scale or report.scale
    weights = [criterion.weight for criterion in criteria if criterion.counts]
    gain, loss = stakes(weights)
    worth = None if report.score is None else sum_behind(report.score, gain, loss, scale)
    # The sum that comes to the report's score, unless it has one of its own.
    raw = (worth or 0.0) if report.raw_score is None else report.raw_score
    lines = report.report if report.report is None else list(report.report)
    if lines is not None and len(lines) == len(criteria):
        # Lines that give a verdict alone get the criterion's name and the verdict's value.
        pairs = zip(criteria, lines, strict=True)
        lines = [
            line if line.value is not None else line_of(c, score_of(c, line)) for c, line in pairs
        ]
    unanswered = sum(line.counted and not line.answered for line in lines or ())
    nothing = not weights or not report.scored
    answered = 0 if nothing else max(0, len(weights) - unanswered)
    numbers = {"score": None, "raw_score": None} if nothing else {"raw_score": raw}
    counts = {"gain": gain, "loss": loss, "asked": len(weights), "answered": answered}
    return report.model_copy(
        update={**numbers, **counts, "report": lines, "worth": worth, "scale": scale}
    )
