"""Run the work of a command: show progress, handle Ctrl-C, and keep to the budget."""

from __future__ import annotations

import logging
import signal
import sys
import threading
from collections.abc import Callable, Coroutine, Generator
from contextlib import AbstractContextManager, contextmanager, suppress
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from assay import runs
from assay.cli.base_command import EXIT_OK, print_note
from assay.errors import AssayError
from assay.wording import format_count, format_dollars

if TYPE_CHECKING:
    from assay.cli.options import JudgingOptions
    from assay.models import Ledger
    from assay.runs.pipeline import OnProgress

Result = TypeVar("Result")
Work: TypeAlias = Callable[["OnProgress | None", "Interrupt"], Coroutine[Any, Any, Result]]


def run_command(
    work: Work[Result],
    *,
    options: JudgingOptions,
    quiet: bool,
    noun: str,
    describe_size: Callable[[Result], str],
    print_result: Callable[[Result, Ledger], int],
    on_failure: Callable[[BaseException], None] | None = None,
    budget: AbstractContextManager[Ledger] | None = None,
    checks_interrupt: bool = True,
    saved_in: str | None = None,
) -> int:
    """Run the work of a command and return its exit code, which `print_result` returns.

    - `work` gets a function that shows progress, and an `Interrupt`. Work that `checks_interrupt`
      finishes what it has started after the first Ctrl-C, and is cancelled by the second. Other
      work is cancelled by the first.
    - `noun` is what progress counts: "rollouts".
    - `budget` is by default a new one of `options.budget` dollars.
    - `saved_in` is where finished rows are saved; None if they are not.
    - `on_failure` is called with the error if the work fails or is cancelled.

    A dry run calls no model: it prints what the work, whose size is described by `describe_size`,
    would take.
    """
    from assay import models
    from assay.concurrency import run_sync

    with _silence_log():
        if options.dry_run:
            with models.dry_run() as estimate:
                result = run_sync(work(None, Interrupt()))
            print(f"{describe_size(result)} would take {_describe_estimate(estimate)}")
            return EXIT_OK
        if budget is None:
            budget = models.budget(dollars=options.budget, calls=options.max_calls)
        with budget as spent:
            try:
                with show_progress(noun, quiet=quiet) as on_progress:
                    result = run_interruptibly(
                        work,
                        on_progress,
                        noun=noun,
                        saved_in=saved_in,
                        checks_interrupt=checks_interrupt,
                    )
            except (AssayError, KeyboardInterrupt) as error:
                if on_failure is not None:
                    on_failure(error)
                raise
            return print_result(result, spent)


@contextmanager
def _silence_log() -> Generator[None]:
    """Keep errors out of the log, since they are printed with the rows."""
    logger = logging.getLogger("assay")
    was_disabled = logger.disabled
    logger.disabled = True
    try:
        yield
    finally:
        logger.disabled = was_disabled


def _describe_estimate(estimate: Ledger) -> str:
    """Describe the calls of a dry run: what is likely first, and then the worst case on a line."""
    parts = [format_count(estimate.calls, "call")]
    if estimate.hits:
        parts.append(f"{format_count(estimate.hits, 'verdict')} from the cache")
    if not estimate.calls:
        return ", ".join(parts)
    tokens = estimate.usage.prompt + estimate.usage.completion
    parts.append(f"about {_round_tokens(tokens)} tokens")
    maximum = format_count(estimate.most_calls, "call")
    if estimate.unpriced:
        parts.append("cost unknown")
    else:
        about = "about " if estimate.cost else ""
        parts.append(f"{about}{format_dollars(estimate.cost)}")
        maximum += f" and {format_dollars(estimate.most_cost)}"
    return (
        f"{', '.join(parts)}\n"
        f"at most {maximum}, if every call and every unreadable reply is retried"
    )


def _round_tokens(tokens: int) -> str:
    """Return a number of tokens in two digits: `37,000`, or `0.9 M`."""
    if tokens >= 100_000:
        return f"{tokens / 1e6:.2g} M"
    digits = max(0, len(str(tokens)) - 2)
    return f"{round(tokens, -digits):,}"


def print_budget_note(spent: Ledger, advice: str = "", *, quiet: bool) -> None:
    """Say how many calls failed, and how many were not made because the budget was used up."""
    failed_requests = spent.requests - spent.calls
    if failed_requests > 0:
        print_note(
            f"{format_count(spent.requests, 'request')}, {spent.calls:,} answered",
            quiet=quiet,
        )
    refused_calls = spent.errors["BudgetExceeded"]  # a Counter of errors by their class
    if refused_calls:
        print_note(
            f"the budget ran out before {format_count(refused_calls, 'call')} could be made: what "
            "was scored is not a random sample, so its mean is biased"
            f"{advice}",
            quiet=quiet,
        )


def describe_kept_answers(options: JudgingOptions) -> str:
    """Return the end of a sentence that says where answers are kept; empty without a cache."""
    from assay.cache import default_place

    if options.no_cache:
        return ""
    return (
        f"; answers so far are kept in {options.cache or default_place()}, so the same command "
        "continues from there"
    )


