"""Places: where the verdict cache is, and how it is opened."""

import os
import sys
from pathlib import Path

from assay.cache.sqlite import SqliteStore
from assay.cache.store import Store

FILE_NAME = "verdicts.sqlite"
FILE_ENDINGS = frozenset({".sqlite", ".sqlite3", ".db"})


def default_place() -> str:
    """`ASSAY_CACHE` if it is set, else `assay` in the user's cache folder."""
    said = os.environ.get("ASSAY_CACHE")
    return said or str(user_folder() / "assay")


def open_store(where: str | Path | None = None) -> Store:
    """The store at a folder, a file ending in `.sqlite` or `.db`, or a `postgresql://` URL.

    None is `default_place()`. Raises `CacheError` when it cannot be used.
    """
    place = default_place() if where is None else str(where)
    file = file_of(place)
    if file is None:
        from assay.cache.postgres import PostgresStore

        return PostgresStore(place)
    return SqliteStore(file)


def file_of(place: str) -> Path | None:
    """The file that a place stands for, there or not; None for a server."""
    if place.startswith(("postgresql://", "postgres://")):
        return None
    path = Path(place).expanduser()
    return path if path.suffix in FILE_ENDINGS else path / FILE_NAME


def user_folder() -> Path:
    """Where this user's programs keep what can be made again."""
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA")
        return Path(local) if local else Path.home() / "AppData" / "Local"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
