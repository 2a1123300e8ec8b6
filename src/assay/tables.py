"""Read rows from files, standard input, lists, data sets and frames, as one dict after another.

Rows are read as they are asked for, and an error names its file and line. Neither pandas nor
`datasets` is imported: their objects are recognised by their attributes.
"""

import codecs
import csv
import gzip
import json
import os
import re
import sys
import warnings
import zlib
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, time, timedelta
from functools import partial
from io import TextIOWrapper
from itertools import chain
from pathlib import Path
from typing import IO, Any, AnyStr, TypeAlias, cast

from assay.errors import AssayError, import_extra
from assay.messages import MEDIA_COLUMNS
from assay.wording import format_count, format_value, suggest_path, suggest_word


class TableError(AssayError, ValueError):
    """Rows cannot be read; the message names file and line, the problem, and what to do."""


# Rows with their numbers: in a file of lines the number of the line, elsewhere from 0, as in runs.
NumberedRows: TypeAlias = Iterator[tuple[int, dict[str, Any]]]


def rows_of(
    source: object,
    *,
    mapping: Mapping[str, str] | None = None,
    fields: Sequence[str] = (),
    where: str | None = None,
    media: bool = True,
) -> Iterator[dict[str, Any]]:
    """Return the rows of a file, a list, a Hugging Face data set or a pandas frame, as dicts.

    The format of a file follows from its ending: `.jsonl`, `.ndjson`, `.json`, `.csv`, `.tsv` (each
    also with `.gz` after it), `.xlsx` or `.parquet`. The path `-` is standard input.

    `mapping={"completion": "output"}` renames the column `output` to `completion`. Raises
    `TableError` for a row that lacks one of `fields`; `where` is the name of the source in such
    messages. The columns `image`, `audio` and `pdf`, and their plurals, become parts of the
    prompt, unless `media` is false.

    >>> list(rows_of([{"output": "4", "answer": "4"}], mapping={"completion": "output"}))
    [{'completion': '4', 'answer': '4'}]
    """
    name = where or _name_source(source)
    has_line_numbers = _has_line_numbers(source)

    def locate_row(number: int) -> str:
        if has_line_numbers:
            return f"{name}:{number}"
        return f"row {number} of {name}"

    rows = _rename_columns(
        _number_rows(source, name),
        mapping=mapping or {},
        fields=fields,
        locate_row=locate_row,
    )
    if media:
        return map(with_media_columns, rows)
    return rows


def read_table(path: Path) -> NumberedRows:
    """Return the rows of a file with their numbers, as they are."""
    return _read_file(path, str(path))


def _name_source(source: object) -> str:
    """Return what messages call a source of rows."""
    if isinstance(source, str | os.PathLike):
        path = str(cast("object", source))
        return "standard input" if path == "-" else path
    kind = type(source)
    if kind.__module__ == "builtins":
        return "the rows"
    return f"the {kind.__name__}"


def _has_line_numbers(source: object) -> bool:
    """Return whether the number of a row is always the number of a line in a file."""
    if not isinstance(source, str | os.PathLike):
        return False
    return not str(cast("object", source)).endswith((".json", ".parquet"))


