"""The base of an index: its tables in SQLite, and how an index of before is known again."""

import hashlib
import json
import sqlite3
from pathlib import Path
from typing import Any, Final

from assay.runs import Run

FORMAT: Final = 4
"""Changes when the table does; an index of another format is built anew."""

COLUMNS: Final = {
    "number": "INTEGER PRIMARY KEY",
    "place": "INTEGER",
    "example": "TEXT",
    "sample": "INTEGER",
    "task": "TEXT",
    "score": "REAL",
    "reward": "REAL",
    "scored": "INTEGER",
    "errors": "TEXT",
    "seconds": "REAL",
    "cost": "REAL",
    "preview": "TEXT",
    "disagreement": "REAL",
    "labelled": "INTEGER",
}
"""And after these a column a criterion of the run's rubric, `v0`, `v1`, …, with its verdict. What rows bring for
criteria of their own stands in `own`, a line a verdict."""


def opened_base(run: Run, path: Path | None, criteria: int) -> sqlite3.Connection:
    """The base of a run's index, empty unless it was made of the same run before.

    `path` None keeps it in memory. A file that is no base, or a broken one, is made anew.
    """
    signature = _signature(run)
    base = sqlite3.connect(":memory:" if path is None else path, check_same_thread=False)
    # SQLite's own knows the letters of English only.
    base.create_function("lower", 1, _lower, deterministic=True)
    try:
        base.execute("PRAGMA synchronous = OFF")  # it can be built again
        known = base.execute("SELECT signature FROM upto").fetchone()
    except sqlite3.OperationalError:
        known = None
    except sqlite3.DatabaseError:
        base.close()
        if path is not None:
            path.unlink()
        return opened_base(run, path, criteria)
    if known is None or known[0] != signature:
        _make(base, signature, criteria)
    return base


def _signature(run: Run) -> str:
    """What an index is known by: another run in the same folder needs another one."""
    about: dict[str, Any] = {**run.about.to_dict(), "resumed": 0, "options": None, "resolved": ()}
    told = json.dumps(about, sort_keys=True, default=str)
    return hashlib.sha256(
        f"{FORMAT} {run.path.resolve()} {told}".encode(errors="surrogatepass")
    ).hexdigest()


def _lower(text: str | None) -> str | None:
    return None if text is None else text.lower()


def _make(base: sqlite3.Connection, signature: str, criteria: int) -> None:
    named = [f"{name} {kind}" for name, kind in COLUMNS.items()]
    verdicts = [f"v{place} TEXT" for place in range(criteria)]
    base.executescript(
        f"""
        DROP TABLE IF EXISTS rows;
        DROP TABLE IF EXISTS texts;
        DROP TABLE IF EXISTS upto;
        DROP TABLE IF EXISTS own;
        DROP TABLE IF EXISTS own_criteria;
        CREATE TABLE rows ({", ".join(named + verdicts)});
        CREATE INDEX by_score ON rows (score, number);
        CREATE UNIQUE INDEX by_example ON rows (example, sample);
        CREATE TABLE texts (place INTEGER PRIMARY KEY, text TEXT);
        CREATE TABLE upto (place INTEGER, signature TEXT);
        CREATE TABLE own (place INTEGER, criterion INTEGER, said TEXT, PRIMARY KEY (place, criterion)) WITHOUT ROWID;
        CREATE TABLE own_criteria (number INTEGER PRIMARY KEY, name TEXT UNIQUE, tags TEXT);
        """
    )
    base.execute("INSERT INTO upto VALUES (0, ?)", (signature,))
    base.commit()
