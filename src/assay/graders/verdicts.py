"""Define the replies that a judge may give, and convert them to scores.

Only a verdict that was offered counts.

The reply classes are pydantic models whose JSON schema can be sent to a provider. In each of them
the reason comes before the verdict, so that a model writes it first. Their names, docstrings and
descriptions are in the schema, so they are part of every cache key.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, Protocol, TypeAlias, cast

from pydantic import (
    BaseModel,
    BeforeValidator,
    Field,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from assay import graders
from assay.concurrency import is_stop_request
from assay.criterion import BINARY_CHOICES, MAX_MAGNITUDE, NOT_APPLICABLE, Criterion
from assay.errors import JudgeError
from assay.graders.judge_input import JudgeInput
from assay.messages import MEDIA_KINDS, Part, get_field
from assay.report import Citation, CriterionReport, Score
from assay.types import OnError
from assay.wording import explain_first_error, format_value


def _normalise_status(status: object) -> object:
    """Accept other spellings of a status: ` met` is MET."""
    if isinstance(status, str):
        return status.strip().upper()
    return status


_Reason = Annotated[
    str, Field(description="Why, in one to three sentences that point at the response.")
]
_STATUS_SPELLING = BeforeValidator(_normalise_status)
_STATUS = Field(
    description="MET when what the criterion describes is present in the response, else UNMET."
)
_CHOICE = Field(description="One of the labels that were offered, spelled as they are.")
_EVALUATIONS = Field(description="One entry for every criterion.", min_length=1)


class PerCriterionOutput(BaseModel):
    """The reply to one criterion.

    >>> PerCriterionOutput(criterion_status="MET", explanation="It names Paris.").criterion_status
    'MET'
    """

    explanation: _Reason
    criterion_status: Annotated[Literal["MET", "UNMET"], _STATUS_SPELLING, _STATUS]


class ChoiceOutput(BaseModel):
    """The reply to one criterion that offers other labels than MET and UNMET."""

    explanation: _Reason
    choice: Annotated[str, _CHOICE]


class TurnedOutput(BaseModel):
    """The reply to one criterion where MET and UNMET are listed, UNMET first."""

    explanation: _Reason
    choice: Annotated[Literal["UNMET", "MET"], _STATUS_SPELLING, _CHOICE]


class _Numbered(BaseModel):
    criterion_number: int = Field(description="The number of the criterion in the list, from 1.")

    @property
    def criterion_idx(self) -> int:
        """The index of the criterion in the list, from 0."""
        return self.criterion_number - 1

    @model_validator(mode="before")
    @classmethod
    def _read_index(cls, data: object) -> object:
        """Accept `criterion_idx`, which counts from 0, instead of `criterion_number`."""
        if not isinstance(data, Mapping) or "criterion_idx" not in data:
            return cast("object", data)
        fields = dict(cast("Mapping[str, Any]", data))
        index = fields.pop("criterion_idx")
        number = fields.get("criterion_number")
        if not isinstance(index, int):
            raise ValueError(f"criterion_idx is {index!r}: give a whole number, from 0")
        if number is not None and number != index + 1:
            raise ValueError(
                f"criterion_idx {index} and criterion_number {number} are different criteria: "
                "give only one of them"
            )
        fields["criterion_number"] = index + 1
        return fields


class CriterionEvaluation(PerCriterionOutput, _Numbered):
    """The reply to one criterion of a list: `criterion_number` from 1, or `criterion_idx` from 0.

    >>> CriterionEvaluation(criterion_idx=0, explanation="", criterion_status="MET").criterion_number
    1
    """


class ChoiceEvaluation(ChoiceOutput, _Numbered):
    """The reply to one criterion of a list in which some offer other labels."""


class OneShotOutput(BaseModel):
    """The replies to every criterion of a list."""

    criteria_evaluations: Annotated[list[CriterionEvaluation], _EVALUATIONS]


class OneShotChoiceOutput(BaseModel):
    """The replies to every criterion of a list in which some offer other labels."""

    criteria_evaluations: Annotated[list[ChoiceEvaluation], _EVALUATIONS]


class RubricAsJudgeOutput(BaseModel):
    """One number for a whole rubric."""

    explanation: _Reason
    overall_score: float = Field(
        description="How far the response satisfies the whole rubric, from 0 to 100.",
        allow_inf_nan=False,
    )


# A function may return a mapping with the same keys instead of a model.
Verdict: TypeAlias = PerCriterionOutput | ChoiceOutput | Mapping[str, Any]
Verdicts: TypeAlias = OneShotOutput | OneShotChoiceOutput | Mapping[str, Any]
Number: TypeAlias = RubricAsJudgeOutput | Mapping[str, Any]


class PerCriterionGenerateFn(Protocol):
    """Asks a model about one criterion. Called by keyword."""

    def __call__(self, *, system_prompt: str, user_prompt: str) -> Awaitable[Verdict] | Verdict: ...


# Functions of (system_prompt, user_prompt). The first asks about all criteria at once, the second
# for one number from 0 to 100.
OneShotGenerateFn: TypeAlias = Callable[[str, str], Awaitable[Verdicts] | Verdicts]
RubricAsJudgeGenerateFn: TypeAlias = Callable[[str, str], Awaitable[Number] | Number]


def read_verdict(criterion: Criterion, reply: object) -> Score:
    """Return the score in a reply with `criterion_status` or `choice`, and `explanation`."""
    # The usual reply comes first: asking a pydantic model for a field that it lacks is slow.
    if type(reply) is PerCriterionOutput:
        return score_verdict(criterion, reply.criterion_status, reply.explanation)
    verdict = get_field(reply, "criterion_status")
    if verdict is None:
        verdict = get_field(reply, "choice")
    if not isinstance(verdict, str):
        error = missing_field_error(
            reply,
            "verdict: return a PerCriterionOutput, or a ChoiceOutput where labels are offered",
        )
        return Score.failed(error)
    reason = get_field(reply, "explanation")
    if not isinstance(reason, str):
        reason = ""
    score = score_verdict(criterion, verdict, reason)
    tokens = get_field(reply, "tokens")
    if tokens is None:
        return score
    # Loaded lazily: few judges are asked for log-probabilities.
    return graders.expectation.apply_expectation(criterion, score, tokens)


def missing_field_error(reply: object, wanted: str) -> JudgeError:
    """Return the error for a reply that lacks something.

    `wanted` names it and says what to return, as in "verdict: return a PerCriterionOutput".
    """
    return JudgeError(f"the reply {reply!r:.200} of type {type(reply).__name__} holds no {wanted}")


def score_verdict(criterion: Criterion, verdict: str, reason: str = "") -> Score:
    """Return the score of a verdict; a failed score if the verdict was not offered.

    Case and blanks around a verdict are ignored.
    """
    value = criterion.values.get(verdict)
    if value is not None:
        return Score(value, reason, verdict)
    folded = verdict.strip().casefold()
    if criterion.allow_na and folded in ("n/a", "na", "not applicable"):
        return Score.not_applicable(reason)
    for choice in criterion.choices:
        if choice.strip().casefold() == folded:
            return Score(criterion.values[choice], reason, choice)
    offered = list(criterion.choices)
    if criterion.allow_na:
        offered.append(NOT_APPLICABLE)
    error = JudgeError(
        f"the verdict {verdict[:80]!r} is not one of the choices ({', '.join(offered)})"
    )
    return Score.failed(error, reason)


def coerce_judge_answer(criterion: Criterion, answer: object) -> Score:
    """Return what `judge()` returned for a criterion as a score.

    It may be a verdict, a number, a score or a report line. Anything else is a failed score.
    """
    match answer:
        case Score():
            return check_score(criterion, answer)
        case str():
            return score_verdict(criterion, answer)
        case CriterionReport(value=None, error=None, verdict=str(verdict)):
            return score_verdict(criterion, verdict, answer.reason)
        case CriterionReport():
            return check_score(criterion, answer.as_score)
        case bool():
            return score_verdict(criterion, _get_extreme_choice(criterion, answer))
        case int() | float():
            return check_score(criterion, Score(answer))
        case _:
            error = JudgeError(
                f"judge() answered {answer!r:.200}: "
                "return a verdict, a number, a Score or a CriterionReport"
            )
            return Score.failed(error)


def _get_extreme_choice(criterion: Criterion, is_met: bool) -> str:
    """Return the best choice for True, the worst for False."""
    if is_met:
        return criterion.choices[-1]
    return criterion.choices[0]


def check_score(criterion: Criterion, score: Score) -> Score:
    """Return the score with its value as a finite float; a failed score if that is impossible.

    Checks and graders are written by others too, and may give fields of any type. A score with an
    error, or of a criterion that does not apply, gets the value None.
    """
    problem = _find_wrong_type(score)
    if problem is not None:
        return Score.failed(f"ValueError: the score cannot be used: its {problem}")
    reason = cast("object", score.reason)
    if not isinstance(reason, str):
        score = score._replace(reason=str(reason or ""))
    value: Any = score.value
    if score.error is not None or not score.applies:
        return score._replace(value=None)
    is_valid_already = type(value) is float and abs(value) <= MAX_MAGNITUDE
    if is_valid_already:
        return score
    if value is None:
        return score._replace(error="ValueError: no value and no reason why")
    if isinstance(value, bool):
        verdict = score.verdict or _get_extreme_choice(criterion, value)
        return score._replace(value=float(value), verdict=verdict)
    number = to_finite_float(value)
    if number is None:
        return Score.failed(
            f"ValueError: a score of {format_value(value)} is not a finite number", score.reason
        )
    return score._replace(value=number)


def _find_wrong_type(score: Score) -> str | None:
    """Return which field of a score has the wrong type, in words; None if none has.

    The value is checked elsewhere, and any reason can be written as text.
    """
    for name in ("verdict", "error"):
        text: object = getattr(score, name)
        if text is not None and not isinstance(text, str):
            return f"{name} is {format_value(text)}, not a text"
    disagreement: object = score.disagreement
    if disagreement is not None and to_finite_float(disagreement) is None:
        return f"disagreement is {format_value(disagreement)}, not a finite number"
    if type(score.asked) is not bool:
        return f"asked is {format_value(score.asked)}, not True or False"
    if score.lines == () and score.citations == ():
        return None  # as in most scores
    lines: object = score.lines
    if not isinstance(lines, tuple | list):
        return f"lines are {format_value(lines)}, not a list of report lines"
    for line in cast("Sequence[object]", lines):
        if not isinstance(line, CriterionReport):
            return f"lines hold {format_value(line)}, not a CriterionReport"
    try:
        _CITATIONS.validate_python(score.citations)
    except ValidationError as error:
        return f"citations are wrong: {explain_first_error(error, 'citations')[1]}"
    return None


_CITATIONS = TypeAdapter(tuple[Citation, ...])


def to_finite_float(value: Any) -> float | None:
    """Convert a number of any type to a float.

    Returns None if it is not a number, or if its magnitude is above `MAX_MAGNITUDE`.
    """
    if isinstance(value, complex):
        return None
    # `float()` would also convert a text.
    is_number = hasattr(value, "__float__") or hasattr(value, "__index__")
    if not is_number:
        return None
    try:
        number = float(value)
    except Exception:  # noqa: BLE001 - a foreign number type may raise anything
        return None
    if abs(number) <= MAX_MAGNITUDE:
        return number
    return None  # too large, infinite or NaN


def add_verdict_value(line: CriterionReport) -> CriterionReport:
    """Fill in the value of a report line that has only the verdict MET or UNMET."""
    if line.value is not None or line.error is not None or line.verdict not in BINARY_CHOICES:
        return line
    is_met = line.verdict == BINARY_CHOICES[-1]
    is_wanted = line.weight >= 0
    return line.model_copy(update={"value": float(is_met), "passed": is_met is is_wanted})


def check_citations(criterion: Criterion, score: Score, judge_input: JudgeInput) -> Score:
    """Return the score with the citations in its reason, looked up in what was judged.

    If the criterion requires evidence, and the reason cites none, the score becomes a failed score.
    The lowest choice, or a value of 0, needs no evidence.
    """
    parts = judge_input.parts
    required = criterion.requires_evidence
    if score.error is not None or not (parts or required):
        return score
    # What a judge looked up with tools may be quoted without an address.
    used_tools = any(part.role == "judge" for part in parts)
    # A plain text has no parts; quotations are then looked up in the text itself.
    plain_text = "" if parts else judge_input.text
    # Loaded lazily: most judges read a plain text.
    citations = graders.evidence.citations_of(
        score.reason,
        parts,
        plain_text,
        quotes=required or used_tools,
    )
    if citations:
        score = score._replace(citations=tuple(citations))
    if required and not _is_lowest(criterion, score):
        return _require_evidence(score, citations, parts)
    return score


def _require_evidence(score: Score, citations: Sequence[Citation], parts: Sequence[Part]) -> Score:
    """Return the score, or a failed score if none of its citations is evidence."""
    if any(_is_evidence(citation, parts) for citation in citations):
        return score
    verdict = score.verdict or "a value above 0"
    if not citations:
        problem = "it cites nothing"
    elif any(graders.evidence.is_found(citation) for citation in citations):
        problem = "it quotes no words of the response"
    else:
        problem = "its citations do not occur in what it was shown"
    error = JudgeError(f"the judge said {verdict}, which requires evidence, and {problem}")
    return Score.failed(error, score.reason)._replace(citations=score.citations)


def _is_evidence(citation: Citation, parts: Sequence[Part]) -> bool:
    """Return whether a citation quotes the response, or names an image or a file in it.

    An address alone, or words of the prompt, are not evidence: the judge may not have read the response.
    """
    if not graders.evidence.is_found(citation):
        return False
    has_quote = graders.evidence.has_substance(citation.get("quote", ""))
    if "part" not in citation:
        return has_quote  # from a plain text
    address = citation["part"]
    cited_parts = [part for part in parts if address in (part.address, part.message)]
    for part in cited_parts:
        if not part.in_prompt and (has_quote or part.kind in MEDIA_KINDS):
            return True
    return False


def _is_lowest(criterion: Criterion, score: Score) -> bool:
    """Whether a score needs no evidence: the lowest choice, a value of 0, or "not applicable"."""
    if score.value is None:
        return True
    if score.verdict is None:
        return score.value <= 0
    return score.verdict == criterion.choices[0]


def failed_score(error: BaseException, on_error: OnError = "record") -> Score:
    """Return the score of a question on which a judge failed.

    The error is raised instead if `on_error` is "raise", or if it asks the program to stop.
    """
    if on_error == "raise" or is_stop_request(error):
        raise error
    return Score.failed(error)


def raise_first_error(criteria: Sequence[Criterion], scores: Sequence[Score]) -> None:
    """Raise a `JudgeError` for the first failed score."""
    for criterion, score in zip(criteria, scores, strict=True):
        if score.error is not None:
            raise JudgeError(f"criterion {criterion.name!r} has no answer: {score.error}")