def with_media_columns(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row with its media columns moved into its prompt; most rows have none."""
    if MEDIA_COLUMNS.keys().isdisjoint(row):
        return row
    # Imported late, because it is slow to load and most tables have no media.
    from assay.media import add_media_columns

    return add_media_columns(row)


def _rename_columns(
    rows: NumberedRows,
    *,
    mapping: Mapping[str, str],
    fields: Sequence[str],
    locate_row: Callable[[int], str],
) -> Iterator[dict[str, Any]]:
    """Yield the rows with renamed columns; raise `TableError` for a row that lacks a field."""
    for number, row in rows:
        missing = [column for column in mapping.values() if column not in row]
        if not missing:
            if mapping:
                row = _rename_row(row, mapping)
            missing = [field for field in fields if field not in row]
        if missing:
            columns = ", ".join(map(str, row)) or "none"
            for new, old in mapping.items():
                is_misspelled = suggest_word(old, map(str, row)).startswith("did you mean")
                if old == missing[0] and new in row and not is_misspelled:
                    raise TableError(
                        f"{locate_row(number)}: there is no column {old!r} to rename, but {new!r} "
                        f"is there: the new name comes first, {old}={new}"
                    )
            advice = suggest_word(missing[0], map(str, row))
            hint = f": {advice}" if advice.startswith("did you mean") else ""
            raise TableError(
                f"{locate_row(number)}: there is no column {missing[0]!r} (columns: {columns}){hint}"
            )
        yield row


def _rename_row(row: dict[str, Any], mapping: Mapping[str, str]) -> dict[str, Any]:
    """Return a row with its columns renamed; a column that had a new name before is dropped."""
    renamed = {new_name: row[old_name] for new_name, old_name in mapping.items()}
    old_names = mapping.values()
    for column, value in row.items():
        if column not in renamed and column not in old_names:
            renamed[column] = value
    return renamed


def _number_rows(source: object, name: str) -> NumberedRows:
    """Return the rows of a source of any kind, with their numbers."""
    if isinstance(source, str | os.PathLike):
        path = Path(cast("str", source))
        if str(path) != "-":
            return _read_file(path, name)
        if sys.stdin is None:  # pyright: ignore[reportUnnecessaryComparison]
            raise TableError(f"{name} is closed: open it, or name a file")
        return _read_list_or_lines(sys.stdin.buffer, name)
    if all(hasattr(source, attribute) for attribute in ("columns", "iloc", "to_dict", "notna")):
        return _read_frame(source)  # of pandas, or of a library with the same methods
    if isinstance(source, Mapping):
        return _read_columns(cast("Mapping[Any, Any]", source), name)
    if isinstance(source, Iterable) and not isinstance(source, bytes):
        return _read_mappings(cast("Iterable[object]", source), name)
    raise TableError(
        f"{format_value(source)} holds no rows: give a path, a list of mappings, a data set or a frame"
    )


# Rows in memory.


def _read_mappings(source: Iterable[object], name: str) -> NumberedRows:
    """Yield a copy of each mapping; raise `TableError` for an item that is not a mapping."""
    for number, row in enumerate(source):
        if not isinstance(row, Mapping):
            raise TableError(
                f"row {number} of {name} is {format_value(row)}: give a mapping, name to value"
            )
        yield number, dict(cast("Mapping[str, Any]", row))


def _read_columns(columns: Mapping[Any, Any], name: str) -> NumberedRows:
    """Return the rows of a mapping from column names to lists of equal length."""
    for column, values in columns.items():
        if not isinstance(values, list | tuple):
            raise TableError(
                f"in {name}, {column!r} is of type {type(values).__name__} and not a list: give a "
                "list of rows, a mapping of lists, or one split of a data set"
            )
    lengths = {column: len(values) for column, values in columns.items()}
    if len(set(lengths.values())) > 1:
        listed_lengths = ", ".join(f"{column} {length}" for column, length in lengths.items())
        raise TableError(f"the columns of {name} are of different lengths: {listed_lengths}")
    cells_by_row = zip(*columns.values(), strict=True)
    rows = (dict(zip(columns, cells, strict=True)) for cells in cells_by_row)
    return enumerate(rows)


BATCH_SIZE = 1024  # rows of a frame or a Parquet file that are converted to dicts at a time


def _read_frame(frame: Any) -> NumberedRows:
    """Yield the rows of a pandas frame, with None for missing values (NaN, NaT, NA)."""
    for column in frame.columns:
        if not isinstance(column, str):
            raise TableError(
                f"a column of the frame is called {column!r}: give it a text for a name"
            )
    refuse_repeated_columns(frame.columns, "the frame")
    for start in range(0, len(frame), BATCH_SIZE):
        batch = frame.iloc[start : start + BATCH_SIZE]
        without_nan = batch.astype(object).where(batch.notna(), None)
        yield from enumerate(without_nan.to_dict("records"), start=start)


def refuse_repeated_columns(columns: Iterable[str], name: str) -> None:
    """Raise `TableError` if two columns have one name, since a row would hold only the last."""
    repeated = [column for column, count in Counter(columns).items() if count > 1]
    if repeated:
        raise TableError(f"{name}: two columns are called {repeated[0]!r}: rename one of them")


# Files.

# How many bytes one row may take, and how many a file that is a single list. A small `.gz` file can
# unpack to more than any memory holds.
MAX_ROW_BYTES = 128 * 2**20
MAX_LIST_BYTES = 2**30


def _read_file(path: Path, name: str) -> NumberedRows:
    """Return the rows of a file in the format of its ending."""
    if not path.exists():
        raise TableError(f"File not found: {path}{suggest_path(path)}")
    endings = [ending.lower() for ending in path.suffixes if ending.lower() != ".gz"]
    if not endings:
        raise TableError(f"{name}: its name has no ending: use {', '.join(_READERS)}")
    reader = _READERS.get(endings[-1])
    if reader is None:
        hint = f"use {', '.join(_READERS)}"
        if endings[-1] in (".yaml", ".yml", ".toml"):
            hint = f"give a table ({', '.join(_READERS)}); name a rubric with -r"
        raise TableError(f"{name}: files that end in {endings[-1]!r} are not tables: {hint}")
    return reader(path, name)


@contextmanager
def _open_file(path: Path, name: str) -> Generator[IO[bytes]]:
    """Open a file for reading, unpacked if it is a `.gz`; raise `TableError` if a read fails."""
    is_packed = path.suffix.lower() == ".gz"
    try:
        with gzip.open(path) if is_packed else path.open("rb") as file:
            yield cast("IO[bytes]", file)
    except (OSError, EOFError, zlib.error) as error:
        problem = getattr(error, "strerror", None) or error
        raise TableError(f"{name}: it cannot be read: {problem}") from error


def _read_lines(file: IO[AnyStr], name: str) -> Iterator[AnyStr]:
    """Yield the lines of a file; raise `TableError` for one that is too long for a row."""
    number = 0
    while line := file.readline(MAX_ROW_BYTES + 1):
        number += 1
        if len(line) > MAX_ROW_BYTES:
            raise TableError(
                f"{name}:{number}: this line is longer than {MAX_ROW_BYTES // 2**20} MiB, "
                "the most that a row may take: check the file, or shorten the row"
            )
        yield line


# JSON: one object per line, or a list of objects.

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_BEFORE_ITEM = re.compile(r"[\s,]*(?=[^\s,\]])")  # what separates an item of a list from the last


class RepeatedFieldError(ValueError):
    """A JSON object names a field twice."""


def refuse_repeated_fields(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object as a dict; raise `RepeatedFieldError` if it names a field twice."""
    fields = dict(pairs)
    if len(fields) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        [(repeated_name, count)] = counts.most_common(1)
        raise RepeatedFieldError(
            f"the field {format_value(repeated_name)} occurs {count} times: name it once"
        )
    return fields


# `json.loads` also checks the type and the encoding of a text; the decoder alone takes half the
# time.
_decoder = json.JSONDecoder(object_pairs_hook=refuse_repeated_fields)
# Returns the value of a JSON text. Raises ValueError if it is not JSON or repeats a field.
parse_json = _decoder.decode


def _read_json_lines(path: Path, name: str) -> NumberedRows:
    """Yield the objects of a file that has one on each line."""
    with _open_file(path, name) as file:
        yield from read_objects(_read_lines(file, name), name)


def _read_json(path: Path, name: str) -> NumberedRows:
    """Yield the objects of a file that is a list of them, or has one on each line."""
    with _open_file(path, name) as file:
        yield from _read_list_or_lines(file, name)


def _read_list_or_lines(file: IO[bytes], name: str) -> NumberedRows:
    """Yield the items of a list if the content starts with a bracket, or else the objects on lines."""
    lines = _read_lines(file, name)
    for number, line in enumerate(lines, start=1):
        line_without_mark = line.removeprefix(_BYTE_ORDER_MARK)
        content = line_without_mark.strip()
        if content.startswith(b"["):
            following = file.read(MAX_LIST_BYTES + 1)
            if len(line) + len(following) > MAX_LIST_BYTES:
                raise TableError(
                    f"{name}: this list is larger than {MAX_LIST_BYTES // 2**20} MiB, the most "
                    "that is read at once: write one object per line, as a .jsonl file"
                )
            # With the blank lines before the list, an error names the right line.
            blank_lines = b"\n" * (number - 1)
            yield from _read_list(blank_lines + line_without_mark + following, name)
        elif content:
            # Reads all other lines too, so the loop ends here.
            yield from read_objects(chain([line], lines), name, start=number)


def read_objects(lines: Iterable[bytes], name: str, start: int = 1) -> NumberedRows:
    """Yield the object on each line, with the line number; blank lines are skipped.

    `start` is the number of the first line.
    """
    for number, line in _decode_lines(lines, name, start):
        try:
            # Without the line break, so that the place of an error is on this line.
            row: object = parse_json(line.rstrip())
        except (ValueError, RecursionError) as error:
            if not line.strip():
                continue
            raise _explain_json_error(f"{name}:{number}", error) from None
        if type(row) is not dict:
            raise TableError(
                f"{name}:{number}: {format_value(row)} is not an object: write one object per "
                'line, {"field": ...}'
            )
        yield number, cast("dict[str, Any]", row)


def _decode_lines(lines: Iterable[bytes], name: str, start: int = 1) -> Iterator[tuple[int, str]]:
    """Yield the lines of a file as text, with their numbers.

    Raises TableError for a file that is not in UTF-8. `start` is the number of the first line.
    """
    for number, line in enumerate(lines, start=start):
        encoding = "utf-8"
        if number == 1:
            encoding = "utf-8-sig"  # without the byte order mark that some editors write
            if line.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
                raise TableError(f"{name}: it is written in UTF-16: save it as UTF-8")
        try:
            text = line.decode(encoding)
        except UnicodeDecodeError as error:
            raise _explain_json_error(f"{name}:{number}", error) from None
        yield number, text


def _read_list(data: bytes, name: str) -> NumberedRows:
    """Yield the items of a JSON list of objects."""
    try:
        items = cast("list[object]", parse_json(data.decode()))
    except (ValueError, RecursionError) as error:
        line = getattr(error, "lineno", None) or _find_line_of_broken_item(data)
        location = name if line is None else f"{name}:{line}"
        raise _explain_json_error(location, error) from None
    for number, row in enumerate(items):
        if type(row) is not dict:
            raise TableError(
                f"{name}: row {number} of the list is {format_value(row)}, not an object"
            )
        yield number, cast("dict[str, Any]", row)


def _find_line_of_broken_item(data: bytes) -> int | None:
    """Return the line on which the first item that cannot be read starts; None if all can be read."""
    text = data.decode(errors="replace")
    position = text.index("[") + 1
    while match := _BEFORE_ITEM.match(text, position):
        item_start = match.end()
        try:
            _, position = _decoder.raw_decode(text, item_start)
        except (ValueError, RecursionError):
            return text.count("\n", 0, item_start) + 1
    return None


# What to do about a mistake in a JSON file, by the beginning of the parser's message.
_JSON_ADVICE: Mapping[str, str] = {
    "Expecting property name": "put names in double quotes, and no comma after the last field",
    "Extra data": "write one object per line, without a comma after it",
    "Unterminated string": 'put " at the end of the text, and write a line break in it as \\n',
    "Invalid control character": "write a line break in a text as \\n, and a tab as \\t",
    "Illegal trailing comma": "remove the comma",  # since Python 3.13
}


def _explain_json_error(location: str, error: Exception) -> TableError:
    """Return the `TableError` for JSON that cannot be decoded or parsed."""
    if isinstance(error, UnicodeDecodeError):
        problem = f"not valid UTF-8: {error.reason} at byte {error.start + 1}: save it as UTF-8"
    elif isinstance(error, json.JSONDecodeError):
        # Some of these messages already end in "at".
        problem = f"not valid JSON: {error.msg.removesuffix(' at')} at column {error.colno}"
        if error.pos >= len(error.doc):
            return TableError(f"{location}: {problem}, where it ends: it may have been cut off")
        for message, advice in _JSON_ADVICE.items():
            if error.msg.startswith(message):
                problem += f": {advice}"
    elif isinstance(error, RecursionError):
        problem = "its brackets are nested too deep to read"
    elif isinstance(error, RepeatedFieldError):
        problem = str(error)
    else:
        problem = f"not valid JSON: {error}"
    return TableError(f"{location}: {problem}")


# CSV and TSV, as spreadsheets write them.

_SEPARATORS = (",", ";", "\t")
_SAMPLE_SIZE = 2**16  # characters in which the separator is looked for
_CHUNK_SIZE = 2**20
# A character of UTF-8 that is not ASCII.
_LONG_CHARACTER = re.compile(
    rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}"
)


