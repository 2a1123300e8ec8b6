"""Work out from recorded verdicts what is known of real judges: `python benchmarks/trust.py --data FOLDER`.

Prints our figures beside published ones, or beside those of a second implementation, and adds them to
benchmarks/RESULTS.md. What differs is written as missed.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from core import say
from report import add_options, append_results, plain_table
from rows import Check, Table
from trust_corrections import corrections
from trust_data import VARIABLE, DataError, find_data
from trust_found import Found
from trust_llmbar import juries, swaps
from trust_people import people, scores

MEASURES: dict[str, Callable[[Path, bool], Found]] = {
    "swaps": swaps,
    "juries": juries,
    "people": people,
    "scores": scores,
    "corrections": corrections,
}


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    checks: list[Check] = []
    tables: list[Table] = []
    try:
        folder = find_data(options.data)
        for name, measure in MEASURES.items():
            if not options.only or name in options.only:
                found, shown = measure(folder, options.quick)
                checks += found
                tables += shown
    except DataError as error:
        say(f"no data: {error}")
        return 2
    except KeyboardInterrupt:
        say("stopped; nothing was saved")
        return 130
    tables = [_checked(checks), *tables] if checks else tables
    print("\n\n".join(map(plain_table, tables)))
    if not options.no_save:
        append_results(tables, [], quick=options.quick, subject="trust", peers=())
    return 0 if all(check.holds is not False for check in checks) else 1


def _checked(checks: Sequence[Check]) -> Table:
    words = {True: "met", False: "missed", None: "–"}
    lines = tuple((c.measure, c.found, c.expected, words[c.holds]) for c in checks)
    return Table("", ("figure", "assay", "published, second or target", "result"), lines)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="trust.py", description=(__doc__ or "").strip())
    parser.add_argument("--data", help=f"the folder with the recorded verdicts; or {VARIABLE}")
    add_options(parser, list(MEASURES))
    return parser


if __name__ == "__main__":
    sys.exit(main())
