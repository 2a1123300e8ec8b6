"""`assay lint RUBRIC...`: find criteria that judges will misread, before a judge is asked."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from assay import lint
from assay.cli.base_command import EXIT_OK, EXIT_THRESHOLD, EXIT_USAGE, Command
from assay.cli.formats import describe_criteria
from assay.cli.inputs import load_rubric
from assay.cli.judging import find_price
from assay.cli.options import (
    ModelPrice,
    allow_code_option,
    dollars,
    max_calls_option,
    price_option,
)
from assay.display import colour_text, escape_control_characters
from assay.errors import AssayError
from assay.wording import format_count, format_dollars

if TYPE_CHECKING:
    from assay.criterion import Criterion

UNREADABLE = "R000"  # the rule of a rubric that cannot be read

_SEVERITIES = ("error", "warning", "note")  # from the most severe
_COLOURS = {"error": "red", "warning": "yellow", "note": "green"}


@click.command(
    "lint",
    cls=Command,
    epilog="Exit codes: 0 nothing as severe as --fail-on was found, 100 something was, 2 a rubric "
    "cannot be read, or bad usage.",
    example="assay lint rubric.yaml --run runs/monday\nassay rubric lint rubric.yaml --fix",
)
@click.argument("rubrics", metavar="RUBRIC...", type=click.Path(), nargs=-1, required=True)
@click.option(
    "--run",
    metavar="RUN",
    type=click.Path(),
    help="A run of the rubric, whose verdicts are checked too.",
)
@click.option(
    "--fix",
    is_flag=True,
    help="Show a diff of the fixes: only certain ones, or more if a model is named.",
)
@click.option("--yes", is_flag=True, help="With --fix: write the changes to the file.")
@click.option(
    "--judge",
    metavar="MODEL",
    envvar="ASSAY_JUDGE",
    show_envvar=True,
    help="With --fix: the model that splits and rewrites criteria.",
)
@click.option(
    "--budget",
    metavar="DOLLARS",
    type=dollars,
    envvar="ASSAY_BUDGET",
    show_envvar=True,
    help="With --fix: the most to spend.",
)
@price_option
@max_calls_option
@click.option(
    "--ignore",
    metavar="ID",
    multiple=True,
    help="A rule to ignore, such as R004. Repeatable.",
)
@click.option(
    "--fail-on",
    type=click.Choice(_SEVERITIES),
    default="error",
    show_default=True,
    help="Exit with 100 for findings at least this severe.",
)
@click.option(
    "-f",
    "--format",
    "output_format",
    type=click.Choice(("text", "json")),
    default="text",
    show_default=True,
    help="The output format.",
)
@allow_code_option
def command(
    rubrics: tuple[str, ...],
    run: str | None,
    fix: bool,
    yes: bool,
    judge: str | None,
    budget: float | None,
    prices: tuple[ModelPrice, ...],
    max_calls: int | None,
    ignore: tuple[str, ...],
    fail_on: str,
    output_format: str,
    allow_code: bool,
) -> int:
    """Find what judges will misread: vague words, two questions in one, weights with the wrong sign.

    A RUBRIC is a YAML, JSON or TOML file, or module:object for one written in Python. Each finding
    is a line with the file, the line, the rule, and what to do. A comment in the file, `# assay:
    ignore R004`, disables a rule for the criterion on its line or the next.
    """
    as_json = output_format == "json"
    if fix and as_json:
        raise click.UsageError("--fix prints a diff: drop --format json")
    if fix:  # what is left after the fixes is reported below
        _fix_rubrics(
            rubrics,
            judge=judge,
            budget=budget,
            prices=prices,
            max_calls=max_calls,
            ignore=ignore,
            allow_code=allow_code,
            writes=yes,
        )
    findings: list[lint.Finding] = []
    has_missing_file = False
    for name in rubrics:
        try:
            rubric_findings = _lint_rubric(name, run=run, ignore=ignore, allow_code=allow_code)
        except FileNotFoundError as error:  # other unreadable rubrics are findings
            has_missing_file = True
            stream = sys.stderr if as_json else sys.stdout
            print(f"{name}: error {UNREADABLE}: {error}", file=stream)
            continue
        findings += rubric_findings
        if not as_json:
            _print_findings(rubric_findings)
            if not _has_unreadable(rubric_findings):
                _print_total(name, rubric_findings, allow_code=allow_code)
    if as_json:
        _print_json(findings)
    if has_missing_file or _has_unreadable(findings):
        return EXIT_USAGE
    failing_severities = _SEVERITIES[: _SEVERITIES.index(fail_on) + 1]
    if any(finding.severity in failing_severities for finding in findings):
        return EXIT_THRESHOLD
    return EXIT_OK


def _lint_rubric(
    name: str, *, run: str | None, ignore: Sequence[str], allow_code: bool
) -> list[lint.Finding]:
    """Return the findings in a rubric: a file, or `module:object` for one in Python."""
    is_file = Path(name).exists() or ":" not in name
    if is_file:
        return lint.lint(name, run=run, ignore=ignore, allow_code=allow_code)
    rubric = load_rubric(name, allow_code=allow_code)
    return lint.lint(rubric, run=run, ignore=ignore, allow_code=allow_code)


def _has_unreadable(findings: Iterable[lint.Finding]) -> bool:
    return any(finding.id == UNREADABLE for finding in findings)


def _print_findings(findings: Iterable[lint.Finding]) -> None:
    """Print a line for each finding, with its severity and rule in colour."""
    for finding in findings:
        label = f"{finding.severity} {finding.id}"
        coloured_label = colour_text(label, _COLOURS[finding.severity])
        line = escape_control_characters(str(finding))
        print(line.replace(label, coloured_label, 1))


def _print_total(name: str, findings: Iterable[lint.Finding], *, allow_code: bool) -> None:
    """Print the numbers of criteria and findings, and what each criterion does to the score."""
    criteria: Sequence[Criterion] = ()
    try:
        criteria = load_rubric(name, allow_code=allow_code).criteria
        parts = [describe_criteria(criteria)]
    except AssayError:  # the linter accepts more than a rubric may have, such as a wrong `when`
        parts = ["it cannot be loaded"]
    counts = Counter(finding.severity for finding in findings)
    for severity in _SEVERITIES:
        if counts[severity]:
            parts.append(format_count(counts[severity], severity))
    print(f"{name}: {', '.join(parts)}")
    for criterion in criteria:
        effect = f"  {criterion.name}: {lint.describe_effect(criterion)}"
        print(escape_control_characters(effect))


def _print_json(findings: Sequence[lint.Finding]) -> None:
    counts = Counter(finding.severity for finding in findings)
    data = {
        "findings": [finding.to_dict() for finding in findings],
        "counts": {severity: counts[severity] for severity in _SEVERITIES},
    }
    print(json.dumps(data, ensure_ascii=False, indent=1))


def _fix_rubrics(
    rubrics: Sequence[str],
    *,
    judge: str | None,
    budget: float | None,
    prices: Sequence[ModelPrice],
    max_calls: int | None,
    ignore: Sequence[str],
    allow_code: bool,
    writes: bool,
) -> None:
    """Show what can be fixed in each rubric, and write it if the user agrees."""
    from assay.models import budget as limit_spending
    from assay.models import model_of

    model = None
    if judge is None:
        _print_note("no model is named, so only certain fixes are made: name a model with --judge")
    else:
        model = model_of(judge, price=find_price(prices, judge))
    with limit_spending(dollars=budget, calls=max_calls) as spent:
        for name in rubrics:
            fix = lint.fix_rubric(name, model=model, ignore=ignore, allow_code=allow_code)
            _offer_fix(fix, writes=writes)
        if spent.calls:
            _print_note(f"{format_count(spent.calls, 'call')}, {format_dollars(spent.cost or 0)}")


def _offer_fix(fix: lint.RubricFix, *, writes: bool) -> None:
    """Print the diff of a fix. Write it if `writes`, or if the user at the terminal agrees."""
    for note in fix.notes:
        _print_note(note)
    if not fix.diff:
        _print_note(f"{fix.path}: nothing was fixed")
        return
    sys.stdout.write("\n".join(escape_control_characters(line) for line in fix.diff.split("\n")))
    sys.stdout.flush()
    if not writes:
        is_interactive = sys.stdin.isatty() and sys.stdout.isatty()
        if not is_interactive:
            _print_note(f"{fix.path} was not changed: --yes writes these changes")
            return
        writes = click.confirm(f"Write this to {fix.path}?", default=False, err=True)
    if writes:
        fix.write()
        changed = format_count(len(fix.changed), "criterion", "criteria")
        _print_note(f"{fix.path}: {changed} fixed")


def _print_note(line: str) -> None:
    print(escape_control_characters(line), file=sys.stderr)
