"""Run the work of a command: show progress, hear Ctrl-C, keep to the budget, print, and give the exit code."""

import asyncio
import json
import logging
import shlex
import signal
import sys
import threading
from collections.abc import Callable, Coroutine, Generator, Iterable, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple, TypeVar

import click

from assay.cache import default_place
from assay.cli.formats import FOR_PEOPLE, FORMATS, Format, RowText, row_name, shown_spending
from assay.cli.options import DisplayOptions, JudgingOptions, OutputOptions, RunOptions
from assay.cli.root import BROKEN, FINE, INTERRUPTED, MISSED
from assay.concurrency import run_sync
from assay.display import format_line
from assay.errors import AssayError
from assay.graders import Grader
from assay.models import Ledger, budget, dry_run
from assay.redaction import redact_settings
from assay.rubric import Rubric
from assay.runs import Progress, Row, Run, RunAbout, Spending, Summary
from assay.runs.folder import Folder
from assay.runs.metadata import judge_name, judge_of
from assay.runs.pipeline import OnProgress
from assay.runs.stats import DEFAULT_PASS_RULE, PassRule
from assay.runs.summary import Tally
from assay.wording import format_count

Result = TypeVar("Result")


class Stopping:
    """Whether the work is to end, since Ctrl-C was pressed. Ask it between two pieces of work."""

    def __init__(self) -> None:
        self.heard = 0  # how often Ctrl-C was heard
        self._cancel: Any = None  # asyncio's handler of the signal

    def __call__(self) -> bool:
        return self.heard > 0

    def run(self, work: Coroutine[Any, Any, Result], *, can_wait: bool = True) -> Result:
        """The result of the work. When it is stopped at once, a `KeyboardInterrupt`."""

        async def hearing() -> Result:
            if (
                can_wait and threading.current_thread() is threading.main_thread()
            ):  # only that may hear signals
                self._cancel = signal.signal(signal.SIGINT, self._hear)
            try:
                return await work
            finally:
                if self._cancel is not None:
                    signal.alarm(0)
                    signal.signal(signal.SIGINT, self._cancel)

        return asyncio.run(hearing())

    def _hear(self, number: int, frame: FrameType | None) -> None:
        """Take note of a Ctrl-C. The second has asyncio cancel the work, and what does not hear that is broken off."""
        self.heard += 1
        if self.heard == 1:
            line = "finishing what is under way; Ctrl-C again stops at once"
            # A signal may come in the middle of another print, which cannot be interrupted by this one.
            with suppress(RuntimeError):
                print(f"\n{line}" if sys.stderr.isatty() else line, file=sys.stderr, flush=True)
            return
        if self.heard == 2:
            # A check that computes holds up the loop, which then hears of no cancelling.
            signal.signal(signal.SIGALRM, signal.default_int_handler)
            signal.alarm(1)
        if not callable(self._cancel):  # where the signal was ignored, asyncio leaves it so
            raise KeyboardInterrupt
        self._cancel(number, frame)


@contextmanager
def shown_progress(noun: str, *, quiet: bool) -> Generator[OnProgress | None]:
    """What is to be told of progress: a bar on a terminal, else a line when the last one is old; None when quiet."""
    if quiet:
        yield None
        return
    last = 0.0

    def print_now_and_then(progress: Progress) -> None:
        nonlocal last
        if progress.seconds - last >= 15:
            last = progress.seconds
            print(progress.told(noun), file=sys.stderr, flush=True)

    if not sys.stderr.isatty():
        yield print_now_and_then
        return
    import rich.console
    import rich.progress

    columns = (
        rich.progress.BarColumn(bar_width=24),
        rich.progress.TextColumn("{task.description}", markup=False),
    )
    console = rich.console.Console(stderr=True)
    with rich.progress.Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(f"0 {noun}", total=None)
        yield lambda progress: bar.update(
            task, completed=progress.done, total=progress.total, description=progress.told(noun)
        )


def say(line: str, *, quiet: bool) -> None:
    if not quiet:
        print(line, file=sys.stderr, flush=True)


def kept_answers(judging: JudgingOptions) -> str:
    """Where answers are kept, so that the same command does not ask for them again."""
    kept = f"; what was answered is kept in {judging.cache or default_place()}, so the same command goes on from there"
    return "" if judging.no_cache else kept


class Conditions(NamedTuple):
    """Under which work is done; in a dry run there are none."""

    stopping: Stopping
    on_progress: OnProgress | None = None
    on_row: Callable[[Row], object] | None = None

    def settings(self, output: OutputOptions, grader: Grader | None) -> dict[str, Any]:
        """What every function that scores rows takes by these names."""
        most = {} if output.concurrency is None else {"max_concurrent": output.concurrency}
        resume = output.resume and output.folder is not None
        return {
            **self._asdict(),
            "grader": grader,
            "resume": resume,
            "judge_log": output.judge_log,
            **most,
        }


