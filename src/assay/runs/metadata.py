"""The metadata of a run: its data, rubric, models, judge and settings."""

import hashlib
import platform
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import suppress
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
from assay.runs.jsonable import to_jsonable, type_adapter
from assay.runs.run_errors import RunError, explain_damage
from assay.runs.stats import PassRule
from assay.wording import explain_first_error, format_value

GIT_SECONDS = 5.0  # how long to wait for git to name the commit
_MAX_CHANGES = 3  # changed criteria that a message describes

# The attributes of a criterion that a run saves as they are.
_COPIED_ATTRIBUTES = (
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


def _missing_check() -> None:
    """Stand in for the check of a saved criterion, since its code is not saved with the run."""


@dataclass(frozen=True)
class CriterionAbout:
    """A criterion as a run saves it: what reports show of it, and hashes to recognize it."""

    name: str
    hash: str  # of the whole criterion
    question: str = ""  # the hash of only what decides the answer, so not of its name and weight
    weight: float = 1.0
    requirement: str | None = None  # None if code answers
    check: Any = None  # the name of a function, or a built-in check as a rubric file has it
    choices: tuple[str, ...] = BINARY_CHOICES
    allow_na: bool = False
    required: bool = False
    cap: float = 0.0
    pass_at: float = 1.0
    when: bool = False  # whether it is asked only if other criteria have certain answers
    tags: tuple[str, ...] = ()
    report_only: bool = False
    inside: tuple["CriterionAbout", ...] = ()  # those of the rubric that answers, if one does

    @classmethod
    def of(cls, criterion: Criterion) -> "CriterionAbout":
        """Return what a run saves of a criterion: its attributes, and hashes to recognize it."""
        check = criterion.check
        values: dict[str, Any] = {name: getattr(criterion, name) for name in _COPIED_ATTRIBUTES}
        if is_scorer(check):  # a nested rubric
            inner_criteria = getattr(check, "criteria", ())
            values["inside"] = tuple(cls.of(inner) for inner in inner_criteria)
        elif check is not None:
            # Built-in checks describe themselves as a rubric file does.
            spec = getattr(check, "spec", None)
            values["check"] = to_jsonable(spec()) if callable(spec) else get_qualified_name(check)
        values |= {
            "hash": criterion.content_hash,  # of the whole criterion
            "question": criterion.question_hash,  # of only what decides the answer
            "when": bool(criterion.when),
        }
        return cls(**values)

    @property
    def guideline(self) -> str:
        """The hash in labels that people gave, which says what they were asked.

        Runs of older versions have no `question`.
        """
        return self.question or self.hash

    # Whether a model answers, and whether the answer changes the score, by the rules of `Criterion`.
    judged, counts = Criterion.judged, Criterion.counts

    def criterion(self) -> Criterion:
        """Return a criterion to read reports with. Its check, if it has one, cannot run."""
        return Criterion(
            check=None if self.judged else _missing_check,
            **{name: getattr(self, name) for name in _COPIED_ATTRIBUTES},
        )


@dataclass(frozen=True)
class RubricAbout:
    """A rubric as a run saves it."""

    name: str
    hash: str
    criteria: tuple[CriterionAbout, ...] = ()
    aggregation: str = "weighted"
    # The rubric as a rubric file has it; None if it has checks that a file cannot name.
    source: Mapping[str, Any] | None = None

    @classmethod
    def of(cls, rubric: Any) -> "RubricAbout":
        """Return what a run saves of a rubric, or of another object that scores rollouts."""
        aggregation = getattr(rubric, "aggregation", None)
        source = None
        if callable(getattr(rubric, "to_dict", None)):
            # A rubric file cannot hold some checks, such as a lambda; then there is no source.
            with suppress(RubricError):
                source = rubric.to_dict()
        return cls(
            name=str(getattr(rubric, "name", "") or ""),
            hash=str(getattr(rubric, "content_hash", "") or identify_or_unknown(rubric)),
            criteria=tuple(
                CriterionAbout.of(criterion) for criterion in getattr(rubric, "criteria", ())
            ),
            aggregation=str(getattr(aggregation, "name", "weighted")),
            source=source,
        )

    def differences(self, other: "RubricAbout") -> Iterator[str]:
        """Yield one sentence about how another rubric differs from this one; none if it is equal."""
        if is_same_version(self.hash, other.hash):
            return
        if self.hash == other.hash == UNKNOWN:
            unknown_names = [
                repr(criterion.name) for criterion in self.criteria if criterion.hash == UNKNOWN
            ]
            code = f"the code of {', '.join(unknown_names)}" if unknown_names else "its code"
            yield (
                f"the rubric may have changed, because {code} cannot be identified (it refers to a "
                "client, an open file or the like: leave that out of the object's `__getstate__`)"
            )
            return
        changes = self._describe_changed_criteria(other)
        if changes:
            description = ", ".join(changes[:_MAX_CHANGES])
        else:
            description = (
                "its name, order, aggregation, what it shows, or what its class holds changed"
            )
        if len(changes) > _MAX_CHANGES:
            description += f", and {len(changes) - _MAX_CHANGES} more"
        yield f"the rubric has changed ({description})"

    def _describe_changed_criteria(self, other: "RubricAbout") -> list[str]:
        """Describe the criteria that are missing, new or changed in another rubric."""
        old_criteria = {criterion.name: criterion for criterion in self.criteria}
        new_criteria = {criterion.name: criterion for criterion in other.criteria}
        old_names = old_criteria.keys()
        new_names = new_criteria.keys()
        changes = [f"{name!r} is gone" for name in sorted(old_names - new_names)]
        changes += [f"{name!r} is new" for name in sorted(new_names - old_names)]
        for name in sorted(old_names & new_names):
            old, new = old_criteria[name], new_criteria[name]
            if is_same_version(old.hash, new.hash):
                continue
            # The hash also covers the code of the check, which a run does not save.
            only_hash_differs = replace(old, hash=new.hash) == new
            if only_hash_differs and new.check is not None:
                changes.append(
                    f"the code of {name!r} or a value that it refers to has changed; a cache or "
                    "a counter belongs into `functools.cache`, or into an object whose "
                    "`__getstate__` leaves it out"
                )
            else:
                changes.append(f"{name!r} has another wording")
        return changes


@dataclass(frozen=True)
class RunAbout:
    """The metadata of a run: its rubric, judge, data and settings.

    The constructor removes secrets, so none reaches a file or a page.

    >>> RunAbout.of("score", config={"base_url": "https://me:pw@host/v1"}).config
    {'base_url': 'https://***@host/v1'}
    """

    kind: str  # `score`, `evaluate` or `rescore`
    created: str = ""  # when, in UTC, as `2026-01-31T09:30:00Z`
    versions: Mapping[str, str] = field(default_factory=dict[str, Any])
    # Settings that decide the results. A run cannot be resumed with other values.
    config: Mapping[str, Any] = field(default_factory=dict[str, Any])
    # Other settings, such as concurrency and budget, which may change when the run is resumed.
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    rubric: RubricAbout | None = None  # None if every row brings its own
    model: str | None = None  # the model under test; None if nothing was generated
    judge: str | None = None  # None if code answers everything
    # The ids of models in replies. One name has several if its endpoint replaced the model.
    resolved: tuple[str, ...] = ()
    # Where the rows came from, with their number or a hash.
    data: Mapping[str, Any] = field(default_factory=dict[str, Any])
    resumed: int = 0  # how often the run was resumed
    # The changes of versions and of the git commit with which it was resumed, each with its time.
    changes: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, kind: str, *, rubric: Any = None, judge: Grader | str | None = None, **fields: Any
    ) -> "RunAbout":
        """Return the metadata of a run that begins now.

        `rubric` is a rubric, or what a run saves of one; `judge` is a grader, or its name. `fields`
        are other fields of this class.
        """
        from assay import __version__  # imports this module

        if rubric is not None and not isinstance(rubric, RubricAbout):
            rubric = RubricAbout.of(rubric)
        created = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
        versions = {"assay": __version__, "python": platform.python_version()}
        commit = find_git_commit(Path.cwd())
        if commit is not None:
            versions["git"] = commit
        if isinstance(judge, Grader):
            judge = judge_name(judge)
        return cls(kind, created, versions, rubric=rubric, judge=judge, **fields)

    def __post_init__(self) -> None:
        """Convert all fields with values of users to JSON values without secrets."""
        for name in ("versions", "config", "options", "data", "model", "judge"):
            value = to_jsonable(getattr(self, name))
            object.__setattr__(self, name, redact_settings(value))
        resolved = tuple(redact_settings(model) for model in self.resolved)
        object.__setattr__(self, "resolved", resolved)

    def completed(self, rubric: Any, grader: Grader | None) -> "RunAbout":
        """Return a copy that names the rubric and the judge, if this does not name them yet."""
        rubric_about = self.rubric
        rubric_for_all = _rubric_for_all(rubric)
        if rubric_about is None and rubric_for_all is not None:
            rubric_about = RubricAbout.of(rubric_for_all)
        return replace(self, rubric=rubric_about, judge=self.judge or judge_of(rubric, grader))

    def with_resolved_models(self, models: Iterable[str]) -> "RunAbout":
        """Return a copy that also has these ids of models from replies; itself if it has them all."""
        resolved = tuple(sorted({*self.resolved, *map(redact_settings, models)}))
        return self if resolved == self.resolved else replace(self, resolved=resolved)

    def to_dict(self) -> dict[str, Any]:
        """Return the metadata as plain data, ready for JSON."""
        data: dict[str, Any] = type_adapter(RunAbout).dump_python(self, mode="json")
        if self.rubric is not None:
            # There may be many criteria, so their defaults are left out.
            data["rubric"]["criteria"] = type_adapter(tuple[CriterionAbout, ...]).dump_python(
                self.rubric.criteria, mode="json", exclude_defaults=True
            )
        return redact_settings(data)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "RunAbout":
        """Return the metadata from what `to_dict` returned, ignoring fields of later versions."""
        return type_adapter(RunAbout).validate_python(data)

    @classmethod
    def from_saved(cls, data: Mapping[str, Any], path: Path) -> "RunAbout":
        """Return the metadata of a run from what its file `path` holds.

        Raise `RunError` if they are damaged.
        """
        try:
            return cls.from_dict(data)
        except ValidationError as error:
            _, explanation = explain_first_error(error)
            problem = f"its metadata: {explanation}"
            raise RunError(explain_damage(path, problem)) from error

    @property
    def pass_rule(self) -> PassRule:
        """The rule by which a rollout of this run passes, for pass@k."""
        rule = self.options.get("pass_rule")
        return PassRule() if rule is None else PassRule(**rule)

    @cached_property
    def criteria(self) -> tuple[Criterion, ...]:
        """The criteria of the run's rubric, to read its rows with."""
        if self.rubric is None:
            return ()
        return tuple(criterion.criterion() for criterion in self.rubric.criteria)

    @property
    def version(self) -> str:
        """The version of the run's rubric; empty if every row brings its own."""
        return "" if self.rubric is None else self.rubric.hash

    def differences(self, other: "RunAbout") -> list[str]:
        """Return reasons why the other run cannot continue this one; an empty list if it can."""
        differences: list[str] = []
        for name in ("kind", "model", "judge"):
            before = getattr(self, name)
            after = getattr(other, name)
            if before != after:
                differences.append(f"{name} was {before}, and is {after}")
        if self.rubric is not None and other.rubric is not None:
            differences += self.rubric.differences(other.rubric)
        elif self.rubric is not None:  # in the other run, every row brings its own
            differences.append("the run had a rubric, and now there is none")
        elif other.rubric is not None:
            differences.append("the run had no rubric but those of its rows, and now there is one")
        differences += _describe_changes(self.config, other.config)
        differences += self._describe_changed_data(other, has_other_differences=bool(differences))
        return differences

    def _describe_changed_data(
        self, other: "RunAbout", *, has_other_differences: bool
    ) -> list[str]:
        """Describe how the data of another run differ from these, by their hashes if both have one.

        `has_other_differences` may be the reason why the rows differ. The
        system prompt, for example, is part of the rows of an environment: if it has changed, the
        hash of the rows differs, although the file with the data is the same.
        """
        before = self.data.get("fingerprint")  # the hash of all rows
        after = other.data.get("fingerprint")
        if before is None or after is None:
            changes = _describe_changes(self.data, other.data)
            return [f"the data have changed: their {change}" for change in changes]
        # The content is the same if the hash is, even if the file has another name.
        if before == after:
            return []
        file_before = self.data.get("sha256")  # the hash of the file that an environment has read
        file_after = other.data.get("sha256")
        if has_other_differences and file_before is not None and file_before == file_after:
            return []
        return [f"the data have changed (the hash was {before[:12]}, and is {after[:12]})"]

    def changed_versions(self, other: "RunAbout") -> list[str]:
        """Describe which versions of software, and which git commit, differ in the other run."""
        changes: list[str] = []
        for name in sorted({*self.versions, *other.versions}):
            before = self.versions.get(name, "none")
            after = other.versions.get(name, "none")
            if before == after:
                continue
            if name == "git":
                before = _shorten_commit(before)
                after = _shorten_commit(after)
                changes.append(f"the git commit was {before}, and is {after}")
            else:
                changes.append(f"{name} was {before}, and is {after}")
        return changes

    def resumed_as(self, other: "RunAbout") -> "RunAbout":
        """Return the metadata of this saved run after the session `other` has resumed it."""
        changes = [f"{other.created}: {change}" for change in self.changed_versions(other)]
        return replace(
            self,
            resumed=self.resumed + 1,
            options=other.options,
            versions=other.versions,
            changes=(*self.changes, *changes),
        )


