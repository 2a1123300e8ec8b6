"""Read a rubric from a spreadsheet with one row per criterion and one column per field."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from assay.errors import RubricFileError
from assay.loading.document import Document, KeyPath, Node, Position, read_text
from assay.tables import TableError, read_table
from assay.wording import format_value

_NUMBER_FIELDS: Final = ("weight", "cap", "pass_at", "timeout")
_FLAG_FIELDS: Final = ("allow_na", "required", "requires_evidence", "report_only", "isolate")
_LIST_FIELDS: Final = ("choices", "tags", "reference")
_TRUE: Final = frozenset({"true", "yes", "x", "1"})
_FALSE: Final = frozenset({"false", "no", "0"})


def read_sheet(path: Path) -> Node:
    """Return the criteria in a spreadsheet, as those of any rubric file.

    Empty cells are left out. Several choices, tags or columns in a cell are separated by `|`, or
    else by commas. Checks and conditions are written as in YAML. Raises `RubricFileError` if the
    table cannot be read, or if no column says what to ask.
    """
    name = str(path)
    data: list[dict[str, Any]] = []
    positions: dict[KeyPath, Position] = {}
    try:
        numbered_rows = list(read_table(path))
    except TableError as error:
        raise RubricFileError(str(error)) from None
    if not numbered_rows:
        raise RubricFileError(
            "it has no criteria below the header: write one in each row", path=name
        )
    header = list(numbered_rows[0][1])
    columns = {_normalise(column): column for column in header}
    if not {"requirement", "check"} & columns.keys():
        raise RubricFileError(
            f"it is a table without a column 'requirement' or 'check' (columns: "
            f"{', '.join(header)}), so it is not a rubric: name the column with the criteria "
            "'requirement', or give the table without -r",
            path=name,
        )
    for index, (line, row) in enumerate(numbered_rows):
        positions[(index,)] = Position(line)
        criterion: dict[str, Any] = {}
        for field, column in columns.items():
            cell = row[column].strip()
            if cell:
                criterion[field] = _read_cell(field, cell, path=name, line=line)
                positions[index, field] = Position(line)
        data.append(criterion)
    return Node(data, Document("sheet", "", name, positions))


def _normalise(column: str) -> str:
    """Return the name of a field as files write it: `Pass at` is `pass_at`."""
    return re.sub(r"[\s-]+", "_", column.strip().casefold())


def _read_cell(field: str, cell: str, *, path: str, line: int) -> Any:
    """Return the value of a cell as a file would have it."""
    readers: dict[str, Callable[[str], Any]] = {}
    readers |= dict.fromkeys(_NUMBER_FIELDS, _read_number)
    readers |= dict.fromkeys(_FLAG_FIELDS, _read_flag)
    readers |= dict.fromkeys(_LIST_FIELDS, _read_list)
    readers |= dict.fromkeys(("check", "when"), _read_yaml)
    read = readers.get(field)
    if read is None:
        return cell
    try:
        return read(cell)
    except ValueError as error:
        message = getattr(error, "message", None) or str(error)
        raise RubricFileError(
            f"the cell {format_value(cell)} in column {field!r} cannot be read: {message}",
            path=path,
            line=line,
        ) from None


def _read_number(cell: str) -> float | str:
    """Return a number, also one with a decimal comma or a typographic minus."""
    text = cell.replace("\u2212", "-")
    if re.fullmatch(r"[-+]?\d*,\d+", text):
        text = text.replace(",", ".")
    try:
        return float(text)
    except ValueError:
        raise ValueError("give a number, such as 1.5") from None


def _read_flag(cell: str) -> bool:
    folded = cell.casefold()
    if folded in _TRUE:
        return True
    if folded in _FALSE:
        return False
    raise ValueError("give true or false")


def _read_list(cell: str) -> list[str]:
    separator = "|" if "|" in cell else ","
    return [part.strip() for part in cell.split(separator)]


def _read_yaml(cell: str) -> Any:
    """Return a check or a condition: a name, or YAML such as `{contains: Paris}`."""
    if cell.startswith(("{", "[")):
        return read_text(cell, "yaml").data
    match = re.fullmatch(r"(\w+)\s*:\s*(.+)", cell, re.DOTALL)
    if match and not re.fullmatch(r"[\w.]+:[\w.]+", cell):  # that is a function of a module
        value = read_text(match[2], "yaml").data
        fields: Mapping[str, Any] = {match[1]: value}
        return fields
    return cell
