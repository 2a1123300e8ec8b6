"""Measure assay against verifiers, rubric and autorubric: `python benchmarks/core.py`.

Prints a table of figures, ratios and targets, and adds it to benchmarks/RESULTS.md. Targets that
are missed are written as missed.
"""

import argparse
import sys
from collections.abc import Sequence

from measures import MEASURES, QUICK, Measure, Sizes
from peers import install
from report import add_options, append_results, as_table, plain_table
from rows import Row
from subjects import Subjects, all_subjects


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    chosen = [m for m in MEASURES if not options.only or m.name in options.only]
    try:
        rows, notes = run(chosen, QUICK if options.quick else Sizes())
    except KeyboardInterrupt:
        say("stopped; nothing was saved")
        return 130
    table = as_table(rows)
    print(plain_table(table))
    for note in notes:
        print(f"note: {note}")
    if not options.no_save:
        append_results([table], notes, quick=options.quick)
    return 0


def run(measures: Sequence[Measure], sizes: Sizes) -> tuple[list[Row], list[str]]:
    """The rows of all measures, and a sentence for everything that could not be measured."""
    installed = install({name for measure in measures for name in measure.peers}, say=say)
    subjects: Subjects = all_subjects(installed.interpreters, say=say)
    rows = [row for measure in measures for row in measure.run(subjects, sizes)]
    return rows, [*installed.failures, *subjects.notes]


def say(line: str) -> None:
    """Progress, kept apart from the table."""
    print(line, file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="core.py", description=(__doc__ or "").strip())
    add_options(parser, [measure.name for measure in MEASURES])
    return parser


if __name__ == "__main__":
    sys.exit(main())
