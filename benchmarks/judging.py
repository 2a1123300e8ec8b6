"""Measure judging over HTTP against rubric and autorubric: `python benchmarks/judging.py`.

All of them ask one local endpoint that takes 50 ms an answer. Prints a table and adds it to
benchmarks/RESULTS.md. Targets that are missed are written as missed.
"""

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from core import say
from judging_measures import MEASURES, PEERS, QUICK, Sizes
from peers import install
from report import add_options, append_results, as_table, plain_table
from subjects import all_subjects


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    chosen = [MEASURES[name] for name in MEASURES if not options.only or name in options.only]
    sizes = QUICK if options.quick else Sizes()
    installed = install(() if options.alone else PEERS, say=say)
    subjects = all_subjects(installed.interpreters, say=say)
    rows: list[Any] = [row for measure in chosen for row in measure(subjects, sizes)]
    notes = [*installed.failures, *subjects.notes]
    table = as_table(rows)
    print(plain_table(table))
    for note in notes:
        print(f"note: {note}")
    if not options.no_save:
        append_results([table], notes, quick=options.quick, subject="judging over HTTP")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="judging.py", description=(__doc__ or "").strip())
    add_options(parser, list(MEASURES))
    parser.add_argument("--alone", action="store_true", help="leave the peers out")
    return parser


if __name__ == "__main__":
    sys.exit(main())
