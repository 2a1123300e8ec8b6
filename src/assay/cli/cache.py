"""`assay cache inspect|prune|export|import`: the verdicts that need not be asked for again."""

import json
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from assay.cli.options import bundled, count, number
from assay.cli.root import Group
from assay.cli.terminal import counted, shown_time
from assay.errors import CacheError

if TYPE_CHECKING:
    from assay.cache import Selection, Store

DAY = 86_400.0


@dataclass(frozen=True)
class Which:
    """The verdicts that are meant."""

    judge: str | None
    question: str | None
    older_than: float | None

    @property
    def is_all(self) -> bool:
        return self.judge is self.question is self.older_than is None

    def selection(self) -> "Selection":
        from assay.cache import Selection

        before = None if self.older_than is None else time.time() - self.older_than * DAY
        return Selection(judge=self.judge, before=before, question=self.question)


_which = bundled(
    "which",
    Which,
    click.option("--judge", help="Only of this judge; a * at the end stands for anything."),
    click.option("--question", metavar="HASH", help="Only about this criterion."),
    click.option(
        "--older-than", type=number(0, what="number of days"), metavar="DAYS",
        help="Only what is older than this.",
    ),
)  # fmt: skip


def _place(function: Callable[..., Any]) -> Callable[..., Any]:
    said = "Folder, file or postgresql:// URL; by default yours."
    return click.option("--cache", metavar="PLACE", envvar="ASSAY_CACHE", show_envvar=True, help=said)(function)


@click.group("cache", cls=Group, example="assay cache inspect")
def command() -> None:
    """Look into the cache of verdicts, prune it, and move it."""


@command.command("inspect", example="assay cache inspect --judge 'openai/*' --limit 10")
@_place
@_which
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
@click.option("--limit", type=count(), metavar="N", help="Show so many verdicts.")
def inspect(cache: str | None, which: Which, as_json: bool, limit: int | None) -> None:
    """Say what is there."""
    with _opened(cache) as store:
        if limit is None and which.is_all:
            _print_stats(store, as_json=as_json)
        else:
            _print_verdicts(store, which, limit, as_json=as_json)


@command.command("prune", example="assay cache prune --older-than 90")
@_place
@_which
@click.option("--all", "all_of_it", is_flag=True, help="Forget everything.")
def prune(cache: str | None, which: Which, all_of_it: bool) -> None:
    """Forget verdicts for ever."""
    if which.is_all != all_of_it:
        raise click.UsageError("say what to forget, by --judge, --question or --older-than; or --all")
    with _opened(cache) as store:
        gone = store.prune(which.selection())
        print(f"forgot {counted(gone, 'verdict')} of {store.where}")


@command.command("export", example="assay cache export --output verdicts.jsonl")
@_place
@_which
@click.option(
    "-o", "--output", metavar="FILE", help="Write there, and not to the screen."
)  # fmt: skip
def export(cache: str | None, which: Which, output: str | None) -> None:
    """Print verdicts as lines of JSON."""
    from assay.cache import export_lines

    with _opened(cache) as store:
        lines = export_lines(store, which.selection())
        if output is None or output == "-":
            for line in lines:
                print(line)
            return
        with Path(output).open("w", encoding="utf-8") as file:
            count = sum(file.write(f"{line}\n") > 0 for line in lines)
    print(f"wrote {counted(count, 'verdict')} to {output}", file=sys.stderr)


@command.command("import", example="assay cache import verdicts.jsonl")
@click.argument("file")
@_place
def take_in(file: str, cache: str | None) -> None:
    """Take in verdicts that another cache exported: a FILE, or - for standard input."""
    from assay.cache import import_lines

    with _opened(cache, make=True) as store, click.open_file(file, "rb") as lines:
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


def _print_verdicts(store: "Store", which: Which, limit: int | None, *, as_json: bool) -> None:
    for key, verdict in store.entries(which.selection(), limit=limit):
        if as_json:
            print(json.dumps(asdict(key) | json.loads(verdict.line)))
        else:
            said = " ".join(str(verdict.verdict).split())
            when = shown_time(verdict.created)
            print(f"{when}  {key.judge}  {key.question[:12]}  {said[:160]}")


def _print_stats(store: "Store", *, as_json: bool) -> None:
    stats = store.stats()
    if as_json:
        print(json.dumps({**asdict(stats), "judges": dict(stats.judges or {})}))
        return
    count, size = counted(stats.verdicts, "verdict"), f"{stats.size / 1e6:.2f} MB"
    print(f"{stats.where}: {count}, {size}, which cost ${stats.cost:.4f}")
    if stats.oldest is not None and stats.newest is not None:
        print(f"from {shown_time(stats.oldest)} to {shown_time(stats.newest)}")
    for judge, count in (stats.judges or {}).items():
        print(f"{count:>9,}  {judge}")
