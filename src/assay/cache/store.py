"""Store verdicts in a database, each under a key that changes with anything that could change it.

Plain calls that wait for a disk or a server; `VerdictCache` is the same for a running event loop.
"""

import hashlib
import json
import os
import sys
import threading
import time
import weakref
from abc import abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, astuple, dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from assay.criterion import hash_of
from assay.errors import CacheError

KEYS_AT_ONCE, ROWS_AT_ONCE = 500, 1000
_COLUMNS = "key, question, text, judge, prompt, sample, created, cost, value"

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
    sample: int = 0  # which of several samples of one judge; without it k samples would collapse into one

    def __post_init__(self) -> None:
        for name in ("question", "text", "judge", "prompt"):
            if "\0" in (value := getattr(self, name)):
                raise CacheError(f"{name} {value!r:.200} holds a NUL, which a database cannot: leave it out")

    @cached_property
    def digest(self) -> str:
        """The five parts as one SHA-256; what a store looks up."""
        return hash_of([self.question, self.text, self.judge, self.prompt, self.sample])


@dataclass(frozen=True)
class CachedVerdict:
    """A verdict, and what it took to get it."""

    verdict: str | float  # the choice, number or whole reply the judge gave. Failures and cut-off replies are none
    reason: str = ""
    usage: Mapping[str, int] = field(default_factory=dict[str, int])  # tokens by kind, as the endpoint counted them
    cost: float | None = None  # US dollars paid for it, once; None when the price is not known
    details: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Anything else worth keeping that JSON can hold: resolved model id, log-probabilities."""
    created: float = field(default_factory=time.time)  # seconds since 1970

    def __post_init__(self) -> None:
        # A stored failure would be given as an answer for ever, and no one would see it.
        if self.verdict in ("", None):
            raise CacheError(f"{self.verdict!r} is no verdict and is not cached: keep only what a judge answered")

    @cached_property
    def line(self) -> str:
        """The verdict as one line of JSON. Raises `CacheError` when JSON cannot hold it."""
        fields = {name: getattr(self, name) for name in _FIELDS}
        fields |= {"usage": dict(self.usage), "details": dict(self.details)}
        try:
            return json.dumps(fields, separators=(",", ":"), allow_nan=False)
        except (TypeError, ValueError) as error:
            raise CacheError(f"{self!r:.200} cannot be cached ({error}): use only what JSON can hold") from None

    @classmethod
    def of(cls, line: str) -> "CachedVerdict":
        """The verdict of such a line; fields that this version does not know are passed over."""
        try:
            data = json.loads(line)
            return cls(**{name: data[name] for name in _FIELDS if name in data})
        except (ValueError, TypeError) as error:
            raise CacheError(f"the cache holds {line!r:.200}, which is no verdict ({error}): prune it away") from None


_FIELDS = tuple(CachedVerdict.__dataclass_fields__)

Item: TypeAlias = tuple[VerdictKey, CachedVerdict]


@dataclass(frozen=True)
class Selection:
    """Which verdicts are meant; all of them unless narrowed."""

    judge: str | None = None  # A judge as it stands in the keys; a `*` at the end stands for anything
    before: float | None = None  # only what was stored earlier than this, in seconds since 1970
    question: str | None = None  # the `question_hash` of one criterion

    def terms(self) -> dict[str, object]:
        """The SQL conditions, with their arguments; a parameter is written as `?`."""
        terms: dict[str, object] = {"judge = ?": self.judge, "created < ?": self.before, "question = ?": self.question}
        if self.judge is not None and self.judge.endswith("*"):
            # Not LIKE: it has wildcards of its own and minds case in only one of the databases.
            terms |= {"judge = ?": None, f"substr(judge, 1, {len(self.judge) - 1}) = ?": self.judge[:-1]}
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
    cost: float = 0.0  # US dollars these verdicts cost when they were judged, as far as prices were known
    size: int = 0  # bytes on disk


class Store:
    """Verdicts in an SQL database. Safe for several threads and processes; the first verdict stays.

    Threads take turns at one connection, which is opened when first used.
    """

    _table: str
    _row_number: str  # the column that grows with every row
    _mark: str  # how the database writes a parameter
    _begin: str  # the statement that begins a transaction which writes

    def __init__(self, where: str) -> None:
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
            found |= {by_digest[digest]: CachedVerdict.of(value) for digest, value in rows}
        return found

    def put_many(self, items: Sequence[Item]) -> None:
        """Keep these, all or none. Where a key has a verdict already, that one stays."""
        rows = [(key.digest, *astuple(key), verdict.created, verdict.cost, verdict.line) for key, verdict in items]
        marks = ",".join([self._mark] * len(_COLUMNS.split(",")))
        query = f"INSERT INTO {self._table} ({_COLUMNS}) VALUES ({marks}) ON CONFLICT DO NOTHING"

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
        return self._run(lambda connection: connection.execute(query, list(terms.values())).rowcount)

    def stats(self) -> CacheStats:
        """How much is there."""
        figures = "count(*), min(created), max(created), coalesce(sum(cost), 0)"
        [(count, oldest, newest, cost)] = self._rows(f"SELECT {figures} FROM {self._table}")
        judges = self._rows(f"SELECT judge, count(*) FROM {self._table} GROUP BY judge ORDER BY 2 DESC, 1")
        return CacheStats(self.where, count, dict(judges), oldest, newest, float(cost), self._size())

    def close(self) -> None:
        """Let go of files and connections."""
        with self.lock:
            connection, self._connection = self._connection, None
            if connection is not None:
                connection.close()

    @abstractmethod
    def _connect(self) -> Any: ...

    @abstractmethod
    def _prepare(self, connection: Any) -> None:
        """Make the tables that are not there."""

    @abstractmethod
    def _size(self) -> int:
        """Bytes on disk."""

    @abstractmethod
    def _run(self, work: Callable[[Any], Result]) -> Result:
        """What `work` makes of the connection, with the driver's errors as `CacheError`s."""

    def _on_connection(self, work: Callable[[Any], Result]) -> Result:
        with self.lock:
            if self._connection is None:
                self._connection = self._connect()
            return work(self._connection)

    def _rows(self, query: str, arguments: Sequence[object] = ()) -> list[Any]:
        query = query.replace("?", self._mark)
        return self._run(lambda connection: connection.execute(query, arguments).fetchall())

    @contextmanager
    def _transaction(self, connection: Any) -> Generator[None]:
        connection.execute(self._begin)
        try:
            yield
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")


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


if hasattr(os, "register_at_fork"):
    # The child may release what the parent took: it is the copy of the thread that took it.
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)


def default_place() -> str:
    """`ASSAY_CACHE` if it is set, else `assay` in the user's cache folder."""
    return os.environ.get("ASSAY_CACHE") or str(user_folder() / "assay")


def user_folder() -> Path:
    """Where this user's programs keep what can be made again."""
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA")
        return Path(local) if local else Path.home() / "AppData" / "Local"
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
    from assay.cache.databases import PostgresStore, SqliteStore

    place = default_place() if where is None else str(where)
    file = file_of(place)
    return PostgresStore(place) if file is None else SqliteStore(file)


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
        raise CacheError(
            f"line {number}: {line.strip()!r:.200} is no exported verdict ({error}): "
            "give the lines that `export_lines` wrote"
        ) from None
