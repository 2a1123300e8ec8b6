"""recover_run copies what can be read of a damaged run into a new one."""

import json
import sqlite3
from contextlib import suppress

from assay.runs.jsonable import encodable
from assay.runs.run_errors import RunError, explain_errors
from assay.runs.run_file import BATCH_ROWS, RunFile, connect_for_reading
from assay.runs.run_schema import (
    COPIED_ROLLOUT_COLUMNS,
    SavedCall,
    SavedRollout,
    SavedVerdict,
    is_intact,
)
from assay.runs.run_writer import RunWriter


def recover_run(file: RunFile, writer: RunWriter) -> tuple[int, int]:
    """Copy what can be read of a damaged run; return how many rollouts were copied, and lost.

    Every rollout whose data match their checksum is copied, with its verdicts and calls as far
    as these can be read. Raise `RunError` if not even the metadata can be read.
    """
    writer.save_about(file.read_run())
    with explain_errors(file.path):
        connection = connect_for_reading(file.path)
    saved = lost = 0
    try:
        known_ids = _list_ids(connection)
        # A rollout that no query lists may still be found by its id. Ids are tried up to the largest
        # known one, but damage can make that one huge.
        largest_id = min(max(known_ids, default=0), 2 * len(known_ids) + BATCH_ROWS)
        for rollout_id in sorted(known_ids.union(range(1, largest_id + 1))):
            rollout = _read_rollout(connection, rollout_id)
            if rollout is not None and _try_to_save(writer, rollout):
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


def _read_rollout(connection: sqlite3.Connection, rollout_id: int) -> SavedRollout | None:
    """Return a rollout with its verdicts and calls; None if it cannot be read or is damaged."""
    query = f"SELECT {COPIED_ROLLOUT_COLUMNS} FROM rollouts WHERE id = ?"
    try:
        columns = connection.execute(query, (rollout_id,)).fetchone()
    except sqlite3.Error:
        return None
    if columns is None or not is_intact(*columns[-2:]):
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


def _try_to_save(writer: RunWriter, rollout: SavedRollout) -> bool:
    """Save a rollout. Return False if damage has left a value that its column cannot hold."""
    try:
        writer.save_rollouts([rollout])
    except RunError as error:
        if isinstance(error.__cause__, sqlite3.IntegrityError):
            return False
        raise
    return True
