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
HOLDS_WORK: Final = "SELECT EXISTS (SELECT 1 FROM rollouts) OR EXISTS (SELECT 1 FROM generations)"


class RunFile:
    """The file of a saved run, read with one short-lived connection per query.

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
        if not is_intact(data, checksum):
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
        return read_about(self.select("SELECT about FROM run"), self.path)


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


def connect_for_reading(path: Path) -> sqlite3.Connection:
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


def has_tables(connection: sqlite3.Connection) -> bool:
    return bool(connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0])


def check_version(connection: sqlite3.Connection, path: Path) -> None:
    (application_id,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application_id == 0 and not has_tables(connection):
        raise RunError(_NOTHING_YET.format(path))
    if application_id != APPLICATION_ID:
        raise RunRefused(f"{path} is an SQLite file, but not a run: name the folder of a run")
    if version != SCHEMA_VERSION:
        raise RunRefused(
            f"{path} has version {version} of the format of runs, and this version of assay reads "
            f"{SCHEMA_VERSION}: use the version of assay that wrote it"
        )


_NOTHING_YET = "{} holds no run yet: wait until it is started, or name another folder"


def read_about(rows: Sequence[tuple[Any, ...]], path: Path) -> dict[str, Any]:
    if not rows:
        raise RunError(_NOTHING_YET.format(path))
    try:
        about: object = json.loads(rows[0][0])
    except ValueError as error:
        raise RunError(explain_damage(path, f"its metadata: {error}")) from None
    if not isinstance(about, dict):
        raise RunError(explain_damage(path, "its metadata is not a JSON object"))
    return cast("dict[str, Any]", about)
