"""`assay math GOLD ANSWER`: whether two mathematical answers are the same, and why."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from assay.cli.options import count, number, seconds
from assay.cli.root import Command
from assay.errors import AssayError

if TYPE_CHECKING:
    from assay.math import MathOptions, MathVerdict


SAME, DIFFERENT, UNDECIDED = 0, 1, 2


class Rule(NamedTuple):
    """What counts as the same: an option of `assay.MathOptions`, as it is said here."""

    words: str
    usual: str
    value: Callable[[Any], float] | None = None
    """What it takes; None for a rule that is on or off."""


RULES = {
    "rounding": Rule("A decimal equals an exact number that agrees with it to so many places", "6", count()),
    "tolerance": Rule("The relative difference between two numbers that is forgiven", "0", number(0)),
    "units": Rule("`5 cm` equals `5`", "yes"),
    "ordered_tuples": Rule("`(1, 2)` differs from `(2, 1)`", "yes"),
    "assignments": Rule("`x = 3` equals `3`", "yes"),
    "rename_variables": Rule("`2x + 1` equals `2y + 1`", "no"),
    "symbolic": Rule("Undecided pairs go to math-verify, in a worker process", "yes"),
}


class MathCommand(Command):
    """Takes answers such as `-x` for what they are: but for `-h`, its options have two dashes."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, [_as_value(argument) for argument in args])


def _as_value(argument: str) -> str:
    """A text that begins with a space is no option, and answers are stripped anyway."""
    is_value = argument.startswith("-") and not argument.startswith("--")
    return f" {argument}" if is_value and argument not in ("-", "-h") else argument


def _rules(function: Any) -> Any:
    for name, rule in reversed(RULES.items()):
        flag = name.replace("_", "-")
        form = f"--{flag}/--no-{flag}" if rule.value is None else f"--{flag}"
        options: dict[str, Any] = {}
        if rule.value is not None:
            options = {"type": rule.value, "metavar": "N"}
        said = f"{rule.words} (default: {rule.usual})."
        function = click.option(form, name, default=None, help=said, **options)(function)
    return function


@click.command(
    "math",
    cls=MathCommand,
    epilog="Exit code: 0 the same, 1 different, 2 undecided or bad usage.",
    example="assay math '\\frac12' 0.5",
)
@click.argument("gold", required=False)
@click.argument("answer", required=False)
@click.option(
    "--file", metavar="PAIRS",
    help="Compare the `gold` and `answer` of every row of a file (.jsonl, .csv, .parquet; - for JSON "
    "lines on standard input), and print each row with its verdict.",
)  # fmt: skip
@click.option("--json", is_flag=True, help="Print the verdict as JSON.")
@click.option("--strict", is_flag=True, help="Only the last \\boxed{} after any thought counts.")
@click.option(
    "--timeout", type=seconds, default=5.0, show_default=True, metavar="SECONDS",
    help="Seconds of work for one comparison.",
)  # fmt: skip
@_rules
def command(
    gold: str | None, answer: str | None, file: str | None, json: bool, strict: bool, timeout: float, **rules: Any
) -> int:
    """Say whether two mathematical answers are the same.

    GOLD is the right answer. ANSWER is the one to look at; a box in it is read.
    """
    if file is not None and gold is not None:
        raise click.UsageError("give GOLD and ANSWER or --file, not both")
    if file is None and (gold is None or answer is None):
        raise click.UsageError("give GOLD and ANSWER, or --file")

    said = {name: value for name, value in rules.items() if value is not None}
    comparing = Comparing.by(said, strict=strict, timeout=timeout)
    if file is not None:
        return _code(comparing.file(file))
    return _code(comparing.pair(str(gold).strip(), str(answer).strip(), as_json=json))


def _code(tally: dict[str, int]) -> int:
    """The worst that came out; nothing compared is nothing decided."""
    if tally.get("undecided") or not tally:
        return UNDECIDED
    return DIFFERENT if tally.get("different") else SAME


LARGEST_CHUNK = 256


@dataclass(frozen=True)
class Comparing:
    """What counts as the same, and how long it may take to find out."""

    options: MathOptions
    strict: bool
    timeout: float

    @classmethod
    def by(cls, rules: Mapping[str, Any], *, strict: bool, timeout: float) -> Comparing:
        """By the rules that are named, and the usual ones."""
        from assay.math import MathOptions

        return cls(MathOptions(**rules), strict, timeout)

    def pair(self, gold: str, answer: str, *, as_json: bool) -> Counter[str]:
        """Compare two answers, and print what came out."""
        pair = {"gold": gold, "answer": answer}
        [verdict] = self.verdicts([pair])
        if as_json:
            _print_row(pair, verdict)
        else:
            print(f"{verdict.status.replace('_', ' ')} ({verdict.tier}): {verdict.reason}")
        return Counter([_outcome(verdict)])

    def file(self, path: str) -> Counter[str]:
        """Compare the pairs of a file, and print each with its verdict."""
        from assay.tables import rows_of

        tally: Counter[str] = Counter()
        try:
            for chunk in _chunks(rows_of(path, fields=("gold", "answer"))):
                for row, verdict in zip(chunk, self.verdicts(chunk), strict=True):
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
        _say(_counted(tally) if tally else f"there are no pairs in {path}")
        return tally

    def verdicts(self, pairs: Iterable[Mapping[str, Any]]) -> list[MathVerdict]:
        """One a pair, in order."""
        from assay.math import MathVerdict, verify_many
        from assay.parsers import MaybeThinkParser, extract_boxed_answer

        parser = MaybeThinkParser(partial(extract_boxed_answer, strict=self.strict))
        read = [
            (pair["gold"], parser.parse(answer) if isinstance(answer, str) else answer)
            for pair in pairs
            for answer in [pair["answer"]]
        ]
        verdicts = verify_many(read, options=self.options, timeout=self.timeout)
        if not self.strict:
            return verdicts
        no_box = MathVerdict("no_answer", "no boxed answer", "normalize")
        return [no_box if pair[1] == "" else v for pair, v in zip(read, verdicts, strict=True)]


def _chunks(rows: Iterator[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """The rows in lists that start small, so that the first results come at once.

    When the rows end in an error, those before it come first.
    """
    size, chunk = 1, list[dict[str, Any]]()
    try:
        for row in rows:
            chunk.append(row)
            if len(chunk) == size:
                yield chunk
                size, chunk = min(2 * size, LARGEST_CHUNK), []
    except AssayError:
        if chunk:
            yield chunk
        raise
    if chunk:
        yield chunk


def _print_row(row: Mapping[str, Any], verdict: MathVerdict) -> None:
    said = {"equal": verdict.equal, "status": verdict.status}
    print(json.dumps({**row, **said, "reason": verdict.reason, "tier": verdict.tier}))


def _outcome(verdict: MathVerdict) -> str:
    return "the same" if verdict.equal else "different" if verdict.decided else "undecided"


def _counted(tally: Counter[str]) -> str:
    listed = "".join(f", {count:,} {outcome}" for outcome, count in sorted(tally.items()))
    return f"{tally.total():,} pairs{listed}"


def _say(line: str) -> None:
    start = "\r" if sys.stderr.isatty() else ""
    print(f"{start}{line}", file=sys.stderr, flush=True)
