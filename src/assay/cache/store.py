"""Store verdicts in SQLite or PostgreSQL, each under a key that changes with anything that could change it.

The calls block on a disk or a server; `VerdictCache` is the async version.
"""

import hashlib
import json
import os
import re
import sqlite3
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, astuple, dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from assay.criterion import hash_json
from assay.errors import CacheError, import_extra
from assay.redaction import get_logger

logger = get_logger(__name__)

KEYS_AT_ONCE = 500  # keys that one query looks up
ROWS_AT_ONCE = 1000  # rows that one query reads, or one transaction imports
SCHEMA_VERSION = 1  # incremented when the stored format changes; a store refuses newer versions
# In the header of the file, so that databases of other programs are recognised.
APPLICATION_ID = 0x61737379
BUSY_SECONDS = 60.0  # how long to wait for another process that is writing
CONNECT_SECONDS = 10  # how long to wait for a server
# In PostgreSQL's syntax, which SQLite accepts too.
_COLUMNS = (
    "key TEXT PRIMARY KEY, question TEXT NOT NULL, text TEXT NOT NULL, judge TEXT NOT NULL, prompt TEXT NOT NULL, "
    "sample BIGINT NOT NULL, created DOUBLE PRECISION NOT NULL, cost DOUBLE PRECISION, value TEXT NOT NULL"
)
_COLUMN_NAMES = tuple(column.split()[0] for column in _COLUMNS.split(", "))

Result = TypeVar("Result")


