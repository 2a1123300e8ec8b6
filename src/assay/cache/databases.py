"""Keep verdicts in an SQLite file, for every process on a machine, or in PostgreSQL, for a whole team."""

import re
import sqlite3
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from assay.cache.store import Item, Selection, Store
from assay.errors import CacheError, MissingExtraError

SCHEMA_VERSION = 1  # goes up when what is stored changes; a store refuses a newer one than it knows
APPLICATION_ID = 0x61737379  # stands in the file's header, so that no other program's database is taken for ours
BUSY_SECONDS, CONNECT_SECONDS = 60.0, 10  # how long to wait for another process that is writing, and for a server
NETWORK_DISKS = frozenset(
    {"9p", "afs", "beegfs", "ceph", "cifs", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs", "nfs4"}
    | {"orangefs", "panfs", "smb2", "smb3", "smbfs", "virtiofs", "wekafs"}
    | {"fuse.ceph", "fuse.glusterfs", "fuse.s3fs", "fuse.sshfs"}
)
"""File systems, as the kernel names them, that several hosts may use at once."""

# In the words of PostgreSQL, which SQLite understands too.
_COLUMNS = (
    "key TEXT PRIMARY KEY, question TEXT NOT NULL, text TEXT NOT NULL, judge TEXT NOT NULL, prompt TEXT NOT NULL, "
    "sample BIGINT NOT NULL, created DOUBLE PRECISION NOT NULL, cost DOUBLE PRECISION, value TEXT NOT NULL"
)
Result = TypeVar("Result")


def _refuse_newer(where: str, version: int) -> None:
    if version > SCHEMA_VERSION:
        raise CacheError(
            f"{where} was written by a newer assay (schema {version}, this one knows {SCHEMA_VERSION}): "
            "upgrade assay, or point ASSAY_CACHE at another place"
        )


class SqliteStore(Store):
    """Verdicts in an SQLite file. Readers never wait for a writer in another process (WAL mode).

    What `put_many` has returned from survives the death of the process, also by SIGKILL. It does not
    wait for the disk (`synchronous=NORMAL`): a power cut may take the last moments, and leaves the
    file whole.
    """

    _table, _row_number, _mark = "verdicts", "rowid", "?"
    # IMMEDIATE takes the write lock first; a lock taken half-way can fail without waiting.
    _begin = "BEGIN IMMEDIATE"

    def __init__(self, path: str | Path) -> None:
        """Opens the file, or makes it. Raises `CacheError` when it is not ours to use."""
        self.path = Path(path).expanduser()
        super().__init__(str(self.path))

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

    def _prepare(self, connection: Any) -> None:
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
        """Make the table, or see that the one there is ours and of a version we know."""

        def number(query: str) -> int:
            return connection.execute(query).fetchone()[0]

        if number("SELECT count(*) FROM sqlite_master") and number("PRAGMA application_id") != APPLICATION_ID:
            raise CacheError(
                f"{self.where} is an SQLite database of something else: "
                "point ASSAY_CACHE or cache= at a place of its own"
            )
        _refuse_newer(self.where, number("PRAGMA user_version"))
        # Several hosts cannot share the memory that WAL needs, and would spoil the file.
        connection.execute(f"PRAGMA journal_mode = {'DELETE' if network_disk(self.path) else 'WAL'}")
        with self._transaction(connection):
            if not number("PRAGMA user_version"):
                connection.execute(f"CREATE TABLE verdicts ({_COLUMNS})")
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")

    def _size(self) -> int:
        files = (Path(f"{self.path}{ending}") for ending in ("", "-wal"))
        return sum(file.stat().st_size for file in files if file.exists())

    def _run(self, work: Callable[[Any], Result]) -> Result:
        try:
            return self._on_connection(work)
        except sqlite3.OperationalError as error:
            cause, problem = error, f"cannot be used ({error}): see that the disk has room, is local and may be "
            problem += "written, or point ASSAY_CACHE at another place"
        except sqlite3.DatabaseError as error:
            cause, problem = error, f"is damaged ({error}): move it away and its verdicts are judged again, or save "
            problem += f"what can be read with: sqlite3 '{self.where}' .recover"
        except OSError as error:
            cause, problem = error, f"cannot be opened ({error}): point ASSAY_CACHE at a folder that may be written"
        raise CacheError(f"the verdict cache {self.where} {problem}") from cause


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
    """The file system that a path lies on, by the kernel's list of mounts."""
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


class PostgresStore(Store):
    """Verdicts in a PostgreSQL database, which many machines may write at once.

    Makes the tables `assay_verdicts` and `assay_cache` in the database's default schema. A connection
    that was lost is opened once more before the caller hears of it.
    """

    _table, _row_number, _mark, _begin = "assay_verdicts", "number", "%s", "BEGIN"

    def __init__(self, url: str) -> None:
        """`postgresql://user:password@host:5432/database`. Raises `CacheError` when it does not answer."""
        try:
            self._psycopg: Any = import_module("psycopg")
        except ImportError:
            raise MissingExtraError("a verdict cache in PostgreSQL", package="psycopg", extra="postgres") from None
        self._url = url
        super().__init__(re.sub(r"//[^@/]*@", "//…@", url).partition("?")[0])

    def put_many(self, items: Sequence[Item]) -> None:
        """Keep these, all or none. Where a key has a verdict already, that one stays."""
        # In one order everywhere, or two processes that store the same keys could wait for each other.
        super().put_many(sorted(items, key=lambda item: item[0].digest))

    def _connect(self) -> Any:
        return self._psycopg.connect(
            self._url, autocommit=True, connect_timeout=CONNECT_SECONDS, application_name="assay"
        )

    def _prepare(self, connection: Any) -> None:
        with self._transaction(connection):
            # Held while the tables are made, so that two processes that start at once do not both make them.
            connection.execute("SELECT pg_advisory_xact_lock(%s)", [APPLICATION_ID])
            number = "number BIGINT GENERATED ALWAYS AS IDENTITY"
            connection.execute(f"CREATE TABLE IF NOT EXISTS assay_verdicts ({number}, {_COLUMNS})")
            connection.execute("CREATE TABLE IF NOT EXISTS assay_cache (schema_version INTEGER NOT NULL)")
            [version] = connection.execute("SELECT max(schema_version) FROM assay_cache").fetchone()
            _refuse_newer(self.where, version or 0)
            if version is None:
                connection.execute("INSERT INTO assay_cache VALUES (%s)", [SCHEMA_VERSION])

    def _size(self) -> int:
        return self._rows("SELECT pg_total_relation_size('assay_verdicts')")[0][0]

    def _run(self, work: Callable[[Any], Result]) -> Result:
        """Tried once more on a fresh connection when the old one was lost."""
        try:
            try:
                return self._on_connection(work)
            except self._psycopg.OperationalError:
                self.close()
                return self._on_connection(work)
        except self._psycopg.Error as error:
            self.close()
            said = " ".join(str(error).split()) or type(error).__name__
            raise CacheError(
                f"the verdict cache {self.where} cannot be used ({said}): see that the server "
                "runs and lets this user in and create tables, or use a cache on disk"
            ) from None
