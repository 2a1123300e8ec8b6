"""`assay serve RUBRIC`: serve a rubric over HTTP, as trainers ask for rewards."""

from contextlib import closing
from dataclasses import fields
from typing import Any

import click

from assay import cli
from assay.aggregation import POLICIES
from assay.wording import format_count


class ServeOptions(cli.ViewOptions, cli.RubricArgument):
    """Where the server listens, who may ask it, and what one worker takes on."""

    host: str = cli.value_of(usual="127.0.0.1")
    port: int = cli.value_of(cli.count, 8000)
    workers: int = cli.value_of(cli.positive, 1)
    key_file: str | None = cli.value_of()
    allow_hosts: tuple[str, ...] = cli.value_of(multiple=True)
    unscored: str = cli.value_of(POLICIES, "raise")
    monitor: str | None = cli.value_of()
    at_once: int = cli.value_of(cli.positive, 1024)
    max_bytes: int = cli.value_of(cli.positive, 16 << 20)
    max_batch: int = cli.value_of(cli.positive, 1024)
    item_seconds: float = cli.value_of(cli.seconds, 60.0)
    body_seconds: float = cli.value_of(cli.seconds, 30.0)
    drain_seconds: float = cli.value_of(cli.seconds, 30.0)


@cli.declare("serve")
def command(options: ServeOptions) -> None:
    """Serve a rubric over HTTP, so that trainers can ask it for rewards.

    RUBRIC is a YAML, JSON or TOML file, module:object, or an environment: a package, a folder or a Python
    file with load_environment(). POST /v1/score takes rollouts; /openrlhf, /slime
    and /verify (NeMo-Gym) take what those trainers send. With --dry-run everything is looked at and nothing
    is served.
    """
    from assay.server import Bounds, Judge, Settings, serve

    given = {
        name: getattr(options, name)
        for name in ("host", "port", "workers", "unscored", "allow_hosts", "monitor")
    }
    bounds = Bounds(**{each.name: getattr(options, each.name) for each in fields(Bounds)})
    settings = Settings(**given, key=cli.key_from(options.key_file), bounds=bounds)
    cache = None if options.no_cache else options.cache or str(cli.default_place())
    asked: dict[str, Any] = {
        name: getattr(options, name)
        for name in ("grader", "guard", "budget", "shows", "window", "thinking", "parser")
    }
    judge = Judge(options.judge or "local", cache=cache, **asked)
    where = options.rubric
    if not options.dry_run:
        told = f"serving {where} on %s with {format_count(settings.workers, 'worker')}"
        serve(
            where,
            settings,
            judge,
            allow_code=options.allow_code,
            started=lambda url: click.echo(told % url, err=True),
        )
        return
    with closing(cli.RubricLoader(judge)) as loader:  # as a worker would load it
        rubric = loader.rubric(cli.Published.at(where, allow_code=options.allow_code))
    click.echo(f"{rubric!r} would be served on {settings.url}", err=True)
