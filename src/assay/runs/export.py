"""Export the rollouts of a run with the same columns as JSON, CSV, Parquet and data frames.

`docs/reference/exports.md` describes the columns. A record is a flat mapping from column to JSON
value. Forms that have only plain cells hold lists and mappings as JSON text.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias, cast

from assay.errors import import_extra
from assay.report import CriterionReport
from assay.runs.jsonable import as_text, to_jsonable
from assay.runs.row import Row, names_of, own_rubric
from assay.runs.spending import NOTHING, Spending

Record: TypeAlias = dict[str, Any]

# The columns before those of the data, and those after the criteria. Every record has them.
RESULT_COLUMNS: Final = ("example", "sample", "score", "reward", "error")
MODEL_COLUMNS: Final = (
    "model",
    "judge",
    "model_input_tokens",
    "model_output_tokens",
    "model_cost",
    "judge_input_tokens",
    "judge_output_tokens",
    "judge_cost",
    "generation_seconds",
    "scoring_seconds",
)
# A criterion has a column for each of these: `NAME.value`, `NAME.verdict` and so on.
CRITERION_FIELDS: Final = ("value", "verdict", "reason", "error")
# Put before the name of a data column that is already the name of another column.
DATA_PREFIX: Final = "data."

_FIRST_DATA_COLUMNS: Final = ("prompt", "completion", "answer")
_LARGEST_INTEGER: Final = 2**63 - 1  # the largest that typed columns hold


def make_record(row: Row, *, judge: str | None = None) -> Record:
    """Return a rollout as a flat mapping from column to JSON value. `judge` judged the run.

    >>> record = make_record(Row("7", fields={"completion": "Paris", "score": "good"}))
    >>> record["completion"], record["score"], record["data.score"]
    ('Paris', None, 'good')
    """
    record: Record = {
        "example": row.example,
        "sample": row.sample,
        "score": row.score,
        "reward": row.reward,
        "error": format_errors(row) or None,
    }
    record |= _list_data(row)
    record |= _list_criteria(row)
    record |= {"model": row.model, "judge": judge}
    record |= _list_spending("model", row.spent_on_model)
    record |= _list_spending("judge", row.spent_on_judge)
    record |= {
        "generation_seconds": row.timing.get("generation"),
        "scoring_seconds": row.timing.get("scoring"),
    }
    return record


def format_errors(row: Row) -> str:
    """Return the errors of a rollout on one line; empty if there are none."""
    return "; ".join(f"{names}: {error}" for error, names in group_errors(row).items())


def group_errors(row: Row) -> dict[str, str]:
    """Return the errors of a rollout, each with the names of the criteria that it left unanswered."""
    names: dict[str, list[str]] = {}
    for name, error in row.errors.items():
        names.setdefault(error, []).append(name)
    return {error: ", ".join(criteria) for error, criteria in names.items()}


def _list_data(row: Row) -> Record:
    """Return the columns of the data; prompt, completion and answer come first."""
    first_names = [name for name in _FIRST_DATA_COLUMNS if name in row.fields]
    other_names = [name for name in row.fields if name not in first_names]
    record: Record = {}
    for name in [*first_names, *other_names]:
        value = to_jsonable(row.fields[name])
        # An evaluation saves these two with the data, under the names that the run uses too.
        if name == "example_id" and str(value) == row.example:
            continue
        if name == "sample" and value == row.sample:
            continue
        if name == "prompt":
            value = _simplify_messages(value, role="user")
        elif name == "completion":
            value = _simplify_messages(value, role="assistant")
        record[_name_data_column(str(name))] = value
    return record


def _name_data_column(name: str) -> str:
    last_part = name.rpartition(".")[2]
    is_taken = (
        name in RESULT_COLUMNS
        or name in MODEL_COLUMNS
        or name.startswith(DATA_PREFIX)
        or ("." in name and last_part in CRITERION_FIELDS)
    )
    return DATA_PREFIX + name if is_taken else name


def _simplify_messages(value: Any, *, role: str) -> Any:
    """Return the text of a single message of this role; any other value as it is."""
    if not isinstance(value, list):
        return value
    messages = cast("list[Any]", value)
    if len(messages) != 1 or not isinstance(messages[0], Mapping):
        return messages
    message = cast("Mapping[str, Any]", messages[0])
    content = message.get("content")
    is_plain = (
        set(message) == {"role", "content"} and message["role"] == role and isinstance(content, str)
    )
    return content if is_plain else messages


def _list_criteria(row: Row) -> Record:
    record: Record = {}
    for name, line in name_lines(row):
        record[f"{name}.value"] = line.value
        record[f"{name}.verdict"] = line.verdict
        record[f"{name}.reason"] = line.reason or None
        record[f"{name}.error"] = line.error
    return record


def name_lines(row: Row) -> Iterator[tuple[str, CriterionReport]]:
    """Yield the lines of a report with the names that a summary has for them."""
    lines = row.report.lines
    names = names_of(lines, is_own=own_rubric(row.fields) is not None)
    return zip(names, lines, strict=True)


def _list_spending(prefix: str, spent: Spending) -> Record:
    """Return tokens and dollars; None if no model was asked, and for a cost that is not known."""
    if spent == NOTHING:
        return dict.fromkeys(
            (f"{prefix}_input_tokens", f"{prefix}_output_tokens", f"{prefix}_cost")
        )
    return {
        f"{prefix}_input_tokens": spent.prompt,
        f"{prefix}_output_tokens": spent.completion,
        f"{prefix}_cost": spent.cost,
    }


# Selecting columns.


def select_columns(record: Record, columns: Sequence[str]) -> tuple[Record, list[str]]:
    """Return only these columns of a record, and the names of those that it does not have.

    `info.city` is the field `city` of the column `info`, unless a column has that very name.
    """
    selected: Record = {}
    missing: list[str] = []
    for column in columns:
        try:
            selected[column] = _find_value(record, column)
        except KeyError:
            selected[column] = None
            missing.append(column)
    return selected, missing


def _find_value(record: Record, path: str) -> Any:
    """Return the value of a column, or of a field in one. Raise `KeyError` if there is none.

    If several columns fit the beginning of the path, the longest name counts.
    """
    column = path
    while column not in record:
        column, dot, _ = column.rpartition(".")
        if not dot:
            raise KeyError(path)
    value = record[column]
    if column == path:
        return value
    for field in path[len(column) + 1 :].split("."):
        if not isinstance(value, Mapping):
            raise KeyError(path)
        value = cast("Mapping[str, Any]", value)[field]
    return value


# Tables: every row has a cell in every column, and the cells of a column are of one kind.


class TableColumns:
    """The columns of a table, in order, with the kinds of their values."""

    def __init__(self, criteria: Iterable[str] = (), columns: Sequence[str] = ()) -> None:
        """`criteria` are the names of the rubric's criteria; `columns` are the only ones wanted."""
        self._selected = columns
        self._data: dict[str, None] = {}
        self._criteria: dict[str, None] = {}
        for name in criteria:
            self._criteria |= dict.fromkeys(f"{name}.{field}" for field in CRITERION_FIELDS)
        self._kinds: dict[str, set[type]] = {}

    def add(self, record: Record) -> None:
        """Take note of the columns of a record."""
        for name, value in record.items():
            if value is not None:
                self._kinds.setdefault(name, set()).add(_find_kind(value))
            if name in RESULT_COLUMNS or name in MODEL_COLUMNS:
                continue
            is_criterion = name.rpartition(".")[2] in CRITERION_FIELDS and "." in name
            if is_criterion and not name.startswith(DATA_PREFIX):
                self._criteria[name] = None
            else:
                self._data[name] = None

    @property
    def names(self) -> list[str]:
        """The names of all columns, in order."""
        if self._selected:
            return list(self._selected)
        first_names = [name for name in _FIRST_DATA_COLUMNS if name in self._data]
        other_names = [name for name in self._data if name not in first_names]
        return [*RESULT_COLUMNS, *first_names, *other_names, *self._criteria, *MODEL_COLUMNS]

    def find_kind(self, name: str) -> type:
        """Return the only kind of values in a column; `str` if there are several or none."""
        kinds = self._kinds.get(name, set())
        if kinds == {int, float}:
            return float
        if len(kinds) == 1:
            kind = next(iter(kinds))
            return str if kind is list else kind
        return str

    def make_cells(self, record: Record) -> list[Any]:
        """Return the cells of a row; None where the record has no value."""
        cells: list[Any] = []
        for name in self.names:
            cells.append(make_cell(record.get(name), self.find_kind(name)))
        return cells


