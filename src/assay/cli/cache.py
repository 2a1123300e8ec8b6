"""`assay cache inspect|prune|export|import`: look after the verdicts that need not be asked for again."""

from __future__ import annotations

import json
import sys
import time
from contextlib import AbstractContextManager, closing
from dataclasses import asdict
from datetime import datetime

import click

from assay import cache as verdict_cache
from assay import cli
from assay.errors import CacheError
from assay.wording import format_count


class CacheOptions(cli.CommandOptions):
    """Which cache."""

    cache: str | None = cli.value_of()


class SelectionOptions(CacheOptions):
    """Which verdicts of it are meant."""

    # Under another name than the setting `judge`, which says who is asked, and not which verdicts are meant.
    by: str | None = cli.value_of()
    question: str | None = cli.value_of()
    older_than: float | None = cli.value_of(cli.number(0, what="number of days"))

    def selection(self) -> verdict_cache.Selection:
        before = None if self.older_than is None else time.time() - self.older_than * 86_400
        return verdict_cache.Selection(judge=self.by, before=before, question=self.question)


def _opened(
    cache: str | None, *, make: bool = False
) -> AbstractContextManager[verdict_cache.Store]:
    """The store; looking for one does not make one."""
    place = cache or verdict_cache.default_place()
    file = cli.file_of(place)
    if not make and file is not None and not file.exists():
        raise CacheError(f"there is no cache at {file}: nothing was graded with it yet")
    return closing(verdict_cache.open_store(place))


@click.group("cache", cls=cli.Group)
def command() -> None:
    """Inspect, prune, export and import cached verdicts."""


@cli.declare("cache inspect", command)
def inspect(
    options: SelectionOptions,
    as_json: bool = cli.value_of(),
    limit: int | None = cli.value_of(cli.count),
) -> None:
    """Print how many verdicts there are, or those that are selected."""
    with _opened(options.cache) as store:
        if limit is None and options.selection() == verdict_cache.Selection():
            _print_stats(store, as_json=as_json)
            return
        for key, verdict in store.entries(options.selection(), limit=limit):
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
    size = f"{format_count(stats.verdicts, 'verdict')}, {stats.size / 1e6:.2f} MB"
    print(f"{stats.where}: {size}, which cost ${stats.cost:.4f}")
    if stats.oldest is not None and stats.newest is not None:
        print(f"from {_time(stats.oldest)} to {_time(stats.newest)}")
    for judge, verdicts in (stats.judges or {}).items():
        print(f"{verdicts:>9,}  {judge}")


def _time(moment: float) -> str:
    return datetime.fromtimestamp(moment).astimezone().strftime("%Y-%m-%d %H:%M")


@cli.declare("cache prune", command)
def prune(options: SelectionOptions, all_of_it: bool = cli.value_of()) -> None:
    """Delete verdicts."""
    if (options.selection() == verdict_cache.Selection()) is not all_of_it:
        raise click.UsageError(
            "say what to forget, by --judge, --question or --older-than; or --all"
        )
    with _opened(options.cache) as store:
        print(
            f"forgot {format_count(store.prune(options.selection()), 'verdict')} of {store.where}"
        )


@cli.declare("cache export", command)
def export(
    options: SelectionOptions, output: str = cli.value_of(usual="-", show_default=False)
) -> None:
    """Print verdicts as lines of JSON."""
    with _opened(options.cache) as store, click.open_file(output, "w", encoding="utf-8") as file:
        lines = verdict_cache.export_lines(store, options.selection())
        verdicts = sum(file.write(f"{line}\n") > 0 for line in lines)
    if output != "-":
        print(f"wrote {format_count(verdicts, 'verdict')} to {output}", file=sys.stderr)


@cli.declare("cache import", command)
def take_in(options: CacheOptions, file: str = cli.argument("FILE")) -> None:
    """Import verdicts that another cache exported: a FILE, or - for standard input."""
    with _opened(options.cache, make=True) as store, click.open_file(file, "rb") as lines:
        taken = format_count(
            verdict_cache.import_lines(store, (line.decode() for line in lines)), "verdict"
        )
        print(f"took {taken} into {store.where}")
