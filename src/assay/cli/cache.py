"""`assay cache inspect|prune|export|import`: manage the cached verdicts."""

from __future__ import annotations

import json
import sys
import time
from contextlib import AbstractContextManager, closing
from dataclasses import asdict
from datetime import datetime
from typing import Any

import click

from assay import cache as verdict_cache
from assay.cli.base_command import Command, Group
from assay.cli.options import count, number_type, option_group
from assay.errors import CacheError
from assay.wording import format_count, format_dollars

_cache_option = click.option(
    "--cache",
    metavar="PLACE",
    envvar="ASSAY_CACHE",
    show_envvar=True,
    help="The cache of verdicts: a folder, a file or a postgresql:// URL; by default your own.",
)

_selection_options = option_group(
    # Not named `judge`: the setting of that name says which model is asked.
    click.option(
        "--judge",
        "judge_pattern",
        metavar="TEXT",
        help="Only verdicts of this judge; a * at the end matches anything.",
    ),
    click.option(
        "--question",
        metavar="HASH",
        help="Only verdicts about this criterion.",
    ),
    click.option(
        "--older-than",
        metavar="DAYS",
        type=number_type(0, what="a number of days"),
        help="Only verdicts older than this.",
    ),
)


def _make_selection(
    judge_pattern: str | None, question: str | None, older_than: float | None
) -> verdict_cache.Selection:
    """Return which verdicts the options select; without options, all."""
    before = None
    if older_than is not None:
        before = time.time() - older_than * 86_400
    return verdict_cache.Selection(judge=judge_pattern, before=before, question=question)


@click.group("cache", cls=Group, example="assay cache inspect")
def command() -> None:
    """Inspect, prune, export and import cached verdicts."""


@command.command(
    "inspect", cls=Command, example="assay cache inspect --judge 'openai/*' --limit 10"
)
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
@click.option("--limit", metavar="N", type=count, help="How many verdicts to show.")
@_selection_options
@_cache_option
def inspect(cache: str | None, as_json: bool, limit: int | None, **filters: Any) -> None:
    """Print how many verdicts there are, or the verdicts that the options select."""
    selection = _make_selection(**filters)
    selects_all = selection == verdict_cache.Selection()
    with _open_store(cache) as store:
        if selects_all and limit is None:
            _print_statistics(store, as_json=as_json)
            return
        for key, verdict in store.entries(selection, limit=limit):
            if as_json:
                verdict_data = json.loads(verdict.line)  # the line is JSON, as it is stored
                print(json.dumps({**asdict(key), **verdict_data}))
                continue
            answer = " ".join(str(verdict.verdict).split())  # may be a whole reply, on many lines
            print(
                f"{_format_time(verdict.created)}  {key.judge}  {key.question[:12]}  {answer[:160]}"
            )


def _print_statistics(store: verdict_cache.Store, *, as_json: bool) -> None:
    """Print the number of verdicts, in total and by judge, with their size, cost and age."""
    stats = store.stats()
    verdicts_by_judge = dict(stats.judges or {})
    if as_json:
        print(json.dumps({**asdict(stats), "judges": verdicts_by_judge}))
        return
    verdicts = format_count(stats.verdicts, "verdict")
    print(
        f"{stats.where}: {verdicts}, {stats.size / 1e6:.2f} MB, which cost {format_dollars(stats.cost)}"
    )
    if stats.oldest is not None and stats.newest is not None:
        print(f"from {_format_time(stats.oldest)} to {_format_time(stats.newest)}")
    for judge, verdict_count in verdicts_by_judge.items():
        print(f"{verdict_count:>9,}  {judge}")


def _format_time(timestamp: float) -> str:
    return datetime.fromtimestamp(timestamp).astimezone().strftime("%Y-%m-%d %H:%M")


@command.command("prune", cls=Command, example="assay cache prune --older-than 90")
@click.option("--all", "delete_all", is_flag=True, help="Delete every verdict.")
@_selection_options
@_cache_option
def prune(cache: str | None, delete_all: bool, **filters: Any) -> None:
    """Delete verdicts."""
    selection = _make_selection(**filters)
    selects_all = selection == verdict_cache.Selection()
    if selects_all and not delete_all:
        raise click.UsageError(
            "nothing is selected: give --judge, --question or --older-than, or --all"
        )
    if delete_all and not selects_all:
        raise click.UsageError("--all deletes every verdict: drop it, or drop the other options")
    with _open_store(cache) as store:
        deleted = format_count(store.prune(selection), "verdict")
        print(f"deleted {deleted} from {store.where}")


@command.command("export", cls=Command, example="assay cache export --output verdicts.jsonl")
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=click.Path(),
    default="-",
    help="The file to write; by default standard output.",
)
@_selection_options
@_cache_option
def export(cache: str | None, output: str, **filters: Any) -> None:
    """Print verdicts as JSON lines."""
    selection = _make_selection(**filters)
    exported = 0
    with _open_store(cache) as store, click.open_file(output, "w", encoding="utf-8") as file:
        for line in verdict_cache.export_lines(store, selection):
            file.write(f"{line}\n")
            exported += 1
    if output != "-":
        print(f"wrote {format_count(exported, 'verdict')} to {output}", file=sys.stderr)


@command.command("import", cls=Command, example="assay cache import verdicts.jsonl")
@click.argument("file", metavar="FILE", type=click.Path())
@_cache_option
def import_verdicts(cache: str | None, file: str) -> None:
    """Import verdicts that another cache exported: a FILE, or - for standard input."""
    with _open_store(cache, create=True) as store, click.open_file(file, "rb") as lines:
        text_lines = (line.decode() for line in lines)
        imported = verdict_cache.import_lines(store, text_lines)
        print(f"imported {format_count(imported, 'verdict')} into {store.where}")


def _open_store(
    cache: str | None, *, create: bool = False
) -> AbstractContextManager[verdict_cache.Store]:
    """Open the store of a cache; a store that does not exist is an error unless `create`."""
    from assay.cache.store import file_of

    address = cache or verdict_cache.default_place()
    file = file_of(address)  # None if the address is that of a database server
    if file is not None and not file.exists() and not create:
        raise CacheError(f"there is no cache at {file}: nothing has been graded with it yet")
    return closing(verdict_cache.open_store(address))
