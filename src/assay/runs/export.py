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
    """Return a rollout as a flat mapping from column to JSON value.

    `judge` is the name of the judge of the run; None if code answered everything.

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
    record |= _make_data_columns(row)
    record |= _make_criterion_columns(row)
    record |= {"model": row.model, "judge": judge}
    record |= _make_spending_columns("model", row.spent_on_model)
    record |= _make_spending_columns("judge", row.spent_on_judge)
    record |= {
        "generation_seconds": row.timing.get("generation"),
        "scoring_seconds": row.timing.get("scoring"),
    }
    return record


def format_errors(row: Row) -> str:
    """Return the errors of a rollout on one line; empty if there are none."""
    return "; ".join(f"{criteria}: {error}" for error, criteria in group_errors(row).items())


def group_errors(row: Row) -> dict[str, str]:
    """Return each error message of a rollout once, with the names of the criteria that have it.

    The names are one text, separated by commas.
    """
    criteria_by_error: dict[str, list[str]] = {}
    for criterion, error in row.errors.items():
        criteria_by_error.setdefault(error, []).append(criterion)
    return {error: ", ".join(criteria) for error, criteria in criteria_by_error.items()}


def _make_data_columns(row: Row) -> Record:
    """Return the fields of a rollout as columns; prompt, completion and answer come first."""
    first_names = [name for name in _FIRST_DATA_COLUMNS if name in row.fields]
    other_names = [name for name in row.fields if name not in first_names]
    record: Record = {}
    for name in [*first_names, *other_names]:
        value = to_jsonable(row.fields[name])
        # These repeat the columns `example` and `sample`, which every record has.
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


def _name_data_column(field: str) -> str:
    """Return the column for a field of the data: its name, with a prefix if that is ambiguous."""
    is_ambiguous = (
        field in RESULT_COLUMNS
        or field in MODEL_COLUMNS
        or field.startswith(DATA_PREFIX)
        or _ends_like_criterion_column(field)
    )
    return DATA_PREFIX + field if is_ambiguous else field


def _ends_like_criterion_column(name: str) -> bool:
    """Return whether a name ends like the columns of a criterion, such as `correct.value`."""
    _, dot, last_part = name.rpartition(".")
    return bool(dot) and last_part in CRITERION_FIELDS


def _simplify_messages(value: Any, *, role: str) -> Any:
    """Return only the text if a value is a list of one plain message of this role.

    Any other value is returned as it is.
    """
    if not isinstance(value, list):
        return value
    messages = cast("list[Any]", value)
    if len(messages) != 1 or not isinstance(messages[0], Mapping):
        return messages
    message = cast("Mapping[str, Any]", messages[0])
    content = message.get("content")
    has_only_text = set(message) == {"role", "content"} and isinstance(content, str)
    if has_only_text and message["role"] == role:
        return content
    return messages


def _make_criterion_columns(row: Row) -> Record:
    """Return the columns of all criteria, such as `correct.value` and `correct.verdict`."""
    record: Record = {}
    for name, line in name_lines(row):
        record[f"{name}.value"] = line.value
        record[f"{name}.verdict"] = line.verdict
        record[f"{name}.reason"] = line.reason or None
        record[f"{name}.error"] = line.error
    return record


def name_lines(row: Row) -> Iterator[tuple[str, CriterionReport]]:
    """Yield each line of a rollout's report, after the name of its criterion in a summary."""
    lines = row.report.lines
    names = names_of(lines, is_row_rubric=own_rubric(row.fields) is not None)
    return zip(names, lines, strict=True)


def _make_spending_columns(prefix: str, spent: Spending) -> Record:
    """Return columns for tokens and dollars, such as `judge_cost` for the prefix `judge`.

    All are None if no model was called, and the cost is None if it is not known.
    """
    was_called = spent != NOTHING
    return {
        f"{prefix}_input_tokens": spent.prompt if was_called else None,
        f"{prefix}_output_tokens": spent.completion if was_called else None,
        f"{prefix}_cost": spent.cost if was_called else None,
    }


# Selecting columns.


