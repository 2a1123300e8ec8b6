"""Sink: where finished rows go, once each."""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from os import PathLike
from typing import TypeAlias

from assay.runs.about import RunAbout
from assay.runs.journal import Journal
from assay.runs.keys import Keys
from assay.runs.progress import Watch
from assay.runs.row import Key, Row
from assay.runs.summary import Summary
from assay.runs.tally import Tally

OnRow: TypeAlias = Callable[[Row], object]
Texts: TypeAlias = Sequence[tuple[str, tuple[str, ...]]]


class Sink:
    """A journal, or a tally where nothing is saved; and whoever wants to see each row."""

    def __init__(self, journal: Journal | None, on_row: OnRow | None, watch: Watch) -> None:
        self._journal = journal
        self._tally = Tally() if journal is None else None
        self._on_row = on_row
        self._watch = watch
        self._done = Keys() if journal is None else journal.done
        self.is_fresh = not self._done
        """Whether nothing was there before."""

    def has(self, key: Key) -> bool:
        """Whether a row is finished already; it counts as kept."""
        if key not in self._done:
            return False
        self._watch.kept += 1
        return True

    def take(self, rows: Sequence[Row], texts: Texts) -> None:
        """Save finished rows, with their fields as they were before any check saw them."""
        if any(altered for _, altered in texts):
            rows = [
                replace(row, altered=(*row.altered, *altered)) if altered else row
                for row, (_, altered) in zip(rows, texts, strict=True)
            ]
        if self._journal is not None:
            self._journal.write_all(rows, texts)
        if self._tally is not None:
            for row in rows:
                self._tally.add(row)
        watch = self._watch
        for row in rows:
            watch.fresh += 1
            watch.errors += bool(row.errors)
            watch.unscored += not row.scored
            if self._on_row is not None:
                self._on_row(row)
        watch.tell()

    def finish(self, *, complete: bool) -> Summary:
        self._watch.tell(at_once=True)
        if self._journal is not None:
            return self._journal.finish(complete=complete, models=self._watch.models)
        summary = None if self._tally is None else self._tally.summary()
        assert summary is not None
        return summary.with_fields(complete=complete)


@contextmanager
def opened_sink(
    folder: str | PathLike[str] | None,
    about: RunAbout,
    *,
    resume: bool,
    on_row: OnRow | None,
    watch: Watch,
) -> Generator[Sink]:
    """A sink into a folder; without one nothing is saved."""
    if folder is None:
        yield Sink(None, on_row, watch)
        return
    with Journal.open(folder, about, resume=resume) as journal:
        journal.count_spending(watch.ledger)
        yield Sink(journal, on_row, watch)
