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

KEYS_AT_ONCE, ROWS_AT_ONCE = 500, 1000
SCHEMA_VERSION = 1  # incremented when the stored format changes; a store refuses newer versions
APPLICATION_ID = (
    0x61737379  # in the file's header, so that databases of other programs are recognised
)
BUSY_SECONDS, CONNECT_SECONDS = (
    60.0,
    10,
)  # seconds to wait for another process that is writing, and for a server
# In PostgreSQL's syntax, which SQLite accepts too.
_COLUMNS = (
    "key TEXT PRIMARY KEY, question TEXT NOT NULL, text TEXT NOT NULL, judge TEXT NOT NULL, prompt TEXT NOT NULL, "
    "sample BIGINT NOT NULL, created DOUBLE PRECISION NOT NULL, cost DOUBLE PRECISION, value TEXT NOT NULL"
)
_NAMES = tuple(column.split()[0] for column in _COLUMNS.split(", "))

Result = TypeVar("Result")


def text_hash(text: str) -> str:
    """Return the SHA-256 of a text. Compute it once per response for all keys of that response."""
    # Lone surrogates are not valid text, but models under test write them.
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True)
class VerdictKey:
    """Identifies a question about a text to a judge."""

    question: str  # the criterion's `question_hash`
    text: str  # the `text_hash` of all else the judge reads: the response, the query, a reference answer
    judge: str  # the model and whatever else changes its answers: endpoint, temperature, reasoning effort
    prompt: str  # the version of the prompt
    sample: int = 0  # the number of the sample; without it, several samples of a judge would share one verdict

    def __post_init__(self) -> None:
        for name in ("question", "text", "judge", "prompt"):
            value: object = getattr(self, name)
            if not isinstance(value, str):  # only in a damaged file
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

    verdict: (
        str | float
    )  # the choice, number or whole reply of the judge, never a failure or a truncated reply
    reason: str = ""
    usage: Mapping[str, int] = field(
        default_factory=dict[str, int]
    )  # tokens by kind, as the endpoint counted them
    cost: float | None = None  # US dollars that it cost; None if the price is unknown
    # Further data as JSON: resolved model id, log-probabilities.
    details: Mapping[str, Any] = field(default_factory=dict[str, Any])
    created: float = field(default_factory=time.time)  # seconds since 1970

    def __post_init__(self) -> None:
        # A stored failure would be returned as an answer forever, unnoticed.
        if self.verdict in ("", None):
            raise CacheError(
                f"{self.verdict!r} is not a verdict and is not cached: keep only what a judge answered"
            )

    @cached_property
    def line(self) -> str:
        """Return the verdict as one line of JSON. Raises `CacheError` if JSON cannot represent it."""
        fields = {name: getattr(self, name) for name in _FIELDS}
        fields |= {"usage": dict(self.usage), "details": dict(self.details)}
        try:
            return json.dumps(fields, separators=(",", ":"), allow_nan=False)
        except (TypeError, ValueError) as error:
            raise CacheError(
                f"{self!r:.200} cannot be cached ({error}): use only what JSON can hold"
            ) from None

    @classmethod
    def of(cls, line: str) -> "CachedVerdict":
        """Return the verdict of such a line; unknown fields are ignored."""
        try:
            data = json.loads(line)
            verdict = cls(**{name: data[name] for name in _FIELDS if name in data})
            _refuse_wrong_types(verdict)
            return verdict
        except (ValueError, TypeError, RecursionError) as error:
            raise CacheError(
                f"the cache holds {line!r:.200}, which is not a verdict ({error}): prune it away"
            ) from None


_FIELDS = tuple(CachedVerdict.__dataclass_fields__)


def _refuse_wrong_types(verdict: CachedVerdict) -> None:
    """Raise `TypeError` if a field of a stored verdict has another type than it was stored with."""
    number = int | float
    types: dict[str, Any] = {
        "verdict": str | number,
        "reason": str,
        "usage": dict,
        "cost": number | None,
        "details": dict,
        "created": number,
    }
    for name, expected in types.items():
        if not isinstance(getattr(verdict, name), expected):
            raise TypeError(f"{name} is {getattr(verdict, name)!r:.100}")
    if not all(isinstance(count, int) for count in verdict.usage.values()):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"usage is {verdict.usage!r:.100}")


Item: TypeAlias = tuple[VerdictKey, CachedVerdict]


