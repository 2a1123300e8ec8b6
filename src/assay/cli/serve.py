"""`assay serve RUBRIC`: serve a rubric over HTTP, as a reward for trainers."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import Any

import click

from assay.aggregation import POLICIES
from assay.cli.base_command import Command
from assay.cli.judging import allow_media_folder, find_price
from assay.cli.options import (
    ViewOptions,
    allow_code_option,
    count,
    judging_options,
    option_group,
    positive,
    rubric_argument,
    seconds,
    section_option,
    view_options,
)
from assay.wording import format_count

_server_options = option_group(
    click.option(
        "--host",
        metavar="ADDRESS",
        default="127.0.0.1",
        show_default=True,
        help="The address to listen on. An address that other machines can reach needs a key.",
    ),
    click.option(
        "--port",
        metavar="PORT",
        type=count,
        default=8000,
        show_default=True,
        help="The port to listen on; 0 takes a free one.",
    ),
    click.option(
        "--workers",
        metavar="N",
        type=positive,
        default=1,
        show_default=True,
        help="The number of worker processes; one that dies is replaced.",
    ),
    click.option(
        "--key-file",
        metavar="FILE",
        type=click.Path(),
        help="A file with the key that requests must have; by default ASSAY_SERVER_KEY is the key.",
    ),
    click.option(
        "--allow-host",
        "allow_hosts",
        metavar="NAME",
        multiple=True,
        help="Another host name that requests may use. Repeatable.",
    ),
    click.option(
        "--unscored",
        type=click.Choice(POLICIES),
        default="raise",
        show_default=True,
        help="What trainers that accept only numbers get for an unscored rollout: an error, 0, the "
        "mean of its group, or null.",
    ),
    click.option(
        "--monitor",
        metavar="FILE",
        type=click.Path(),
        help="A file for signs of reward hacking, as JSON lines.",
    ),
)

_limit_option = section_option("Limits")
_limit_options = option_group(
    _limit_option(
        "--at-once",
        metavar="N",
        type=positive,
        default=1024,
        show_default=True,
        help="Requests that a worker processes at the same time; more get 429.",
    ),
    _limit_option(
        "--max-bytes",
        metavar="N",
        type=positive,
        default=16 << 20,
        show_default=True,
        help="The largest size of a request.",
    ),
    _limit_option(
        "--max-batch",
        metavar="N",
        type=positive,
        default=1024,
        show_default=True,
        help="The most rollouts in a request.",
    ),
    _limit_option(
        "--item-seconds",
        metavar="S",
        type=seconds,
        default=60.0,
        show_default=True,
        help="The deadline of one rollout.",
    ),
    _limit_option(
        "--body-seconds",
        metavar="S",
        type=seconds,
        default=30.0,
        show_default=True,
        help="How long a client may take to send a request.",
    ),
    _limit_option(
        "--drain-seconds",
        metavar="S",
        type=seconds,
        default=30.0,
        show_default=True,
        help="How long requests may take to finish when the server stops.",
    ),
)


@click.command(
    "serve",
    cls=Command,
    epilog="Ends on Ctrl-C or SIGTERM once the current requests are answered; reads the rubric "
    "file again when it changes, or on SIGHUP. Exit codes: 0 stopped, 2 it could not start.",
    example="assay serve rubric.yaml --workers 4",
)
@rubric_argument
@_server_options
@_limit_options
@view_options
@judging_options
@allow_code_option
def command(**values: Any) -> None:
    """Serve a rubric over HTTP, so that trainers can ask it for rewards.

    RUBRIC is a YAML, JSON or TOML file, module:object, or an environment: a package, a folder or a
    Python file with load_environment(). POST /v1/score takes rollouts; /openrlhf, /slime and
    /verify (NeMo-Gym) take the requests of those trainers. With --dry-run everything is checked but
    nothing is served.
    """
    options = ServeOptions(**values)
    with allow_media_folder(options.media_folder):
        _serve_rubric(options)


@dataclass(frozen=True, kw_only=True)
class ServeOptions(ViewOptions):
    """The options of `assay serve`."""

    rubric: str
    allow_code: bool
    host: str
    port: int
    workers: int
    key_file: str | None
    allow_hosts: tuple[str, ...]
    unscored: Any  # one of POLICIES
    monitor: str | None
    at_once: int
    max_bytes: int
    max_batch: int
    item_seconds: float
    body_seconds: float
    drain_seconds: float


def _serve_rubric(options: ServeOptions) -> None:
    """Serve the rubric until the server is stopped; in a dry run, load it as a worker would."""
    from assay.cache import default_place
    from assay.server import Bounds, JudgeSettings, Settings, serve
    from assay.server.reload import RubricLoader
    from assay.server.server_folder import PublishedRubric
    from assay.server.settings import read_key

    settings = Settings(
        host=options.host,
        port=options.port,
        workers=options.workers,
        unscored=options.unscored,
        allow_hosts=options.allow_hosts,
        monitor=options.monitor,
        key=read_key(options.key_file),
        bounds=Bounds(
            at_once=options.at_once,
            max_bytes=options.max_bytes,
            max_batch=options.max_batch,
            item_seconds=options.item_seconds,
            body_seconds=options.body_seconds,
            drain_seconds=options.drain_seconds,
        ),
    )
    cache = None
    if not options.no_cache:
        cache = options.cache or str(default_place())
    grader: Any = options.grader  # click has checked the name, which the type checker does not know
    judge = JudgeSettings(
        options.judge,
        cache=cache,
        grader=grader,
        guard=options.guard,
        budget=options.budget,
        price=find_price(options.prices, options.judge or ""),
        max_calls=options.max_calls,
        limits=options.limits,
        shows=options.shows,
        window=options.window,
        thinking=options.thinking,
        parser=options.parser,
    )
    if options.dry_run:
        with closing(RubricLoader(judge)) as loader:
            published = PublishedRubric.read(options.rubric, allow_code=options.allow_code)
            rubric = loader.load(published)
        click.echo(f"{rubric!r} would be served on {settings.url}", err=True)
        return

    def print_address(url: str) -> None:
        workers = format_count(settings.workers, "worker")
        click.echo(f"serving {options.rubric} on {url} with {workers}", err=True)

    serve(
        options.rubric,
        settings,
        judge,
        allow_code=options.allow_code,
        started=print_address,
    )
