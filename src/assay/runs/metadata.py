"""RunAbout says what was run: the metadata of a run, with its rubric and its data as it knows them."""

import hashlib
import platform
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from functools import cache, cached_property
from inspect import Parameter, signature
from os import PathLike
from pathlib import Path
from typing import Any, cast

from pydantic import ValidationError

from assay.criterion import BINARY_CHOICES, Criterion, hash_json, is_scorer
from assay.errors import RubricError
from assay.graders.grader import Grader, JudgeOptions
from assay.identity import (
    UNKNOWN,
    get_qualified_name,
    identify_judge,
    identify_or_token,
    identify_or_unknown,
    is_same_version,
)
from assay.plan import Traits
from assay.redaction import redact_settings
from assay.runs.jsonable import form_of, to_jsonable
from assay.runs.run_store import RunError, explain_damage
from assay.runs.stats import PassRule
from assay.wording import explain_first_error, format_value

GIT_SECONDS = 5.0  # how long to wait for git to name the commit

# What is known of a criterion as the criterion itself has it.
_SAME = (
    "name",
    "weight",
    "requirement",
    "choices",
    "allow_na",
    "required",
    "cap",
    "pass_at",
    "tags",
    "report_only",
)


def _not_here() -> None:
    """Stands where a check was: its answers were saved, and not the function."""


@dataclass(frozen=True)
class CriterionAbout:
    """A criterion as a run remembers it: all that its lines are made of, and what it is known by."""

    name: str
    hash: str  # of all it says
    question: str = ""  # the hash of only what decides the answer: not its weight, and not its name
    weight: float = 1.0
    requirement: str | None = None  # None when code answers
    check: Any = (
        None  # what answers by code: the name of a function, or a built-in check as a file has it
    )
    choices: tuple[str, ...] = BINARY_CHOICES
    allow_na: bool = False
    required: bool = False
    cap: float = 0.0
    pass_at: float = 1.0
    when: bool = False  # whether it is asked only where others came out so
    tags: tuple[str, ...] = ()
    report_only: bool = False
    inside: tuple[
        "CriterionAbout", ...
    ] = ()  # the criteria of the rubric that answers, where one does

    @classmethod
    def of(cls, criterion: Criterion) -> "CriterionAbout":
        check = criterion.check
        known: dict[str, Any] = {name: getattr(criterion, name) for name in _SAME}
        if is_scorer(check):
            known["inside"] = tuple(map(cls.of, getattr(check, "criteria", ())))
        elif check is not None:
            spec = getattr(check, "spec", None)
            known["check"] = to_jsonable(spec()) if callable(spec) else get_qualified_name(check)
        known |= {
            "hash": criterion.content_hash,
            "question": criterion.question_hash,
            "when": bool(criterion.when),
        }
        return cls(**known)

    @property
    def guideline(self) -> str:
        """The hash of its wording that a label holds. Runs of older versions know no `question`."""
        return self.question or self.hash

    # Whether a model answers, and whether an answer changes the score: by the rules of a criterion.
    judged, counts = Criterion.judged, Criterion.counts

    def criterion(self) -> Criterion:
        """A criterion that makes the same report lines. What code answered cannot be asked again."""
        return Criterion(
            check=None if self.judged else _not_here,
            **{name: getattr(self, name) for name in _SAME},
        )


