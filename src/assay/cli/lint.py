"""`assay lint RUBRIC...`: what judges will stumble over in a rubric, found before any is asked."""

import click

from assay.cli.options import allow_code_option, dollars, files
from assay.cli.root import Command


@click.command(
    "lint",
    cls=Command,
    epilog="Exit code: 0 nothing as bad as --fail-on was found, 100 something was, 2 a rubric cannot "
    "be read, or bad usage.",
    example="assay lint rubric.yaml --run runs/monday\nassay rubric lint rubric.yaml --fix",
)
@click.argument("rubrics", nargs=-1, required=True, metavar="RUBRIC...", shell_complete=files)
@click.option(
    "--run", metavar="RUN", help="A run of the rubric: look at what its verdicts tell, too."
)
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
    "--money", type=dollars, metavar="DOLLARS", envvar="ASSAY_MONEY",
    help="With --fix: spend no more than this.",
)  # fmt: skip
@click.option(
    "--ignore", multiple=True, metavar="ID", help="Leave a rule out, such as R004; several times."
)
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
    money: float | None,
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
    from assay.cli.lint_page import Linting, lint_all, mend_all

    linting = Linting(ignore, fail_on, run, allow_code)  # pyright: ignore[reportArgumentType]
    if not fix:
        return lint_all(rubrics, linting, as_json=form == "json")
    if form == "json":
        raise click.UsageError("--fix prints a diff: leave --format json out")
    mend_all(rubrics, linting, model=model, money=money, writes=yes)
    return lint_all(rubrics, linting, as_json=False)
