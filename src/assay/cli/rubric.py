"""`assay rubric lint|test|show|convert|schema`: inspect, test and convert rubrics."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import click

import assay
from assay import trust
from assay.cli.base_command import EXIT_ERROR, EXIT_OK, EXIT_THRESHOLD, Command, Group
from assay.cli.formats import (
    JunitProblem,
    JunitSuite,
    describe_criteria,
    describe_spending,
    to_json,
)
from assay.cli.inputs import apply_view_options, load_rubric, open_run
from assay.cli.judging import allow_media, open_judge
from assay.cli.lint import command as lint_command
from assay.cli.options import (
    ViewOptions,
    allow_code_option,
    judging_options,
    quiet_option,
    rubric_argument,
    view_options,
)
from assay.cli.runner import run_command
from assay.display import (
    Section,
    colour_text,
    escape_control_characters,
    format_cell,
    format_table,
    shorten_line,
)
from assay.errors import RubricError
from assay.wording import format_count

if TYPE_CHECKING:
    from assay.models import Ledger
    from assay.runs.metadata import CriterionAbout

# A criterion of a rubric, or of the rubric of a run.
AnyCriterion: TypeAlias = "assay.Criterion | CriterionAbout"


@click.group("rubric", cls=Group, example="assay rubric lint rubric.yaml")
def command() -> None:
    """Show, check, test and convert a rubric.

    A RUBRIC is a YAML, JSON or TOML file, or module:object for one written in Python.
    """


command.add_command(lint_command)


@dataclass(frozen=True, kw_only=True)
class TestOptions(ViewOptions):
    """The options of `assay rubric test`."""

    rubric: str
    allow_code: bool
    output_format: str
    quiet: bool


@command.command(
    "test",
    cls=Command,
    epilog="Exit codes: 0 all verdicts as expected, 100 some differ, 1 some are missing, 2 there "
    "are no golden examples, or bad usage.",
    example="assay rubric test rubric.yaml",
)
@rubric_argument
@click.option(
    "-f",
    "--format",
    "output_format",
    type=click.Choice(("table", "json", "junit")),
    default="table",
    show_default=True,
    help="The output format.",
)
@quiet_option
@view_options
@judging_options
@allow_code_option
def test(**values: Any) -> int:
    """Score the golden examples of a RUBRIC, and show the verdicts that are not as expected.

    Golden examples are in the rubric file under `golden`, each with a completion and the verdicts
    to expect. Criteria that code checks need no judge.
    """
    options = TestOptions(**values)
    rubric = load_rubric(options.rubric, allow_code=options.allow_code)
    apply_view_options(rubric, options)

    def print_result(report: trust.GoldenReport, spent: Ledger) -> int:
        _print_report(report, rubric.name or options.rubric, options.output_format)
        if report.errors:
            return EXIT_ERROR
        if report.wrong:
            return EXIT_THRESHOLD
        return EXIT_OK

    with allow_media(options, []), open_judge(options, rubric, quiet=options.quiet) as grader:
        return run_command(
            lambda on_progress, interrupt: trust.run_golden(rubric, grader),
            options=options,
            quiet=True,  # golden examples are too few to show progress
            noun="examples",
            describe_size=lambda report: format_count(report.examples, "example"),
            print_result=print_result,
            checks_interrupt=False,  # the first Ctrl-C cancels the work
        )


def _print_report(report: trust.GoldenReport, name: str, output_format: str) -> None:
    if output_format == "json":
        print(to_json(report.to_dict()))
    elif output_format == "junit":
        _print_junit(report, name)
    else:
        _print_table(report, name)


def _print_junit(report: trust.GoldenReport, name: str) -> None:
    suite = JunitSuite(name)
    for result in report.results:
        problem = _find_problem(result)
        suite.add_case(result.example, result.criterion, problem, body=result.reason)
    suite.write(sys.stdout)


def _find_problem(result: trust.GoldenResult) -> JunitProblem | None:
    """Return a failure for a wrong verdict, and an error for a missing one."""
    if result.right is None:
        return JunitProblem("error", type="unanswered", message=result.error or "no answer")
    if result.right:
        return None
    expected = format_cell(result.expected)
    actual = format_cell(result.got)
    return JunitProblem("failure", type="verdict", message=f"expected {expected}, got {actual}")


def _print_table(report: trust.GoldenReport, name: str) -> None:
    """Print how many verdicts are as expected, a table of the others, and what was spent."""
    error_count = len(report.errors)
    right_count = len(report.results) - len(report.wrong) - error_count
    examples = format_count(report.examples, "golden example")
    verdicts = format_count(len(report.results), "verdict")
    summary = f"{examples}, {right_count:,} of {verdicts} as expected"
    if error_count:
        summary += f", {error_count:,} without an answer"
    colour = "green" if right_count == len(report.results) else "red"
    parts = [f"{escape_control_characters(name)}: {colour_text(summary, colour)}"]
    rows: list[tuple[object, ...]] = []
    for result in report.results:
        if result.right:  # None if there is no verdict
            continue
        actual = "no answer" if result.right is None else result.got
        # A table has room for a short reason; JSON has all of it.
        reason = shorten_line(result.error or result.reason, 100)
        rows.append((result.example, result.criterion, result.expected, actual, reason))
    if rows:
        columns = ("example", "criterion", "expected", "got", "why")
        parts.append(format_table(Section(columns, rows)))
    if report.spent.calls or report.spent.hits:
        parts.append(describe_spending(report.spent))
    print("\n\n".join(parts))


@command.command(
    "show",
    cls=Command,
    example="assay rubric show rubric.yaml\nassay rubric show run",
)
@click.option("--json", "as_json", is_flag=True, help="Print it as a rubric file in JSON.")
@click.argument("rubric", metavar="RUBRIC|RUN", type=click.Path())
@allow_code_option
def show(rubric: str, allow_code: bool, as_json: bool) -> None:
    """Print a rubric: its settings, and the criteria with weight, name, who answers, what is asked,
    and conditions.

    For the folder of a RUN, print the rubric that the run used.
    """
    if Path(rubric).is_dir():
        _show_rubric_of_run(rubric, as_json=as_json)
        return
    loaded = load_rubric(rubric, allow_code=allow_code)
    if as_json:
        print(loaded.to_json())
        return
    settings = loaded.options_to_data(as_hash=True)
    aggregation = getattr(loaded, "aggregation", None)  # a group of rubrics has none of its own
    if aggregation is not None and aggregation.name != "weighted":
        settings["aggregation"] = aggregation.name
    _print_rubric(loaded.name or rubric, loaded.content_hash, settings, loaded.criteria)


def _show_rubric_of_run(path: str, *, as_json: bool) -> None:
    """Print the rubric that a run used."""
    rubric = open_run(path).about.rubric
    if rubric is None:
        raise click.UsageError(f"{path} has no common rubric: its rows have their own")
    if not as_json:
        source = rubric.source or {}
        conditions: dict[str, Any] = {}
        for criterion, entry in zip(rubric.criteria, source.get("criteria", []), strict=False):
            conditions[criterion.name] = entry.get("when")
        name = rubric.name or path
        _print_rubric(name, rubric.hash, source, rubric.criteria, conditions)
        return
    if rubric.source is None:
        raise click.UsageError(
            f"the rubric of {path} has checks in Python, so no file can hold it: drop --json"
        )
    print(json.dumps(rubric.source, indent=2, ensure_ascii=False))


# The settings of a rubric that are printed, as rubric files name them. `reference` is printed with
# the criteria that it is for.
_SETTINGS: Final = ("aggregation", "ask_judge", "thinking", "shows", "parser", "shaping")


def _print_rubric(
    name: str,
    version: str,
    settings: Mapping[str, Any],
    criteria: Sequence[AnyCriterion],
    conditions: Mapping[str, Any] | None = None,
) -> None:
    """Print a line about a rubric, and a line for each of its settings and criteria.

    `settings` has the form of a rubric file. `conditions` are those of the criteria of a run by
    their names, since these criteria do not hold them.
    """
    print(f"{name}: {describe_criteria(criteria)}, version {version[:8]}")
    for setting in _SETTINGS:
        if setting in settings:
            value = settings[setting]
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            print(f"  {setting}: {text}")
    for line in _format_criteria(criteria, conditions or {}, indent="  "):
        print(line)


def _format_criteria(
    criteria: Sequence[AnyCriterion], conditions: Mapping[str, Any], *, indent: str
) -> Iterator[str]:
    """Yield a line per criterion; the criteria of a nested rubric follow, indented."""
    for criterion in criteria:
        answered_by = "judge" if criterion.judged else "check"
        question = _describe_question(criterion)
        line = f"{indent}{criterion.weight:+g}  {answered_by}  {criterion.name}: {question}"
        details = _list_details(criterion, conditions)
        if details:
            line += f" ({', '.join(details)})"
        yield line
        # A nested rubric: a run has its criteria in `inside`, and a rubric in the check.
        nested = getattr(criterion, "inside", ()) or getattr(criterion.check, "criteria", ())
        yield from _format_criteria(nested, {}, indent=f"{indent}    ")


def _list_details(criterion: AnyCriterion, conditions: Mapping[str, Any]) -> list[str]:
    """Return what sets a criterion apart: its condition, its verdicts, and whether it is a veto.

    `conditions` are those of the criteria of a run, by their names.
    """
    from assay.criterion import BINARY_CHOICES  # slow to load

    details: list[str] = []
    if criterion.required:
        cap = f"caps the score at {criterion.cap:g}" if criterion.cap else "decides alone"
        details.append(f"required: {cap} if it fails")
    if criterion.when:
        condition = conditions.get(criterion.name)
        if isinstance(criterion, assay.Criterion):
            condition = criterion.to_dict().get("when")
        details.append(f"only if {_describe_condition(condition)}")
    reference = getattr(criterion, "reference", ())
    if reference:
        details.append(f"reference: {', '.join(reference)}")
    if criterion.choices != BINARY_CHOICES:
        details.append(f"from worst to best: {', '.join(criterion.choices)}")
    if criterion.report_only:
        details.append("does not count")
    return details


def _describe_condition(condition: Any) -> str:
    """Describe a `when` in the form of a rubric file, which has several.

    It is the name of a criterion that must be met, a mapping from criteria to their verdicts, a
    mapping with a column and its values, or a list of these.
    """
    if condition is None:  # it cannot be written in a file
        return "a condition holds"
    if isinstance(condition, str):
        return condition
    if not isinstance(condition, Mapping):
        return " and ".join(map(_describe_condition, condition))
    fields = cast("Mapping[str, Any]", condition)
    if set(fields) == {"column", "is"}:
        return f"the column {fields['column']} is {_describe_values(fields['is'])}"
    return " and ".join(f"{name} is {_describe_values(value)}" for name, value in fields.items())


def _describe_values(values: Any) -> str:
    """Return a verdict or a value, or several with "or" between them."""
    if isinstance(values, list):
        return " or ".join(map(str, cast("list[object]", values)))
    return str(values)


def _describe_question(criterion: AnyCriterion) -> str:
    """Return the requirement of a criterion, or its check as a rubric file names it."""
    if criterion.requirement is not None:
        return criterion.requirement
    if isinstance(criterion, assay.Criterion):
        try:
            check = criterion.to_dict().get("check", "a rubric")  # without a check, it is nested
        except RubricError:  # a file cannot name it: a lambda, for example
            return "a function"
    else:  # the record of a run
        check = "a rubric" if criterion.inside else criterion.check
    if isinstance(check, str):
        return check
    return json.dumps(check, ensure_ascii=False)


@command.command("convert", cls=Command, example="assay rubric convert rubric.yaml rubric.json")
@click.argument("rubric", metavar="RUBRIC", type=click.Path())
@click.argument("output", metavar="OUTPUT", type=click.Path())
@allow_code_option
def convert(rubric: str, output: str, allow_code: bool) -> None:
    """Write a rubric to the file OUTPUT, as YAML or JSON by its extension; - prints YAML.

    Comments are lost. Nothing is overwritten.
    """
    extension = Path(output).suffix.lower()
    if output != "-" and extension not in (".yaml", ".yml", ".json"):
        raise click.UsageError(f"{output} must end in .yaml, .yml or .json, which names the format")
    if output != "-" and Path(output).exists():
        raise click.UsageError(f"{output} would be overwritten: name another file")
    loaded = load_rubric(rubric, allow_code=allow_code)
    text = loaded.to_json() if extension == ".json" else loaded.to_yaml()
    with click.open_file(output, "w", encoding="utf-8") as file:
        file.write(f"{text.rstrip()}\n")


@command.command("schema", cls=Command, example="assay rubric schema > rubric.schema.json")
def schema() -> None:
    """Print the JSON Schema of rubric files, for editors."""
    from assay.loading import SCHEMA_FILE

    sys.stdout.write(SCHEMA_FILE.read_text(encoding="utf-8"))
