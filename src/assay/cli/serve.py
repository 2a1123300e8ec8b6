"""`assay serve RUBRIC`: serve a rubric over HTTP, as trainers ask for rewards."""

from dataclasses import dataclass, fields
from typing import Any, cast

import click

from assay.aggregation import POLICIES, Policy
from assay.cli.options import JudgingOptions, RubricArgument, argument, count, declare, files, seconds, value_of


@dataclass(frozen=True)
class ServerOptions(RubricArgument):
    """Where the server listens, who may ask it, and what one worker takes on."""

    rubric: str = argument("rubric", metavar="RUBRIC", envvar="ASSAY_RUBRIC", shell_complete=files)
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
    unscored: str = value_of(
        "--unscored", "What a trainer that takes numbers only gets for a rollout without a score: an error, 0, the "
        "mean of its group, or null.", POLICIES, "raise",
    )  # fmt: skip
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


@dataclass(frozen=True)
class ServeOptions(JudgingOptions, ServerOptions):
    """What it takes to serve a rubric."""


@declare(
    "serve",
    ServeOptions,
    "assay serve rubric.yaml --workers 4",
    "Ends on Ctrl-C or SIGTERM once what is under way is answered; reads the rubric file again when it changes, or on "
    "SIGHUP. Exit code: 0 ended as told, 2 it could not start.",
)
def command(options: ServeOptions) -> None:
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
        host=options.host,
        port=options.port,
        workers=options.workers,
        unscored=cast("Policy", options.unscored),
        key=key_from(options.key_file),
        allow_hosts=options.allow_hosts,
        bounds=Bounds(**{each.name: getattr(options, each.name) for each in fields(Bounds)}),
    )
    judge = Judge(
        model=options.judge or "local",
        grader=cast("Any", options.grader),
        guard=options.guard,
        cache=None if options.no_cache else options.cache or str(default_place()),
        budget=options.budget,
    )
    where = options.rubric
    if not options.dry_run:
        workers = "1 worker" if settings.workers == 1 else f"{settings.workers} workers"
        serve(
            where,
            settings,
            judge,
            allow_code=options.allow_code,
            started=lambda url: click.echo(f"serving {where} on {url} with {workers}", err=True),
        )
        return
    # Loaded as a worker would load it.
    loader = RubricLoader(judge)
    try:
        rubric = loader.rubric(ServedSource.at(where, allow_code=options.allow_code))
    finally:
        loader.close()
    click.echo(f"{rubric!r} would be served on {settings.url}", err=True)