Work = Callable[[Conditions], Coroutine[Any, Any, Result]]


def run_work(
    work: Work[Result],
    show: Callable[[Result, Ledger], int],
    judging: JudgingOptions,
    *,
    what: Callable[[Result], str],
    noun: str,
    quiet: bool,
    printer: "RowPrinter | None" = None,
    spending: AbstractContextManager[Ledger] | None = None,
    can_wait: bool = True,
    stopped: Callable[[], str] | None = None,
) -> int:
    """Do the work within the budget and `show` what came of it, which gives the exit code.

    A dry run asks no model and writes nothing: it says what the work, which is named by `what`, would take.
    Work that `can_wait` asks whether it is stopping; any other ends at the first Ctrl-C. When it is `stopped`
    at once, that says what is left of it.
    """
    # Errors stand on the lines that are printed, so the log need not say them again.
    logger = logging.getLogger("assay")
    was_disabled, logger.disabled = logger.disabled, True
    try:
        if judging.dry_run:
            with dry_run() as spent:
                result = run_sync(work(Conditions(Stopping())))
            print(f"{what(result)} would take {shown_dry_run(spent)}")
            return FINE
        on_row = printer.take if printer is not None and printer.is_needed else None
        stopping = Stopping()
        with spending or budget(dollars=judging.budget) as spent:
            try:
                with shown_progress(noun, quiet=quiet) as tell:
                    result = stopping.run(
                        work(Conditions(stopping, tell, on_row)), can_wait=can_wait
                    )
            except (AssayError, KeyboardInterrupt) as error:
                if printer is not None:
                    printer.end()
                if stopped is not None and isinstance(error, KeyboardInterrupt):
                    say(stopped(), quiet=quiet)
                raise
            return show(result, spent)
    finally:
        logger.disabled = was_disabled


def shown_dry_run(spent: Ledger) -> str:
    """What a dry run counted: what it would take if all goes well, and at most."""
    told = shown_spending(Spending.of(spent))
    if not spent.calls:
        return told
    most_cost = "" if spent.unpriced else f" and ${spent.most_cost:.4f}"
    most = f"at most {format_count(spent.most_calls, 'call')}{most_cost}"
    return f"{told}; {most}, if every call were tried as often as allowed and every reply asked for again"


def say_budget(spent: Ledger, hint: str = "", *, quiet: bool) -> None:
    if out := spent.errors["BudgetExceeded"]:
        say(
            f"the budget ran out before {format_count(out, 'call')} could be made{hint}",
            quiet=quiet,
        )


class RowPrinter:
    """Prints rows in the order of the data, and notes which are below the threshold for every rollout."""

    def __init__(
        self,
        format: Format | None,
        display: DisplayOptions,
        pass_rule: PassRule = DEFAULT_PASS_RULE,
    ) -> None:
        self.low: list[str] = []
        self.printed = 0
        self._format = format or Format("")  # which prints nothing
        self._thresholds = display.thresholds
        self._tally = Tally(pass_rule=pass_rule)
        self._next = 0
        self._early: dict[int, Row] = {}  # rows that are finished before one that comes before them
        # A run that is kept may have more rows waiting than memory has room for.
        self.is_needed = format is not None or display.fail_rollout_under is not None

    def take(self, row: Row) -> None:
        """Print a row as soon as it and those before it are there."""
        self._early[self._next if row.number is None else row.number] = row
        while (ready := self._early.pop(self._next, None)) is not None:
            self._next += 1
            self._print(ready)

    def _print(self, row: Row) -> None:
        if self._thresholds.is_low(row.score):
            self.low.append(format_line(row_name(row)))
        self._begin()
        self._format.row(row)
        self._tally.add(row)
        self.printed += 1

    def _begin(self) -> None:
        if not self.printed:
            self._format.begin(None)

    def end(self, summary: Summary | None = None, *, complete: bool = False) -> Summary:
        """Print the rest and the summary; without one, that of what was printed, if anything was."""
        for number in sorted(self._early):
            self._print(self._early[number])
        self._early.clear()
        told = summary or replace(self._tally.summary(), complete=complete)
        if summary or self.printed:
            self._begin()
            self._format.end(told)
        return told


