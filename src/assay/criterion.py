"""A Criterion is one weighted question about a rollout, answered by code or by a model; it has a name and a hash."""

import hashlib
import json
import re
import sys
from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from typing import Any, Literal, NamedTuple, Protocol, TypeGuard, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from assay.errors import RubricError
from assay.wording import first_error

BINARY = ("UNMET", "MET")
NOT_APPLICABLE = "N/A"  # the verdict that a question does not apply
LARGEST = 1e100  # the largest weight or value, so that no sum of products can overflow
TIMEOUT = 5.0  # seconds that an isolated check may work, unless said otherwise


class Scorer(Protocol):
    """Anything with rollouts in and reports out: a rubric, here or elsewhere."""

    async def score(self, rollouts: Sequence[Any]) -> Any: ...


def is_scorer(thing: object) -> TypeGuard[Scorer]:
    """Whether this is a rubric of some kind. What can be called is a function, whatever else it has."""
    return not callable(thing) and callable(getattr(thing, "score", None))


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
    weight: float = Field(default=1.0, allow_inf_nan=False, ge=-LARGEST, le=LARGEST)
    """What a full answer adds to the sum. Negative: a fault to avoid. 0: a metric."""
    name: str = ""
    """Its key in metrics and reports; taken from the check or the requirement when not given."""
    choices: tuple[str, ...] = BINARY
    """The verdicts on offer, worst to best; a verdict is worth its rank between 0 and 1."""
    allow_na: bool = False
    """Whether a judge may say that the question does not apply (`N/A`)."""
    required: bool = False
    """A veto: when it fails, the whole score is capped at `cap`."""
    cap: float = Field(default=0.0, allow_inf_nan=False, ge=-LARGEST, le=LARGEST)
    """The highest score left when this required criterion fails."""
    pass_at: float = Field(default=1.0, allow_inf_nan=False, ge=-LARGEST, le=LARGEST)
    """The value from which it counts as met, for `required`, `when`, `all_pass` and `any_pass`."""
    when: tuple[Condition, ...] = ()
    """Asked only when all of these hold; otherwise not applicable."""
    tags: tuple[str, ...] = ()
    """Groups of criteria that get a score of their own in the report."""
    scope: Literal["rollout", "step", "call"] = "rollout"
    """What it is asked about: the rollout, each turn of the assistant in it (`step`), or each of its tool calls (`call`)."""
    combine: Literal["all", "any", "mean", "first_failure"] = "all"
    """What the answers about steps come to: the lowest (`all`), the highest (`any`), their mean, or the share before the first failure."""
    credit: Literal["rollout", "cited"] = "rollout"
    """Whose rewards a failure lowers: those of all steps alike, or in equal shares those of the steps that its reason cites."""
    requires_evidence: bool = False
    """Whether a judge must cite what shows a verdict above the lowest; one without evidence is an error."""
    report_only: bool = False
    """Answered and shown with its weight, but not counted."""
    isolate: bool = False
    """Run the check in a worker process, where it can neither hang nor crash this one."""
    timeout: float = Field(default=TIMEOUT, allow_inf_nan=False, gt=0, le=LARGEST)
    """Seconds that an isolated check may work on one rollout; then it is stopped, and has no answer."""

    @classmethod
    def of(cls, question: object, weight: float | None = None) -> "Criterion":
        """The criterion that a function, rubric or criterion stands for."""
        if isinstance(question, Criterion):
            criterion = question
        elif callable(question) or is_scorer(question):
            criterion = cls(check=question)
        else:
            ways = "a function, a Criterion, a mapping with 'requirement' or 'check', or a Rubric"
            raise RubricError(f"{question!r} asks no question: give {ways}")
        return criterion if weight is None else criterion.with_fields(weight=weight)

    def with_fields(self, **changes: Any) -> "Criterion":
        """A copy with some fields changed, checked anew."""
        fields = {name: getattr(self, name) for name in type(self).model_fields}
        try:
            return type(self)(**(fields | changes))
        except ValidationError as error:
            raise RubricError(f"criterion {self.name!r}: {first_error(error)[1]}") from None

    @field_validator("choices", "tags", mode="before")
    @classmethod
    def _one_is_a_list(cls, value: object) -> object:
        return (value,) if isinstance(value, str) else value

    @field_validator("when", mode="before")
    @classmethod
    def _read_conditions(cls, value: object) -> object:
        if isinstance(value, str | Mapping | Condition):
            value = (cast("object", value),)
        if not isinstance(value, list | tuple):
            return () if value is None else value
        conditions: list[object] = []
        for item in cast("Sequence[object]", value):
            named: object = {item: None} if isinstance(item, str) else item
            if isinstance(named, Mapping):
                for name, said in cast("Mapping[str, Any]", named).items():
                    if said is not None and not isinstance(said, str | list | tuple):
                        raise ValueError(
                            f"when {name!r} is {said!r}: give a verdict in quotes, or a list of them"
                        )
                    verdicts = (
                        (said,) if isinstance(said, str) else cast("Sequence[str]", said or ())
                    )
                    conditions.append(Condition(name, tuple(verdicts)))
            else:
                conditions.append(named)
        return tuple(conditions)

    @field_validator("weight")
    @classmethod
    def _not_next_to_nothing(cls, weight: float) -> float:
        # A share of it would be rounded away, or be infinite beside a larger one.
        if 0 < abs(weight) < 1 / LARGEST:
            raise ValueError(
                f"weight {weight!r} is next to nothing: give 0 for a metric, or {1 / LARGEST:g} or more"
            )
        return weight

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
                f"choices {list(choices)!r} are no scale: name at least two different ones, worst to best"
            )
        if NOT_APPLICABLE.casefold() in folded:
            raise ValueError(f"choices hold {NOT_APPLICABLE!r}: set allow_na instead")
        return choices

    @model_validator(mode="after")
    def _one_way_to_answer(self) -> "Criterion":
        if (self.check is None) == (self.requirement is None):
            both = self.check is not None
            has = (
                "both check and requirement: drop"
                if both
                else "neither check nor requirement: give"
            )
            raise ValueError(
                f"a criterion is answered in exactly one way, and this one has {has} one of them"
            )
        if self.check is not None and not (callable(self.check) or is_scorer(self.check)):
            raise ValueError(f"check {self.check!r} cannot be called: give a function or a rubric")
        if self.requires_evidence and self.check is not None:
            raise ValueError(
                "requires_evidence is true, and code answers: only a judge cites, so leave it out"
            )
        if self.scope == "rollout" and self.combine != "all":
            about = "it is asked about the whole rollout"
            raise ValueError(f"combine is {self.combine!r}, and {about}: set scope to step or call")
        if self.scope != "rollout" and self.credit == "cited":
            about = "every step has a value of its own"
            raise ValueError(f"credit is 'cited', and {about}: leave one of credit and scope out")
        if not self.isolate and self.timeout != TIMEOUT:
            about = "nothing can stop a check in this process"
            raise ValueError(f"timeout is {self.timeout:g}, and {about}: set isolate too")
        if self.isolate and (self.check is None or is_scorer(self.check)):
            told = "a model answers" if self.check is None else "a whole rubric answers"
            raise ValueError(
                f"isolate is true, and {told}: only a function can be isolated, so leave it out"
            )
        if not self.name:
            object.__setattr__(self, "name", _derived_name(self))
        return self

    def to_dict(self) -> dict[str, Any]:
        """Return the criterion as a rubric file holds it: only what differs from the defaults.

        Raises `RubricError` when its check has no name that a file can give.
        """
        return self._written(as_hash=False)

    @property
    def content_hash(self) -> str:
        """A SHA-256 of all it says, the same however it is spelled; order and defaults do not matter."""
        return hash_of({"format": "assay.criterion/1", **self._written(as_hash=True)})

    @property
    def question_hash(self) -> str:
        """As `content_hash`, of only what decides the answer: not its weight, and not its name."""
        said = self._written(as_hash=True)
        asked = (
            "requirement",
            "check",
            "rubric",
            "choices",
            "allow_na",
            "requires_evidence",
            "scope",
            "combine",
        )
        return hash_of(
            {"format": "assay.question/1", **{key: said[key] for key in asked if key in said}}
        )

    def _written(self, *, as_hash: bool) -> dict[str, Any]:
        written: dict[str, Any] = {} if self.name == _derived_name(self) else {"name": self.name}
        if self.check is not None:
            written |= _written_check(self.check, as_hash=as_hash)
        for key, field in type(self).model_fields.items():
            value = getattr(self, key)
            if key not in ("name", "check", "when") and value != field.default:
                written[key] = (
                    list(cast("tuple[Any, ...]", value)) if isinstance(value, tuple) else value
                )
        if self.when:
            when = [{n: v[0] if len(v) == 1 else list(v)} if v else n for n, v in self.when]
            written["when"] = when[0] if len(when) == 1 else when
        return written

    @property
    def judged(self) -> bool:
        """Whether a model answers, rather than code."""
        return self.requirement is not None

    @property
    def counts(self) -> bool:
        """Whether an answer changes the score: it has weight, or a veto."""
        return (self.weight != 0 or self.required) and not self.report_only

    @cached_property
    def values(self) -> dict[str, float]:
        """What each verdict on offer is worth: its rank between 0 (worst) and 1 (best)."""
        return {choice: rank / (len(self.choices) - 1) for rank, choice in enumerate(self.choices)}

    @cached_property
    def memo(self) -> dict[str, str]:
        """Room for what a grader works out about the question once and asks many times."""
        return {}

    def passes(self, value: float) -> bool:
        """Whether this value is good news: met, or for a fault (negative weight) not met."""
        return (value >= self.pass_at) is (self.weight >= 0)


