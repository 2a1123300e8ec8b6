"""A run's SQLite file: its tables, the one process that writes it, and connections that read it.

`docs/concepts/runs.md` describes the tables for users. `Journal` writes a run with `RunWriter`, and
`Run` reads it with `RunFile`.
"""

import fcntl
import json
import os
import socket
import sqlite3
import threading
import time
import weakref
import zlib
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias, cast

from assay.errors import AssayError
from assay.runs.jsonable import as_ascii, encodable

FILE_NAME: Final = "run.assay"
FILE_ENDING: Final = ".assay"
APPLICATION_ID: Final = 0x61737361  # "assa" in ASCII; marks the file as a run
SCHEMA_VERSION: Final = 1

# Names a journal mode for runs that are opened for writing; used by tests, and to force the mode
# on a file system that is not recognised.
JOURNAL_MODE_VARIABLE: Final = "ASSAY_JOURNAL_MODE"

SYNC_SECONDS: Final = 1.0  # a power cut may cost the rows of this many seconds; a kill costs none
BUSY_SECONDS: Final = 30.0  # how long to wait for another connection before giving up
BATCH_ROWS: Final = 500  # rows that a reader fetches at once
LARGEST_INTEGER: Final = 2**63 - 1  # the largest that SQLite can store

_SCHEMA: Final = """
CREATE TABLE run (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    kind TEXT NOT NULL,
    started TEXT NOT NULL,
    rubric TEXT,
    rubric_version TEXT,
    data TEXT,
    model TEXT,
    judge TEXT,
    about TEXT NOT NULL,
    summary TEXT,
    complete INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE rollouts (
    id INTEGER PRIMARY KEY,
    example TEXT NOT NULL,
    sample INTEGER NOT NULL,
    row INTEGER NOT NULL,
    task TEXT NOT NULL,
    score REAL,
    reward REAL,
    error TEXT,
    model TEXT,
    input_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    cost REAL,
    seconds REAL,
    data TEXT NOT NULL,
    checksum INTEGER NOT NULL,
    prompt TEXT GENERATED ALWAYS AS (json_extract(data, '$.fields.prompt')) VIRTUAL,
    completion TEXT GENERATED ALWAYS AS (json_extract(data, '$.fields.completion')) VIRTUAL,
    UNIQUE (example, sample)
);
CREATE INDEX rollouts_by_row ON rollouts (row);
CREATE TABLE verdicts (
    rollout INTEGER NOT NULL REFERENCES rollouts (id),
    position INTEGER NOT NULL,
    criterion TEXT NOT NULL,
    value REAL,
    verdict TEXT,
    reason TEXT,
    error TEXT,
    judge TEXT,
    disagreement REAL,
    tags TEXT,
    PRIMARY KEY (rollout, position)
) WITHOUT ROWID;
CREATE TABLE calls (
    rollout INTEGER NOT NULL REFERENCES rollouts (id),
    position INTEGER NOT NULL,
    role TEXT NOT NULL,
    model TEXT,
    request TEXT,
    reply TEXT,
    input_tokens INTEGER,
    output_tokens INTEGER,
    cost REAL,
    data TEXT NOT NULL,
    PRIMARY KEY (rollout, position)
) WITHOUT ROWID;
CREATE TABLE generations (
    example TEXT NOT NULL,
    sample INTEGER NOT NULL,
    data TEXT NOT NULL,
    checksum INTEGER NOT NULL,
    PRIMARY KEY (example, sample)
);
CREATE TABLE spending (
    session INTEGER PRIMARY KEY,
    started TEXT NOT NULL,
    calls INTEGER NOT NULL,
    cache_hits INTEGER NOT NULL,
    input_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    cost REAL,
    unpriced_calls INTEGER NOT NULL,
    reserved REAL NOT NULL
);
CREATE TABLE labels (
    example TEXT NOT NULL,
    sample INTEGER NOT NULL,
    criterion TEXT NOT NULL,
    rater TEXT NOT NULL COLLATE NOCASE,
    verdict,
    note TEXT,
    time TEXT,
    guideline TEXT,
    text_hash TEXT,
    PRIMARY KEY (example, sample, criterion, rater)
);
"""


LABEL_COLUMNS: Final = (
    "example",
    "sample",
    "criterion",
    "rater",
    "verdict",
    "note",
    "time",
    "guideline",
    "text_hash",
)


