"""Define the options of commands: a record whose fields they fill, and those that several commands share."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import wraps
from pathlib import Path
from typing import Any, cast

import click
from click.shell_completion import CompletionItem

from assay import runs, trust
from assay.cli.formats import FORMATS
from assay.cli.root import Command, config_of
from assay.runs.stats import Thresholds, threshold_of
from assay.wording import counted


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
    """An amount in dollars, with its sign or without."""
    return number(0, what="amount in dollars")(str(value).removeprefix("$"))


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


def argument(name: str, **settings: Any) -> Any:
    """A field of a record that an argument fills."""
    return filled_by(click.argument(name, **settings))


@dataclass(frozen=True)
class CommandOptions:
    """What the options of a command say."""

    def __post_init__(self) -> None:
        """Raise `UsageError` for what does not go together."""


def declare(
    name: str, kind: type[Any], example: str, ends: str | None = None, group: click.Group | None = None
) -> Callable[[Callable[[Any], int | None]], click.Command]:
    """A command that gets its options as a record of that kind; its help ends with exit codes and an example."""

    def decorate(function: Callable[[Any], int | None]) -> click.Command:
        @wraps(function)
        def call(**given: Any) -> int | None:
            return function(kind(**given))

        decorated: Callable[..., Any] = call
        for each in reversed(fields(kind)):
            decorated = each.metadata["click"](decorated)
        made = click.command(name, cls=Command, epilog=ends, example=example)(decorated)
        if group is not None:
            group.add_command(made)
        return made

    return decorate


quiet_option = option("-q --quiet", "Say nothing but errors on standard error.")
page_option = option("-f --format", "What to print.", ("table", "json", "markdown"), "table", name="layout")


@dataclass(frozen=True)
class RubricOptions(CommandOptions):
    """Which rubric, and how far it is trusted."""

    rubric: str | None = value_of(
        "-r --rubric RUBRIC", "A YAML, JSON or TOML file, or module:object for one written in Python.",
        env="ASSAY_RUBRIC", required=True, shell_complete=files,
    )  # fmt: skip
    """None where every row may have its own."""
    # It is read first, since it says what a config file may name.
    allow_code: bool = value_of("--allow-code", "Let the rubric file name functions to run.", is_eager=True)


@dataclass(frozen=True)
class RubricArgument(RubricOptions):
    """The same, with the rubric as an argument."""

    rubric: str = argument("rubric", metavar="RUBRIC", shell_complete=files)


@dataclass(frozen=True)
class InputOptions(CommandOptions):
    """Rows to work on."""

    files: tuple[str, ...] = argument("files", nargs=-1, required=True, metavar="DATA...", shell_complete=files)
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


@dataclass(frozen=True)
class OutputOptions(CommandOptions):
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
        super().__post_init__()
        if self.judge_log and self.folder is None:
            raise click.UsageError("the judge log is kept in a run: name its folder with -o")

    @property
    def folder(self) -> str | None:
        """The folder of the run; None when nothing is kept."""
        return None if self.output == "-" else self.output


def _project_model() -> str | None:
    ctx = click.get_current_context()
    return None if ctx.resilient_parsing else config_of(ctx).get("model")


JUDGES = "Who judges: openai/…, anthropic/…, http://…#name, or local, which needs no key and is the default."


@dataclass(frozen=True)
class JudgingOptions(CommandOptions):
    """Who judges, how, and for how much."""

    # No other model is meant where `--model` is the judge, so that the project's model judges too.
    judge: str | None = value_of(
        "-m --model --judge MODEL", JUDGES, name="judge", envvar=["ASSAY_JUDGE", "ASSAY_MODEL"], show_envvar=True,
        default=_project_model,
    )  # fmt: skip
    """The name of a model; None is the default."""
    grader: str = value_of(
        "--grader", "One call a criterion, one for all, or one number for all.",
        ("per-criterion", "one-shot", "holistic"), "per-criterion", env="ASSAY_GRADER",
    )  # fmt: skip
    guard: bool = value_of("--guard", "Ask first whether a text attempts a prompt injection.", env="ASSAY_GUARD")
    dry_run: bool = value_of("--dry-run", "Ask no model: say how many calls, tokens and dollars it would take.")
    budget: float | None = value_of("--budget DOLLARS", "Spend no more than this.", dollars, env="ASSAY_BUDGET")
    cache: str | None = value_of(
        "--cache PLACE", "Folder, file or postgresql:// URL of the verdicts; by default yours.", env="ASSAY_CACHE"
    )
    no_cache: bool = value_of("--no-cache", "Keep no verdicts, and use none.")


@dataclass(frozen=True)
class DisplayOptions(CommandOptions):
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


# Fields come in the order of the bases from the last to the first, and so do the options in the help.
@dataclass(frozen=True)
class RunOptions(DisplayOptions, JudgingOptions, OutputOptions, RubricOptions, InputOptions):
    """What it takes to score rows."""


def opened(path: str) -> runs.Run:
    """The run in a folder; a folder that holds none is bad usage."""
    try:
        return runs.Run.open(path)
    except runs.RunError as error:
        raise click.UsageError(str(error)) from None


@dataclass(frozen=True)
class LabelOptions(CommandOptions):
    """A run, and labels about it."""

    run: str = argument("run", type=run_folder)
    labels_file: str | None = argument("labels_file", metavar="[LABELS]", required=False, shell_complete=files)
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

    def labels(self) -> list[trust.Label]:
        """The labels, read."""
        source = Path(self.run) / trust.LABELS if self.labels_file is None else self.labels_file
        if self.labels_file is None and not Path(source).exists():
            raise click.UsageError(
                f"{self.run} has no {trust.LABELS}: name a file of labels, or label in the page of the run"
            )
        return trust.read_labels(source, mapping=dict(self.mapping) or None)


def left_out(other_wording: Mapping[str, int], skipped: Mapping[str, int]) -> Iterator[str]:
    """Which labels were not taken, and why."""
    for name, labels in other_wording.items():
        yield f"left out: {counted(labels, 'label')} on {name}, made for another wording (--any-wording takes them)"
    for what, labels in skipped.items():
        yield f"left out: {counted(labels, 'label')}, {what}"
