"""RowIndex keeps what a table of a run's rows needs in SQLite, so that any page of it is a query.

The run is not touched: the index is a file in a folder for caches, or in memory. While a run grows, the
index is extended from where it ended.
"""

import hashlib
import json
import math
import re
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from pkgutil import get_data
from typing import Any, Final

from assay.messages import completion_text, question_text
from assay.report import CriterionReport, Score, as_score, shorten_answer
from assay.runs import Row, Run
from assay.runs.jsonable import as_utf_8, encodable
from assay.runs.row import LARGEST_SAMPLE, names_of, own_rubric
from assay.viewer.filters import terms_of, where

FORMAT: Final = 5  # changes when the table does; an index of another format is built anew
_SCHEMA: Final = (get_data("assay.viewer", "rows.sql") or b"").decode()
COLUMNS: Final = tuple(
    re.findall(r"^    (\w+) ", _SCHEMA, re.MULTILINE)
)  # of the rows: each has a line
BINS: Final = 20  # bars of a histogram
PREVIEW: Final = 160  # characters of a completion that a table shows
CHUNK: Final = 1000  # rows that are taken in at a time
_SHOWN: Final = tuple(name for name in COLUMNS if name != "place")
_SORTABLE: Final = frozenset(_SHOWN) - {"errors", "preview", "verdicts"}