class RunError(AssayError):
    """A run cannot be read, written or resumed; the message says what to do."""


class RunRefused(RunError, ValueError):  # noqa: N818 - named as `Refused` is
    """A folder, rows or settings do not fit the run, or do not fit each other."""


class RunInUseError(RunError):
    """Another process is writing the run."""


class SavedVerdict(NamedTuple):
    """The answer to one criterion of a rollout: a row of the table `verdicts`."""

    position: int  # the place of the criterion in its rubric, from 0
    criterion: str
    value: float | None = None
    verdict: str | None = None
    reason: str | None = None
    error: str | None = None
    judge: str | None = None  # the model that answered; None if code did, or if several did
    disagreement: float | None = None  # of the judges or samples, if there are several
    tags: str | None = None  # of a criterion that only this rollout has, as a JSON list


# The answer of a check that is a number, True or False: position, criterion, value and verdict.
# All other columns of its row in the table `verdicts` are empty.
SavedNumber: TypeAlias = tuple[int, str, float, str | None]


class SavedCall(NamedTuple):
    """One call of a model for a rollout: a row of the table `calls`."""

    position: int
    role: str  # `judge`, or `model` for the model under test
    model: str | None
    request: str | None  # what was sent, as JSON
    reply: str | None
    input_tokens: int | None
    output_tokens: int | None
    cost: float | None
    data: str  # the whole record, as JSON


class SavedRollout(NamedTuple):
    """One finished rollout: a row of the table `rollouts`, with its verdicts and calls."""

    example: str
    sample: int
    row: int | None  # its place in the data, from 0; None puts it behind all others
    task: str
    score: float | None
    reward: float | None
    error: str | None
    model: str | None
    input_tokens: int
    output_tokens: int
    cost: float | None
    seconds: float | None
    data: str  # the whole row, as JSON
    verdicts: Sequence[SavedVerdict] = ()
    numbers: Sequence[SavedNumber] = ()  # the verdicts that are only a number
    calls: Sequence[SavedCall] = ()


class RolloutData(NamedTuple):
    """A saved rollout as it is read."""

    id: int
    data: bytes  # the whole row, as JSON
    calls: Sequence[dict[str, Any]]  # the calls of models that were kept for it


