"""What a judge replies, as pydantic models whose JSON schema can be handed to a provider.

The reason stands before the verdict in each, so that a model writes it first.
"""

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, cast

from pydantic import BaseModel, Field, model_validator

Status: TypeAlias = Literal["MET", "UNMET"]

_REASON = "Why, in one to three sentences that point at the response."
_STATUS = "MET when what the criterion describes is present in the response, else UNMET."
_CHOICE = "One of the labels that were offered, spelled as they are."


class PerCriterionOutput(BaseModel):
    """The reply to one criterion.

    >>> PerCriterionOutput(criterion_status="MET", explanation="It names Paris.").criterion_status
    'MET'
    """

    explanation: str = Field(description=_REASON)
    criterion_status: Status = Field(description=_STATUS)


class ChoiceOutput(BaseModel):
    """The reply to one criterion that offers other labels than MET and UNMET."""

    explanation: str = Field(description=_REASON)
    choice: str = Field(description=_CHOICE)


class TurnedOutput(BaseModel):
    """The reply to one criterion where MET and UNMET are listed, UNMET first."""

    explanation: str = Field(description=_REASON)
    choice: Literal["UNMET", "MET"] = Field(description=_CHOICE)


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
                f"criterion_idx {index} and criterion_number {number} are two different criteria: "
                "give one of them"
            )
        return fields | {"criterion_number": index + 1}


class CriterionEvaluation(_Numbered):
    """The reply to one criterion of a list: `criterion_number` from 1, or `criterion_idx` from 0.

    >>> CriterionEvaluation(criterion_idx=0, explanation="", criterion_status="MET").criterion_number
    1
    """

    explanation: str = Field(description=_REASON)
    criterion_status: Status = Field(description=_STATUS)


class ChoiceEvaluation(_Numbered):
    """The reply to one criterion of a list in which some offer other labels."""

    explanation: str = Field(description=_REASON)
    choice: str = Field(description=_CHOICE)


class OneShotOutput(BaseModel):
    """The replies to every criterion of a list."""

    criteria_evaluations: list[CriterionEvaluation] = Field(
        description="One entry for every criterion.", min_length=1
    )


class OneShotChoiceOutput(BaseModel):
    """The replies to every criterion of a list in which some offer other labels."""

    criteria_evaluations: list[ChoiceEvaluation] = Field(
        description="One entry for every criterion.", min_length=1
    )


class RubricAsJudgeOutput(BaseModel):
    """One number for a whole rubric."""

    explanation: str = Field(description=_REASON)
    overall_score: float = Field(
        description="How far the response satisfies the whole rubric, from 0 to 100.",
        allow_inf_nan=False,
    )