def _find_kind(value: object) -> type:
    """Return bool, int, float or str, or list for what a cell holds as JSON text."""
    if isinstance(value, bool | float | str):
        return type(value)
    if isinstance(value, int) and abs(value) <= _LARGEST_INTEGER:
        return int
    return list


def make_cell(value: object, kind: type) -> Any:
    """Return a value as a cell of a column of this kind; what is not plain becomes JSON text."""
    if value is None:
        return None
    if kind is float and isinstance(value, int):
        return float(value)
    if kind is str and not isinstance(value, str):
        return as_text(value)
    return value


_MAKERS: Final = {"pandas": "DataFrame", "polars": "DataFrame", "pyarrow": "table"}


def make_frame(records: Iterable[Record], criteria: Iterable[str], package: str) -> Any:
    """Return records as a frame of `pandas`, `polars` or `pyarrow`, which has to be installed."""
    module = import_extra(package, "a run as a frame")
    columns = TableColumns(criteria)
    kept_records: list[Record] = []
    for record in records:
        columns.add(record)
        kept_records.append(record)
    cells: dict[str, list[Any]] = {}
    for name in columns.names:
        kind = columns.find_kind(name)
        cells[name] = [make_cell(record.get(name), kind) for record in kept_records]
    return getattr(module, _MAKERS[package])(cells)


def write_parquet(lines: Iterable[str], columns: TableColumns, out: Any) -> None:
    """Write records, given as lines of JSON, to a binary file as Parquet. Needs pyarrow."""
    pyarrow = import_extra("pyarrow", "Writing Parquet")
    parquet = import_extra("pyarrow.parquet", "Writing Parquet")
    types = {
        bool: pyarrow.bool_(),
        int: pyarrow.int64(),
        float: pyarrow.float64(),
        str: pyarrow.string(),
    }
    names = columns.names
    schema = pyarrow.schema([(name, types[columns.find_kind(name)]) for name in names])
    with parquet.ParquetWriter(out, schema) as writer:
        batch: list[list[Any]] = []
        for line in lines:
            batch.append(columns.make_cells(json.loads(line)))
            if len(batch) == _BATCH_ROWS:
                writer.write_table(_make_table(pyarrow, schema, batch))
                batch = []
        writer.write_table(_make_table(pyarrow, schema, batch))


_BATCH_ROWS: Final = 1000


def _make_table(pyarrow: Any, schema: Any, rows: Sequence[Sequence[Any]]) -> Any:
    arrays: list[Any] = []
    for index, field in enumerate(schema):
        arrays.append(pyarrow.array([row[index] for row in rows], type=field.type))
    return pyarrow.Table.from_arrays(arrays, schema=schema)
