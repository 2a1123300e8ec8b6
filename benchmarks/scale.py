"""Measure scoring by many workers: `python benchmarks/scale.py`.

How much faster two workers are than one, what an engine costs beside the work, and how many turns at a judge
can be handed out. Prints tables and adds them to benchmarks/RESULTS.md.
"""

import argparse
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version

from core import say
from peers import Peer
from report import add_options, append_results, as_table, plain_table
from rows import Check, Row, Table
from scale_measures import MEASURES, QUICK, Sizes


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    sizes = QUICK if options.quick else Sizes()
    if options.rows:
        sizes = Sizes(rows=options.rows)
    rows: list[Row | Check] = []
    tables: list[Table] = []
    notes: list[str] = []
    try:
        for name in options.only or MEASURES:
            found = MEASURES[name](sizes, say)
            rows += found.rows
            tables += found.tables
            notes += found.notes
    except KeyboardInterrupt:
        say("stopped; nothing was saved")
        return 130
    tables = [as_table(rows), *tables]
    print("\n\n".join(map(plain_table, tables)))
    for note in notes:
        print(f"note: {note}")
    if not options.no_save:
        quick = options.quick or bool(options.rows)
        append_results(tables, notes, quick=quick, subject="many workers", peers=_ray())
    return 0


def _ray() -> list[Peer]:
    """The Ray that was measured, for the facts of the section."""
    try:
        return [Peer("ray", version("ray"), ())]
    except PackageNotFoundError:
        return []


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="scale.py", description=(__doc__ or "").strip())
    add_options(parser, list(MEASURES))
    parser.add_argument("--rows", type=int, help="so many rollouts instead of a million")
    return parser


if __name__ == "__main__":
    sys.exit(main())
