"""The command behind `math.py`: options, data, measures, tables."""

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from core import say
from math_data import VARIABLE, DataError, find_data
from math_measures import MEASURES, Found, Measure
from math_peers import MATH_PEERS
from math_sets import QUICK, Sets, Sizes, load_sets
from peers import install
from report import add_options, append_results, as_table, plain_table
from subjects import all_subjects


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    chosen = [m for m in MEASURES if not options.only or m.name in options.only]
    sizes = QUICK if options.quick else Sizes()
    with tempfile.TemporaryDirectory() as folder:
        try:
            sets = load_sets(find_data(options.data), options.hard, Path(folder), sizes)
            found = run(chosen, sets)
        except DataError as error:
            say(f"no data: {error}")
            return 2
        except KeyboardInterrupt:
            say("stopped; nothing was saved")
            return 130
    tables = [as_table(found.rows), *found.tables]
    print("\n\n".join(map(plain_table, tables)))
    for note in found.notes:
        print(f"note: {note}")
    if not options.no_save:
        append_results(tables, found.notes, quick=options.quick, subject="mathematics", peers=MATH_PEERS)
    return 0


def run(measures: Sequence[Measure], sets: Sets) -> Found:
    """What all measures found, and a sentence for everything that could not be measured."""
    names = [peer.name for peer in MATH_PEERS]
    installed = install(names, say=say, peers=MATH_PEERS)
    subjects = all_subjects(installed.interpreters, say=say)
    found = Found([], [], list(installed.failures))
    for measure in measures:
        began = time.monotonic()
        found = found + measure.run(subjects, sets)
        say(f"{measure.name}: {time.monotonic() - began:.0f} s")
    return found + Found([], [], subjects.notes)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="math.py", description="Measure assay.math against verifiers and math-verify."
    )
    add_options(parser, [measure.name for measure in MEASURES])
    parser.add_argument("--data", metavar="FOLDER", help=f"the data; else ${VARIABLE}, else ../shared/data")
    parser.add_argument(
        "--hard", metavar="FILE", type=Path, help="more hard pairs: JSON lines with gold, answer and label"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