class Interrupt:
    """Counts how often Ctrl-C was pressed. Work asks `is_requested` between two rollouts."""

    def __init__(self, noun: str = "rollouts", saved_in: str | None = None) -> None:
        """`saved_in` is where finished rollouts are saved; None if they are not."""
        self.count = 0
        self.progress = runs.Progress(0)  # the latest, at most a second old
        self.rows = 0  # rows that were finished since the work started, if the work counts them
        self._noun = noun
        self._saved_in = saved_in

    def is_requested(self) -> bool:
        return self.count > 0

    def describe_work(self) -> str:
        """Say what is still running, and what is saved."""
        running = self.progress.describe_waiting()
        parts = [
            f"finishing what has started ({running})" if running else "finishing what has started"
        ]
        if self._saved_in is not None:
            parts.append(self.describe_saved())
        return "; ".join(parts)

    def describe_saved(self) -> str:
        """Say how many rollouts are saved, and where; empty if none are saved."""
        if self._saved_in is None:
            return ""
        # The progress may be a second old; `rows` is up to date, but not all work counts them.
        done_count = max(self.progress.done, self.progress.kept + self.rows)
        if not done_count:
            return "nothing is saved yet"
        done = f"{done_count:,}"
        if self.progress.total is not None:
            done += f" of {self.progress.total:,}"
        return f"{done} {self._noun} are saved in {self._saved_in}"


def run_interruptibly(
    work: Work[Result],
    on_progress: OnProgress | None,
    *,
    noun: str = "rollouts",
    saved_in: str | None = None,
    checks_interrupt: bool = True,
) -> Result:
    """Run the work and return its result. Raises `KeyboardInterrupt` if it was cancelled.

    With `checks_interrupt`, the first Ctrl-C only sets the `Interrupt`, and the second cancels the
    work. Otherwise the first cancels it.
    """
    import asyncio  # slow to load

    interrupt = Interrupt(noun, saved_in)

    def note_progress(progress: runs.Progress) -> None:
        interrupt.progress = progress
        if on_progress is not None:
            on_progress(progress)

    async def run() -> Result:
        # Only the main thread can handle signals.
        is_main_thread = threading.current_thread() is threading.main_thread()
        if not checks_interrupt or not is_main_thread:
            return await work(note_progress, interrupt)
        with _handle_interrupts(interrupt):
            return await work(note_progress, interrupt)

    return asyncio.run(run())


@contextmanager
def _handle_interrupts(interrupt: Interrupt) -> Generator[None]:
    """Count the first Ctrl-C; let asyncio cancel the work at the second."""
    # Set by asyncio.run: it cancels the main task. Not callable if Ctrl-C is ignored.
    cancel_work: Any = signal.getsignal(signal.SIGINT)

    def handle(number: int, frame: FrameType | None) -> None:
        """Called at every Ctrl-C, in place of Python's own handler."""
        interrupt.count += 1
        if interrupt.count == 1:
            _print_interrupted(interrupt)
            return
        if interrupt.count == 2:
            # A check that computes blocks the event loop, so it never notices that it is
            # cancelled. Raise KeyboardInterrupt in it one second later.
            signal.signal(signal.SIGALRM, signal.default_int_handler)
            signal.alarm(1)
        if not callable(cancel_work):
            raise KeyboardInterrupt
        cancel_work(number, frame)

    signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGINT, cancel_work)


def _print_interrupted(interrupt: Interrupt) -> None:
    line = f"{interrupt.describe_work()}; press Ctrl-C again to stop at once"
    if sys.stderr.isatty():
        line = f"\n{line}"
    # The signal may arrive during another print, which fails then.
    with suppress(RuntimeError):
        print(line, file=sys.stderr, flush=True)


PROGRESS_SECONDS = 15  # time between two lines of progress where there is no terminal


@contextmanager
def show_progress(noun: str, *, quiet: bool) -> Generator[OnProgress | None]:
    """Yield a function that shows progress on standard error; None if `quiet`.

    A terminal shows a bar. Elsewhere a line is printed every 15 seconds, and when nothing has
    finished for ten seconds.
    """
    if quiet:
        yield None
    elif sys.stderr.isatty():
        with _show_bar(noun) as on_progress:
            yield on_progress
    else:
        yield _make_line_printer(noun)


def _make_line_printer(noun: str) -> OnProgress:
    """Return a function that prints the progress, except when it was printed a moment ago."""
    last_time = 0.0
    was_waiting = False

    def print_line(progress: runs.Progress) -> None:
        """Print the progress if it starts to wait, or if the last line is 15 seconds old."""
        nonlocal last_time, was_waiting
        starts_waiting = progress.is_waiting and not was_waiting
        was_waiting = progress.is_waiting
        if starts_waiting or progress.seconds - last_time >= PROGRESS_SECONDS:
            last_time = progress.seconds
            print(progress.describe(noun), file=sys.stderr, flush=True)

    return print_line


@contextmanager
def _show_bar(noun: str) -> Generator[OnProgress]:
    """Show a progress bar inside the block, and yield the function that updates it."""
    import rich.console
    import rich.progress

    progress_bar = rich.progress.Progress(
        rich.progress.BarColumn(bar_width=24),
        rich.progress.TextColumn("{task.description}", markup=False),
        console=rich.console.Console(stderr=True),
        transient=True,
    )
    with progress_bar:
        task = progress_bar.add_task(f"0 {noun}", total=None)

        def update_bar(progress: runs.Progress) -> None:
            progress_bar.update(
                task,
                completed=progress.done,
                total=progress.total,
                description=progress.describe(noun),
            )

        yield update_bar
