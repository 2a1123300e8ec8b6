"""Golden examples being run, and what is printed of them."""

from xml.sax.saxutils import escape

from assay.cli.formats import Section, attribute, json_text, laid_out, xml_safe
from assay.cli.judges import judging_with
from assay.cli.options import Judging, Rubrics
from assay.cli.root import BROKEN, FINE, MISSED
from assay.cli.runner import quiet_log
from assay.cli.sources import rubric_of
from assay.cli.terminal import (
    counted,
    painted,
    printable,
    shortened,
    shown_rehearsal,
    shown_spending,
)
from assay.concurrency import run_sync
from assay.graders import Autograder
from assay.models import budget, dry_run
from assay.rubric import Rubric
from assay.trust.golden_run import GoldenReport, GoldenResult, run_golden

_REASON = 100
"""Characters of a reason that a table has room for; JSON has all of it."""


def run_tests(rubrics: Rubrics, judging: Judging, form: str, *, quiet: bool) -> int:
    """Run the golden examples of a rubric, print what came of it, and give the exit code."""
    rubric = rubric_of(rubrics)
    with judging_with(judging, rubric, quiet=quiet) as grader, quiet_log():
        if judging.dry_run:
            return _rehearse(rubric, grader)
        with budget(dollars=judging.money):
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


def _rehearse(rubric: Rubric, grader: Autograder | None) -> int:
    with dry_run() as spent:
        report = run_sync(run_golden(rubric, grader))
    number = counted(len(report.by_example()), "example")
    print(f"{number} would take {shown_rehearsal(spent)}")
    return FINE


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