class RowIndex:
    """The rows of one run as a table. It may be asked from several threads."""

    def __init__(self, run: Run, path: Path | None = None) -> None:
        """`path` is the file that it is kept in; None keeps it in memory."""
        self.run = run
        self.criteria: dict[
            str, bool
        ] = {}  # the run's own by name, and those that rows bring; whether they do
        self.tags: dict[str, list[str]] = {}
        self._lock = threading.RLock()
        self._base = self._opened(path)
        self._load_criteria()

    def _opened(self, path: Path | None) -> sqlite3.Connection:
        """The base, empty unless it was made of the same run before. A file that is no base is made anew."""
        about: dict[str, Any] = {
            **self.run.about.to_dict(),
            "resumed": 0,
            "options": None,
            "resolved": (),
        }
        told = (
            f"{FORMAT} {self.run.path.resolve()} {json.dumps(about, sort_keys=True, default=str)}"
        )
        signature = hashlib.sha256(told.encode(errors="surrogatepass")).hexdigest()
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
            return self._opened(path)
        if known is not None and known[0] == signature:
            return base
        base.executescript(_SCHEMA)
        base.execute("INSERT INTO upto VALUES (0, ?)", (signature,))
        base.commit()
        return base

    def _load_criteria(self) -> None:
        """Know the criteria of the run's rubric, and those that rows bring, as far as they are in the base."""
        self.criteria.clear()
        self.tags.clear()
        for criterion in self.run.about.criteria:
            self._know(encodable(criterion.name), criterion.tags)
        for name, tags in self._base.execute("SELECT name, tags FROM own_criteria ORDER BY number"):
            self._know(name, json.loads(tags), is_own=True)

    def _know(self, name: str, tags: Iterable[str], *, is_own: bool = False) -> None:
        self.criteria.setdefault(name, is_own)
        for tag in tags:
            self.tags.setdefault(tag, []).append(name)

    def close(self) -> None:
        self._base.close()

    def extend(self, seconds: float = math.inf) -> bool:
        """Take in what the run has gained, for so long at most; whether that was all of it."""
        ends = time.monotonic() + seconds
        with self._lock:
            try:
                with self._base:
                    last = self._one("SELECT place FROM upto")
                    rows = chain(self.run.rows_from(last + 1), self._rows_done_again(last))
                    while some := list(islice(rows, CHUNK)):
                        self._insert(some)
                        last = max(last, *(place for place, _ in some))
                        self._base.execute("UPDATE upto SET place = ?", (last,))
                        if time.monotonic() > ends:
                            return False
                return True
            except BaseException:
                self._load_criteria()  # what was added has been taken back
                raise

    def _rows_done_again(self, last: int) -> Iterator[tuple[int, Row]]:
        """The rows up to this place that had an error when they were taken in, and now have none."""
        failed = self._base.execute("SELECT place FROM rows WHERE errors <> ''").fetchall()
        places = [place for (place,) in failed if place <= last]
        condition = "id IN (SELECT value FROM json_each(:places)) AND error IS NULL"
        return self.run.placed_rows(condition, places=json.dumps(places))

    def _insert(self, placed: Sequence[tuple[int, Row]]) -> None:
        """Add rows. One that was done again takes the place of what it was, unless that had no error."""
        again = ", ".join(f"{name} = excluded.{name}" for name in COLUMNS if name != "number")
        sql = f"INSERT INTO rows VALUES ({', '.join('?' * len(COLUMNS))}) ON CONFLICT (example, sample) "
        sql += f"DO UPDATE SET {again} WHERE rows.errors <> '' OR excluded.errors = ''"
        texts: list[tuple[int, str]] = []
        for place, row in placed:
            prompt = question_text(row.fields.get("prompt", ""))
            completion = completion_text(row.fields.get("completion", ""))
            texts.append((place, encodable(f"{prompt}\n{completion}".lower())))
            preview = " ".join((completion or prompt)[: 4 * PREVIEW].split())[:PREVIEW]
            cells = self._cells(place, row, preview)
            try:
                self._base.execute(sql, cells)
            except sqlite3.IntegrityError:
                # Another row says that it has this place in the data, so this one goes by the next free number.
                self._base.execute(sql, [None, *cells[1:]])
        self._base.executemany("INSERT OR REPLACE INTO texts VALUES (?, ?)", texts)

    def _verdicts(self, row: Row) -> dict[str, str]:
        """What was said, by the name of the criterion; those that are new with the row are added."""
        verdicts: dict[str, str] = {}
        for name, said, tags in _answers(row):
            if name not in self.criteria and tags is not None:
                self._know(name, tags, is_own=True)
                self._base.execute(
                    "INSERT INTO own_criteria (name, tags) VALUES (?, ?)", (name, json.dumps(tags))
                )
            if name in self.criteria:
                verdicts[name] = said
        return verdicts

    def _cells(self, place: int, row: Row, preview: str) -> list[Any]:
        number = None if row.number is None else row.number + 1
        errors = "\n".join(f"{name}: {message}" for name, message in row.errors.items())
        seconds = sum(row.timing.values()) if row.timing else None
        cost = row.spent.cost if row.spent.calls or row.spent.hits else None
        cells = [
            number,
            place,
            row.example,
            row.sample,
            row.task,
            row.score,
            row.reward,
            row.scored,
            errors,
            seconds,
            cost,
            preview,
            _disagreement(row),
            0,
            as_utf_8(self._verdicts(row)).decode(),
        ]
        return [encodable(cell) if isinstance(cell, str) else cell for cell in cells]

    def __len__(self) -> int:
        return self._one("SELECT count(*) FROM rows")

    def label(self, keys: Iterable[tuple[str, int]]) -> None:
        """Mark rows that have a label."""
        with self._lock, self._base:
            sql = "UPDATE rows SET labelled = 1 WHERE example = ? AND sample = ?"
            self._base.executemany(sql, [_key(*key) for key in keys])

    def page(
        self,
        query: str = "",
        *,
        sort: str = "number",
        descending: bool = False,
        offset: int = 0,
        limit: int = 100,
    ) -> dict[str, Any]:
        """How many rows a filter lets through, and some of them in order; those without a value come last."""
        condition, values = where(terms_of(query), self.criteria, self.tags)
        by, named = sort if sort in _SORTABLE else "number", ()
        if sort in self.criteria:
            by, named = "(SELECT value FROM json_each(verdicts) WHERE key = ?)", (sort,)
        order = f"sorted IS NULL, sorted {'DESC' if descending else 'ASC'}, number"
        found = f"FROM rows WHERE {condition}"
        sql = (
            f"SELECT {', '.join(_SHOWN)}, {by} AS sorted {found} ORDER BY {order} LIMIT ? OFFSET ?"
        )
        with self._lock:
            total: int = self._one(f"SELECT count(*) {found}", *values)
            rows = self._base.execute(sql, (*named, *values, limit, offset)).fetchall()
        return {"total": total, "rows": [_shown(row) for row in rows]}

    def row(self, number: int) -> Row | None:
        """The whole row with this number; None when there is none."""
        if number.bit_length() > 63:
            return None  # SQLite knows no such number
        place = self._one("SELECT place FROM rows WHERE number = ?", number)
        return None if place is None else self.run.row_at(place)

    def number_of(self, example: str, sample: int) -> int | None:
        return self._one(
            "SELECT number FROM rows WHERE example = ? AND sample = ?", *_key(example, sample)
        )

    def numbers_of(self, example: str) -> list[int]:
        """The rows of one example, in the order of their samples."""
        with self._lock:
            sql = "SELECT number FROM rows WHERE example = ? ORDER BY sample"
            return [number for (number,) in self._base.execute(sql, (example,))]

    def histogram(self, column: str) -> dict[str, list[float]]:
        """How `score` or `reward` is spread over bins of one width from the least to the most, at least from 0 to 1."""
        assert column in ("score", "reward")
        scored = f"FROM rows WHERE scored AND {column} IS NOT NULL"
        with self._lock:
            least, most = self._base.execute(
                f"SELECT min({column}), max({column}) {scored}"
            ).fetchone()
            if least is None:
                return {"edges": [], "counts": []}
            low, high = min(0.0, least), max(1.0, most)
            width = (high - low) / BINS
            place = f"min({BINS - 1}, CAST(({column} - ?) / ? AS INTEGER))"
            found = dict(
                self._base.execute(f"SELECT {place}, count(*) {scored} GROUP BY 1", (low, width))
            )
        edges = [low + width * bar for bar in range(BINS + 1)]
        return {"edges": edges, "counts": [found.get(bar, 0) for bar in range(BINS)]}

    def most(self, column: str, count: int = 5) -> list[dict[str, Any]]:
        """The rows that took the most `seconds`, or had the most `cost`."""
        return [
            row
            for row in self.page(sort=column, descending=True, limit=count)["rows"]
            if row[column]
        ]

    def first_error(self, criterion: str, kind: str) -> tuple[int | None, str]:
        """The first row with an error of this kind of one criterion, and what it says of it."""
        head = f"{criterion}: "
        number = self._one("SELECT min(number) FROM rows WHERE instr(errors, ?) > 0", head + kind)
        errors: str = self._one("SELECT errors FROM rows WHERE number = ?", number) or ""
        return number, next(
            (line[len(head) :] for line in errors.split("\n") if line.startswith(head)), ""
        )

    def _one(self, sql: str, *values: object) -> Any:
        with self._lock:
            found = self._base.execute(sql, values).fetchone()
        return None if found is None else found[0]