def _read_cells(path: Path, name: str) -> NumberedRows:
    """Yield the rows of a file with a header; all values are texts.

    The separator is the one that divides the header into the most columns: a comma, a semicolon or
    a tab. The text is UTF-8, UTF-16 with a byte order mark, or else cp1252, as spreadsheets save it.
    """
    if csv.field_size_limit() < MAX_ROW_BYTES:
        csv.field_size_limit(MAX_ROW_BYTES)  # the default is too small for a long completion
    encoding = _find_encoding(path, name)
    with (
        _open_file(path, name) as file,
        TextIOWrapper(file, encoding=encoding, newline="") as text,
    ):
        lines = _read_lines(text, name)
        first_lines, separator = _find_separator(lines)
        all_lines = chain(first_lines, lines)
        cell_reader = csv.reader(all_lines, delimiter=separator, strict=True)
        try:
            header = _read_header(
                next((cells for cells in cell_reader if cells), list[str]()), name
            )
            for cells in cell_reader:
                # A blank line, or a row of a spreadsheet without values.
                if not cells or (len(cells) > 1 and not any(cells)):
                    continue
                if len(cells) != len(header):
                    raise TableError(
                        f"{name}:{cell_reader.line_num}: this row has "
                        f"{format_count(len(cells), 'cell')}, and the header has {len(header)} "
                        f"({', '.join(header)}): put cells that contain a separator in quotes"
                    )
                yield cell_reader.line_num, dict(zip(header, cells, strict=True))
        except csv.Error as error:
            problem = str(error)
            if problem == "unexpected end of data":
                problem = 'a quotation mark is not closed: write a quotation mark in a cell as ""'
            raise TableError(f"{name}:{cell_reader.line_num}: {problem}") from None


