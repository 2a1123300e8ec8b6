"""Store verdicts in SQLite or PostgreSQL, each under a key that changes with anything that could change it.

Plain calls that wait for a disk or a server; `VerdictCache` is the same for a running event loop.
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
SCHEMA_VERSION = 1  # goes up when what is stored changes; a store refuses a newer one than it knows
APPLICATION_ID = (
    0x61737379  # stands in the file's header, so that no other program's database is taken for ours
)
BUSY_SECONDS, CONNECT_SECONDS = (
    60.0,
    10,
)  # how long to wait for another process that is writing, and for a server
# In the words of PostgreSQL, which SQLite understands too.
_COLUMNS = (
    "key TEXT PRIMARY KEY, question TEXT NOT NULL, text TEXT NOT NULL, judge TEXT NOT NULL, prompt TEXT NOT NULL, "
    "sample BIGINT NOT NULL, created DOUBLE PRECISION NOT NULL, cost DOUBLE PRECISION, value TEXT NOT NULL"
)
_NAMES = tuple(column.split()[0] for column in _COLUMNS.split(", "))

Result = TypeVar("Result")


def text_hash(text: str) -> str:
    """The SHA-256 of a text. Take it once a response and share it over that response's keys."""
    # Half of a surrogate pair is no text, but models under test write it.
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True)
class VerdictKey:
    """Which question about which text was put to which judge, and how."""

    question: str  # the criterion's `question_hash`
    text: str  # the `text_hash` of all else the judge reads: the response, the query, a reference answer
    judge: str  # the model and whatever else changes its answers: endpoint, temperature, reasoning effort
    prompt: str  # the version of the prompt
    sample: int = (
        0  # which of several samples of one judge; without it k samples would collapse into one
    )

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
        """The five parts as one SHA-256; what a store looks up."""
        return hash_json([self.question, self.text, self.judge, self.prompt, self.sample])


@dataclass(frozen=True)
class CachedVerdict:
    """A verdict, and what it took to get it."""

    verdict: (
        str | float
    )  # the choice, number or whole reply the judge gave. Failures and cut-off replies are none
    reason: str = ""
    usage: Mapping[str, int] = field(
        default_factory=dict[str, int]
    )  # tokens by kind, as the endpoint counted them
    cost: float | None = None  # US dollars paid for it, once; None when the price is not known
    # Anything else worth keeping that JSON can hold: resolved model id, log-probabilities.
    details: Mapping[str, Any] = field(default_factory=dict[str, Any])
    created: float = field(default_factory=time.time)  # seconds since 1970

    def __post_init__(self) -> None:
        # A stored failure would be given as an answer for ever, and no one would see it.
        if self.verdict in ("", None):
            raise CacheError(
                f"{self.verdict!r} is not a verdict and is not cached: keep only what a judge answered"
            )

    @cached_property
    def line(self) -> str:
        """The verdict as one line of JSON. Raises `CacheError` when JSON cannot hold it."""
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
        """The verdict of such a line; fields that this version does not know are passed over."""
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
    """Which verdicts are meant; all of them unless narrowed."""

    judge: str | None = (
        None  # A judge as it stands in the keys; a `*` at the end stands for anything
    )
    before: float | None = None  # only what was stored earlier than this, in seconds since 1970
    question: str | None = None  # the `question_hash` of one criterion

    def terms(self) -> dict[str, object]:
        """The SQL conditions, with their arguments; a parameter is written as `?`."""
        terms: dict[str, object] = {
            "judge = ?": self.judge,
            "created < ?": self.before,
            "question = ?": self.question,
        }
        if self.judge is not None and self.judge.endswith("*"):
            # Not LIKE: it has wildcards of its own and minds case in only one of the databases.
            terms |= {
                "judge = ?": None,
                f"substr(judge, 1, {len(self.judge) - 1}) = ?": self.judge[:-1],
            }
        return {term: value for term, value in terms.items() if value is not None}


