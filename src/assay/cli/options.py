"""Options that several commands share. Those that belong together reach the command as one record."""

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click
from click.shell_completion import CompletionItem

from assay.cli.config import config_of
from assay.runs.thresholds import Thresholds, threshold_of

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


Function = TypeVar("Function", bound=Callable[..., Any])
Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

FORMATS = ("table", "json", "jsonl", "csv", "junit", "markdown")
GRADERS = ("per-criterion", "one-shot", "holistic")
BACKENDS = ("processes", "ray")


@dataclass(frozen=True)
class RubricOptions:
    """Which rubric, and how far it is trusted."""

    rubric: str | None
    """A file, or `module:object`; None where every row may have its own."""
    allow_code: bool


@dataclass(frozen=True)
class InputOptions:
    """Rows to work on."""

    files: tuple[str, ...]
    """Tables, `-` for standard input, a folder of tables or the folder of a run."""
    mapping: tuple[tuple[str, str], ...]
    """Our names of columns, and theirs."""
    limit: int | None

    @property
    def data(self) -> str:
        """The file, or what to call several of them."""
        more = len(self.files) - 1
        return f"{self.files[0]} and {more} more" if more else self.files[0]


@dataclass(frozen=True)
class WorkerOptions:
    """Who does the work."""

    backend: str | None
    """None is this process."""
    workers: int | None
    shard_rows: int | None
    ray_address: str | None

    def __post_init__(self) -> None:
        named = {"--workers": self.workers, "--shard-rows": self.shard_rows}
        needless = [name for name, value in named.items() if value is not None]
        if self.backend is None and needless:
            raise click.UsageError(f"{needless[0]} goes with --backend: say which")
        if self.backend != "ray" and self.ray_address is not None:
            raise click.UsageError("--ray-address goes with --backend ray")


@dataclass(frozen=True)
class OutputOptions:
    """Where a run is kept, and how it is worked on."""

    output: str | None
    resume: bool
    judge_log: bool
    """Whether to keep what judges were asked and said."""
    concurrency: int | None

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
    grader: str
    guard: bool
    dry_run: bool
    budget: float | None
    cache: str | None
    no_cache: bool


@dataclass(frozen=True)
class DisplayOptions:
    """What is printed, and what makes a failure of it."""

    format: str
    fail_under: float | None
    fail_interval_under: float | None
    fail_rollout_under: float | None
    quiet: bool

    @property
    def thresholds(self) -> Thresholds:
        return Thresholds(self.fail_under, self.fail_interval_under, self.fail_rollout_under)


def bundled(name: str, kind: type[Any], *options: Decorator) -> Decorator:
    """Options that a command gets as one record of that kind, under that name."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def call(**given: Any) -> Any:
            record = kind(**{field.name: given.pop(field.name) for field in fields(kind)})
            return function(**given, **{name: record})

        decorated: Callable[..., Any] = call
        for option in reversed(options):
            decorated = option(decorated)
        return decorated

    return decorate


def files(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Have the shell complete the name of a file."""
    return [CompletionItem(incomplete, type="file")]


allow_code_option = click.option(
    "--allow-code",
    is_flag=True,
    is_eager=True,  # since it says what a config file may name
    help="Let the rubric file name functions to run.",
)


def rubric_options(*, required: bool = True) -> Decorator:
    """Which rubric. Where it is not required, rows may have their own."""
    return bundled(
        "rubrics",
        RubricOptions,
        click.option(
            "-r", "--rubric", required=required, metavar="RUBRIC", envvar="ASSAY_RUBRIC", show_envvar=True,
            shell_complete=files,
            help="A YAML, JSON or TOML file, or module:object for one written in Python.",
        ),
        allow_code_option,
    )  # fmt: skip


def _alone(ctx: click.Context, param: click.Parameter, value: str) -> tuple[str, ...]:
    return (value,)


def input_options(metavar: str, *, several: bool = False) -> Decorator:
    """The rows to work on: an argument of that name, and what is done to them first."""
    how: dict[str, Any] = {"nargs": -1, "required": True} if several else {"callback": _alone}
    return bundled(
        "given",
        InputOptions,
        click.argument("files", metavar=metavar, shell_complete=files, **how),
        click.option(
            "--map", "mapping", type=pair, multiple=True, metavar="OURS=THEIRS",
            help="What a column is called there: completion=output. May be given again.",
        ),
        click.option("--limit", type=count(1), metavar="N", help="Only the first N rows."),
    )  # fmt: skip


worker_options = bundled(
    "workers",
    WorkerOptions,
    click.option(
        "--backend", type=click.Choice(BACKENDS),
        help="Have many workers do it: processes of this machine, or tasks of a Ray cluster.",
    ),
    click.option(
        "--workers", type=count(1), metavar="N",
        help="How many; by default as many as there are processors.",
    ),
    click.option(
        "--shard-rows", type=count(1), metavar="N",
        help="Rows that a worker is given at a time; 10,000 by default.",
    ),
    click.option(
        "--ray-address", metavar="ADDRESS",
        help="Of the cluster; by default what RAY_ADDRESS says, and without that one is started here.",
    ),
)  # fmt: skip


