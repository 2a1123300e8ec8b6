"""Journal writes a run; Run reads it, even while it is being written, and exports it."""

import json
import os
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from assay.models.budgets import Ledger
from assay.runs.export import Record, make_frame, make_record
from assay.runs.figure import draw_figure
from assay.runs.jsonable import (
    SerializedFields,
    as_ascii,
    escape_surrogates,
    serialize_fields,
    to_jsonable,
)
from assay.runs.metadata import RunAbout
from assay.runs.row import Key, Row, RowForm
from assay.runs.run_errors import RunError, RunRefused, explain_damage
from assay.runs.run_file import RunFile
from assay.runs.run_schema import FILE_NAME, LARGEST_INTEGER, RolloutData
from assay.runs.run_writer import RunWriter
from assay.runs.spending import Spending, SpendingLog, choose_larger, read_spending
from assay.runs.summary import Summary, Tally


class Journal(AbstractContextManager["Journal"]):
    """A run that is open for writing. One process at a time can have it open.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with Journal.open(folder, RunAbout.of("score")) as journal:
    ...         journal.write(Row("0", fields={"completion": "Paris"}))
    ...         journal.finish().rollouts
    1
    """

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        about: RunAbout,
        *,
        resume: bool = False,
        allow_changes: bool = False,
        has_parts: bool = False,
    ) -> "Journal":
        """Start a run in a folder or file; with `resume`, continue the one that is there, if any.

        With `allow_changes` it is continued even if the git commit or a version has changed.
        `has_parts` says that several workers have already saved rows of this run, in files of their
        own, so there is a run to continue even if this file has no row yet.

        Raise `RunError` if there is a run but no `resume`, if it is another run than `about` says,
        or if another process is writing it.
        """
        writer = RunWriter(path)
        try:
            return cls(
                writer,
                about,
                resume=resume,
                allow_changes=allow_changes,
                has_parts=has_parts,
            )
        except BaseException:
            writer.close()
            raise

    def __init__(
        self,
        writer: RunWriter,
        about: RunAbout,
        *,
        resume: bool,
        allow_changes: bool,
        has_parts: bool = False,
    ) -> None:
        """Use `Journal.open` instead, which closes the writer if this raises an error."""
        self.path = path_of_run(writer.path)
        self.writer = writer
        self.is_new = not writer.holds_work and not has_parts
        # Counts the rows of a new run as they are saved. With None, as in a run that is resumed,
        # all rows are read and counted at the end.
        self._tally: Tally | None = None
        if self.is_new:
            if not resume:
                # An earlier session may have spent something before it was killed without a row.
                writer.delete_spending()
            self._tally = Tally(pass_rule=about.pass_rule, unique_examples=True)
        else:
            about = self._resume(about, resume=resume, allow_changes=allow_changes)
        self.about = about
        self._form = RowForm(about.criteria, about.version, about.judge)
        writer.save_about(about.to_dict())
        self._spending: SpendingLog | None = None

    def _resume(self, about: RunAbout, *, resume: bool, allow_changes: bool) -> RunAbout:
        """Return the metadata of the saved run, updated for the session that continues it.

        `about` describes this session. Raise `RunRefused` if it cannot continue the saved run.
        """
        if not resume:
            raise RunRefused(
                f"{self.path} holds a run already: continue it by resuming, or name another folder"
            )
        saved = RunAbout.from_saved(self.writer.read_run() or {}, self.writer.path)
        differences = saved.differences(about)
        if differences:
            raise RunRefused(
                f"{self.path} holds another run, which cannot be continued: "
                f"{'; '.join(differences)}. Use the original ones, or name another folder"
            )
        changes = saved.changed_versions(about)
        if changes and not allow_changes:
            raise RunRefused(
                f"{self.path} was started with another version: {'; '.join(changes)}. Go back to "
                "it, or give --allow-changes (allow_changes=True in Python) to continue with the "
                "new version, which the run records"
            )
        return saved.resumed_as(about)

    def is_finished(self, key: Key) -> bool:
        """Return whether a rollout is saved without an error, so that it is not done again."""
        example, sample = key
        return self.writer.is_finished(escape_surrogates(example), sample)

    def save_generation(self, row: Row, state: Mapping[str, Any]) -> None:
        """Save what was generated for a rollout before it is judged; `state` is plain data."""
        data = {
            "row": self._form.save(row).data,
            "calls": to_jsonable(row.calls),
            "state": state,
        }
        self.writer.save_generation(escape_surrogates(row.example), row.sample, as_ascii(data))

    def read_generation(self, key: Key) -> tuple[Row, dict[str, Any]] | None:
        """Return the row and the state from `save_generation`; None if none are saved."""
        example, sample = key
        saved = self.writer.read_generation(escape_surrogates(example), sample)
        if saved is None:
            return None
        data = json.loads(saved)
        where = f"{self.writer.path}, the generation for {example!r}"
        row = self._form.read(data["row"].encode(), where, data["calls"])
        return row, data["state"]

    def count_spending(self, ledger: Ledger) -> None:
        """From now on, save what this ledger counts as spending of the run."""
        self._spending = SpendingLog(self.writer, ledger)

    def write(self, row: Row) -> None:
        """Save one row, as `write_all` does."""
        self.write_all([row])

    def write_all(
        self, rows: Sequence[Row], fields: Sequence[SerializedFields] | None = None
    ) -> None:
        """Save some rows. When this returns, they cannot be lost by a kill of the process.

        A row with an error can be replaced later. `fields` are the fields of each row as JSON, from
        before a check of the rubric could change them; by default they are converted now. Raise
        `RunError` if the disk is full.
        """
        if fields is None:
            fields = [serialize_fields(row.fields) for row in rows]
        saved = [
            self._form.save(row, json_fields) for row, json_fields in zip(rows, fields, strict=True)
        ]
        self.writer.save_rollouts(saved)
        if self._tally is None:
            return
        for row, (_, altered_names) in zip(rows, fields, strict=True):
            # The summary also counts the rows with a field that had to be altered for JSON.
            self._tally.add(replace(row, altered=altered_names) if altered_names else row)
        if self._tally.has_repeats:
            # This tally counts every row as an example of its own, and an example came again. Count
            # the saved rows with one that groups them by example.
            self._tally = self._count_saved_rows()

    def use_tally(self, tally: Tally | None) -> None:
        """Use counts of all rows that were made elsewhere; with None, count the rows at the end."""
        self._tally = tally

    def tally(self) -> Tally:
        """Return the counts of all rows, from which their summary is made."""
        return self._count_saved_rows() if self._tally is None else self._tally

    def _count_saved_rows(self) -> Tally:
        tally = Tally(pass_rule=self.about.pass_rule)
        return tally.add_all(Run(RunFile(self.writer.path), self.about).rows())

    def finish(self, *, complete: bool = True, models: Iterable[str] = ()) -> Summary:
        """Work out and save the summary, and the ids of the `models` that answered."""
        summary = self.tally().summary()
        if summary.rollouts != self.writer.count_rollouts():
            # A row that was saved again has replaced the earlier one, but was counted twice.
            summary = self._count_saved_rows().summary()
        about = self.about.with_resolved_models(models)
        if about is not self.about:
            self.about = about
            self.writer.save_about(about.to_dict())
        # The rows lack the calls that a kill interrupted, which only the session has counted.
        spent = choose_larger(summary.spent, read_spending(RunFile(self.writer.path)))
        summary = replace(summary, complete=complete, spent=spent)
        data = summary.to_dict()
        data["checksum"] = _compute_checksum(data)
        self.writer.save_summary(data, complete=complete)
        return summary

    def close(self) -> None:
        """Save what was spent, and release the run."""
        try:
            if self._spending is not None:
                self._spending.close()
                self._spending = None
        finally:
            self.writer.close()

    def __exit__(self, *_: object) -> None:
        self.close()