def _describe_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    """Yield a description of each setting whose value has changed."""
    for key in sorted({*old, *new}):
        before, after = old.get(key), new.get(key)
        if before != after:
            yield f"{key} was {format_value(before)}, and is {format_value(after)}"


def _rubric_for_all(rubric: Any) -> Any:
    """Return the rubric for all rows that have none of their own; None if there is none.

    `RowRubrics` hold it as `rubric`; a rubric is itself the one for all rows.
    """
    return getattr(rubric, "rubric", rubric)


def judge_of(rubric: Any, grader: Grader | None = None) -> str | None:
    """Return the name of the judge of a rubric; None if no model is asked.

    The name says what the judge is shown, because its answers hold only for that. A `grader`
    replaces the graders of the rubric.
    """
    rubric_for_all = _rubric_for_all(rubric)
    if grader is not None:
        rows_may_have_rubrics = rubric is None or rubric is not rubric_for_all
        if not rows_may_have_rubrics and not Traits.of(rubric_for_all).asks_model:
            return None
        names = [judge_name(grader)]
    else:
        names = _list_judges(rubric_for_all)
        if not names:
            return None
    views = _describe_views([*_list_rubrics(rubric), *_list_rubrics(rubric_for_all)])
    return ", ".join([*names, *views])


def _list_judges(rubric: Any) -> list[str]:
    """Return the names of the judges of a rubric and of the rubrics inside it, each once.

    A rubric may have a grader, which it does not use if code answers all its criteria.
    """
    names: list[str] = []
    for inner in _list_rubrics(rubric):
        grader = getattr(inner, "grader", None)
        has_judged_criteria = Traits.of(inner).asks_model
        if has_judged_criteria and isinstance(grader, Grader):
            names.append(judge_name(grader))
    return list(dict.fromkeys(names))