@dataclass(frozen=True)
class Selection:
    """Selects verdicts; by default all."""

    judge: str | None = None  # a judge as in the keys; a `*` at the end matches anything
    before: float | None = (
        None  # only verdicts that were stored before this time, in seconds since 1970
    )
    question: str | None = None  # the `question_hash` of one criterion

    def terms(self) -> dict[str, object]:
        """Return the SQL conditions with their arguments; a parameter is written as `?`."""
        terms: dict[str, object] = {
            "judge = ?": self.judge,
            "created < ?": self.before,
            "question = ?": self.question,
        }
        if self.judge is not None and self.judge.endswith("*"):
            # Not LIKE, which has other wildcards and is case-sensitive in only one of the databases.
            terms |= {
                "judge = ?": None,
                f"substr(judge, 1, {len(self.judge) - 1}) = ?": self.judge[:-1],
            }
        return {term: value for term, value in terms.items() if value is not None}


ALL = Selection()


@dataclass(frozen=True)
class CacheStats:
    """The size of a store."""

    where: str  # the file, or the database without its password
    verdicts: int = 0
    judges: Mapping[str, int] | None = None  # number of verdicts by judge, most first
    oldest: float | None = None  # seconds since 1970; None when empty
    newest: float | None = None
    cost: float = 0.0  # US dollars that these verdicts cost, as far as prices were known
    size: int = 0  # bytes on disk


