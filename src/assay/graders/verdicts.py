"""Describe what a judge may reply, and read each reply as a `Score`. Only a verdict on offer counts.

The reply models are pydantic models whose JSON schema can be handed to a provider. The reason stands before the
verdict in each, so that a model writes it first. Their docstrings are part of the schema, and so of every cache key.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, Protocol, TypeAlias, cast

from pydantic import BaseModel, BeforeValidator, Field, model_validator

from assay import graders
from assay.concurrency import is_stop_request
from assay.criterion import BINARY_CHOICES, MAX_MAGNITUDE, Criterion
from assay.errors import JudgeError
from assay.graders.judge_input import JudgeInput
from assay.messages import get_field
from assay.report import CriterionReport, Score
from assay.types import OnError
from assay.wording import format_value

_Reason = Annotated[
    str, Field(description="Why, in one to three sentences that point at the response.")
]
# As a model may spell it: ` met` is MET.
_SPELLED = BeforeValidator(lambda word: word.strip().upper() if isinstance(word, str) else word)
_STATUS = Field(
    description="MET when what the criterion describes is present in the response, else UNMET."
)
_CHOICE = Field(description="One of the labels that were offered, spelled as they are.")
_EACH = Field(description="One entry for every criterion.", min_length=1)


class PerCriterionOutput(BaseModel):
    """The reply to one criterion.

    >>> PerCriterionOutput(criterion_status="MET", explanation="It names Paris.").criterion_status
    'MET'
    """

    explanation: _Reason
    criterion_status: Annotated[Literal["MET", "UNMET"], _SPELLED, _STATUS]


class ChoiceOutput(BaseModel):
    """The reply to one criterion that offers other labels than MET and UNMET."""

    explanation: _Reason
    choice: Annotated[str, _CHOICE]


class TurnedOutput(BaseModel):
    """The reply to one criterion where MET and UNMET are listed, UNMET first."""

    explanation: _Reason
    choice: Annotated[Literal["UNMET", "MET"], _SPELLED, _CHOICE]


class _Numbered(BaseModel):
    criterion_number: int = Field(description="The number of the criterion in the list, from 1.")

    @property
    def criterion_idx(self) -> int:
        """The place of the criterion in the list, from 0."""
        return self.criterion_number - 1

    @model_validator(mode="before")
    @classmethod
    def _read_index(cls, data: object) -> object:
        """`criterion_idx` counts from 0 and says the same as `criterion_number`."""
        if not isinstance(data, Mapping) or "criterion_idx" not in data:
            return cast("object", data)
        fields = dict(cast("Mapping[str, Any]", data))
        index, number = fields.pop("criterion_idx"), fields.get("criterion_number")
        if not isinstance(index, int):
            raise ValueError(f"criterion_idx is {index!r}: give a whole number, from 0")
        if number is not None and number != index + 1:
            raise ValueError(
                f"criterion_idx {index} and criterion_number {number} are different criteria: give one"
            )
        return fields | {"criterion_number": index + 1}


class CriterionEvaluation(PerCriterionOutput, _Numbered):
    """The reply to one criterion of a list: `criterion_number` from 1, or `criterion_idx` from 0.

    >>> CriterionEvaluation(criterion_idx=0, explanation="", criterion_status="MET").criterion_number
    1
    """


class ChoiceEvaluation(ChoiceOutput, _Numbered):
    """The reply to one criterion of a list in which some offer other labels."""


class OneShotOutput(BaseModel):
    """The replies to every criterion of a list."""

    criteria_evaluations: Annotated[list[CriterionEvaluation], _EACH]


class OneShotChoiceOutput(BaseModel):
    """The replies to every criterion of a list in which some offer other labels."""

    criteria_evaluations: Annotated[list[ChoiceEvaluation], _EACH]


class RubricAsJudgeOutput(BaseModel):
    """One number for a whole rubric."""

    explanation: _Reason
    overall_score: float = Field(
        description="How far the response satisfies the whole rubric, from 0 to 100.",
        allow_inf_nan=False,
    )


# A mapping with the same keys does as well as the model.
Verdict: TypeAlias = PerCriterionOutput | ChoiceOutput | Mapping[str, Any]
Verdicts: TypeAlias = OneShotOutput | OneShotChoiceOutput | Mapping[str, Any]
Number: TypeAlias = RubricAsJudgeOutput | Mapping[str, Any]


class PerCriterionGenerateFn(Protocol):
    """Asks a model about one criterion. Called by keyword."""

    def __call__(self, *, system_prompt: str, user_prompt: str) -> Awaitable[Verdict] | Verdict: ...


# By a system prompt and a user prompt: about all criteria at once, and for one number from 0 to 100.
OneShotGenerateFn: TypeAlias = Callable[[str, str], Awaitable[Verdicts] | Verdicts]
RubricAsJudgeGenerateFn: TypeAlias = Callable[[str, str], Awaitable[Number] | Number]


def verdict_score(criterion: Criterion, verdict: str, reason: str = "") -> Score:
    """The score of a verdict; an error when it was not on offer."""
    value = criterion.values.get(verdict)
    if value is not None:
        return Score(value, reason, verdict)
    folded = verdict.strip().casefold()
    if criterion.allow_na and folded in ("n/a", "na", "not applicable"):
        return Score.not_applicable(reason)
    for choice in criterion.choices:
        if choice.strip().casefold() == folded:
            return Score(criterion.values[choice], reason, choice)
    offered = ", ".join([*criterion.choices, *(["N/A"] if criterion.allow_na else [])])
    return Score.failed(
        JudgeError(f"the verdict {verdict[:80]!r} was not on offer ({offered})"), reason
    )


def no_field(reply: object, wanted: str) -> JudgeError:
    """The error of a reply that does not hold what is wanted, with what to return instead."""
    return JudgeError(f"the reply {reply!r:.200} of type {type(reply).__name__} holds no {wanted}")


def read_verdict(criterion: Criterion, reply: object) -> Score:
    """The score in a reply: `criterion_status` or `choice`, and `explanation`."""
    if (
        type(reply) is PerCriterionOutput
    ):  # as most are; a pydantic model is slow to say which fields it lacks
        return verdict_score(criterion, reply.criterion_status, reply.explanation)
    verdict = get_field(reply, "criterion_status")
    if verdict is None:
        verdict = get_field(reply, "choice")
    if not isinstance(verdict, str):
        wanted = "verdict: return a PerCriterionOutput, or a ChoiceOutput where labels are offered"
        return Score.failed(no_field(reply, wanted))
    reason = get_field(reply, "explanation")
    score = verdict_score(criterion, verdict, reason if isinstance(reason, str) else "")
    tokens = get_field(reply, "tokens")
    if tokens is None:
        return score
    # Loaded late: only a judge that is asked for log-probabilities needs it.
    return graders.expectation.expected(criterion, score, tokens)


def score_of(criterion: Criterion, answer: object) -> Score:
    """One answer of a judge as a `Score`: a verdict on offer, a number, a score or a report line."""
    match answer:
        case Score():
            return finite(criterion, answer)
        case str():
            return verdict_score(criterion, answer)
        case CriterionReport(value=None, error=None, verdict=str(verdict)):
            return verdict_score(criterion, verdict, answer.reason)
        case CriterionReport():
            return finite(criterion, answer.as_score)
        case bool():
            return verdict_score(criterion, criterion.choices[-1 if answer else 0])
        case int() | float():
            return finite(criterion, Score(answer))
        case _:
            return Score.failed(
                JudgeError(f"judge() answered {answer!r:.200}, which is no verdict")
            )


def check_citations(criterion: Criterion, score: Score, judge_input: JudgeInput) -> Score:
    """Add what the reason of a score cites, and whether it is there.

    A score without the evidence that its criterion requires becomes an error. The lowest choice,
    or a value of 0, needs none.
    """
    parts = judge_input.parts
    required = criterion.requires_evidence
    if score.error is not None or not (parts or required):
        return score
    # What a judge looked at itself may be quoted without an address.
    has_looked = any(part.role == "judge" for part in parts)
    # Loaded lazily: most judges read a plain text.
    citations = graders.evidence.citations_of(
        score.reason,
        parts,
        "" if parts else judge_input.text,
        quotes=required or has_looked,
    )
    if citations:
        score = score._replace(citations=tuple(citations))
    if not required or _is_lowest(criterion, score):
        return score
    if any("found" not in citation for citation in citations):  # `found` marks a missing one
        return score
    verdict = score.verdict or "a value above 0"
    problem = "it cites nothing"
    if citations:
        problem = "nothing that it cites is in what it was shown"
    error = JudgeError(f"the judge said {verdict}, which requires evidence, and {problem}")
    return Score.failed(error, score.reason)._replace(citations=score.citations)


def _is_lowest(criterion: Criterion, score: Score) -> bool:
    if score.value is None:  # it does not apply
        return True
    if score.verdict is None:
        return score.value <= 0
    return score.verdict == criterion.choices[0]


def finite(criterion: Criterion, score: Score) -> Score:
    """A score whose value is a finite number; otherwise an error that says what it is instead."""
    value: Any = score.value
    if score.error is not None or not score.applies:
        return score._replace(value=None)
    if type(value) is float and abs(value) <= MAX_MAGNITUDE:
        return score
    if value is None:
        return score._replace(error="ValueError: no value and no reason why")
    if isinstance(value, bool):
        return score._replace(
            value=float(value), verdict=score.verdict or criterion.choices[-1 if value else 0]
        )
    number = number_of(value)
    if number is None:
        return Score.failed(
            f"ValueError: a score of {format_value(value)} is not a finite number", score.reason
        )
    return score._replace(value=number)


def number_of(value: Any) -> float | None:
    """A number of any make as a float; None when it is none, or too large to add up."""
    if isinstance(value, complex) or not (
        hasattr(value, "__float__") or hasattr(value, "__index__")
    ):
        return None
    try:
        number = float(value)
    except Exception:  # noqa: BLE001 - a foreign number type may raise anything
        return None
    return number if abs(number) <= MAX_MAGNITUDE else None


def with_value(line: CriterionReport) -> CriterionReport:
    """A line that gives MET or UNMET alone, with what that is worth; any other as it is."""
    if line.value is not None or line.error is not None or line.verdict not in BINARY_CHOICES:
        return line
    met = line.verdict == BINARY_CHOICES[-1]
    return line.model_copy(update={"value": float(met), "passed": met is (line.weight >= 0)})


def failed_score(error: BaseException, on_error: OnError = "record") -> Score:
    """The score where a judge failed, unless failures are raised or we are to stop."""
    if on_error == "raise" or is_stop_request(error):
        raise error
    return Score.failed(error)


def refuse_errors(criteria: Sequence[Criterion], scores: Sequence[Score]) -> None:
    """Raise the first error among these scores."""
    for criterion, score in zip(criteria, scores, strict=True):
        if score.error is not None:
            raise JudgeError(f"criterion {criterion.name!r} has no answer: {score.error}")