def _find_encoding(path: Path, name: str) -> str:
    """Return the encoding of a text file.

    A file that is not UTF-8 is cp1252, unless most of it is UTF-8 or some byte is neither. Raises
    `TableError` for that, with the line.
    """
    decoder = codecs.getincrementaldecoder("utf-8")()
    is_utf8 = is_cp1252 = True
    long_count = 0  # characters of UTF-8 that are not ASCII, in bytes
    other_count = 0  # bytes that are not ASCII
    with _open_file(path, name) as file:
        is_first = True
        while chunk := file.read(_CHUNK_SIZE):
            if is_first and chunk.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
                return "utf-16"
            is_first = False
            if is_utf8:
                try:
                    decoder.decode(chunk)
                except UnicodeDecodeError:
                    is_utf8 = False
            if not chunk.isascii():
                long_count += sum(map(len, _LONG_CHARACTER.findall(chunk)))
                other_count += sum(byte > 0x7F for byte in chunk)
                is_cp1252 = is_cp1252 and not any(byte in chunk for byte in _NOT_CP1252)
    if is_utf8:
        try:
            decoder.decode(b"", final=True)  # the last character may be cut off
            return "utf-8-sig"
        except UnicodeDecodeError:
            pass
    if is_cp1252 and 2 * long_count <= other_count:
        return "cp1252"
    with _open_file(path, name) as file:
        deque(_decode_lines(file, name), maxlen=0)  # raises an error that names the line
    return "utf-8-sig"


