"""Options that several commands share. Those that belong together reach the command as one record."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import wraps
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from assay.cli.config import config_of
from assay.cli.values import count, dollars, pair, threshold
from assay.runs.thresholds import Thresholds

Function = TypeVar("Function", bound=Callable[..., Any])
Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

FORMATS = ("table", "json", "jsonl", "csv", "junit", "markdown")
GRADERS = ("per-criterion", "one-shot", "holistic")
BACKENDS = ("processes", "ray")


@dataclass(frozen=True)
class Rubrics:
    """Which rubric, and how far it is trusted."""

    rubric: str | None
    """A file, or `module:object`; None where every row may have its own."""
    allow_code: bool


@dataclass(frozen=True)
class Input:
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
class Crew:
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
class Saving:
    """Where a run is kept, and how it is worked on."""

    output: str | None
    resume: bool
    exchanges: bool
    """Whether to keep what judges were asked and said."""
    concurrency: int | None

    def __post_init__(self) -> None:
        if self.exchanges and self.folder is None:
            raise click.UsageError("--exchanges are kept in a run: name its folder with -o")

    @property
    def folder(self) -> str | None:
        """The folder of the run; None when nothing is kept."""
        return None if self.output == "-" else self.output


@dataclass(frozen=True)
class Judging:
    """Who judges, how, and for how much."""

    judge: str | None
    """The name of a model; None is the default."""
    grader: str
    guard: bool
    dry_run: bool
    money: float | None
    cache: str | None
    no_cache: bool


@dataclass(frozen=True)
class Showing:
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
        Rubrics,
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
        Input,
        click.argument("files", metavar=metavar, shell_complete=files, **how),
        click.option(
            "--map", "mapping", type=pair, multiple=True, metavar="OURS=THEIRS",
            help="What a column is called there: completion=output. May be given again.",
        ),
        click.option("--limit", type=count(1), metavar="N", help="Only the first N rows."),
    )  # fmt: skip


crew_options = bundled(
    "crew",
    Crew,
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


save_options = bundled(
    "saving",
    Saving,
    click.option(
        "-o", "--output", metavar="FOLDER", shell_complete=files,
        help="Keep the run in this folder, every rollout as soon as it is finished.",
    ),
    click.option(
        "--resume", is_flag=True,
        help="Go on with the run in the folder: only what is missing or failed is done.",
    ),
    click.option(
        "--exchanges", is_flag=True,
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
        Judging,
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
            "--money", type=dollars, metavar="DOLLARS", envvar="ASSAY_MONEY", show_envvar=True,
            help="Spend no more than this.",
        ),
        click.option(
            "--cache", metavar="PLACE", envvar="ASSAY_CACHE", show_envvar=True,
            help="Folder, file or postgresql:// URL of the verdicts; by default yours.",
        ),
        click.option("--no-cache", is_flag=True, help="Keep no verdicts, and use none."),
    )  # fmt: skip


show_options = bundled(
    "showing",
    Showing,
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
