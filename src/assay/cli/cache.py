"""`assay cache inspect|prune|export|import`: the verdicts that need not be asked for again."""

import argparse
import json
import math
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from assay.cache import Selection, Store, default_place, export_lines, import_lines, open_store
from assay.cache.places import file_of
from assay.cli.jsonl import opened
from assay.cli.showing import counted, shown_time
from assay.errors import CacheError

DAY = 86_400.0


def fill(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    actions = parser.add_subparsers(dest="action", metavar="action", required=True)
    for name, purpose in _ACTIONS.items():
        sentence = f"{purpose[0].upper()}{purpose[1:]}."
        action = actions.add_parser(name, help=purpose, description=sentence, allow_abbrev=False)
        action.add_argument(
            "--cache", metavar="PLACE",
            help="folder, file or postgresql:// URL (default: ASSAY_CACHE, or yours)",
        )  # fmt: skip
        if name == "import":
            action.add_argument(
                "file", metavar="FILE", help="what export wrote; - for standard input"
            )
        else:
            _add_selection(action)
        if name == "inspect":
            action.add_argument("--json", action="store_true", help="print it as JSON")
            action.add_argument("--limit", type=_count, metavar="N", help="show so many verdicts")
        if name == "prune":
            action.add_argument("--all", action="store_true", help="forget everything")
        if name == "export":
            action.add_argument(
                "--output", metavar="FILE", help="write there, and not to the screen"
            )
        action.set_defaults(run=run, refuse=action.error)


_ACTIONS = {
    "inspect": "say what is there",
    "prune": "forget verdicts for ever",
    "export": "print verdicts as lines of JSON",
    "import": "take in verdicts that another cache exported",
}


def _add_selection(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--judge", help="only of this judge; a * at the end stands for anything")
    parser.add_argument("--question", metavar="HASH", help="only about this criterion")
    parser.add_argument(
        "--older-than", type=_days, metavar="DAYS", help="only what is older than this"
    )


def run(options: argparse.Namespace) -> int:
    """Do what the options name, and give the exit code."""
    if options.action == "prune" and _is_all(options) != options.all:
        options.refuse("say what to forget, by --judge, --question or --older-than; or --all")
    with _opened(options) as store:
        if options.action == "inspect":
            _inspect(store, options)
        elif options.action == "prune":
            gone = store.prune(_selection(options))
            print(f"forgot {counted(gone, 'verdict')} of {store.where}")
        elif options.action == "export":
            _export(store, options)
        else:
            with opened(options.file) as file:
                lines = (line.decode() for line in file)
                taken = counted(import_lines(store, lines), "verdict")
            print(f"took {taken} into {store.where}")
    return 0


@contextmanager
def _opened(options: argparse.Namespace) -> Generator[Store]:
    """The store; looking for one does not make one."""
    place = options.cache or default_place()
    file = file_of(place)
    if options.action != "import" and file is not None and not file.exists():
        raise CacheError(f"there is no cache at {file}: nothing was graded with it yet")
    store = open_store(place)
    try:
        yield store
    finally:
        store.close()


def _inspect(store: Store, options: argparse.Namespace) -> None:
    if options.limit is not None or not _is_all(options):
        for key, verdict in store.entries(_selection(options), limit=options.limit):
            if options.json:
                print(json.dumps(asdict(key) | json.loads(verdict.line)))
            else:
                said = " ".join(str(verdict.verdict).split())
                print(
                    f"{shown_time(verdict.created)}  {key.judge}  {key.question[:12]}  {said[:160]}"
                )
        return
    stats = store.stats()
    if options.json:
        print(json.dumps({**asdict(stats), "judges": dict(stats.judges or {})}))
        return
    count, size = counted(stats.verdicts, "verdict"), f"{stats.size / 1e6:.2f} MB"
    print(f"{stats.where}: {count}, {size}, which cost ${stats.cost:.4f}")
    if stats.oldest is not None and stats.newest is not None:
        print(f"from {shown_time(stats.oldest)} to {shown_time(stats.newest)}")
    for judge, count in (stats.judges or {}).items():
        print(f"{count:>9,}  {judge}")


def _export(store: Store, options: argparse.Namespace) -> None:
    lines = export_lines(store, _selection(options))
    if options.output is None:
        for line in lines:
            print(line)
        return
    with Path(options.output).open("w", encoding="utf-8") as file:
        count = sum(file.write(f"{line}\n") > 0 for line in lines)
    print(f"wrote {counted(count, 'verdict')} to {options.output}", file=sys.stderr)


def _is_all(options: argparse.Namespace) -> bool:
    return options.judge is options.question is options.older_than is None


def _selection(options: argparse.Namespace) -> Selection:
    before = None if options.older_than is None else time.time() - options.older_than * DAY
    return Selection(judge=options.judge, before=before, question=options.question)


def _days(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of days, 0 or more")
    return number


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number of 0 or more")
    return int(text)
