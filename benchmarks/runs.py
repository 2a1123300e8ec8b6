"""Measure runs: scoring a file of rollouts, and evaluating a model: `python benchmarks/runs.py`.

Prints a table and adds it to benchmarks/RESULTS.md. Targets that are missed are written as missed.
"""

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module

from core import say
from report import add_options, append_results, as_table, plain_table

MEASURES = {"score": "runs_score", "evaluate": "runs_evaluate"}
"""Each a module with `measure(quick, say)`, which gives rows and notes."""


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    rows, notes = [], []
    try:
        for name in options.only or MEASURES:
            found, told = import_module(MEASURES[name]).measure(options.quick, say)
            rows += found
            notes += told
    except KeyboardInterrupt:
        say("stopped; nothing was saved")
        return 130
    table = as_table(rows)
    print(plain_table(table))
    for note in notes:
        print(f"note: {note}")
    if not options.no_save:
        append_results([table], notes, quick=options.quick, subject="runs")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="runs.py", description=(__doc__ or "").strip())
    add_options(parser, list(MEASURES))
    return parser


if __name__ == "__main__":
    sys.exit(main())
