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

from assay.runs.jsonable import as_ascii, escape_surrogates
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
    """The SQLite file of a run that is open for writing. Only one process can have it open.

    Every method that saves something is one transaction: when it returns, what it saved cannot be
    lost by a kill of the process. A writer can be used from several threads.
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
        """Make the tables if the file is new, and choose how commits are written to the disk.

        `journal_mode` is that of the constructor. Raise `RunError` if the file is not a run.
        """
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
        """Find the id of the next new rollout, and the place in the data of the next one without it."""
        self._next_id = int(self._select_value("SELECT coalesce(max(id), 0) + 1 FROM rollouts"))
        self._next_row = int(self._select_value("SELECT coalesce(max(row), -1) + 1 FROM rollouts"))

    @contextmanager
    def _transaction(self) -> Generator[sqlite3.Connection]:
        """Run the block as one transaction, which an error in the block rolls back.

        In WAL mode a commit does not wait until it is on the disk, which only a power cut could
        notice. Once a second one does wait, so that a power cut costs at most that second.
        """
        with self._thread_lock, explain_errors(self.path, self.count_rollouts):
            connection = self._connection
            is_late = time.monotonic() - self._last_sync >= SYNC_SECONDS
            must_sync = is_late and not self._syncs_every_commit
            if must_sync:
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
                if must_sync:
                    self._last_sync = time.monotonic()
                    connection.execute("PRAGMA synchronous = NORMAL")

    def _select_value(self, query: str, parameters: Sequence[Any] = ()) -> Any:
        """Return the first value of the first row that a query selects; None if it selects none."""
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
        """Save the metadata of the run, and delete its summary, which may not fit them any more.

        The whole mapping is saved as JSON; some of its values also have columns of their own.
        """
        rubric: Mapping[str, Any] = about.get("rubric") or {}
        data: Mapping[str, Any] = about.get("data") or {}
        source = data.get("source")
        if source is not None and not isinstance(source, str):  # the paths of several files
            source = json.dumps(source)
        texts = (
            about.get("kind"),
            about.get("created"),
            rubric.get("name"),
            rubric.get("hash"),
            source,
            about.get("model"),
            about.get("judge"),
            json.dumps(about),
        )
        values = [None if text is None else escape_surrogates(text) for text in texts]
        with self._transaction() as connection:
            # Replacing the row clears the columns that are not listed, such as the summary.
            connection.execute(
                "INSERT OR REPLACE INTO run "
                "(id, kind, started, rubric, rubric_version, data, model, judge, about) "
                "VALUES (1, ?, ?, ?, ?, ?, ?, ?, ?)",
                values,
            )

    def save_summary(self, summary: Mapping[str, Any], *, complete: bool) -> None:
        """Save the summary of the run. The next rollout that is saved deletes it again."""
        with self._transaction() as connection:
            connection.execute(
                "UPDATE run SET summary = ?, complete = ?", (json.dumps(summary), complete)
            )

    def count_finished(self, first_row: int, end_row: int) -> int:
        """Return how many rows of the data from `first_row` to before `end_row` are finished.

        A row is finished if it is saved without an error.
        """
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
        """Save rollouts. One that was saved before is replaced, unless only the new one has an error.

        This deletes the summary of the run, and the saved generations of rollouts without an error,
        which will not be judged again.
        """
        rollouts = list(rollouts)
        with self._transaction() as connection:
            connection.execute("UPDATE run SET summary = NULL, complete = 0 WHERE summary NOT NULL")
            next_id, next_row = self._next_id, self._next_row
            next_numbers = _insert_new(connection, rollouts, next_id, next_row)
            if next_numbers is None:  # some of them are saved already
                next_numbers = _insert_or_replace(connection, rollouts, next_id, next_row)
            if connection.execute("SELECT 1 FROM generations LIMIT 1").fetchone():
                keys = [
                    (rollout.example, rollout.sample)
                    for rollout in rollouts
                    if rollout.error is None
                ]
                connection.executemany(
                    "DELETE FROM generations WHERE example = ? AND sample = ?", keys
                )
        self._next_id, self._next_row = next_numbers

    def save_generation(self, example: str, sample: int, data: str) -> None:
        """Save what a model has generated for a rollout before it is judged; `data` is JSON."""
        with self._transaction() as connection:
            connection.execute(
                "INSERT OR REPLACE INTO generations VALUES (?, ?, ?, ?)",
                (example, sample, data, zlib.crc32(data.encode())),
            )

    def read_generation(self, example: str, sample: int) -> str | None:
        """Return the `data` from `save_generation`; None if none are saved, or they are damaged."""
        with self._thread_lock, explain_errors(self.path):
            row = self._connection.execute(
                "SELECT data, checksum FROM generations WHERE example = ? AND sample = ?",
                (example, sample),
            ).fetchone()
        if row is None:
            return None
        data, checksum = row
        return data if is_intact(data, checksum) else None

    def start_session(self, started: str) -> int:
        """Save that a new session began at this time and has spent nothing; return its number.

        A session is the time in which one process writes the run.
        """
        with self._transaction() as connection:
            cursor = connection.execute(
                "INSERT INTO spending (started, calls, cache_hits, input_tokens, output_tokens, "
                "cost, unpriced_calls, reserved) VALUES (?, 0, 0, 0, 0, 0.0, 0, 0.0)",
                (started,),
            )
        return cast("int", cursor.lastrowid)

    def save_spending(self, session: int, amounts: Mapping[str, Any]) -> None:
        """Replace what a session has spent so far; `amounts` has columns of the table `spending`."""
        assignments = ", ".join(f"{name} = :{name}" for name in amounts)
        with self._transaction() as connection:
            connection.execute(
                f"UPDATE spending SET {assignments} WHERE session = :session",
                {**amounts, "session": session},
            )

    def insert_rows(self, table: str, rows: Sequence[Sequence[Any]]) -> None:
        """Insert whole rows into a table; those whose key is there already are left out."""
        if not rows:
            return
        placeholders = ", ".join("?" * len(rows[0]))
        with self._transaction() as connection:
            connection.executemany(f"INSERT OR IGNORE INTO {table} VALUES ({placeholders})", rows)

    def find_shared_examples(
        self, path: str | os.PathLike[str], first_row: int, end_row: int
    ) -> list[str]:
        """Return the examples of another run that this run also has elsewhere in the data.

        The rows of the other run come from the part of the data from `first_row` to before
        `end_row`; elsewhere is outside of this part.
        """
        with self._attached(path) as connection:
            rows = connection.execute(
                "SELECT DISTINCT theirs.example FROM other.rollouts AS theirs "
                "JOIN main.rollouts AS mine USING (example) WHERE mine.row < ? OR mine.row >= ?",
                (first_row, end_row),
            )
            return [example for (example,) in rows]

    def read_example(self, example: str) -> list[tuple[int, int, str]]:
        """Return the saved rollouts of an example, each as three values.

        They are its id, the number of its row in the data, and all that is saved of it as JSON.
        """
        with self._thread_lock, explain_errors(self.path):
            return self._connection.execute(
                "SELECT id, row, data FROM rollouts WHERE example = ?", (example,)
            ).fetchall()

    def change_samples(self, samples: Mapping[int, int]) -> None:
        """Give rollouts of one example new sample numbers; `samples` has them by the rollout's id."""
        with self._transaction() as connection:
            for rollout_id in samples:
                # No two rollouts may have the same number, not even for a moment. So all of them
                # get numbers first that no rollout has.
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
        """Inside the block, make the tables of another run available as `other.rollouts` etc."""
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
        """Release the run, and leave nothing beside its file: SQLite's log is written into that."""
        with self._thread_lock:
            if not self._is_open:
                return
            self._is_open = False
            try:
                with explain_errors(self.path):
                    self._connection.execute("PRAGMA busy_timeout = 0")  # do not wait for readers
                    with suppress(sqlite3.OperationalError):
                        # This fails while another connection reads. Then the log stays beside the
                        # file, where readers find it.
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

    The rollouts get the ids from `next_id` on. Those that do not name their place in the data get
    the places from `next_row` on. Return both numbers for the next rollouts; None if nothing was
    inserted, because at least one rollout is saved already.

    Nearly all rollouts are new. To look for each of them before would take a quarter longer.
    """
    rows: list[tuple[Any, ...]] = []
    verdicts: list[tuple[Any, ...]] = []
    numbers: list[tuple[Any, ...]] = []
    calls: list[tuple[Any, ...]] = []
    for rollout_id, rollout in enumerate(rollouts, start=next_id):
        row = next_row if rollout.row is None else rollout.row
        next_row = max(next_row, row + 1)
        rows.append(_list_values(rollout_id, row, rollout))
        verdicts += [(rollout_id, *verdict) for verdict in rollout.verdicts]
        numbers += [(rollout_id, *number) for number in rollout.numbers]
        calls += [(rollout_id, *call) for call in rollout.calls]
    connection.execute("SAVEPOINT new")
    try:
        connection.executemany(_INSERT_ROLLOUT, rows)
    except sqlite3.IntegrityError:  # a rollout of the same example and sample is saved
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
    """Save rollouts of which some are saved already.

    A rollout that is saved without an error is not replaced by one with an error. One that replaces
    another keeps its id, and its place in the data unless it names another.

    `next_id` and `next_row` are the id of the next new rollout, and the place in the data of the
    next one that does not name its own. Return both as they are afterwards.
    """
    for rollout in rollouts:
        saved = connection.execute(
            "SELECT id, row, error FROM rollouts WHERE example = ? AND sample = ?",
            (rollout.example, rollout.sample),
        ).fetchone()
        if saved is None:
            next_numbers = _insert_new(connection, [rollout], next_id, next_row)
            if next_numbers is not None:
                next_id, next_row = next_numbers
            continue
        rollout_id, row, saved_error = saved
        if saved_error is None and rollout.error is not None:
            continue
        if rollout.row is not None:
            row = rollout.row
        _delete_rollout(connection, rollout_id)
        _insert_new(connection, [rollout._replace(row=row)], rollout_id, next_row)
        next_row = max(next_row, row + 1)
    return next_id, next_row


def _delete_rollout(connection: sqlite3.Connection, rollout_id: int) -> None:
    """Delete a rollout with its verdicts and calls."""
    connection.execute("DELETE FROM verdicts WHERE rollout = ?", (rollout_id,))
    connection.execute("DELETE FROM calls WHERE rollout = ?", (rollout_id,))
    connection.execute("DELETE FROM rollouts WHERE id = ?", (rollout_id,))


def _list_values(rollout_id: int, row: int, rollout: SavedRollout) -> tuple[Any, ...]:
    """Return the values of a rollout's row in the table `rollouts`, in the order of its columns."""
    checksum = zlib.crc32(rollout.data.encode())
    # `rollout[3:13]` are the fields from `task` to `data`; after these come verdicts and calls.
    return (rollout_id, rollout.example, rollout.sample, row, *rollout[3:13], checksum)


