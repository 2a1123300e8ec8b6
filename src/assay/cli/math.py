"""`assay math GOLD ANSWER`: whether two mathematical answers are the same, and why."""

import argparse
import json
import math
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import fields
from functools import partial
from typing import Any

from assay.cli.jsonl import chunks, opened, rows
from assay.math import MathOptions, MathVerdict, verify_many
from assay.parsers import MaybeThinkParser, extract_boxed_answer

SAME, DIFFERENT, UNDECIDED = 0, 1, 2

RULES = {
    "rounding": "a decimal equals an exact number that agrees with it to so many places",
    "tolerance": "the relative difference between two numbers that is forgiven",
    "units": "`5 cm` equals `5`",
    "ordered_tuples": "`(1, 2)` differs from `(2, 1)`",
    "assignments": "`x = 3` equals `3`",
    "rename_variables": "`2x + 1` equals `2y + 1`",
    "symbolic": "undecided pairs go to math-verify, in a worker process",
}


def fill(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.epilog = "Exit code: 0 the same, 1 different, 2 undecided or bad usage."
    parser.add_argument("gold", nargs="?", metavar="GOLD", help="the right answer")
    parser.add_argument(
        "answer", nargs="?", metavar="ANSWER", help="the answer to look at; a box in it is read"
    )
    parser.add_argument(
        "--file",
        metavar="PAIRS",
        help="compare the `gold` and `answer` of every line of a JSONL file (- for standard "
        "input), and print each line with its verdict",
    )
    parser.add_argument("--json", action="store_true", help="print the verdict as JSON")
    parser.add_argument(
        "--strict", action="store_true", help="only the last \\boxed{} after any thought counts"
    )
    parser.add_argument(
        "--timeout", type=_above_zero, default=5.0, metavar="SECONDS",
        help="seconds of work for one comparison (default: 5)",
    )  # fmt: skip
    _add_rules(parser.add_argument_group("what counts as the same"))
    parser.set_defaults(run=run, refuse=parser.error)


def _add_rules(group: Any) -> None:
    for rule in fields(MathOptions):
        flag, words = f"--{rule.name.replace('_', '-')}", RULES[rule.name]
        if isinstance(rule.default, bool):
            usual = "yes" if rule.default else "no"
            group.add_argument(
                flag, action=argparse.BooleanOptionalAction, default=rule.default,
                help=f"{words} (default: {usual})",
            )  # fmt: skip
        else:
            kind = _places if isinstance(rule.default, int) else _share
            group.add_argument(
                flag, type=kind, default=rule.default, metavar="N",
                help=f"{words} (default: {rule.default:g})",
            )  # fmt: skip


def run(options: argparse.Namespace) -> int:
    """Compare what the options name, print it, and give the exit code."""
    if options.file is not None:
        if options.gold is not None:
            options.refuse("give GOLD and ANSWER or --file, not both")
        return _compare_file(options)
    if options.gold is None or options.answer is None:
        options.refuse("give GOLD and ANSWER, or --file")
        return UNDECIDED
    pair = {"gold": options.gold.strip(), "answer": options.answer.strip()}
    [verdict] = _verdicts([pair], options)
    if options.json:
        _print_row(pair, verdict)
    else:
        print(f"{verdict.status.replace('_', ' ')} ({verdict.tier}): {verdict.reason}")
    return _code(Counter([_outcome(verdict)]))


def _compare_file(options: argparse.Namespace) -> int:
    tally: Counter[str] = Counter()
    try:
        with opened(options.file) as file:
            for chunk in chunks(rows(file, options.file, ("gold", "answer"))):
                for row, verdict in zip(chunk, _verdicts(chunk, options), strict=True):
                    tally[_outcome(verdict)] += 1
                    _print_row(row, verdict)
                sys.stdout.flush()
                if sys.stderr.isatty():
                    print(f"\r{_counted(tally)}", end="", file=sys.stderr, flush=True)
    except BaseException as error:
        what = "stopped" if isinstance(error, KeyboardInterrupt) else "broken off"
        if tally or what == "stopped":
            _say(f"{what} after {_counted(tally)}")
        raise
    _say(_counted(tally) if tally else f"there are no pairs in {options.file}")
    return _code(tally)


def _verdicts(pairs: Iterable[dict[str, Any]], options: argparse.Namespace) -> list[MathVerdict]:
    parser = MaybeThinkParser(partial(extract_boxed_answer, strict=options.strict))
    rules = MathOptions(**{rule.name: getattr(options, rule.name) for rule in fields(MathOptions)})
    read = [
        (pair["gold"], parser.parse(answer) if isinstance(answer, str) else answer)
        for pair in pairs
        for answer in [pair["answer"]]
    ]
    verdicts = verify_many(read, options=rules, timeout=options.timeout)
    if not options.strict:
        return verdicts
    return [_NO_BOX if pair[1] == "" else v for pair, v in zip(read, verdicts, strict=True)]


_NO_BOX = MathVerdict("no_answer", "no boxed answer", "normalize")


def _print_row(row: dict[str, Any], verdict: MathVerdict) -> None:
    said = {"equal": verdict.equal, "status": verdict.status}
    print(json.dumps({**row, **said, "reason": verdict.reason, "tier": verdict.tier}))


def _outcome(verdict: MathVerdict) -> str:
    return "the same" if verdict.equal else "different" if verdict.decided else "undecided"


def _code(tally: Counter[str]) -> int:
    if tally["undecided"] or not tally:
        return UNDECIDED
    return DIFFERENT if tally["different"] else SAME


def _counted(tally: Counter[str]) -> str:
    listed = "".join(f", {count:,} {outcome}" for outcome, count in sorted(tally.items()))
    return f"{tally.total():,} pairs{listed}"


def _say(line: str) -> None:
    start = "\r" if sys.stderr.isatty() else ""
    print(f"{start}{line}", file=sys.stderr, flush=True)


def _above_zero(text: str) -> float:
    number = _share(text)
    if not number:
        raise argparse.ArgumentTypeError(f"{text!r} is no time: give seconds above 0")
    return number


def _share(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of 0 or more")
    return number


def _places(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number of 0 or more")
    return int(text)
