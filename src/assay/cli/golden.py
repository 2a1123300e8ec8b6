"""`assay rubric test RUBRIC`: a rubric's golden examples, and whether it says of them what it should."""

import click

from assay.cli.options import Judging, Rubrics, allow_code_option, files, judge_options
from assay.cli.root import Command


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
def command(rubric: str, allow_code: bool, judging: Judging, form: str, quiet: bool) -> int:
    """Score the golden examples of a RUBRIC, and show what comes out otherwise than expected.

    They stand in the file under `golden`, each with a completion and the verdicts to expect of it.
    What is checked by code needs no judge.
    """
    from assay.cli.golden_page import run_tests

    return run_tests(Rubrics(rubric, allow_code), judging, form, quiet=quiet)