_NOT_CP1252 = (0x81, 0x8D, 0x8F, 0x90, 0x9D)


def _find_separator(lines: Iterator[str]) -> tuple[list[str], str]:
    """Return the first lines of a table, and what separates its cells.

    A line such as `sep=;`, which spreadsheets put first, names the separator.
    """
    first_line = next(lines, "")
    match = re.fullmatch(r"sep=(.)\r?\n?", first_line)
    if match:
        return ["\n"], match[1]
    first_lines = [first_line]
    # The header may extend over several lines, if there is a line break in a name.
    while first_line.count('"') % 2 == 1 and len(first_line) < _SAMPLE_SIZE:
        following = next(lines, "")
        if not following:
            break
        first_lines.append(following)
        first_line += following
    counts: dict[str, int] = {}
    for separator in _SEPARATORS:
        try:
            header = next(csv.reader(first_lines, delimiter=separator), list[str]())
        except csv.Error:
            continue
        counts[separator] = len(header)
    return first_lines, max(counts, key=lambda separator: counts[separator], default=",")


def _read_header(cells: Sequence[str], name: str) -> list[str]:
    """Return the names of the columns; raise `TableError` if there are none or one is repeated."""
    header = [cell.strip() for cell in cells]
    if not any(header):
        raise TableError(f"{name}: there is no header: name the columns in the first line")
    if len(set(header)) < len(header):
        raise TableError(
            f"{name}:1: the header is {format_value(header)}: give every column a different name"
        )
    return header


