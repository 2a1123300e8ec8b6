"""`assay serve RUBRIC`: serve a rubric over HTTP, as trainers ask for rewards."""

from dataclasses import asdict, dataclass
from typing import Any, cast

import click

from assay.aggregation import POLICIES
from assay.cli.options import (
    JudgeOptions,
    RubricOptions,
    count,
    files,
    judge_options,
    option,
    record,
    rubric_argument,
    seconds,
    value_of,
)
from assay.cli.root import Command


@dataclass(frozen=True)
class AddressOptions:
    """Where the server listens, and who may ask it."""

    host: str = value_of(
        "--host ADDRESS", "Where to listen. Any other address than one of this machine alone needs a key.",
        default="127.0.0.1",
    )  # fmt: skip
    port: int = value_of("--port PORT", "0 takes any that is free.", count(), 8000)
    workers: int = value_of("--workers N", "Processes that score; one that dies is replaced.", count(1), 1)
    key_file: str | None = value_of(
        "--key-file FILE", "A file with the key that requests must carry; by default ASSAY_SERVER_KEY is it.",
        shell_complete=files,
    )  # fmt: skip
    allow_hosts: tuple[str, ...] = value_of(
        "--allow-host NAME", "Another name that requests may give the server, as a proxy does. May be given again.",
        multiple=True, name="allow_hosts",
    )  # fmt: skip


@dataclass(frozen=True)
class BoundOptions:
    """What one worker takes on: the fields of `assay.server.Bounds`."""

    at_once: int = value_of(
        "--at-once N", "Requests that a worker has under way; more are told to come back (429).", count(1), 1024
    )
    max_bytes: int = value_of("--max-bytes N", "Size of a request.", count(1), 16 << 20)
    max_batch: int = value_of("--max-batch N", "Rollouts in a request.", count(1), 1024)
    item_seconds: float = value_of("--item-seconds S", "Time to score one rollout; then it is unscored.", seconds, 60.0)
    body_seconds: float = value_of("--body-seconds S", "Time for a client to send its request.", seconds, 30.0)
    drain_seconds: float = value_of(
        "--drain-seconds S", "Time for requests under way to finish when the server is told to stop.", seconds, 30.0
    )


@click.command(
    "serve",
    cls=Command,
    epilog="Ends on Ctrl-C or SIGTERM once what is under way is answered; reads the rubric file again when "
    "it changes, or on SIGHUP. Exit code: 0 ended as told, 2 it could not start.",
    example="assay serve rubric.yaml --workers 4",
)
@rubric_argument(envvar="ASSAY_RUBRIC")
@record("place", AddressOptions)
@option(
    "--unscored", "What a trainer that takes numbers only gets for a rollout without a score: an error, 0, the "
    "mean of its group, or null.", POLICIES, "raise",
)  # fmt: skip
@record("bounds", BoundOptions)
@judge_options("-m --model")
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
