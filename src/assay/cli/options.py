"""Define the options of commands: a record whose fields they fill, and those that several commands share."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import wraps
from pathlib import Path
from typing import Any, cast, dataclass_transform, get_type_hints

import click

from assay import runs, trust
from assay.cli.formats import FORMATS
from assay.cli.root import SETTINGS, Command, config_of
from assay.messages import MEDIA, SHOWS, media_access
from assay.runs.stats import Thresholds, threshold_of
from assay.wording import counted


def number(
    least: float = -math.inf, *, what: str = "number", above: bool = False, kind: Callable[[str], float] = float
) -> Callable[[Any], Any]:
    """A finite number of `least` or more, or only `above` it. An amount in dollars may have its sign."""

    def read(value: Any) -> Any:
        try:
            found = kind(str(value).removeprefix("$"))
        except ValueError:
            found = math.nan
        if not (math.isfinite(found) and found >= least) or (above and found == least):
            bound = f" above {least:g}" if above else f" of {least:g} or more" if math.isfinite(least) else ""
            raise click.BadParameter(f"{value!r} is no {what}{bound}")
        return found

    return read


dollars, seconds = number(0, what="amount in dollars"), number(0, what="number of seconds", above=True)
count, positive = (number(least, what="whole number", kind=int) for least in (0, 1))
run_folder = click.Path(exists=True, file_okay=False)


def threshold(value: Any) -> float:
    try:
        return threshold_of(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def pair(value: Any) -> tuple[str, str]:
    if isinstance(value, tuple):  # read already
        return cast("tuple[str, str]", value)
    ours, _, theirs = str(value).partition("=")
    if not (ours.strip() and theirs.strip()):
        raise click.BadParameter(f"{value!r} is no pair of columns: write completion=output")
    return ours.strip(), theirs.strip()


def _common(name: str, metavar: str) -> dict[str, Any]:
    """What the name of a setting and the metavar of a path bring: a variable, and the completion of file names."""
    is_path = metavar.strip("[].") in ("DATA", "DATASET", "FILE", "FOLDER", "LABELS", "OUTPUT", "RUBRIC", "RUN")
    return {"envvar": f"ASSAY_{name.upper()}" if name in SETTINGS else None, "type": click.Path() if is_path else None}


def option(form: str, help: str, kind: Any = None, default: Any = None, **settings: Any) -> Callable[[Any], Any]:
    """An option of a command, in the form that help shows: `-o --output FOLDER`, or `--quiet` for a flag.

    `kind` reads the value, or holds what it may be. One that is named as a setting may come from the environment, too.
    """
    words = form.split()
    flags = [word for word in words if word.startswith("-")]
    metavar, name = "".join(words[len(flags) :]), settings.pop("name", flags[-1].strip("-").replace("-", "_"))
    settings = _common(name, metavar) | {"show_envvar": True} | ({"type": kind} if kind else {}) | settings
    settings |= {"metavar": metavar} if metavar else {"is_flag": True} if kind is None else {}
    if default is not None:
        settings = {"default": default, "show_default": not callable(default), **settings}
    if isinstance(kind, tuple):
        settings["type"] = click.Choice(cast("tuple[str, ...]", kind))
    return click.option(*flags, name, help=help, **settings)


def filled_by(decorator: Callable[[Any], Any]) -> Any:
    """A field of a record that this option fills."""
    return field(metadata={"click": decorator})


def value_of(form: str, help: str, kind: Any = None, usual: Any = None, **settings: Any) -> Any:
    """A field of a record that an `option` fills."""
    return filled_by(option(form, help, kind, usual, **settings))


def argument(name: str, metavar: str, **settings: Any) -> Any:
    """A field of a record that an argument fills."""
    return filled_by(click.argument(name, metavar=metavar, **_common(name, metavar) | settings))


@dataclass_transform(frozen_default=True, field_specifiers=(filled_by, value_of, argument))
class CommandOptions:
    """What the options of a command say. Subclasses are frozen dataclasses, whose `__post_init__` refuses what does not
    go together."""

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True)(cls)

    def __post_init__(self) -> None: ...


def declare(name: str, group: click.Group | None = None) -> Callable[[Callable[[Any], int | None]], click.Command]:
    """A command that takes its `options` as the record that its annotation names."""

    def decorate(function: Callable[[Any], int | None]) -> click.Command:
        kind = get_type_hints(function)["options"]

        @wraps(function)
        def call(**given: Any) -> int | None:
            return function(kind(**given))

        decorated: Callable[..., Any] = call
        # Those of the command itself come first in the help, before what it shares with others.
        in_order = sorted(fields(kind), key=lambda each: each.name not in kind.__annotations__)
        for each in reversed(in_order):
            decorated = each.metadata["click"](decorated)
        made = click.command(name, cls=Command)(decorated)
        if group is not None:
            group.add_command(made)
        return made

    return decorate


quiet_option = option("-q --quiet", "Print only errors on standard error.")


def _allowed(ctx: click.Context, _: click.Parameter, folder: str | None) -> str | None:
    if folder is not None:
        ctx.with_resource(media_access(folder))
    return folder


media_option = option(
    "--media-folder FOLDER", "Where images, audio and files are that rollouts name; by default beside the data.", run_folder,
    callback=_allowed,
)  # fmt: skip
page_option = option("-f --format", "The format to print.", ("table", "json", "markdown"), "table", name="layout")


class RubricOptions(CommandOptions):
    """Which rubric, None where every row may have its own; and how far it is trusted."""

    rubric: str | None = value_of(
        "-r --rubric RUBRIC", "A YAML, JSON or TOML file, or module:object for one written in Python.", required=True
    )
    # It is read first, since it says what a config file may name.
    allow_code: bool = value_of("--allow-code", "Allow the rubric file to name functions to run.", is_eager=True)


class RubricArgument(RubricOptions):
    """The same, with the rubric as an argument."""

    rubric: str = argument("rubric", "RUBRIC")


class InputOptions(CommandOptions):
    """Rows to work on."""

    files: tuple[str, ...] = argument("files", "DATA...", nargs=-1, required=True)
    """Tables, `-` for standard input, a folder of tables or the folder of a run."""
    mapping: tuple[tuple[str, str], ...] = value_of(
        "--map OURS=THEIRS", "Rename a column: completion=output. Repeatable.", pair, multiple=True, name="mapping"
    )
    limit: int | None = value_of("--limit N", "Take only the first N rows.", positive)

    @property
    def data(self) -> str:
        """The file, or what to call several of them."""
        more = len(self.files) - 1
        return f"{self.files[0]} and {more} more" if more else self.files[0]


def _project_model() -> str | None:
    ctx = click.get_current_context()
    return None if ctx.resilient_parsing else config_of(ctx).get("model")


JUDGES = "The judge: openai/…, anthropic/…, http://…#name, or local, which needs no key and is the default."
_GRADERS = ("per-criterion", "one-shot", "holistic")


class JudgingOptions(CommandOptions):
    """Who judges, None being the default, how, and for how much."""

    # No other model is meant where `--model` is the judge, so that the project's model judges too.
    judge: str | None = value_of(
        "-m --model --judge MODEL", JUDGES, usual=_project_model, envvar=["ASSAY_JUDGE", "ASSAY_MODEL"]
    )
    grader: str = value_of(
        "--grader", "One call for each criterion, one for all, or one number for all.", _GRADERS, "per-criterion"
    )
    guard: bool = value_of("--guard", "Check each text for prompt injection first.")
    judge_media: tuple[str, ...] = value_of(
        "--judge-media", "A kind of media that the judge takes, where its name does not tell; a file is a PDF. Repeatable.",
        tuple(sorted(MEDIA)), multiple=True,
    )  # fmt: skip
    window: int | None = value_of(
        "--window TOKENS", "What the judge takes in one call; more is read in pieces.", positive
    )
    dry_run: bool = value_of("--dry-run", "Call no model: print how many calls, tokens and dollars it would take.")
    budget: float | None = value_of("--budget DOLLARS", "The most to spend.", dollars)
    cache: str | None = value_of("--cache PLACE", "The cache of verdicts: a folder, a file or a postgresql:// URL.")
    no_cache: bool = value_of("--no-cache", "Neither read nor write the cache of verdicts.")


class ViewOptions(JudgingOptions):
    """What the judge reads of a rollout."""

    shows: tuple[str, ...] = value_of(
        "--shows", "What the judge reads of a rollout; by default what the rubric says, else all. Repeatable.",
        tuple(SHOWS), multiple=True,
    )  # fmt: skip
    media_folder: str | None = filled_by(media_option)
    media_urls: bool = value_of("--media-urls", "Fetch images, audio and files that rollouts name by URL.")
    workspace: str | None = value_of(
        "--workspace FOLDER",
        "A folder whose files the judge may list, read and search; columns may name it: out/{task_id}.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.workspace and self.grader != "per-criterion":
            raise click.UsageError("a judge looks at --workspace for one criterion at a time: leave --grader out")


class OutputOptions(ViewOptions):
    """Where a run is kept, and how it is worked on."""

    output: str | None = value_of("-o --output FOLDER", "Keep the run in this folder, rollout by rollout.")
    resume: bool = value_of("--resume", "Continue the run in the folder: only what is missing or failed is done.")
    judge_log: bool = value_of("--judge-log", "Keep the prompts and replies of judges, for `assay view` to show.")
    concurrency: int | None = value_of("--concurrency N", "The number of rollouts under way at once.", positive)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.judge_log and self.output in (None, "-"):
            raise click.UsageError("the judge log is kept in a run: name its folder with -o")

    @property
    def folder(self) -> str | None:
        """The folder of the run; None when nothing is kept, as in a dry run."""
        return None if self.dry_run or self.output == "-" else self.output


class DisplayOptions(CommandOptions):
    """What is printed, and what makes a failure of it."""

    format: str = value_of("-f --format", "The format to print.", tuple(FORMATS), "table")
    fail_under: float | None = value_of(
        "--fail-under SCORE", "Exit with 100 when the mean score (0 to 1) is below this.", threshold
    )
    fail_interval_under: float | None = value_of(
        "--fail-interval-under SCORE", "Exit with 100 when the 95 % interval of the mean score begins below this, "
        "or there are too few rollouts for one.", threshold,
    )  # fmt: skip
    fail_rollout_under: float | None = value_of(
        "--fail-rollout-under SCORE", "Exit with 100 when the score of any rollout is below this.", threshold
    )
    quiet: bool = filled_by(quiet_option)

    @property
    def thresholds(self) -> Thresholds:
        return Thresholds(self.fail_under, self.fail_interval_under, self.fail_rollout_under)


class RunOptions(DisplayOptions, OutputOptions, RubricOptions, InputOptions):
    """What it takes to score rows."""


def opened(path: str) -> runs.Run:
    """The run in a folder; a folder that holds none is bad usage."""
    try:
        return runs.Run.open(path)
    except runs.RunError as error:
        raise click.UsageError(str(error)) from None


class LabelOptions(CommandOptions):
    """A run, and labels about it."""

    run: str = argument("run", "RUN", type=run_folder)
    labels_file: str | None = argument("labels_file", "[LABELS]", required=False)
    """None for those that were given in the page of the run."""
    mapping: tuple[tuple[str, str], ...] = value_of(
        "--map OURS=THEIRS", "Rename a column: verdict=grade. Repeatable.", pair, multiple=True, name="mapping"
    )
    skip_unknown: bool = value_of("--skip-unknown", "Skip labels on what the run does not have.")
    any_wording: bool = value_of("--any-wording", "Take labels for another wording of their criterion too.")

    def labels(self) -> list[trust.Label]:
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