# Excel.


_MAX_WORKBOOK_BYTES = 2**29  # of all files in a workbook, unpacked
# How a workbook of Excel 2003, or one with a password, starts.
_COMPOUND_FILE_MARK = b"\xd0\xcf\x11\xe0"


def _read_workbook(path: Path, name: str) -> NumberedRows:
    """Yield the rows of the first visible sheet of a workbook; all values are texts, as in a CSV.

    A formula has the value that it had when the workbook was last saved.
    """
    openpyxl = import_extra("openpyxl", "Reading .xlsx", extra="cli")
    unescape = import_extra("openpyxl.utils.escape", "Reading .xlsx", extra="cli").unescape
    _refuse_large_workbook(path, name)
    try:
        with path.open("rb") as file:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about styles and other parts that are not read
                workbook = openpyxl.load_workbook(file, read_only=True, data_only=True)
            visible = [sheet for sheet in workbook.worksheets if sheet.sheet_state == "visible"]
            if not visible:
                raise TableError(f"{name}: it has no visible sheet with cells")
            sheet = visible[0]
            sheet.reset_dimensions()  # some programs save wrong ones
            rows = enumerate(sheet.iter_rows(), start=1)
            filled_rows = (
                (number, [_write_cell(cell, unescape) for cell in cells]) for number, cells in rows
            )
            yield from _name_cells(filled_rows, name)
    except TableError:
        raise
    except Exception as error:  # noqa: BLE001 - openpyxl raises errors of all kinds
        problem = " ".join(str(error).split()) or type(error).__name__
        raise TableError(f"{name}: it cannot be read as a workbook: {problem}") from None


