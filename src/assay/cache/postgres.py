"""PostgresStore keeps verdicts in one database, for a whole team."""

import re
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, TypeVar

from assay.cache.store import SCHEMA_VERSION, Item, Store
from assay.errors import CacheError, MissingExtraError

CONNECT_SECONDS = 10
_LOCK = 0x61737379
"""Held while the tables are made, so that two processes that start at once do not both make them."""
_TABLES = """
CREATE TABLE IF NOT EXISTS assay_verdicts (
    number BIGINT GENERATED ALWAYS AS IDENTITY, key TEXT PRIMARY KEY, question TEXT NOT NULL,
    text TEXT NOT NULL, judge TEXT NOT NULL, prompt TEXT NOT NULL, sample BIGINT NOT NULL,
    created DOUBLE PRECISION NOT NULL, cost DOUBLE PRECISION, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS assay_cache (schema_version INTEGER NOT NULL);
"""

Result = TypeVar("Result")


class PostgresStore(Store):
    """Verdicts in a PostgreSQL database, which many machines may write at once.

    Makes the tables `assay_verdicts` and `assay_cache` in the database's default schema. A connection
    that was lost is opened once more before the caller hears of it.
    """

    _table = "assay_verdicts"
    _row_number = "number"
    _mark = "%s"
    _begin = "BEGIN"

    def __init__(self, url: str) -> None:
        """`postgresql://user:password@host:5432/database`. Raises `CacheError` when it does not answer."""
        super().__init__()
        try:
            self._psycopg: Any = import_module("psycopg")
        except ImportError:
            raise MissingExtraError("a verdict cache in PostgreSQL", package="psycopg", extra="postgres") from None
        self._url = url
        self.where = re.sub(r"//[^@/]*@", "//…@", url).partition("?")[0]
        try:
            self._run(self._prepare)
        except BaseException:
            self.close()
            raise

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
            connection.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
            connection.execute(_TABLES)
            [version] = connection.execute("SELECT max(schema_version) FROM assay_cache").fetchone()
            if version is None:
                connection.execute("INSERT INTO assay_cache VALUES (%s)", [SCHEMA_VERSION])
            elif version > SCHEMA_VERSION:
                raise CacheError(
                    f"{self.where} was written by a newer assay (schema {version}, this one knows "
                    f"{SCHEMA_VERSION}): upgrade assay, or use another database"
                )

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