output_options = bundled(
    "output",
    OutputOptions,
    click.option(
        "-o", "--output", metavar="FOLDER", shell_complete=files,
        help="Keep the run in this folder, every rollout as soon as it is finished.",
    ),
    click.option(
        "--resume", is_flag=True,
        help="Go on with the run in the folder: only what is missing or failed is done.",
    ),
    click.option(
        "--judge-log", is_flag=True,
        help="Keep what judges were asked and said, word for word, for `assay view` to show.",
    ),
    click.option(
        "--concurrency", type=count(1), metavar="N", envvar="ASSAY_CONCURRENCY", show_envvar=True,
        help="Rollouts under way at once.",
    ),
)  # fmt: skip


def _project_model() -> str | None:
    """The model that the config file names, where it names no judge."""
    ctx = click.get_current_context()
    return None if ctx.resilient_parsing else config_of(ctx).get("model")


def judge_options(*names: str) -> Decorator:
    """The options of the judge, who is named by `--judge` and by these `names`.

    Where those say `--model`, no other model is meant, so that the default model judges too.
    """
    variables = ["ASSAY_JUDGE", "ASSAY_MODEL"] if names else ["ASSAY_JUDGE"]
    return bundled(
        "judging",
        JudgeOptions,
        click.option(
            *names, "--judge", "judge", metavar="MODEL", envvar=variables, show_envvar=True,
            default=_project_model if names else None,
            help="Who judges: openai/…, anthropic/…, http://…#name, or local, which needs no key "
            "and is the default.",
        ),
        click.option(
            "--grader", type=click.Choice(GRADERS), default="per-criterion", show_default=True,
            envvar="ASSAY_GRADER", show_envvar=True, help="One call a criterion, one for all, or one number for all.",
        ),
        click.option(
            "--guard", is_flag=True, envvar="ASSAY_GUARD", show_envvar=True,
            help="Ask first whether a text tries to sway its judge.",
        ),
        click.option(
            "--dry-run", is_flag=True,
            help="Ask nobody: say how many calls, tokens and dollars it would take.",
        ),
        click.option(
            "--budget", type=dollars, metavar="DOLLARS", envvar="ASSAY_BUDGET", show_envvar=True,
            help="Spend no more than this.",
        ),
        click.option(
            "--cache", metavar="PLACE", envvar="ASSAY_CACHE", show_envvar=True,
            help="Folder, file or postgresql:// URL of the verdicts; by default yours.",
        ),
        click.option("--no-cache", is_flag=True, help="Keep no verdicts, and use none."),
    )  # fmt: skip


display_options = bundled(
    "display",
    DisplayOptions,
    click.option(
        "-f", "--format", type=click.Choice(FORMATS), default="table", show_default=True,
        envvar="ASSAY_FORMAT", show_envvar=True, help="What to print.",
    ),
    click.option(
        "--fail-under", type=threshold, metavar="SCORE", envvar="ASSAY_FAIL_UNDER", show_envvar=True,
        help="Exit with 100 when the mean score is below this number between 0 and 1.",
    ),
    click.option(
        "--fail-interval-under", type=threshold, metavar="SCORE", envvar="ASSAY_FAIL_INTERVAL_UNDER", show_envvar=True,
        help="Exit with 100 when the 95 % interval of the mean score begins below this, or there are too few "
        "rollouts for one.",
    ),
    click.option(
        "--fail-rollout-under", type=threshold, metavar="SCORE", envvar="ASSAY_FAIL_ROLLOUT_UNDER", show_envvar=True,
        help="Exit with 100 when the score of any rollout is below this.",
    ),
    click.option(
        "-q", "--quiet", is_flag=True, envvar="ASSAY_QUIET", show_envvar=True, help="Say nothing but errors on standard error.",
    ),
)  # fmt: skip


page_option = click.option(
    "-f",
    "--format",
    "layout",
    type=click.Choice(("table", "json", "markdown")),
    default="table",
    show_default=True,
    help="What to print.",
)


@dataclass(frozen=True)
class LabelOptions:
    """A run, and labels about it."""

    run: str
    labels_file: str | None
    """None for those that were given in the page of the run."""
    mapping: tuple[tuple[str, str], ...]
    skip_unknown: bool
    any_wording: bool

    def labels(self) -> "list[Label]":
        """The labels, read."""
        from assay.trust import LABELS, read_labels

        source = Path(self.run) / LABELS if self.labels_file is None else self.labels_file
        if self.labels_file is None and not Path(source).exists():
            raise click.UsageError(
                f"{self.run} has no {LABELS}: name a file of labels, or label in the page of the run"
            )
        return read_labels(source, mapping=dict(self.mapping) or None)


label_options = bundled(
    "labelling",
    LabelOptions,
    click.argument("run", type=click.Path(exists=True, file_okay=False)),
    click.argument("labels_file", metavar="[LABELS]", required=False, shell_complete=files),
    click.option(
        "--map", "mapping", type=pair, multiple=True, metavar="OURS=THEIRS",
        help="What a column is called there: verdict=grade. May be given again.",
    ),
    click.option(
        "--skip-unknown", is_flag=True,
        help="Leave out labels about examples, criteria and verdicts that the run does not have.",
    ),
    click.option(
        "--any-wording", is_flag=True,
        help="Take labels that were made for another wording of their criterion too.",
    ),
)  # fmt: skip
