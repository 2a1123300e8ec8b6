"""`assay serve RUBRIC`: serve a rubric over HTTP, as trainers ask for rewards."""

from dataclasses import asdict, dataclass
from typing import Any, cast

import click

from assay.aggregation import POLICIES
from assay.cli.options import JudgeOptions, RubricOptions, count, files, judge_options, option, record, seconds
from assay.cli.root import Command


@dataclass(frozen=True)
class AddressOptions:
    """Where the server listens, and who may ask it."""

    host: str = option(
        "--host", metavar="ADDRESS", default="127.0.0.1", show_default=True,
        help="Where to listen. Any other address than one of this machine alone needs a key.",
    )  # fmt: skip
    port: int = option(
        "--port", type=count(), metavar="PORT", default=8000, show_default=True, help="0 takes any that is free."
    )
    workers: int = option(
        "--workers", type=count(1), default=1, show_default=True, metavar="N",
        help="Processes that score; one that dies is replaced.",
    )  # fmt: skip
    key_file: str | None = option(
        "--key-file", metavar="FILE", shell_complete=files,
        help="A file with the key that requests must carry; by default ASSAY_SERVER_KEY is it.",
    )  # fmt: skip
    allow_hosts: tuple[str, ...] = option(
        *("--allow-host", "allow_hosts"), multiple=True, metavar="NAME",
        help="Another name that requests may give the server, as a proxy does. May be given again.",
    )  # fmt: skip


@dataclass(frozen=True)
class BoundOptions:
    """What one worker takes on: the fields of `assay.server.Bounds`."""

    at_once: int = option(
        "--at-once", type=count(1), default=1024, show_default=True, metavar="N",
        help="Requests that a worker has under way; more are told to come back (429).",
    )  # fmt: skip
    max_bytes: int = option(
        "--max-bytes", type=count(1), default=16 << 20, show_default=True, metavar="N", help="Size of a request."
    )
    max_batch: int = option(
        "--max-batch", type=count(1), default=1024, show_default=True, metavar="N", help="Rollouts in a request."
    )
    item_seconds: float = option(
        "--item-seconds", type=seconds, default=60.0, show_default=True, metavar="S",
        help="Time to score one rollout; then it is unscored.",
    )  # fmt: skip
    body_seconds: float = option(
        "--body-seconds", type=seconds, default=30.0, show_default=True, metavar="S",
        help="Time for a client to send its request.",
    )  # fmt: skip
    drain_seconds: float = option(
        "--drain-seconds", type=seconds, default=30.0, show_default=True, metavar="S",
        help="Time for requests under way to finish when the server is told to stop.",
    )  # fmt: skip


@click.command(
    "serve",
    cls=Command,
    epilog="Ends on Ctrl-C or SIGTERM once what is under way is answered; reads the rubric file again when "
    "it changes, or on SIGHUP. Exit code: 0 ended as told, 2 it could not start.",
    example="assay serve rubric.yaml --workers 4",
)
@record(
    "rubrics",
    RubricOptions,
    rubric=click.argument("rubric", metavar="RUBRIC", envvar="ASSAY_RUBRIC", shell_complete=files),
)
@record("place", AddressOptions)
@click.option(
    "--unscored", type=click.Choice(POLICIES), default="raise", show_default=True,
    help="What a trainer that takes numbers only gets for a rollout without a score: an error, 0, the "
    "mean of its group, or null.",
)  # fmt: skip
@record("bounds", BoundOptions)
@judge_options("-m", "--model")
def command(
    rubrics: RubricOptions, place: AddressOptions, unscored: Any, bounds: BoundOptions, judging: JudgeOptions
) -> None:
    """Serve a rubric over HTTP, so that trainers can ask it for rewards.

    RUBRIC is a YAML, JSON or TOML file, or module:object. POST /v1/score takes rollouts; /openrlhf, /slime
    and /verify (NeMo-Gym) take what those trainers send. With --dry-run everything is looked at and nothing
    is served.
    """
    from assay.cache import default_place
    from assay.server import Bounds, Judge, Settings, serve
    from assay.server.reload import RubricLoader, ServedSource
    from assay.server.settings import key_from

    settings = Settings(
        host=place.host,
        port=place.port,
        workers=place.workers,
        unscored=unscored,
        key=key_from(place.key_file),
        allow_hosts=place.allow_hosts,
        bounds=Bounds(**asdict(bounds)),
    )
    judge = Judge(
        model=judging.judge or "local",
        grader=cast("Any", judging.grader),
        guard=judging.guard,
        cache=None if judging.no_cache else judging.cache or str(default_place()),
        budget=judging.budget,
    )
    where = str(rubrics.rubric)
    if not judging.dry_run:
        workers = "1 worker" if settings.workers == 1 else f"{settings.workers} workers"
        serve(
            where,
            settings,
            judge,
            allow_code=rubrics.allow_code,
            started=lambda url: click.echo(f"serving {where} on {url} with {workers}", err=True),
        )
        return
    # Loaded as a worker would load it.
    loader = RubricLoader(judge)
    try:
        rubric = loader.rubric(ServedSource.at(where, allow_code=rubrics.allow_code))
    finally:
        loader.close()
    click.echo(f"{rubric!r} would be served on {settings.url}", err=True)
