"""`assay grade TEXT -r RUBRIC`: grade texts with a rubric."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from assay.cli import options
from assay.cli.formats import FORMATS, shown_spending, whole_row
from assay.cli.root import Command
from assay.errors import RubricError
from assay.wording import counted

if TYPE_CHECKING:
    from assay.cli.runner import Conditions
    from assay.models import Ledger


@click.command(
    "grade",
    cls=Command,
    epilog="Exit code: 0 all scored, 100 a threshold missed, 1 one unscored, 2 bad usage.",
    example="assay grade rollouts.jsonl -r rubric.yaml",
)
@click.argument("texts", nargs=-1, required=True, metavar="TEXT...")
@options.rubric_options()
@options.option("--text", "Every TEXT is words, and no file.", name="are_words")
@options.option("--query TEXT", "What was asked, where a row does not say.", default="", show_default=False)
@options.judge_options("-m --model")
@options.display_options
def command(
    texts: tuple[str, ...],
    rubrics: options.RubricOptions,
    are_words: bool,
    query: str,
    judging: options.JudgeOptions,
    display: options.DisplayOptions,
) -> int:
    """Grade texts with a rubric, and print a report of each.

    A TEXT is a file, - for standard input, a .jsonl file with one text a line (completion, prompt,
    answer), or the words themselves.
    """
    from assay.cli.runner import Conditions, RowPrinter, code_for, kept_answers, run_work, say
    from assay.cli.sources import judging_with, rubric_of, texts_of
    from assay.concurrency import side_by_side
    from assay.models import budget
    from assay.models.budgets import rollout_spending
    from assay.runs import Row, Spending
    from assay.runs.pipeline import Watch

    rubric = rubric_of(rubrics)
    found = texts_of(texts, query, are_words=are_words)
    if not found:
        raise RubricError("there is no text in what was given")

    async def work(under: Conditions) -> None:
        with budget() as spent:
            watch = Watch(under.on_progress, len(found), spent)

            async def grade(place: int) -> None:
                name, rollout = found[place]
                async with rollout_spending():
                    [report] = await rubric.score([rollout], autograder=under.grader)
                if under.on_row is not None:
                    under.on_row(Row(name, fields=rollout, report=report, number=place))
                watch.fresh += 1
                watch.tell()

            await side_by_side(grade, range(len(found)))

    with judging_with(judging, rubric, quiet=display.quiet) as grader:
        kept = "" if grader is None else kept_answers(judging)
        printer = RowPrinter(
            FORMATS[display.format](
                "grade",
                criteria=[criterion.name for criterion in rubric.criteria],
                judge=None if grader is None else grader.title,
                thresholds=display.thresholds,
                rows=whole_row,
                sums_up=False,
            ),
            display,
        )

        def show(_: None, spent: Ledger) -> int:
            summary = printer.end(complete=True)
            mean = "" if summary.score.mean is None else f", mean score {summary.score.mean:.3g}"
            unscored = summary.rollouts - summary.score.count
            missing = f", {unscored:,} unscored" if unscored else ""
            spending = "" if grader is None else f"; {shown_spending(Spending.of(spent))}"
            out = spent.errors["BudgetExceeded"]
            poor = f"; the budget ran out before {counted(out, 'call')} could be made{kept}" if out else ""
            say(f"{counted(summary.rollouts, 'text')}{mean}{missing}{spending}{poor}", quiet=display.quiet)
            return code_for(summary, display, printer.low)

        return run_work(
            work,
            show,
            judging,
            what=lambda _: counted(len(found), "text"),
            noun="texts",
            quiet=display.quiet,
            under=Conditions(grader),
            printer=printer,
            can_wait=False,
            stopped=lambda: f"stopped after {printer.printed} of {len(found)} texts{kept}",
        )
