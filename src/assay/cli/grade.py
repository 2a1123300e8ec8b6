"""`assay grade TEXT -r RUBRIC`: grade texts with a rubric."""

from __future__ import annotations

from assay import cli, runs
from assay.errors import RubricError
from assay.wording import format_count


class GradeOptions(cli.DisplayOptions, cli.ViewOptions, cli.RubricOptions):
    """What is graded by which rubric."""

    texts: tuple[str, ...] = cli.argument("TEXT...", nargs=-1, required=True)
    are_words: bool = cli.value_of()
    query: str = cli.value_of(usual="", show_default=False)


@cli.declare("grade")
def command(options: GradeOptions) -> int:
    """Grade texts with a rubric, and print a report of each.

    A TEXT is a file, - for standard input, a .jsonl file with one text a line (completion, prompt,
    answer), or the words themselves.
    """
    rubric = cli.rubric_of(options)
    texts = cli.texts_of(options.texts, options.query, are_words=options.are_words)
    if not texts:
        raise RubricError("there is no text in what was given")

    with cli.judging_with(options, rubric, quiet=options.quiet) as grader:

        async def work(under: cli.Conditions) -> None:
            with cli.budget() as spent:
                watch = cli.Watch(under.on_progress, len(texts), spent)

                async def grade(place: int) -> None:
                    name, rollout = texts[place]
                    async with cli.rollout_spending():
                        [report] = await rubric.score([rollout], autograder=grader)
                    if under.on_row is not None:
                        under.on_row(runs.Row(name, fields=rollout, report=report, number=place))
                    watch.fresh += 1
                    watch.tell()

                await cli.run_concurrently(grade, range(len(texts)))

        kept = "" if grader is None else cli.kept_answers(options)
        criteria, judge = (
            [criterion.name for criterion in rubric.criteria],
            None if grader is None else grader.title,
        )
        kind = cli.FORMATS[options.format]
        format = kind(
            "grade", "", criteria, judge, options.thresholds, rows=cli.whole_row, sums_up=False
        )
        printer = cli.RowPrinter(format, options)

        def show(_: None, spent: cli.Ledger) -> int:
            summary = printer.end(complete=True)
            mean = "" if summary.score.mean is None else f", mean score {summary.score.mean:.3g}"
            unscored = summary.rollouts - summary.score.count
            missing = f", {unscored:,} unscored" if unscored else ""
            spending = "" if grader is None else f"; {cli.shown_spending(runs.Spending.of(spent))}"
            cli.say(
                f"{format_count(summary.rollouts, 'text')}{mean}{missing}{spending}",
                quiet=options.quiet,
            )
            cli.say_budget(spent, kept, quiet=options.quiet)
            return cli.code_for(summary, options, printer.low)

        return cli.run_work(
            work,
            show,
            options,
            what=lambda _: format_count(len(texts), "text"),
            noun="texts",
            quiet=options.quiet,
            printer=printer,
            can_wait=False,
            stopped=lambda: f"stopped after {printer.printed} of {len(texts)} texts{kept}",
        )
