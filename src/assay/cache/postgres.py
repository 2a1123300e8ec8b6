"""PostgresStore: verdicts in one database, for a whole team."""

import re
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

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
from assay.errors import CacheError, MissingExtraError

if TYPE_CHECKING:
    from psycopg import Connection

ROWS_AT_ONCE = 1000

CONNECT_SECONDS = 10

_LOCK = 0x61737379
"""Held while the tables are made, so that two who start at once do not both make them."""

_TABLES = """
CREATE TABLE IF NOT EXISTS assay_verdicts (
    number BIGINT GENERATED ALWAYS AS IDENTITY, key TEXT PRIMARY KEY, question TEXT NOT NULL,
    text TEXT NOT NULL, judge TEXT NOT NULL, prompt TEXT NOT NULL, sample BIGINT NOT NULL,
    created DOUBLE PRECISION NOT NULL, cost DOUBLE PRECISION, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS assay_cache (schema_version INTEGER NOT NULL);
"""

Result = TypeVar("Result")


class PostgresStore:
    """Verdicts in a PostgreSQL database, which many machines may write at once.

    Makes the tables `assay_verdicts` and `assay_cache` in the database's default schema. A connection
    that was lost is opened once more before anybody hears of it.
    """

    def __init__(self, url: str) -> None:
        """`postgresql://user:password@host:5432/database`. Raises `CacheError` when it does not answer."""
        self._psycopg = _driver()
        self._url = url
        self.where = re.sub(r"//[^@/]*@", "//…@", url).partition("?")[0]
        self._reading = Held(self._connect, _close)
        self._writing = Held(self._connect, _close)
        try:
            self._tried(self._writing, self._prepare)
        except BaseException:
            self.close()
            raise

    def get_many(self, keys: Sequence[VerdictKey]) -> dict[VerdictKey, CachedVerdict]:
        """The verdicts that are there; keys without one are left out."""
        by_digest = {key.digest: key for key in keys}

        def load(connection: "Connection[Any]") -> list[Any]:
            query = "SELECT key, value FROM assay_verdicts WHERE key = ANY(%s)"
            return connection.execute(query, [list(by_digest)]).fetchall()

        rows = self._tried(self._reading, load)
        return {by_digest[digest]: CachedVerdict.of(value) for digest, value in rows}

    def put_many(self, items: Sequence[Item]) -> None:
        """Keep these, all or none. Where a key has a verdict already, that one stays."""
        # In one order everywhere, or two who store the same keys could wait for each other.
        rows = sorted((row_of(item) for item in items), key=lambda row: row[0])
        marks = ",".join(["%s"] * len(COLUMNS.split(",")))
        query = f"INSERT INTO assay_verdicts ({COLUMNS}) VALUES ({marks}) ON CONFLICT DO NOTHING"

        def save(connection: "Connection[Any]") -> None:
            with connection.transaction(), connection.cursor() as cursor:
                cursor.executemany(query.encode(), rows)

        self._tried(self._writing, save)

    def entries(self, selection: Selection = ALL, *, limit: int | None = None) -> Iterator[Item]:
        """What is stored, batch after batch; the order inside a batch is any."""
        condition, arguments = selection.where("%s")
        further = f"{condition} {'AND' if condition else 'WHERE'} number > %s"
        query = f"SELECT number, {COLUMNS} FROM assay_verdicts{further} ORDER BY number LIMIT %s"
        last, left = -1, limit
        while left is None or left > 0:
            size = ROWS_AT_ONCE if left is None else min(left, ROWS_AT_ONCE)
            page = self._rows(query, [*arguments, last, size])
            if not page:
                return
            yield from (item_of(row[1:]) for row in page)
            last, left = page[-1][0], None if left is None else left - len(page)

    def prune(self, selection: Selection) -> int:
        """Forget these for ever; how many there were."""
        condition, arguments = selection.where("%s")
        query = f"DELETE FROM assay_verdicts{condition}".encode()
        return self._tried(self._writing, lambda to: to.execute(query, arguments).rowcount)

    def stats(self) -> CacheStats:
        """How much is there."""
        [(count, oldest, newest, cost)] = self._rows(
            "SELECT count(*), min(created), max(created), coalesce(sum(cost), 0) FROM assay_verdicts"
        )
        judges = self._rows(
            "SELECT judge, count(*) FROM assay_verdicts GROUP BY judge ORDER BY 2 DESC, 1"
        )
        [(size,)] = self._rows("SELECT pg_total_relation_size('assay_verdicts')")
        return CacheStats(self.where, count, dict(judges), oldest, newest, cost, size)

    def close(self) -> None:
        """Let go of the connections."""
        self._reading.drop()
        self._writing.drop()

    def _rows(self, query: str, arguments: Sequence[object] = ()) -> list[Any]:
        return self._tried(
            self._reading, lambda to: to.execute(query.encode(), arguments).fetchall()
        )

    def _connect(self) -> "Connection[Any]":
        return self._psycopg.connect(
            self._url,
            autocommit=True,
            connect_timeout=CONNECT_SECONDS,
            application_name="assay",
        )

    def _prepare(self, connection: "Connection[Any]") -> None:
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
            connection.execute(_TABLES)
            row = connection.execute("SELECT max(schema_version) FROM assay_cache").fetchone()
            version = row[0] if row else None
            if version is None:
                connection.execute("INSERT INTO assay_cache VALUES (%s)", [SCHEMA_VERSION])
            elif version > SCHEMA_VERSION:
                raise CacheError(
                    f"{self.where} was written by a newer assay (schema {version}, this one knows "
                    f"{SCHEMA_VERSION}): upgrade assay, or use another database"
                )

    def _tried(
        self, held: Held["Connection[Any]"], work: Callable[["Connection[Any]"], Result]
    ) -> Result:
        """What `work` gives, tried once more on a fresh connection when the old one was lost."""
        try:
            try:
                with held.use() as connection:
                    return work(connection)
            except self._psycopg.OperationalError:
                held.drop()
                with held.use() as connection:
                    return work(connection)
        except self._psycopg.Error as error:
            held.drop()
            raise CacheError(
                f"the verdict cache {self.where} cannot be used ({_said(error)}): see that the server "
                "runs and lets this user in and create tables, or use a cache on disk"
            ) from None


def _driver() -> Any:
    try:
        return import_module("psycopg")
    except ImportError:
        raise MissingExtraError(
            "a verdict cache in PostgreSQL", package="psycopg", extra="postgres"
        ) from None


def _close(connection: "Connection[Any]") -> None:
    connection.close()


def _said(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
