"""Progress on standard error: a bar where somebody watches, a line now and then where nobody does."""

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from assay.cli.showing import counted

if TYPE_CHECKING:
    from assay.runs.pipeline import Progress

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
