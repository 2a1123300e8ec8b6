"""Run the work of a command: show progress, hear Ctrl-C, keep to the budget, print, and give the exit code."""

import _thread
import asyncio
import logging
import shlex
import signal
import sys
import threading
from collections.abc import Callable, Coroutine, Generator, Iterable, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeVar

import click

from assay.cache import default_place
from assay.cli.formats import FOR_PEOPLE, Format, RowText, format_of, row_name
from assay.cli.options import DisplayOptions, JudgeOptions, OutputOptions
from assay.cli.root import BROKEN, FINE, INTERRUPTED, MISSED
from assay.cli.terminal import counted, on_one_line, shown_dry_run
from assay.concurrency import run_sync
from assay.errors import AssayError
from assay.graders import Autograder
from assay.models import Ledger, budget, dry_run
from assay.runs import Row, Run, RunAbout, Summary
from assay.runs.folder import Folder
from assay.runs.metadata import judge_name
from assay.runs.summary import Tally

if TYPE_CHECKING:
    from assay.runs.pipeline import Progress


Result = TypeVar("Result")

PATIENCE = 1.0
"""Seconds that work may take to hear that it is cancelled."""


class Stopping:
    """Whether somebody wants the work to end. Ask it between two pieces of work."""

    def __init__(self) -> None:
        self.heard = 0
        """How often Ctrl-C was heard."""
        self._cancel: Callable[[], object] | None = None
        # A check that computes holds up the loop, which then hears of no cancelling.
        self._impatience = threading.Timer(PATIENCE, _interrupt_main)
        self._impatience.daemon = True

    def __call__(self) -> bool:
        return self.heard > 0

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """The result of the work. When it is stopped at once, a `KeyboardInterrupt`."""

        async def cancellable() -> Result:
            loop, task = asyncio.get_running_loop(), asyncio.current_task()
            assert task is not None
            self._cancel = lambda: loop.call_soon_threadsafe(task.cancel)
            try:
                return await work
            finally:
                self._cancel = None
                self._impatience.cancel()

        try:
            return asyncio.run(cancellable())
        except asyncio.CancelledError:
            raise KeyboardInterrupt from None

    def hear(self, number: int, frame: FrameType | None) -> None:
        """Take note of a Ctrl-C. The second one cancels the work, and what does not hear that is broken off."""
        self.heard += 1
        if self.heard == 1:
            line = "finishing what is under way; Ctrl-C again stops at once"
            # A signal may come in the middle of another print, which cannot be interrupted by this one.
            with suppress(RuntimeError):
                print(f"\n{line}" if sys.stderr.isatty() else line, file=sys.stderr, flush=True)
        elif self.heard == 2 and self._cancel is not None:
            self._cancel()
            self._impatience.start()
        else:
            raise KeyboardInterrupt


def _interrupt_main() -> None:
    """One more Ctrl-C, which wakes the main thread where the system can."""
    main = threading.main_thread().ident
    if hasattr(signal, "pthread_kill") and main is not None:
        signal.pthread_kill(main, signal.SIGINT)
    else:
        _thread.interrupt_main()


@contextmanager
def stoppable() -> Generator[Stopping]:
    """Hear Ctrl-C inside the block; afterwards whoever heard it before hears it again."""
    stopping = Stopping()
    if threading.current_thread() is not threading.main_thread():
        yield stopping  # only the main thread may hear signals
        return
    before = signal.signal(signal.SIGINT, stopping.hear)
    try:
        yield stopping
    finally:
        signal.signal(signal.SIGINT, before)


EVERY = 15.0
"""Seconds between two lines where nobody watches."""

Tell = Callable[["Progress"], None]


@contextmanager
def shown_progress(noun: str, *, quiet: bool) -> Generator[Tell | None]:
    """What is to be told how far it is; None when nobody wants to know."""
    if quiet:
        yield None
    elif sys.stderr.isatty():
        with _bar(noun) as tell:
            yield tell
    else:
        yield Lines(noun).tell


class Lines:
    """Prints a line when the last one is old. A short run prints none."""

    def __init__(self, noun: str) -> None:
        self.noun = noun
        self.last = 0.0

    def tell(self, progress: "Progress") -> None:
        if progress.seconds - self.last >= EVERY:
            self.last = progress.seconds
            print(shown(progress, self.noun), file=sys.stderr, flush=True)


def shown(progress: "Progress", noun: str) -> str:
    """How far it is, what went wrong, what it took, and how long it will be."""
    of = "" if progress.total is None else f" of {progress.total:,}"
    parts = [f"{progress.done:,}{of} {noun}", *_details(progress)]
    return ", ".join(parts)