def _describe_views(rubrics: Sequence[Any]) -> list[str]:
    """Return which parts of rollouts rubrics show to judges, beside the completion, each once."""
    views: list[str] = []
    for rubric in rubrics:
        shows = getattr(rubric, "shows", None)
        if shows:
            views.append(f"shows {' '.join(shows)}")
        thinking = getattr(rubric, "thinking", None)
        if thinking:
            views.append(f"thinking {thinking}")
    return list(dict.fromkeys(views))


def _list_rubrics(rubric: Any) -> Iterator[Any]:
    """Yield a rubric, the rubrics of a group, and those that answer a criterion.

    A rubric of a group may come twice, since the group lists its criteria too.
    """
    yield rubric
    rubrics_of_group = getattr(rubric, "rubrics", ())
    checks = [criterion.check for criterion in getattr(rubric, "criteria", ())]
    for inner in (*rubrics_of_group, *checks):
        if is_scorer(inner):
            yield from _list_rubrics(inner)


def judge_name(grader: Grader) -> str:
    """Return who judges and how: `PerCriterionGrader(openai/gpt-5-mini), per_criterion/4`.

    Graders with the same name give the same answers, as far as that can be known.
    """
    kind = type(grader).__name__
    inner_graders: Sequence[Grader] = getattr(grader, "inner", ())  # the judges of a panel
    if inner_graders:
        counts = Counter(judge_name(inner) for inner in inner_graders)
        names = [name if count == 1 else f"{count} × {name}" for name, count in counts.items()]
        title = f"{kind}({', '.join(names)})"
    elif grader.title.startswith(kind):  # the title may name the class already
        title = grader.title
    else:
        title = f"{kind}({grader.title})"
    parts = [title]
    wording = getattr(grader, "wording", None)  # the name and version of the prompt
    if isinstance(wording, str):
        parts.append(wording)
    generate_fn = getattr(grader, "generate_fn", None)
    if generate_fn is not None:
        parts.append(f"function {identify_judge(generate_fn)}")
    if not type(grader).__module__.startswith("assay."):
        # A grader from elsewhere has no version, so the hash of its code tells versions apart.
        parts.append(f"code {identify_or_token(grader)[:12]}")
    return ", ".join([*parts, *_describe_settings(grader)])