@dataclass(frozen=True)
class RubricAbout:
    """A rubric as a run remembers it."""

    name: str
    hash: str
    criteria: tuple[CriterionAbout, ...] = ()
    aggregation: str = "weighted"
    source: Mapping[str, Any] | None = (
        None  # as a rubric file holds it; None when it has checks that no file can name
    )

    @classmethod
    def of(cls, rubric: Any) -> "RubricAbout":
        """What is known of a rubric, or of anything else with rollouts in and reports out."""
        aggregation = getattr(rubric, "aggregation", None)
        try:
            source = rubric.to_dict() if callable(getattr(rubric, "to_dict", None)) else None
        except RubricError:
            source = None
        return cls(
            name=str(getattr(rubric, "name", "") or ""),
            hash=str(getattr(rubric, "content_hash", "") or identify_or_unknown(rubric)),
            criteria=tuple(map(CriterionAbout.of, getattr(rubric, "criteria", ()))),
            aggregation=str(getattr(aggregation, "name", "weighted")),
            source=source,
        )

    def differences(self, other: "RubricAbout") -> Iterator[str]:
        """What is not the same in another rubric, in words."""
        if is_same_version(self.hash, other.hash):
            return
        if self.hash == other.hash == UNKNOWN:
            unknown = [c.name for c in self.criteria if c.hash == UNKNOWN]
            code = f"the code of {', '.join(map(repr, unknown))}" if unknown else "its code"
            yield (
                f"the rubric may be another, since {code} cannot be identified (it refers to a "
                "client, an open file or the like: leave that out of the object's `__getstate__`)"
            )
            return
        was = {criterion.name: criterion for criterion in self.criteria}
        now = {criterion.name: criterion for criterion in other.criteria}
        told = [f"{name!r} is gone" for name in sorted(was.keys() - now.keys())]
        told += [f"{name!r} is new" for name in sorted(now.keys() - was.keys())]
        for name in sorted(was.keys() & now.keys()):
            before, after = was[name], now[name]
            if is_same_version(before.hash, after.hash):
                continue
            if replace(before, hash=after.hash) == after and after.check is not None:
                told.append(
                    f"the code of {name!r} or a value that it refers to has changed; a cache or "
                    "a counter belongs into `functools.cache`, or into an object whose "
                    "`__getstate__` leaves it out"
                )
            else:
                told.append(f"{name!r} says something else")
        more = f", and {len(told) - 3} more" if len(told) > 3 else ""
        why = ", ".join(told[:3]) or (
            "its name, order, aggregation, what it shows, or what its class holds changed"
        )
        yield f"the rubric is another ({why}{more})"


@dataclass(frozen=True)
class RunAbout:
    """What was run: by which rubric, on what data, with what settings.

    Secrets are struck out here, so they reach neither a file nor a page.

    >>> RunAbout.of("score", config={"base_url": "https://me:pw@host/v1"}).config
    {'base_url': 'https://***@host/v1'}
    """

    kind: str  # `score`, `evaluate` or `rescore`
    created: str = ""  # when, in UTC, as `2026-01-31T09:30:00Z`
    versions: Mapping[str, str] = field(default_factory=dict[str, Any])
    # Settings that decide the results: with another value it is another run.
    config: Mapping[str, Any] = field(default_factory=dict[str, Any])
    # How it was run, such as how much at once and with which budget; may change on resuming.
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    rubric: RubricAbout | None = None  # None when every row brings its own
    model: str | None = None  # the model under test; None when nothing was generated
    judge: str | None = None  # who answers what a model is asked; None when code answers everything
    # The ids that endpoints gave the models that answered; more than one for a name if it was moved.
    resolved: tuple[str, ...] = ()
    # Where the rows came from, and what they are known by.
    data: Mapping[str, Any] = field(default_factory=dict[str, Any])
    resumed: int = 0  # how often the run was gone on with

    @classmethod
    def of(
        cls, kind: str, *, rubric: Any = None, judge: Grader | str | None = None, **known: Any
    ) -> "RunAbout":
        """What is known of a run that begins now. `rubric` and `judge` may be the objects themselves."""
        from assay import __version__

        if rubric is not None and not isinstance(rubric, RubricAbout):
            rubric = RubricAbout.of(rubric)
        created = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
        versions = {"assay": __version__, "python": platform.python_version()}
        commit = find_git_commit(Path.cwd())
        if commit is not None:
            versions["git"] = commit
        judge = judge_name(judge) if isinstance(judge, Grader) else judge
        return cls(kind, created, versions, rubric=rubric, judge=judge, **known)

    def __post_init__(self) -> None:
        for name in ("versions", "config", "options", "data", "model", "judge"):
            object.__setattr__(self, name, redact_settings(to_jsonable(getattr(self, name))))
        object.__setattr__(self, "resolved", tuple(map(redact_settings, self.resolved)))

    def completed(self, rubric: Any, grader: Grader | None) -> "RunAbout":
        """A copy that knows the rubric and who judges, where that is not known yet."""
        of_all = _of_all(rubric)
        known = (
            RubricAbout.of(of_all) if self.rubric is None and of_all is not None else self.rubric
        )
        return replace(self, rubric=known, judge=self.judge or judge_of(rubric, grader))

    def having_met(self, models: Iterable[str]) -> "RunAbout":
        """A copy that knows of these ids, too; itself when they are no news."""
        resolved = tuple(sorted({*self.resolved, *map(redact_settings, models)}))
        return self if resolved == self.resolved else replace(self, resolved=resolved)

    def to_dict(self) -> dict[str, Any]:
        """Return the metadata as plain data, ready for JSON."""
        form = form_of(RunAbout)
        data: dict[str, Any] = form.dump_python(self, mode="json")
        if self.rubric is not None:
            criteria = form_of(tuple[CriterionAbout, ...])
            data["rubric"]["criteria"] = criteria.dump_python(
                self.rubric.criteria, mode="json", exclude_defaults=True
            )
        return redact_settings(data)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "RunAbout":
        """What `to_dict` was made from. What a later version may have added is passed over."""
        return form_of(RunAbout).validate_python(data)

    @classmethod
    def from_saved(cls, data: Mapping[str, Any], path: Path) -> "RunAbout":
        """Return the metadata of the run in a file. Raise `RunError` if they cannot be read."""
        try:
            return cls.from_dict(data)
        except ValidationError as error:
            problem = f"its metadata: {explain_first_error(error)[1]}"
            raise RunError(explain_damage(path, problem)) from error

    @property
    def pass_rule(self) -> PassRule:
        """When a rollout of this run passes, for pass@k."""
        rule = self.options.get("pass_rule")
        return PassRule() if rule is None else PassRule(**rule)

    @cached_property
    def criteria(self) -> tuple[Criterion, ...]:
        """The criteria that rows are read with."""
        return (
            () if self.rubric is None else tuple(each.criterion() for each in self.rubric.criteria)
        )

    @property
    def version(self) -> str:
        """The version of the run's rubric; empty if every row brings its own."""
        return "" if self.rubric is None else self.rubric.hash

    def differences(self, other: "RunAbout") -> list[str]:
        """What makes the other run another one, in words; nothing when it can go on from this one."""
        told: list[str] = []
        for name in ("kind", "model", "judge"):
            before, after = getattr(self, name), getattr(other, name)
            if before != after:
                told.append(f"{name} was {before}, and is {after}")
        if self.rubric is not None and other.rubric is not None:
            told += self.rubric.differences(other.rubric)
        elif self.rubric is not other.rubric:
            told.append(f"the run {'had no' if self.rubric is None else 'had a'} rubric of its own")
        told += _changes(self.config, other.config)
        before, after = self.versions.get("assay"), other.versions.get("assay")
        if before != after:
            told.append(f"it was begun with assay {before}, and this is assay {after}")
        # Data is known by its fingerprint where it has one: the same file may be named otherwise.
        data = [about.data for about in (self, other)]
        if all("fingerprint" in each for each in data):
            data = [{"fingerprint": each["fingerprint"]} for each in data]
        return told + [f"the data is another: its {change}" for change in _changes(*data)]


