"""RolloutTable queries the rollouts of a run for the page."""

import json
import sqlite3
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from typing import Any, Final

from assay.criterion import Criterion
from assay.messages import completion_text, question_text
from assay.reasoning import remove_reasoning
from assay.runs.row import Key
from assay.runs.run_file import BATCH_ROWS, RunFile
from assay.runs.run_schema import LARGEST_INTEGER
from assay.viewer.filters import FilterError, build_condition, parse_filter

HISTOGRAM_BARS: Final = 20
PREVIEW_LENGTH: Final = 400  # characters of a text that the table shows
SAMPLED_ROWS: Final = 200  # rows whose fields tell which columns the data have
# Fields of a rollout that have a column of their own in the table, or none.
_NAMED_FIELDS: Final = frozenset({"prompt", "completion", "answer", "task", "rubric"})

_SORTABLE: Final = {
    "number": "row",
    "disagreement": "(SELECT max(disagreement) FROM verdicts WHERE rollout = rollouts.id)",
    "labelled": "is_labelled(example, sample)",
    **{name: name for name in ("example", "sample", "task", "score", "reward", "seconds", "cost")},
}


class RolloutTable:
    """The rollouts of one run. It can be used from several threads, and while the run is written."""

    def __init__(
        self,
        run_file: RunFile,
        criteria: Sequence[Criterion],
        list_labelled: Callable[[], Set[Key]],
    ) -> None:
        """`criteria` are those of the run's rubric. Rows may bring further ones.

        `list_labelled` returns the rollouts that have a label.
        """
        self._file = run_file
        self._criteria = criteria
        self._list_labelled = list_labelled

    @contextmanager
    def _connect(self) -> Generator[sqlite3.Connection]:
        """Open the run's file, with the functions that filters use."""
        labelled = self._list_labelled()

        def is_labelled(example: str, sample: int) -> bool:
            return (example, sample) in labelled

        with self._file.connect() as connection:
            connection.create_function("is_labelled", 2, is_labelled)
            for function in (lower_text, searchable_text, short_answer):
                name = function.__name__
                arguments = function.__code__.co_argcount
                connection.create_function(name, arguments, function, deterministic=True)
            yield connection

    def count(self) -> int:
        """Return how many rollouts are saved by now."""
        return self._file.select_value("SELECT count(*) FROM rollouts")

    def list_criteria(self) -> dict[str, bool]:
        """Return the names of all criteria, and whether only rubrics of rows have them."""
        criteria = {criterion.name: False for criterion in self._criteria}
        query = "SELECT criterion FROM verdicts GROUP BY criterion ORDER BY min(rollout), position"
        for (name,) in self._file.select(query):
            criteria.setdefault(name, True)
        return criteria

    def list_tags(self) -> dict[str, list[str]]:
        """Return the names of the criteria that have each tag."""
        tags: dict[str, list[str]] = {}
        for criterion in self._criteria:
            for tag in criterion.tags:
                tags.setdefault(tag, []).append(criterion.name)
        # A row may have a rubric of its own. The tags of its criteria are saved with its verdicts.
        query = "SELECT DISTINCT criterion, tags FROM verdicts WHERE tags IS NOT NULL"
        for name, tags_as_json in self._file.select(query):
            for tag in json.loads(tags_as_json):
                names = tags.setdefault(tag, [])
                if name not in names:
                    names.append(name)
        return tags

    def list_data_columns(self) -> list[str]:
        """Return the names of the columns of the data, as far as the first rows have them."""
        query = (
            "SELECT DISTINCT key FROM (SELECT data FROM rollouts ORDER BY id LIMIT ?), "
            "json_each(data, '$.fields')"
        )
        names = [name for (name,) in self._file.select(query, (SAMPLED_ROWS,))]
        return [name for name in names if name not in _NAMED_FIELDS]

    def list_constant_columns(self) -> list[str]:
        """Return the columns that have the same value in all rows, so that the page can hide them."""
        names = ("sample", "task", "seconds", "cost")
        tests = ", ".join(f"min({name}) IS max({name})" for name in names)
        [results] = self._file.select(f"SELECT {tests} FROM rollouts")
        return [name for name, is_constant in zip(names, results, strict=True) if is_constant]

    def list_rows(
        self,
        query: str = "",
        *,
        sort: str = "number",
        descending: bool = False,
        offset: int = 0,
        limit: int = 100,
    ) -> dict[str, Any]:
        """Return how many rows fit a filter, and some of them in order.

        `sort` is the name of a column or a criterion; rows without a value for it come last. A
        `limit` of -1 means all rows. Raise `FilterError` for a `sort` that does not exist.
        """
        criteria = self.list_criteria()
        condition = build_condition(parse_filter(query), list(criteria), self.list_tags())
        order_values: list[str] = []  # for the question mark in `order`, if it has one
        if sort in _SORTABLE:
            order = _SORTABLE[sort]
        elif sort in criteria:
            order = "(SELECT value FROM verdicts WHERE rollout = rollouts.id AND criterion = ?)"
            order_values = [sort]
        else:
            known = ", ".join([*_SORTABLE, *criteria])
            raise FilterError(f"there is no {sort!r} to sort by: choose one of {known}")
        direction = "DESC" if descending else "ASC"
        with self._connect() as connection:
            (total,) = connection.execute(
                f"SELECT count(*) FROM rollouts WHERE {condition.sql}", condition.values
            ).fetchone()
            # `sorted IS NULL` is 0 or 1, so that rows without a value come last.
            cursor = connection.execute(
                f"SELECT id, {order} AS sorted FROM rollouts WHERE {condition.sql} "
                f"ORDER BY sorted IS NULL, sorted {direction}, row, id LIMIT ? OFFSET ?",
                (*order_values, *condition.values, limit, offset),
            )
            ids = [rollout_id for rollout_id, _ in cursor]
            rows = list(_read_rows(connection, ids))
        return {"total": total, "rows": rows}

    def find_id(self, number: int) -> int | None:
        """Return the id of the rollout with this number, from 1; None if there is none."""
        if number > LARGEST_INTEGER:
            return None
        query = "SELECT id FROM rollouts WHERE row = ? ORDER BY id LIMIT 1"
        return self._file.select_value(query, (number - 1,))

    def find_number(self, example: str, sample: int) -> int | None:
        """Return the number of a rollout, from 1; None if the run does not have it."""
        if sample > LARGEST_INTEGER:
            return None
        query = "SELECT row + 1 FROM rollouts WHERE example = ? AND sample = ?"
        return self._file.select_value(query, (example, sample))

    def list_numbers(self, example: str) -> list[int]:
        """Return the numbers of the rollouts of one example, in the order of their samples."""
        query = "SELECT row + 1 FROM rollouts WHERE example = ? ORDER BY sample"
        return [number for (number,) in self._file.select(query, (example,))]

    def make_histogram(self, column: str) -> dict[str, list[float]]:
        """Return how `score` or `reward` is distributed: the edges of bars, and the rows in each bar.

        The bars reach from the least value to the largest, and at least from 0 to 1.
        """
        assert column in ("score", "reward")
        scored_rows = f"FROM rollouts WHERE {column} IS NOT NULL"
        [(least, largest)] = self._file.select(f"SELECT min({column}), max({column}) {scored_rows}")
        if least is None:
            return {"edges": [], "counts": []}
        low = min(0.0, least)
        high = max(1.0, largest)
        width = (high - low) / HISTOGRAM_BARS
        # The index of the bar of a value; the largest value belongs to the last bar.
        index_of_bar = f"min({HISTOGRAM_BARS - 1}, CAST(({column} - ?) / ? AS INTEGER))"
        counts_by_bar = dict(
            self._file.select(
                f"SELECT {index_of_bar}, count(*) {scored_rows} GROUP BY 1", (low, width)
            )
        )
        edges = [low + width * index for index in range(HISTOGRAM_BARS + 1)]
        counts = [counts_by_bar.get(index, 0) for index in range(HISTOGRAM_BARS)]
        return {"edges": edges, "counts": counts}

    def list_largest(self, column: str, count: int = 5) -> list[dict[str, Any]]:
        """Return the rows with the most `seconds` or the highest `cost`."""
        rows = self.list_rows(sort=column, descending=True, limit=count)["rows"]
        return [row for row in rows if row[column]]

    def list_worst(self, count: int = 5) -> list[dict[str, Any]]:
        """Return the rows with the lowest scores, each with the answer that cost it most."""
        rows = self.list_rows("-unscored", sort="score", limit=count)["rows"]
        for row in rows:
            row["reason"] = self._explain_score(row["example"], row["sample"])
        return rows

    def _explain_score(self, example: str, sample: int) -> str:
        """Return the answer that lowered a score most, with its reason; empty if none did."""
        weights = {criterion.name: criterion.weight for criterion in self._criteria}
        query = (
            "SELECT criterion, value, verdict, reason, verdicts.error FROM verdicts "
            "JOIN rollouts ON rollouts.id = rollout WHERE example = ? AND sample = ? "
            "AND value IS NOT NULL ORDER BY position"
        )
        explanation = ""
        largest_loss = 0.0
        for criterion, value, verdict, reason, error in self._file.select(query, (example, sample)):
            weight = weights.get(criterion, 1.0)  # criteria of rows are taken to weigh 1
            # A negative criterion describes a fault, which costs its weight if it happened.
            loss = weight * (1 - value) if weight > 0 else -weight * value
            if loss > largest_loss:
                largest_loss = loss
                explanation = f"{criterion}: {reason or short_answer(value, verdict, error)}"
        return explanation

    def find_first_error(self, criterion: str, kind: str) -> tuple[int | None, str]:
        """Return the number of the first row with an error of this kind in a criterion, and its message.

        The criterion `rollout` stands for errors of whole rollouts. Without such a row, the number is
        None and the message is empty.
        """
        query = "SELECT row + 1, error FROM rollouts WHERE instr(error, ?) > 0 ORDER BY row LIMIT 1"
        prefix = f"{criterion}: "
        first_rows = list(self._file.select(query, (prefix + kind,)))
        if not first_rows:
            return None, ""
        number, error = first_rows[0]
        for line in error.split("\n"):  # a line for each criterion
            if line.startswith(prefix):
                return number, line.removeprefix(prefix)
        return number, ""