def text_hash(text: str) -> str:
    """Return the SHA-256 of a text. Compute it once per response for all keys of that response."""
    # Models under test may write half of a surrogate pair, which plain UTF-8 cannot encode.
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True)
class VerdictKey:
    """Identifies a question about a text to a judge."""

    question: str  # the criterion's `question_hash`
    # The `text_hash` of everything else that the judge reads: the response, the query, a reference.
    text: str
    # The model and whatever else changes its answers: endpoint, temperature, reasoning effort.
    judge: str
    prompt: str  # the version of the prompt
    sample: int = 0  # the number of the sample, so that each sample of a judge has its own verdict

    def __post_init__(self) -> None:
        """Raise `CacheError` if a part cannot be stored."""
        for name in ("question", "text", "judge", "prompt"):
            value: object = getattr(self, name)
            if not isinstance(value, str):  # this happens only if the file is damaged
                raise CacheError(f"{name} {value!r:.200} is not a text: prune it away")
            if "\0" in value:
                raise CacheError(
                    f"{name} {value!r:.200} holds a NUL, which a database cannot: leave it out"
                )

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of the five parts, which is the key in a store."""
        return hash_json([self.question, self.text, self.judge, self.prompt, self.sample])


@dataclass(frozen=True)
class CachedVerdict:
    """A verdict with its cost."""

    # The choice, number or whole reply of the judge. Failures and truncated replies are not cached.
    verdict: str | float
    reason: str = ""
    # Tokens by kind, as the endpoint counted them.
    usage: Mapping[str, int] = field(default_factory=dict[str, int])
    cost: float | None = None  # US dollars that it cost; None if the price is unknown
    # Further data as JSON: resolved model id, log-probabilities.
    details: Mapping[str, Any] = field(default_factory=dict[str, Any])
    created: float = field(default_factory=time.time)  # seconds since 1970

    def __post_init__(self) -> None:
        """Raise `CacheError` if there is no verdict: it would be returned as an answer forever."""
        if self.verdict in ("", None):
            raise CacheError(
                f"{self.verdict!r} is not a verdict and is not cached: keep only what a judge answered"
            )

    @cached_property
    def line(self) -> str:
        """The verdict as one line of JSON. Raises `CacheError` if JSON cannot represent it."""
        fields = {name: getattr(self, name) for name in _FIELDS}
        # These may be mappings of another type, which JSON cannot represent.
        fields["usage"] = dict(self.usage)
        fields["details"] = dict(self.details)
        try:
            return json.dumps(fields, separators=(",", ":"), allow_nan=False)
        except (TypeError, ValueError) as error:
            raise CacheError(
                f"{self!r:.200} cannot be cached ({error}): use only what JSON can hold"
            ) from None

    @classmethod
    def of(cls, line: str) -> "CachedVerdict":
        """Return the verdict of a line that `line` wrote. Unknown fields are ignored."""
        try:
            data = json.loads(line)
            known_fields = {name: data[name] for name in _FIELDS if name in data}
            verdict = cls(**known_fields)
            _check_types(verdict)
            return verdict
        except (ValueError, TypeError, RecursionError) as error:
            raise CacheError(
                f"the cache holds {line!r:.200}, which is not a verdict ({error}): prune it away"
            ) from None


_FIELDS = tuple(CachedVerdict.__dataclass_fields__)


def _check_types(verdict: CachedVerdict) -> None:
    """Raise `TypeError` if a field of a stored verdict has the wrong type."""
    number = int | float
    types: dict[str, Any] = {
        "verdict": str | number,
        "reason": str,
        "usage": dict,
        "cost": number | None,
        "details": dict,
        "created": number,
    }
    for name, expected_type in types.items():
        value = getattr(verdict, name)
        if not isinstance(value, expected_type):
            raise TypeError(f"{name} is {value!r:.100}")
    if not all(isinstance(count, int) for count in verdict.usage.values()):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"usage is {verdict.usage!r:.100}")


Item: TypeAlias = tuple[VerdictKey, CachedVerdict]


@dataclass(frozen=True)
class Selection:
    """Selects verdicts; by default all."""

    judge: str | None = None  # a judge as in the keys; a `*` at the end matches anything
    # Only verdicts that were stored before this time, in seconds since 1970.
    before: float | None = None
    question: str | None = None  # the `question_hash` of one criterion

    def terms(self) -> dict[str, object]:
        """Return the SQL conditions, such as `created < ?`, each with the argument for its `?`."""
        terms: dict[str, object] = {}
        if self.judge is not None and self.judge.endswith("*"):
            # LIKE has other wildcards, and is case-sensitive in only one of the two databases.
            prefix = self.judge.removesuffix("*")
            terms[f"substr(judge, 1, {len(prefix)}) = ?"] = prefix
        elif self.judge is not None:
            terms["judge = ?"] = self.judge
        if self.before is not None:
            terms["created < ?"] = self.before
        if self.question is not None:
            terms["question = ?"] = self.question
        return terms


ALL = Selection()


@dataclass(frozen=True)
class CacheStats:
    """The size of a store."""

    where: str  # the file, or the URL of the database without its login
    verdicts: int = 0
    judges: Mapping[str, int] | None = None  # number of verdicts by judge, most first
    oldest: float | None = None  # seconds since 1970; None when empty
    newest: float | None = None
    cost: float = 0.0  # US dollars that these verdicts cost, as far as prices were known
    size: int = 0  # bytes on disk


class Store:
    """Verdicts in an SQLite file. The first verdict of a key is kept.

    Several threads and processes may use it at the same time. Threads share one connection. Verdicts
    survive a SIGKILL once `put_many` has returned; a power cut may lose those of the last moments,
    but does not damage the file.
    """

    _table = "verdicts"
    _row_number = "rowid"  # the column with the numbers of the rows
    _mark = "?"  # how the database writes a parameter in a query

    def __init__(self, where: str) -> None:
        """Open or create the file. Raises `CacheError` if it cannot be used."""
        self.where = where  # its name in messages
        self.lock = threading.RLock()
        self._connection: Any = None
        _STORES.add(self)
        try:
            self._run(self._prepare)
        except BaseException:
            self.close()
            raise

    def get_many(self, keys: Sequence[VerdictKey]) -> dict[VerdictKey, CachedVerdict]:
        """Return the stored verdicts of these keys; keys without a verdict are left out."""
        keys_by_digest = {key.digest: key for key in keys}
        digests = list(keys_by_digest)
        verdicts: dict[VerdictKey, CachedVerdict] = {}
        for start in range(0, len(digests), KEYS_AT_ONCE):
            batch = digests[start : start + KEYS_AT_ONCE]
            marks = ",".join("?" * len(batch))
            query = f"SELECT key, value FROM {self._table} WHERE key IN ({marks})"
            for digest, line in self._read_rows(query, batch):
                key = keys_by_digest.get(digest)
                if key is None:
                    continue  # the index of a damaged file may lead to another row
                try:
                    verdicts[key] = CachedVerdict.of(line)
                except CacheError as error:
                    # It will be judged again; the other verdicts are still returned.
                    logger.warning("a verdict in %s cannot be read: %s", self.where, error)
        return verdicts

    def put_many(self, items: Sequence[Item]) -> None:
        """Store all of these verdicts, or none. A verdict that a key has already is kept."""
        rows: list[tuple[Any, ...]] = []
        for key, verdict in items:
            rows.append((key.digest, *astuple(key), verdict.created, verdict.cost, verdict.line))
        if not rows:
            return
        columns = ",".join(_COLUMN_NAMES)
        marks = ",".join([self._mark] * len(_COLUMN_NAMES))  # a parameter for each column
        query = f"INSERT INTO {self._table} ({columns}) VALUES ({marks}) ON CONFLICT DO NOTHING"

        def insert(connection: Any) -> None:
            with self._transaction(connection):
                connection.cursor().executemany(query, rows)

        self._run(insert)

    def entries(self, selection: Selection = ALL, *, limit: int | None = None) -> Iterator[Item]:
        """Yield the selected verdicts with their keys, about in the order in which they were stored.

        With `limit`, yield at most so many. Verdicts that are stored in the meantime are included.
        """
        terms = selection.terms()
        condition = " AND ".join([*terms, f"{self._row_number} > ?"])
        query = (
            f"SELECT {self._row_number}, question, text, judge, prompt, sample, value "
            f"FROM {self._table} WHERE {condition} ORDER BY {self._row_number} LIMIT ?"
        )
        last_row_number = -1
        remaining = sys.maxsize if limit is None else limit
        while remaining > 0:
            # A page at a time, so that a slow reader does not block writers.
            page_size = min(remaining, ROWS_AT_ONCE)
            page = self._read_rows(query, [*terms.values(), last_row_number, page_size])
            if not page:
                return
            for _, *key_parts, line in page:
                yield VerdictKey(*key_parts), CachedVerdict.of(line)
            last_row_number = page[-1][0]
            remaining -= len(page)

    def prune(self, selection: Selection) -> int:
        """Delete the selected verdicts, and return their number."""
        terms = selection.terms()
        query = f"DELETE FROM {self._table}"
        if terms:
            query += f" WHERE {' AND '.join(terms)}"
        query = query.replace("?", self._mark)
        arguments = list(terms.values())
        count = self._run(lambda connection: connection.execute(query, arguments).rowcount)
        self._reclaim_space()
        return count

    def stats(self) -> CacheStats:
        """Return the size of the store."""
        figures = "count(*), min(created), max(created), coalesce(sum(cost), 0)"
        [(count, oldest, newest, cost)] = self._read_rows(f"SELECT {figures} FROM {self._table}")
        counts_by_judge = self._read_rows(
            f"SELECT judge, count(*) FROM {self._table} GROUP BY judge ORDER BY 2 DESC, 1"
        )
        return CacheStats(
            where=self.where,
            verdicts=count,
            judges=dict(counts_by_judge),
            oldest=oldest,
            newest=newest,
            cost=float(cost),
            size=self._measure_size(),
        )

    def close(self) -> None:
        """Close the connection. A later call opens a new one."""
        with self.lock:
            connection = self._connection
            self._connection = None
            if connection is not None:
                connection.close()

    def _connect(self) -> Any:
        """Open a connection to the file, which is created if it does not exist."""
        Path(self.where).parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(
            self.where, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        connection.execute("PRAGMA synchronous = NORMAL")
        return connection

    def _prepare(self, connection: Any) -> None:
        """Create the table of a new store, or check the one of an existing store."""
        # SQLite waits for a lock of another process, except when it changes to WAL mode. So the
        # preparation is retried for as long.
        deadline = time.monotonic() + BUSY_SECONDS
        while True:
            try:
                return self._create_or_check_table(connection)
            except sqlite3.OperationalError as error:
                is_locked = "locked" in str(error)
                if not is_locked or time.monotonic() > deadline:
                    raise
                time.sleep(0.01)

    def _create_or_check_table(self, connection: sqlite3.Connection) -> None:
        """Create the table, or check that the existing one is ours and of a known version."""

        def read_number(query: str) -> int:
            return connection.execute(query).fetchone()[0]

        has_tables = read_number("SELECT count(*) FROM sqlite_master") > 0
        if has_tables and read_number("PRAGMA application_id") != APPLICATION_ID:
            raise CacheError(
                f"{self.where} is an SQLite database of another program: "
                "point ASSAY_CACHE or cache= at a place of its own"
            )
        self._check_version(read_number("PRAGMA user_version"))
        # In WAL mode processes share memory. Several hosts cannot, and would corrupt the file.
        journal_mode = "DELETE" if is_on_network_disk(Path(self.where)) else "WAL"
        connection.execute(f"PRAGMA journal_mode = {journal_mode}")
        with self._transaction(connection):
            # Read again: another process may have created the table in the meantime.
            is_new = read_number("PRAGMA user_version") == 0
            if is_new:
                connection.execute(f"CREATE TABLE verdicts ({_COLUMNS})")
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")

    def _measure_size(self) -> int:
        """Return the bytes of the file, and of the file beside it with the latest changes."""
        size = 0
        for suffix in ("", "-wal"):
            file = Path(f"{self.where}{suffix}")
            if file.exists():
                size += file.stat().st_size
        return size

    def _run(self, work: Callable[[Any], Result]) -> Result:
        """Return what `work` returns for the connection. Raise `CacheError` if the file is unusable."""
        try:
            return self._run_on_connection(work)
        except sqlite3.OperationalError as error:
            raise CacheError(
                f"the verdict cache {self.where} cannot be used ({error}): see that the disk has "
                "room, is local and may be written, or point ASSAY_CACHE at another place"
            ) from error
        # SQLite's error messages may contain bytes of a damaged file, which are not valid UTF-8.
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            raise CacheError(
                f"the verdict cache {self.where} is damaged ({error}): move it away and its "
                "verdicts are judged again, or save what can be read with: "
                f"sqlite3 '{self.where}' .recover"
            ) from error
        except OSError as error:
            raise CacheError(
                f"the verdict cache {self.where} cannot be opened ({error}): "
                "point ASSAY_CACHE at a folder that may be written"
            ) from error

    def _reclaim_space(self) -> None:
        """Make the file smaller after verdicts were deleted."""
        # This fails while another process uses the file. The space is then reclaimed later.
        with suppress(sqlite3.OperationalError):
            self._run_on_connection(lambda connection: connection.execute("VACUUM"))

    def _check_version(self, version: int) -> None:
        """Raise `CacheError` if a newer version of assay has written the store."""
        if version > SCHEMA_VERSION:
            raise CacheError(
                f"{self.where} was written by a newer version of assay (schema {version}, "
                f"this version knows {SCHEMA_VERSION}): upgrade assay, or point ASSAY_CACHE at "
                "another place"
            )

    def _run_on_connection(self, work: Callable[[Any], Result]) -> Result:
        """Return what `work` returns for the connection, which no other thread uses meanwhile."""
        with self.lock:
            if self._connection is None:
                self._connection = self._connect()
            return work(self._connection)

    def _read_rows(self, query: str, arguments: Sequence[object] = ()) -> list[Any]:
        """Return the rows that a query selects. It has a `?` for each argument."""
        query = query.replace("?", self._mark)
        return self._run(lambda connection: connection.execute(query, arguments).fetchall())

    def _transaction(self, connection: Any) -> Any:
        """Return a context manager for a transaction, which begins at once.

        The transaction is committed at the end of the block, or rolled back after an exception.
        """
        # IMMEDIATE takes the write lock now. Taking it later, while reading, could fail at once if
        # another process is writing, instead of waiting for it.
        connection.execute("BEGIN IMMEDIATE")
        return connection


class PostgresStore(Store):
    """Verdicts in a PostgreSQL database.

    They are in the tables `assay_verdicts` and `assay_cache` of its default schema.
    """

    _table = "assay_verdicts"
    _row_number = "number"
    _mark = "%s"

    def __init__(self, url: str) -> None:
        """Connect to `postgresql://user:password@host:5432/database`.

        Raises `CacheError` if the server cannot be used.
        """
        self._psycopg = import_extra(
            "psycopg", "a verdict cache in PostgreSQL", package="psycopg[binary]"
        )
        self._url = url
        # Messages show the URL without the login, and without options, which may hold a password.
        url_without_login = re.sub(r"//[^@/]*@", "//…@", url)
        super().__init__(url_without_login.partition("?")[0])

    def put_many(self, items: Sequence[Item]) -> None:
        """Store all of these verdicts, or none. A verdict that a key has already is kept."""
        # In a fixed order, since two processes that store the same keys could deadlock in any other.
        super().put_many(sorted(items, key=lambda item: item[0].digest))

    def _connect(self) -> Any:
        """Open a connection to the server."""
        return self._psycopg.connect(
            self._url, autocommit=True, connect_timeout=CONNECT_SECONDS, application_name="assay"
        )

    def _prepare(self, connection: Any) -> None:
        """Create the tables of a new store, or check the version of an existing store."""
        with self._transaction(connection):
            # A lock, so that only one of several processes that start together creates the tables.
            connection.execute("SELECT pg_advisory_xact_lock(%s)", [APPLICATION_ID])
            row_number = "number BIGINT GENERATED ALWAYS AS IDENTITY"
            connection.execute(
                f"CREATE TABLE IF NOT EXISTS assay_verdicts ({row_number}, {_COLUMNS})"
            )
            connection.execute(
                "CREATE TABLE IF NOT EXISTS assay_cache (schema_version INTEGER NOT NULL)"
            )
            [version] = connection.execute("SELECT max(schema_version) FROM assay_cache").fetchone()
            self._check_version(version or 0)
            is_new = version is None
            if is_new:
                connection.execute("INSERT INTO assay_cache VALUES (%s)", [SCHEMA_VERSION])

    def _transaction(self, connection: Any) -> Any:
        """Return a context manager for a transaction."""
        return connection.transaction()

    def _reclaim_space(self) -> None:
        """Do nothing: the server reclaims space itself."""

    def _measure_size(self) -> int:
        """Return the bytes that the verdicts and their index take on the server."""
        [(size,)] = self._read_rows("SELECT pg_total_relation_size('assay_verdicts')")
        return size

    def _run(self, work: Callable[[Any], Result]) -> Result:
        """Return what `work` returns for the connection. Raise `CacheError` if the server fails.

        If the connection was lost, `work` is called once more on a new one.
        """
        try:
            try:
                return self._run_on_connection(work)
            except self._psycopg.OperationalError:
                self.close()
                return self._run_on_connection(work)
        except self._psycopg.Error as error:
            self.close()
            problem = " ".join(str(error).split()) or type(error).__name__
            raise CacheError(
                f"the verdict cache {self.where} cannot be used ({problem}): see that the server "
                "runs and lets this user in and create tables, or use a cache on disk"
            ) from None


# The kernel's names of file systems that several hosts can use at the same time.
NETWORK_DISKS = frozenset(
    {"9p", "afs", "beegfs", "ceph", "cifs", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs", "nfs4"}
    | {"orangefs", "panfs", "smb2", "smb3", "smbfs", "virtiofs", "wekafs"}
    | {"fuse.ceph", "fuse.glusterfs", "fuse.s3fs", "fuse.sshfs"}
)


def is_on_network_disk(path: Path) -> bool:
    """Whether a path is on a network disk; False if this is unknown."""
    try:
        mounts = Path("/proc/self/mounts").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return find_file_system(path.absolute(), mounts) in NETWORK_DISKS


def find_file_system(path: Path, mounts: str) -> str | None:
    """Return the kind of file system that a path is on, such as `nfs4`; None if it is not known.

    `mounts` is the kernel's list of mounts: on each line the device, the folder where it is mounted,
    the kind of file system, and options.
    """
    mount_point = Path()
    file_system: str | None = None
    for line in mounts.splitlines():
        _, escaped_folder, kind, *_ = line.split(" ")
        folder = Path(escaped_folder.replace("\\040", " "))
        # The innermost mount around the path counts. Of two at the same folder, the later hides the
        # earlier.
        is_inner = len(folder.parts) >= len(mount_point.parts)
        if path.is_relative_to(folder) and is_inner:
            mount_point = folder
            file_system = kind
    return file_system


# The stores of this process, and how they survive a fork.

_STORES: weakref.WeakSet[Store] = weakref.WeakSet()
_fork_lock = threading.RLock()  # held during a fork
_locked_stores: list[Store] = []  # those that `_lock_stores` has locked for the fork in progress


def _lock_stores() -> None:
    """Close the connections of all stores, and lock the stores, before the process forks.

    This waits for the threads that use a connection. No other thread opens one until the fork is
    done.
    """
    # SQLite keeps its locks in the memory of the process. A child that inherits an open file assumes
    # locks that it does not have, even on a connection of its own, and loses writes.
    _fork_lock.acquire()
    _locked_stores.extend(_STORES)
    for store in _locked_stores:
        store.lock.acquire()
        store.close()


def _unlock_stores() -> None:
    """Unlock the stores after a fork, in the parent and in the child."""
    for store in _locked_stores:
        store.lock.release()
    _locked_stores.clear()
    _fork_lock.release()


# The child may release the locks, because its only thread is a copy of the one that took them.
os.register_at_fork(
    before=_lock_stores, after_in_parent=_unlock_stores, after_in_child=_unlock_stores
)


def default_place() -> str:
    """Return `ASSAY_CACHE` if it is set, or else `assay` in the user's cache folder."""
    return os.environ.get("ASSAY_CACHE") or str(user_folder() / "assay")


