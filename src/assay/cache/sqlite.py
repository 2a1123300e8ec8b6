"""SqliteStore: verdicts in one file, for every process on this machine."""

import sqlite3
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from assay.cache.disks import network_disk
from assay.cache.held import Held
from assay.cache.store import (
    ALL,
    COLUMNS,
    SCHEMA_VERSION,
    CacheStats,
    Item,
    Selection,
    item_of,
    row_of,
)
from assay.cache.verdict import CachedVerdict, VerdictKey
from assay.errors import CacheError

APPLICATION_ID = 0x61737379
"""Stands in the file's header, so that nobody else's database is taken for ours."""

BUSY_SECONDS = 60.0
"""How long to wait for another process that is writing."""

KEYS_AT_ONCE = 500
ROWS_AT_ONCE = 1000

Result = TypeVar("Result")

_TABLE = """
CREATE TABLE verdicts (
    key TEXT PRIMARY KEY, question TEXT NOT NULL, text TEXT NOT NULL, judge TEXT NOT NULL,
    prompt TEXT NOT NULL, sample INTEGER NOT NULL, created REAL NOT NULL, cost REAL, value TEXT NOT NULL
)"""


class SqliteStore:
    """Verdicts in an SQLite file. Readers never wait for the writer (WAL mode).

    What `put_many` has returned from survives the death of the process, also by SIGKILL. It does not
    wait for the disk (`synchronous=NORMAL`): a power cut may take the last moments, and leaves the
    file whole.
    """

    def __init__(self, path: str | Path) -> None:
        """Opens the file, or makes it. Raises `CacheError` when it is not ours to use."""
        self.path = Path(path).expanduser()
        self.where = str(self.path)
        self._reading = Held(self._connect, sqlite3.Connection.close)
        self._writing = Held(self._connect, sqlite3.Connection.close)
        try:
            with self._explained():
                self.path.parent.mkdir(parents=True, exist_ok=True)
                with self._writing.use() as connection:
                    _patiently(lambda: self._prepare(connection))
        except BaseException:
            self.close()
            raise

    def get_many(self, keys: Sequence[VerdictKey]) -> dict[VerdictKey, CachedVerdict]:
        """The verdicts that are there; keys without one are left out."""
        by_digest = {key.digest: key for key in keys}
        digests = list(by_digest)
        found: dict[VerdictKey, CachedVerdict] = {}
        with self._explained(), self._reading.use() as connection:
            for start in range(0, len(digests), KEYS_AT_ONCE):
                part = digests[start : start + KEYS_AT_ONCE]
                marks = ",".join("?" * len(part))
                query = f"SELECT key, value FROM verdicts WHERE key IN ({marks})"
                for digest, value in connection.execute(query, part):
                    found[by_digest[digest]] = CachedVerdict.of(value)
        return found

    def put_many(self, items: Sequence[Item]) -> None:
        """Keep these, all or none. Where a key has a verdict already, that one stays."""
        rows = [row_of(item) for item in items]
        marks = ",".join("?" * len(COLUMNS.split(",")))
        with self._explained(), self._writing.use() as connection, _transaction(connection):
            connection.executemany(
                f"INSERT OR IGNORE INTO verdicts ({COLUMNS}) VALUES ({marks})", rows
            )

    def entries(self, selection: Selection = ALL, *, limit: int | None = None) -> Iterator[Item]:
        """What is stored, batch after batch; the order inside a batch is any."""
        condition, arguments = selection.where("?")
        last, left = 0, limit
        while left is None or left > 0:
            # By the page, so that a slow reader holds up nobody and sees what is added meanwhile.
            size = ROWS_AT_ONCE if left is None else min(left, ROWS_AT_ONCE)
            further = f"{condition} {'AND' if condition else 'WHERE'} rowid > ?"
            query = f"SELECT rowid, {COLUMNS} FROM verdicts{further} ORDER BY rowid LIMIT ?"
            with self._explained(), self._reading.use() as connection:
                page = connection.execute(query, [*arguments, last, size]).fetchall()
            if not page:
                return
            yield from (item_of(row[1:]) for row in page)
            last, left = page[-1][0], None if left is None else left - len(page)

    def prune(self, selection: Selection) -> int:
        """Forget these for ever; how many there were. Gives the space back to the disk."""
        condition, arguments = selection.where("?")
        with self._explained(), self._writing.use() as connection:
            with _transaction(connection):
                count = connection.execute(f"DELETE FROM verdicts{condition}", arguments).rowcount
            # Somebody else at work is a reason to leave the space for later.
            with suppress(sqlite3.OperationalError):
                connection.execute("VACUUM")
        return count

    def stats(self) -> CacheStats:
        """How much is there."""
        with self._explained(), self._reading.use() as connection:
            [(count, oldest, newest, cost)] = connection.execute(
                "SELECT count(*), min(created), max(created), total(cost) FROM verdicts"
            )
            judges = connection.execute(
                "SELECT judge, count(*) FROM verdicts GROUP BY judge ORDER BY 2 DESC, 1"
            )
            return CacheStats(
                self.where, count, dict(judges), oldest, newest, cost, self._bytes_on_disk()
            )

    def close(self) -> None:
        """Let go of the file."""
        self._reading.drop()
        self._writing.drop()

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        connection.execute("PRAGMA synchronous = NORMAL")
        return connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        """Make the table, or see that the one there is ours and of a version we know."""
        self._check_owner(connection)
        # Several hosts cannot share the memory that WAL needs, and would spoil the file.
        mode = "DELETE" if network_disk(self.path) else "WAL"
        connection.execute(f"PRAGMA journal_mode = {mode}")
        with _transaction(connection):
            if not _number(connection, "PRAGMA user_version"):
                connection.execute(_TABLE)
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")

    def _check_owner(self, connection: sqlite3.Connection) -> None:
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

    def _bytes_on_disk(self) -> int:
        files = (Path(f"{self.path}{ending}") for ending in ("", "-wal"))
        return sum(file.stat().st_size for file in files if file.exists())

    @contextmanager
    def _explained(self) -> Generator[None]:
        try:
            yield
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


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Generator[None]:
    # IMMEDIATE takes the write lock first; a lock taken half-way can fail without waiting.
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def _number(connection: sqlite3.Connection, query: str) -> int:
    [(number,)] = connection.execute(query)
    return int(number)


def _patiently(work: Callable[[], Result]) -> Result:
    """Try until nobody is in the way: changing to WAL mode does not wait by itself."""
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            return work()
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
