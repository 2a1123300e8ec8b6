"""Journal writes a run's folder; Run reads it, also while it is being written, and makes frames and figures of it."""

import errno
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from operator import itemgetter
from typing import Any

from assay.aggregation import group_by_key
from assay.errors import import_extra
from assay.models.budgets import Ledger
from assay.runs.export import Record, make_frame, make_record
from assay.runs.folder import (
    Folder,
    Lock,
    RunError,
    RunRefused,
    numbered_lines,
    refuse_to_resume,
    whole_lines,
)
from assay.runs.jsonable import holdable
from assay.runs.metadata import RunAbout
from assay.runs.row import Key, Row, RowForm, Seen, data_of, opening_of
from assay.runs.spending import Spending, SpendingLog, larger, spent_by
from assay.runs.summary import Summary, Tally

SYNC_SECONDS = 1.0  # how long a written row may wait for the disk; a power cut can take that much, a kill nothing


class Journal(AbstractContextManager["Journal"]):
    """A run's folder, open for writing. One process holds it at a time.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with Journal.open(folder, RunAbout.of("score")) as journal:
    ...         journal.write(Row("0", fields={"completion": "Paris"}))
    ...         journal.finish().rollouts
    1
    """

    @classmethod
    def open(
        cls, folder: str | os.PathLike[str], about: RunAbout, *, resume: bool = False
    ) -> "Journal":
        """A new run, or with `resume` the one that is there, if there is one.

        Raises `RunError` when the folder holds a run and `resume` was not said, when that is another
        run than `about` says, and when another process is writing it.
        """
        place = Folder(folder)
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
        self.done = Seen()  # keys of rows that are finished without an error: not to be done again
        self._folder = folder
        self._lock = lock
        self._size = self.rows = 0
        self._tally: Tally | None = None
        if not folder.has_rows:
            self._tally = Tally(pass_rule=about.pass_rule, alone=True)
        elif not folder.run_json.exists():
            raise RunRefused(f"{folder.rollouts} belongs to no run: name another folder")
        else:
            about = self._go_on(about, RunAbout.saved(folder), resume=resume)
        self.about = about
        self._form = RowForm(about.criteria, about.version)
        about.save(folder)
        if self._tally is not None:
            folder.spending.unlink(missing_ok=True)
        try:
            # A line that a kill has cut off is dropped.
            if folder.rollouts.exists() and folder.rollouts.stat().st_size > self._size:
                os.truncate(folder.rollouts, self._size)
            self._file = os.open(folder.rollouts, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        except OSError as error:
            raise RunError(f"{folder.rollouts} cannot be opened ({error.strerror})") from None
        # Beside the work: a disk may take its time, and judges are being waited for.
        self._disk = ThreadPoolExecutor(1, thread_name_prefix="assay-journal")
        self._syncing = self._disk.submit(os.fsync, self._file)
        self._synced = time.monotonic()
        self._spending: SpendingLog | None = None

    def _go_on(self, about: RunAbout, saved: RunAbout, *, resume: bool) -> RunAbout:
        """Find out what is done. What the run is about, once it has been resumed."""
        refuse_to_resume(self.path, saved.differences(about), resume=resume)
        self._size = whole_lines(self._folder.rollouts)
        for where, _, line in numbered_lines(self._folder.rollouts, self._size):
            data = data_of(line, where)
            self.rows += 1
            if not data.get("errors"):
                self.done.add((data["example"], data["sample"]))
        return replace(saved, resumed=saved.resumed + 1, options=about.options)

    def count_spending(self, ledger: Ledger) -> None:
        """Keep what this ledger counts from now on as spending of the run, whatever becomes of its rows."""
        self._spending = SpendingLog(self._folder.spending, ledger)

    def write(self, row: Row) -> None:
        """Append one row, as `write_all` does."""
        self.write_all([row])

    def write_all(
        self, rows: Sequence[Row], fields: Sequence[tuple[str, tuple[str, ...]]] | None = None
    ) -> None:
        """Append some rows; on return they survive a kill. One that failed may be written again later.

        Give their `holdable` fields when those were made before. Raises `RunError` when the disk is full.
        """
        texts = [holdable(row.fields) for row in rows] if fields is None else fields
        data = b"".join(
            [self._form.written(row, text) for row, text in zip(rows, texts, strict=True)]
        )
        left = memoryview(data)
        try:
            if time.monotonic() - self._synced >= SYNC_SECONDS and self._syncing.done():
                self._sync()
            while left:
                left = left[os.write(self._file, left) :]
        except BaseException as error:
            # Leave no half line behind; if that fails too, it is dropped when the run is opened again.
            with suppress(OSError):
                os.ftruncate(self._file, self._size)
            if not isinstance(error, OSError):
                raise
            told = f"{self._folder.rollouts} cannot be written ({error.strerror}): {self.rows:,} rows are safe in it"
            raise RunError(
                f"{told}; see to the disk and resume, which goes on from there"
            ) from None
        self._size += len(data)
        self.rows += len(rows)
        if self._tally is not None:
            for row, (_, altered) in zip(rows, texts, strict=True):
                self._tally.add(replace(row, altered=altered) if altered else row)
            if self._tally.repeats:  # from now on something is kept of every example
                self._tally = self._count()

    def tally(self) -> Tally:
        """What all rows come to, once they have reached the disk."""
        self._bring_to_disk()
        return self._count() if self._tally is None else self._tally

    def _count(self) -> Tally:
        tally = Tally(pass_rule=self.about.pass_rule)
        return tally.add_all(Run(self._folder, self.about).rows())

    def finish(self, *, complete: bool = True, models: Iterable[str] = ()) -> Summary:
        """Work out the summary and write it to summary.json, and the ids of the `models` to run.json."""
        summary = self.tally().summary()
        about = self.about.having_met(models)
        if about is not self.about:
            self.about = about
            about.save(self._folder)
        spent = larger(summary.spent, spent_by(self._folder.spending))
        summary = replace(summary, complete=complete, spent=spent)
        summary.save(self._folder.summary_json, self._size)
        return summary

    def close(self) -> None:
        """Bring everything to the disk and let go of the folder."""
        if self._file < 0:
            return
        try:
            if self._spending is not None:
                self._spending.close()
            self._bring_to_disk()
        finally:
            self._disk.shutdown()
            file, self._file = self._file, -1
            os.close(file)
            self._lock.close()

    def _bring_to_disk(self) -> None:
        try:
            self._sync()
            self._sync()
        except OSError as error:
            told = f"{self._folder.rollouts} may not have reached the disk ({error.strerror})"
            raise RunError(
                f"{told}: see to the disk and resume, which does again what is missing"
            ) from None

    def _sync(self) -> None:
        """Send what was written to the disk. Raises what went wrong the last time, for which it waits."""
        before, self._syncing = self._syncing, self._disk.submit(os.fsync, self._file)
        self._synced = time.monotonic()
        error = before.exception()
        # Devices and some network disks cannot; a full disk must be heard of.
        if isinstance(error, OSError) and error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise error

    def __exit__(self, *_: object) -> None:
        self.close()


class Run:
    """A saved run. What it gives is what was finished when it was asked.

    >>> Run.open("no/such/folder")
    Traceback (most recent call last):
    assay.runs.run_store.RunError: there is no folder no/such/folder: name the folder of a run
    """

    def __init__(self, folder: Folder, about: RunAbout) -> None:
        """Use `Run.open`."""
        self.path = folder.path
        self._folder = folder
        self._file = folder.rollouts
        self.about = about
        self._form = RowForm(about.criteria, about.version)
        # The byte where each row begins, its line and its place in the data, as far as was looked.
        self._places: dict[Key, tuple[int, int, int | None]] = {}
        self._failed: set[Key] = set()
        self._read_to = self._lines = 0

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> "Run":
        """The run in a folder. Raises `RunError` when there is none."""
        folder = Folder(path)
        return cls(folder, RunAbout.saved(folder))

    def rows(self) -> Iterator[Row]:
        """Every rollout once, in the order of the data; of one that was done again the last line that did.

        They are read one by one, so a run of any size will do. Rows that do not know their place in the
        data come in the order of the file.
        """
        end = whole_lines(self._file)
        places = self._in_order(end)
        if places is None:
            for where, _, line in numbered_lines(self._file, end):
                yield self._form.read(line, where)
        for place, line, _ in places or ():
            yield self.row_at(place, f"{self._file}:{line}")

    def row(self, example: str, sample: int = 0) -> Row:
        """One row. Raises `KeyError` when there is none."""
        if (str(example), sample) not in self:
            raise KeyError(f"{self.path} has no row for example {str(example)!r}, sample {sample}")
        return self.row_at(self._places[str(example), sample][0])

    def placed_rows(self, start: int = 0) -> Iterator[tuple[int, int, Row]]:
        """Rows from a byte on, each between the bytes where it begins and ends; with those done again."""
        for where, place, line in numbered_lines(self._file, whole_lines(self._file), start=start):
            yield place, place + len(line), self._form.read(line, where)

    def row_at(self, place: int, where: str = "") -> Row:
        """The row that begins at a byte."""
        with self._file.open("rb") as file:
            file.seek(place)
            return self._form.read(file.readline(), where or f"{self._file}, byte {place}")

    def by_example(self) -> Iterator[list[Row]]:
        """The rows of each example together, in the order in which examples first came."""
        self._look_further()
        for example, of_it in group_by_key(self._places).items():
            yield [self.row(example, sample) for sample in sorted(of_it)]

    def __str__(self) -> str:
        return self.summary().page(str(self.path)).text()

    def _repr_html_(self) -> str:
        return self.summary().page(str(self.path)).text("html")

    def to_pandas(self) -> Any:
        """Return a pandas data frame with a row for each rollout; docs/reference/exports.md lists its columns."""
        return self._make_frame("pandas")

    def to_polars(self) -> Any:
        """Return the same as a polars data frame."""
        return self._make_frame("polars")

    def to_arrow(self) -> Any:
        """Return the same as an Arrow table; needs pyarrow."""
        return self._make_frame("pyarrow")

    def records(self) -> Iterator[Record]:
        """Yield every rollout as a flat mapping from column to value, in the order of the data."""
        for row in self.rows():
            yield make_record(row, judge=self.about.judge)

    def _make_frame(self, package: str) -> Any:
        criteria = [criterion.name for criterion in self.about.criteria]
        return make_frame(self.records(), criteria, package)

    def plot(self, agreement: Any = None) -> Any:
        """A matplotlib figure of scores, criteria and agreement; needs matplotlib.

        `agreement` is what `assay.trust.agree(run, labels)` gave. Without it, the judges of a panel are compared.
        """
        return figure(self.rows(), self.summary(), agreement)

    def __len__(self) -> int:
        end = whole_lines(self._file)
        places = self._in_order(end)
        return sum(1 for _ in numbered_lines(self._file, end)) if places is None else len(places)

    def __contains__(self, key: object) -> bool:
        self._look_further()
        return key in self._places

    def summary(self) -> Summary:
        """The saved summary where it tells of every row that is there; else worked out."""
        return self._saved_summary() or self.work_out()

    def _saved_summary(self) -> Summary | None:
        return Summary.saved(self._folder.summary_json, whole_lines(self._file))

    def work_out(self) -> Summary:
        """The summary, from the rows. It is `complete` when the run was finished and nothing came after."""
        saved = self._saved_summary()
        found = Tally(pass_rule=self.about.pass_rule).add_all(self.rows()).summary()
        spent = larger(found.spent, spent_by(self._folder.spending))
        return replace(found, complete=saved is not None and saved.complete, spent=spent)

    def spent(self) -> Spending:
        """What the run has asked of models in all its sittings, also for rollouts that were done again.

        `budget(dollars=2.0, spent=run.spent().cost, rollout=run.dearest())` is a budget for the whole run when
        it is resumed.
        """
        logged = spent_by(self._folder.spending)
        # A journal that another program wrote has no log.
        return logged if logged.calls or logged.hits else self.summary().spent

    def dearest(self) -> float | None:
        """What the dearest rollout that was scored has cost, in dollars; None when none had a cost."""
        costs = (row.spent.cost for row in self.rows() if row.scored)
        return max((cost for cost in costs if cost), default=None)

    def _look_further(self) -> None:
        """Note where each row stands, from where the last look ended."""
        end = whole_lines(self._file)
        rest = numbered_lines(self._file, end, start=self._read_to, number=self._lines)
        for where, place, line in rest:
            self._lines += 1
            key, number, has_errors = opening_of(line, where)
            if key not in self._places or key in self._failed or not has_errors:
                self._places[key] = (place, self._lines, number)
                (self._failed.add if has_errors else self._failed.discard)(key)
        self._read_to = end

    def _in_order(self, end: int) -> Sequence[tuple[int, int, int | None]] | None:
        """Where each row stands, in the order of the data, each key once; None when the file is just so.

        Most are. Rows that were waited for stand in it as they were finished, and what was done again further down.
        """
        last, seen = -1, Seen()
        for where, _, line in numbered_lines(self._file, end):
            key, number, _ = opening_of(line, where)
            is_next = seen.add(f"{key[1]} {key[0]}") if number is None else number > last
            if not is_next:
                break
            last = last if number is None else number
        else:
            return None
        self._look_further()
        places = list(self._places.values())
        if not any(number is None for _, _, number in places):
            places.sort(key=itemgetter(2))
        return places


def figure(rows: Iterable[Row], summary: Summary, agreement: Any = None) -> Any:
    """A figure of matplotlib: how scores are spread, how each criterion came out, and how far judges agree.

    `agreement` is what `assay.trust.agree` gave for the run; without it, the agreement between the judges of a
    panel is shown where several were asked.
    """
    pyplot = import_extra("matplotlib.pyplot", "a figure of a run")
    scores: list[float] = []
    apart: dict[str, list[float]] = {}
    for row in rows:
        if row.score is not None:
            scores.append(row.score)
        for name, distance in row.report.disagreements.items():
            apart.setdefault(name, []).append(distance)
    if not scores and not summary.criteria:
        raise RunRefused("the run has no rows, so there is nothing to draw: score something first")
    agreed: dict[str, tuple[float | None, ...]] = {
        n: (1 - sum(d) / len(d),) for n, d in apart.items()
    }
    if agreement is not None:
        kappas = {each.name: each.judge.kappa for each in agreement.criteria}
        agreed = {name: (kappa.value, kappa.low, kappa.high) for name, kappa in kappas.items()}
    bars = {name: (c.value.mean, c.value.low, c.value.high) for name, c in summary.criteria.items()}
    height = max(2.6, 0.9 + 0.32 * max(len(bars), len(agreed)))
    made = pyplot.figure(figsize=(13 if agreed else 9, height), layout="constrained")
    pyplot.close(
        made
    )  # or a notebook would show it twice: as the result, and as the figure under way
    axes = made.subplots(1, 3 if agreed else 2)
    axes[0].hist(
        scores, bins=20, range=(min(0.0, *scores, 0.0), max(1.0, *scores, 1.0)), color="#4c78a8"
    )
    unscored = f", {summary.unscored:,} unscored" if summary.unscored else ""
    axes[0].set(title=f"{len(scores):,} scored{unscored}", xlabel="score", ylabel="rollouts")
    _bars(axes[1], bars, "Criteria", "mean value with its 95 % interval")
    if agreed:
        measure = "1 − disagreement of judges" if agreement is None else "kappa with people"
        _bars(axes[2], agreed, "Agreement", measure)
    return made


def _bars(
    axes: Any, bars: Mapping[str, tuple[float | None, ...]], title: str, measure: str
) -> None:
    """Horizontal bars with their intervals, the first on top. What has no value has no bar."""
    known = {name: bars[name] for name in reversed(list(bars)) if bars[name][0] is not None}
    names = [name if len(name) <= 32 else f"{name[:31]}…" for name in known]
    for place, ends in enumerate(known.values()):
        axes.barh(place, ends[0], color="#72b7b2")
        if len(ends) == 3 and None not in ends:
            axes.plot(ends[1:], [place, place], color="#333333", linewidth=1.5)
    axes.set_yticks(range(len(names)), names)
    axes.set(title=title, xlabel=measure)
