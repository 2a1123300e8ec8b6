"""Define what a grader is: it answers the judged criteria about one response.

A grader subclasses `Grader` and writes `answer()`. Rubrics, and graders around other graders, call
it through `ask_grader()`. `grader_of()` makes one of whatever is given as `judge=`. `autograder.py`
holds the older interface of `judge()` and `aggregate()`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast, overload

from assay.aggregation import Scale, denormalise, stakes
from assay.concurrency import FAILURES
from assay.criterion import Criterion
from assay.errors import JudgeError
from assay.graders.judge_input import JudgeInput, ToGrade, build_judge_input, raise_if_media
from assay.graders.length import LengthPenalty, apply_length_penalty
from assay.graders.verdicts import (
    check_score,
    coerce_judge_answer,
    failed_score,
    to_finite_float,
)
from assay.models.model import Model
from assay.placeholders import list_paths
from assay.report import CriterionReport, EvaluationReport, Score, aggregate_answers, make_line
from assay.types import OnError
from assay.wording import format_value

# One score per criterion, in order, or one report for all criteria together.
JudgeAnswer: TypeAlias = list[Score] | EvaluationReport


@dataclass(frozen=True)
class JudgeOptions:
    """How a grader asks its questions. Graders around it change these through `with_options()`."""

    # Number of the sample: each is asked, and cached, separately.
    sample: int = 0
    temperature: float | None = 0.0  # None uses the endpoint's default
    logprobs: int | None = None  # alternatives to request with each token; None requests none
    reverse: bool = False  # whether choices are listed from best to worst
    extra_instructions: str = ""  # text after the system prompt, such as judged examples


OptionsChange: TypeAlias = Callable[[JudgeOptions], JudgeOptions]


class Grader(ABC):
    """Answers judged criteria about one response. Subclasses write `answer()`.

    >>> from assay import Rubric, Score
    >>> class Shouting(Grader):
    ...     async def answer(self, judge_input, criteria, *, on_error):
    ...         return [Score(float(judge_input.text.isupper())) for _ in criteria]
    >>> rubric = Rubric.from_dict([{"requirement": "Is loud"}])
    >>> rubric.grade_sync("HEY", judge=Shouting()).score
    1.0
    """

    # Defaults on the class, for a subclass whose __init__ does not call this one.
    normalize: bool = True
    length_penalty: LengthPenalty | None = None
    # Whether `answer()` reads `judge_input.media`. A grader that does not is never given media.
    takes_media: bool = False
    # Whether `answer()` returns one report for all criteria instead of one score for each.
    returns_report: bool = False
    # Whether its judge reads more than it is given, such as files, which may change between two
    # scorings of one rollout. Saved answers are then not reused.
    reads_outside: bool = False
    # Whether `answer()` has already applied the length penalty.
    penalises_itself: bool = False

    def __init__(
        self, *, normalize: bool = True, length_penalty: LengthPenalty | None = None
    ) -> None:
        """`normalize=False` makes the raw sum the score; `length_penalty` lowers the score."""
        self.normalize = normalize
        self.length_penalty = length_penalty

    @abstractmethod
    async def answer(
        self, judge_input: JudgeInput, criteria: list[Criterion], *, on_error: OnError
    ) -> JudgeAnswer:
        """Return one score per criterion, in order, or one report for all of them.

        If a question fails, `on_error="record"` returns a failed score for it and keeps the other
        scores; `on_error="raise"` raises the error. An exception from this method counts as a
        failure of all criteria.
        """

    async def grade(
        self, to_grade: ToGrade, rubric: list[Criterion], query: str | None = None
    ) -> EvaluationReport:
        """Grade one response without a rubric. Failures are raised."""
        raise_if_columns_needed(rubric)
        judge_input = build_judge_input(
            {"prompt": query, "completion": to_grade}, takes_media=self.takes_media
        )
        answer = await ask_grader(self, judge_input, rubric, on_error="raise")
        return report_from(answer, rubric, self.scale)

    def with_options(self, change: OptionsChange) -> "Grader":
        """Return a copy that asks with changed options; itself if it does not use them."""
        return self

    @property
    def title(self) -> str:
        """The name of this grader in votes and messages."""
        return type(self).__name__

    def models(self) -> tuple[Model, ...]:
        """Return the models that it asks."""
        return ()

    @property
    def scale(self) -> Scale | None:
        """The scale that this grader requires; None leaves it to the rubric."""
        if self.normalize:
            return None
        return "raw"


# A grader; or a model, its name, or a function of two prompts, to be asked about each criterion.
JudgeSource: TypeAlias = Grader | Model | Callable[..., Any] | str

_HOW_TO_NAME_A_JUDGE = (
    "give the name of a model such as 'openai/gpt-5-mini', a model, a function of "
    "(system_prompt, user_prompt), or a grader such as PerCriterionGrader(...)"
)


@overload
def grader_of(judge: JudgeSource) -> Grader: ...


@overload
def grader_of(judge: JudgeSource | None) -> Grader | None: ...


def grader_of(judge: JudgeSource | None) -> Grader | None:
    """Return the grader that a judge stands for; None for None.

    A grader is returned as it is. A model, its name or URL, and a function of `(system_prompt,
    user_prompt)` are asked about each criterion in turn, by a `PerCriterionGrader`. Raises TypeError
    for anything else, and `Refused` if a text does not name a model.

    >>> from assay.testing import FakeModel
    >>> grader_of(FakeModel("MET", judge_id="always met")).title
    'always met'
    """
    if judge is None or isinstance(judge, Grader):
        return judge
    _raise_if_no_judge(judge)
    from assay.graders.model_grader import PerCriterionGrader  # loaded only where it is used

    return PerCriterionGrader(model=judge)


def _raise_if_no_judge(judge: object) -> None:
    """Raise TypeError unless this is a text, a model or a function that can be asked."""
    from assay.models.sdk import format_of_client

    if isinstance(judge, type):
        advice = _HOW_TO_NAME_A_JUDGE
        if issubclass(judge, Grader | Model):
            advice = f"give an object of it, {judge.__name__}(...)"
        raise TypeError(f"judge is the class {judge.__name__}: {advice}")
    if isinstance(judge, str | Model):
        return
    if format_of_client(cast("Any", judge)) is not None:
        raise TypeError(
            f"judge is {format_value(judge)}, a client that does not say which model to ask: "
            "give model_of(client, 'gpt-5-mini'), with the name of your model"
        )
    if not callable(judge):
        raise TypeError(f"judge is {format_value(judge)}: {_HOW_TO_NAME_A_JUDGE}")


async def ask_grader(
    grader: Grader,
    judge_input: JudgeInput,
    criteria: list[Criterion],
    *,
    on_error: OnError = "record",
) -> JudgeAnswer:
    """Return a grader's answer about one response, with its length penalty applied.

    Raises a `JudgeError`, without asking, if the grader cannot judge these criteria or media. With
    a length penalty, the answer is a report, since the penalty lowers the score of the whole.
    """
    _check_can_judge(grader, judge_input, criteria)
    answer = await grader.answer(judge_input, criteria, on_error=on_error)
    if grader.length_penalty is None or grader.penalises_itself:
        return answer
    report = report_from(answer, criteria, grader.scale)
    return apply_length_penalty(report, judge_input, grader.length_penalty, floor=grader.normalize)


def _check_can_judge(
    grader: Grader, judge_input: JudgeInput, criteria: Sequence[Criterion]
) -> None:
    """Raise a `JudgeError` if the grader cannot judge one of the criteria, or takes no media."""
    raise_if_about_steps(criteria)
    if grader.returns_report:
        _raise_if_evidence_required(grader, criteria)
    if judge_input.media and not grader.takes_media:
        parts = [attachment.part for attachment in judge_input.media]
        raise_if_media(parts, f"{grader.title} asks in text")


def raise_if_about_steps(criteria: Sequence[Criterion]) -> None:
    """Raise a `JudgeError` if a criterion is asked about each step and not about the rollout.

    Only a rubric divides a rollout into steps.
    """
    for criterion in criteria:
        if criterion.scope != "rollout":
            raise JudgeError(
                f"criterion {criterion.name!r} is asked about each {criterion.scope}: "
                "score it with a Rubric"
            )


def raise_if_columns_needed(criteria: Sequence[Criterion]) -> None:
    """Raise a `JudgeError` if a criterion needs columns of a row, which only a rubric has."""
    for criterion in criteria:
        columns = list(criterion.reference)
        is_filled = "template_hash" in criterion.memo
        if not is_filled:
            columns += list_paths(criterion.requirement)
        if columns:
            raise JudgeError(
                f"criterion {criterion.name!r} needs columns of a row ({', '.join(columns)}): "
                "score it with a Rubric"
            )


def _raise_if_evidence_required(grader: Grader, criteria: Sequence[Criterion]) -> None:
    """Raise a `JudgeError` if a criterion requires evidence.

    A grader that gives one number for all criteria gives no evidence for each.
    """
    for criterion in criteria:
        if criterion.requires_evidence:
            raise JudgeError(
                f"{grader.title} gives one number for all criteria, and {criterion.name!r} "
                "requires evidence: use a grader that answers each criterion"
            )


async def scores_from(
    grader: Grader,
    judge_input: JudgeInput,
    criteria: list[Criterion],
    *,
    on_error: OnError = "record",
) -> list[Score]:
    """Return a grader's score for every criterion, in order.

    If the grader raises, every criterion gets a failed score; `on_error="raise"` raises instead.
    """
    if not criteria:
        return []
    try:
        answer = await ask_grader(grader, judge_input, criteria, on_error=on_error)
        if isinstance(answer, EvaluationReport):
            raise JudgeError(
                f"{grader.title} gave one number for all criteria instead of one for each"
            )
    except FAILURES as error:
        return [failed_score(error, on_error)] * len(criteria)
    return [
        check_score(criterion, score) for criterion, score in zip(criteria, answer, strict=True)
    ]


def report_from(
    answer: JudgeAnswer, criteria: Sequence[Criterion], scale: Scale | None
) -> EvaluationReport:
    """Return an answer as a report: a report is completed, and scores become a weighted sum."""
    if isinstance(answer, EvaluationReport):
        return complete_report(answer, criteria, scale)
    return aggregate_answers(criteria, answer, scale=scale)


def complete_report(
    report: EvaluationReport, criteria: Sequence[Criterion], scale: Scale | None
) -> EvaluationReport:
    """Fill in what a grader's report for all criteria leaves out: sums, counts and line values.

    The score stays the grader's. It becomes None if no criterion counts, or if the report says that
    the rollout has no score.
    """
    for number in (report.score, report.raw_score):
        if number is not None and to_finite_float(number) is None:
            raise JudgeError(
                f"the grader's report has a score of {format_value(number)}: give a finite number"
            )
    # Only `aggregate()` sets these fields, and it leaves out nothing.
    is_complete = report.gain or report.loss or report.asked or report.unneeded
    if is_complete:
        return report
    scale = scale or report.scale
    weights = [criterion.weight for criterion in criteria if criterion.counts]
    gain, loss = stakes(weights)  # what all wanted criteria add, and all faults subtract
    worth = None  # the weighted sum that corresponds to the score
    if report.score is not None:
        worth = denormalise(report.score, gain, loss, scale)
    lines = _complete_lines(report, criteria)
    unanswered_lines = [line for line in lines or () if line.counted and not line.answered]

    if weights and report.scored:
        score = report.score
        raw_score = report.raw_score
        if raw_score is None:
            raw_score = worth or 0.0
        answered = max(0, len(weights) - len(unanswered_lines))
    else:  # the rollout has no score
        score = None
        raw_score = None
        answered = 0
    return report.model_copy(
        update={
            "score": score,
            "raw_score": raw_score,
            "report": lines,
            "gain": gain,
            "loss": loss,
            "asked": len(weights),
            "answered": answered,
            "worth": worth,
            "scale": scale,
        }
    )


def _complete_lines(
    report: EvaluationReport, criteria: Sequence[Criterion]
) -> list[CriterionReport] | None:
    """Return the lines of a report, one per criterion; one with only a verdict gets its value.

    If there is not one line per criterion, they are returned unchanged. Returns None if the report
    has no lines.
    """
    if report.report is None:
        return None
    lines = list(report.report)
    if len(lines) != len(criteria):
        return lines
    completed: list[CriterionReport] = []
    for criterion, line in zip(criteria, lines, strict=True):
        if line.value is None:
            completed.append(make_line(criterion, coerce_judge_answer(criterion, line)))
        else:
            completed.append(line)
    return completed
