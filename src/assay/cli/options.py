"""Define the options that several commands share; those that belong together reach a command as one record."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click
from click.shell_completion import CompletionItem

from assay.cli.config import config_of
from assay.cli.formats import FORMATS
from assay.runs.stats import Thresholds, threshold_of
from assay.wording import counted

if TYPE_CHECKING:
    from assay.trust import Label


def number(least: float = -math.inf, *, what: str = "number") -> Callable[[Any], float]:
    """A finite number, of `least` or more."""

    def read(value: Any) -> float:
        try:
            found = float(value)
        except (TypeError, ValueError):
            found = math.nan
        if not (math.isfinite(found) and found >= least):
            more = f" of {least:g} or more" if math.isfinite(least) else ""
            raise click.BadParameter(f"{value!r} is no {what}{more}")
        return found

    return read


def threshold(value: Any) -> float:
    """A score between 0 and 1."""
    try:
        return threshold_of(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def dollars(value: Any) -> float:
    """A sum of money, with its sign or without."""
    return number(0, what="sum of money")(str(value).removeprefix("$"))


def seconds(value: Any) -> float:
    """A time above 0."""
    found = number(0)(value)
    if not found:
        raise click.BadParameter(f"{value!r} is no time: give seconds above 0")
    return found


def count(least: int = 0) -> Callable[[Any], int]:
    """A whole number, of `least` or more."""

    def read(value: Any) -> int:
        text = str(value).strip()
        if not (text.isascii() and text.isdigit() and int(text) >= least):
            raise click.BadParameter(f"{value!r} is no whole number of {least} or more")
        return int(text)

    return read


def pair(value: Any) -> tuple[str, str]:
    """Two names, as `ours=theirs`."""
    if isinstance(value, tuple):
        return cast("tuple[str, str]", value)
    ours, _, theirs = str(value).partition("=")
    if not (ours.strip() and theirs.strip()):
        raise click.BadParameter(f"{value!r} is no pair of columns: write completion=output")
    return ours.strip(), theirs.strip()


def files(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Have the shell complete the name of a file."""
    return [CompletionItem(incomplete, type="file")]


Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

run_folder = click.Path(exists=True, file_okay=False)


def option(form: str, help: str, kind: Any = None, default: Any = None, *, env: str = "", **settings: Any) -> Decorator:
    """An option of a command, in the form that help shows: `-o --output FOLDER`, or `--quiet` for a flag.

    `kind` reads the value, or holds what it may be; `env` is the variable that may give it, too.
    """
    names = [word for word in form.split() if word.startswith("-")]
    metavar = form.split()[len(names) :]
    settings |= {"metavar": metavar[0]} if metavar else {"is_flag": True} if kind is None else {}
    if default is not None:
        settings = {"default": default, "show_default": not callable(default), **settings}
    if env:
        settings |= {"envvar": env, "show_envvar": True}
    name = [settings.pop("name")] if "name" in settings else []
    kind = click.Choice(cast("tuple[str, ...]", kind)) if isinstance(kind, tuple) else kind
    return click.option(*names, *name, help=help, type=kind, **settings)


def filled_by(decorator: Decorator) -> Any:
    """A field of a record that this option fills."""
    return field(metadata={"click": decorator})


def value_of(form: str, help: str, kind: Any = None, default: Any = None, **settings: Any) -> Any:
    """A field of a record that an `option` fills."""
    return filled_by(option(form, help, kind, default, **settings))