# Parameters of graders that `judge_name` describes already, or that do not change answers.
_OTHER_PARAMETERS = frozenset(
    {"self", "generate_fn", "model", "judge", "grader", "judges", "inner", "warm"}
)
_LONGEST_VALUE = 60  # characters of a setting that are part of the name of a judge


def _describe_settings(grader: Grader) -> Iterator[str]:
    """Yield the settings of a grader that are not the defaults, since they change its answers."""
    attributes = vars(grader)
    for name, parameter in _list_parameters(type(grader)).items():
        if name in _OTHER_PARAMETERS:
            continue
        if parameter.kind in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD):
            continue
        # Constructors keep an argument under its name, with or without an underscore.
        value = attributes.get(name, attributes.get(f"_{name}", parameter.default))
        if name == "system_prompt":
            if getattr(grader, "wording", "").endswith("/own"):  # the prompt is the user's
                yield f"system_prompt {hash_json(value)[:8]}"
            continue
        # Some graders take over `normalize` from another one, so their default is None.
        default = True if name == "normalize" else parameter.default
        if value is parameter.empty or value == default:
            continue
        is_readable = isinstance(value, str | int | float | bool)
        if is_readable and len(repr(value)) <= _LONGEST_VALUE:
            yield f"{name}={value!r}"
        else:
            yield f"{name} {identify_or_token(value)[:12]}"
    options = attributes.get("options")
    if isinstance(options, JudgeOptions):
        yield from _describe_options(options)


