"""`assay lint RUBRIC...`: what judges will stumble over in a rubric, found before any is asked."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from assay.cli.options import RubricOptions, allow_code_option, dollars, files
from assay.cli.root import FINE, MISSED, USAGE, Command
from assay.cli.terminal import counted, painted, printable
from assay.errors import AssayError

if TYPE_CHECKING:
    from assay.lint.findings import Finding, Severity
    from assay.lint.fix import RubricFix


@click.command(
    "lint",
    cls=Command,
    epilog="Exit code: 0 nothing as bad as --fail-on was found, 100 something was, 2 a rubric cannot "
    "be read, or bad usage.",
    example="assay lint rubric.yaml --run runs/monday\nassay rubric lint rubric.yaml --fix",
)
@click.argument("rubrics", nargs=-1, required=True, metavar="RUBRIC...", shell_complete=files)
@click.option("--run", metavar="RUN", help="A run of the rubric: look at what its verdicts tell, too.")
@click.option(
    "--fix", is_flag=True,
    help="Show as a diff what can be mended: what is certain, and with a model the rest.",
)  # fmt: skip
@click.option("--yes", is_flag=True, help="With --fix: write it to the file.")
@click.option(
    "-m", "--model", metavar="MODEL", envvar="ASSAY_MODEL",
    help="With --fix: who splits and rewrites criteria; nobody by default.",
)  # fmt: skip
@click.option(
    "--budget", type=dollars, metavar="DOLLARS", envvar="ASSAY_BUDGET",
    help="With --fix: spend no more than this.",
)  # fmt: skip
@click.option("--ignore", multiple=True, metavar="ID", help="Leave a rule out, such as R004; several times.")
@click.option(
    "--fail-on", type=click.Choice(["error", "warning", "note"]), default="error", show_default=True,
    help="Exit with 100 for this, and for anything worse.",
)  # fmt: skip
@click.option(
    "-f", "--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True,
    help="What to print.",
)  # fmt: skip
@allow_code_option
def command(
    rubrics: tuple[str, ...],
    run: str | None,
    fix: bool,
    yes: bool,
    model: str | None,
    budget: float | None,
    ignore: tuple[str, ...],
    fail_on: str,
    form: str,
    allow_code: bool,
) -> int:
    """Find what judges will stumble over: vague words, two questions in one, weights with the wrong sign.

    A RUBRIC is a YAML, JSON or TOML file, or module:object for one written in Python. Each finding is
    a line with file, line, rule, and what to do. A comment in the file, `# assay: ignore R004`, leaves
    a rule out for the criterion it stands at.
    """

    linting = Linting(ignore, fail_on, run, allow_code)  # pyright: ignore[reportArgumentType]
    if not fix:
        return lint_all(rubrics, linting, as_json=form == "json")
    if form == "json":
        raise click.UsageError("--fix prints a diff: leave --format json out")
    mend_all(rubrics, linting, model=model, dollars=budget, writes=yes)
    return lint_all(rubrics, linting, as_json=False)


_COLOURS = {"error": "red", "warning": "yellow", "note": "green"}


@dataclass(frozen=True)
class Linting:
    """What is looked for, and what makes a failure of it."""

    ignore: tuple[str, ...]
    fail_on: Severity
    run: str | None
    allow_code: bool


def lint_all(names: Sequence[str], linting: Linting, *, as_json: bool) -> int:
    """Print what is found in each rubric, and give the exit code."""
    from assay.lint.findings import Finding, at_least

    code, everything = FINE, list[Finding]()
    for name in names:
        try:
            found = _found(name, linting)
        except FileNotFoundError as error:
            code = USAGE
            print(error, file=sys.stderr if as_json else sys.stdout)
            continue
        everything += found
        if not as_json:
            _print(name, found, linting.allow_code)
    if as_json:
        print(json.dumps(_data(everything), ensure_ascii=False, indent=1))
    if code == USAGE or any(finding.id == "R000" for finding in everything):
        return USAGE
    failed = any(at_least(finding.severity, linting.fail_on) for finding in everything)
    return MISSED if failed else FINE


def _found(name: str, linting: Linting) -> list[Finding]:
    from assay.cli.sources import rubric_of
    from assay.lint.linter import lint

    source = name if _is_file(name) else rubric_of(RubricOptions(name, linting.allow_code))
    return lint(source, run=linting.run, ignore=linting.ignore, allow_code=linting.allow_code)


def _is_file(name: str) -> bool:
    """Whether a name is a file's, and not that of an object of a module."""
    return Path(name).exists() or ":" not in name


def _print(name: str, found: Sequence[Finding], allow_code: bool) -> None:
    for finding in found:
        said, mark = f"{finding.severity} {finding.id}", _COLOURS[finding.severity]
        print(printable(str(finding)).replace(said, painted(said, mark), 1))
    if any(finding.id == "R000" for finding in found):
        return
    told = [counted(count, severity) for severity, count in _counts(found).items() if count]
    print(": ".join([name, ", ".join([_size(name, allow_code), *told])]))


def _size(name: str, allow_code: bool) -> str:
    """How many criteria, and who answers them."""
    from assay.cli.sources import rubric_of

    try:
        criteria = rubric_of(RubricOptions(name, allow_code)).criteria
    except AssayError:  # a `when` that no rubric can have
        return "it cannot be loaded"
    judged = sum(criterion.judged for criterion in criteria)
    how = f"{judged} of them judged by a model" if judged else "checked by code"
    return f"{counted(len(criteria), 'criterion', 'criteria')}, {how}"


def _counts(found: Sequence[Finding]) -> dict[str, int]:
    from assay.lint.findings import SEVERITIES

    counts = Counter(finding.severity for finding in found)
    return {severity: counts[severity] for severity in reversed(SEVERITIES)}


def _data(found: Sequence[Finding]) -> dict[str, object]:
    return {"findings": [finding.to_dict() for finding in found], "counts": _counts(found)}


def mend_all(names: Sequence[str], linting: Linting, *, model: str | None, dollars: float | None, writes: bool) -> None:
    """Show as a diff what can be mended in each file; write it when that is wanted."""
    from assay.lint.fix import fix_rubric
    from assay.models import budget

    if model is None:
        _say("no model is named, so only what is certain is mended: -m names one")
    with budget(dollars=dollars) as spent:
        for name in names:
            fixed = fix_rubric(name, model=model, ignore=linting.ignore, allow_code=linting.allow_code)
            _offer(fixed, writes)
        if spent.calls:
            _say(f"{counted(spent.calls, 'call')}, ${spent.cost or 0:.4f}")


def _offer(fixed: RubricFix, writes: bool) -> None:
    for note in fixed.notes:
        _say(note)
    if not fixed.diff:
        _say(f"{fixed.path}: nothing was mended")
        return
    sys.stdout.write("\n".join(map(printable, fixed.diff.split("\n"))))
    sys.stdout.flush()
    if writes or _approved(fixed):
        fixed.write()
        _say(f"{fixed.path}: {counted(len(fixed.changed), 'criterion', 'criteria')} mended")


def _approved(fixed: RubricFix) -> bool:
    """Whether somebody who sees the diff wants it; where nobody does, `--yes` says so."""
    if sys.stdin.isatty() and sys.stdout.isatty():
        return click.confirm(f"write this to {fixed.path}?", default=False, err=True)
    _say(f"{fixed.path} is left as it is: --yes writes this")
    return False


def _say(line: str) -> None:
    print(printable(line), file=sys.stderr)
