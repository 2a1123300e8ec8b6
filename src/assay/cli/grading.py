"""Texts being graded: reports are printed in order, each as soon as it can be."""

import asyncio
import math
import sys
from collections.abc import Sequence

from assay.cache import default_place
from assay.cli.formats import format_of, whole_row
from assay.cli.judges import judging_with
from assay.cli.options import Judging, Showing
from assay.cli.root import FINE
from assay.cli.runner import code_for, low_rows, quiet_log
from assay.cli.sources import Text
from assay.cli.terminal import counted, shown_rehearsal, shown_spending
from assay.concurrency import side_by_side
from assay.errors import RubricError
from assay.graders import Autograder
from assay.models import Ledger, budget, dry_run
from assay.models.budgets import rollout_spending
from assay.report import EvaluationReport
from assay.rubric import Rubric
from assay.runs import Row, Spending, Summary
from assay.runs.summary import Tally


def grade(rubric: Rubric, texts: Sequence[Text], judging: Judging, showing: Showing) -> int:
    """Grade the texts, print it, and give the exit code."""
    if not texts:
        raise RubricError("there is no text in what was given")
    with judging_with(judging, rubric, quiet=showing.quiet) as grader, quiet_log():
        if judging.dry_run:
            return _rehearse(rubric, grader, texts)
        with budget(dollars=judging.money) as spent:
            return _Grading(rubric, grader, texts, judging, showing, spent).grade()


def _rehearse(rubric: Rubric, grader: Autograder | None, texts: Sequence[Text]) -> int:
    with dry_run() as spent:
        rollouts = [text.rollout for text in texts]
        asyncio.run(rubric.score(rollouts, autograder=grader))
    print(f"{counted(len(texts), 'text')} would take {shown_rehearsal(spent)}")
    return FINE


class _Grading:
    """Texts being graded: reports are printed in order, each as soon as it can be."""

    def __init__(
        self,
        rubric: Rubric,
        grader: Autograder | None,
        texts: Sequence[Text],
        judging: Judging,
        showing: Showing,
        spent: Ledger,
    ) -> None:
        self.rubric = rubric
        self.grader = grader
        self.texts = texts
        self.judging = judging
        self.showing = showing
        self.spent = spent
        self.reports: list[EvaluationReport | None] = [None] * len(texts)
        self.finished = self.printed = 0
        self.tally = Tally()
        self.low: list[str] = []
        self.format = format_of(
            showing.format,
            "grade",
            criteria=[criterion.name for criterion in rubric.criteria],
            judge=None if grader is None else grader.title,
            thresholds=showing.thresholds,
            rows=whole_row,
            sums_up=False,
        )

    def grade(self) -> int:
        self.format.begin(None)
        try:
            asyncio.run(self._all())
        except KeyboardInterrupt:
            self._end()
            self._say(f"stopped after {self.printed} of {len(self.texts)} texts{self._kept()}")
            raise
        summary = self._end()
        self._say(self._summary())
        return code_for(summary, self.showing, self.low)

    def _end(self) -> Summary:
        found = self.tally.summary()
        assert found is not None
        summary = found.with_fields(complete=self.printed == len(self.texts))
        self.format.end(summary)
        return summary

    async def _all(self) -> None:
        self._tell()
        await side_by_side(self._one, range(len(self.texts)))

    async def _one(self, place: int) -> None:
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
            self.low.extend(low_rows([row], self.showing))
            self.format.row(row)
            sys.stdout.flush()
            self.printed += 1
        self._tell()

    def _tell(self) -> None:
        """How far it is, where somebody watches."""
        if sys.stderr.isatty() and not self.showing.quiet:
            done = f"{self.finished:,} of {len(self.texts):,} texts"
            line = f"{done}, {shown_spending(Spending.of(self.spent))}"
            print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)

    def _summary(self) -> str:
        scores = [r.score for r in self._done() if r.scored and r.score is not None]
        unscored = len(self._done()) - len(scores)
        mean = f", mean score {math.fsum(scores) / len(scores):.3g}" if scores else ""
        missing = f", {unscored:,} unscored" if unscored else ""
        spending = f"; {shown_spending(Spending.of(self.spent))}" if self.grader is not None else ""
        out = self.spent.errors["BudgetExceeded"]
        calls = counted(out, "call")
        poor = f"; the money ran out before {calls} could be made{self._kept()}" if out else ""
        return f"{counted(len(self._done()), 'text')}{mean}{missing}{spending}{poor}"

    def _kept(self) -> str:
        if self.grader is None or self.judging.no_cache:
            return ""
        place = self.judging.cache or default_place()
        return f"; what was answered is kept in {place}, so the same command goes on from there"

    def _done(self) -> list[EvaluationReport]:
        return [report for report in self.reports if report is not None]

    def _say(self, line: str) -> None:
        if not self.showing.quiet:
            start = "\r\x1b[K" if sys.stderr.isatty() else ""
            print(f"{start}{line}", file=sys.stderr, flush=True)
