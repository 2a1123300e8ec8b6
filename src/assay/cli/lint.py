"""`assay lint RUBRIC...`: find what judges will stumble over in a rubric, before any is asked."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Literal

import click

from assay import cli, lint
from assay.display import painted, printable
from assay.errors import AssayError
from assay.wording import counted

_COLOURS = {"error": "red", "warning": "yellow", "note": "green"}


class LintOptions(cli.CommandOptions):
    """What is looked for, what is mended, and what makes a failure of it."""

    rubrics: tuple[str, ...] = cli.argument("RUBRIC...", nargs=-1, required=True)
    run: str | None = cli.value_of()
    fix: bool = cli.value_of()
    yes: bool = cli.value_of()
    model: str | None = cli.value_of()
    budget: float | None = cli.value_of(cli.dollars)
    ignore: tuple[str, ...] = cli.value_of(multiple=True)
    fail_on: Literal["error", "warning", "note"] = cli.value_of(("error", "warning", "note"), "error")
    form: str = cli.value_of(("text", "json"), "text")
    allow_code: bool = cli.value_of(is_eager=True)


@cli.declare("lint")
def command(options: LintOptions) -> int:
    """Find what judges will misread: vague words, two questions in one, weights with the wrong sign.

    A RUBRIC is a YAML, JSON or TOML file, or module:object for one written in Python. Each finding is
    a line with file, line, rule, and what to do. A comment in the file, `# assay: ignore R004`, leaves
    a rule out for the criterion it stands at.
    """
    from assay.lint.findings import SEVERITIES, at_least

    as_json = options.form == "json"
    if options.fix and as_json:
        raise click.UsageError("--fix prints a diff: leave --format json out")
    if options.fix:
        _mend(options)
    everything: list[lint.Finding] = []
    is_missing = False
    for name in options.rubrics:
        is_file = Path(name).exists() or ":" not in name
        try:
            source = name if is_file else cli.rubric_of(cli.RubricOptions(name, options.allow_code))
            found = lint.lint(source, run=options.run, ignore=options.ignore, allow_code=options.allow_code)
        except FileNotFoundError as error:
            is_missing = True
            print(error, file=sys.stderr if as_json else sys.stdout)
            continue
        everything += found
        if not as_json:
            _print(name, found, options)
    if as_json:
        counts = Counter(finding.severity for finding in everything)
        told = {severity: counts[severity] for severity in reversed(SEVERITIES)}
        data = {"findings": [finding.to_dict() for finding in everything], "counts": told}
        print(json.dumps(data, ensure_ascii=False, indent=1))
    if is_missing or any(finding.id == "R000" for finding in everything):
        return cli.USAGE
    failed = any(at_least(finding.severity, options.fail_on) for finding in everything)
    return cli.MISSED if failed else cli.FINE


def _print(name: str, found: list[lint.Finding], options: LintOptions) -> None:
    """A line a finding, and how many there are of each kind, in how many criteria."""
    from assay.lint.findings import SEVERITIES

    for finding in found:
        said, colour = f"{finding.severity} {finding.id}", _COLOURS[finding.severity]
        print(printable(str(finding)).replace(said, painted(said, colour), 1))
    if any(finding.id == "R000" for finding in found):
        return
    try:
        size = cli.shown_size(cli.rubric_of(cli.RubricOptions(name, options.allow_code)).criteria)
    except AssayError:  # a `when` that no rubric can have
        size = "it cannot be loaded"
    counts = Counter(finding.severity for finding in found)
    told = [counted(counts[severity], severity) for severity in reversed(SEVERITIES) if counts[severity]]
    print(f"{name}: {', '.join([size, *told])}")


def _mend(options: LintOptions) -> None:
    """Show as a diff what can be mended in each file; write it when that is wanted."""
    from assay.models import budget

    if options.model is None:
        _say("no model is named, so only what is certain is mended: -m names one")
    with budget(dollars=options.budget) as spent:
        for name in options.rubrics:
            _offer(
                lint.fix_rubric(name, model=options.model, ignore=options.ignore, allow_code=options.allow_code),
                options.yes,
            )
        if spent.calls:
            _say(f"{counted(spent.calls, 'call')}, ${spent.cost or 0:.4f}")


def _offer(fixed: lint.RubricFix, writes: bool) -> None:
    for note in fixed.notes:
        _say(note)
    if not fixed.diff:
        _say(f"{fixed.path}: nothing was mended")
        return
    sys.stdout.write("\n".join(map(printable, fixed.diff.split("\n"))))
    sys.stdout.flush()
    if not writes:
        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            _say(f"{fixed.path} is left as it is: --yes writes this")
            return
        writes = click.confirm(f"write this to {fixed.path}?", default=False, err=True)
    if writes:
        fixed.write()
        _say(f"{fixed.path}: {counted(len(fixed.changed), 'criterion', 'criteria')} mended")


def _say(line: str) -> None:
    print(printable(line), file=sys.stderr)
