"""SqliteStore keeps verdicts in one file, for every process on this machine."""

import sqlite3
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from assay.cache.store import SCHEMA_VERSION, Selection, Store
from assay.errors import CacheError

APPLICATION_ID = 0x61737379
"""Stands in the file's header, so that no other program's database is taken for ours."""
BUSY_SECONDS = 60.0
"""How long to wait for another process that is writing."""
_TABLE = """
CREATE TABLE verdicts (
    key TEXT PRIMARY KEY, question TEXT NOT NULL, text TEXT NOT NULL, judge TEXT NOT NULL,
    prompt TEXT NOT NULL, sample INTEGER NOT NULL, created REAL NOT NULL, cost REAL, value TEXT NOT NULL
)"""
NETWORK_DISKS = frozenset(
    {"9p", "afs", "beegfs", "ceph", "cifs", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs", "nfs4"}
    | {"orangefs", "panfs", "smb2", "smb3", "smbfs", "virtiofs", "wekafs"}
    | {"fuse.ceph", "fuse.glusterfs", "fuse.s3fs", "fuse.sshfs"}
)
"""File systems, as the kernel names them, that several hosts may use at once."""

Result = TypeVar("Result")


class SqliteStore(Store):
    """Verdicts in an SQLite file. Readers never wait for a writer in another process (WAL mode).

    What `put_many` has returned from survives the death of the process, also by SIGKILL. It does not
    wait for the disk (`synchronous=NORMAL`): a power cut may take the last moments, and leaves the
    file whole.
    """

    _table = "verdicts"
    _row_number = "rowid"
    # IMMEDIATE takes the write lock first; a lock taken half-way can fail without waiting.
    _begin = "BEGIN IMMEDIATE"

    def __init__(self, path: str | Path) -> None:
        """Opens the file, or makes it. Raises `CacheError` when it is not ours to use."""
        super().__init__()
        self.path = Path(path).expanduser()
        self.where = str(self.path)
        try:
            self._run(self._prepare)
        except BaseException:
            self.close()
            raise

    def prune(self, selection: Selection) -> int:
        """Forget these for ever; how many there were. Gives the space back to the disk."""
        count = super().prune(selection)
        # Another process at work is a reason to leave the space for later.
        with suppress(sqlite3.OperationalError):
            self._on_connection(lambda connection: connection.execute("VACUUM"))
        return count

    def _connect(self) -> Any:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(self.path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA synchronous = NORMAL")
        return connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        """Make the table, or see that the one there is ours and of a version we know."""
        # Changing to WAL mode does not wait by itself when another process is in the way.
        deadline = time.monotonic() + BUSY_SECONDS
        while True:
            try:
                return self._make_table(connection)
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() > deadline:
                    raise
                time.sleep(0.01)

    def _make_table(self, connection: sqlite3.Connection) -> None:
        tables = _number(connection, "SELECT count(*) FROM sqlite_master")
        if tables and _number(connection, "PRAGMA application_id") != APPLICATION_ID:
            raise CacheError(
                f"{self.where} is an SQLite database of something else: "
                "point ASSAY_CACHE or cache= at a place of its own"
            )
        version = _number(connection, "PRAGMA user_version")
        if version > SCHEMA_VERSION:
            raise CacheError(
                f"{self.where} was written by a newer assay (schema {version}, this one knows "
                f"{SCHEMA_VERSION}): upgrade assay, or point ASSAY_CACHE at another place"
            )
        # Several hosts cannot share the memory that WAL needs, and would spoil the file.
        mode = "DELETE" if network_disk(self.path) else "WAL"
        connection.execute(f"PRAGMA journal_mode = {mode}")
        with self._transaction(connection):
            if not _number(connection, "PRAGMA user_version"):
                connection.execute(_TABLE)
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")

    def _size(self) -> int:
        files = (Path(f"{self.path}{ending}") for ending in ("", "-wal"))
        return sum(file.stat().st_size for file in files if file.exists())

    def _run(self, work: Callable[[Any], Result]) -> Result:
        try:
            return self._on_connection(work)
        except sqlite3.OperationalError as error:
            raise CacheError(
                f"the verdict cache {self.where} cannot be used ({error}): see that the disk has room, "
                "is local and may be written, or point ASSAY_CACHE at another place"
            ) from error
        except sqlite3.DatabaseError as error:
            raise CacheError(
                f"the verdict cache {self.where} is damaged ({error}): move it away and its verdicts "
                f"are judged again, or save what can be read with: sqlite3 '{self.where}' .recover"
            ) from error
        except OSError as error:
            raise CacheError(
                f"the verdict cache {self.where} cannot be opened ({error}): "
                "point ASSAY_CACHE at a folder that may be written"
            ) from error


def _number(connection: sqlite3.Connection, query: str) -> int:
    [(number,)] = connection.execute(query)
    return int(number)


def network_disk(path: Path) -> str | None:
    """The kind of network disk that a path lies on; None for a local one, or where it is not said."""
    if sys.platform != "linux":
        return None
    try:
        mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    kind = mounted_kind(path.absolute(), mounts)
    return kind if kind in NETWORK_DISKS else None


def mounted_kind(path: Path, mounts: str) -> str | None:
    """The file system that a path lies on, by the kernel's list of mounts.

    >>> mounted_kind(Path("/home/ada/x"), "1 0 0:1 / / rw - ext4 /dev/sda rw\\n2 1 0:2 / /home rw - nfs4 h:/ rw")
    'nfs4'
    """
    best, kind = Path(), None
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        fields = before.split()
        if len(fields) < 5 or not after:
            continue
        place = Path(fields[4].replace("\\040", " "))
        # Of two mounts on one place the later hides the earlier.
        if path.is_relative_to(place) and len(place.parts) >= len(best.parts):
            best, kind = place, after.split()[0]
    return kind
