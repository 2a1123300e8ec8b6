"""`assay grade TEXT -r RUBRIC`: texts, graded with a rubric."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from assay.cli.formats import format_of, whole_row
from assay.cli.options import (
    DisplayOptions,
    JudgeOptions,
    RubricOptions,
    display_options,
    judge_options,
    rubric_options,
)
from assay.cli.root import Command
from assay.cli.terminal import counted, shown_spending
from assay.errors import RubricError

if TYPE_CHECKING:
    from assay.cli.sources import Text
    from assay.graders import Autograder
    from assay.models import Ledger
    from assay.report import EvaluationReport
    from assay.rubric import Rubric
    from assay.runs import Summary


@click.command(
    "grade",
    cls=Command,
    epilog="Exit code: 0 all scored, 100 a threshold missed, 1 one unscored, 2 bad usage.",
    example="assay grade rollouts.jsonl -r rubric.yaml",
)
@click.argument("texts", nargs=-1, required=True, metavar="TEXT...")
@rubric_options()
@click.option("--text", "are_words", is_flag=True, help="Every TEXT is words, and no file.")
@click.option("--query", default="", help="What was asked, where a row does not say.")
@judge_options("-m", "--model")
@display_options
def command(
    texts: tuple[str, ...],
    rubrics: RubricOptions,
    are_words: bool,
    query: str,
    judging: JudgeOptions,
    display: DisplayOptions,
) -> int:
    """Grade texts with a rubric, and print a report of each.

    A TEXT is a file, - for standard input, a .jsonl file with one text a line (completion, prompt,
    answer), or the words themselves.
    """
    from assay.cli.sources import rubric_of, texts_of

    rubric = rubric_of(rubrics)
    return grade(rubric, texts_of(texts, query, are_words=are_words), judging, display)


def grade(rubric: Rubric, texts: Sequence[Text], judging: JudgeOptions, display: DisplayOptions) -> int:
    """Grade the texts, print it, and give the exit code."""
    from assay.cli.judges import judging_with
    from assay.cli.runner import quiet_log, say_cost
    from assay.models import budget

    if not texts:
        raise RubricError("there is no text in what was given")
    with judging_with(judging, rubric, quiet=display.quiet) as grader, quiet_log():
        if judging.dry_run:
            rollouts = [text.rollout for text in texts]
            work = rubric.score(rollouts, autograder=grader)
            return say_cost(work, lambda _: counted(len(texts), "text"))
        with budget(dollars=judging.budget) as spent:
            return _Grading(rubric, grader, texts, judging, display, spent).grade()


class _Grading:
    """Texts being graded: reports are printed in order, each as soon as it can be."""

    def __init__(
        self,
        rubric: Rubric,
        grader: Autograder | None,
        texts: Sequence[Text],
        judging: JudgeOptions,
        display: DisplayOptions,
        spent: Ledger,
    ) -> None:
        from assay.runs.summary import Tally

        self.rubric = rubric
        self.grader = grader
        self.texts = texts
        self.judging = judging
        self.display = display
        self.spent = spent
        self.reports: list[EvaluationReport | None] = [None] * len(texts)
        self.finished = self.printed = 0
        self.tally = Tally()
        self.low: list[str] = []
        self.format = format_of(
            display.format,
            "grade",
            criteria=[criterion.name for criterion in rubric.criteria],
            judge=None if grader is None else grader.title,
            thresholds=display.thresholds,
            rows=whole_row,
            sums_up=False,
        )

    def grade(self) -> int:
        import asyncio

        from assay.cli.runner import code_for

        self.format.begin(None)
        try:
            asyncio.run(self._all())
        except KeyboardInterrupt:
            self._end()
            self._say(f"stopped after {self.printed} of {len(self.texts)} texts{self._kept()}")
            raise
        summary = self._end()
        self._say(self._summary())
        return code_for(summary, self.display, self.low)

    def _end(self) -> Summary:
        found = self.tally.summary()
        assert found is not None
        summary = found.with_fields(complete=self.printed == len(self.texts))
        self.format.end(summary)
        return summary

    async def _all(self) -> None:
        from assay.concurrency import side_by_side

        self._tell()
        await side_by_side(self._one, range(len(self.texts)))

    async def _one(self, place: int) -> None:
        from assay.cli.runner import low_rows
        from assay.models.budgets import rollout_spending
        from assay.runs import Row

        rollout = self.texts[place].rollout
        async with rollout_spending():
            [self.reports[place]] = await self.rubric.score([rollout], autograder=self.grader)
        self.finished += 1
        while self.printed < len(self.texts):
            report = self.reports[self.printed]
            if report is None:
                break
            text = self.texts[self.printed]
            row = Row(text.name, fields=text.rollout, report=report)
            self.tally.add(row)
            self.low.extend(low_rows([row], self.display))
            self.format.row(row)
            sys.stdout.flush()
            self.printed += 1
        self._tell()

    def _tell(self) -> None:
        """How far it is, where somebody watches."""
        from assay.runs import Spending

        if sys.stderr.isatty() and not self.display.quiet:
            done = f"{self.finished:,} of {len(self.texts):,} texts"
            line = f"{done}, {shown_spending(Spending.of(self.spent))}"
            print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)

    def _summary(self) -> str:
        from assay.runs import Spending

        scores = [r.score for r in self._done() if r.scored and r.score is not None]
        unscored = len(self._done()) - len(scores)
        mean = f", mean score {math.fsum(scores) / len(scores):.3g}" if scores else ""
        missing = f", {unscored:,} unscored" if unscored else ""
        spending = f"; {shown_spending(Spending.of(self.spent))}" if self.grader is not None else ""
        out = self.spent.errors["BudgetExceeded"]
        calls = counted(out, "call")
        poor = f"; the budget ran out before {calls} could be made{self._kept()}" if out else ""
        return f"{counted(len(self._done()), 'text')}{mean}{missing}{spending}{poor}"

    def _kept(self) -> str:
        from assay.cli.runner import kept_answers

        return "" if self.grader is None else kept_answers(self.judging)

    def _done(self) -> list[EvaluationReport]:
        return [report for report in self.reports if report is not None]

    def _say(self, line: str) -> None:
        if not self.display.quiet:
            start = "\r\x1b[K" if sys.stderr.isatty() else ""
            print(f"{start}{line}", file=sys.stderr, flush=True)