def _merge(connection: sqlite3.Connection) -> None:
    """Copy the tables of the attached run `other`, as `RunWriter.merge_from` says."""
    connection.execute("UPDATE run SET summary = NULL, complete = 0")
    their_ids_to_skip = _delete_rollouts_to_replace(connection)
    # Their rollouts get new ids, which begin after the largest one of this run.
    (offset,) = connection.execute("SELECT coalesce(max(id), 0) FROM main.rollouts").fetchone()
    parameters = {"offset": offset, "skipped": json.dumps(their_ids_to_skip)}
    skipped = "(SELECT value FROM json_each(:skipped))"
    connection.execute(
        f"INSERT INTO main.rollouts ({ROLLOUT_COLUMNS}) "
        f"SELECT id + :offset, {COPIED_ROLLOUT_COLUMNS} FROM other.rollouts "
        f"WHERE id NOT IN {skipped} ORDER BY id",
        parameters,
    )
    for table in ("verdicts", "calls"):
        _, *other_columns = _list_columns(connection, table)  # the first is the rollout's id
        connection.execute(
            f"INSERT INTO main.{table} SELECT rollout + :offset, {', '.join(other_columns)} "
            f"FROM other.{table} WHERE rollout NOT IN {skipped}",
            parameters,
        )
    connection.execute(
        "INSERT OR IGNORE INTO main.generations SELECT * FROM other.generations "
        "WHERE (example, sample) NOT IN (SELECT example, sample FROM main.rollouts)"
    )
    connection.execute("INSERT OR IGNORE INTO main.labels SELECT * FROM other.labels")
    _, *amounts = _list_columns(connection, "spending")  # the first is the session
    # With NULL for its number, SQLite gives each session of the other run the next free one.
    connection.execute(
        f"INSERT INTO main.spending SELECT NULL, {', '.join(amounts)} FROM other.spending"
    )