def _read_rows(connection: sqlite3.Connection, ids: Sequence[int]) -> Iterator[dict[str, Any]]:
    """Yield the rows with these ids, in this order, as the table of the page shows them.

    They are read in batches, since a statement of SQLite may have only so many question marks.
    """
    for start in range(0, len(ids), BATCH_ROWS):
        batch = ids[start : start + BATCH_ROWS]
        marks = ", ".join("?" * len(batch))
        rows: dict[int, dict[str, Any]] = {}
        cursor = connection.execute(
            "SELECT id, row + 1 AS number, example, sample, task, score, reward, seconds, cost, "
            f"error, {_SORTABLE['labelled']} AS labelled, data "
            f"FROM rollouts WHERE id IN ({marks})",
            batch,
        )
        names = [column[0] for column in cursor.description]
        for values in cursor:
            row = dict(zip(names, values, strict=True))
            row["error"] = row["error"] or ""
            row["scored"] = row["score"] is not None or row["reward"] is not None
            row["labelled"] = bool(row["labelled"])
            data = json.loads(row.pop("data"))
            row |= _preview_fields(data.get("fields") or {})
            row["disagreement"] = 0.0  # the largest of its criteria
            row["verdicts"] = {}
            rows[row.pop("id")] = row
        verdicts = connection.execute(
            "SELECT rollout, criterion, value, verdict, error, disagreement FROM verdicts "
            f"WHERE rollout IN ({marks}) ORDER BY rollout, position",
            batch,
        )
        for rollout_id, criterion, value, verdict, error, disagreement in verdicts:
            row = rows[rollout_id]
            row["verdicts"][criterion] = short_answer(value, verdict, error)
            row["disagreement"] = max(row["disagreement"], disagreement or 0.0)
        for rollout_id in batch:
            yield rows[rollout_id]