def _list_parameters(grader_type: type[Grader]) -> dict[str, Parameter]:
    """Return the parameters of the constructor of a grader, by name.

    If it takes `**options`, those are the parameters of the base class, so they are included.
    """
    parameters: dict[str, Parameter] = {}
    for base in grader_type.__mro__:
        base_parameters = signature(base.__init__).parameters
        # The parameters of a subclass take precedence over those of its bases.
        parameters = {**base_parameters, **parameters}
        takes_options = any(
            parameter.kind is Parameter.VAR_KEYWORD for parameter in base_parameters.values()
        )
        if not takes_options:
            break
    return parameters


def _describe_options(options: JudgeOptions) -> Iterator[str]:
    """Yield the options of a grader that are not the defaults."""
    for option in fields(options):
        value = getattr(options, option.name)
        # `sample` only numbers several answers to the same question.
        if option.name == "sample" or value == option.default:
            continue
        if option.name == "examples":  # they are too long for a name
            yield "with examples"
        else:
            yield f"{option.name}={value!r}"


@cache
def find_git_commit(folder: Path) -> str | None:
    """Return the git commit of the code in a folder; None without git or a repository.

    If tracked files were changed since, `-dirty-` and a hash of the changes are appended, or
    `-unknown` if the changes cannot be read.
    """
    head = _run_git(folder, "rev-parse", "HEAD")
    if head is None:
        return None
    commit = head.decode().strip()
    # Saved runs (`*.assay`) may be tracked too, but writing a run does not change the code.
    compared_files = ("HEAD", "--", ":(top)", ":(top,exclude)*.assay")
    changes = _run_git(
        folder, "diff", "--binary", "--no-ext-diff", "--no-textconv", *compared_files
    )
    if changes is None:
        return f"{commit}-unknown"
    if changes:
        commit += f"-dirty-{hashlib.sha256(changes).hexdigest()[:12]}"
    return commit