def path_of_run(file: Path) -> Path:
    """Return the path that identifies a run: its folder, or its file if the file has another name."""
    return file.parent if file.name == FILE_NAME else file


class Run:
    """A saved run, which may still be written: every method reads the rows that are saved by then.

    >>> Run.open("no/such/folder")
    Traceback (most recent call last):
    assay.runs.run_errors.RunError: there is no run no/such/folder: name the folder of a run
    """

    def __init__(self, file: RunFile, about: RunAbout) -> None:
        """Use `Run.open`."""
        self.path = path_of_run(file.path)
        self.file = file
        self.about = about
        self._form = RowForm(about.criteria, about.version, about.judge)

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> "Run":
        """Open the run in a folder, or in a file. Raise `RunError` if there is none."""
        file = RunFile(path)
        return cls(file, RunAbout.from_saved(file.read_run(), file.path))

    def rows(self) -> Iterator[Row]:
        """Yield every rollout, in the order of the data.

        They are read in batches, so a run of any size can be read. Rows that do not know their
        place in the data come in the order in which they were saved.

        Raise `RunError` if a damaged index of the file leaves out some of the saved rollouts.
        """
        expected_count = len(self)
        ids: set[int] = set()  # a damaged index may also return one rollout twice
        for saved in self.file.read_rollouts():
            ids.add(saved.id)
            yield self._read_row(saved)
        if len(ids) < expected_count:
            problem = f"only {len(ids)} of its {expected_count} rollouts can be found"
            raise RunError(explain_damage(self.file.path, problem))

    def select_rows(self, where: str = "1", **parameters: Any) -> Iterator[Row]:
        """Yield the rows that a condition on the table `rollouts` selects, in the order of the data.

        `where` is SQL, and `parameters` are its `:name`s.
        """
        for saved in self.file.read_rollouts(where, parameters):
            yield self._read_row(saved)

    def _read_row(self, saved: RolloutData) -> Row:
        where = f"{self.file.path}, rollout {saved.id}"
        return self._form.read(saved.data, where, saved.calls)

    def row_at(self, rollout_id: int) -> Row:
        """Return the row with this id in the table `rollouts`. Raise `KeyError` if there is none."""
        for row in self.select_rows("id = :id", id=rollout_id):
            return row
        raise KeyError(f"{self.path} has no rollout {rollout_id}")

    def row(self, example: str, sample: int = 0) -> Row:
        """Return one rollout of an example. Raise `KeyError` if it is not saved."""
        for row in self._select_key((str(example), sample)):
            return row
        raise KeyError(f"{self.path} has no row for example {str(example)!r}, sample {sample}")

    def _select_key(self, key: Key) -> Iterator[Row]:
        example, sample = key
        # SQLite refuses larger numbers. No row has this one, so nothing is selected.
        sample = min(sample, LARGEST_INTEGER)
        return self.select_rows(
            "example = :example AND sample = :sample",
            example=escape_surrogates(example),
            sample=sample,
        )

    def by_example(self) -> Iterator[list[Row]]:
        """Yield a list of the rows of each example, in the order of the data."""
        examples = self.file.select(
            "SELECT example FROM rollouts GROUP BY example ORDER BY min(row)"
        )
        for (example,) in examples:
            rows = self.select_rows("example = :example", example=example)
            yield sorted(rows, key=lambda row: row.sample)

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
        """Return a matplotlib figure of scores, criteria and agreement; needs matplotlib.

        `agreement` is what `assay.trust.agree(run, labels)` returned. Without it, the judges of a
        panel are compared with each other.
        """
        return draw_figure(self.rows(), self.summary(), agreement)

    def __len__(self) -> int:
        return int(self.file.select_value("SELECT count(*) FROM rollouts"))

    def __contains__(self, key: object) -> bool:
        """Return whether a rollout is saved; its key is a tuple of example and sample."""
        if not isinstance(key, tuple) or len(cast("tuple[Any, ...]", key)) != 2:
            return False
        example, sample = cast("Key", key)
        found = self.file.select_value(
            "SELECT 1 FROM rollouts WHERE example = ? AND sample = ?",
            # SQLite has no larger integers, and no row has a larger sample.
            (escape_surrogates(example), min(sample, LARGEST_INTEGER)),
        )
        return found is not None

    def summary(self) -> Summary:
        """Return the summary that was saved with the run, or else work it out from the rows.

        Raise `RunError` if rows have been lost since it was saved.
        """
        # One query, so that no other process can save a row between the two values.
        query = "SELECT summary, (SELECT count(*) FROM rollouts) FROM run"
        for saved_summary, row_count in self.file.select(query):  # one row, or none
            summary = _read_summary(saved_summary)
            if summary is None:
                break
            if summary.rollouts != row_count:
                problem = f"it holds {row_count} of {summary.rollouts} rollouts"
                raise RunError(explain_damage(self.file.path, problem))
            return summary
        return self.work_out()

    def work_out(self) -> Summary:
        """Work out the summary from the saved rows, without using a saved summary.

        It is `complete` if the run was finished and nothing was added since.
        """
        summary = Tally(pass_rule=self.about.pass_rule).add_all(self.rows()).summary()
        complete = bool(self.file.select_value("SELECT complete FROM run"))
        # The rows lack the calls that a kill interrupted.
        spent = choose_larger(summary.spent, read_spending(self.file))
        return replace(summary, complete=complete, spent=spent)

    def spent(self) -> Spending:
        """Return what the run has spent in all its sessions, also for rollouts that were done again.

        `budget(dollars=2.0, spent=run.spent().cost, rollout=run.dearest())` is a budget for the
        whole run when it is resumed.
        """
        spent = read_spending(self.file)
        # If another program wrote the run, only its rows say what was spent.
        return spent if spent.calls or spent.hits else self.summary().spent

    def dearest(self) -> float | None:
        """Return the dollars of the most expensive scored rollout; None if none had a cost."""
        dearest = self.file.select_value("SELECT max(cost) FROM rollouts WHERE reward NOT NULL")
        return dearest or None


def _read_summary(saved: str | None) -> Summary | None:
    """Return a summary from its JSON in the file; None if there is none, or if it is damaged.

    In both cases the caller works it out from the rows.
    """
    if saved is None:
        return None
    try:
        data = json.loads(saved)
        checksum = data.pop("checksum")
        is_intact = checksum == _compute_checksum(data)
        return Summary.from_dict(data) if is_intact else None
    except (ValueError, TypeError, LookupError, AttributeError):  # not the JSON of a summary
        return None


def _compute_checksum(summary: Mapping[str, Any]) -> int:
    """Return the checksum of a summary, which is saved with it to detect damage."""
    return zlib.crc32(json.dumps(summary).encode())
