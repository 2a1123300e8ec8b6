"""Journal: the one writer of a run. What it has written stays written."""

import errno
import os
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Self

from assay.models.budgets import Ledger
from assay.runs.folder import Folder, Lock, RunError, RunRefused, numbered_lines, whole_lines
from assay.runs.jsonable import holdable
from assay.runs.metadata import RunAbout
from assay.runs.row import Row, RowForm, Seen, data_of
from assay.runs.saved_run import Run
from assay.runs.spending import SpendingLog, larger, spent_by
from assay.runs.summary import Summary, Tally

SYNC_SECONDS = 1.0
"""How long a written row may wait for the disk; a power cut can take that much, a kill nothing."""


class Journal:
    """A run's folder, open for writing. One process holds it at a time.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with Journal.open(folder, RunAbout.of("score")) as journal:
    ...         journal.write(Row("0", fields={"completion": "Paris"}))
    ...         journal.finish().rollouts
    1
    """

    @classmethod
    def open(cls, folder: str | os.PathLike[str], about: RunAbout, *, resume: bool = False) -> "Journal":
        """A new run, or with `resume` the one that is there, if there is one.

        Raises `RunError` when the folder holds a run and `resume` was not said, when that is another
        run than `about` says, and when another process is writing it.
        """
        place = Folder.of(folder)
        place.make()
        lock = Lock(place.lock)
        try:
            return cls(place, about, lock, resume=resume)
        except BaseException:
            lock.close()
            raise

    def __init__(self, folder: Folder, about: RunAbout, lock: Lock, *, resume: bool) -> None:
        """Use `Journal.open`."""
        self.path = folder.path
        self.done = Seen()
        """Keys of rows that are finished without an error: not to be done again."""
        self._folder = folder
        self._lock = lock
        self._size = self.rows = 0
        saved = _saved_run(folder)
        if saved is not None and not resume:
            raise RunRefused(f"{folder.path} holds a run already: go on with it by resuming, or name another folder")
        if saved is not None:
            _refuse_another(folder, saved, about)
            about = saved.with_fields(resumed=saved.resumed + 1, options=about.options)
            self._size = whole_lines(folder.rollouts)
            self._count_done()
        self.about = about
        self._form = RowForm(about.criteria)
        self._tally = Tally(alone=True) if saved is None else None
        folder.write_about(about)
        if saved is None:
            folder.spending.unlink(missing_ok=True)
        self._file = _opened(folder, self._size)
        self._sync = _Sync(self._file)
        self._spending: SpendingLog | None = None

    def count_spending(self, ledger: Ledger) -> None:
        """Keep what this ledger counts from now on as spending of the run, whatever becomes of its rows."""
        self._spending = SpendingLog(self._folder.spending, ledger)

    def _count_done(self) -> None:
        for where, _, line in numbered_lines(self._folder.rollouts, self._size):
            data = data_of(line, where)
            self.rows += 1
            if not data.get("errors"):
                self.done.add((data["example"], data["sample"]))

    def write(self, row: Row) -> None:
        """Append one row. On return it survives a kill; a row that failed may be written again later.

        Raises `RunError` when the disk is full; what was written before is safe.
        """
        self.write_all([row])

    def write_all(self, rows: Sequence[Row], fields: Sequence[tuple[str, tuple[str, ...]]] | None = None) -> None:
        """Append some rows at once. Give their `holdable` fields when those were made before."""
        texts = [holdable(row.fields) for row in rows] if fields is None else fields
        pairs = zip(rows, texts, strict=True)
        self._append(b"".join([self._form.written(row, text) for row, text in pairs]), len(rows))
        if self._tally is not None:
            for row, (_, altered) in zip(rows, texts, strict=True):
                self._tally.add(replace(row, altered=altered) if altered else row)

    def _append(self, data: bytes, rows: int) -> None:
        left = memoryview(data)
        try:
            self._sync.refuse_failed()
            while left:
                left = left[os.write(self._file, left) :]
        except OSError as error:
            self._take_back()
            raise RunError(
                f"{self._folder.rollouts} cannot be written ({error.strerror}): {self.rows:,} rows are "
                "safe in it; see to the disk and resume, which goes on from there"
            ) from None
        except BaseException:
            self._take_back()
            raise
        self._size += len(data)
        self.rows += rows
        self._sync.soon()

    def _take_back(self) -> None:
        """Leave no half line behind."""
        try:
            os.ftruncate(self._file, self._size)
        except OSError:
            # Then the half line stays, and is dropped when the run is opened again.
            return

    def finish(self, *, complete: bool = True, models: Iterable[str] = ()) -> Summary:
        """Work out the summary and write it to summary.json, and the ids of the `models` to run.json."""
        self._bring_to_disk()
        self._meet(models)
        summary = None if self._tally is None else self._tally.summary()
        if summary is None:
            summary = Run(self._folder, self.about).work_out()
        spent = larger(summary.spent, spent_by(self._folder.spending))
        summary = summary.with_fields(complete=complete, spent=spent)
        summary.save(self._folder.summary_json, self._size)
        return summary

    def _meet(self, models: Iterable[str]) -> None:
        about = self.about.having_met(models)
        if about is not self.about:
            self.about = about
            self._folder.write_about(about)

    def close(self) -> None:
        """Bring everything to the disk and let go of the folder."""
        if self._file < 0:
            return
        try:
            if self._spending is not None:
                self._spending.close()
            self._bring_to_disk()
        finally:
            file, self._file = self._file, -1
            os.close(file)
            self._lock.close()

    def _bring_to_disk(self) -> None:
        try:
            self._sync.now()
        except OSError as error:
            raise RunError(
                f"{self._folder.rollouts} may not have reached the disk ({error.strerror}): see to the "
                "disk and resume, which does again what is missing"
            ) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def _saved_run(folder: Folder) -> RunAbout | None:
    """The run in a folder; None when there is none, or one that has no row."""
    if not folder.has_rows:
        return None
    if not folder.run_json.exists():
        raise RunRefused(f"{folder.rollouts} belongs to no run: name another folder")
    return folder.about()