def _shorten_commit(commit: str) -> str:
    """Shorten the hash of a commit to 12 characters, and keep a suffix such as `-dirty-…`."""
    digest, dash, suffix = commit.partition("-")
    return f"{digest[:12]}{dash}{suffix}"


def _run_git(folder: Path, *arguments: str) -> bytes | None:
    """Return what a git command prints about a folder; None if it fails."""
    try:
        process = subprocess.run(
            ["git", *arguments], cwd=folder, capture_output=True, timeout=GIT_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return process.stdout


def describe_file(path: str | PathLike[str] | None) -> dict[str, Any]:
    """Return the path of a data file and the hash of its content, as `source` and `sha256`.

    The result is empty if there is no path, and has no hash if there is no file.
    """
    if path is None:
        return {}
    about = data_about(path)
    if "fingerprint" not in about:
        return about
    return {"source": about["source"], "sha256": about["fingerprint"]}


def data_about(source: object) -> dict[str, Any]:
    """Return the part of a run's metadata that says where its rows come from.

    That is the path of a file with its size and hash, or the length of a list. It is empty if
    nothing is known about the rows.
    """
    if isinstance(source, str | PathLike):
        path = Path(cast("str", source))
        if str(path) == "-" or not path.is_file():  # `-` is the standard input
            return {"source": str(path)}
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            size = file.tell()
        return {"source": str(path), "bytes": size, "fingerprint": digest}
    return {"rows": len(source)} if isinstance(source, Sized) else {}


def media_folders(about: RunAbout) -> list[Path]:
    """Return the folders of a run's data files, whose rows may refer to pictures beside them.

    Only folders inside the current one are returned: a run from elsewhere could name any folder of
    this machine.
    """
    source = about.data.get("source") or ()  # one path, or a list of several
    paths = [source] if isinstance(source, str) else source
    parents = {Path(path).resolve().parent for path in paths}
    here = Path.cwd()
    return [folder for folder in sorted(parents) if folder.is_dir() and folder.is_relative_to(here)]


def files_about(files: Sequence[str | PathLike[str]]) -> dict[str, Any]:
    """Return the same as `data_about` for one or more files: their size and hash are of all."""
    abouts = [data_about(path) for path in files]
    if len(abouts) == 1:
        return abouts[0]
    fingerprints = " ".join(str(about.get("fingerprint")) for about in abouts)
    return {
        "source": [str(path) for path in files],
        "bytes": sum(about.get("bytes", 0) for about in abouts),
        "fingerprint": hashlib.sha256(fingerprints.encode()).hexdigest(),
    }