def _refuse_large_workbook(path: Path, name: str) -> None:
    """Raise `TableError` for what is not a ZIP file, or unpacks to more than a workbook should."""
    import zipfile  # few tables are workbooks

    try:
        with path.open("rb") as file:
            if file.read(len(_COMPOUND_FILE_MARK)) == _COMPOUND_FILE_MARK:
                raise TableError(
                    f"{name}: it has a password or the format of Excel 2003: save it as .xlsx "
                    "without a password"
                )
        with zipfile.ZipFile(path) as archive:
            size = sum(part.file_size for part in archive.infolist())
    except (OSError, zipfile.BadZipFile) as error:
        problem = getattr(error, "strerror", None) or error
        raise TableError(f"{name}: it cannot be read as a workbook: {problem}") from None
    if size > _MAX_WORKBOOK_BYTES:
        raise TableError(
            f"{name}: it unpacks to more than {_MAX_WORKBOOK_BYTES // 2**20} MiB: save the sheet "
            "as .csv"
        )


def _name_cells(numbered_cells: Iterable[tuple[int, list[str]]], name: str) -> NumberedRows:
    """Yield the rows below the header; rows without a value are left out."""
    numbered_cells = iter(numbered_cells)
    _, first_cells = next(numbered_cells, (1, list[str]()))
    while first_cells and not first_cells[-1].strip():
        first_cells.pop()
    header = _read_header(first_cells, name)
    for number, cells in numbered_cells:
        surplus = [cell for cell in cells[len(header) :] if cell]
        if surplus:
            raise TableError(
                f"{name}:{number}: the cell {format_value(surplus[0])} is in a column without "
                "a name: name it in the first row"
            )
        filled = [*cells, *[""] * (len(header) - len(cells))]
        if any(filled):
            yield number, dict(zip(header, filled[: len(header)], strict=True))


def _write_cell(cell: Any, unescape: Callable[[str], str]) -> str:
    """Return the value of a cell as text. An error, such as #N/A, is not a value.

    Whole numbers have no decimal places, and dates are written as `2026-01-31`. `unescape` reads
    the characters that XML cannot hold.
    """
    value = cell.value
    if value is None or cell.data_type == "e":
        return ""
    if isinstance(value, str):
        return unescape(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, datetime):
        if value.time() == time():
            return value.date().isoformat()
        return value.isoformat(sep=" ")
    if isinstance(value, timedelta):
        seconds = round(value.total_seconds())
        return f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return str(value)


# Parquet.

_import_pyarrow_parquet = partial(import_extra, "pyarrow.parquet", "Reading Parquet")


def open_parquet(path: str | Path) -> Any:
    """Return a Parquet file, open for reading."""
    return _import_pyarrow_parquet().ParquetFile(path)


def _read_parquet(path: Path, name: str) -> NumberedRows:
    """Return the rows of a Parquet file; raise at once if pyarrow is not installed."""
    _import_pyarrow_parquet()
    return _read_batches(path, name)


def _read_batches(path: Path, name: str) -> NumberedRows:
    """Yield the rows of a Parquet file, with one batch in memory at a time."""
    try:
        with open_parquet(path) as file:
            refuse_repeated_columns(file.schema_arrow.names, name)
            batches = (batch.to_pylist() for batch in file.iter_batches(batch_size=BATCH_SIZE))
            yield from enumerate(chain.from_iterable(batches))
    except (OSError, ValueError) as error:  # the errors of pyarrow are subclasses of these
        raise TableError(f"{name}: it cannot be read as Parquet: {error}") from error


_READERS: Mapping[str, Callable[[Path, str], NumberedRows]] = {
    ".jsonl": _read_json_lines,
    ".ndjson": _read_json_lines,
    ".json": _read_json,
    ".csv": _read_cells,
    ".tsv": _read_cells,
    ".xlsx": _read_workbook,
    ".parquet": _read_parquet,
}