def _changes(was: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    for key in sorted({*was, *now}):
        before, after = was.get(key), now.get(key)
        if before != after:
            yield f"{key} was {format_value(before)}, and is {format_value(after)}"


def _of_all(rubric: Any) -> Any:
    """The rubric itself; where rows bring their own, the one for all the others."""
    return getattr(rubric, "rubric", rubric)


def judge_of(rubric: Any, grader: Grader | None = None) -> str | None:
    """Who answers what a rubric asks of models, a `grader` of the call before its own; None when it asks nothing."""
    of_all = _of_all(rubric)
    # An answer holds only for what the judge was shown.
    views: dict[str, None] = {}
    for each in (*_rubrics(rubric), *_rubrics(of_all)):
        if getattr(each, "shows", None):
            views[f"shows {' '.join(each.shows)}"] = None
        if getattr(each, "thinking", None):
            views[f"thinking {each.thinking}"] = None
    shown = list(views)
    rows_may_ask = rubric is None or rubric is not of_all  # rows may bring their own rubrics
    rubric = of_all
    if grader is not None:
        asked = rows_may_ask or Traits.of(rubric).asks
        return ", ".join([judge_name(grader), *shown]) if asked else None
    graders = (
        each.autograder
        for each in _rubrics(rubric)
        if Traits.of(each).asks and hasattr(each, "autograder")
    )
    names = [*dict.fromkeys(judge_name(own) for own in graders if isinstance(own, Grader))]
    return ", ".join([*names, *shown]) if names else None


def _rubrics(rubric: Any) -> Iterator[Any]:
    """A rubric, and those inside it; some of a group come twice."""
    yield rubric
    for inner in (
        *getattr(rubric, "rubrics", ()),
        *(c.check for c in getattr(rubric, "criteria", ())),
    ):
        if is_scorer(inner):
            yield from _rubrics(inner)


def judge_name(grader: Grader) -> str:
    """Who judges, and how: `PerCriterionGrader(openai/gpt-5-mini), per_criterion/3`."""
    kind, title = type(grader).__name__, grader.title
    inner: Sequence[Grader] = getattr(grader, "inner", ())
    if inner:
        times = Counter(map(judge_name, inner))
        title = ", ".join(name if n == 1 else f"{n} × {name}" for name, n in times.items())
    wording = getattr(grader, "wording", None)
    words = [f"{kind}({title})" if inner or not title.startswith(kind) else title]
    words += [wording] if isinstance(wording, str) else []
    generate_fn = getattr(grader, "generate_fn", None)
    if generate_fn is not None:
        words.append(f"function {identify_judge(generate_fn)}")
    if not type(grader).__module__.startswith("assay."):
        words.append(f"code {identify_or_token(grader)[:12]}")
    return ", ".join([*words, *_settings(grader)])


# Parameters of graders that are named already, or decide no answer.
_NO_SETTINGS = frozenset({"self", "generate_fn", "model", "grader", "judges", "inner", "warm"})


def _settings(grader: Grader) -> Iterator[str]:
    """What a grader was made with that differs from the usual: with another value it answers otherwise."""
    held = vars(grader)
    parameters: dict[str, Parameter] = {}
    for kind in type(grader).__mro__:
        # One that takes `**options` hands them on to its base class, where they are named.
        own = signature(kind.__init__).parameters
        parameters = {**own, **parameters}
        if not any(parameter.kind is Parameter.VAR_KEYWORD for parameter in own.values()):
            break
    for name, parameter in parameters.items():
        usual = parameter.default
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
                yield f"system_prompt {hash_json(value)[:8]}"
        elif value is not parameter.empty and value != usual:
            if isinstance(value, str | int | float | bool) and len(repr(value)) <= 60:
                yield f"{name}={value!r}"
            else:
                yield f"{name} {identify_or_token(value)[:12]}"
    options = held.get("options")
    if isinstance(options, JudgeOptions):
        for each in fields(options):
            value = getattr(options, each.name)
            # Which of several answers to one question it gives is no setting.
            if each.name != "sample" and value != each.default:
                yield f"{each.name}={value!r}" if each.name != "examples" else "with examples"


@cache
def find_git_commit(folder: Path) -> str | None:
    """Return the commit of a folder, with `-dirty` if files were changed since.

    None if the folder is not in a git repository, or git is not there.
    """
    command = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=GIT_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None


def describe_file(path: str | PathLike[str] | None) -> dict[str, Any]:
    """Return the path of a data file and the hash of its content; nothing if there is no file."""
    if path is None:
        return {}
    about = data_about(path)
    if "fingerprint" not in about:
        return about
    return {"source": about["source"], "sha256": about["fingerprint"]}


def data_about(source: object) -> dict[str, Any]:
    """Return where rows come from: a file with its size and its hash, or the length of a list."""
    if isinstance(source, str | PathLike):
        path = Path(cast("str", source))
        if str(path) == "-" or not path.is_file():
            return {"source": str(path)}
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            size = file.tell()
        return {"source": str(path), "bytes": size, "fingerprint": digest}
    return {"rows": len(source)} if isinstance(source, Sized) else {}


def media_folders(about: RunAbout) -> list[Path]:
    """The folders of a run's data that lie in the current one: where its pictures and files may be."""
    source, here = about.data.get("source") or (), Path.cwd()
    parents = {
        Path(each).resolve().parent for each in ([source] if isinstance(source, str) else source)
    }
    # Others are not looked into: a run that came from elsewhere could name any folder of this machine.
    return [folder for folder in sorted(parents) if folder.is_dir() and folder.is_relative_to(here)]


def files_about(files: Sequence[str | PathLike[str]]) -> dict[str, Any]:
    """What several files go by, as if they were one."""
    each = [data_about(path) for path in files]
    if len(each) == 1:
        return each[0]
    prints = " ".join(str(data.get("fingerprint")) for data in each)
    size, fingerprint = (
        sum(data.get("bytes", 0) for data in each),
        hashlib.sha256(prints.encode()).hexdigest(),
    )
    return {"source": [str(path) for path in files], "bytes": size, "fingerprint": fingerprint}
