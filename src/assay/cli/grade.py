"""`assay grade TEXT -r RUBRIC`: grade texts with a rubric."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from assay import runs
from assay.cli.formats import FORMATS, shown_spending, whole_row
from assay.cli.options import DisplayOptions, JudgingOptions, RubricOptions, argument, declare, value_of
from assay.errors import RubricError
from assay.wording import counted

if TYPE_CHECKING:
    from assay.cli.runner import Conditions
    from assay.models import Ledger


@dataclass(frozen=True)
class TextOptions(RubricOptions):
    """What is graded by which rubric."""

    texts: tuple[str, ...] = argument("texts", nargs=-1, required=True, metavar="TEXT...")
    are_words: bool = value_of("--text", "Every TEXT is words, and no file.", name="are_words")
    query: str = value_of("--query TEXT", "What was asked, where a row does not say.", default="", show_default=False)


@dataclass(frozen=True)
class GradeOptions(DisplayOptions, JudgingOptions, TextOptions):
    """What it takes to grade texts."""


@declare(
    "grade",
    GradeOptions,
    "assay grade rollouts.jsonl -r rubric.yaml",
    "Exit code: 0 all scored, 100 a threshold missed, 1 one unscored, 2 bad usage.",
)
def command(options: GradeOptions) -> int:
    """Grade texts with a rubric, and print a report of each.

    A TEXT is a file, - for standard input, a .jsonl file with one text a line (completion, prompt,
    answer), or the words themselves.
    """
    from assay.cli.runner import Conditions, RowPrinter, code_for, kept_answers, run_work, say
    from assay.cli.sources import judging_with, rubric_of, texts_of
    from assay.concurrency import side_by_side
    from assay.models.budgets import budget, rollout_spending
    from assay.runs.pipeline import Watch

    rubric = rubric_of(options)
    texts = texts_of(options.texts, options.query, are_words=options.are_words)
    if not texts:
        raise RubricError("there is no text in what was given")

    async def work(under: Conditions) -> None:
        with budget() as spent:
            watch = Watch(under.on_progress, len(texts), spent)

            async def grade(place: int) -> None:
                name, rollout = texts[place]
                async with rollout_spending():
                    [report] = await rubric.score([rollout], autograder=under.grader)
                if under.on_row is not None:
                    under.on_row(runs.Row(name, fields=rollout, report=report, number=place))
                watch.fresh += 1
                watch.tell()

            await side_by_side(grade, range(len(texts)))

    with judging_with(options, rubric, quiet=options.quiet) as grader:
        kept = "" if grader is None else kept_answers(options)
        format = FORMATS[options.format](
            "grade",
            criteria=[criterion.name for criterion in rubric.criteria],
            judge=None if grader is None else grader.title,
            thresholds=options.thresholds,
            rows=whole_row,
            sums_up=False,
        )
        printer = RowPrinter(format, options)

        def show(_: None, spent: Ledger) -> int:
            summary = printer.end(complete=True)
            mean = "" if summary.score.mean is None else f", mean score {summary.score.mean:.3g}"
            unscored = summary.rollouts - summary.score.count
            missing = f", {unscored:,} unscored" if unscored else ""
            spending = "" if grader is None else f"; {shown_spending(runs.Spending.of(spent))}"
            out = spent.errors["BudgetExceeded"]
            poor = f"; the budget ran out before {counted(out, 'call')} could be made{kept}" if out else ""
            say(f"{counted(summary.rollouts, 'text')}{mean}{missing}{spending}{poor}", quiet=options.quiet)
            return code_for(summary, options, printer.low)

        return run_work(
            work,
            show,
            options,
            what=lambda _: counted(len(texts), "text"),
            noun="texts",
            quiet=options.quiet,
            under=Conditions(grader),
            printer=printer,
            can_wait=False,
            stopped=lambda: f"stopped after {printer.printed} of {len(texts)} texts{kept}",
        )
