"""RunAbout: what was run. It stands in run.json, and says whether two runs are the same."""

import platform
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from functools import cached_property
from inspect import Parameter, signature
from typing import Any

from assay.criterion import is_scorer
from assay.graders.base import Autograder, JudgeOptions
from assay.identity import hash_of, path_of
from assay.redaction import redacted_settings
from assay.runs.plain import plain
from assay.runs.rubrics import RubricAbout
from assay.runs.ways import Way
from assay.wording import short_repr

FORMAT = "assay.run/1"


def _empty() -> dict[str, Any]:
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
    versions: Mapping[str, str] = field(default_factory=_empty)
    config: Mapping[str, Any] = field(default_factory=_empty)
    """Settings that decide the results: with another value it is another run."""
    options: Mapping[str, Any] = field(default_factory=_empty)
    """How it was run, such as how much at once and for how much money; may change on resuming."""
    rubric: RubricAbout | None = None
    """None when every row brings its own."""
    model: str | None = None
    """The model under test; None when nothing was generated."""
    judge: str | None = None
    """Who answers what a model is asked; None when code answers everything."""
    resolved: tuple[str, ...] = ()
    """The ids that endpoints gave the models that answered; more than one for a name if it was moved."""
    data: Mapping[str, Any] = field(default_factory=_empty)
    """Where the rows came from, and what they are known by."""
    resumed: int = 0
    """How often the run was gone on with."""

    @classmethod
    def of(
        cls, kind: str, *, rubric: Any = None, judge: Autograder | str | None = None, **known: Any
    ) -> "RunAbout":
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
            object.__setattr__(self, name, redacted_settings(plain(getattr(self, name))))
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
    """Who answers what a rubric asks of models; None when it asks nothing, or nobody is there.

    A grader given for the call goes before the rubric's own.
    """
    if grader is not None:
        return judge_name(grader) if rubric is None or Way.of(rubric).asks else None
    return ", ".join(dict.fromkeys(map(judge_name, _graders(rubric)))) or None


def _graders(rubric: Any) -> Iterator[Autograder]:
    own = getattr(rubric, "autograder", None)
    if isinstance(own, Autograder) and Way.of(rubric).asks:
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
        if name in _NO_SETTINGS or parameter.kind in (
            Parameter.VAR_POSITIONAL,
            Parameter.VAR_KEYWORD,
        ):
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
    told = plain(value) if not callable(value) else path_of(value)
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
