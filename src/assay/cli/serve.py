"""`assay serve RUBRIC`: serve a rubric over HTTP, as trainers ask for rewards."""

from contextlib import closing
from dataclasses import fields
from typing import Any

import click

from assay.aggregation import POLICIES
from assay.cli.options import RubricArgument, ViewOptions, count, declare, positive, seconds, value_of


class ServeOptions(ViewOptions, RubricArgument):
    """Where the server listens, who may ask it, and what one worker takes on."""

    host: str = value_of(
        "--host ADDRESS", "The address to listen on. One that other machines can reach needs a key.", usual="127.0.0.1"
    )
    port: int = value_of("--port PORT", "The port to listen on; 0 takes one that is free.", count, 8000)
    workers: int = value_of("--workers N", "The number of worker processes; one that dies is replaced.", positive, 1)
    key_file: str | None = value_of("--key-file FILE", "A file with the key of requests; else ASSAY_SERVER_KEY is it.")
    allow_hosts: tuple[str, ...] = value_of(
        "--allow-host NAME", "Another host name that requests may use. Repeatable.", multiple=True, name="allow_hosts"
    )
    unscored: str = value_of(
        "--unscored", "What trainers that take only numbers get for an unscored rollout: an error, 0, the mean of its "
        "group, or null.", POLICIES, "raise",
    )  # fmt: skip
    monitor: str | None = value_of("--monitor FILE", "A file for the signs of reward hacking, as lines of JSON.")
    at_once: int = value_of("--at-once N", "Requests under way in a worker; more get 429.", positive, 1024)
    max_bytes: int = value_of("--max-bytes N", "The size of a request.", positive, 16 << 20)
    max_batch: int = value_of("--max-batch N", "The number of rollouts in a request.", positive, 1024)
    item_seconds: float = value_of("--item-seconds S", "The deadline of one rollout.", seconds, 60.0)
    body_seconds: float = value_of("--body-seconds S", "The time for a client to send a request.", seconds, 30.0)
    drain_seconds: float = value_of("--drain-seconds S", "The time to finish requests on stopping.", seconds, 30.0)


@declare("serve")
def command(options: ServeOptions) -> None:
    """Serve a rubric over HTTP, so that trainers can ask it for rewards.

    RUBRIC is a YAML, JSON or TOML file, module:object, or an environment: a package, a folder or a Python
    file with load_environment(). POST /v1/score takes rollouts; /openrlhf, /slime
    and /verify (NeMo-Gym) take what those trainers send. With --dry-run everything is looked at and nothing
    is served.
    """
    from assay.cache import default_place
    from assay.server import Bounds, Judge, Settings, serve
    from assay.server.reload import Published, RubricLoader
    from assay.server.settings import key_from

    given = {name: getattr(options, name) for name in ("host", "port", "workers", "unscored", "allow_hosts", "monitor")}
    bounds = Bounds(**{each.name: getattr(options, each.name) for each in fields(Bounds)})
    settings = Settings(**given, key=key_from(options.key_file), bounds=bounds)
    cache = None if options.no_cache else options.cache or str(default_place())
    asked: dict[str, Any] = {name: getattr(options, name) for name in ("grader", "guard", "budget", "shows", "window")}
    judge = Judge(options.judge or "local", cache=cache, **asked)
    where = options.rubric
    if not options.dry_run:
        workers = "1 worker" if settings.workers == 1 else f"{settings.workers} workers"
        told = f"serving {where} on %s with {workers}"
        serve(
            where, settings, judge, allow_code=options.allow_code, started=lambda url: click.echo(told % url, err=True)
        )
        return
    with closing(RubricLoader(judge)) as loader:  # as a worker would load it
        rubric = loader.rubric(Published.at(where, allow_code=options.allow_code))
    click.echo(f"{rubric!r} would be served on {settings.url}", err=True)
