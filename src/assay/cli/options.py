"""Define the options that several commands share; those that belong together reach a command as one record."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import partial, wraps
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
    """A finite number, of `least` or more.

    >>> number(0)("0.5")
    0.5
    """

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
    """Two names, as `ours=theirs`.

    >>> pair("completion=output")
    ('completion', 'output')
    """
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


def filled_by(decorator: Decorator) -> Any:
    """A field of a record that this option of click fills."""
    return field(metadata={"click": decorator})


def option(*names: str, env: str = "", make: Callable[..., Decorator] = click.option, **settings: Any) -> Any:
    """A field of a record that an option fills; `env` is the variable that may give its value, too."""
    if env:
        settings |= {"envvar": env, "show_envvar": True}
    return filled_by(make(*names, **settings))


argument = partial(option, make=click.argument)
"""A field of a record that an argument fills."""


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


quiet_option = click.option("-q", "--quiet", is_flag=True, help="Say nothing but errors on standard error.")
allow_code_option = click.option(
    "--allow-code",
    is_flag=True,
    is_eager=True,  # since it says what a config file may name
    help="Let the rubric file name functions to run.",
)
page_option = click.option(
    *("-f", "--format", "layout"), type=click.Choice(("table", "json", "markdown")), default="table",
    show_default=True, help="What to print.",
)  # fmt: skip


@dataclass(frozen=True)
class RubricOptions:
    """Which rubric, and how far it is trusted."""

    rubric: str | None
    """None where every row may have its own."""
    allow_code: bool = filled_by(allow_code_option)


def rubric_options(*, required: bool = True) -> Decorator:
    """Which rubric. Where it is not required, rows may have their own."""
    rubric = click.option(
        *("-r", "--rubric"), required=required, metavar="RUBRIC", envvar="ASSAY_RUBRIC", show_envvar=True,
        shell_complete=files, help="A YAML, JSON or TOML file, or module:object for one written in Python.",
    )  # fmt: skip
    return record("rubrics", RubricOptions, rubric=rubric)


rubric_argument = record(
    "rubrics", RubricOptions, rubric=click.argument("rubric", metavar="RUBRIC", shell_complete=files)
)


@dataclass(frozen=True)
class InputOptions:
    """Rows to work on."""

    files: tuple[str, ...] = argument("files", nargs=-1, required=True, metavar="DATA...", shell_complete=files)
    """Tables, `-` for standard input, a folder of tables or the folder of a run."""
    mapping: tuple[tuple[str, str], ...] = option(
        *("--map", "mapping"), type=pair, multiple=True, metavar="OURS=THEIRS",
        help="What a column is called there: completion=output. May be given again.",
    )  # fmt: skip
    limit: int | None = option("--limit", type=count(1), metavar="N", help="Only the first N rows.")

    @property
    def data(self) -> str:
        """The file, or what to call several of them."""
        more = len(self.files) - 1
        return f"{self.files[0]} and {more} more" if more else self.files[0]


@dataclass(frozen=True)
class OutputOptions:
    """Where a run is kept, and how it is worked on."""

    output: str | None = option(
        *("-o", "--output"), metavar="FOLDER", shell_complete=files,
        help="Keep the run in this folder, every rollout as soon as it is finished.",
    )  # fmt: skip
    resume: bool = option(
        "--resume", is_flag=True, help="Go on with the run in the folder: only what is missing or failed is done."
    )
    judge_log: bool = option(
        "--judge-log", is_flag=True,
        help="Keep what judges were asked and said, word for word, for `assay view` to show.",
    )  # fmt: skip
    concurrency: int | None = option(
        "--concurrency", type=count(1), metavar="N", env="ASSAY_CONCURRENCY", help="Rollouts under way at once."
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
    grader: str = option(
        "--grader", type=click.Choice(("per-criterion", "one-shot", "holistic")), default="per-criterion",
        show_default=True, env="ASSAY_GRADER", help="One call a criterion, one for all, or one number for all.",
    )  # fmt: skip
    guard: bool = option(
        "--guard", is_flag=True, env="ASSAY_GUARD", help="Ask first whether a text tries to sway its judge."
    )
    dry_run: bool = option(
        "--dry-run", is_flag=True, help="Ask nobody: say how many calls, tokens and dollars it would take."
    )
    budget: float | None = option(
        "--budget", type=dollars, metavar="DOLLARS", env="ASSAY_BUDGET", help="Spend no more than this."
    )
    cache: str | None = option(
        "--cache", metavar="PLACE", env="ASSAY_CACHE",
        help="Folder, file or postgresql:// URL of the verdicts; by default yours.",
    )  # fmt: skip
    no_cache: bool = option("--no-cache", is_flag=True, help="Keep no verdicts, and use none.")


def judge_options(*names: str) -> Decorator:
    """The options of the judge, who is named by `--judge` and by these `names`.

    Where those say `--model`, no other model is meant, so that the default model judges too.
    """

    def project_model() -> str | None:
        ctx = click.get_current_context()
        return None if ctx.resilient_parsing else config_of(ctx).get("model")

    judge = click.option(
        *names, "--judge", "judge", metavar="MODEL", show_envvar=True,
        envvar=["ASSAY_JUDGE", "ASSAY_MODEL"] if names else ["ASSAY_JUDGE"], default=project_model if names else None,
        help="Who judges: openai/…, anthropic/…, http://…#name, or local, which needs no key and is the default.",
    )  # fmt: skip
    return record("judging", JudgeOptions, judge=judge)


@dataclass(frozen=True)
class DisplayOptions:
    """What is printed, and what makes a failure of it."""

    format: str = option(
        *("-f", "--format"), type=click.Choice(FORMATS), default="table", show_default=True, env="ASSAY_FORMAT",
        help="What to print.",
    )  # fmt: skip
    fail_under: float | None = option(
        "--fail-under", type=threshold, metavar="SCORE", env="ASSAY_FAIL_UNDER",
        help="Exit with 100 when the mean score is below this number between 0 and 1.",
    )  # fmt: skip
    fail_interval_under: float | None = option(
        "--fail-interval-under", type=threshold, metavar="SCORE", env="ASSAY_FAIL_INTERVAL_UNDER",
        help="Exit with 100 when the 95 % interval of the mean score begins below this, or there are too few "
        "rollouts for one.",
    )  # fmt: skip
    fail_rollout_under: float | None = option(
        "--fail-rollout-under", type=threshold, metavar="SCORE", env="ASSAY_FAIL_ROLLOUT_UNDER",
        help="Exit with 100 when the score of any rollout is below this.",
    )  # fmt: skip
    quiet: bool = option(
        *("-q", "--quiet"), is_flag=True, env="ASSAY_QUIET", help="Say nothing but errors on standard error."
    )

    @property
    def thresholds(self) -> Thresholds:
        return Thresholds(self.fail_under, self.fail_interval_under, self.fail_rollout_under)


output_options = record("output", OutputOptions)
display_options = record("display", DisplayOptions)


@dataclass(frozen=True)
class LabelOptions:
    """A run, and labels about it."""

    run: str = argument("run", type=run_folder)
    labels_file: str | None = argument("labels_file", metavar="[LABELS]", required=False, shell_complete=files)
    """None for those that were given in the page of the run."""
    mapping: tuple[tuple[str, str], ...] = option(
        *("--map", "mapping"), type=pair, multiple=True, metavar="OURS=THEIRS",
        help="What a column is called there: verdict=grade. May be given again.",
    )  # fmt: skip
    skip_unknown: bool = option(
        "--skip-unknown", is_flag=True,
        help="Leave out labels about examples, criteria and verdicts that the run does not have.",
    )  # fmt: skip
    any_wording: bool = option(
        "--any-wording", is_flag=True,
        help="Take labels that were made for another wording of their criterion too.",
    )  # fmt: skip

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