def _derived_name(criterion: Criterion) -> str:
    """The name that a file need not give."""
    if criterion.requirement is not None:
        return slug(criterion.requirement)
    if is_scorer(criterion.check):
        return str(getattr(criterion.check, "name", "") or "rubric")
    return name_of(criterion.check)


def _written_check(check: Any, *, as_hash: bool) -> dict[str, Any]:
    """A check as a file has it; for a hash, with a name also for what no file can hold."""
    if is_scorer(check):
        own_hash = getattr(check, "content_hash", None)
        if as_hash:
            return {"rubric": own_hash if isinstance(own_hash, str) else path_of(type(check))}
        written: dict[str, Any] = getattr(check, "to_dict", dict)()
        if "criteria" not in written:
            raise RubricError(f"{check!r} cannot be written as one criterion of a file")
        return {"rubric": written}
    named = path_of if as_hash else reference_of
    if (predicate := getattr(check, "predicate", None)) is not None:
        named(predicate)  # which may have no name that a file can give
    return {"check": check.spec() if callable(getattr(check, "spec", None)) else named(check)}


def name_of(check: object) -> str:
    """The name a check goes by; empty for a lambda, which has none."""
    while isinstance(check, partial) and "__name__" not in vars(
        check
    ):  # which a program may have set
        check = cast("partial[Any]", check).func
    check = cast("object", check)
    own = getattr(check, "name", None)
    if isinstance(own, str) and own:
        return own
    name = getattr(check, "__name__", None) or type(check).__name__
    return "" if name == "<lambda>" else str(name)