def _opened(folder: Folder, size: int) -> int:
    """The file of rows, cut off where its last whole line ends."""
    try:
        if folder.rollouts.exists() and folder.rollouts.stat().st_size > size:
            os.truncate(folder.rollouts, size)
        return os.open(folder.rollouts, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    except OSError as error:
        raise RunError(f"{folder.rollouts} cannot be opened ({error.strerror})") from None


def _refuse_another(folder: Folder, saved: RunAbout, about: RunAbout) -> None:
    different = saved.differences(about)
    if different:
        raise RunRefused(
            f"{folder.path} holds another run, which cannot be gone on with: {'; '.join(different)}. "
            "Give what it was started with, or name another folder"
        )


class _Sync:
    """Brings what was written to the disk, about once a second and beside the work."""

    def __init__(self, file: int) -> None:
        self._file = file
        self._last = time.monotonic()
        self._thread: threading.Thread | None = None
        self._error: OSError | None = None

    def soon(self) -> None:
        """Start, when it is time and nothing is under way."""
        busy = self._thread is not None and self._thread.is_alive()
        if not busy and time.monotonic() - self._last >= SYNC_SECONDS:
            self._last = time.monotonic()
            self._thread = threading.Thread(target=self._run, name="assay-journal", daemon=True)
            self._thread.start()

    def now(self) -> None:
        """Wait until all of it is there."""
        if self._thread is not None:
            self._thread.join()
        self._run()
        self.refuse_failed()

    def refuse_failed(self) -> None:
        """Raise what went wrong beside the work."""
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _run(self) -> None:
        try:
            os.fsync(self._file)
        except OSError as error:
            # Devices and some network disks cannot; a full disk must be heard of.
            if error.errno not in (errno.EINVAL, errno.ENOTSUP):
                self._error = error