# The columns of `rollouts` that are written, and how. A rollout that is done again keeps its id.
_ROLLOUT_COLUMNS: Final = (
    "id, example, sample, row, task, score, reward, error, model, input_tokens, output_tokens, "
    "cost, seconds, data, checksum"
)
_COPIED_ROLLOUT_COLUMNS: Final = _ROLLOUT_COLUMNS.removeprefix("id, ")
_INSERT_ROLLOUT: Final = (
    f"INSERT INTO rollouts ({_ROLLOUT_COLUMNS}) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_HOLDS_WORK: Final = "SELECT EXISTS (SELECT 1 FROM rollouts) OR EXISTS (SELECT 1 FROM generations)"
_INSERT_VERDICT: Final = "INSERT INTO verdicts VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
# Checks give most verdicts. To bind the columns that they leave empty would double their time.
_INSERT_NUMBER: Final = (
    "INSERT INTO verdicts (rollout, position, criterion, value, verdict) VALUES (?, ?, ?, ?, ?)"
)
_INSERT_CALL: Final = "INSERT INTO calls VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"


def find_run_file(path: str | os.PathLike[str]) -> Path:
    """Return the file of a run that is named by its folder or by the file itself."""
    path = Path(path)
    if path.name.endswith(FILE_ENDING) and not path.is_dir():
        return path
    return path / FILE_NAME


def is_run(path: str | os.PathLike[str]) -> bool:
    """Return whether a run is saved in this folder or file."""
    file = find_run_file(path)
    # It is empty for a moment while the run is started.
    return file.is_file() and file.stat().st_size > 0


class RunFile:
    """The file of a saved run, read with one short-lived connection per query.

    It can be used from several threads, and while another process writes the run.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """`path` is the folder of the run, or its file. Raise `RunError` if there is no run."""
        self.path = find_run_file(path)
        if not self.path.is_file():
            raise RunError(_explain_missing_run(Path(path)))

    @property
    def folder(self) -> Path:
        return self.path.parent

    @property
    def holds_work(self) -> bool:
        """Whether anything is saved that must not be lost: a rollout, or a generation."""
        return bool(self.select_value(_HOLDS_WORK))

    @property
    def is_being_written(self) -> bool:
        """Whether a process of this machine has the run open for writing."""
        return WriterLock.is_held(self.path)

    @contextmanager
    def connect(self) -> Generator[sqlite3.Connection]:
        """Open the file for reading. Errors of SQLite become `RunError`s that say what to do."""
        with explain_errors(self.path):
            connection = _connect_for_reading(self.path)
            try:
                _check_version(connection, self.path)
                yield connection
            finally:
                connection.close()

    def select(
        self, query: str, parameters: Sequence[Any] | Mapping[str, Any] = ()
    ) -> list[tuple[Any, ...]]:
        """Return all rows that a query selects."""
        with self.connect() as connection:
            return connection.execute(query, parameters).fetchall()

    def select_value(self, query: str, parameters: Sequence[Any] | Mapping[str, Any] = ()) -> Any:
        """Return the only value that a query selects; None if it selects no row."""
        rows = self.select(query, parameters)
        return rows[0][0] if rows else None

    def read_rollouts(
        self, where: str = "1", parameters: Mapping[str, Any] | None = None
    ) -> Iterator[RolloutData]:
        """Yield what is saved of rollouts in the order of the data, checked against damage.

        They are fetched in batches, so a run of any size can be read while it is written.
        """
        query = (
            "SELECT row, id, CAST(data AS BLOB), checksum FROM rollouts "
            f"WHERE (row, id) > (:last_row, :last_id) AND ({where}) "
            f"ORDER BY row, id LIMIT {BATCH_ROWS}"
        )
        last_row = last_id = -1
        while True:
            position = {"last_row": last_row, "last_id": last_id}
            with self.connect() as connection:
                batch = connection.execute(query, {**(parameters or {}), **position}).fetchall()
                calls = _read_calls(connection, [rollout_id for _, rollout_id, _, _ in batch])
            for _, rollout_id, data, checksum in batch:
                self._verify(rollout_id, data, checksum)
                yield RolloutData(rollout_id, data, calls.get(rollout_id, ()))
            if len(batch) < BATCH_ROWS:
                return
            last_row, last_id = batch[-1][:2]

    def _verify(self, rollout_id: int, data: bytes, checksum: int) -> None:
        if not _is_intact(data, checksum):
            raise RunError(
                explain_damage(self.path, f"the checksum of rollout {rollout_id} does not match")
            )

    def read_labels(self) -> list[dict[str, Any]]:
        """Return what people said about the rollouts of the run, as rows of the table `labels`."""
        names = ", ".join(LABEL_COLUMNS)
        rows = self.select(f"SELECT {names} FROM labels ORDER BY time")
        return [dict(zip(LABEL_COLUMNS, row, strict=True)) for row in rows]

    def save_label(self, label: Mapping[str, Any]) -> None:
        """Save a label; it replaces an earlier one of the same person about the same criterion.

        Another process may be writing the run meanwhile.
        """
        names = ", ".join(LABEL_COLUMNS)
        marks = ", ".join(f":{name}" for name in LABEL_COLUMNS)
        values = {name: label.get(name) for name in LABEL_COLUMNS}
        with explain_errors(self.path):
            connection = sqlite3.connect(self.path, timeout=BUSY_SECONDS)
            try:
                with connection:
                    connection.execute(
                        f"INSERT OR REPLACE INTO labels ({names}) VALUES ({marks})", values
                    )
            finally:
                connection.close()

    def read_run(self) -> dict[str, Any]:
        """Return the metadata of the run."""
        return _read_about(self.select("SELECT about FROM run"), self.path)

    def recover(self, writer: "RunWriter") -> tuple[int, int]:
        """Copy what can be read of a damaged run; return how many rollouts were copied, and lost.

        Every rollout whose data match their checksum is copied, with its verdicts and calls as far
        as these can be read. Raise `RunError` if not even the metadata can be read.
        """
        writer.save_about(self.read_run())
        with explain_errors(self.path):
            connection = _connect_for_reading(self.path)
        saved = lost = 0
        try:
            known_ids = _list_ids(connection)
            # An id that no query could list may still be readable by itself. Damage can make an id
            # huge.
            most = min(max(known_ids, default=0), 2 * len(known_ids) + BATCH_ROWS)
            for rollout_id in sorted(known_ids.union(range(1, most + 1))):
                record = _recover_rollout(connection, rollout_id)
                if record is not None and _save_recovered(writer, record):
                    saved += 1
                elif rollout_id in known_ids:
                    lost += 1
            for table in ("labels", "spending", "generations"):
                with suppress(sqlite3.Error):
                    rows = connection.execute(f"SELECT * FROM {table}").fetchall()
                    writer.insert_rows(table, rows)
        finally:
            connection.close()
        return saved, lost


def _read_calls(
    connection: sqlite3.Connection, rollout_ids: Sequence[int]
) -> dict[int, list[dict[str, Any]]]:
    """Return the calls of models that were kept for some rollouts, in order."""
    calls: dict[int, list[dict[str, Any]]] = {}
    rows = connection.execute(
        "SELECT rollout, data FROM calls WHERE rollout IN (SELECT value FROM json_each(?)) "
        "ORDER BY rollout, position",
        (json.dumps(rollout_ids),),
    )
    for rollout_id, data in rows:
        calls.setdefault(rollout_id, []).append(json.loads(data))
    return calls


def _list_ids(connection: sqlite3.Connection) -> set[int]:
    """Return the ids of all rollouts, as far as the table or an index over it can be read."""
    ids: set[int] = set()
    for query in (
        "SELECT id FROM rollouts NOT INDEXED",
        "SELECT id FROM rollouts INDEXED BY rollouts_by_row WHERE row >= 0",
        "SELECT rollout FROM verdicts",
    ):
        with suppress(sqlite3.Error):
            for (rollout_id,) in connection.execute(query):
                if isinstance(rollout_id, int):  # a damaged page may hold anything
                    ids.add(rollout_id)
    return ids


def _save_recovered(writer: "RunWriter", rollout: SavedRollout) -> bool:
    """Save a rollout unless damage has put something into a column that cannot be saved."""
    try:
        writer.save_rollouts([rollout])
    except RunError as error:
        if isinstance(error.__cause__, sqlite3.IntegrityError):
            return False
        raise
    return True


def _recover_rollout(connection: sqlite3.Connection, rollout_id: int) -> SavedRollout | None:
    query = f"SELECT {_COPIED_ROLLOUT_COLUMNS} FROM rollouts WHERE id = ?"
    try:
        columns = connection.execute(query, (rollout_id,)).fetchone()
    except sqlite3.Error:
        return None
    if columns is None or not _is_intact(*columns[-2:]):
        return None
    # The columns have no checksum, so what identifies the rollout is taken from its data.
    data = json.loads(columns[-2])
    identity = (
        encodable(data.get("example", columns[0])),
        data.get("sample", columns[1]),
        data.get("row", columns[2]),
    )
    verdicts: list[SavedVerdict] = []
    calls: list[SavedCall] = []
    with suppress(sqlite3.Error):
        for row in connection.execute("SELECT * FROM verdicts WHERE rollout = ?", (rollout_id,)):
            verdicts.append(SavedVerdict(*row[1:]))
        for row in connection.execute("SELECT * FROM calls WHERE rollout = ?", (rollout_id,)):
            calls.append(SavedCall(*row[1:]))
    return SavedRollout(*identity, *columns[3:-1], verdicts=verdicts, calls=calls)


def _is_intact(data: Any, checksum: Any) -> bool:
    """Return whether data match their checksum. A damaged page may hold anything in their place."""
    if isinstance(data, str):
        data = data.encode()
    return isinstance(data, bytes) and zlib.crc32(data) == checksum


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
        _refuse_old_layout(self.folder)
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
        if not _has_tables(connection):
            connection.executescript(
                f"BEGIN IMMEDIATE; {_SCHEMA} PRAGMA application_id = {APPLICATION_ID}; "
                f"PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;"
            )
        _check_version(connection, self.path)
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
        return bool(self._select_value(_HOLDS_WORK))

    def delete_spending(self) -> None:
        """Forget what earlier sessions have spent."""
        with self._transaction() as connection:
            connection.execute("DELETE FROM spending")

    def read_run(self) -> dict[str, Any] | None:
        """Return the metadata of the run; None if nothing has been saved yet."""
        with self._thread_lock, explain_errors(self.path):
            rows = self._connection.execute("SELECT about FROM run").fetchall()
        return _read_about(rows, self.path) if rows else None

    def save_about(self, about: Mapping[str, Any]) -> None:
        """Save the metadata of the run. From now on its summary has to be worked out again."""
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
        if row is None or not _is_intact(*row):
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

        No other process may write the other run meanwhile. Where both runs have a rollout, that of
        the other run counts, unless only that one has an error.
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
    """Save rollouts of which some are saved already; return the next id and the next place."""
    for rollout in rollouts:
        saved = connection.execute(
            "SELECT id, row, error FROM rollouts WHERE example = ? AND sample = ?", rollout[:2]
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
        f"INSERT INTO main.rollouts ({_ROLLOUT_COLUMNS}) "
        f"SELECT id + :offset, {_COPIED_ROLLOUT_COLUMNS} FROM other.rollouts "
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


class WriterLock:
    """Held by the process that writes a run. The system releases it when that process ends."""

    def __init__(self, path: Path) -> None:
        """Lock the run with this file. Raise `RunError`, which names the process that has it."""
        self._path = _lock_path(path)
        self._descriptor: int | None = None
        try:
            while self._descriptor is None:
                self._descriptor = self._try_lock(path)
        except OSError as error:
            raise RunError(
                f"{self._path} cannot be locked ({error.strerror}): make the folder writable, or "
                "name a folder on another file system"
            ) from None
        _held_locks.add(self)

    def _try_lock(self, path: Path) -> int | None:
        """Return the open and locked file; None if its last holder deleted it meanwhile."""
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        descriptor = os.open(self._path, flags, 0o644)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise RunInUseError(
                    f"{path.parent} is being written by {self._describe_holder()}: wait until it "
                    "ends, or name another folder"
                ) from None
            if not self._is_file_of(descriptor):
                os.close(descriptor)
                return None
            holder = {"pid": os.getpid(), "host": socket.gethostname()}
            os.ftruncate(descriptor, 0)
            os.write(descriptor, json.dumps(holder).encode())
        except BaseException:
            with suppress(OSError):
                os.close(descriptor)
            raise
        return descriptor

    def _is_file_of(self, descriptor: int) -> bool:
        try:
            return os.path.samestat(self._path.stat(), os.fstat(descriptor))
        except FileNotFoundError:
            return False

    def _describe_holder(self) -> str:
        holder = _read_holder(self._path)
        if "pid" not in holder:
            return "another process"
        if holder.get("host") == socket.gethostname():
            return f"process {holder['pid']}"
        return f"process {holder['pid']} on {holder.get('host')}"

    def release(self) -> None:
        if self._descriptor is not None:
            self._path.unlink(missing_ok=True)
            with suppress(OSError):
                # Unlocks it also for a child that was forked a moment ago.
                fcntl.flock(self._descriptor, fcntl.LOCK_UN)
            self.forget()

    def forget(self) -> None:
        """Close the file without releasing the lock: in a forked child it is the parent's."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    @staticmethod
    def is_held(path: Path) -> bool:
        """Return whether a process of this machine holds the lock, without trying to take it."""
        holder = _read_holder(_lock_path(path))
        pid = holder.get("pid")
        if not isinstance(pid, int) or holder.get("host") != socket.gethostname():
            return False
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        except OSError:
            return True  # it runs, as another user
        return True


_held_locks: "weakref.WeakSet[WriterLock]" = weakref.WeakSet()


def _forget_locks_of_parent() -> None:
    for lock in list(_held_locks):
        lock.forget()


os.register_at_fork(after_in_child=_forget_locks_of_parent)


def _lock_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.lock")


def _read_holder(path: Path) -> dict[str, Any]:
    """Return the process that a lock file names; nothing if it names none."""
    try:
        holder: object = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return cast("dict[str, Any]", holder) if isinstance(holder, dict) else {}


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise RunRefused(f"{folder} is a file, and a run needs a folder: name another") from None
    except OSError as error:
        raise RunRefused(
            f"{folder} cannot be created ({error.strerror}): name another folder"
        ) from None


def _explain_missing_run(path: Path) -> str:
    if not path.exists():
        return f"there is no run {path}: name the folder of a run"
    if _has_old_layout(path):
        return _OLD_LAYOUT.format(path)
    if path.is_dir():
        return f"{path} has no {FILE_NAME}, so it is not a run: name the folder of a run"
    return f"{path} is not a run: name the folder of a run, or its {FILE_NAME}"


_OLD_LAYOUT = (
    "{} was written by an earlier version of assay, which saved a run as JSON files; this version "
    "cannot read it: score the data again into another folder"
)


def _has_old_layout(folder: Path) -> bool:
    return (folder / "run.json").is_file() and not (folder / FILE_NAME).exists()


def _refuse_old_layout(folder: Path) -> None:
    if _has_old_layout(folder):
        raise RunRefused(_OLD_LAYOUT.format(folder))


def _connect_for_reading(path: Path) -> sqlite3.Connection:
    wal = path.with_name(f"{path.name}-wal")
    rollback_journal = path.with_name(f"{path.name}-journal")
    mode = "ro"
    if not os.access(path.parent, os.W_OK):
        if not wal.exists():
            # SQLite cannot make the files beside it that it needs to read a run in WAL mode.
            mode = "ro&immutable=1"
    elif rollback_journal.exists():
        # A kill may have left half a transaction in the file, which only a writer can take back.
        mode = "rw"
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}",
        uri=True,
        timeout=BUSY_SECONDS,
        isolation_level=None,
        check_same_thread=False,
    )
    connection.text_factory = _decode_text
    return connection


