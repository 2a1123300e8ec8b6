"""Define the options of commands: parameters that they fill, and records of those that several commands share.

What each option is called, and what help says of it, stands in `options.toml` under its command or record.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial, wraps
from inspect import signature
from pathlib import Path
from typing import Any, Final, cast, dataclass_transform, get_type_hints

import click

from assay import runs, trust
from assay.cli.formats import FORMATS
from assay.cli.root import SETTINGS, Command, config_of
from assay.lazy import table_of
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
PAGES = ("table", "json", "markdown")  # formats of a page of tables and notes


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


_TEXTS: Final[dict[str, dict[str, tuple[str, str]]]] = table_of("assay.cli", "options.toml")


def _common(name: str, metavar: str) -> dict[str, Any]:
    """What the name of a setting and the metavar of a path bring: a variable, and the completion of file names."""
    is_path = metavar.strip("[].") in ("DATA", "DATASET", "FILE", "FOLDER", "LABELS", "OUTPUT", "RUBRIC", "RUN")
    return {"envvar": f"ASSAY_{name.upper()}" if name in SETTINGS else None, "type": click.Path() if is_path else None}


def _option(tables: Sequence[str], name: str, settings: dict[str, Any]) -> Callable[[Any], Any]:
    form, help = next(_TEXTS[table][name] for table in tables if name in _TEXTS.get(table, {}))
    words = form.split()
    flags = [word for word in words if word.startswith("-")]
    metavar = "".join(words[len(flags) :])
    shape: dict[str, Any] = {"metavar": metavar} if metavar else {} if "type" in settings else {"is_flag": True}
    if "/" in form:  # on, off, or neither was said
        shape["default"] = None
    return click.option(*flags, name, help=help, show_envvar=True, **_common(name, metavar) | shape | settings)


def value_of(kind: Any = None, usual: Any = None, **settings: Any) -> Any:
    """A field of a record, or a parameter of a command, that an option fills. `kind` reads the value, or holds what it may be.

    Its text in `options.toml` has the form that help shows: `-o --output FOLDER`, or `--quiet` for a flag. One that is
    named as a setting may come from the environment, too.
    """
    if usual is not None:
        settings = {"default": usual, "show_default": not callable(usual), **settings}
    if kind is not None:
        settings["type"] = click.Choice(cast("tuple[str, ...]", kind)) if isinstance(kind, tuple) else kind
    return field(metadata={"make": partial(_option, settings=settings)})


def argument(metavar: str, **settings: Any) -> Any:
    """A field of a record, or a parameter of a command, that an argument fills."""

    def make(_: Sequence[str], name: str) -> Callable[[Any], Any]:
        return click.argument(name, metavar=metavar, **_common(name, metavar) | settings)

    return field(metadata={"make": make})


@dataclass_transform(frozen_default=True, field_specifiers=(value_of, argument))
class CommandOptions:
    """Options of commands. Subclasses are frozen dataclasses, whose `__post_init__` refuses what does not go together."""

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True)(cls)

    def __post_init__(self) -> None: ...


def declare(
    name: str, group: click.Group | None = None, cls: type[Command] = Command
) -> Callable[[Callable[..., int | None]], click.Command]:
    """A command whose parameters are its own options; those of `options`, a record, are the ones it shares with others."""

    def decorate(function: Callable[..., int | None]) -> click.Command:
        own = {each.name: each.default for each in signature(function).parameters.values() if each.name != "options"}
        kind: Any = get_type_hints(function).get("options")
        # Those of the command itself come first in the help, before what it shares with others.
        shared = sorted(fields(kind), key=lambda each: each.name not in kind.__annotations__) if kind else ()

        @wraps(function)
        def call(**given: Any) -> int | None:
            record = {"options": kind(**{each.name: given.pop(each.name) for each in shared})} if kind else {}
            return function(**record, **given)

        decorated: Callable[..., Any] = call
        tables = [each.__name__ for each in kind.__mro__] if kind else ()
        for each in reversed(shared):
            decorated = each.metadata["make"](tables, each.name)(decorated)
        for parameter, usual in reversed(own.items()):
            decorated = usual.metadata["make"]((name, CommandOptions.__name__), parameter)(decorated)
        made = click.command(name, cls=cls)(decorated)
        if group is not None:
            group.add_command(made)
        return made

    return decorate


def allow_media(ctx: click.Context, _: click.Parameter, folder: str | None) -> str | None:
    if folder is not None:
        ctx.with_resource(media_access(folder))
    return folder


class RubricOptions(CommandOptions):
    """Which rubric, None where every row may have its own; and how far it is trusted."""

    rubric: str | None = value_of(required=True)
    # It is read first, since it says what a config file may name.
    allow_code: bool = value_of(is_eager=True)


class RubricArgument(RubricOptions):
    """The same, with the rubric as an argument."""

    rubric: str = argument("RUBRIC")


class InputOptions(CommandOptions):
    """Rows to work on."""

    # Tables, `-` for standard input, a folder of tables or the folder of a run.
    files: tuple[str, ...] = argument("DATA...", nargs=-1, required=True)
    mapping: tuple[tuple[str, str], ...] = value_of(pair, multiple=True)
    limit: int | None = value_of(positive)

    @property
    def data(self) -> str:
        """The file, or what to call several of them."""
        more = len(self.files) - 1
        return f"{self.files[0]} and {more} more" if more else self.files[0]


def _project_model() -> str | None:
    ctx = click.get_current_context()
    return None if ctx.resilient_parsing else config_of(ctx).get("model")


class JudgingOptions(CommandOptions):
    """Who judges, None being the default, how, and for how much."""

    # No other model is meant where `--model` is the judge, so that the project's model judges too.
    judge: str | None = value_of(usual=_project_model, envvar=["ASSAY_JUDGE", "ASSAY_MODEL"])
    grader: str = value_of(("per-criterion", "one-shot", "holistic"), "per-criterion")
    guard: bool = value_of()
    judge_media: tuple[str, ...] = value_of(tuple(sorted(MEDIA)), multiple=True)
    window: int | None = value_of(positive)
    dry_run: bool = value_of()
    budget: float | None = value_of(dollars)
    cache: str | None = value_of()
    no_cache: bool = value_of()


class ViewOptions(JudgingOptions):
    """What the judge reads of a rollout."""

    shows: tuple[str, ...] = value_of(tuple(SHOWS), multiple=True)
    media_folder: str | None = value_of(run_folder, callback=allow_media)
    media_urls: bool = value_of()
    workspace: str | None = value_of()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.workspace and self.grader != "per-criterion":
            raise click.UsageError("a judge looks at --workspace for one criterion at a time: leave --grader out")


class OutputOptions(ViewOptions):
    """Where a run is kept, and how it is worked on."""

    output: str | None = value_of()
    resume: bool = value_of()
    judge_log: bool = value_of()
    concurrency: int | None = value_of(positive)

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

    format: str = value_of(tuple(FORMATS), "table")
    fail_under: float | None = value_of(threshold)
    fail_interval_under: float | None = value_of(threshold)
    fail_rollout_under: float | None = value_of(threshold)
    quiet: bool = value_of()

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

    run: str = argument("RUN", type=run_folder)
    labels_file: str | None = argument("[LABELS]", required=False)  # None: those given in the page of the run
    mapping: tuple[tuple[str, str], ...] = value_of(pair, multiple=True)
    skip_unknown: bool = value_of()
    any_wording: bool = value_of()

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
