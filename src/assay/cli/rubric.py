"""`assay rubric lint|test|show|convert|schema`: rubrics themselves, before anything is scored."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

import click

from assay.cli.formats import Section, attribute, json_text, laid_out, xml_safe
from assay.cli.lint import command as lint
from assay.cli.options import JudgeOptions, RubricOptions, allow_code_option, files, judge_options
from assay.cli.root import BROKEN, FINE, MISSED, Command, Group
from assay.cli.terminal import counted, painted, printable, shortened, shown_spending
from assay.errors import RubricError

if TYPE_CHECKING:
    from assay.criterion import Criterion
    from assay.rubric import Rubric
    from assay.trust.golden_run import GoldenReport, GoldenResult


@click.command(
    "test",
    cls=Command,
    epilog="Exit code: 0 all came out as expected, 100 something did not, 1 something has no answer, "
    "2 there are no golden examples, or bad usage.",
    example="assay rubric test rubric.yaml",
)
@click.argument("rubric", shell_complete=files)
@allow_code_option
@judge_options("-m", "--model")
@click.option(
    "-f", "--format", "form", type=click.Choice(["table", "json", "junit"]), default="table",
    show_default=True, help="What to print.",
)  # fmt: skip
@click.option("-q", "--quiet", is_flag=True, help="Say nothing but errors on standard error.")
def test(rubric: str, allow_code: bool, judging: JudgeOptions, form: str, quiet: bool) -> int:
    """Score the golden examples of a RUBRIC, and show what comes out otherwise than expected.

    They stand in the file under `golden`, each with a completion and the verdicts to expect of it.
    What is checked by code needs no judge.
    """
    return run_tests(RubricOptions(rubric, allow_code), judging, form, quiet=quiet)


_REASON = 100
"""Characters of a reason that a table has room for; JSON has all of it."""


def run_tests(rubrics: RubricOptions, judging: JudgeOptions, form: str, *, quiet: bool) -> int:
    """Run the golden examples of a rubric, print what came of it, and give the exit code."""
    from assay.cli.judges import judging_with
    from assay.cli.runner import quiet_log, say_cost
    from assay.cli.sources import rubric_of
    from assay.concurrency import run_sync
    from assay.models import budget
    from assay.trust.golden_run import run_golden

    rubric = rubric_of(rubrics)
    with judging_with(judging, rubric, quiet=quiet) as grader, quiet_log():
        if judging.dry_run:
            work = run_golden(rubric, grader)
            return say_cost(work, lambda r: counted(len(r.by_example()), "example"))
        with budget(dollars=judging.budget):
            report = run_sync(run_golden(rubric, grader))
    name = rubric.name or rubrics.rubric or "rubric"
    if form == "json":
        print(json_text(report.to_dict()))
    elif form == "junit":
        print(_junit(report, name))
    else:
        print(_table(report, name))
    if report.errors:
        return BROKEN
    return MISSED if report.wrong else FINE


def _table(report: GoldenReport, name: str) -> str:
    rows = [
        (
            result.example,
            result.criterion,
            _said(result.expected),
            "no answer" if result.right is None else _said(result.got),
            shortened(result.error or result.reason, _REASON),
        )
        for result in report.results
        if not result.right
    ]
    columns = ("example", "criterion", "expected", "got", "why")
    parts = [f"{printable(name)}: {_counts(report)}"]
    if rows:
        parts.append(laid_out(Section(columns, rows)))
    if report.spent.calls or report.spent.hits:
        parts.append(shown_spending(report.spent))
    return "\n\n".join(parts)


def _counts(report: GoldenReport) -> str:
    examples = counted(len(report.by_example()), "golden example")
    right = len(report.results) - len(report.wrong) - len(report.errors)
    said = f"{examples}, {right:,} of {counted(len(report.results), 'verdict')} as expected"
    if report.errors:
        said += f", {len(report.errors):,} without an answer"
    return painted(said, "green" if right == len(report.results) else "red")


def _said(verdict: str | float | None) -> str:
    return verdict if isinstance(verdict, str) else "–" if verdict is None else f"{verdict:.3g}"


def _junit(report: GoldenReport, name: str) -> str:
    """One test case an expectation: a miss is a failure, no answer an error."""
    counts = f'tests="{len(report.results)}" failures="{len(report.wrong)}" errors="{len(report.errors)}"'
    return "\n".join(
        [
            '<?xml version="1.0" encoding="UTF-8"?>',
            f"<testsuites {counts}>",
            f"  <testsuite name={attribute(name)} {counts}>",
            *(f"    {_case(result)}" for result in report.results),
            "  </testsuite>",
            "</testsuites>",
        ]
    )


def _case(result: GoldenResult) -> str:
    opened = f"<testcase classname={attribute(result.example)} name={attribute(result.criterion)}>"
    return f"{opened}{_outcome(result)}</testcase>"


def _outcome(result: GoldenResult) -> str:
    if result.right:
        return ""
    if result.right is None:
        return f'<error type="unanswered" message={attribute(result.error or "no answer")}/>'
    message = f"expected {_said(result.expected)}, got {_said(result.got)}"
    reason = escape(xml_safe(result.reason))
    return f'<failure type="verdict" message={attribute(message)}>{reason}</failure>'


_rubric = click.argument("rubric", shell_complete=files)


@click.group("rubric", cls=Group, example="assay rubric lint rubric.yaml")
def command() -> None:
    """Look at a rubric, find what is wrong with it, test it, and write it in another format.

    A RUBRIC is a YAML, JSON or TOML file, or module:object for one written in Python.
    """


command.add_command(lint)
command.add_command(test)


@command.command("show", example="assay rubric show rubric.yaml")
@_rubric
@allow_code_option
@click.option("--json", "as_json", is_flag=True, help="Print it as a rubric file in JSON.")
def show(rubric: str, allow_code: bool, as_json: bool) -> None:
    """Print the criteria of a rubric: weight, name, who answers, and what is asked."""
    from assay.cli.sources import rubric_of

    found = rubric_of(RubricOptions(rubric, allow_code))
    if as_json:
        print(found.to_json())
        return
    print(f"{found.name or rubric}: {_counted(found)}, {found.content_hash[:12]}")
    for line in _lines(found.criteria, "  "):
        print(line)


@command.command("convert", example="assay rubric convert rubric.yaml rubric.json")
@_rubric
@click.argument("output", shell_complete=files)
@allow_code_option
def convert(rubric: str, output: str, allow_code: bool) -> None:
    """Write a rubric to the file OUTPUT, as YAML or JSON by its ending; - prints YAML.

    Comments are lost. Nothing is overwritten.
    """
    from assay.cli.sources import rubric_of

    ending = Path(output).suffix.lower()
    if output != "-" and ending not in (".yaml", ".yml", ".json"):
        raise click.UsageError(f"{output} does not end in .yaml or .json: it is by that I know")
    if output != "-" and Path(output).exists():
        raise click.UsageError(f"{output} would be overwritten: name another file")
    found = rubric_of(RubricOptions(rubric, allow_code))
    text = found.to_json() if ending == ".json" else found.to_yaml()
    text = f"{text.rstrip()}\n"
    if output == "-":
        sys.stdout.write(text)
    else:
        Path(output).write_text(text, encoding="utf-8")


@command.command("schema", example="assay rubric schema > rubric.schema.json")
def schema() -> None:
    """Print the JSON Schema of rubric files, for editors."""
    from assay.loading import SCHEMA_FILE

    sys.stdout.write(SCHEMA_FILE.read_text(encoding="utf-8"))


def _counted(rubric: Rubric) -> str:
    from assay.cli.terminal import counted

    judged = sum(criterion.judged for criterion in rubric.criteria)
    how = f", {judged} of them judged by a model" if judged else ", checked by code"
    return f"{counted(len(rubric.criteria), 'criterion', 'criteria')}{how}"


def _lines(criteria: tuple[Criterion, ...], indent: str) -> Iterator[str]:
    for criterion in criteria:
        who = "judge" if criterion.judged else "check"
        yield f"{indent}{criterion.weight:+g}  {who}  {criterion.name}: {_asked(criterion)}"
        inner: tuple[Criterion, ...] = getattr(criterion.check, "criteria", ())
        yield from _lines(inner, indent + "    ")


def _asked(criterion: Criterion) -> str:
    """The words for a model, or the check as a file writes it."""
    if criterion.requirement is not None:
        return criterion.requirement
    try:
        written = criterion.to_dict()
    except RubricError:  # a lambda, which no file can name
        return "a function"
    check = written.get("check", "a rubric")
    return check if isinstance(check, str) else json.dumps(check, ensure_ascii=False)
