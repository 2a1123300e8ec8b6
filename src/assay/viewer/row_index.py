"""RowIndex keeps what a table of a run's rows needs in SQLite, so that any page of it is a query.

The run is not touched: the index is a file in a folder for caches, or in memory. While a run grows, the
index is extended from where it ended.
"""

import hashlib
import json
import math
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from assay.criterion import Criterion
from assay.messages import completion_text, question_text
from assay.report import Lines, Score, answer_said
from assay.runs import Row, Run
from assay.runs.jsonable import encodable
from assay.runs.row import LARGEST_SAMPLE
from assay.runs.row_rubrics import own_rubric
from assay.runs.summary import names_of
from assay.viewer.filters import terms_of, where

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

BINS: Final = 20
"""Bars of a histogram."""

PREVIEW: Final = 160
"""Characters of a completion that a table shows."""

_SHOWN: Final = (
    "number", "example", "sample", "task", "score", "reward", "scored", "errors", "seconds", "cost", "preview",
    "disagreement", "labelled",
)  # fmt: skip
_SORTABLE: Final = frozenset(_SHOWN) - {"errors", "preview"}


@dataclass(frozen=True)
class RowPage:
    """Some of the rows that a filter lets through."""

    total: int
    rows: list[dict[str, Any]]


class RowIndex:
    """The rows of one run as a table. It may be asked from several threads."""

    def __init__(self, run: Run, path: Path | None = None) -> None:
        """`path` is the file that it is kept in; None keeps it in memory."""
        self.run = run
        self.criteria = _places(run.about.criteria)
        """The number of every criterion by its name: those of the run's rubric, and then what rows bring."""
        self.shared = len(self.criteria)
        """How many of them belong to the run's rubric, and have a column."""
        self.tags: dict[str, list[int]] = {}
        self._lock = threading.RLock()
        self._base = opened_base(run, path, self.shared)
        self._load_own()

    def _load_own(self) -> None:
        """Know the criteria that rows bring, as far as they are in the base."""
        for name in list(self.criteria)[self.shared :]:
            del self.criteria[name]
        self.tags = _tagged(self.run.about.criteria)
        for number, name, tags in self._base.execute("SELECT * FROM own_criteria ORDER BY number"):
            self._know(number, name, json.loads(tags))

    def close(self) -> None:
        self._base.close()

    def extend(self, seconds: float = math.inf) -> bool:
        """Take in what the run has gained, for so long at most; whether that was all of it."""
        ends = time.monotonic() + seconds
        with self._lock:
            try:
                return self._extend(ends)
            except BaseException:
                self._load_own()  # what was added has been taken back
                raise

    def _extend(self, ends: float) -> bool:
        with self._base:
            start: int = self._one("SELECT place FROM upto")
            for some in _chunks(self.run.placed_rows(start)):
                texts = [_texts(row) for _, _, row in some]
                places = [place for place, _, _ in some]
                filled = [self._filled(*each) for each in zip(some, texts, strict=True)]
                self._insert(filled)
                self._insert_own(some)
                searched = (encodable("\n".join(each).lower()) for each in texts)
                self._base.executemany("INSERT OR REPLACE INTO texts VALUES (?, ?)", zip(places, searched, strict=True))
                self._base.execute("UPDATE upto SET place = ?", (some[-1][1],))
                if time.monotonic() > ends:
                    return False
        return True

    def __len__(self) -> int:
        return self._one("SELECT count(*) FROM rows")

    def label(self, keys: Iterable[tuple[str, int]]) -> None:
        """Mark rows that have a label."""
        with self._lock, self._base:
            self._base.executemany(
                "UPDATE rows SET labelled = 1 WHERE example = ? AND sample = ?", [_key(*key) for key in keys]
            )

    def page(
        self, query: str = "", *, sort: str = "number", descending: bool = False, offset: int = 0, limit: int = 100
    ) -> RowPage:
        """Rows that a filter lets through, in order; those without a value come last."""
        found = where(terms_of(query), self.criteria, self.tags, self.shared)
        by = self._order(sort)
        order = f"{by} IS NULL, {by} {'DESC' if descending else 'ASC'}, number"
        names = ", ".join((*_SHOWN, *(f"v{place}" for place in range(self.shared)), "place"))
        with self._lock:
            total: int = self._one(f"SELECT count(*) FROM rows WHERE {found.sql}", *found.values)
            rows = self._base.execute(
                f"SELECT {names} FROM rows WHERE {found.sql} ORDER BY {order} LIMIT ? OFFSET ?",
                (*found.values, limit, offset),
            ).fetchall()
            own = self._own_verdicts([row[-1] for row in rows])
        return RowPage(total, [self._shown(row[:-1], own.get(row[-1], {})) for row in rows])

    def _order(self, sort: str) -> str:
        number = self.criteria.get(sort)
        if number is None:
            return sort if sort in _SORTABLE else "number"
        if number < self.shared:
            return f"v{number}"
        return f"(SELECT said FROM own WHERE own.place = rows.place AND criterion = {number})"

    def _own_verdicts(self, places: Sequence[int]) -> dict[int, dict[str, str]]:
        """What the criteria that rows bring came to, by the place of the row."""
        found: dict[int, dict[str, str]] = {}
        if len(self.criteria) > self.shared:
            names = list(self.criteria)
            for place in places:
                said = self._base.execute("SELECT criterion, said FROM own WHERE place = ?", (place,))
                found[place] = {names[number]: word for number, word in said}
        return found

    def row(self, number: int) -> Row | None:
        """The whole row with this number; None when there is none."""
        if number.bit_length() > 63:
            return None  # SQLite knows no such number
        place = self._one("SELECT place FROM rows WHERE number = ?", number)
        return None if place is None else self.run.row_at(place)

    def number_of(self, example: str, sample: int) -> int | None:
        sql = "SELECT number FROM rows WHERE example = ? AND sample = ?"
        return self._one(sql, *_key(example, sample))

    def numbers_of(self, example: str) -> list[int]:
        """The rows of one example, in the order of their samples."""
        return self._all("SELECT number FROM rows WHERE example = ? ORDER BY sample", example)

    def histogram(self, column: str) -> dict[str, list[float]]:
        """How `score` or `reward` is spread over the scored rows.

        Bins of one width from the least to the most, at least from 0 to 1; and how many are in each.
        """
        assert column in ("score", "reward")
        scored = f"FROM rows WHERE scored AND {column} IS NOT NULL"
        least, most = self._row(f"SELECT min({column}), max({column}) {scored}")
        if least is None:
            return {"edges": [], "counts": []}
        low, high = min(0.0, least), max(1.0, most)
        width = (high - low) / BINS
        place = f"min({BINS - 1}, CAST(({column} - ?) / ? AS INTEGER))"
        with self._lock:
            found = dict(self._base.execute(f"SELECT {place}, count(*) {scored} GROUP BY 1", (low, width)))
        edges = [low + width * bar for bar in range(BINS + 1)]
        return {"edges": edges, "counts": [found.get(bar, 0) for bar in range(BINS)]}

    def most(self, column: str, count: int = 5) -> list[dict[str, Any]]:
        """The rows that took the most `seconds`, or had the most `cost`."""
        page = self.page(sort=column, descending=True, limit=count)
        return [row for row in page.rows if row[column]]

    def first_error(self, words: str) -> int | None:
        """The first row with an error that holds these words."""
        return self._one("SELECT min(number) FROM rows WHERE instr(errors, ?) > 0", words)

    def error_of(self, number: int, criterion: str) -> str:
        """What a row says of the error of one criterion."""
        errors: str = self._one("SELECT errors FROM rows WHERE number = ?", number) or ""
        head = f"{criterion}: "
        return next((line[len(head) :] for line in errors.split("\n") if line.startswith(head)), "")

    def _row(self, sql: str, *values: object) -> Any:
        with self._lock:
            return self._base.execute(sql, values).fetchone()

    def _one(self, sql: str, *values: object) -> Any:
        found = self._row(sql, *values)
        return None if found is None else found[0]

    def _all(self, sql: str, *values: object) -> list[Any]:
        with self._lock:
            return [found for (found,) in self._base.execute(sql, values)]

    def _insert(self, filled: Sequence[Sequence[Any]]) -> None:
        """Add rows. One that was done again takes the place of what it was, unless that had no error."""
        names = [*COLUMNS, *(f"v{place}" for place in range(self.shared))]
        again = ", ".join(f"{name} = excluded.{name}" for name in names[1:])
        sql = (
            f"INSERT INTO rows VALUES ({', '.join('?' * len(names))}) "
            f"ON CONFLICT (example, sample) DO UPDATE SET {again} "
            "WHERE rows.errors <> '' OR excluded.errors = ''"
        )
        for row in filled:
            try:
                self._base.execute(sql, row)
            except sqlite3.IntegrityError:
                # Another row says that it has this place in the data, so this one goes by the next free number.
                self._base.execute(sql, [None, *row[1:]])

    def _insert_own(self, placed: Sequence[tuple[int, int, Row]]) -> None:
        """Add what was said about criteria that rows bring."""
        said: list[tuple[int, int, str]] = []
        for place, _, row in placed:
            if row.error is not None or own_rubric(row.fields) is None:
                continue
            lines = row.report.lines
            for name, line in zip(names_of(lines, is_own=True), lines, strict=True):
                number = self._number(encodable(name), line.tags)
                if number >= self.shared:
                    said.append((place, number, encodable(line.said)))
        self._base.executemany("INSERT OR REPLACE INTO own VALUES (?, ?, ?)", said)

    def _number(self, name: str, tags: Sequence[str]) -> int:
        number = self.criteria.get(name)
        if number is None:
            number = len(self.criteria)
            told = [encodable(tag) for tag in tags]
            self._base.execute("INSERT INTO own_criteria VALUES (?, ?, ?)", (number, name, json.dumps(told)))
            self._know(number, name, told)
        return number

    def _know(self, number: int, name: str, tags: Sequence[str]) -> None:
        self.criteria[name] = number
        for tag in tags:
            self.tags.setdefault(tag, []).append(number)

    def _filled(self, placed: tuple[int, int, Row], texts: tuple[str, str]) -> list[Any]:
        place, _, row = placed
        prompt, completion = texts
        spends = row.spent.calls or row.spent.hits
        cells = [
            None if row.number is None else row.number + 1,
            place,
            row.example,
            row.sample,
            row.task,
            row.score,
            row.reward,
            row.scored,
            "\n".join(f"{name}: {message}" for name, message in row.errors.items()),
            sum(row.timing.values()) if row.timing else None,
            row.spent.cost if spends else None,
            " ".join((completion or prompt)[: 4 * PREVIEW].split())[:PREVIEW],
            _disagreement(row),
            0,
            *self._verdicts(row),
        ]
        return [encodable(cell) if isinstance(cell, str) else cell for cell in cells]

    def _verdicts(self, row: Row) -> list[str | None]:
        found: list[str | None] = [None] * self.shared
        for name, said in _answers(row):
            number = self.criteria.get(name, self.shared)
            if number < self.shared:
                found[number] = said
        return found

    def _shown(self, row: Sequence[Any], own: Mapping[str, str]) -> dict[str, Any]:
        shown: dict[str, Any] = dict(zip(_SHOWN, row, strict=False))
        shown |= {name: bool(shown[name]) for name in ("scored", "labelled")}
        shown["error"] = shown.pop("errors")
        verdicts = zip(self.criteria, row[len(_SHOWN) :], strict=False)
        shown["verdicts"] = {**{name: said for name, said in verdicts if said is not None}, **own}
        return shown