def _details(progress: "Progress") -> list[str]:
    parts: list[str] = []
    if progress.errors:
        parts.append(counted(progress.errors, "error"))
    if progress.hits:
        parts.append(f"{progress.hits:,} from the cache")
    if progress.calls:
        parts += [counted(progress.calls, "call"), counted(progress.tokens, "token")]
    if progress.cost:
        parts.append(f"${progress.cost:.4f}{' at least' if progress.unpriced else ''}")
    if progress.eta is not None and progress.total != progress.done:
        parts.append(f"about {timedelta(seconds=round(progress.eta))} left")
    return parts


@contextmanager
def _bar(noun: str) -> Generator[Tell]:
    """A bar by rich; without it, a line that is written over."""
    try:
        import rich.console
        import rich.progress
    except ModuleNotFoundError:
        yield lambda progress: _over(shown(progress, noun))
        _over("")
        return
    console = rich.console.Console(stderr=True)
    columns: list[Any] = [
        rich.progress.BarColumn(bar_width=24),
        rich.progress.TextColumn("{task.description}", markup=False),
    ]
    with rich.progress.Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(f"0 {noun}", total=None)

        def tell(progress: "Progress") -> None:
            said = shown(progress, noun)
            bar.update(task, completed=progress.done, total=progress.total, description=said)

        yield tell


def _over(line: str) -> None:
    print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)


@contextmanager
def quiet_log() -> Generator[None]:
    """Errors stand on the lines that are printed, so the log need not say them again."""
    logger = logging.getLogger("assay")
    logger.addFilter(_no)
    try:
        yield
    finally:
        logger.removeFilter(_no)


def _no(record: logging.LogRecord) -> bool:
    return False


def code_for(summary: Summary, display: DisplayOptions, low: Sequence[str]) -> int:
    """The exit code by the rule of `Thresholds`, whose reason is said where there is a threshold.

    `low` are the names that `low_rows` gives.
    """
    thresholds = display.thresholds
    failure = thresholds.failure(
        summary.score, rollouts=summary.rollouts, unscored=summary.unscored, complete=summary.complete, low=low
    )
    if failure is None:
        return FINE
    if thresholds.are_set:
        say(failure.reason, display)
    return MISSED if failure.is_missed else BROKEN


def low_rows(rows: Iterable[Row], display: DisplayOptions) -> list[str]:
    """The names of the rows that are below the threshold for every rollout."""
    thresholds = display.thresholds
    if thresholds.fail_rollout_under is None:
        return []
    return [on_one_line(row_name(row)) for row in rows if thresholds.is_low(row.score)]


def say(line: str, display: DisplayOptions) -> None:
    """A line on standard error, unless nobody wants to hear."""
    if not display.quiet:
        print(line, file=sys.stderr, flush=True)


def say_cost(work: Coroutine[Any, Any, Result], what: Callable[[Result], str]) -> int:
    """Say what the work would take, and ask no model. `what` names what was looked at."""
    with dry_run() as spent:
        result = run_sync(work)
    print(f"{what(result)} would take {shown_dry_run(spent)}")
    return FINE


