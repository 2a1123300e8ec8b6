"""`assay cache inspect|prune|export|import`: look after the verdicts that need not be asked for again."""

import json
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from assay.cli.options import Options, argument, count, declare, number, value_of
from assay.cli.root import Group
from assay.errors import CacheError
from assay.wording import counted

if TYPE_CHECKING:
    from assay.cache import Selection, Store

DAY = 86_400.0


@dataclass(frozen=True)
class PlaceOptions(Options):
    """Where the verdicts are."""

    cache: str | None = value_of(
        "--cache PLACE", "Folder, file or postgresql:// URL; by default yours.", env="ASSAY_CACHE"
    )


@dataclass(frozen=True)
class VerdictOptions(PlaceOptions):
    """The verdicts that are meant."""

    judge: str | None = value_of("--judge TEXT", "Only of this judge; a * at the end stands for anything.")
    question: str | None = value_of("--question HASH", "Only about this criterion.")
    older_than: float | None = value_of(
        "--older-than DAYS", "Only what is older than this.", number(0, what="number of days")
    )

    @property
    def is_all(self) -> bool:
        return self.judge is self.question is self.older_than is None

    def selection(self) -> "Selection":
        from assay.cache import Selection

        before = None if self.older_than is None else time.time() - self.older_than * DAY
        return Selection(judge=self.judge, before=before, question=self.question)


@dataclass(frozen=True)
class InspectOptions(VerdictOptions):
    as_json: bool = value_of("--json", "Print it as JSON.", name="as_json")
    limit: int | None = value_of("--limit N", "Show so many verdicts.", count())


@dataclass(frozen=True)
class PruneOptions(VerdictOptions):
    all_of_it: bool = value_of("--all", "Forget everything.", name="all_of_it")


@dataclass(frozen=True)
class ExportOptions(VerdictOptions):
    output: str | None = value_of("-o --output FILE", "Write there, and not to the screen.")


@dataclass(frozen=True)
class ImportOptions(PlaceOptions):
    file: str = argument("file")


@click.group("cache", cls=Group, example="assay cache inspect")
def command() -> None:
    """Look into the cache of verdicts, prune it, and move it."""


@declare("inspect", InspectOptions, "assay cache inspect --judge 'openai/*' --limit 10", group=command)
def inspect(options: InspectOptions) -> None:
    """Say what is there."""
    with _opened(options.cache) as store:
        if options.limit is None and options.is_all:
            _print_stats(store, as_json=options.as_json)
            return
        for key, verdict in store.entries(options.selection(), limit=options.limit):
            if options.as_json:
                print(json.dumps(asdict(key) | json.loads(verdict.line)))
            else:
                said = " ".join(str(verdict.verdict).split())
                print(f"{_time(verdict.created)}  {key.judge}  {key.question[:12]}  {said[:160]}")


def _print_stats(store: "Store", *, as_json: bool) -> None:
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
    """A moment, by the clock here."""
    return datetime.fromtimestamp(moment).astimezone().strftime("%Y-%m-%d %H:%M")


@declare("prune", PruneOptions, "assay cache prune --older-than 90", group=command)
def prune(options: PruneOptions) -> None:
    """Forget verdicts for ever."""
    if options.is_all != options.all_of_it:
        raise click.UsageError("say what to forget, by --judge, --question or --older-than; or --all")
    with _opened(options.cache) as store:
        print(f"forgot {counted(store.prune(options.selection()), 'verdict')} of {store.where}")


@declare("export", ExportOptions, "assay cache export --output verdicts.jsonl", group=command)
def export(options: ExportOptions) -> None:
    """Print verdicts as lines of JSON."""
    from assay.cache import export_lines

    with _opened(options.cache) as store:
        lines = export_lines(store, options.selection())
        if options.output is None or options.output == "-":
            for line in lines:
                print(line)
            return
        with Path(options.output).open("w", encoding="utf-8") as file:
            verdicts = sum(file.write(f"{line}\n") > 0 for line in lines)
    print(f"wrote {counted(verdicts, 'verdict')} to {options.output}", file=sys.stderr)


@declare("import", ImportOptions, "assay cache import verdicts.jsonl", group=command)
def take_in(options: ImportOptions) -> None:
    """Take in verdicts that another cache exported: a FILE, or - for standard input."""
    from assay.cache import import_lines

    with _opened(options.cache, make=True) as store, click.open_file(options.file, "rb") as lines:
        taken = counted(import_lines(store, (line.decode() for line in lines)), "verdict")
        print(f"took {taken} into {store.where}")


@contextmanager
def _opened(cache: str | None, *, make: bool = False) -> Generator["Store"]:
    """The store; looking for one does not make one."""
    from assay.cache import default_place, open_store
    from assay.cache.store import file_of

    place = cache or default_place()
    file = file_of(place)
    if not make and file is not None and not file.exists():
        raise CacheError(f"there is no cache at {file}: nothing was graded with it yet")
    store = open_store(place)
    try:
        yield store
    finally:
        store.close()
