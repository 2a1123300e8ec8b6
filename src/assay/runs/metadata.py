"""RunAbout says what was run: it stands in run.json, with the rubric and the data as the run knows them."""

import hashlib
import platform
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from functools import cached_property
from inspect import Parameter, signature
from os import PathLike
from pathlib import Path
from typing import Any, cast

from assay.criterion import BINARY, Criterion, is_scorer
from assay.engine import Traits
from assay.errors import RubricError
from assay.graders.autograder import Autograder, JudgeOptions
from assay.identity import hash_of, path_of
from assay.redaction import redacted_settings
from assay.runs.jsonable import to_jsonable
from assay.wording import short_repr


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
        same = ("name", "weight", "requirement", "choices", "allow_na", "required", "cap", "pass_at")
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
        known: dict[str, Any] = {each.name: data[each.name] for each in fields(cls) if each.name in data}
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
        known: dict[str, Any] = {each.name: data[each.name] for each in fields(cls) if each.name in data}
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
    return to_jsonable(spec()) if callable(spec) else path_of(check)


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


FORMAT = "assay.run/1"


def _empty_dict() -> dict[str, Any]:
    return {}


@dataclass(frozen=True)
class RunAbout:
    """What was run: by which rubric, on what data, with what settings.

    Secrets are struck out here, so they reach neither a file nor a page.

    >>> RunAbout.of("score", config={"base_url": "https://me:pw@host/v1"}).config
    {'base_url': 'https://***@host/v1'}
    """

    kind: str
    """`score`, `evaluate` or `rescore`."""
    created: str = ""
    """When, in UTC, as `2026-01-31T09:30:00Z`."""
    versions: Mapping[str, str] = field(default_factory=_empty_dict)
    config: Mapping[str, Any] = field(default_factory=_empty_dict)
    """Settings that decide the results: with another value it is another run."""
    options: Mapping[str, Any] = field(default_factory=_empty_dict)
    """How it was run, such as how much at once and for how much money; may change on resuming."""
    rubric: RubricAbout | None = None
    """None when every row brings its own."""
    model: str | None = None
    """The model under test; None when nothing was generated."""
    judge: str | None = None
    """Who answers what a model is asked; None when code answers everything."""
    resolved: tuple[str, ...] = ()
    """The ids that endpoints gave the models that answered; more than one for a name if it was moved."""
    data: Mapping[str, Any] = field(default_factory=_empty_dict)
    """Where the rows came from, and what they are known by."""
    resumed: int = 0
    """How often the run was gone on with."""

    @classmethod
    def of(cls, kind: str, *, rubric: Any = None, judge: Autograder | str | None = None, **known: Any) -> "RunAbout":
        """What is known of a run that begins now. `rubric` and `judge` may be the objects themselves."""
        if rubric is not None and not isinstance(rubric, RubricAbout):
            rubric = RubricAbout.of(rubric)
        return cls(
            kind,
            created=f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
            versions=_versions(),
            rubric=rubric,
            judge=judge_name(judge) if isinstance(judge, Autograder) else judge,
            **known,
        )

    def __post_init__(self) -> None:
        for name in ("versions", "config", "options", "data"):
            object.__setattr__(self, name, redacted_settings(to_jsonable(getattr(self, name))))
        for name in ("model", "judge"):
            object.__setattr__(self, name, redacted_settings(getattr(self, name)))
        object.__setattr__(self, "resolved", tuple(map(redacted_settings, self.resolved)))

    def with_fields(self, **changes: Any) -> "RunAbout":
        """A copy with some fields changed."""
        return replace(self, **changes)

    def having_met(self, models: Iterable[str]) -> "RunAbout":
        """A copy that knows of these ids, too; itself when they are no news.

        >>> RunAbout("score", resolved=("b",)).having_met(["a", "b"]).resolved
        ('a', 'b')
        """
        resolved = tuple(sorted({*self.resolved, *map(redacted_settings, models)}))
        return self if resolved == self.resolved else replace(self, resolved=resolved)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON, as run.json holds it."""
        data: dict[str, Any] = {"format": FORMAT}
        data |= {each.name: getattr(self, each.name) for each in fields(self)}
        data["rubric"] = None if self.rubric is None else self.rubric.to_dict()
        return redacted_settings(data)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "RunAbout":
        """What `to_dict` was made from. What a later version may have added is passed over."""
        known = {each.name: data[each.name] for each in fields(cls) if each.name in data}
        if known.get("rubric") is not None:
            known["rubric"] = RubricAbout.from_dict(known["rubric"])
        return cls(**known)

    @cached_property
    def criteria(self) -> tuple[Any, ...]:
        """The criteria that rows are read with."""
        return () if self.rubric is None else self.rubric.lines_of

    def differences(self, other: "RunAbout") -> list[str]:
        """What makes the other run another one, in words; nothing when it can go on from this one."""
        return list(_differences(self, other))


def judge_of(rubric: Any, grader: Autograder | None = None) -> str | None:
    """Who answers what a rubric asks of models; None when it asks nothing, or has no judge.

    A grader given for the call goes before the rubric's own.
    """
    if grader is not None:
        return judge_name(grader) if rubric is None or Traits.of(rubric).asks else None
    return ", ".join(dict.fromkeys(map(judge_name, _graders(rubric)))) or None


def _graders(rubric: Any) -> Iterator[Autograder]:
    own = getattr(rubric, "autograder", None)
    if isinstance(own, Autograder) and Traits.of(rubric).asks:
        yield own
    for child in getattr(rubric, "rubrics", ()):
        yield from _graders(child)
    for criterion in getattr(rubric, "criteria", ()):
        if is_scorer(criterion.check):
            yield from _graders(criterion.check)


def judge_name(grader: Autograder) -> str:
    """Who judges, and how: `PerCriterionGrader(openai/gpt-5-mini), per_criterion/2`."""
    kind, title = type(grader).__name__, grader.title
    inner: Sequence[Autograder] = getattr(grader, "inner", ())
    if inner:
        times = Counter(map(judge_name, inner))
        title = ", ".join(name if n == 1 else f"{n} × {name}" for name, n in times.items())
    wording = getattr(grader, "wording", None)
    words = [f"{kind}({title})" if inner or not title.startswith(kind) else title]
    words += [wording] if isinstance(wording, str) else []
    return ", ".join([*words, *_settings(grader)])


_NO_SETTINGS = frozenset({"self", "generate_fn", "model", "grader", "judges", "inner", "warm"})
"""Parameters of graders that are named already, or decide no answer."""


def _settings(grader: Autograder) -> Iterator[str]:
    """What a grader was made with that differs from the usual: with another value it answers otherwise."""
    held = vars(grader)
    for parameter in signature(type(grader).__init__).parameters.values():
        name, usual = parameter.name, parameter.default
        value = held.get(name, held.get(f"_{name}", usual))
        if name in _NO_SETTINGS or parameter.kind in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD):
            continue
        if name == "normalize":
            usual = True
        if name == "system_prompt":
            if getattr(grader, "wording", "").endswith("/own"):
                yield f"system_prompt {hash_of(value)[:8]}"
        elif value is not parameter.empty and value != usual:
            told = repr(value)
            is_plain = len(told) <= 60 and not _ADDRESS.search(told)
            yield f"{name}={told}" if is_plain else f"{name} {_identity(value)}"
    options = held.get("options")
    if isinstance(options, JudgeOptions):
        for each in fields(options):
            value = getattr(options, each.name)
            # Which of several answers to one question it gives is no setting.
            if each.name != "sample" and value != each.default:
                yield f"{each.name}={value!r}" if each.name != "examples" else "with examples"


def _identity(value: object) -> str:
    """A short hash of a value, the same in every process."""
    told = to_jsonable(value) if not callable(value) else path_of(value)
    # Functions inside are told by an address in memory, which is another in every process.
    return hash_of(_ADDRESS.sub("", str(told)))[:8]


_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def _versions() -> dict[str, str]:
    from assay import __version__

    return {"assay": __version__, "python": platform.python_version()}


def _differences(was: RunAbout, now: RunAbout) -> Iterator[str]:
    for name in ("kind", "model", "judge"):
        before, after = getattr(was, name), getattr(now, name)
        if before != after:
            yield f"{name} was {before}, and is {after}"
    if was.rubric is None or now.rubric is None:
        if was.rubric is not now.rubric:
            yield f"the run {'had no' if was.rubric is None else 'had a'} rubric of its own"
    else:
        yield from was.rubric.differences(now.rubric)
    for key in sorted({*was.config, *now.config}):
        before, after = was.config.get(key), now.config.get(key)
        if before != after:
            yield f"{key} was {short_repr(before)}, and is {short_repr(after)}"
    yield from _other_data(was.data, now.data)


def _other_data(was: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """Data is known by its fingerprint where it has one: the same file may be named otherwise."""
    by = "fingerprint" if "fingerprint" in was and "fingerprint" in now else None
    for key in [by] if by else sorted({*was, *now}):
        if was.get(key) != now.get(key):
            before, after = (short_repr(data.get(key)) for data in (was, now))
            yield f"the data is another: its {key} was {before}, and is {after}"


_END = 1 << 20


def data_about(source: object) -> dict[str, Any]:
    """Where rows come from: a file with its size and a fingerprint, a list with its length.

    The fingerprint is of the first and the last megabyte and the size.
    """
    if isinstance(source, str | PathLike):
        path = Path(cast("str", source))
        if str(path) == "-" or not path.is_file():
            return {"source": str(path)}
        size = path.stat().st_size
        return {"source": str(path), "bytes": size, "fingerprint": _fingerprint(path, size)}
    return {"rows": len(source)} if isinstance(source, Sized) else {}


def _fingerprint(path: Path, size: int) -> str:
    digest = hashlib.sha256(str(size).encode())
    with path.open("rb") as file:
        digest.update(file.read(_END))
        if size > _END:
            file.seek(max(_END, size - _END))
            digest.update(file.read(_END))
    return digest.hexdigest()