def _key(example: str, sample: int) -> tuple[str, int]:
    """A key as the table holds it. A label may name a sample that no row, and no number of SQLite, has."""
    return encodable(example), min(sample, LARGEST_SAMPLE + 1)


def _texts(row: Row) -> tuple[str, str]:
    """What was asked, and what was finally said."""
    fields = row.fields
    return question_text(fields.get("prompt", "")), completion_text(fields.get("completion", ""))


def _answers(row: Row) -> Iterator[tuple[str, str]]:
    """What each criterion comes to, in a word. No line of a report is made for it."""
    lines = row.report.report
    if own_rubric(row.fields) is not None:
        for name, line in zip(names_of(lines or (), is_own=True), lines or (), strict=True):
            yield name, line.said
    elif isinstance(lines, Lines):
        for criterion, answer in zip(lines.criteria, lines.answers, strict=True):
            yield criterion.name, answer_said(criterion, answer)
    else:
        for line in lines or ():
            yield line.name, line.said


def _disagreement(row: Row) -> float:
    lines = row.report.report
    if isinstance(lines, Lines):
        scores = (answer for answer in lines.answers if isinstance(answer, Score))
        return max((score.disagreement or 0.0 for score in scores), default=0.0)
    return max((line.disagreement or 0.0 for line in lines or ()), default=0.0)


def _places(criteria: Iterable[Criterion]) -> dict[str, int]:
    """Where each name has its column; criteria of one name share it."""
    return {name: place for place, name in enumerate(dict.fromkeys(c.name for c in criteria))}


def _tagged(criteria: Sequence[Criterion]) -> dict[str, list[int]]:
    places = _places(criteria)
    tags: dict[str, list[int]] = {}
    for criterion in criteria:
        for tag in criterion.tags:
            tags.setdefault(tag, []).append(places[criterion.name])
    return tags


def _chunks(rows: Iterable[Any], size: int = 1000) -> Iterator[list[Any]]:
    some: list[Any] = []
    for row in rows:
        some.append(row)
        if len(some) >= size:
            yield some
            some = []
    if some:
        yield some


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
    return hashlib.sha256(f"{FORMAT} {run.path.resolve()} {told}".encode(errors="surrogatepass")).hexdigest()


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
