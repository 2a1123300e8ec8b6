"""`assay serve RUBRIC`: a rubric over HTTP, as trainers ask for rewards."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from assay.aggregation import POLICIES
from assay.cli.options import (
    JudgeOptions,
    RubricOptions,
    allow_code_option,
    bundled,
    count,
    files,
    judge_options,
    seconds,
)
from assay.cli.root import Command

if TYPE_CHECKING:
    from assay.server import Judge, Settings


@dataclass(frozen=True)
class Place:
    """Where the server listens, and who may ask it."""

    host: str
    port: int
    workers: int
    key_file: str | None
    allow_hosts: tuple[str, ...]


@dataclass(frozen=True)
class Limits:
    """What one worker takes on."""

    at_once: int
    max_bytes: int
    max_batch: int
    item_seconds: float
    body_seconds: float
    drain_seconds: float


rubric_argument = bundled(
    "rubrics",
    RubricOptions,
    click.argument("rubric", metavar="RUBRIC", envvar="ASSAY_RUBRIC", shell_complete=files),
    allow_code_option,
)
place_options = bundled(
    "place",
    Place,
    click.option(
        "--host", metavar="ADDRESS", default="127.0.0.1", show_default=True,
        help="Where to listen. Any other address than one of this machine alone needs a key.",
    ),
    click.option(
        "--port", type=count(), metavar="PORT", default=8000, show_default=True, help="0 takes any that is free.",
    ),
    click.option(
        "--workers", type=count(1), default=1, show_default=True, metavar="N",
        help="Processes that score; one that dies is replaced.",
    ),
    click.option(
        "--key-file", metavar="FILE", shell_complete=files,
        help="A file with the key that requests must carry; by default ASSAY_SERVER_KEY is it.",
    ),
    click.option(
        "--allow-host", "allow_hosts", multiple=True, metavar="NAME",
        help="Another name that requests may give the server, as a proxy does. May be given again.",
    ),
)  # fmt: skip
limit_options = bundled(
    "limits",
    Limits,
    click.option(
        "--at-once", type=count(1), default=1024, show_default=True, metavar="N",
        help="Requests that a worker has under way; more are told to come back (429).",
    ),
    click.option(
        "--max-bytes", type=count(1), default=16 << 20, show_default=True, metavar="N",
        help="Size of a request.",
    ),
    click.option(
        "--max-batch", type=count(1), default=1024, show_default=True, metavar="N",
        help="Rollouts in a request.",
    ),
    click.option(
        "--item-seconds", type=seconds, default=60.0, show_default=True, metavar="S",
        help="Time to score one rollout; then it is unscored.",
    ),
    click.option(
        "--body-seconds", type=seconds, default=30.0, show_default=True, metavar="S",
        help="Time for a client to send its request.",
    ),
    click.option(
        "--drain-seconds", type=seconds, default=30.0, show_default=True, metavar="S",
        help="Time for requests under way to finish when the server is told to stop.",
    ),
)  # fmt: skip


@click.command(
    "serve",
    cls=Command,
    epilog="Ends on Ctrl-C or SIGTERM once what is under way is answered; reads the rubric file again when "
    "it changes, or on SIGHUP. Exit code: 0 ended as told, 2 it could not start.",
    example="assay serve rubric.yaml --workers 4",
)
@rubric_argument
@place_options
@click.option(
    "--unscored", type=click.Choice(POLICIES), default="raise", show_default=True,
    help="What a trainer that takes numbers only gets for a rollout without a score: an error, 0, the "
    "mean of its group, or null.",
)  # fmt: skip
@limit_options
@judge_options("-m", "--model")
def command(rubrics: RubricOptions, place: Place, unscored: str, limits: Limits, judging: JudgeOptions) -> int:
    """Serve a rubric over HTTP, so that trainers can ask it for rewards.

    RUBRIC is a YAML, JSON or TOML file, or module:object. POST /v1/score takes rollouts; /openrlhf, /slime
    and /verify (NeMo-Gym) take what those trainers send. With --dry-run everything is looked at and nothing
    is served.
    """
    from assay.server import serve

    settings, judge = _settings(place, unscored, limits), _judge(judging)
    if judging.dry_run:
        return _look(str(rubrics.rubric), settings, judge, allow_code=rubrics.allow_code)

    def started(url: str) -> None:
        workers = "1 worker" if settings.workers == 1 else f"{settings.workers} workers"
        click.echo(f"serving {rubrics.rubric} on {url} with {workers}", err=True)

    serve(
        str(rubrics.rubric), settings, judge, allow_code=rubrics.allow_code, started=started
    )  # fmt: skip
    return 0


def _settings(place: Place, unscored: str, limits: Limits) -> "Settings":
    from dataclasses import asdict
    from typing import Any, cast

    from assay.server import Bounds, Settings
    from assay.server.settings import key_from

    return Settings(
        host=place.host,
        port=place.port,
        workers=place.workers,
        unscored=cast("Any", unscored),
        key=key_from(place.key_file),
        allow_hosts=place.allow_hosts,
        bounds=Bounds(**asdict(limits)),
    )


def _judge(judging: JudgeOptions) -> "Judge":
    from typing import Any, cast

    from assay.cache import default_place
    from assay.server import Judge

    cache = None if judging.no_cache else judging.cache or str(default_place())
    return Judge(
        model=judging.judge or "local",
        grader=cast("Any", judging.grader),
        guard=judging.guard,
        cache=cache,
        budget=judging.budget,
    )


def _look(where: str, settings: "Settings", judge: "Judge", *, allow_code: bool) -> int:
    """Load the rubric and its judge as a worker would, and say what would be served."""
    from assay.server.reload import RubricLoader, ServedSource

    loader = RubricLoader(judge)
    try:
        rubric = loader.rubric(ServedSource.at(where, allow_code=allow_code))
    finally:
        loader.close()
    click.echo(f"{rubric!r} would be served on {settings.url}", err=True)
    return 0
