"""recover_run copies what can be read of a damaged run into a new one."""

import json
import sqlite3
from contextlib import suppress

from assay.runs.jsonable import escape_surrogates
from assay.runs.metadata import RunAbout
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
    """Copy what can be read of a damaged run into a new run, which `writer` writes.

    Return two numbers: the rollouts that were copied, and those that were lost. A rollout is copied
    if its data match their checksum, with its verdicts and calls as far as these can be read.
    Raise `RunError` if not even the metadata can be read.
    """
    about = file.read_run()
    RunAbout.from_saved(about, file.path)  # raises if they are damaged
    writer.save_about(about)
    with explain_errors(file.path):
        connection = connect_for_reading(file.path)
    copied = lost = 0
    try:
        known_ids = _list_ids(connection)
        # A rollout that no query lists may still be found by its id, so all ids up to the largest
        # known one are tried. That one is limited, since damage may have made it huge.
        largest_id = min(max(known_ids, default=0), 2 * len(known_ids) + BATCH_ROWS)
        ids_to_try = known_ids.union(range(1, largest_id + 1))
        for rollout_id in sorted(ids_to_try):
            rollout = _read_rollout(connection, rollout_id)
            if rollout is not None and _try_to_save(writer, rollout):
                copied += 1
            elif rollout_id in known_ids:
                lost += 1
        for table in ("labels", "spending", "generations"):
            with suppress(sqlite3.Error):
                rows = connection.execute(f"SELECT * FROM {table}").fetchall()
                writer.insert_rows(table, rows)
    finally:
        connection.close()
    return copied, lost


def _list_ids(connection: sqlite3.Connection) -> set[int]:
    """Return the ids of all rollouts that can be found in a damaged file.

    The table, its index and the verdicts are stored in different pages, and only some may be
    damaged. A query that meets a damaged page yields the ids before it.
    """
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
    if columns is None:
        return None
    *rollout_columns, checksum = columns
    example, sample, row, *other_columns = rollout_columns
    data = other_columns[-1]
    if not is_intact(data, checksum):
        return None
    # The checksum covers only the data. They also say which rollout this is, so that is read from
    # them, and from the columns only if it is missing there.
    saved_row = json.loads(data)
    verdicts: list[SavedVerdict] = []
    calls: list[SavedCall] = []
    # The first column of both tables is the id of the rollout.
    with suppress(sqlite3.Error):
        for values in connection.execute("SELECT * FROM verdicts WHERE rollout = ?", (rollout_id,)):
            verdicts.append(SavedVerdict(*values[1:]))
        for values in connection.execute("SELECT * FROM calls WHERE rollout = ?", (rollout_id,)):
            calls.append(SavedCall(*values[1:]))
    return SavedRollout(
        escape_surrogates(saved_row.get("example", example)),
        saved_row.get("sample", sample),
        saved_row.get("row", row),
        *other_columns,
        verdicts=verdicts,
        calls=calls,
    )


def _try_to_save(writer: RunWriter, rollout: SavedRollout) -> bool:
    """Save a rollout. Return False if damage has left a value that its column cannot hold."""
    try:
        writer.save_rollouts([rollout])
    except RunError as error:
        if isinstance(error.__cause__, sqlite3.IntegrityError):
            return False
        raise
    return True