ALL = Selection()


@dataclass(frozen=True)
class CacheStats:
    """How much a store holds."""

    where: str  # the file, or the database without its password
    verdicts: int = 0
    judges: Mapping[str, int] | None = None  # verdicts by judge, most first
    oldest: float | None = None  # seconds since 1970; None when empty
    newest: float | None = None
    cost: float = (
        0.0  # US dollars these verdicts cost when they were judged, as far as prices were known
    )
    size: int = 0  # bytes on disk


class Store:
    """Verdicts in an SQLite file. Safe for several threads and processes; the first verdict stays.

    Threads take turns at one connection. What `put_many` has returned from survives a SIGKILL; a power cut may take the
    last moments, and leaves the file whole.
    """

    _table, _row_number, _mark = "verdicts", "rowid", "?"

    def __init__(self, where: str) -> None:
        """Opens the file, or makes it. Raises `CacheError` when it is not ours to use."""
        self.where = where  # what to call it in messages
        self.lock = threading.RLock()
        self._connection: Any = None
        _STORES.add(self)
        try:
            self._run(self._prepare)
        except BaseException:
            self.close()
            raise

    def get_many(self, keys: Sequence[VerdictKey]) -> dict[VerdictKey, CachedVerdict]:
        """The verdicts that are there; keys without one are left out."""
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
                    # It is judged again, and what else was asked for has an answer all the same.
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
        """What is stored, batch after batch; the order inside a batch is any."""
        condition = " AND ".join([*selection.terms(), f"{self._row_number} > ?"])
        query = f"SELECT {self._row_number}, question, text, judge, prompt, sample, value FROM {self._table} "
        query += f"WHERE {condition} ORDER BY {self._row_number} LIMIT ?"
        last, left = -1, sys.maxsize if limit is None else limit
        while left > 0:
            # By the page, so that a slow reader holds up no writer and sees what is added meanwhile.
            page = self._rows(query, [*selection.terms().values(), last, min(left, ROWS_AT_ONCE)])
            if not page:
                return
            for _, *key, value in page:
                yield VerdictKey(*key), CachedVerdict.of(value)
            last, left = page[-1][0], left - len(page)

    def prune(self, selection: Selection) -> int:
        """Forget these for ever; how many there were."""
        terms = selection.terms()
        condition = f" WHERE {' AND '.join(terms)}" if terms else ""
        query = f"DELETE FROM {self._table}{condition}".replace("?", self._mark)
        count = self._run(
            lambda connection: connection.execute(query, list(terms.values())).rowcount
        )
        self._give_space_back()
        return count

    def stats(self) -> CacheStats:
        """How much is there."""
        figures = "count(*), min(created), max(created), coalesce(sum(cost), 0)"
        [(count, oldest, newest, cost)] = self._rows(f"SELECT {figures} FROM {self._table}")
        judges = self._rows(
            f"SELECT judge, count(*) FROM {self._table} GROUP BY judge ORDER BY 2 DESC, 1"
        )
        return CacheStats(
            self.where, count, dict(judges), oldest, newest, float(cost), self._size()
        )

    def close(self) -> None:
        """Let go of files and connections."""
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

        if (
            number("SELECT count(*) FROM sqlite_master")
            and number("PRAGMA application_id") != APPLICATION_ID
        ):
            advice = "point ASSAY_CACHE or cache= at a place of its own"
            raise CacheError(f"{self.where} is an SQLite database of another program: {advice}")
        self._refuse_newer(number("PRAGMA user_version"))
        # Several hosts cannot share the memory that WAL needs, and would spoil the file.
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
        # SQLite reports damage in words that may hold bytes of the damaged file.
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
        # Another process at work is a reason to leave the space for later.
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
        """A block at whose end all is committed, or nothing when something was raised."""
        # IMMEDIATE takes the write lock first; a lock taken half-way can fail without waiting.
        connection.execute("BEGIN IMMEDIATE")
        return connection


