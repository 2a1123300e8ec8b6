"""`assay math GOLD ANSWER`: check whether two mathematical answers are equal, and say why."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeAlias

import click

import assay
from assay.cli.base_command import Command
from assay.cli.options import count, number_type, option_group, seconds, section_option
from assay.errors import AssayError
from assay.tables import rows_of

# Exit codes of this command, by its result.
EXIT_EQUAL, EXIT_DIFFERENT, EXIT_UNDECIDED = 0, 1, 2

LARGEST_CHUNK = 256  # pairs that are compared together

Pair: TypeAlias = Mapping[str, Any]  # has `gold` and `answer`
Compare: TypeAlias = Callable[[Sequence[Pair]], list["assay.MathVerdict"]]


class MathCommand(Command):
    """A command whose arguments may begin with a dash: `-x` is an answer, not an option.

    Its options have two dashes, except `-h`.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments after putting a space before those that begin with a single dash."""
        escaped: list[str] = []
        for argument in args:
            starts_with_one_dash = argument.startswith("-") and not argument.startswith("--")
            if starts_with_one_dash and argument not in ("-", "-h"):
                # A space keeps click from reading it as an option. Answers are stripped later.
                argument = f" {argument}"
            escaped.append(argument)
        return super().parse_args(ctx, escaped)


_rule_option = section_option("What counts as equal")


def _switch(name: str, help: str) -> Callable[[Any], Any]:
    """Declare an option that is on, off or None, which leaves the default to `MathOptions`."""
    return _rule_option(f"--{name}/--no-{name}", default=None, help=help)


_rule_options = option_group(
    _rule_option(
        "--rounding",
        metavar="N",
        type=count,
        help="A decimal equals an exact number if they agree to this many places (default: 6).",
    ),
    _rule_option(
        "--tolerance",
        metavar="N",
        type=number_type(0),
        help="The relative difference between two numbers that is tolerated (default: 0).",
    ),
    _switch("units", "`5 cm` equals `5` (default: yes)."),
    _switch("ordered-tuples", "`(1, 2)` differs from `(2, 1)` (default: yes)."),
    _switch("percent", "`7%` equals a gold of `7` (default: no)."),
    _switch("assignments", "`x = 3` equals `3` (default: yes)."),
    _switch("rename-variables", "`2x + 1` equals `2y + 1` (default: no)."),
    _switch("positive", r"Letters are positive numbers: `\sqrt{x^2}` equals `x` (default: no)."),
    _switch(
        "solved",
        "The answer must be solved as far as the gold is: `2x + 3 = 7` does not equal `x = 2` "
        "(default: no).",
    ),
    _switch(
        "symbolic",
        "math-verify decides the pairs left undecided, in a worker process (default: yes).",
    ),
)


@click.command(
    "math",
    cls=MathCommand,
    epilog="Exit codes: 0 equal, 1 different, 2 undecided or bad usage.",
    example=r"assay math '\frac12' 0.5",
)
@click.argument("gold", metavar="[GOLD]", required=False)
@click.argument("answer", metavar="[ANSWER]", required=False)
@click.option(
    "--file",
    metavar="PAIRS",
    help="Compare the `gold` and `answer` of every row of a file (.jsonl, .csv, .parquet; - for "
    "JSON lines on standard input), and print each row with its verdict.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the verdict as JSON.")
@click.option(
    "--strict",
    is_flag=True,
    help=r"Only the last \boxed{} after the reasoning counts.",
)
@click.option(
    "--timeout",
    metavar="SECONDS",
    type=seconds,
    default=5.0,
    show_default=True,
    help="Seconds of work for one comparison.",
)
@_rule_options
def command(
    gold: str | None,
    answer: str | None,
    file: str | None,
    as_json: bool,
    strict: bool,
    timeout: float,
    **rules: Any,
) -> int:
    """Check whether two mathematical answers are equal.

    GOLD is the right answer, and ANSWER the answer to check. If ANSWER has a box, only the box counts.
    """
    if file is not None and gold is not None:
        raise click.UsageError("give GOLD and ANSWER or --file, not both")
    if file is None and (gold is None or answer is None):
        raise click.UsageError("give GOLD and ANSWER, or --file")
    given_rules = {name: value for name, value in rules.items() if value is not None}
    compare = partial(
        _compare_pairs,
        options=assay.MathOptions(**given_rules),
        strict=strict,
        timeout=timeout,
    )
    if file is not None:
        results = _compare_file(file, compare)
    else:
        pair = {"gold": str(gold).strip(), "answer": str(answer).strip()}
        [verdict] = compare([pair])
        if as_json:
            _print_json(pair, verdict)
        else:
            print(f"{verdict.status.replace('_', ' ')} ({verdict.tier}): {verdict.reason}")
        results = Counter([_name_result(verdict)])
    return _choose_exit_code(results)


def _choose_exit_code(results: Counter[str]) -> int:
    """Return the code of the worst result; without any result, that of an undecided one."""
    if results["undecided"] or not results:
        return EXIT_UNDECIDED
    if results["different"]:
        return EXIT_DIFFERENT
    return EXIT_EQUAL


def _compare_pairs(
    pairs: Sequence[Pair],
    *,
    options: assay.MathOptions,
    strict: bool,
    timeout: float,
) -> list[assay.MathVerdict]:
    """Compare the answer of each pair with its gold.

    What counts of an answer is what it has in a box. Without a box, the whole answer counts, or with
    `strict` nothing. `timeout` is in seconds, for each pair.
    """
    parser = assay.MaybeThinkParser(partial(assay.extract_boxed_answer, strict=strict))
    answers: list[tuple[Any, Any]] = []
    for pair in pairs:
        answer = pair["answer"]
        if isinstance(answer, str):
            answer = parser.parse(answer)
        answers.append((pair["gold"], answer))
    verdicts = assay.math.verify_many(answers, options=options, timeout=timeout)
    if strict:
        for index, (_, answer) in enumerate(answers):
            if answer == "":  # the parser found no box
                verdicts[index] = assay.MathVerdict("no_answer", "no boxed answer", "normalize")
    return verdicts


def _compare_file(path: str, compare: Compare) -> Counter[str]:
    """Compare the pairs of a file, print each with its verdict, and return how many had each result."""
    results: Counter[str] = Counter()
    rows = rows_of(path, fields=("gold", "answer"))
    with _report_early_end(results):
        for chunk in _split_into_chunks(rows):
            for row, verdict in zip(chunk, compare(chunk), strict=True):
                results[_name_result(verdict)] += 1
                _print_json(row, verdict)
            sys.stdout.flush()
    if results:
        print(_describe_results(results), file=sys.stderr)
    else:
        print(f"there are no pairs in {path}", file=sys.stderr)
    return results


@contextmanager
def _report_early_end(results: Counter[str]) -> Generator[None]:
    """If the comparison is stopped or fails, print the results so far."""
    try:
        yield  # the comparison, which adds to `results`
    except KeyboardInterrupt:
        print(f"stopped after {_describe_results(results)}", file=sys.stderr)
        raise
    except BaseException:
        if results:
            print(f"failed after {_describe_results(results)}", file=sys.stderr)
        raise


def _split_into_chunks(rows: Iterator[Pair]) -> Iterator[list[Pair]]:
    """Yield lists of rows: small ones first, so that the first results come at once.

    If a row cannot be read, the rows before it are yielded before the error is raised.
    """
    size = 1
    chunk: list[Pair] = []
    read_error: AssayError | None = None
    try:
        for row in rows:
            chunk.append(row)
            if len(chunk) == size:
                yield chunk
                chunk = []
                size = min(2 * size, LARGEST_CHUNK)
    except AssayError as error:
        read_error = error
    if chunk:
        yield chunk
    if read_error is not None:
        raise read_error


def _describe_results(results: Counter[str]) -> str:
    parts = [f"{results.total():,} pairs"]
    for result, pair_count in sorted(results.items()):
        parts.append(f"{pair_count:,} {result}")
    return ", ".join(parts)


def _print_json(pair: Pair, verdict: assay.MathVerdict) -> None:
    row = {
        **pair,
        "equal": verdict.equal,
        "status": verdict.status,
        "reason": verdict.reason,
        "tier": verdict.tier,
    }
    print(json.dumps(row))


def _name_result(verdict: assay.MathVerdict) -> str:
    if verdict.equal:
        return "the same"
    if verdict.decided:
        return "different"
    return "undecided"
