"""`assay grade TEXT -r RUBRIC`: grade texts with a rubric."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from assay import runs
from assay.cli.base_command import Command, print_note
from assay.cli.formats import FORMATS, Format, describe_spending, format_full_row
from assay.cli.inputs import Text, apply_view_options, load_rubric, read_texts
from assay.cli.judging import allow_media, open_judge
from assay.cli.options import (
    DisplayOptions,
    ViewOptions,
    allow_code_option,
    display_options,
    judging_options,
    rubric_option,
    view_options,
)
from assay.cli.run_output import RowPrinter, choose_exit_code
from assay.cli.runner import (
    Interrupt,
    describe_kept_answers,
    print_budget_note,
    run_command,
)
from assay.errors import RubricError
from assay.wording import format_count

if TYPE_CHECKING:
    from assay.graders import Grader
    from assay.models import Ledger
    from assay.rubric import Rubric
    from assay.runs.pipeline import OnProgress


@click.command(
    "grade",
    cls=Command,
    epilog="Exit codes: 0 all scored, 100 a threshold missed, 1 a text is unscored, 2 bad usage.",
    example="assay grade rollouts.jsonl -r rubric.yaml",
)
@click.argument("texts", metavar="TEXT...", nargs=-1, required=True)
@rubric_option(required=True)
@click.option(
    "--text",
    "are_literal",
    is_flag=True,
    help="Grade every TEXT itself, even if it is the name of a file.",
)
@click.option(
    "--query",
    metavar="TEXT",
    default="",
    help="The prompt for texts without one.",
)
@display_options
@view_options
@judging_options
@allow_code_option
def command(**values: Any) -> int:
    """Grade texts with a rubric, and print a report for each.

    A TEXT is a file, - for standard input, a .jsonl file with one text per line (completion,
    prompt, answer), or the text itself.
    """
    options = GradeOptions(**values)
    rubric = load_rubric(options.rubric, allow_code=options.allow_code)
    apply_view_options(rubric, options)
    texts = read_texts(options.texts, options.query, are_literal=options.are_literal)
    if not texts:
        raise RubricError("there is no text to grade: the files have no rows")
    _note_rubrics_of_rows(texts, options)
    with (
        allow_media(options, options.texts),
        open_judge(options, rubric, quiet=options.quiet) as grader,
    ):
        return _grade_texts(texts, rubric, grader, options)


@dataclass(frozen=True, kw_only=True)
class GradeOptions(DisplayOptions, ViewOptions):
    """The options of `assay grade`."""

    texts: tuple[str, ...]
    rubric: str
    allow_code: bool
    are_literal: bool
    query: str


def _note_rubrics_of_rows(texts: Sequence[Text], options: GradeOptions) -> None:
    """Say on stderr that the rubrics which rows bring are not used."""
    count = sum(runs.row.own_rubric(text.rollout) is not None for text in texts)
    if count:
        print_note(
            f"{count} of {len(texts)} rows have their own rubrics, which {options.rubric} "
            "replaces; assay score scores each row by its own",
            quiet=options.quiet,
        )


def _grade_texts(
    texts: Sequence[Text], rubric: Rubric, grader: Grader | None, options: GradeOptions
) -> int:
    """Score the texts, print a report for each as it comes, and return the exit code."""
    printer = RowPrinter(_make_format(rubric, grader, options), options)
    kept_answers_note = "" if grader is None else describe_kept_answers(options)

    async def work(on_progress: OnProgress | None, interrupt: Interrupt) -> None:
        on_row = None if options.dry_run else printer.on_row
        await _score_texts(texts, rubric, grader, on_progress=on_progress, on_row=on_row)

    def print_result(_: None, spent: Ledger) -> int:
        """Print the mean score and what was spent, and return the exit code."""
        summary = printer.finish(complete=True)
        line = _describe_scores(summary)
        if grader is not None:
            line += f"; {describe_spending(runs.Spending.of(spent))}"
        print_note(line, quiet=options.quiet)
        print_budget_note(spent, kept_answers_note, quiet=options.quiet)
        return choose_exit_code(summary, options, printer.low_rows)

    def report_failure(error: BaseException) -> None:
        printer.finish()  # prints the texts that were scored
        if isinstance(error, KeyboardInterrupt):
            print_note(
                f"stopped after {printer.printed} of {len(texts)} texts{kept_answers_note}",
                quiet=options.quiet,
            )

    return run_command(
        work,
        options=options,
        quiet=options.quiet,
        noun="texts",
        describe_size=lambda _: format_count(len(texts), "text"),
        print_result=print_result,
        on_failure=report_failure,
        checks_interrupt=False,  # the first Ctrl-C cancels the work
    )


def _make_format(rubric: Rubric, grader: Grader | None, options: GradeOptions) -> Format:
    """Return the format that prints the texts, as the options say."""
    return FORMATS[options.format](
        "grade",
        criteria=[criterion.name for criterion in rubric.criteria],
        judge=None if grader is None else grader.title,
        thresholds=options.thresholds,
        columns=options.columns,
        format_row=format_full_row,
        has_summary=False,
    )


async def _score_texts(
    texts: Sequence[Text],
    rubric: Rubric,
    grader: Grader | None,
    *,
    on_progress: OnProgress | None,
    on_row: Callable[[runs.Row], object] | None,
) -> None:
    """Score the texts concurrently, and pass each to `on_row` when it is scored."""
    from assay.concurrency import run_concurrently
    from assay.models import budget
    from assay.models.budgets import rollout_spending
    from assay.runs.pipeline import Watch

    with budget() as spent:
        progress = Watch(on_progress, len(texts), spent)

        async def score_text(index: int) -> None:
            """Score the text at this position, and pass it on as a row."""
            text = texts[index]
            async with rollout_spending():  # counts the calls as those of one rollout
                [report] = await rubric.score([text.rollout], judge=grader)
            if on_row is not None:
                on_row(runs.Row(text.name, fields=text.rollout, report=report, number=index))
            progress.fresh += 1  # texts that are finished
            progress.report()

        with progress.ticking():  # also reports every second while no text is finished
            await run_concurrently(score_text, range(len(texts)))


def _describe_scores(summary: runs.Summary) -> str:
    """Return the number of texts, their mean score, and how many have no score."""
    line = format_count(summary.rollouts, "text")
    if summary.score.mean is not None:
        line += f", mean score {summary.score.mean:.3g}"
    unscored = summary.rollouts - summary.score.count
    if unscored:
        line += f", {unscored:,} unscored"
    return line