def _delete_rollouts_to_replace(connection: sqlite3.Connection) -> list[int]:
    """Delete the rollouts of this run that the attached run `other` replaces.

    A rollout of the other run replaces ours, unless it has an error and ours has none. Return the
    ids of those that replace nothing, by which the other run knows them: they must not be copied.
    """
    # CROSS JOIN makes SQLite go through the other run, which is usually much smaller than this one.
    in_both_runs = connection.execute(
        "SELECT mine.id, mine.error, theirs.id, theirs.error FROM other.rollouts AS theirs "
        "CROSS JOIN main.rollouts AS mine USING (example, sample)"
    ).fetchall()
    their_ids_to_skip: list[int] = []
    for my_id, my_error, their_id, their_error in in_both_runs:
        if my_error is None and their_error is not None:
            their_ids_to_skip.append(their_id)
        else:
            _delete_rollout(connection, my_id)
    return their_ids_to_skip


def _list_columns(connection: sqlite3.Connection, table: str) -> list[str]:
    """Return the names of the columns of a table, in order."""
    return [name for _, name, *_ in connection.execute(f"PRAGMA main.table_info({table})")]


def _make_folder(folder: Path) -> None:
    """Make the folder of a run if there is none. Raise `RunRefused` if that is not possible."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        file = next((path for path in (folder, *folder.parents) if path.is_file()), folder)
        raise RunRefused(f"{file} is a file, and a run needs a folder: name another") from None
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
    """Set how SQLite makes transactions safe, and return the mode that it has chosen.

    `mode` is that of the constructor of `RunWriter`. By default it is `wal`, a log beside the file,
    or `delete`, the older rollback journal, where the file system does not support a WAL.
    """
    mode = mode or os.environ.get(JOURNAL_MODE_VARIABLE)
    if not mode:
        mode = "delete" if _is_shared_file_system(path.parent) else "wal"
    try:
        (result,) = connection.execute(f"PRAGMA journal_mode = {mode}").fetchone()
        # SQLite finds out only at the first read whether it can share memory, which a WAL needs.
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
    # The file system of a folder is that of the longest mount point above it.
    longest_mount_point = ""
    kind = ""
    for line in mounts.splitlines():
        fields = line.split(" ")  # device, mount point, kind of file system, options
        if len(fields) < 3:
            continue
        mount_point = fields[1].replace("\\040", " ")  # a space is escaped
        is_above = folder.is_relative_to(mount_point)
        if is_above and len(mount_point) >= len(longest_mount_point):
            longest_mount_point = mount_point
            kind = fields[2]
    return kind in _SHARED_FILE_SYSTEMS or kind.startswith("fuse.")
