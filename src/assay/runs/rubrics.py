"""RubricAbout: a rubric as a run remembers it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, cast

from assay.criterion import BINARY, Criterion, is_scorer
from assay.errors import RubricError
from assay.identity import path_of
from assay.runs.plain import plain


@dataclass(frozen=True)
class CriterionAbout:
    """A criterion as a run remembers it: all that its lines are made of, and what it is known by."""

    name: str
    hash: str
    """Of all it says."""
    question: str = ""
    """The hash of only what decides the answer: not its weight, and not its name."""
    weight: float = 1.0
    requirement: str | None = None
    """None when code answers."""
    check: Any = None
    """What answers by code: the name of a function, or a built-in check as a file has it."""
    choices: tuple[str, ...] = BINARY
    allow_na: bool = False
    required: bool = False
    cap: float = 0.0
    pass_at: float = 1.0
    when: bool = False
    """Whether it is asked only where others came out so."""
    tags: tuple[str, ...] = ()
    report_only: bool = False
    inside: tuple["CriterionAbout", ...] = ()
    """The criteria of the rubric that answers, where one does."""

    @classmethod
    def of(cls, criterion: Criterion) -> "CriterionAbout":
        same = (
            "name",
            "weight",
            "requirement",
            "choices",
            "allow_na",
            "required",
            "cap",
            "pass_at",
        )
        return cls(
            **{name: getattr(criterion, name) for name in (*same, "tags", "report_only")},
            hash=criterion.content_hash,
            question=criterion.question_hash,
            check=_check_name(criterion.check),
            when=bool(criterion.when),
            inside=tuple(map(cls.of, _criteria_of(criterion.check))),
        )

    @property
    def judged(self) -> bool:
        """Whether a model answers, rather than code."""
        return self.requirement is not None

    @property
    def counts(self) -> bool:
        """Whether an answer changes the score."""
        return (self.weight != 0 or self.required) and not self.report_only

    def criterion(self) -> Criterion:
        """A criterion that makes the same report lines. What code answered cannot be asked again."""
        return Criterion(
            name=self.name,
            weight=self.weight,
            requirement=self.requirement,
            check=None if self.judged else _not_here,
            choices=self.choices,
            allow_na=self.allow_na,
            required=self.required,
            cap=self.cap,
            pass_at=self.pass_at,
            tags=self.tags,
            report_only=self.report_only,
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain data; what is as usual is left out."""
        data: dict[str, Any] = {each.name: getattr(self, each.name) for each in fields(self)}
        data["choices"], data["tags"] = list(self.choices), list(self.tags)
        data["inside"] = [inner.to_dict() for inner in self.inside]
        usual = {each.name: each.default for each in fields(self)}
        usual |= {"inside": [], "choices": list(BINARY), "tags": []}
        return {name: value for name, value in data.items() if value != usual[name]}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "CriterionAbout":
        known: dict[str, Any] = {
            each.name: data[each.name] for each in fields(cls) if each.name in data
        }
        for name in known.keys() & {"choices", "tags"}:
            known[name] = tuple(known[name])
        known["inside"] = tuple(map(cls.from_dict, known.get("inside", ())))
        return cls(**known)


@dataclass(frozen=True)
class RubricAbout:
    """A rubric as a run remembers it."""

    name: str
    hash: str
    criteria: tuple[CriterionAbout, ...] = ()
    aggregation: str = "weighted"
    source: Mapping[str, Any] | None = None
    """As a rubric file holds it; None when it has checks that no file can name."""

    @classmethod
    def of(cls, rubric: Any) -> "RubricAbout":
        """What is known of a rubric, or of anything else with rollouts in and reports out."""
        aggregation = getattr(rubric, "aggregation", None)
        return cls(
            name=str(getattr(rubric, "name", "") or ""),
            hash=str(getattr(rubric, "content_hash", "") or path_of(rubric)),
            criteria=tuple(map(CriterionAbout.of, getattr(rubric, "criteria", ()))),
            aggregation=str(getattr(aggregation, "name", "weighted")),
            source=_source(rubric),
        )

    @cached_property
    def lines_of(self) -> tuple[Criterion, ...]:
        """The criteria that report lines are made with."""
        return tuple(criterion.criterion() for criterion in self.criteria)

    def to_dict(self) -> dict[str, Any]:
        data: dict[str, Any] = {each.name: getattr(self, each.name) for each in fields(self)}
        return {**data, "criteria": [criterion.to_dict() for criterion in self.criteria]}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "RubricAbout":
        known: dict[str, Any] = {
            each.name: data[each.name] for each in fields(cls) if each.name in data
        }
        known["criteria"] = tuple(map(CriterionAbout.from_dict, known.get("criteria", ())))
        return cls(**known)

    def differences(self, other: "RubricAbout") -> Iterator[str]:
        """What is not the same in another rubric, in words."""
        if self.hash == other.hash:
            return
        was = {criterion.name: criterion.hash for criterion in self.criteria}
        now = {criterion.name: criterion.hash for criterion in other.criteria}
        changes = {
            "is gone": was.keys() - now.keys(),
            "is new": now.keys() - was.keys(),
            "says something else": {n for n in was.keys() & now.keys() if was[n] != now[n]},
        }
        told = [f"{name!r} {what}" for what, names in changes.items() for name in sorted(names)]
        more = f", and {len(told) - 3} more" if len(told) > 3 else ""
        why = ", ".join(told[:3]) or "its name, order or aggregation changed"
        yield f"the rubric is another ({why}{more})"


def _criteria_of(scorer: Any) -> Sequence[Criterion]:
    return cast("Sequence[Criterion]", getattr(scorer, "criteria", ())) if is_scorer(scorer) else ()


def _check_name(check: Any) -> Any:
    if check is None or is_scorer(check):
        return None
    spec = getattr(check, "spec", None)
    return plain(spec()) if callable(spec) else path_of(check)


def _source(rubric: Any) -> Mapping[str, Any] | None:
    to_dict = getattr(rubric, "to_dict", None)
    if not callable(to_dict):
        return None
    try:
        return cast("Mapping[str, Any]", to_dict())
    except RubricError:
        return None


def _not_here() -> None:
    """Stands where a check was: its answers were saved, and not the function."""
