"""`assay show RUN`: show the summary of a saved run, and its rollouts."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from assay import runs
from assay.cli.base_command import EXIT_OK, Command, print_note
from assay.cli.formats import (
    format_brief_row,
    format_page,
    format_row_name,
    format_worst_row,
)
from assay.cli.inputs import open_run
from assay.cli.options import (
    PAGE_FORMATS,
    DisplayOptions,
    count,
    display_options,
    number_type,
    pass_at_option,
    positive,
)
from assay.cli.run_output import choose_exit_code, list_low_rows, make_saved_format
from assay.cli.transcript import format_requests, format_whole_row
from assay.display import Page, Section
from assay.wording import format_count

if TYPE_CHECKING:
    from assay.runs.stats import PassRule


@click.command(
    "show",
    cls=Command,
    epilog="Exit codes: 0 shown, 2 bad usage. With a threshold: 100 it is missed, 1 a rollout has "
    "no score or the run is not complete.",
    example="assay show run --errors",
)
@click.argument("run", metavar="RUN", type=click.Path())
@click.option("--rows", is_flag=True, help="List the rollouts too, one per line.")
@click.option(
    "--row",
    "example",
    metavar="EXAMPLE",
    help="Show one rollout completely, by its id, or by its number from 0 if the data have no ids.",
)
@click.option(
    "--sample",
    metavar="N",
    type=count,
    default=0,
    help="Which rollout of the EXAMPLE, from 0.",
)
@click.option(
    "--requests",
    is_flag=True,
    help="With --row, show every request to the model and to judges too; they are saved with "
    "--save-requests.",
)
@click.option("--errors", is_flag=True, help="Show only rollouts with errors.")
@click.option(
    "--below",
    metavar="SCORE",
    type=number_type(),
    help="Show only rollouts with a score below this.",
)
@click.option(
    "--worst",
    metavar="N",
    type=positive,
    help="Show the N rollouts with the lowest scores, and why they failed.",
)
@click.option("--task", metavar="TEXT", help="Show only rollouts of this task.")
@click.option("--limit", metavar="N", type=count, help="The most rollouts to show.")
@click.option(
    "--recover",
    metavar="FOLDER",
    type=click.Path(),
    help="Copy the readable rows of a damaged run into a new run in FOLDER.",
)
@click.option(
    "--examples",
    is_flag=True,
    help="Show how many rollouts of each example passed, the lowest share first.",
)
@pass_at_option
@display_options
def command(**values: Any) -> int:
    """Print the summary of the saved RUN: errors first, then means, then every criterion.

    A run that is still being written is shown up to its last finished rollout.
    """
    options = ShowOptions(**values)
    if options.recover is not None:
        return _recover_run(options.run, options.recover, quiet=options.quiet)
    run = open_run(options.run)
    if options.example is not None:
        return _print_row(run, options.example, options)
    if options.requests:
        raise click.UsageError("--requests shows those of one rollout: name it with --row")
    if options.examples:
        return _print_examples(run, options)
    summary = run.summary()
    if options.pass_at is not None:  # count again which rollouts pass
        summary_of_rows = runs.summarize(
            run.rows(),
            threshold=options.pass_at,
            pass_measure=run.about.pass_rule.measure,
        )
        summary = replace(summary_of_rows, complete=summary.complete)
    format_row = format_brief_row if options.shows_rows else None
    if options.worst is not None:
        format_row = format_worst_row
    output = make_saved_format(options.run, run.about, options, format_row, has_details=True)
    rows: Iterable[runs.Row] = ()
    if options.shows_rows or not options.is_for_people:  # programs get all rows
        rows = _select_rows(run, options)
        if options.worst is not None:
            rows = _find_worst(rows, options.worst)
        rows = islice(rows, options.limit)
    output.print_run(summary, rows)
    if not options.thresholds.are_set:  # a saved run with errors was still shown
        return EXIT_OK
    low_rows: list[str] = []
    if options.fail_rollout_under is not None:
        low_rows = list_low_rows(run.rows(), options)
    return choose_exit_code(summary, options, low_rows)


@dataclass(frozen=True, kw_only=True)
class ShowOptions(DisplayOptions):
    """The options of `assay show`."""

    run: str
    rows: bool
    example: str | None
    sample: int
    requests: bool
    errors: bool
    below: float | None
    worst: int | None
    task: str | None
    limit: int | None
    recover: str | None
    examples: bool
    pass_at: float | None

    @property
    def shows_rows(self) -> bool:
        """Whether people see rows: on request, or if an option selects some."""
        selects = (self.below, self.worst, self.task)
        return self.rows or self.errors or any(value is not None for value in selects)


def _select_rows(run: runs.Run, options: ShowOptions) -> Iterator[runs.Row]:
    """Yield the rows that `--errors`, `--below` and `--task` select."""
    from assay.runs.stats import is_below

    for row in run.rows():
        if options.errors and not row.errors:
            continue
        if options.task is not None and row.task != options.task:
            continue
        if options.below is not None:
            has_low_score = row.score is not None and is_below(row.score, options.below)
            if not has_low_score:
                continue
        yield row


def _find_worst(rows: Iterable[runs.Row], number: int) -> list[runs.Row]:
    """Return the rows with the lowest scores, the lowest first, without unscored rows."""
    scored_rows = (row for row in rows if row.score is not None)
    return heapq.nsmallest(number, scored_rows, key=_get_score)


def _get_score(row: runs.Row) -> float:
    assert row.score is not None
    return row.score


def _print_examples(run: runs.Run, options: ShowOptions) -> int:
    """Print a table of how many rollouts of each example passed, the lowest share first."""
    if options.format not in PAGE_FORMATS:
        raise click.UsageError(
            f"--examples is not printed as {options.format}: choose {', '.join(PAGE_FORMATS)}"
        )
    rule = run.about.pass_rule
    if options.pass_at is not None:
        rule = replace(rule, threshold=options.pass_at)
    examples = _count_passed(_select_rows(run, options), rule)
    # Examples without a scored rollout come first.
    examples.sort(key=lambda example: -1.0 if example["rate"] is None else example["rate"])
    shown = examples[: options.limit]
    columns = list(shown[0]) if shown else []
    title = f"{format_count(len(examples), 'example')}; a rollout passes if its {rule}"
    page = Page(
        title,
        [Section(columns, [list(example.values()) for example in shown])],
        data={"pass_rule": str(rule), "examples": shown},
    )
    print(format_page(page, options.format))
    return EXIT_OK


def _count_passed(rows: Iterable[runs.Row], rule: PassRule) -> list[dict[str, Any]]:
    """Return a record for each example: how many of its scored rollouts passed, and their share.

    The records have a category if the rows have several, and a share of None without a scored
    rollout.
    """
    categories: dict[str, str] = {}  # by example
    results: dict[str, list[bool]] = {}  # whether each scored rollout passed, by example
    for row in rows:
        categories.setdefault(row.example, row.task)
        example_results = results.setdefault(row.example, [])
        is_passed = rule.is_passed(row.report) if row.scored else None
        if is_passed is not None:
            example_results.append(is_passed)
    has_categories = len(set(categories.values())) > 1
    records: list[dict[str, Any]] = []
    for example, example_results in results.items():
        record: dict[str, Any] = {"example": example}
        if has_categories:
            record["category"] = categories[example]
        record["passed"] = sum(example_results)
        record["scored"] = len(example_results)
        record["rate"] = None
        if example_results:
            record["rate"] = sum(example_results) / len(example_results)
        records.append(record)
    return records


def _recover_run(run: str, folder: str, *, quiet: bool) -> int:
    """Copy the rows of a damaged run that can be read into a new run, and say how many."""
    from assay.runs.recovery import recover_run
    from assay.runs.run_file import RunFile
    from assay.runs.run_schema import find_run_file, is_run
    from assay.runs.run_writer import RunWriter

    if is_run(folder):
        raise click.UsageError(f"{folder} already holds a run: name another folder")
    file = RunFile(run)
    try:
        with RunWriter(folder) as writer:
            saved_count, lost_count = recover_run(file, writer)
    except BaseException:  # leave no half of a run
        find_run_file(folder).unlink(missing_ok=True)
        raise
    message = f"recovered {format_count(saved_count, 'rollout')} in {folder}"
    if lost_count:
        message += f"; {lost_count:,} could not be read: resume the run there to score them again"
    print_note(message, quiet=quiet)
    return EXIT_OK


def _print_row(run: runs.Run, example: str, options: ShowOptions) -> int:
    """Print one rollout: as a table all of it, in other formats as one row."""
    try:
        row = run.row(example, options.sample)
    except KeyError as error:
        raise click.UsageError(
            f"{error.args[0]}{_suggest_example(run, example)}: --rows lists the rollouts"
        ) from None
    if options.requests and not row.calls:
        raise click.UsageError(
            f"no requests were saved with {format_row_name(row)}: make the run with --save-requests"
        )
    if options.format == "table":
        print(format_whole_row(row))
        if options.requests:
            print(f"\n{format_requests(row)}")
        return EXIT_OK
    output = make_saved_format(options.run, run.about, options, format_brief_row)
    output.begin(summary=None)
    output.print_row(row)
    if options.format != "markdown":  # its end is the summary, which other formats need
        output.end(run.summary())
    return EXIT_OK


def _suggest_example(run: runs.Run, example: str) -> str:
    """Return the id of the row at that position, if a number was given in place of an id.

    The page numbers rows in this way. Empty if there is no such row.
    """
    if not example.isdecimal():
        return ""
    row = next(islice(run.rows(), int(example), None), None)
    if row is None:
        return ""
    return f" (row {example} has the id {row.example!r})"
