"""`assay cache inspect|prune|export|import`: look after the verdicts that need not be asked for again."""

from __future__ import annotations

import json
import sys
import time
from contextlib import AbstractContextManager, closing
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from assay import cache as verdict_cache
from assay.cli.options import count, number, option
from assay.cli.root import Group
from assay.errors import CacheError
from assay.wording import counted

_place = option("--cache PLACE", "The cache of verdicts: a folder, a file or a postgresql:// URL; by default yours.")


def _which(function: Any) -> Any:
    """The options that say which verdicts are meant."""
    days = number(0, what="number of days")
    function = option("--older-than DAYS", "Only verdicts older than this.", days)(function)
    function = option("--question HASH", "Only verdicts about this criterion.")(function)
    # Under another name than the setting `judge`, which says who is asked, and not which verdicts are meant.
    function = option("--judge TEXT", "Only verdicts of this judge; a * at the end matches anything.", name="by")(
        function
    )
    return _place(function)


def _selection(by: str | None, question: str | None, older_than: float | None) -> verdict_cache.Selection:
    before = None if older_than is None else time.time() - older_than * 86_400
    return verdict_cache.Selection(judge=by, before=before, question=question)


def _opened(cache: str | None, *, make: bool = False) -> AbstractContextManager[verdict_cache.Store]:
    """The store; looking for one does not make one."""
    from assay.cache.store import file_of

    place = cache or verdict_cache.default_place()
    file = file_of(place)
    if not make and file is not None and not file.exists():
        raise CacheError(f"there is no cache at {file}: nothing was graded with it yet")
    return closing(verdict_cache.open_store(place))


@click.group("cache", cls=Group)
def command() -> None:
    """Inspect, prune, export and import cached verdicts."""


@command.command("cache inspect")
@_which
@option("--json", "Print it as JSON.", name="as_json")
@option("--limit N", "How many verdicts to show.", count)
def inspect(cache: str | None, as_json: bool, limit: int | None, **which: Any) -> None:
    """Print how many verdicts there are, or those that are selected."""
    with _opened(cache) as store:
        if limit is None and not any(value is not None for value in which.values()):
            _print_stats(store, as_json=as_json)
            return
        for key, verdict in store.entries(_selection(**which), limit=limit):
            if as_json:
                print(json.dumps(asdict(key) | json.loads(verdict.line)))
            else:
                said = " ".join(str(verdict.verdict).split())
                print(f"{_time(verdict.created)}  {key.judge}  {key.question[:12]}  {said[:160]}")


def _print_stats(store: verdict_cache.Store, *, as_json: bool) -> None:
    stats = store.stats()
    if as_json:
        print(json.dumps({**asdict(stats), "judges": dict(stats.judges or {})}))
        return
    size = f"{counted(stats.verdicts, 'verdict')}, {stats.size / 1e6:.2f} MB"
    print(f"{stats.where}: {size}, which cost ${stats.cost:.4f}")
    if stats.oldest is not None and stats.newest is not None:
        print(f"from {_time(stats.oldest)} to {_time(stats.newest)}")
    for judge, verdicts in (stats.judges or {}).items():
        print(f"{verdicts:>9,}  {judge}")


def _time(moment: float) -> str:
    return datetime.fromtimestamp(moment).astimezone().strftime("%Y-%m-%d %H:%M")


@command.command("cache prune")
@_which
@option("--all", "Delete every verdict.", name="all_of_it")
def prune(cache: str | None, all_of_it: bool, **which: Any) -> None:
    """Delete verdicts."""
    if any(value is not None for value in which.values()) is all_of_it:
        raise click.UsageError("say what to forget, by --judge, --question or --older-than; or --all")
    with _opened(cache) as store:
        print(f"forgot {counted(store.prune(_selection(**which)), 'verdict')} of {store.where}")


@command.command("cache export")
@_which
@option("-o --output FILE", "The file to write, in place of standard output.")
def export(cache: str | None, output: str | None, **which: Any) -> None:
    """Print verdicts as lines of JSON."""
    with _opened(cache) as store:
        lines = verdict_cache.export_lines(store, _selection(**which))
        if output is None or output == "-":
            for line in lines:
                print(line)
            return
        with Path(output).open("w", encoding="utf-8") as file:
            verdicts = sum(file.write(f"{line}\n") > 0 for line in lines)
    print(f"wrote {counted(verdicts, 'verdict')} to {output}", file=sys.stderr)


@command.command("cache import")
@click.argument("file")
@_place
def take_in(file: str, cache: str | None) -> None:
    """Import verdicts that another cache exported: a FILE, or - for standard input."""
    with _opened(cache, make=True) as store, click.open_file(file, "rb") as lines:
        taken = counted(verdict_cache.import_lines(store, (line.decode() for line in lines)), "verdict")
        print(f"took {taken} into {store.where}")