class PostgresStore(Store):
    """Verdicts in a PostgreSQL database, in the tables `assay_verdicts` and `assay_cache` of its default schema."""

    _table, _row_number, _mark = "assay_verdicts", "number", "%s"

    def __init__(self, url: str) -> None:
        """`postgresql://user:password@host:5432/database`. Raises `CacheError` when it does not answer."""
        self._psycopg = import_extra(
            "psycopg", "a verdict cache in PostgreSQL", package="psycopg[binary]"
        )
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
        """Left to the server, which does so by itself."""

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
            advice = "see that the server runs and lets this user in and create tables, or use a cache on disk"
            raise CacheError(
                f"the verdict cache {self.where} cannot be used ({said}): {advice}"
            ) from None


# File systems, as the kernel names them, that several hosts may use at once.
NETWORK_DISKS = frozenset(
    {"9p", "afs", "beegfs", "ceph", "cifs", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs", "nfs4"}
    | {"orangefs", "panfs", "smb2", "smb3", "smbfs", "virtiofs", "wekafs"}
    | {"fuse.ceph", "fuse.glusterfs", "fuse.s3fs", "fuse.sshfs"}
)


def is_on_network_disk(path: Path) -> bool:
    """Whether a path lies on a network disk; False where the system does not say."""
    try:
        mounts = Path("/proc/self/mounts").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return mounted_kind(path.absolute(), mounts) in NETWORK_DISKS


def mounted_kind(path: Path, mounts: str) -> str | None:
    """The file system that a path lies on, by the kernel's list of mounts."""
    best, kind = Path(), None
    for line in mounts.splitlines():
        _, folder, mounted, *_ = line.split(" ")
        place = Path(folder.replace("\\040", " "))
        # Of two mounts on one place the later hides the earlier.
        if path.is_relative_to(place) and len(place.parts) >= len(best.parts):
            best, kind = place, mounted
    return kind


_STORES: weakref.WeakSet[Store] = weakref.WeakSet()
_forking = threading.RLock()
_stopped: list[Store] = []


def _before_fork() -> None:
    """Wait for the thread at each connection and close it; none gets it until after the fork."""
    # SQLite keeps what it has locked in the memory of the process, so a child that inherits an open file believes in
    # locks it does not have, also on a connection of its own, and loses what it writes.
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


# The child may release what the parent took: it is the copy of the thread that took it.
os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)


def default_place() -> str:
    """`ASSAY_CACHE` if it is set, else `assay` in the user's cache folder."""
    return os.environ.get("ASSAY_CACHE") or str(user_folder() / "assay")


def user_folder() -> Path:
    """Where this user's programs keep what can be made again."""
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def file_of(place: str) -> Path | None:
    """The SQLite file that a place stands for, there or not; None for a server."""
    if place.startswith(("postgresql://", "postgres://")):
        return None
    path = Path(place).expanduser()
    return path if path.suffix in (".sqlite", ".sqlite3", ".db") else path / "verdicts.sqlite"


def open_store(where: str | Path | None = None) -> Store:
    """The store at a folder, a file ending in `.sqlite` or `.db`, or a `postgresql://` URL.

    None is `default_place()`. Raises `CacheError` when it cannot be used.
    """
    place = default_place() if where is None else str(where)
    file = file_of(place)
    return PostgresStore(place) if file is None else Store(str(file))


def export_lines(store: Store, selection: Selection = ALL) -> Iterator[str]:
    """One line of JSON a verdict, key and value side by side, in the order of `entries`."""
    for key, verdict in store.entries(selection):
        yield json.dumps(asdict(key) | json.loads(verdict.line))


def import_lines(store: Store, lines: Iterable[str]) -> int:
    """Store what `export_lines` wrote, and say how many lines there were.

    Merges caches of several machines: a verdict that is there already stays.
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