def _decode_text(raw: bytes) -> str:
    # SQLite makes half a character of an escaped one in JSON, which is not valid UTF-8.
    return raw.decode(errors="replace")


def _has_tables(connection: sqlite3.Connection) -> bool:
    return bool(connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0])


def _check_version(connection: sqlite3.Connection, path: Path) -> None:
    (application_id,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application_id == 0 and not _has_tables(connection):
        raise RunError(_NOTHING_YET.format(path))
    if application_id != APPLICATION_ID:
        raise RunRefused(f"{path} is an SQLite file, but not a run: name the folder of a run")
    if version != SCHEMA_VERSION:
        raise RunRefused(
            f"{path} has version {version} of the format of runs, and this version of assay reads "
            f"{SCHEMA_VERSION}: use the version of assay that wrote it"
        )


_NOTHING_YET = "{} holds no run yet: wait until it is started, or name another folder"


def _read_about(rows: Sequence[tuple[Any, ...]], path: Path) -> dict[str, Any]:
    if not rows:
        raise RunError(_NOTHING_YET.format(path))
    try:
        about: object = json.loads(rows[0][0])
    except ValueError as error:
        raise RunError(explain_damage(path, f"its metadata: {error}")) from None
    if not isinstance(about, dict):
        raise RunError(explain_damage(path, "its metadata is not a JSON object"))
    return cast("dict[str, Any]", about)


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


def explain_damage(path: Path, problem: str) -> str:
    """Return the message for a file that cannot be read as it should be."""
    run = path.parent if path.name == FILE_NAME else path
    return (
        f"{path} is damaged ({problem}): `assay show {run} --recover FOLDER` copies what can be "
        "read into a new run, which can then be resumed"
    )


@contextmanager
def explain_errors(path: Path, count_saved: Any = None) -> Generator[None]:
    """Turn errors of SQLite into a `RunError` that says what to do."""
    try:
        yield
    except sqlite3.ProgrammingError:
        raise
    except sqlite3.DatabaseError as error:
        raise RunError(_explain(error, path, count_saved)) from error


def _explain(error: sqlite3.DatabaseError, path: Path, count_saved: Any) -> str:
    code = getattr(error, "sqlite_errorcode", None)
    # The low byte is the kind of error; the rest says more about it.
    kind = None if code is None else code & 0xFF
    if kind in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
        saved = ""
        if count_saved is not None:
            with suppress(RunError, sqlite3.Error):
                saved = f"; {count_saved():,} rollouts are saved"
        return (
            f"{path} cannot be written ({error}){saved}: free some space or repair the disk, and "
            "resume the run"
        )
    if kind == sqlite3.SQLITE_BUSY or kind == sqlite3.SQLITE_LOCKED:
        return f"{path} is locked by another program ({error}): close it, and try again"
    if kind in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_READONLY):
        return (
            f"{path} cannot be opened ({error}): check the permissions of the file and its folder, "
            "or copy the run to a folder that you can write to"
        )
    return explain_damage(path, str(error))
