"""RunWriter is the SQLite file of a run that is open for writing."""

import json
import os
import sqlite3
import threading
import time
import zlib
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, Final, cast

from assay.runs.jsonable import as_ascii, encodable
from assay.runs.run_errors import RunRefused, explain_errors, refuse_old_layout
from assay.runs.run_file import (
    BUSY_SECONDS,
    HOLDS_WORK,
    RunFile,
    check_version,
    has_tables,
    read_about,
)
from assay.runs.run_schema import (
    APPLICATION_ID,
    COPIED_ROLLOUT_COLUMNS,
    ROLLOUT_COLUMNS,
    SCHEMA,
    SCHEMA_VERSION,
    SavedRollout,
    find_run_file,
    is_intact,
)
from assay.runs.writer_lock import WriterLock

# Names a journal mode for runs that are opened for writing; used by tests, and to force the mode
# on a file system that is not recognised.
JOURNAL_MODE_VARIABLE: Final = "ASSAY_JOURNAL_MODE"

SYNC_SECONDS: Final = 1.0  # a power cut may cost the rows of this many seconds; a kill costs none

_INSERT_ROLLOUT: Final = (
    f"INSERT INTO rollouts ({ROLLOUT_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_INSERT_VERDICT: Final = "INSERT INTO verdicts VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
# Checks give most verdicts. To bind the columns that they leave empty would double their time.
_INSERT_NUMBER: Final = (
    "INSERT INTO verdicts (rollout, position, criterion, value, verdict) VALUES (?, ?, ?, ?, ?)"
)
_INSERT_CALL: Final = "INSERT INTO calls VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"


class RunWriter(AbstractContextManager["RunWriter"]):
    """A run that is open for writing. One process at a time can have it open.

    Every method that saves something is one transaction: when it returns, a kill cannot lose what
    was saved. It can be used from several threads.
    """

    def __init__(self, path: str | os.PathLike[str], *, journal_mode: str | None = None) -> None:
        """Open the run in a folder or file; make it if there is none.

        `journal_mode` is SQLite's (`wal` or `delete`); by default WAL is used where the file system
        supports it. Raise `RunError` if another process writes the run, or if it cannot be opened.
        """
        self.path = find_run_file(path)
        self.folder = self.path.parent
        _make_folder(self.folder)
        refuse_old_layout(self.folder)
        self._thread_lock = threading.RLock()
        self._is_open = True
        self._last_sync = time.monotonic()
        self._lock = WriterLock(self.path)
        try:
            with explain_errors(self.path):
                self._connection = sqlite3.connect(
                    self.path,
                    timeout=BUSY_SECONDS,
                    isolation_level=None,
                    check_same_thread=False,
                )
                self._prepare(journal_mode)
        except BaseException:
            self._lock.release()
            raise
        self._find_next_numbers()

    def _prepare(self, journal_mode: str | None) -> None:
        connection = self._connection
        if not has_tables(connection):
            connection.executescript(
                f"BEGIN IMMEDIATE; {SCHEMA} PRAGMA application_id = {APPLICATION_ID}; "
                f"PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;"
            )
        check_version(connection, self.path)
        self.journal_mode = _set_journal_mode(connection, self.path, journal_mode)
        # In WAL mode a commit does not wait for the disk; `_transaction` does so once a second.
        # With a rollback journal a power cut could damage the file unless every commit waits.
        self._syncs_every_commit = self.journal_mode != "wal"
        connection.execute(
            f"PRAGMA synchronous = {'FULL' if self._syncs_every_commit else 'NORMAL'}"
        )

    def _find_next_numbers(self) -> None:
        """Find the id of the next rollout, and the place of the next one that does not name it."""
        self._next_id = int(self._select_value("SELECT coalesce(max(id), 0) + 1 FROM rollouts"))
        self._next_row = int(self._select_value("SELECT coalesce(max(row), -1) + 1 FROM rollouts"))

    @contextmanager
    def _transaction(self) -> Generator[sqlite3.Connection]:
        with self._thread_lock, explain_errors(self.path, self.count_rollouts):
            connection = self._connection
            is_sync_due = time.monotonic() - self._last_sync >= SYNC_SECONDS
            if is_sync_due and not self._syncs_every_commit:
                connection.execute("PRAGMA synchronous = FULL")
            try:
                connection.execute("BEGIN IMMEDIATE")
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    with suppress(sqlite3.Error):
                        connection.execute("ROLLBACK")
                raise
            finally:
                if is_sync_due and not self._syncs_every_commit:
                    self._last_sync = time.monotonic()
                    connection.execute("PRAGMA synchronous = NORMAL")

    def _select_value(self, query: str, parameters: Sequence[Any] = ()) -> Any:
        with self._thread_lock, explain_errors(self.path):
            row = self._connection.execute(query, parameters).fetchone()
        return None if row is None else row[0]

    def count_rollouts(self) -> int:
        """Return how many rollouts are saved."""
        return int(self._select_value("SELECT count(*) FROM rollouts"))

    @property
    def holds_work(self) -> bool:
        """Whether anything is saved that must not be lost: a rollout, or a generation."""
        return bool(self._select_value(HOLDS_WORK))

    def delete_spending(self) -> None:
        """Forget what earlier sessions have spent."""
        with self._transaction() as connection:
            connection.execute("DELETE FROM spending")

    def read_run(self) -> dict[str, Any] | None:
        """Return the metadata of the run; None if nothing has been saved yet."""
        with self._thread_lock, explain_errors(self.path):
            rows = self._connection.execute("SELECT about FROM run").fetchall()
        return read_about(rows, self.path) if rows else None

    def save_about(self, about: Mapping[str, Any]) -> None:
        """Save the metadata of the run, and delete its summary, which may not fit them any more."""
        rubric: Mapping[str, Any] = about.get("rubric") or {}
        data: Mapping[str, Any] = about.get("data") or {}
        source = data.get("source")
        texts = (
            about.get("kind"),
            about.get("created"),
            rubric.get("name"),
            rubric.get("hash"),
            source if source is None or isinstance(source, str) else json.dumps(source),
            about.get("model"),
            about.get("judge"),
            json.dumps(about),
        )
        columns = [None if text is None else encodable(text) for text in texts]
        with self._transaction() as connection:
            # Replacing the row clears the columns that are not listed, such as the summary.
            connection.execute(
                "INSERT OR REPLACE INTO run "
                "(id, kind, started, rubric, rubric_version, data, model, judge, about) "
                "VALUES (1, ?, ?, ?, ?, ?, ?, ?, ?)",
                columns,
            )

    def save_summary(self, summary: Mapping[str, Any], *, complete: bool) -> None:
        """Save what the run comes to. The next rollout that is saved deletes it again."""
        with self._transaction() as connection:
            connection.execute(
                "UPDATE run SET summary = ?, complete = ?", (json.dumps(summary), complete)
            )

    def count_finished(self, first_row: int, end_row: int) -> int:
        """Return how many rows of a part of the data are saved without an error."""
        query = "SELECT count(*) FROM rollouts WHERE row >= ? AND row < ? AND error IS NULL"
        return int(self._select_value(query, (first_row, end_row)))

    def is_finished(self, example: str, sample: int) -> bool:
        """Return whether a rollout is saved without an error, so that it need not be done again."""
        found = self._select_value(
            "SELECT 1 FROM rollouts WHERE example = ? AND sample = ? AND error IS NULL",
            (example, sample),
        )
        return found is not None

    def save_rollouts(self, rollouts: Iterable[SavedRollout]) -> None:
        """Save finished rollouts, and delete what was generated for those without an error.

        A rollout that was saved before is replaced, unless only the new one has an error.
        """
        rollouts = list(rollouts)
        with self._transaction() as connection:
            connection.execute("UPDATE run SET summary = NULL, complete = 0 WHERE summary NOT NULL")
            next_id, next_row = self._next_id, self._next_row
            numbers = _insert_new(connection, rollouts, next_id, next_row)
            if numbers is None:
                numbers = _insert_or_replace(connection, rollouts, next_id, next_row)
            if connection.execute("SELECT 1 FROM generations LIMIT 1").fetchone():
                connection.executemany(
                    "DELETE FROM generations WHERE example = ? AND sample = ?",
                    [rollout[:2] for rollout in rollouts if rollout.error is None],
                )
        self._next_id, self._next_row = numbers

    def save_generation(self, example: str, sample: int, data: str) -> None:
        """Save what a model has generated for a rollout that is not finished yet."""
        with self._transaction() as connection:
            connection.execute(
                "INSERT OR REPLACE INTO generations VALUES (?, ?, ?, ?)",
                (example, sample, data, zlib.crc32(data.encode())),
            )

    def read_generation(self, example: str, sample: int) -> str | None:
        """Return what was generated for a rollout; None if nothing was, or if it is damaged."""
        with self._thread_lock, explain_errors(self.path):
            row = self._connection.execute(
                "SELECT data, checksum FROM generations WHERE example = ? AND sample = ?",
                (example, sample),
            ).fetchone()
        if row is None or not is_intact(*row):
            return None
        return row[0]

    def start_session(self, started: str) -> int:
        """Add a row for the spending of a new session, and return its number."""
        with self._transaction() as connection:
            cursor = connection.execute(
                "INSERT INTO spending VALUES (NULL, ?, 0, 0, 0, 0, 0.0, 0, 0.0)", (started,)
            )
        return cast("int", cursor.lastrowid)

    def save_spending(self, session: int, amounts: Mapping[str, Any]) -> None:
        """Replace what a session has spent so far; `amounts` has columns of the table `spending`."""
        settings = ", ".join(f"{name} = :{name}" for name in amounts)
        with self._transaction() as connection:
            connection.execute(
                f"UPDATE spending SET {settings} WHERE session = :session",
                {**amounts, "session": session},
            )

    def insert_rows(self, table: str, rows: Sequence[Sequence[Any]]) -> None:
        """Insert whole rows into a table; those whose key is there already are left out."""
        if not rows:
            return
        marks = ", ".join("?" * len(rows[0]))
        with self._transaction() as connection:
            connection.executemany(f"INSERT OR IGNORE INTO {table} VALUES ({marks})", rows)

    def find_shared_examples(
        self, path: str | os.PathLike[str], first_row: int, end_row: int
    ) -> list[str]:
        """Return the examples of another run that this one has outside of these rows of the data."""
        with self._attached(path) as connection:
            rows = connection.execute(
                "SELECT DISTINCT theirs.example FROM other.rollouts AS theirs "
                "JOIN main.rollouts AS mine USING (example) WHERE mine.row < ? OR mine.row >= ?",
                (first_row, end_row),
            )
            return [example for (example,) in rows]

    def read_example(self, example: str) -> list[tuple[int, int, str]]:
        """Return the id, the place in the data and the data of the rollouts of an example."""
        with self._thread_lock, explain_errors(self.path):
            return self._connection.execute(
                "SELECT id, row, data FROM rollouts WHERE example = ?", (example,)
            ).fetchall()

    def change_samples(self, samples: Mapping[int, int]) -> None:
        """Give rollouts of one example, named by their ids, other samples."""
        with self._transaction() as connection:
            for rollout_id in samples:
                # Out of the way of the others: a sample can be there only once.
                connection.execute(
                    "UPDATE rollouts SET sample = ? WHERE id = ?", (-rollout_id, rollout_id)
                )
            for rollout_id, sample in samples.items():
                (data,) = connection.execute(
                    "SELECT data FROM rollouts WHERE id = ?", (rollout_id,)
                ).fetchone()
                data = as_ascii({**json.loads(data), "sample": sample})
                connection.execute(
                    "UPDATE rollouts SET sample = ?, data = ?, checksum = ? WHERE id = ?",
                    (sample, data, zlib.crc32(data.encode()), rollout_id),
                )

    @contextmanager
    def _attached(self, path: str | os.PathLike[str]) -> Generator[sqlite3.Connection]:
        """Make the tables of another run available under the name `other`."""
        other = RunFile(path).path
        with self._thread_lock, explain_errors(self.path):
            self._connection.execute("ATTACH ? AS other", (str(other),))
            try:
                yield self._connection
            finally:
                self._connection.execute("DETACH other")

    def merge_from(self, path: str | os.PathLike[str]) -> None:
        """Copy the rollouts, generations, spending and labels of another run into this one.

        No other process may write the other run meanwhile. If both runs hold a rollout, the other
        run's is kept, unless it has an error and this run's has none.
        """
        with self._attached(path), self._transaction() as connection:
            _merge(connection)
        self._find_next_numbers()

    def close(self) -> None:
        """Write everything into the run's file, so that no other file stays, and release the run."""
        with self._thread_lock:
            if not self._is_open:
                return
            self._is_open = False
            try:
                with explain_errors(self.path):
                    self._connection.execute("PRAGMA busy_timeout = 0")
                    with suppress(sqlite3.OperationalError):
                        # Fails while another connection reads: then the WAL stays, and is read too.
                        self._connection.execute("PRAGMA journal_mode = DELETE")
                    self._connection.close()
            finally:
                self._lock.release()

    def __exit__(self, *_: object) -> None:
        self.close()


def _insert_new(
    connection: sqlite3.Connection, rollouts: Sequence[SavedRollout], next_id: int, next_row: int
) -> tuple[int, int] | None:
    """Insert rollouts with their verdicts and calls, if none of them is saved yet.

    Return the next id and the next place in the data; None if nothing was inserted, because one is
    saved. Nearly all rollouts are new, and to look for each of them takes a quarter longer.
    """
    rows: list[tuple[Any, ...]] = []
    verdicts: list[tuple[Any, ...]] = []
    numbers: list[tuple[Any, ...]] = []
    calls: list[tuple[Any, ...]] = []
    for rollout_id, rollout in enumerate(rollouts, start=next_id):
        row = next_row if rollout.row is None else rollout.row
        next_row = max(next_row, row + 1)
        rows.append(_make_columns(rollout_id, row, rollout))
        verdicts += [(rollout_id, *verdict) for verdict in rollout.verdicts]
        numbers += [(rollout_id, *number) for number in rollout.numbers]
        calls += [(rollout_id, *call) for call in rollout.calls]
    connection.execute("SAVEPOINT new")
    try:
        connection.executemany(_INSERT_ROLLOUT, rows)
    except sqlite3.IntegrityError:
        connection.execute("ROLLBACK TO new")
        connection.execute("RELEASE new")
        return None
    connection.execute("RELEASE new")
    connection.executemany(_INSERT_VERDICT, verdicts)
    connection.executemany(_INSERT_NUMBER, numbers)
    connection.executemany(_INSERT_CALL, calls)
    return next_id + len(rollouts), next_row


def _insert_or_replace(
    connection: sqlite3.Connection, rollouts: Sequence[SavedRollout], next_id: int, next_row: int
) -> tuple[int, int]:
    """Save rollouts of which some are saved already; return the next id and the next place.

    A rollout that is saved without an error is not replaced by one with an error.
    """
    for rollout in rollouts:
        saved = connection.execute(
            "SELECT id, row, error FROM rollouts WHERE example = ? AND sample = ?",
            (rollout.example, rollout.sample),
        ).fetchone()
        if saved is None:
            numbers = _insert_new(connection, [rollout], next_id, next_row)
            next_id, next_row = numbers or (next_id, next_row)
            continue
        rollout_id, row, error = saved
        if error is None and rollout.error is not None:
            continue
        if rollout.row is not None:
            row = rollout.row
        _delete(connection, rollout_id)
        _insert_new(connection, [rollout._replace(row=row)], rollout_id, next_row)
        next_row = max(next_row, row + 1)
    return next_id, next_row


def _delete(connection: sqlite3.Connection, rollout_id: int) -> None:
    connection.execute("DELETE FROM verdicts WHERE rollout = ?", (rollout_id,))
    connection.execute("DELETE FROM calls WHERE rollout = ?", (rollout_id,))
    connection.execute("DELETE FROM rollouts WHERE id = ?", (rollout_id,))


def _make_columns(rollout_id: int, row: int, rollout: SavedRollout) -> tuple[Any, ...]:
    """Return the values of a row of the table `rollouts`."""
    checksum = zlib.crc32(rollout.data.encode())
    return (rollout_id, rollout.example, rollout.sample, row, *rollout[3:13], checksum)


def _merge(connection: sqlite3.Connection) -> None:
    """Copy the tables of the attached run `other`, as `RunWriter.merge_from` says."""
    connection.execute("UPDATE run SET summary = NULL, complete = 0")
    # CROSS JOIN makes SQLite go through the other run, which is usually much smaller than this one.
    in_both_runs = connection.execute(
        "SELECT mine.id, mine.error, theirs.id, theirs.error FROM other.rollouts AS theirs "
        "CROSS JOIN main.rollouts AS mine USING (example, sample)"
    ).fetchall()
    ids_to_skip: list[int] = []
    for my_id, my_error, their_id, their_error in in_both_runs:
        if my_error is None and their_error is not None:
            ids_to_skip.append(their_id)
        else:
            _delete(connection, my_id)
    (offset,) = connection.execute("SELECT coalesce(max(id), 0) FROM main.rollouts").fetchone()
    parameters = {"offset": offset, "skipped": json.dumps(ids_to_skip)}
    skipped = "(SELECT value FROM json_each(:skipped))"
    connection.execute(
        f"INSERT INTO main.rollouts ({ROLLOUT_COLUMNS}) "
        f"SELECT id + :offset, {COPIED_ROLLOUT_COLUMNS} FROM other.rollouts "
        f"WHERE id NOT IN {skipped} ORDER BY id",
        parameters,
    )
    for table in ("verdicts", "calls"):
        columns = [row[1] for row in connection.execute(f"PRAGMA main.table_info({table})")]
        other_columns = ", ".join(columns[1:])
        connection.execute(
            f"INSERT INTO main.{table} SELECT rollout + :offset, {other_columns} "
            f"FROM other.{table} WHERE rollout NOT IN {skipped}",
            parameters,
        )
    connection.execute(
        "INSERT OR IGNORE INTO main.generations SELECT * FROM other.generations "
        "WHERE (example, sample) NOT IN (SELECT example, sample FROM main.rollouts)"
    )
    connection.execute("INSERT OR IGNORE INTO main.labels SELECT * FROM other.labels")
    columns = [row[1] for row in connection.execute("PRAGMA main.table_info(spending)")]
    connection.execute(
        f"INSERT INTO main.spending SELECT NULL, {', '.join(columns[1:])} FROM other.spending"
    )


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise RunRefused(f"{folder} is a file, and a run needs a folder: name another") from None
    except OSError as error:
        raise RunRefused(
            f"{folder} cannot be created ({error.strerror}): name another folder"
        ) from None


# File systems that are shared between machines: WAL needs memory that all its users share. Those
# of FUSE (`fuse.sshfs` and others) are treated like them.
_SHARED_FILE_SYSTEMS: Final = frozenset(
    {
        "9p",
        "afs",
        "beegfs",
        "ceph",
        "cifs",
        "gpfs",
        "lustre",
        "nfs",
        "nfs4",
        "smb3",
        "smbfs",
        "virtiofs",
    }
)


def _set_journal_mode(connection: sqlite3.Connection, path: Path, mode: str | None) -> str:
    """Set and return the journal mode: WAL where the file system supports it."""
    mode = mode or os.environ.get(JOURNAL_MODE_VARIABLE)
    if not mode:
        mode = "delete" if _is_shared_file_system(path.parent) else "wal"
    try:
        (result,) = connection.execute(f"PRAGMA journal_mode = {mode}").fetchone()
        # Only the first read makes the memory that a WAL needs.
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.OperationalError:
        if mode == "delete":
            raise
        (result,) = connection.execute("PRAGMA journal_mode = DELETE").fetchone()
    return str(result)


def _is_shared_file_system(folder: Path) -> bool:
    """Return whether a folder is on a file system that is shared between machines."""
    folder = folder.resolve()
    try:
        mounts = Path("/proc/self/mounts").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    longest = ""
    kind = ""
    for line in mounts.splitlines():
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        point = fields[1].replace("\\040", " ")
        if folder.is_relative_to(point) and len(point) >= len(longest):
            longest, kind = point, fields[2]
    return kind in _SHARED_FILE_SYSTEMS or kind.startswith("fuse.")