def select_columns(record: Record, columns: Sequence[str]) -> tuple[Record, list[str]]:
    """Return only these columns of a record, and the names of those that it does not have.

    A missing column is None in the returned record. `info.city` is the field `city` of the column
    `info`, unless a column has that very name.
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
    """Return the value of a column, or of a field inside it. Raise `KeyError` if there is none.

    A path such as `info.city.name` is first looked up as a column, then as `name` inside the
    column `info.city`, then as `city.name` inside the column `info`.
    """
    column = path
    while column not in record:
        column, dot, _ = column.rpartition(".")
        if not dot:
            raise KeyError(path)
    value = record[column]
    if column == path:
        return value
    fields = path[len(column) + 1 :].split(".")
    for field in fields:
        if not isinstance(value, Mapping):
            raise KeyError(path)
        value = cast("Mapping[str, Any]", value)[field]
    return value


# Tables: every row has a cell in every column, and the cells of a column are of one kind.


class TableColumns:
    """The columns of a table that has all records of a run, and the type of the cells of each.

    Records differ in their columns, so all of them are added before the first row is written.
    """

    def __init__(self, criteria: Iterable[str] = (), columns: Sequence[str] = ()) -> None:
        """`criteria` are the names of the rubric's criteria; `columns` are the only ones wanted."""
        self._selected = columns
        # The names of columns, in the order in which they were added.
        self._data_columns: dict[str, None] = {}
        self._criterion_columns: dict[str, None] = {}
        for name in criteria:
            for field in CRITERION_FIELDS:
                self._criterion_columns[f"{name}.{field}"] = None
        self._types_by_column: dict[str, set[type]] = {}

    def add(self, record: Record) -> None:
        """Add the columns of a record to the table, with the types of their values."""
        for name, value in record.items():
            if value is not None:
                self._types_by_column.setdefault(name, set()).add(_find_cell_type(value))
            if name in RESULT_COLUMNS or name in MODEL_COLUMNS:
                continue  # every table has these columns
            if _ends_like_criterion_column(name) and not name.startswith(DATA_PREFIX):
                self._criterion_columns[name] = None
            else:
                self._data_columns[name] = None

    @property
    def names(self) -> list[str]:
        """The names of all columns, in the order of the table."""
        if self._selected:
            return list(self._selected)
        first_names = [name for name in _FIRST_DATA_COLUMNS if name in self._data_columns]
        other_names = [name for name in self._data_columns if name not in first_names]
        return [
            *RESULT_COLUMNS,
            *first_names,
            *other_names,
            *self._criterion_columns,
            *MODEL_COLUMNS,
        ]

    def find_type(self, name: str) -> type:
        """Return the type of all cells of a column: bool, int, float or str.

        It is `str` if values of different types were added, which all become text, or none.
        """
        types = self._types_by_column.get(name, set())
        if types == {int, float}:
            return float
        if len(types) == 1:
            return next(iter(types))
        return str

    def make_cells(self, record: Record) -> list[Any]:
        """Return a record as one row of the table; a cell is None where the record has no value."""
        cells: list[Any] = []
        for name in self.names:
            cells.append(make_cell(record.get(name), self.find_type(name)))
        return cells


def _find_cell_type(value: object) -> type:
    """Return the type of the cell that holds a JSON value without loss: bool, int, float or str.

    Lists, mappings and integers of more than 64 bits are held as JSON text.
    """
    if isinstance(value, bool | float | str):
        return type(value)
    if isinstance(value, int) and abs(value) <= _LARGEST_INTEGER:
        return int
    return str


def make_cell(value: object, cell_type: type) -> Any:
    """Convert a JSON value to the type of its column; JSON text if that is `str`."""
    if value is None:
        return None
    if cell_type is float and isinstance(value, int):
        return float(value)
    if cell_type is str and not isinstance(value, str):
        return as_text(value)
    return value


# The function of each package that makes a frame from a mapping of columns to lists of cells.
_FRAME_FUNCTIONS: Final = {"pandas": "DataFrame", "polars": "DataFrame", "pyarrow": "table"}


def make_frame(records: Iterable[Record], criteria: Iterable[str], package: str) -> Any:
    """Return records as a frame of `package`, which is `pandas`, `polars` or `pyarrow`.

    `criteria` are the names of the rubric's criteria, which have columns even without any record.
    """
    module = import_extra(package, "a run as a frame")
    columns = TableColumns(criteria)
    kept_records: list[Record] = []
    for record in records:
        columns.add(record)
        kept_records.append(record)
    cells: dict[str, list[Any]] = {}
    for name in columns.names:
        cell_type = columns.find_type(name)
        cells[name] = [make_cell(record.get(name), cell_type) for record in kept_records]
    make = getattr(module, _FRAME_FUNCTIONS[package])
    return make(cells)


def write_parquet(lines: Iterable[str], columns: TableColumns, out: Any) -> None:
    """Write records, given as lines of JSON, to the open binary file `out` as Parquet.

    `columns` must know all of them. Needs pyarrow.
    """
    pyarrow = import_extra("pyarrow", "Writing Parquet")
    parquet = import_extra("pyarrow.parquet", "Writing Parquet")
    arrow_types = {
        bool: pyarrow.bool_(),
        int: pyarrow.int64(),
        float: pyarrow.float64(),
        str: pyarrow.string(),
    }
    names = columns.names
    schema = pyarrow.schema([(name, arrow_types[columns.find_type(name)]) for name in names])
    with parquet.ParquetWriter(out, schema) as writer:
        batch: list[list[Any]] = []
        for line in lines:
            batch.append(columns.make_cells(json.loads(line)))
            if len(batch) == _BATCH_ROWS:
                writer.write_table(_make_table(pyarrow, schema, batch))
                batch = []
        writer.write_table(_make_table(pyarrow, schema, batch))


_BATCH_ROWS: Final = 1000  # rows that are held in memory before they are written


def _make_table(pyarrow: Any, schema: Any, rows: Sequence[Sequence[Any]]) -> Any:
    """Return rows of cells as an Arrow table, which is stored by column."""
    arrays: list[Any] = []
    for index, field in enumerate(schema):
        arrays.append(pyarrow.array([row[index] for row in rows], type=field.type))
    return pyarrow.Table.from_arrays(arrays, schema=schema)