class Store:
    """Verdicts in an SQLite file. Safe for several threads and processes; the first verdict of a key is kept.

    Threads share one connection. Verdicts survive a SIGKILL once `put_many` has returned; a power cut may lose the
    last moments but does not damage the file.
    """

    _table, _row_number, _mark = "verdicts", "rowid", "?"

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
        by_digest = {key.digest: key for key in keys}
        digests = list(by_digest)
        found: dict[VerdictKey, CachedVerdict] = {}
        for start in range(0, len(digests), KEYS_AT_ONCE):
            part = digests[start : start + KEYS_AT_ONCE]
            marks = ",".join("?" * len(part))
            rows = self._rows(f"SELECT key, value FROM {self._table} WHERE key IN ({marks})", part)
            for digest, value in rows:
                key = by_digest.get(digest)
                if key is None:
                    continue  # the index of a damaged file may lead to another row
                try:
                    found[key] = CachedVerdict.of(value)
                except CacheError as error:
                    # It will be judged again; the other verdicts are still returned.
                    logger.warning("a verdict in %s cannot be read: %s", self.where, error)
        return found

    def put_many(self, items: Sequence[Item]) -> None:
        """Keep these, all or none. Where a key has a verdict already, that one stays."""
        rows = [
            (key.digest, *astuple(key), verdict.created, verdict.cost, verdict.line)
            for key, verdict in items
        ]
        marks = ",".join([self._mark] * len(_NAMES))
        query = f"INSERT INTO {self._table} ({','.join(_NAMES)}) VALUES ({marks}) ON CONFLICT DO NOTHING"

        def save(connection: Any) -> None:
            with self._transaction(connection):
                connection.cursor().executemany(query, rows)

        if rows:
            self._run(save)

    def entries(self, selection: Selection = ALL, *, limit: int | None = None) -> Iterator[Item]:
        """Yield the stored verdicts in batches; the order within a batch is undefined."""
        condition = " AND ".join([*selection.terms(), f"{self._row_number} > ?"])
        query = f"SELECT {self._row_number}, question, text, judge, prompt, sample, value FROM {self._table} "
        query += f"WHERE {condition} ORDER BY {self._row_number} LIMIT ?"
        last, left = -1, sys.maxsize if limit is None else limit
        while left > 0:
            # In pages, so that a slow reader does not block writers and sees new entries.
            page = self._rows(query, [*selection.terms().values(), last, min(left, ROWS_AT_ONCE)])
            if not page:
                return
            for _, *key, value in page:
                yield VerdictKey(*key), CachedVerdict.of(value)
            last, left = page[-1][0], left - len(page)

    def prune(self, selection: Selection) -> int:
        """Delete these verdicts, and return their number."""
        terms = selection.terms()
        condition = f" WHERE {' AND '.join(terms)}" if terms else ""
        query = f"DELETE FROM {self._table}{condition}".replace("?", self._mark)
        count = self._run(
            lambda connection: connection.execute(query, list(terms.values())).rowcount
        )
        self._give_space_back()
        return count

    def stats(self) -> CacheStats:
        """Return the size of the store."""
        figures = "count(*), min(created), max(created), coalesce(sum(cost), 0)"
        [(count, oldest, newest, cost)] = self._rows(f"SELECT {figures} FROM {self._table}")
        judges = self._rows(
            f"SELECT judge, count(*) FROM {self._table} GROUP BY judge ORDER BY 2 DESC, 1"
        )
        return CacheStats(
            self.where, count, dict(judges), oldest, newest, float(cost), self._size()
        )

    def close(self) -> None:
        """Close files and connections."""
        with self.lock:
            connection, self._connection = self._connection, None
            if connection is not None:
                connection.close()

    def _connect(self) -> Any:
        Path(self.where).parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(
            self.where, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        connection.execute("PRAGMA synchronous = NORMAL")
        return connection

    def _prepare(self, connection: Any) -> None:
        # Changing to WAL mode does not wait for other processes, so we retry.
        deadline = time.monotonic() + BUSY_SECONDS
        while True:
            try:
                return self._make_table(connection)
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() > deadline:
                    raise
                time.sleep(0.01)

    def _make_table(self, connection: sqlite3.Connection) -> None:
        """Create the table, or check that the existing one is ours and of a known version."""

        def number(query: str) -> int:
            return connection.execute(query).fetchone()[0]

        if (
            number("SELECT count(*) FROM sqlite_master")
            and number("PRAGMA application_id") != APPLICATION_ID
        ):
            advice = "point ASSAY_CACHE or cache= at a place of its own"
            raise CacheError(f"{self.where} is an SQLite database of another program: {advice}")
        self._refuse_newer(number("PRAGMA user_version"))
        # WAL needs shared memory, so several hosts would corrupt the file.
        connection.execute(
            f"PRAGMA journal_mode = {'DELETE' if is_on_network_disk(Path(self.where)) else 'WAL'}"
        )
        with self._transaction(connection):
            if not number("PRAGMA user_version"):
                connection.execute(f"CREATE TABLE verdicts ({_COLUMNS})")
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")

    def _size(self) -> int:
        files = (Path(f"{self.where}{ending}") for ending in ("", "-wal"))
        return sum(file.stat().st_size for file in files if file.exists())

    def _run(self, work: Callable[[Any], Result]) -> Result:
        try:
            return self._on_connection(work)
        except sqlite3.OperationalError as error:
            cause, problem = (
                error,
                f"cannot be used ({error}): see that the disk has room, is local and may be ",
            )
            problem += "written, or point ASSAY_CACHE at another place"
        # SQLite's error messages may contain bytes of a damaged file.
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            cause, problem = (
                error,
                f"is damaged ({error}): move it away and its verdicts are judged again, or save ",
            )
            problem += f"what can be read with: sqlite3 '{self.where}' .recover"
        except OSError as error:
            cause, problem = (
                error,
                f"cannot be opened ({error}): point ASSAY_CACHE at a folder that may be written",
            )
        raise CacheError(f"the verdict cache {self.where} {problem}") from cause

    def _give_space_back(self) -> None:
        # If another process is active, the space is reclaimed later.
        with suppress(sqlite3.OperationalError):
            self._on_connection(lambda connection: connection.execute("VACUUM"))

    def _refuse_newer(self, version: int) -> None:
        if version > SCHEMA_VERSION:
            newer = f"was written by a newer version of assay (schema {version}, this version knows {SCHEMA_VERSION})"
            raise CacheError(
                f"{self.where} {newer}: upgrade assay, or point ASSAY_CACHE at another place"
            )

    def _on_connection(self, work: Callable[[Any], Result]) -> Result:
        with self.lock:
            if self._connection is None:
                self._connection = self._connect()
            return work(self._connection)

    def _rows(self, query: str, arguments: Sequence[object] = ()) -> list[Any]:
        query = query.replace("?", self._mark)
        return self._run(lambda connection: connection.execute(query, arguments).fetchall())

    def _transaction(self, connection: Any) -> Any:
        """Run a block as a transaction: commit at its end, or roll back on an exception."""
        # IMMEDIATE takes the write lock first; upgrading a read lock later can fail without waiting.
        connection.execute("BEGIN IMMEDIATE")
        return connection


class PostgresStore(Store):
    """Verdicts in a PostgreSQL database, in the tables `assay_verdicts` and `assay_cache` of its default schema."""

    _table, _row_number, _mark = "assay_verdicts", "number", "%s"

    def __init__(self, url: str) -> None:
        """`where` is `postgresql://user:password@host:5432/database`. Raises `CacheError` if it does not answer."""
        self._psycopg = import_extra(
            "psycopg", "a verdict cache in PostgreSQL", package="psycopg[binary]"
        )
        self._url = url
        super().__init__(re.sub(r"//[^@/]*@", "//…@", url).partition("?")[0])

    def put_many(self, items: Sequence[Item]) -> None:
        """Keep these, all or none. Where a key has a verdict already, that one stays."""
        # In a fixed order, or two processes that store the same keys could deadlock.
        super().put_many(sorted(items, key=lambda item: item[0].digest))

    def _connect(self) -> Any:
        return self._psycopg.connect(
            self._url, autocommit=True, connect_timeout=CONNECT_SECONDS, application_name="assay"
        )

    def _prepare(self, connection: Any) -> None:
        with self._transaction(connection):
            # A lock while the tables are created, so that only one of several starting processes creates them.
            connection.execute("SELECT pg_advisory_xact_lock(%s)", [APPLICATION_ID])
            number = "number BIGINT GENERATED ALWAYS AS IDENTITY"
            connection.execute(f"CREATE TABLE IF NOT EXISTS assay_verdicts ({number}, {_COLUMNS})")
            connection.execute(
                "CREATE TABLE IF NOT EXISTS assay_cache (schema_version INTEGER NOT NULL)"
            )
            [version] = connection.execute("SELECT max(schema_version) FROM assay_cache").fetchone()
            self._refuse_newer(version or 0)
            if version is None:
                connection.execute("INSERT INTO assay_cache VALUES (%s)", [SCHEMA_VERSION])

    def _transaction(self, connection: Any) -> Any:
        return connection.transaction()

    def _give_space_back(self) -> None:
        """Do nothing: the server reclaims space itself."""

    def _size(self) -> int:
        return self._rows("SELECT pg_total_relation_size('assay_verdicts')")[0][0]

    def _run(self, work: Callable[[Any], Result]) -> Result:
        """Run an operation, once more on a fresh connection if the old one was lost."""
        try:
            try:
                return self._on_connection(work)
            except self._psycopg.OperationalError:
                self.close()
                return self._on_connection(work)
        except self._psycopg.Error as error:
            self.close()
            said = " ".join(str(error).split()) or type(error).__name__
            advice = "see that the server runs and lets this user in and create tables, or use a cache on disk"
            raise CacheError(
                f"the verdict cache {self.where} cannot be used ({said}): {advice}"
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
    return mounted_kind(path.absolute(), mounts) in NETWORK_DISKS


def mounted_kind(path: Path, mounts: str) -> str | None:
    """Return the file system of a path, from the kernel's list of mounts."""
    best, kind = Path(), None
    for line in mounts.splitlines():
        _, folder, mounted, *_ = line.split(" ")
        place = Path(folder.replace("\\040", " "))
        # Of two mounts at the same path, the later hides the earlier.
        if path.is_relative_to(place) and len(place.parts) >= len(best.parts):
            best, kind = place, mounted
    return kind


_STORES: weakref.WeakSet[Store] = weakref.WeakSet()
_forking = threading.RLock()
_stopped: list[Store] = []


def _before_fork() -> None:
    """Wait until no thread uses a connection, and close it; no thread gets it until after the fork."""
    # SQLite keeps its locks in the memory of the process, so a child that inherits an open file assumes locks that
    # it does not have, even on its own connection, and loses writes.
    _forking.acquire()
    _stopped.extend(_STORES)
    for store in _stopped:
        store.lock.acquire()
        store.close()


def _after_fork() -> None:
    for store in _stopped:
        store.lock.release()
    _stopped.clear()
    _forking.release()


# The child may release the parent's lock, because it is a copy of the thread that took it.
os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)


def default_place() -> str:
    """Return `ASSAY_CACHE` if it is set, or else `assay` in the user's cache folder."""
    return os.environ.get("ASSAY_CACHE") or str(user_folder() / "assay")


def user_folder() -> Path:
    """Return the user's cache folder."""
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def file_of(place: str) -> Path | None:
    """Return the SQLite file of a place, whether it exists or not; None for a server."""
    if place.startswith(("postgresql://", "postgres://")):
        return None
    path = Path(place).expanduser()
    return path if path.suffix in (".sqlite", ".sqlite3", ".db") else path / "verdicts.sqlite"


def open_store(where: str | Path | None = None) -> Store:
    """Open the store at a folder, a file ending in `.sqlite` or `.db`, or a `postgresql://` URL.

    None means `default_place()`. Raises `CacheError` if it cannot be used.
    """
    place = default_place() if where is None else str(where)
    file = file_of(place)
    return PostgresStore(place) if file is None else Store(str(file))


def export_lines(store: Store, selection: Selection = ALL) -> Iterator[str]:
    """Yield one line of JSON per verdict, with key and value, in the order of `entries`."""
    for key, verdict in store.entries(selection):
        yield json.dumps(asdict(key) | json.loads(verdict.line))


def import_lines(store: Store, lines: Iterable[str]) -> int:
    """Store the lines of `export_lines`, and return their number.

    This merges the caches of several machines: an existing verdict is kept.
    """
    items = (_item(line, number) for number, line in enumerate(lines, start=1) if line.strip())
    count = 0
    while batch := list(islice(items, ROWS_AT_ONCE)):
        store.put_many(batch)
        count += len(batch)
    return count


def _item(line: str, number: int) -> Item:
    try:
        data = json.loads(line)
        key = VerdictKey(**{name: data.pop(name) for name in VerdictKey.__dataclass_fields__})
        return key, CachedVerdict(**data)
    except (ValueError, TypeError, KeyError, AttributeError, CacheError) as error:
        what = f"line {number}: {line.strip()!r:.200} is not an exported verdict ({error})"
        raise CacheError(f"{what}: give the lines that `export_lines` wrote") from None