def slug(requirement: str, limit: int = 48) -> str:
    """Return a requirement as a short key: lower-case words joined by underscores, cut between words."""
    words = " ".join(re.findall(r"\w+", requirement[:1000].casefold()))
    kept = words if len(words) <= limit else words[: limit + 1].rpartition(" ")[0] or words[:limit]
    return kept.replace(" ", "_")


def path_of(thing: object) -> str:
    """The `module:name` of a function, or of the class of any other object."""
    while isinstance(thing, partial):
        thing = cast("partial[Any]", thing).func
    named = thing if hasattr(thing, "__qualname__") else type(thing)
    return f"{named.__module__}:{getattr(named, '__qualname__', '')}"


def reference_of(function: object) -> str:
    """Return the `package.module:function` that a file can name a function by."""
    reference = path_of(function)
    module, _, path = reference.partition(":")
    found: object = sys.modules.get(module)
    for step in path.split("."):
        found = getattr(found, step, None)
    # What is in `__main__` has that name in this program alone.
    if module == "__main__" or found != function:
        written = "only built-in checks, and functions that can be imported by name, can"
        raise RubricError(f"{function!r} cannot be written to a file: {written}")
    return reference


def hash_of(value: object) -> str:
    """The SHA-256 of a value of JSON, the same for every order of keys and spelling of numbers."""

    def whole_or_not(number: str) -> float:
        value = float(number)
        return int(value) if value.is_integer() else value

    plain = json.loads(json.dumps(value, allow_nan=False), parse_float=whole_or_not)
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
