"""Criterion, one weighted question about a rollout; Score, one answer to it."""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeAlias, cast, runtime_checkable

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from assay.errors import RubricError

BINARY = ("UNMET", "MET")
NOT_APPLICABLE = "N/A"


class Score(NamedTuple):
    """One answer. `value` is None when nobody could answer, and `error` says why.

    A check returns one when it has more to say than a number:

    >>> Score(0.5, reason="two of four sources found").value
    0.5
    """

    value: float | None = None
    reason: str = ""
    verdict: str | None = None
    """The choice that was made, where the question offers choices; `N/A` when it does not apply."""
    error: str | None = None
    """Kind and message of what went wrong."""
    lines: Sequence[Any] = ()
    """The report lines of a nested rubric."""

    @classmethod
    def failed(cls, error: BaseException | str, reason: str = "") -> "Score":
        """No answer, and why."""
        text = error if isinstance(error, str) else f"{type(error).__name__}: {error}"
        return cls(error=text, reason=reason)

    @classmethod
    def not_applicable(cls, reason: str = "") -> "Score":
        """The question does not arise: the line leaves the score and counts as answered."""
        return cls(verdict=NOT_APPLICABLE, reason=reason)

    @property
    def applies(self) -> bool:
        return self.verdict != NOT_APPLICABLE


@runtime_checkable
class Scorer(Protocol):
    """Anything with rollouts in and reports out: a rubric, here or elsewhere."""

    async def score(self, rollouts: Sequence[Any]) -> Any: ...


Check: TypeAlias = Callable[..., Any] | Scorer


class Condition(NamedTuple):
    """Ask only when another criterion came out so: one of `verdicts`, or met when none is named."""

    criterion: str
    verdicts: tuple[str, ...] = ()