@dataclass
class Runner:
    """One sitting of a run of rows."""

    options: RunOptions
    rubric: Rubric | None
    grader: Grader | None = None
    pass_rule: PassRule = DEFAULT_PASS_RULE
    printer: RowPrinter | None = (
        None  # None where rows of earlier sittings or of workers are read from the folder
    )

    def run(self, work: Work[Summary], *, by_workers: bool = False) -> int:
        """Do the work, print what came of it, and give the exit code; in a dry run, say what it would take."""
        resumes = not self.options.dry_run and _resumes(self.options)
        spending = None
        if resumes and self.options.budget is not None and self.options.folder is not None:
            # The budget is for the whole run, however often it is resumed.
            run = Run.open(self.options.folder)
            spending = budget(
                dollars=self.options.budget, spent=run.spent().cost or 0.0, rollout=run.dearest()
            )
        if not (resumes or by_workers or self.options.dry_run):
            self.printer = RowPrinter(self._format(), self.options, self.pass_rule)
        return run_work(
            work,
            self._show,
            self.options,
            what=lambda summary: format_count(summary.rollouts, "rollout"),
            noun="rollouts",
            quiet=self.options.quiet,
            printer=self.printer,
            spending=spending,
            stopped=lambda: f"stopped at once; {self._how_to_go_on()}",
        )

    def _format(self) -> Format | None:
        """What prints rows as they come; of a run that is kept, people are shown only the summary."""
        folder, rubric, grader = self.options.folder, self.rubric, self.grader
        if folder is not None and self.options.format in FOR_PEOPLE:
            return None
        judge = (
            judge_of(rubric, grader)
            if folder is not None
            else None
            if grader is None
            else judge_name(grader)
        )
        return FORMATS[self.options.format](
            self.options.data if folder is None else str(Path(folder)),
            criteria=[] if rubric is None else [criterion.name for criterion in rubric.criteria],
            judge=redact_settings(judge),
            thresholds=self.options.thresholds,
            rows_bring_criteria=folder is not None,
        )

    def _show(self, summary: Summary, spent: Ledger) -> int:
        folder, quiet, low = self.options.folder, self.options.quiet, list[str]()
        if self.printer is not None:
            self.printer.end(summary)
            low = self.printer.low
        if folder is not None and (self.printer is None or self.options.format in FOR_PEOPLE):
            run = Run.open(folder)
            rows = () if self.options.format in FOR_PEOPLE else run.rows()
            saved_format(folder, run.about, self.options).whole(summary, rows)
        say_budget(spent, quiet=quiet)
        if summary.unscored and folder is not None:
            say(f"{summary.unscored:,} unscored; {self._how_to_go_on()}", quiet=quiet)
        if not summary.complete:
            say(
                f"stopped after {format_count(summary.rollouts, 'rollout')}; {self._how_to_go_on()}",
                quiet=quiet,
            )
            return INTERRUPTED
        if (
            folder is not None
            and self.printer is None
            and self.options.fail_rollout_under is not None
        ):
            low = low_rows(Run.open(folder).rows(), self.options)
        return code_for(summary, self.options, low)

    def _how_to_go_on(self) -> str:
        if self.options.folder is None:
            return "nothing is kept without -o FOLDER"
        typed = click.get_current_context().find_root().meta["assay.arguments"]
        return f"go on with: {shlex.join(['assay', *typed, *([] if '--resume' in typed else ['--resume'])])}"


def _resumes(output: OutputOptions) -> bool:
    """Whether a run is there to go on with. Refuses one that is there otherwise, and a folder without a name."""
    if output.folder is None:
        if output.resume:
            raise click.UsageError("--resume goes on with a run: name its folder with -o")
        return False
    if not output.folder:
        raise click.UsageError("--output is empty: name a folder")
    folder = Folder(output.folder)
    if not output.resume and folder.has_rows and folder.run_json.exists():
        instead = "give --resume to go on with it, or name another folder"
        raise click.UsageError(f"{output.folder} holds a run already: {instead}")
    return output.resume and folder.run_json.exists()


def saved_format(
    folder: str, about: RunAbout, display: DisplayOptions, rows: RowText | None = None
) -> Format:
    parts = [f"{about.kind}, {about.created}"]
    if about.rubric is not None:
        parts.append(f"rubric {about.rubric.name or about.rubric.hash[:12]}")
    if "env_id" in about.config:
        parts.append(f"environment {about.config['env_id']}")
    if "env_args" in about.config:
        parts.append(f"with {json.dumps(about.config['env_args'], ensure_ascii=False)}")
    parts += [f"model {about.model}"] if about.model else []
    parts += [f"judge {about.judge}"] if about.judge else []
    criteria = (
        [] if about.rubric is None else [criterion.name for criterion in about.rubric.criteria]
    )
    title, kind = (str(Path(folder)), "; ".join(parts)), FORMATS[display.format]
    return kind(*title, criteria, about.judge, display.thresholds, rows)


def low_rows(rows: Iterable[Row], display: DisplayOptions) -> list[str]:
    thresholds = display.thresholds
    return [format_line(row_name(row)) for row in rows if thresholds.is_low(row.score)]


def code_for(summary: Summary, display: DisplayOptions, low: Sequence[str]) -> int:
    """The exit code by the rule of `Thresholds`; `low` are the names of rows that are below theirs."""
    failure = display.thresholds.failure(
        summary.score,
        rollouts=summary.rollouts,
        unscored=summary.unscored,
        complete=summary.complete,
        low=low,
    )
    if failure is None:
        return FINE
    if display.thresholds.are_set:
        say(failure.reason, quiet=display.quiet)
    return MISSED if failure.is_missed else BROKEN
