"""`assay math GOLD ANSWER`: whether two mathematical answers are the same, and why."""

from collections.abc import Callable
from typing import Any, NamedTuple

import click

from assay.cli.options import count, number, seconds
from assay.cli.root import Command

SAME, DIFFERENT, UNDECIDED = 0, 1, 2


class Rule(NamedTuple):
    """What counts as the same: an option of `assay.MathOptions`, as it is said here."""

    words: str
    usual: str
    value: Callable[[Any], float] | None = None
    """What it takes; None for a rule that is on or off."""


RULES = {
    "rounding": Rule(
        "A decimal equals an exact number that agrees with it to so many places", "6", count()
    ),
    "tolerance": Rule(
        "The relative difference between two numbers that is forgiven", "0", number(0)
    ),
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
    gold: str | None,
    answer: str | None,
    file: str | None,
    json: bool,
    strict: bool,
    timeout: float,
    **rules: Any,
) -> int:
    """Say whether two mathematical answers are the same.

    GOLD is the right answer. ANSWER is the one to look at; a box in it is read.
    """
    if file is not None and gold is not None:
        raise click.UsageError("give GOLD and ANSWER or --file, not both")
    if file is None and (gold is None or answer is None):
        raise click.UsageError("give GOLD and ANSWER, or --file")
    from assay.cli.mathematics import Comparing

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