def user_folder() -> Path:
    """Return the user's cache folder."""
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def file_of(location: str) -> Path | None:
    """Return the SQLite file of a cache, whether it exists or not; None for a cache on a server.

    `location` is the file itself, the folder that it is in, or the URL of a server.
    """
    if location.startswith(("postgresql://", "postgres://")):
        return None
    path = Path(location).expanduser()
    is_file = path.suffix in (".sqlite", ".sqlite3", ".db")
    return path if is_file else path / "verdicts.sqlite"


def open_store(where: str | Path | None = None) -> Store:
    """Open the store at a folder, a file ending in `.sqlite` or `.db`, or a `postgresql://` URL.

    None means `default_place()`. Raises `CacheError` if it cannot be used.
    """
    location = default_place() if where is None else str(where)
    file = file_of(location)
    return PostgresStore(location) if file is None else Store(str(file))


def export_lines(store: Store, selection: Selection = ALL) -> Iterator[str]:
    """Yield one line of JSON per verdict, with the fields of its key, in the order of `entries`."""
    for key, verdict in store.entries(selection):
        yield json.dumps(asdict(key) | json.loads(verdict.line))


def import_lines(store: Store, lines: Iterable[str]) -> int:
    """Store the lines of `export_lines`, and return their number.

    This merges the caches of several machines: an existing verdict is kept.
    """
    items = _parse_lines(lines)
    count = 0
    while batch := list(islice(items, ROWS_AT_ONCE)):
        store.put_many(batch)
        count += len(batch)
    return count


def _parse_lines(lines: Iterable[str]) -> Iterator[Item]:
    """Yield the verdicts of exported lines; blank lines are skipped."""
    for number, line in enumerate(lines, start=1):
        if line.strip():
            yield _parse_line(line, number)


def _parse_line(line: str, number: int) -> Item:
    """Return the key and the verdict of an exported line. `number` is for the error message."""
    try:
        fields = json.loads(line)
        key_parts = {name: fields.pop(name) for name in VerdictKey.__dataclass_fields__}
        return VerdictKey(**key_parts), CachedVerdict(**fields)
    except (ValueError, TypeError, KeyError, AttributeError, CacheError) as error:
        raise CacheError(
            f"line {number}: {line.strip()!r:.200} is not an exported verdict ({error}): "
            "give the lines that `export_lines` wrote"
        ) from None
