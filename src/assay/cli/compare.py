"""`assay compare RUN_A [RUN_B]`: test whether a run is better than another, example by example."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click

from assay import runs, trust
from assay.cli.base_command import EXIT_ERROR, EXIT_OK, EXIT_THRESHOLD, EXIT_USAGE, Command
from assay.cli.formats import format_page
from assay.cli.inputs import open_run
from assay.cli.options import count, page_format_option, pass_at_option, run_path
from assay.cli.side_by_side import build_transcript_table, format_transcripts
from assay.display import Page, escape_control_characters


@click.command(
    "compare",
    cls=Command,
    epilog="Exit codes: 0 compared, 100 with --fail-if-worse if the score has fallen by more than "
    "chance, 1 no example has a value in both runs, 2 the runs cannot be compared.",
    example="assay compare run-before run-after --flips 20\n"
    "assay compare run-before run-after --differs --pass-at 0.7\n"
    "assay compare runs-of-several-models",
)
@click.argument("run_a", metavar="RUN_A", type=run_path)
@click.argument("run_b", metavar="[RUN_B]", type=run_path, required=False)
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
@pass_at_option
@click.option(
    "--fail-if-worse",
    is_flag=True,
    help="Exit with 100 if the score has fallen by more than chance.",
)
@page_format_option
def command(
    run_a: str,
    run_b: str | None,
    flips: int,
    differs: bool,
    pass_at: float | None,
    fail_if_worse: bool,
    layout: str,
) -> int:
    """Compare RUN_B with RUN_A, paired by example, and test whether the difference is significant.

    The runs may differ in model, prompt, judge or number of samples; the report lists the differences.
    Examples are paired by their ids, and repeated rollouts of an example count as one. If the
    rubrics differ, only criteria with the same wording are compared. The p-values of criteria are
    adjusted for the number of criteria.

    If RUN_A is a folder of several runs, such as of several models and prompts, its runs are
    compared with each other. With a second such folder, runs of the same name are compared.
    """
    from assay.runs.listing import is_run  # slow to load

    # These are folders of runs. If only one of the two is a run, `open_run` refuses the other below.
    if run_b is None or (not is_run(run_a) and not is_run(run_b)):
        if differs or pass_at is not None:
            raise click.UsageError(
                "--differs and --pass-at need two runs: name the runs themselves"
            )
        return _compare_folders(run_a, run_b, layout, fail_if_worse=fail_if_worse)
    first = open_run(run_a)
    second = open_run(run_b)
    names = (first.path.resolve().name, second.path.resolve().name)
    if names[0] == names[1]:  # the paths tell the runs apart
        names = (run_a, run_b)
    comparison = trust.compare(first, second, pass_threshold=pass_at)
    if fail_if_worse and comparison.other_rubric:
        raise click.UsageError(
            f"--fail-if-worse compares scores, but {names[0]} and {names[1]} used different "
            f"rubrics: score {names[0]} again with the rubric of {names[1]} "
            f"(assay score {run_a} -r RUBRIC -o FOLDER), or leave out --fail-if-worse"
        )
    page = comparison.page(names, flips, only_differing=differs)
    if differs:
        # Flips are all changes of score; these have passed in one run and failed in the other.
        differing = [flip for flip in comparison.flips if flip.differs]
        _print_with_transcripts(page, layout, differing[:flips], names, first, second)
    else:
        print(format_page(page, layout))
    if fail_if_worse:
        # The title says which run is better. Standard output may go to a file.
        print(escape_control_characters(page.title), file=sys.stderr)
    differences = [comparison.score, *comparison.criteria]
    if not any(difference.examples for difference in differences):
        return EXIT_ERROR  # no example has a value in both runs
    return _choose_exit_code([comparison.score], fail_if_worse=fail_if_worse)


def _choose_exit_code(score_differences: Sequence[trust.Difference], *, fail_if_worse: bool) -> int:
    """Return the exit code of a comparison, or of several pairs of runs."""
    if not fail_if_worse:
        return EXIT_OK
    if not all(score.examples for score in score_differences):  # a pair has nothing in common
        return EXIT_ERROR
    if any(score.direction == "worse" for score in score_differences):
        return EXIT_THRESHOLD
    return EXIT_OK


def _compare_folders(
    folder_a: str, folder_b: str | None, layout: str, *, fail_if_worse: bool
) -> int:
    """Compare the runs in a folder with each other, or with those of the same name in another."""
    runs_a = _open_runs(folder_a)
    if folder_b is None:
        # Within one folder, no run is the earlier one, which --fail-if-worse needs.
        if fail_if_worse or len(runs_a) < 2:
            raise click.UsageError(
                f"{folder_a} has nothing to be compared with: name two runs, or two folders of runs"
            )
        comparison = trust.compare_all(runs_a)
        best_run = comparison.decide()  # a sentence, the title of the page
        print(format_page(comparison.page(best_run), layout))
        return EXIT_OK if comparison.pairs else EXIT_USAGE
    runs_b = _open_runs(folder_b)
    shared_names = [name for name in runs_a if name in runs_b]
    if not shared_names:
        raise click.UsageError(
            f"no run has the same name in {folder_a} and {folder_b}: name two runs, or two folders "
            "of runs with the same names"
        )
    runs_by_path: dict[str, runs.Run] = {}
    pairs: list[tuple[str, str]] = []
    for name in shared_names:
        path_a = f"{folder_a}/{name}"
        path_b = f"{folder_b}/{name}"
        runs_by_path[path_a] = runs_a[name]
        runs_by_path[path_b] = runs_b[name]
        pairs.append((path_a, path_b))
    comparison = trust.compare_pairs(runs_by_path, pairs)
    page = comparison.page(comparison.decide_by_pair())
    print(format_page(page, layout))
    if fail_if_worse:
        print(escape_control_characters(page.title), file=sys.stderr)
        if comparison.refused:  # pairs that cannot be compared, with the reason
            return EXIT_USAGE
    return _choose_exit_code([pair.score for pair in comparison.pairs], fail_if_worse=fail_if_worse)


def _open_runs(folder: str) -> dict[str, runs.Run]:
    """Open all runs in a folder, by their paths relative to it; a run itself, by its name."""
    from assay.runs.listing import find_runs  # slow to load

    try:
        paths = find_runs(folder)
    except runs.RunError as error:
        raise click.UsageError(str(error)) from None
    opened: dict[str, runs.Run] = {}
    for path in paths:
        is_folder_itself = path == Path(folder)
        name = path.name if is_folder_itself else str(path.relative_to(folder))
        opened[name] = open_run(str(path))
    return opened


def _print_with_transcripts(
    page: Page,
    layout: str,
    flips: Sequence[trust.Flip],
    names: tuple[str, str],
    first: runs.Run,
    second: runs.Run,
) -> None:
    """Print the page, and the transcripts in both runs of each flip: a rollout whose result changed."""
    pairs: list[tuple[runs.Row, runs.Row]] = []
    for flip in flips:
        pairs.append((first.row(*flip.key), second.row(*flip.key)))
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
