"""`assay math GOLD ANSWER`: say whether two mathematical answers are the same, and why."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from assay import cli
from assay.errors import AssayError

if TYPE_CHECKING:
    from assay.math import MathOptions, MathVerdict

SAME, DIFFERENT, UNDECIDED = 0, 1, 2
LARGEST_CHUNK = 256


class MathCommand(cli.Command):
    """Takes answers such as `-x` for what they are: but for `-h`, its options have two dashes."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        # A text that begins with a space is no option, and answers are stripped anyway.
        is_value = [argument[:1] == "-" != argument[1:2] and argument not in ("-", "-h") for argument in args]
        return super().parse_args(ctx, [" " * space + argument for space, argument in zip(is_value, args, strict=True)])


class MathRules(cli.CommandOptions):
    """What counts as the same, by the options of `assay.MathOptions`; None as usual."""

    rounding: int | None = cli.value_of(cli.count)
    tolerance: float | None = cli.value_of(cli.number(0))
    units: bool | None = cli.value_of()
    ordered_tuples: bool | None = cli.value_of()
    assignments: bool | None = cli.value_of()
    rename_variables: bool | None = cli.value_of()
    positive: bool | None = cli.value_of()
    solved: bool | None = cli.value_of()
    symbolic: bool | None = cli.value_of()


class CompareAnswers(MathRules):
    """Which answers are compared, and how that is printed."""

    gold: str | None = cli.argument("[GOLD]", required=False)
    answer: str | None = cli.argument("[ANSWER]", required=False)
    file: str | None = cli.value_of()
    as_json: bool = cli.value_of()
    strict: bool = cli.value_of()
    timeout: float = cli.value_of(cli.seconds, 5.0)


@cli.declare("math", cls=MathCommand)
def command(options: CompareAnswers) -> int:
    """Check whether two mathematical answers are equal.

    GOLD is the right answer. ANSWER is the one to look at; a box in it is read.
    """
    from assay.math import MathOptions

    gold, answer, file = options.gold, options.answer, options.file
    if file is not None and gold is not None:
        raise click.UsageError("give GOLD and ANSWER or --file, not both")
    if file is None and (gold is None or answer is None):
        raise click.UsageError("give GOLD and ANSWER, or --file")
    given = {rule.name: getattr(options, rule.name) for rule in fields(MathRules)}
    rules = MathOptions(**{name: value for name, value in given.items() if value is not None})
    verify = partial(_verdicts, options=rules, strict=options.strict, timeout=options.timeout)
    if file is not None:
        tally = _compare_file(file, verify)
    else:
        pair = {"gold": str(gold).strip(), "answer": str(answer).strip()}
        [verdict] = verify([pair])
        if options.as_json:
            _print_row(pair, verdict)
        else:
            print(f"{verdict.status.replace('_', ' ')} ({verdict.tier}): {verdict.reason}")
        tally = Counter([_outcome(verdict)])
    # The worst that came out; nothing compared is nothing decided.
    if tally["undecided"] or not tally:
        return UNDECIDED
    return DIFFERENT if tally["different"] else SAME


def _compare_file(path: str, verify: partial[list[MathVerdict]]) -> Counter[str]:
    """Compare the pairs of a file, and print each with its verdict."""
    from assay.tables import rows_of

    tally: Counter[str] = Counter()

    def told() -> str:
        return ", ".join([f"{tally.total():,} pairs", *(f"{n:,} {outcome}" for outcome, n in sorted(tally.items()))])

    def say(line: str, end: str = "\n") -> None:
        start = "\r" if sys.stderr.isatty() else ""
        print(f"{start}{line}", end=end, file=sys.stderr, flush=True)

    try:
        for chunk in _chunks(rows_of(path, fields=("gold", "answer"))):
            for row, verdict in zip(chunk, verify(chunk), strict=True):
                tally[_outcome(verdict)] += 1
                _print_row(row, verdict)
            sys.stdout.flush()
            if sys.stderr.isatty():
                say(told(), end="")
    except BaseException as error:
        what = "stopped" if isinstance(error, KeyboardInterrupt) else "broken off"
        if tally or what == "stopped":
            say(f"{what} after {told()}")
        raise
    say(told() if tally else f"there are no pairs in {path}")
    return tally


def _verdicts(
    pairs: Iterable[Mapping[str, Any]], *, options: MathOptions, strict: bool, timeout: float
) -> list[MathVerdict]:
    from assay.math import MathVerdict, verify_many
    from assay.parsers import MaybeThinkParser, extract_boxed_answer

    parser = MaybeThinkParser(partial(extract_boxed_answer, strict=strict))
    read = [
        (pair["gold"], parser.parse(answer) if isinstance(answer, str) else answer)
        for pair in pairs
        for answer in [pair["answer"]]
    ]
    verdicts = verify_many(read, options=options, timeout=timeout)
    no_box = MathVerdict("no_answer", "no boxed answer", "normalize")
    return [no_box if strict and answer == "" else verdict for (_, answer), verdict in zip(read, verdicts, strict=True)]


def _chunks(rows: Iterator[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """The rows in lists that start small, so that first results come at once; those before an error come first."""
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
