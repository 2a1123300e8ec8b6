"""`assay rubric lint|test|show|convert|schema`: look after rubrics themselves, before anything is scored."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import click

import assay
from assay import cli, display, trust
from assay.cli.lint import command as lint
from assay.errors import RubricError
from assay.wording import format_count


@click.group("rubric", cls=cli.Group)
def command() -> None:
    """Show, check, test and convert a rubric.

    A RUBRIC is a YAML, JSON or TOML file, or module:object for one written in Python.
    """


command.add_command(lint)


class TestOptions(cli.ViewOptions, cli.RubricArgument):
    form: str = cli.value_of(("table", "json", "junit"), "table")
    quiet: bool = cli.value_of()


@cli.declare("rubric test", command)
def test(options: TestOptions) -> int:
    """Score the golden examples of a RUBRIC, and show what comes out otherwise than expected.

    They stand in the file under `golden`, each with a completion and the verdicts to expect of it.
    What is checked by code needs no judge.
    """
    rubric = cli.rubric_of(options)

    def show(report: trust.GoldenReport, _: cli.Ledger) -> int:
        _print_test(report, rubric.name or options.rubric, options.form)
        if report.errors:
            return cli.BROKEN
        return cli.MISSED if report.wrong else cli.FINE

    with cli.judging_with(options, rubric, quiet=options.quiet) as grader:
        return cli.run_work(
            lambda _: trust.run_golden(rubric, grader),
            show,
            options,
            noun="examples",
            quiet=True,
            can_wait=False,
            what=lambda report: format_count(report.examples, "example"),
        )


def _print_test(report: trust.GoldenReport, name: str, form: str) -> None:
    results, wrong, errors = report.results, len(report.wrong), len(report.errors)
    if form == "json":
        print(cli.json_text(report.to_dict()))
        return
    if form == "junit":
        suite = cli.JunitSuite(name)
        for result in results:
            suite.add(result.example, result.criterion, _fault(result), result.reason)
        suite.write(sys.stdout)
        return
    right = len(results) - wrong - errors
    told = f"{format_count(report.examples, 'golden example')}, {right:,} of "
    told += f"{format_count(len(results), 'verdict')} as expected" + (
        f", {errors:,} without an answer" if errors else ""
    )
    parts = [
        f"{display.escape_control_characters(name)}: {display.colour_text(told, 'green' if right == len(results) else 'red')}"
    ]
    rows: list[tuple[object, ...]] = []
    for result in results:
        got = "no answer" if result.right is None else result.got
        why = display.shorten_line(
            result.error or result.reason, 100
        )  # which a table has room for; JSON has all of it
        rows += (
            [] if result.right else [(result.example, result.criterion, result.expected, got, why)]
        )
    if rows:
        parts.append(
            display.format_table(
                display.Section(("example", "criterion", "expected", "got", "why"), rows)
            )
        )
    if report.spent.calls or report.spent.hits:
        parts.append(cli.shown_spending(report.spent))
    print("\n\n".join(parts))


def _fault(result: trust.GoldenResult) -> tuple[str, str, str] | None:
    """A miss is a failure to JUnit, and no answer an error."""
    if result.right is None:
        return "error", "unanswered", result.error or "no answer"
    expected, got = map(display.format_cell, (result.expected, result.got))
    return None if result.right else ("failure", "verdict", f"expected {expected}, got {got}")


@cli.declare("rubric show", command)
def show(options: cli.RubricArgument, as_json: bool = cli.value_of()) -> None:
    """Print the criteria of a rubric: weight, name, who answers, and what is asked."""
    rubric = cli.rubric_of(options)
    if as_json:
        print(rubric.to_json())
        return
    print(
        f"{rubric.name or options.rubric}: {cli.shown_size(rubric.criteria)}, {rubric.content_hash[:12]}"
    )
    for line in _lines(rubric.criteria, "  "):
        print(line)


def _lines(criteria: tuple[assay.Criterion, ...], indent: str) -> Iterator[str]:
    """A line a criterion: the words for a model, or the check as a file writes it."""
    for criterion in criteria:
        asked = criterion.requirement
        if asked is None:
            try:
                asked = criterion.to_dict().get("check", "a rubric")
            except RubricError:  # a lambda, which no file can name
                asked = "a function"
        words = asked if isinstance(asked, str) else json.dumps(asked, ensure_ascii=False)
        yield f"{indent}{criterion.weight:+g}  {'judge' if criterion.judged else 'check'}  {criterion.name}: {words}"
        yield from _lines(getattr(criterion.check, "criteria", ()), indent + "    ")


@cli.declare("rubric convert", command)
def convert(
    rubric: str = cli.argument("RUBRIC"),
    output: str = cli.argument("OUTPUT"),
    allow_code: bool = cli.value_of(is_eager=True),
) -> None:
    """Write a rubric to the file OUTPUT, as YAML or JSON by its ending; - prints YAML.

    Comments are lost. Nothing is overwritten.
    """
    ending = Path(output).suffix.lower()
    if output != "-" and ending not in (".yaml", ".yml", ".json"):
        raise click.UsageError(f"{output} does not end in .yaml or .json: it is by that I know")
    if output != "-" and Path(output).exists():
        raise click.UsageError(f"{output} would be overwritten: name another file")
    found = cli.rubric_of(cli.RubricOptions(rubric, allow_code))
    text = f"{(found.to_json() if ending == '.json' else found.to_yaml()).rstrip()}\n"
    with click.open_file(output, "w", encoding="utf-8") as file:
        file.write(text)


@command.command("rubric schema")
def schema() -> None:
    """Print the JSON Schema of rubric files, for editors."""
    sys.stdout.write(cli.SCHEMA_FILE.read_text(encoding="utf-8"))
