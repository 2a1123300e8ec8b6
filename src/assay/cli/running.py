"""A run from beginning to end: it is watched, can be stopped, is printed, and says how to go on."""

import asyncio
import shlex
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any

import click

from assay.cli.exits import FINE, INTERRUPTED
from assay.cli.finishing import code_for, low_rows, say
from assay.cli.formats import format_of
from assay.cli.options import Judging, Saving, Showing
from assay.cli.progress import Tell, shown_progress
from assay.cli.quiet import quiet_log
from assay.cli.showing import counted, shown_rehearsal
from assay.cli.stopping import Stopping, stoppable
from assay.cli.viewing import FOR_PEOPLE, show_saved
from assay.errors import AssayError
from assay.graders import Autograder
from assay.models import Ledger, budget, dry_run
from assay.runs import Row, Run, Summary
from assay.runs.folder import Folder
from assay.runs.metadata import judge_name
from assay.runs.summary import Tally


@dataclass(frozen=True)
class Conditions:
    """Under which work is done."""

    grader: Autograder | None = None
    folder: str | None = None
    resume: bool = False
    on_row: Callable[[Row], object] | None = None
    on_progress: Tell | None = None
    stopping: Stopping = field(default_factory=Stopping)


Work = Callable[[Conditions], Coroutine[Any, Any, Summary]]


@dataclass(frozen=True)
class Running:
    """One sitting of a run."""

    title: str
    criteria: list[str]
    judging: Judging
    saving: Saving
    showing: Showing
    streamed_low: list[str] = field(default_factory=list[str])
    """Rollouts of a run that is not kept that are below the threshold for every rollout."""

    def rehearse(self, work: Work, grader: Autograder | None) -> int:
        """Say what the work would take, and ask nobody."""
        with dry_run() as spent, quiet_log():
            summary = asyncio.run(work(Conditions(grader)))
        what = counted(summary.rollouts, "rollout")
        print(f"{what} would take {shown_rehearsal(spent)}")
        return FINE

    def carry_out(self, work: Work, grader: Autograder | None) -> int:
        """Do the work, print what came of it, and give the exit code."""
        refuse_taken(self.saving)
        with stoppable() as stopping, quiet_log(), self._budget() as spent:
            try:
                summary = self._done(work, grader, stopping)
            except KeyboardInterrupt:
                self._say(f"stopped at once{self._how_to_go_on()}")
                raise
        self._say_what_is_left(summary, spent)
        if not summary.complete:
            self._say(f"stopped after {counted(summary.rollouts, 'rollout')}{self._how_to_go_on()}")
            return INTERRUPTED
        return code_for(summary, self.showing, self._low())

    def _budget(self) -> AbstractContextManager[Ledger]:
        """The money is for the whole run, however often it is resumed."""
        money, folder = self.judging.money, self.saving.folder
        if money is None or folder is None or not self.saving.resume:
            return budget(dollars=money)
        if not Folder.of(folder).run_json.exists():
            return budget(dollars=money)
        run = Run.open(folder)
        return budget(dollars=money, spent=run.spent().cost or 0.0, rollout=run.dearest())

    def _done(self, work: Work, grader: Autograder | None, stopping: Stopping) -> Summary:
        conditions = Conditions(grader, self.saving.folder, self.saving.resume, stopping=stopping)
        if self.saving.folder is None:
            return self._streamed(work, conditions)
        summary = self._watched(work, conditions)
        show_saved(self.saving.folder, summary, self.showing)
        return summary

    def _streamed(self, work: Work, conditions: Conditions) -> Summary:
        """Print every rollout as soon as it and those before it are there, since nothing is kept of it."""
        grader = conditions.grader
        format = format_of(
            self.showing.format,
            self.title,
            criteria=self.criteria,
            judge=None if grader is None else judge_name(grader),
            thresholds=self.showing.thresholds,
        )
        tally = Tally()
        in_order = InOrder(format.row)

        def print_row(row: Row) -> None:
            tally.add(row)
            self.streamed_low.extend(low_rows([row], self.showing))
            in_order.take(row)

        format.begin(None)
        try:
            summary = self._watched(work, replace(conditions, on_row=print_row))
        except (AssayError, KeyboardInterrupt):
            in_order.end()
            so_far = tally.summary()
            # A document has to be ended; to people, nothing at all is nothing to tell.
            if so_far and (so_far.rollouts or self.showing.format not in FOR_PEOPLE):
                format.end(so_far.with_fields(complete=False))
            raise
        in_order.end()
        format.end(summary)
        return summary

    def _low(self) -> list[str]:
        if self.saving.folder is None:
            return self.streamed_low
        return low_rows(Run.open(self.saving.folder).rows(), self.showing)

    def _watched(self, work: Work, conditions: Conditions) -> Summary:
        with shown_progress("rollouts", quiet=self.showing.quiet) as tell:
            return conditions.stopping.run(work(replace(conditions, on_progress=tell)))

    def _say_what_is_left(self, summary: Summary, spent: Ledger) -> None:
        out = spent.errors["BudgetExceeded"]
        if out:
            self._say(f"the money ran out before {counted(out, 'call')} could be made")
        if summary.unscored and self.saving.folder is not None:
            self._say(f"{summary.unscored:,} unscored{self._how_to_go_on()}")

    def _how_to_go_on(self) -> str:
        if self.saving.folder is None:
            return "; nothing is kept without -o FOLDER"
        return f"; go on with: {shlex.join(_resuming())}"

    def _say(self, line: str) -> None:
        say(line, self.showing)


class InOrder:
    """Hands rows on in the order of the data, though they are finished in another."""

    def __init__(self, give: Callable[[Row], object]) -> None:
        self._give = give
        self._next = 0
        self._early: dict[int, Row] = {}
        """Rows that are finished before one that comes before them."""

    def take(self, row: Row) -> None:
        if row.number is None:
            self._give(row)
            return
        self._early[row.number] = row
        while (ready := self._early.pop(self._next, None)) is not None:
            self._next += 1
            self._give(ready)

    def end(self) -> None:
        """Hand on the rest; those that are missing will not come."""
        for number in sorted(self._early):
            self._give(self._early[number])
        self._early.clear()


def refuse_taken(saving: Saving) -> None:
    """Refuse a folder without a name, or one that has a run, unless it is to be gone on with."""
    if saving.folder is None:
        if saving.resume:
            raise click.UsageError("--resume goes on with a run: name its folder with -o")
        return
    if not saving.folder:
        raise click.UsageError("--output is empty: name a folder")
    folder = Folder.of(saving.folder)
    if not saving.resume and folder.has_rows and folder.run_json.exists():
        raise click.UsageError(
            f"{saving.folder} holds a run already: give --resume to go on with it, or name another folder"
        )


def _resuming() -> list[str]:
    """What was typed, with the word that goes on with it."""
    typed = click.get_current_context().find_root().meta["assay.arguments"]
    return ["assay", *typed, *([] if "--resume" in typed else ["--resume"])]