def _shown(row: Sequence[Any]) -> dict[str, Any]:
    shown: dict[str, Any] = dict(zip(_SHOWN, row, strict=False))
    shown |= {name: bool(shown[name]) for name in ("scored", "labelled")}
    return shown | {"error": shown.pop("errors"), "verdicts": json.loads(shown["verdicts"])}


def _lower(text: str | None) -> str | None:
    return None if text is None else text.lower()


def _key(example: str, sample: int) -> tuple[str, int]:
    """A key as the table holds it. A label may name a sample that no row, and no number of SQLite, has."""
    return encodable(example), min(sample, LARGEST_SAMPLE + 1)


def _answers(row: Row) -> Iterator[tuple[str, str, list[str] | None]]:
    """What each criterion comes to, in a word, and the tags of one that the row brings."""
    if own_rubric(row.fields) is not None:
        lines = row.report.lines
        for name, line in zip(names_of(lines, is_own=True), lines, strict=True):
            yield encodable(name), line.short_answer, list(map(encodable, line.tags))
    elif row.report.answers is not None:
        # Read from the answers, since making a line costs more than the rest of the row.
        for criterion, answer in zip(row.report.criteria, row.report.answers, strict=True):
            short_answer = shorten_answer(as_score(criterion, answer))
            yield encodable(criterion.name), short_answer, None
    else:
        for line in row.report.lines:
            yield encodable(line.name), line.short_answer, None


def _disagreement(row: Row) -> float:
    report = row.report
    answers = report.lines if report.answers is None else report.answers
    disagreements = [0.0]
    for answer in answers:
        if isinstance(answer, Score | CriterionReport):
            disagreements.append(answer.disagreement or 0.0)
    return max(disagreements)
