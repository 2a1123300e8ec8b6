"""`assay compare RUN_A RUN_B`: test whether the second run is better, example by example."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click

from assay import runs, trust
from assay.cli.base_command import EXIT_ERROR, EXIT_OK, EXIT_THRESHOLD, Command
from assay.cli.formats import format_page
from assay.cli.inputs import open_run
from assay.cli.options import count, number_type, page_format_option, run_path
from assay.cli.side_by_side import build_transcript_table, format_transcripts
from assay.display import Page, escape_control_characters


@click.command(
    "compare",
    cls=Command,
    epilog="Exit codes: 0 compared, 100 with --fail-if-worse if the score has fallen by more than "
    "chance, 1 no example has a value in both runs, 2 the runs cannot be compared.",
    example="assay compare run-before run-after --flips 20\n"
    "assay compare run-before run-after --differs --pass-at 0.7",
)
@click.argument("run_a", metavar="RUN_A", type=run_path)
@click.argument("run_b", metavar="RUN_B", type=run_path)
@click.option(
    "--flips",
    metavar="N",
    type=count,
    default=10,
    show_default=True,
    help="How many of the rollouts whose result changed to show.",
)
@click.option(
    "--differs",
    is_flag=True,
    help="Show only rollouts that pass in one run and fail in the other, with both transcripts.",
)
@click.option(
    "--pass-at",
    metavar="SCORE",
    type=number_type(),
    help="The score from which a rollout passes; by default as RUN_B says.",
)
@click.option(
    "--fail-if-worse",
    is_flag=True,
    help="Exit with 100 if the score has fallen by more than chance.",
)
@page_format_option
def command(
    run_a: str,
    run_b: str,
    flips: int,
    differs: bool,
    pass_at: float | None,
    fail_if_worse: bool,
    layout: str,
) -> int:
    """Compare RUN_B with RUN_A, paired by example, and test whether the difference could be chance.

    The runs may differ in model, prompt, judge or number of samples; the report says in what.
    Examples are paired by their ids, and repeated rollouts of an example count as one. If the
    rubrics differ, only criteria with the same wording are compared. The p-values of criteria are
    adjusted for the number of criteria.
    """
    first = open_run(run_a)
    second = open_run(run_b)
    names = _name_runs(run_a, run_b)
    comparison = trust.compare(first, second, pass_threshold=pass_at)
    if fail_if_worse and comparison.other_rubric:
        raise click.UsageError(
            f"--fail-if-worse compares scores, but {names[0]} and {names[1]} used different "
            f"rubrics: score {names[0]} again with the rubric of {names[1]} (assay score {run_a} "
            "-r RUBRIC -o FOLDER), or leave out --fail-if-worse"
        )
    page = comparison.page(names, flips, only_differing=differs)
    if differs:
        differing = [flip for flip in comparison.flips if flip.differs][:flips]
        _print_with_transcripts(page, layout, differing, names, first, second)
    else:
        print(format_page(page, layout))
    if fail_if_worse:
        print(escape_control_characters(comparison.decide(names)), file=sys.stderr)
    if not any(figure.examples for figure in (comparison.score, *comparison.criteria)):
        return EXIT_ERROR
    if fail_if_worse and not comparison.score.examples:
        return EXIT_ERROR
    if fail_if_worse and comparison.score.direction == "worse":
        return EXIT_THRESHOLD
    return EXIT_OK


def _print_with_transcripts(
    page: Page,
    layout: str,
    flips: Sequence[trust.Flip],
    names: tuple[str, str],
    first: runs.Run,
    second: runs.Run,
) -> None:
    """Print the page, and both transcripts of each of these rollouts."""
    pairs = [(first.row(*key), second.row(*key)) for key in (flip.key for flip in flips)]
    if layout == "json":
        transcripts = [
            {
                "example": flip.example,
                "sample": flip.sample,
                "prompts": [row.fields.get("prompt") for row in pair],
                "completions": [row.fields.get("completion") for row in pair],
            }
            for flip, pair in zip(flips, pairs, strict=True)
        ]
        page = replace(page, data={**page.data, "transcripts": transcripts})
    titles = [_make_title(flip) for flip in flips]
    if layout == "markdown":
        tables = [
            build_transcript_table(title, names, pair)
            for title, pair in zip(titles, pairs, strict=True)
        ]
        page = replace(page, sections=[*page.sections, *tables])
    print(format_page(page, layout))
    if layout == "table":
        for title, pair in zip(titles, pairs, strict=True):
            print(f"\n{format_transcripts(title, names, pair)}")


def _make_title(flip: trust.Flip) -> str:
    results = ["passes" if is_passed else "fails" for is_passed in flip.passed]
    return f"{flip.name}: {' → '.join(results)}"


def _name_runs(run_a: str, run_b: str) -> tuple[str, str]:
    """Return the names of the folders; their paths if the names are the same."""
    name_a = Path(run_a).resolve().name
    name_b = Path(run_b).resolve().name
    if name_a == name_b:
        return run_a, run_b
    return name_a, name_b