def kept_answers(judging: JudgeOptions) -> str:
    """Where answers are kept, so that the same command does not ask for them again."""
    if judging.no_cache:
        return ""
    place = judging.cache or default_place()
    return f"; what was answered is kept in {place}, so the same command goes on from there"


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
class Runner:
    """One sitting of a run."""

    title: str
    criteria: list[str]
    judging: JudgeOptions
    output: OutputOptions
    display: DisplayOptions
    streamed_low: list[str] = field(default_factory=list[str])
    """Rollouts of a run that is not kept that are below the threshold for every rollout."""

    def run(self, work: Work, grader: Autograder | None, about: RunAbout | None = None) -> int:
        """Do the work, print what came of it, and give the exit code; in a dry run, say what it would take.

        `about` is what a run that begins now is; where it is not given, it is read from the folder.
        """
        if self.judging.dry_run:
            with quiet_log():
                return say_cost(work(Conditions(grader)), lambda s: counted(s.rollouts, "rollout"))
        refuse_taken(self.output)
        with stoppable() as stopping, quiet_log(), self._budget() as spent:
            try:
                summary = self._done(work, grader, stopping, about)
            except KeyboardInterrupt:
                self._say(f"stopped at once{self._how_to_go_on()}")
                raise
        self._say_what_is_left(summary, spent)
        if not summary.complete:
            self._say(f"stopped after {counted(summary.rollouts, 'rollout')}{self._how_to_go_on()}")
            return INTERRUPTED
        return code_for(summary, self.display, self._low())

    def _budget(self) -> AbstractContextManager[Ledger]:
        """The budget is for the whole run, however often it is resumed."""
        dollars, folder = self.judging.budget, self.output.folder
        if dollars is None or folder is None or not self.output.resume:
            return budget(dollars=dollars)
        if not Folder.of(folder).run_json.exists():
            return budget(dollars=dollars)
        run = Run.open(folder)
        return budget(dollars=dollars, spent=run.spent().cost or 0.0, rollout=run.dearest())

    def _done(self, work: Work, grader: Autograder | None, stopping: Stopping, about: RunAbout | None) -> Summary:
        conditions = Conditions(grader, self.output.folder, self.output.resume, stopping=stopping)
        if self.output.folder is None:
            return self._streamed(work, conditions)
        summary = self._watched(work, conditions)
        self._show_saved(self.output.folder, summary, about)
        return summary

    def _streamed(self, work: Work, conditions: Conditions) -> Summary:
        """Print every rollout as soon as it and those before it are there, since nothing is kept of it."""
        grader = conditions.grader
        format = format_of(
            self.display.format,
            self.title,
            criteria=self.criteria,
            judge=None if grader is None else judge_name(grader),
            thresholds=self.display.thresholds,
        )
        tally = Tally()
        in_order = InOrder(format.row)

        def print_row(row: Row) -> None:
            tally.add(row)
            self.streamed_low.extend(low_rows([row], self.display))
            in_order.take(row)

        format.begin(None)
        try:
            summary = self._watched(work, replace(conditions, on_row=print_row))
        except (AssayError, KeyboardInterrupt):
            in_order.end()
            so_far = tally.summary()
            # A document has to be ended; to people, nothing at all is nothing to tell.
            if so_far and (so_far.rollouts or self.display.format not in FOR_PEOPLE):
                format.end(so_far.with_fields(complete=False))
            raise
        in_order.end()
        format.end(summary)
        return summary

    def _show_saved(self, folder: str, summary: Summary, about: RunAbout | None) -> None:
        """Print a run that was just saved."""
        # A run that goes on is what it was when it began, which only its folder knows.
        if about is None or self.output.resume:
            about = Run.open(folder).about
        format = saved_run_format(folder, about, self.display, None)
        format.begin(summary)
        if self.display.format not in FOR_PEOPLE:
            for row in Run.open(folder).rows():
                format.row(row)
        format.end(summary)

    def _low(self) -> list[str]:
        if self.output.folder is None or self.display.fail_rollout_under is None:
            return self.streamed_low
        return low_rows(Run.open(self.output.folder).rows(), self.display)

    def _watched(self, work: Work, conditions: Conditions) -> Summary:
        with shown_progress("rollouts", quiet=self.display.quiet) as tell:
            return conditions.stopping.run(work(replace(conditions, on_progress=tell)))

    def _say_what_is_left(self, summary: Summary, spent: Ledger) -> None:
        out = spent.errors["BudgetExceeded"]
        if out:
            self._say(f"the budget ran out before {counted(out, 'call')} could be made")
        if summary.unscored and self.output.folder is not None:
            self._say(f"{summary.unscored:,} unscored{self._how_to_go_on()}")

    def _how_to_go_on(self) -> str:
        if self.output.folder is None:
            return "; nothing is kept without -o FOLDER"
        return f"; go on with: {shlex.join(_resuming())}"

    def _say(self, line: str) -> None:
        say(line, self.display)


def saved_run_format(folder: str, about: RunAbout, display: DisplayOptions, rows: RowText | None) -> Format:
    """The format that prints the run of a folder."""
    return format_of(
        display.format,
        str(Path(folder)),
        about=_said(about),
        criteria=[criterion.name for criterion in about.criteria],
        judge=about.judge,
        thresholds=display.thresholds,
        rows=rows,
    )


def _said(about: RunAbout) -> str:
    """What a run is, in a few words."""
    parts = [f"{about.kind}, {about.created}"]
    if about.rubric is not None:
        parts.append(f"rubric {about.rubric.name or about.rubric.hash[:12]}")
    parts += [f"model {about.model}"] if about.model else []
    parts += [f"judge {about.judge}"] if about.judge else []
    return "; ".join(parts)


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


def refuse_taken(output: OutputOptions) -> None:
    """Refuse a folder without a name, or one that has a run, unless it is to be gone on with."""
    if output.folder is None:
        if output.resume:
            raise click.UsageError("--resume goes on with a run: name its folder with -o")
        return
    if not output.folder:
        raise click.UsageError("--output is empty: name a folder")
    folder = Folder.of(output.folder)
    if not output.resume and folder.has_rows and folder.run_json.exists():
        raise click.UsageError(
            f"{output.folder} holds a run already: give --resume to go on with it, or name another folder"
        )


def _resuming() -> list[str]:
    """What was typed, with the word that goes on with it."""
    typed = click.get_current_context().find_root().meta["assay.arguments"]
    return ["assay", *typed, *([] if "--resume" in typed else ["--resume"])]
