"""`assay lint RUBRIC...`: find what judges will stumble over in a rubric, before any is asked."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Literal

import click

from assay import cli, lint
from assay.display import colour_text, escape_control_characters
from assay.errors import AssayError
from assay.wording import format_count

_COLOURS = {"error": "red", "warning": "yellow", "note": "green"}


@cli.declare("lint")
def command(
    rubrics: tuple[str, ...] = cli.argument("RUBRIC...", nargs=-1, required=True),
    run: str | None = cli.value_of(),
    fix: bool = cli.value_of(),
    yes: bool = cli.value_of(),
    model: str | None = cli.value_of(),
    budget: float | None = cli.value_of(cli.dollars),
    ignore: tuple[str, ...] = cli.value_of(multiple=True),
    fail_on: Literal["error", "warning", "note"] = cli.value_of(
        ("error", "warning", "note"), "error"
    ),
    form: str = cli.value_of(("text", "json"), "text"),
    allow_code: bool = cli.value_of(is_eager=True),
) -> int:
    """Find what judges will misread: vague words, two questions in one, weights with the wrong sign.

    A RUBRIC is a YAML, JSON or TOML file, or module:object for one written in Python. Each finding is
    a line with file, line, rule, and what to do. A comment in the file, `# assay: ignore R004`, leaves
    a rule out for the criterion it stands at.
    """
    as_json = form == "json"
    if fix and as_json:
        raise click.UsageError("--fix prints a diff: leave --format json out")
    if fix:
        if model is None:
            _say("no model is named, so only what is certain is mended: -m names one")
        with cli.budget(dollars=budget) as spent:
            for name in rubrics:
                _offer(
                    lint.fix_rubric(name, model=model, ignore=ignore, allow_code=allow_code),
                    writes=yes,
                )
            if spent.calls:
                _say(f"{format_count(spent.calls, 'call')}, ${spent.cost or 0:.4f}")
    everything: list[lint.Finding] = []
    is_missing = False
    for name in rubrics:
        named, is_file = cli.RubricOptions(name, allow_code), Path(name).exists() or ":" not in name
        try:
            source = name if is_file else cli.rubric_of(named)
            found = lint.lint(source, run=run, ignore=ignore, allow_code=allow_code)
        except FileNotFoundError as error:
            is_missing = True
            print(error, file=sys.stderr if as_json else sys.stdout)
            continue
        everything += found
        if not as_json:
            _print(named, found)
    if as_json:
        counts = Counter(finding.severity for finding in everything)
        told = {severity: counts[severity] for severity in reversed(cli.SEVERITIES)}
        data = {"findings": [finding.to_dict() for finding in everything], "counts": told}
        print(json.dumps(data, ensure_ascii=False, indent=1))
    if is_missing or any(finding.id == "R000" for finding in everything):
        return cli.USAGE
    severe = cli.SEVERITIES[cli.SEVERITIES.index(fail_on) :]
    return cli.MISSED if any(finding.severity in severe for finding in everything) else cli.FINE


def _print(named: cli.RubricOptions, found: list[lint.Finding]) -> None:
    """A line a finding, and how many there are of each kind, in how many criteria."""
    for finding in found:
        said, colour = f"{finding.severity} {finding.id}", _COLOURS[finding.severity]
        print(escape_control_characters(str(finding)).replace(said, colour_text(said, colour), 1))
    if any(finding.id == "R000" for finding in found):
        return
    try:
        size = cli.shown_size(cli.rubric_of(named).criteria)
    except AssayError:  # a `when` that no rubric can have
        size = "it cannot be loaded"
    counts = Counter(finding.severity for finding in found)
    told = [
        format_count(counts[severity], severity)
        for severity in reversed(cli.SEVERITIES)
        if counts[severity]
    ]
    print(f"{named.rubric}: {', '.join([size, *told])}")


def _offer(fixed: lint.RubricFix, *, writes: bool) -> None:
    """Show as a diff what can be mended in a file; write it when that is wanted."""
    for note in fixed.notes:
        _say(note)
    if not fixed.diff:
        _say(f"{fixed.path}: nothing was mended")
        return
    sys.stdout.write("\n".join(map(escape_control_characters, fixed.diff.split("\n"))))
    sys.stdout.flush()
    if not writes:
        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            _say(f"{fixed.path} is left as it is: --yes writes this")
            return
        writes = click.confirm(f"write this to {fixed.path}?", default=False, err=True)
    if writes:
        fixed.write()
        _say(f"{fixed.path}: {format_count(len(fixed.changed), 'criterion', 'criteria')} mended")


def _say(line: str) -> None:
    print(escape_control_characters(line), file=sys.stderr)
