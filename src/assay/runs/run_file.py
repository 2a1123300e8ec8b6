"""RunFile reads the SQLite file of a run, also while another process writes it."""

import json
import os
import sqlite3
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, cast

from assay.runs.run_errors import (
    RunError,
    RunRefused,
    explain_damage,
    explain_errors,
    explain_missing_run,
)
from assay.runs.run_schema import (
    APPLICATION_ID,
    LABEL_COLUMNS,
    SCHEMA_VERSION,
    RolloutData,
    find_run_file,
    is_intact,
)
from assay.runs.writer_lock import WriterLock

BUSY_SECONDS: Final = 30.0  # how long to wait for another connection before giving up
BATCH_ROWS: Final = 500  # rows that a reader fetches at once
# Selects whether a run holds anything that must not be lost.
HOLDS_WORK: Final = "SELECT EXISTS (SELECT 1 FROM rollouts) OR EXISTS (SELECT 1 FROM generations)"


class RunFile:
    """The SQLite file of a saved run, read with one short-lived connection per query.

    It can be used from several threads, and while another process writes the run.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """`path` is the folder of the run, or its file. Raise `RunError` if there is no run."""
        self.path = find_run_file(path)
        if not self.path.is_file():
            raise RunError(explain_missing_run(Path(path)))

    @property
    def folder(self) -> Path:
        return self.path.parent

    @property
    def holds_work(self) -> bool:
        """Whether anything is saved that must not be lost: a rollout, or a generation."""
        return bool(self.select_value(HOLDS_WORK))

    @property
    def is_being_written(self) -> bool:
        """Whether a process of this machine has the run open for writing."""
        return WriterLock.is_held(self.path)

    @contextmanager
    def connect(self) -> Generator[sqlite3.Connection]:
        """Open the file for reading. Errors of SQLite become `RunError`s that say what to do."""
        with explain_errors(self.path):
            connection = connect_for_reading(self.path)
            try:
                check_version(connection, self.path)
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
        """Yield what is saved of rollouts, in the order of the data.

        `where` is a condition in SQL on the table `rollouts`, and `parameters` are its `:name`s.
        Rollouts are fetched in batches, each with a connection of its own, so a run of any size can
        be read while it is written. Raise `RunError` at a rollout that is damaged.
        """
        # Data are read as bytes, since their checksum is that of the bytes. The order by row and id
        # says where the next batch begins.
        query = (
            "SELECT row, id, CAST(data AS BLOB), checksum FROM rollouts "
            f"WHERE (row, id) > (:last_row, :last_id) AND ({where}) "
            f"ORDER BY row, id LIMIT {BATCH_ROWS}"
        )
        last_row = last_id = -1
        while True:
            all_parameters = {**(parameters or {}), "last_row": last_row, "last_id": last_id}
            with self.connect() as connection:
                batch = connection.execute(query, all_parameters).fetchall()
                rollout_ids = [rollout_id for _, rollout_id, _, _ in batch]
                calls_by_rollout = _read_calls(connection, rollout_ids)
            for _, rollout_id, data, checksum in batch:
                self._refuse_damage(rollout_id, data, checksum)
                yield RolloutData(rollout_id, data, calls_by_rollout.get(rollout_id, ()))
            if len(batch) < BATCH_ROWS:
                return
            last_row, last_id, _, _ = batch[-1]

    def _refuse_damage(self, rollout_id: int, data: bytes, checksum: int) -> None:
        """Raise `RunError` if the data of a rollout do not match their checksum."""
        if not is_intact(data, checksum):
            raise RunError(
                explain_damage(self.path, f"the checksum of rollout {rollout_id} does not match")
            )

    def read_labels(self) -> list[dict[str, Any]]:
        """Return the labels that people gave to the rollouts of the run, the oldest first.

        Each has the columns of the table `labels`.
        """
        names = ", ".join(LABEL_COLUMNS)
        rows = self.select(f"SELECT {names} FROM labels ORDER BY time")
        return [dict(zip(LABEL_COLUMNS, row, strict=True)) for row in rows]

    def save_label(self, label: Mapping[str, Any]) -> None:
        """Save the label that a person gave to a rollout; `label` has columns of the table `labels`.

        It replaces an earlier one of the same person about the same criterion of the rollout.
        Another process may be writing the run meanwhile.
        """
        names = ", ".join(LABEL_COLUMNS)
        placeholders = ", ".join(f":{name}" for name in LABEL_COLUMNS)
        values = {name: label.get(name) for name in LABEL_COLUMNS}
        with explain_errors(self.path):
            connection = sqlite3.connect(self.path, timeout=BUSY_SECONDS)
            try:
                with connection:  # one transaction
                    connection.execute(
                        f"INSERT OR REPLACE INTO labels ({names}) VALUES ({placeholders})", values
                    )
            finally:
                connection.close()

    def read_run(self) -> dict[str, Any]:
        """Return the metadata of the run."""
        return read_about(self.select("SELECT about FROM run"), self.path)


def _read_calls(
    connection: sqlite3.Connection, rollout_ids: Sequence[int]
) -> dict[int, list[dict[str, Any]]]:
    """Return the saved calls of models for these rollouts, by the id of the rollout."""
    calls_by_rollout: dict[int, list[dict[str, Any]]] = {}
    # A list as JSON, since SQLite limits the number of parameters of a query.
    rows = connection.execute(
        "SELECT rollout, data FROM calls WHERE rollout IN (SELECT value FROM json_each(?)) "
        "ORDER BY rollout, position",
        (json.dumps(rollout_ids),),
    )
    for rollout_id, data in rows:
        calls_by_rollout.setdefault(rollout_id, []).append(json.loads(data))
    return calls_by_rollout


def connect_for_reading(path: Path) -> sqlite3.Connection:
    """Open the SQLite file of a run so that it can be read while another process writes it.

    The file may be in a folder without permission to write, or left behind by a killed process.
    """
    write_ahead_log = path.with_name(f"{path.name}-wal")
    rollback_journal = path.with_name(f"{path.name}-journal")
    can_write = os.access(path.parent, os.W_OK)
    mode = "ro"  # read-only
    if not can_write and not write_ahead_log.exists():
        # To read a file in WAL mode, SQLite makes files beside it, which it cannot do here. They
        # are not needed if no process writes the file.
        mode = "ro&immutable=1"
    if can_write and rollback_journal.exists():
        # A kill may have left half a transaction in the file. To undo it, SQLite has to write.
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
    # JSON may hold half a character (a lone surrogate) as an escape. SQLite's functions for JSON
    # turn that into bytes that are not valid UTF-8.
    return raw.decode(errors="replace")


def has_tables(connection: sqlite3.Connection) -> bool:
    """Return whether the database has any table: a run that is being started has none yet."""
    return bool(connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0])


def check_version(connection: sqlite3.Connection, path: Path) -> None:
    """Raise `RunError` unless the open file is a run in the format that this version reads."""
    (application_id,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application_id == 0 and not has_tables(connection):
        raise RunError(_NOTHING_YET_MESSAGE.format(path))
    if application_id != APPLICATION_ID:
        raise RunRefused(f"{path} is an SQLite file, but not a run: name the folder of a run")
    if version != SCHEMA_VERSION:
        raise RunRefused(
            f"{path} has version {version} of the format of runs, and this version of assay reads "
            f"{SCHEMA_VERSION}: use the version of assay that wrote it"
        )


_NOTHING_YET_MESSAGE = "{} holds no run yet: wait until it is started, or name another folder"


def read_about(rows: Sequence[tuple[Any, ...]], path: Path) -> dict[str, Any]:
    """Return the metadata of a run from what `SELECT about FROM run` returned.

    Raise `RunError` if the run has no metadata yet, or if they are damaged.
    """
    if not rows:
        raise RunError(_NOTHING_YET_MESSAGE.format(path))
    try:
        about: object = json.loads(rows[0][0])
    except ValueError as error:
        raise RunError(explain_damage(path, f"its metadata: {error}")) from None
    if not isinstance(about, dict):
        raise RunError(explain_damage(path, "its metadata is not a JSON object"))
    return cast("dict[str, Any]", about)