class Criterion(BaseModel):
    """One weighted question, answered by code (`check`) or by a model (`requirement`), never both.

    >>> Criterion(requirement="Cites a source", weight=2).name
    'cites_a_source'
    """

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    requirement: str | None = None
    """What must hold, in words, for a model to judge."""
    check: Any = Field(default=None, exclude=True)
    """A function, or a whole rubric, that answers by code."""
    weight: float = Field(default=1.0, allow_inf_nan=False)
    """What a full answer adds to the sum. Negative: a fault to avoid. 0: a metric."""
    name: str = ""
    """Its key in metrics and reports; taken from the check or the requirement when not given."""
    choices: tuple[str, ...] = BINARY
    """The verdicts on offer, worst to best; a verdict is worth its rank between 0 and 1."""
    allow_na: bool = False
    """Whether a judge may say that the question does not apply (`N/A`)."""
    required: bool = False
    """A veto: when it fails, the whole score is capped at `cap`."""
    cap: float = Field(default=0.0, allow_inf_nan=False)
    """The highest score left when this required criterion fails."""
    pass_at: float = Field(default=1.0, allow_inf_nan=False)
    """The value from which it counts as met, for `required`, `when`, `all_pass` and `any_pass`."""
    when: tuple[Condition, ...] = ()
    """Asked only when all of these hold; otherwise not applicable."""
    tags: tuple[str, ...] = ()
    """Groups of criteria that get a score of their own in the report."""
    report_only: bool = False
    """Answered and shown with its weight, but not counted."""

    @classmethod
    def of(cls, question: object, weight: float | None = None) -> "Criterion":
        """The criterion that a function, mapping, rubric or criterion stands for."""
        if isinstance(question, Criterion):
            criterion = question
        elif isinstance(question, Mapping):
            criterion = cls.model_validate(dict(cast("Mapping[str, Any]", question)))
        elif callable(question) or isinstance(question, Scorer):
            criterion = cls(check=question)
        else:
            raise RubricError(
                f"{question!r} asks no question: give a function, a Criterion, a mapping with "
                "'requirement' or 'check', or a Rubric"
            )
        if weight is None:
            return criterion
        return criterion.with_fields(weight=weight)

    def with_fields(self, **changes: Any) -> "Criterion":
        """A copy with some fields changed, checked anew."""
        fields = {name: getattr(self, name) for name in type(self).model_fields}
        return type(self)(**(fields | changes))

    @field_validator("choices", "tags", mode="before")
    @classmethod
    def _one_is_a_list(cls, value: object) -> object:
        return (value,) if isinstance(value, str) else value

    @field_validator("when", mode="before")
    @classmethod
    def _read_conditions(cls, value: object) -> object:
        if isinstance(value, str):
            return (Condition(value),)
        if isinstance(value, Mapping):
            pairs = cast("Mapping[str, object]", value).items()
            return tuple(
                Condition(name, (v,) if isinstance(v, str) else tuple(cast("Any", v)))
                for name, v in pairs
            )
        return () if value is None else value

    @field_validator("requirement")
    @classmethod
    def _not_blank(cls, value: str | None) -> str | None:
        if value is not None and not value.strip():
            raise ValueError(f"requirement {value!r} is blank: say what must hold")
        return value

    @field_validator("choices")
    @classmethod
    def _choices_differ(cls, choices: tuple[str, ...]) -> tuple[str, ...]:
        folded = [choice.strip().casefold() for choice in choices]
        if len(choices) < 2 or len(set(folded)) < len(folded) or "" in folded:
            raise ValueError(
                f"choices {list(choices)!r} are no scale: name at least two different ones, "
                "worst to best"
            )
        if NOT_APPLICABLE.casefold() in folded:
            raise ValueError(f"choices hold {NOT_APPLICABLE!r}: set allow_na instead")
        return choices

    @model_validator(mode="after")
    def _one_way_to_answer(self) -> "Criterion":
        if (self.check is None) == (self.requirement is None):
            both = self.check is not None
            raise ValueError(
                f"a criterion is answered in exactly one way, and this one has "
                f"{'both check and requirement' if both else 'neither check nor requirement'}: "
                f"{'drop one of them' if both else 'give one of them'}"
            )
        if self.check is not None and not (callable(self.check) or isinstance(self.check, Scorer)):
            raise ValueError(f"check {self.check!r} cannot be called: give a function or a rubric")
        if not self.name:
            name = slug(self.requirement) if self.requirement else name_of(self.check)
            object.__setattr__(self, "name", name)
        return self

    @property
    def judged(self) -> bool:
        """Whether a model answers, rather than code."""
        return self.requirement is not None

    @property
    def counts(self) -> bool:
        """Whether an answer changes the score: it has weight, or a veto."""
        return (self.weight != 0 or self.required) and not self.report_only

    def value_of(self, verdict: str) -> float | None:
        """What a verdict is worth: its rank between 0 (worst) and 1 (best); None when not on offer."""
        try:
            return self.choices.index(verdict) / (len(self.choices) - 1)
        except ValueError:
            return None

    def passes(self, value: float) -> bool:
        """Whether this value is good news: met, or for a fault (negative weight) not met."""
        return (value >= self.pass_at) is (self.weight >= 0)


def name_of(check: object) -> str:
    """The name a check goes by; empty for a lambda, which has none."""
    while isinstance(check, partial):
        check = cast("partial[Any]", check).func
    own = getattr(check, "name", None)
    if isinstance(own, str) and own:
        return own
    name = getattr(check, "__name__", None) or type(check).__name__
    return "" if name == "<lambda>" else str(name)


def slug(requirement: str, limit: int = 48) -> str:
    """A requirement as a short key: lower-case words joined by underscores, cut between words.

    >>> slug("States Q4 2023 base margin as 17.2%")
    'states_q4_2023_base_margin_as_17_2'
    """
    words = re.findall(r"\w+", requirement[:1000].casefold())
    kept = ""
    for word in words:
        longer = f"{kept}_{word}" if kept else word
        if len(longer) > limit and kept:
            break
        kept = longer[:limit]
    return kept