def lower_text(text: str | None) -> str | None:
    """Return a text in lower case, in any language."""
    return None if text is None else text.lower()


def searchable_text(prompt: str | None, completion: str | None) -> str:
    """Return the texts of a rollout in lower case. Conversations are given as JSON."""
    question = question_text(_read_messages(prompt))
    return f"{question}\n{completion_text(_read_messages(completion))}".lower()


def short_answer(value: float | None, verdict: str | None, error: str | None) -> str:
    """Return an answer in a word: the verdict, the number, `error` or `not asked`."""
    if error is not None:
        return "error"
    if verdict:
        return verdict
    if value is None:
        return "not asked"
    return f"{value:.4g}"


def _preview_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the beginnings of the texts of a rollout, and of its other columns."""
    others = {name: value for name, value in fields.items() if name not in _NAMED_FIELDS}
    return {
        "prompt": _shorten(question_text(fields.get("prompt", ""))),
        "answer": _shorten(fields.get("answer")),
        "preview": _shorten(_skip_reasoning(completion_text(fields.get("completion", "")))),
        "fields": {name: _shorten(value) for name, value in others.items()},
    }


def _skip_reasoning(text: str) -> str:
    """Return the answer in a text; the text itself if all of it is reasoning."""
    return remove_reasoning(text) or text


def _shorten(value: Any) -> str:
    """Return the beginning of a text on one line; other values as JSON."""
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    words = text[: 4 * PREVIEW_LENGTH].split()
    return " ".join(words)[:PREVIEW_LENGTH]


def _read_messages(column: str | None) -> Any:
    """Return a prompt or a completion: SQLite gives lists of messages as JSON."""
    if column is None:
        return ""
    if column.startswith("["):
        try:
            return json.loads(column)
        except (ValueError, RecursionError):
            return column
    return column