def record(name: str, kind: type[Any], **instead: Decorator) -> Decorator:
    """The options of a record, which a command gets under that name; some may be declared `instead`."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def call(**given: Any) -> Any:
            values = {each.name: given.pop(each.name) for each in fields(kind)}
            return function(**given, **{name: kind(**values)})

        decorated: Callable[..., Any] = call
        for each in reversed(fields(kind)):
            decorated = (instead.get(each.name) or each.metadata["click"])(decorated)
        return decorated

    return decorate


quiet_option = option("-q --quiet", "Say nothing but errors on standard error.")
page_option = option("-f --format", "What to print.", ("table", "json", "markdown"), "table", name="layout")
# It is read first, since it says what a config file may name.
allow_code_option = option("--allow-code", "Let the rubric file name functions to run.", is_eager=True)


@dataclass(frozen=True)
class RubricOptions:
    """Which rubric, and how far it is trusted."""

    rubric: str | None
    """None where every row may have its own."""
    allow_code: bool = filled_by(allow_code_option)


def rubric_options(*, required: bool = True) -> Decorator:
    """Which rubric. Where it is not required, rows may have their own."""
    said = "A YAML, JSON or TOML file, or module:object for one written in Python."
    rubric = option("-r --rubric RUBRIC", said, env="ASSAY_RUBRIC", required=required, shell_complete=files)
    return record("rubrics", RubricOptions, rubric=rubric)


def rubric_argument(**settings: Any) -> Decorator:
    """Which rubric, by an argument."""
    rubric = click.argument("rubric", metavar="RUBRIC", shell_complete=files, **settings)
    return record("rubrics", RubricOptions, rubric=rubric)


@dataclass(frozen=True)
class InputOptions:
    """Rows to work on."""

    files: tuple[str, ...]
    """Tables, `-` for standard input, a folder of tables or the folder of a run."""
    mapping: tuple[tuple[str, str], ...] = value_of(
        "--map OURS=THEIRS", "What a column is called there: completion=output. May be given again.", pair,
        multiple=True, name="mapping",
    )  # fmt: skip
    limit: int | None = value_of("--limit N", "Only the first N rows.", count(1))

    @property
    def data(self) -> str:
        """The file, or what to call several of them."""
        more = len(self.files) - 1
        return f"{self.files[0]} and {more} more" if more else self.files[0]


def input_options(metavar: str, **how: Any) -> Decorator:
    """The rows to work on: an argument that is shown so, and what is done to them first."""
    return record("given", InputOptions, files=click.argument("files", metavar=metavar, shell_complete=files, **how))


@dataclass(frozen=True)
class OutputOptions:
    """Where a run is kept, and how it is worked on."""

    output: str | None = value_of(
        "-o --output FOLDER", "Keep the run in this folder, every rollout as soon as it is finished.",
        shell_complete=files,
    )  # fmt: skip
    resume: bool = value_of("--resume", "Go on with the run in the folder: only what is missing or failed is done.")
    judge_log: bool = value_of(
        "--judge-log", "Keep what judges were asked and said, word for word, for `assay view` to show."
    )
    concurrency: int | None = value_of(
        "--concurrency N", "Rollouts under way at once.", count(1), env="ASSAY_CONCURRENCY"
    )

    def __post_init__(self) -> None:
        if self.judge_log and self.folder is None:
            raise click.UsageError("the judge log is kept in a run: name its folder with -o")

    @property
    def folder(self) -> str | None:
        """The folder of the run; None when nothing is kept."""
        return None if self.output == "-" else self.output


@dataclass(frozen=True)
class JudgeOptions:
    """Who judges, how, and for how much."""

    judge: str | None
    """The name of a model; None is the default."""
    grader: str = value_of(
        "--grader", "One call a criterion, one for all, or one number for all.",
        ("per-criterion", "one-shot", "holistic"), "per-criterion", env="ASSAY_GRADER",
    )  # fmt: skip
    guard: bool = value_of("--guard", "Ask first whether a text tries to sway its judge.", env="ASSAY_GUARD")
    dry_run: bool = value_of("--dry-run", "Ask nobody: say how many calls, tokens and dollars it would take.")
    budget: float | None = value_of("--budget DOLLARS", "Spend no more than this.", dollars, env="ASSAY_BUDGET")
    cache: str | None = value_of(
        "--cache PLACE", "Folder, file or postgresql:// URL of the verdicts; by default yours.", env="ASSAY_CACHE"
    )
    no_cache: bool = value_of("--no-cache", "Keep no verdicts, and use none.")


def judge_options(names: str = "") -> Decorator:
    """The options of the judge, who is named by `--judge` and by these `names`.

    Where those say `--model`, no other model is meant, so that the default model judges too.
    """

    def project_model() -> str | None:
        ctx = click.get_current_context()
        return None if ctx.resilient_parsing else config_of(ctx).get("model")

    said = "Who judges: openai/…, anthropic/…, http://…#name, or local, which needs no key and is the default."
    how: dict[str, Any] = {"envvar": ["ASSAY_JUDGE"]}
    if names:
        how = {"envvar": ["ASSAY_JUDGE", "ASSAY_MODEL"], "default": project_model}
    judge = option(f"{names} --judge MODEL", said, name="judge", show_envvar=True, **how)
    return record("judging", JudgeOptions, judge=judge)


@dataclass(frozen=True)
class DisplayOptions:
    """What is printed, and what makes a failure of it."""

    format: str = value_of("-f --format", "What to print.", tuple(FORMATS), "table", env="ASSAY_FORMAT")
    fail_under: float | None = value_of(
        "--fail-under SCORE", "Exit with 100 when the mean score is below this number between 0 and 1.", threshold,
        env="ASSAY_FAIL_UNDER",
    )  # fmt: skip
    fail_interval_under: float | None = value_of(
        "--fail-interval-under SCORE", "Exit with 100 when the 95 % interval of the mean score begins below this, "
        "or there are too few rollouts for one.", threshold, env="ASSAY_FAIL_INTERVAL_UNDER",
    )  # fmt: skip
    fail_rollout_under: float | None = value_of(
        "--fail-rollout-under SCORE", "Exit with 100 when the score of any rollout is below this.", threshold,
        env="ASSAY_FAIL_ROLLOUT_UNDER",
    )  # fmt: skip
    quiet: bool = value_of("-q --quiet", "Say nothing but errors on standard error.", env="ASSAY_QUIET")

    @property
    def thresholds(self) -> Thresholds:
        return Thresholds(self.fail_under, self.fail_interval_under, self.fail_rollout_under)


output_options = record("output", OutputOptions)
display_options = record("display", DisplayOptions)


@dataclass(frozen=True)
class LabelOptions:
    """A run, and labels about it."""

    run: str = filled_by(click.argument("run", type=run_folder))
    labels_file: str | None = filled_by(
        click.argument("labels_file", metavar="[LABELS]", required=False, shell_complete=files)
    )
    """None for those that were given in the page of the run."""
    mapping: tuple[tuple[str, str], ...] = value_of(
        "--map OURS=THEIRS", "What a column is called there: verdict=grade. May be given again.", pair,
        multiple=True, name="mapping",
    )  # fmt: skip
    skip_unknown: bool = value_of(
        "--skip-unknown", "Leave out labels about examples, criteria and verdicts that the run does not have."
    )
    any_wording: bool = value_of(
        "--any-wording", "Take labels that were made for another wording of their criterion too."
    )

    def labels(self) -> "list[Label]":
        """The labels, read."""
        from assay.trust import LABELS, read_labels

        source = Path(self.run) / LABELS if self.labels_file is None else self.labels_file
        if self.labels_file is None and not Path(source).exists():
            raise click.UsageError(
                f"{self.run} has no {LABELS}: name a file of labels, or label in the page of the run"
            )
        return read_labels(source, mapping=dict(self.mapping) or None)


label_options = record("labelling", LabelOptions)


def left_out(other_wording: Mapping[str, int], skipped: Mapping[str, int]) -> Iterator[str]:
    """Which labels were not taken, and why."""
    for name, labels in other_wording.items():
        yield f"left out: {counted(labels, 'label')} on {name}, made for another wording (--any-wording takes them)"
    for what, labels in skipped.items():
        yield f"left out: {counted(labels, 'label')}, {what}"
