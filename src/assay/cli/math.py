"""`assay math GOLD ANSWER`: say whether two mathematical answers are the same, and why."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from functools import partial
from itertools import islice
from typing import Any

import click

import assay
from assay import cli
from assay.errors import AssayError
from assay.tables import rows_of

SAME, DIFFERENT, UNDECIDED = 0, 1, 2
LARGEST_CHUNK = 256


class MathCommand(cli.Command):
    """Takes answers such as `-x` for what they are: but for `-h`, its options have two dashes."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        # A text that begins with a space is no option, and answers are stripped anyway.
        is_value = [
            argument[:1] == "-" != argument[1:2] and argument not in ("-", "-h")
            for argument in args
        ]
        return super().parse_args(
            ctx, [" " * space + argument for space, argument in zip(is_value, args, strict=True)]
        )


class MathRules(cli.CommandOptions):
    """What counts as the same, by the options of `assay.MathOptions`; None as usual."""

    rounding: int | None = cli.value_of(cli.count)
    tolerance: float | None = cli.value_of(cli.number(0))
    units: bool | None = cli.value_of()
    ordered_tuples: bool | None = cli.value_of()
    percent: bool | None = cli.value_of()
    assignments: bool | None = cli.value_of()
    rename_variables: bool | None = cli.value_of()
    positive: bool | None = cli.value_of()
    solved: bool | None = cli.value_of()
    symbolic: bool | None = cli.value_of()


@cli.declare("math", cls=MathCommand)
def command(
    options: MathRules,
    gold: str | None = cli.argument("[GOLD]", required=False),
    answer: str | None = cli.argument("[ANSWER]", required=False),
    file: str | None = cli.value_of(),
    as_json: bool = cli.value_of(),
    strict: bool = cli.value_of(),
    timeout: float = cli.value_of(cli.seconds, 5.0),
) -> int:
    """Check whether two mathematical answers are equal.

    GOLD is the right answer. ANSWER is the one to look at; a box in it is read.
    """
    if file is not None and gold is not None:
        raise click.UsageError("give GOLD and ANSWER or --file, not both")
    if file is None and (gold is None or answer is None):
        raise click.UsageError("give GOLD and ANSWER, or --file")
    rules = assay.MathOptions(
        **{name: value for name, value in asdict(options).items() if value is not None}
    )
    verify = partial(_verdicts, options=rules, strict=strict, timeout=timeout)
    if file is not None:
        tally = _compare_file(file, verify)
    else:
        pair = {"gold": str(gold).strip(), "answer": str(answer).strip()}
        [verdict] = verify([pair])
        if as_json:
            _print_row(pair, verdict)
        else:
            print(f"{verdict.status.replace('_', ' ')} ({verdict.tier}): {verdict.reason}")
        tally = Counter([_outcome(verdict)])
    # The worst that came out; nothing compared is nothing decided.
    if tally["undecided"] or not tally:
        return UNDECIDED
    return DIFFERENT if tally["different"] else SAME


def _compare_file(path: str, verify: partial[list[assay.MathVerdict]]) -> Counter[str]:
    """Compare the pairs of a file, and print each with its verdict; those before one that cannot be read, too."""
    tally: Counter[str] = Counter()
    unreadable: list[AssayError] = []

    def told() -> str:
        return ", ".join(
            [
                f"{tally.total():,} pairs",
                *(f"{n:,} {outcome}" for outcome, n in sorted(tally.items())),
            ]
        )

    def readable() -> Iterator[dict[str, Any]]:
        try:
            yield from rows_of(path, fields=("gold", "answer"))
        except AssayError as error:
            unreadable.append(error)

    rows, size = readable(), 1
    try:
        while chunk := list(islice(rows, size)):
            for row, verdict in zip(chunk, verify(chunk), strict=True):
                tally[_outcome(verdict)] += 1
                _print_row(row, verdict)
            sys.stdout.flush()
            size = min(
                2 * size, LARGEST_CHUNK
            )  # small at the start, so that first results come at once
        if unreadable:
            raise unreadable[0]
    except BaseException as error:
        what = "stopped" if isinstance(error, KeyboardInterrupt) else "broken off"
        if tally or what == "stopped":
            print(f"{what} after {told()}", file=sys.stderr)
        raise
    print(told() if tally else f"there are no pairs in {path}", file=sys.stderr)
    return tally


def _verdicts(
    pairs: Iterable[Mapping[str, Any]], *, options: assay.MathOptions, strict: bool, timeout: float
) -> list[assay.MathVerdict]:
    parser = assay.MaybeThinkParser(partial(assay.extract_boxed_answer, strict=strict))
    given = [(pair["gold"], pair["answer"]) for pair in pairs]
    read = [
        (gold, parser.parse(answer) if isinstance(answer, str) else answer)
        for gold, answer in given
    ]
    verdicts = assay.math.verify_many(read, options=options, timeout=timeout)
    no_box = assay.MathVerdict("no_answer", "no boxed answer", "normalize")
    return [
        no_box if strict and answer == "" else verdict
        for (_, answer), verdict in zip(read, verdicts, strict=True)
    ]


def _print_row(row: Mapping[str, Any], verdict: assay.MathVerdict) -> None:
    said = {"equal": verdict.equal, "status": verdict.status}
    print(json.dumps({**row, **said, "reason": verdict.reason, "tier": verdict.tier}))


def _outcome(verdict: assay.MathVerdict) -> str:
    return "the same" if verdict.equal else "different" if verdict.decided else "undecided"
