"""Read whatever holds rows (files, standard input, lists, data sets, frames) as one dict after another.

Rows stream, and an error names its file and line. What is not installed is not imported: a data set is known by
how it behaves.
"""

import codecs
import csv
import gzip
import json
import os
import re
import sys
import zlib
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from io import TextIOWrapper
from itertools import chain
from pathlib import Path
from typing import IO, Any, AnyStr, cast

from assay.errors import AssayError, import_extra
from assay.messages import MEDIA_COLUMNS
from assay.wording import format_value


class TableError(AssayError, ValueError):
    """Rows cannot be read as they stand; the message names file and line, what is there, what to do."""


Numbered = Iterator[tuple[int, dict[str, Any]]]


def rows_of(
    source: object,
    *,
    mapping: Mapping[str, str] | None = None,
    fields: Sequence[str] = (),
    where: str | None = None,
    media: bool = True,
) -> Iterator[dict[str, Any]]:
    """The rows of a file, a list, a Hugging Face data set or a pandas frame, one dict after another.

    A path says by its ending what it is: `.jsonl`, `.ndjson`, `.json`, `.csv`, `.tsv` (these also
    with `.gz` after it) or `.parquet`; `-` is standard input. `mapping={"completion": "output"}`
    calls the foreign column `output` completion. Every row has these `fields`, or a `TableError`
    says where one is missing; `where` is what the source is called in such messages. The columns `image`, `audio` and `pdf`,
    and their plurals, become parts of the prompt, unless `media` is false.

    >>> list(rows_of([{"output": "4", "answer": "4"}], mapping={"completion": "output"}))
    [{'completion': '4', 'answer': '4'}]
    """
    kind, is_path = type(source), isinstance(source, str | os.PathLike)
    name = "the rows" if kind.__module__ == "builtins" else f"the {kind.__name__}"
    if is_path:
        name = "standard input" if str(source) == "-" else str(source)
    name = where or name
    numbered = _numbered(source, name)
    by_line = is_path and not str(source).endswith((".json", ".parquet"))

    def place(number: int) -> str:
        return f"{name}:{number}" if by_line else f"row {number} of {name}"

    rows = _renamed(numbered, mapping or {}, fields, place)
    return map(with_media_columns, rows) if media else rows


def with_media_columns(row: dict[str, Any]) -> dict[str, Any]:
    """A row with its columns of media in its prompt; as nearly all have none, itself."""
    if MEDIA_COLUMNS.keys().isdisjoint(row):
        return row
    from assay.media import add_media_columns  # which is much to load for tables without any

    return add_media_columns(row)


def _numbered(source: object, name: str) -> Numbered:
    if isinstance(source, str | os.PathLike):
        path = Path(cast("str", source))
        if str(path) != "-":
            return _file(path, name)
        if sys.stdin is None:  # pyright: ignore[reportUnnecessaryComparison]
            raise TableError(f"{name} is closed: open it, or name a file")
        return _either(sys.stdin.buffer, name)
    if all(hasattr(source, attribute) for attribute in ("columns", "iloc", "to_dict", "notna")):
        return _frame_rows(source)  # of pandas, or of what behaves as it does
    if isinstance(source, Mapping):
        return _listed_columns(cast("Mapping[Any, Any]", source), name)
    if isinstance(source, Iterable) and not isinstance(source, bytes):
        return _mappings(cast("Iterable[object]", source), name)
    raise TableError(
        f"{format_value(source)} holds no rows: give a path, a list of mappings, a data set or a frame"
    )


def _file(path: Path, name: str) -> Numbered:
    endings = [ending.lower() for ending in path.suffixes if ending.lower() != ".gz"]
    reader = _READERS.get(endings[-1]) if endings else None
    if reader is None:
        what = f"{endings[-1]!r} is no kind of table" if endings else "its name has no ending"
        raise TableError(f"{name}: {what} that can be read: use {', '.join(_READERS)}")
    if not path.exists():
        raise TableError(f"File not found: {path}")
    return reader(path, name)


def _mappings(source: Iterable[object], name: str) -> Numbered:
    for number, row in enumerate(source, start=1):
        if not isinstance(row, Mapping):
            raise TableError(
                f"row {number} of {name} is {format_value(row)}: give a mapping, name to value"
            )
        yield number, dict(cast("Mapping[str, Any]", row))


def _renamed(
    numbered: Numbered,
    mapping: Mapping[str, str],
    fields: Sequence[str],
    place: Callable[[int], str],
) -> Iterator[dict[str, Any]]:
    foreign = frozenset(mapping.values())
    for number, row in numbered:
        lacking = [theirs for theirs in mapping.values() if theirs not in row]
        if mapping and not lacking:
            named = {ours: row[theirs] for ours, theirs in mapping.items()}
            row = named | {k: v for k, v in row.items() if k not in foreign and k not in named}
        lacking += [field for field in fields if field not in row]
        if lacking:
            there = ", ".join(map(str, row)) or "none"
            raise TableError(f"{place(number)}: there is no field {lacking[0]!r} (there: {there})")
        yield row


_BOM = b"\xef\xbb\xbf"
# How many bytes one row may take, and how many a file that is a single list. A small `.gz` file can
# unpack to more than any memory holds.
MAX_ROW_BYTES = 128 * 2**20
MAX_LIST_BYTES = 2**30
_ITEM = re.compile(r"[\s,]*(?=[^\s,\]])")  # what stands before the next item of a list


@contextmanager
def _opened(path: Path, name: str) -> Generator[IO[bytes]]:
    """The file's bytes, unpacked when it is a `.gz`; what the disk says against it as a sentence."""
    try:
        with gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb") as file:
            yield cast("IO[bytes]", file)
    except (OSError, EOFError, zlib.error) as error:
        what = getattr(error, "strerror", None) or error
        raise TableError(f"{name}: it cannot be read: {what}") from error


def _json_file(path: Path, name: str, *, may_be_list: bool = True) -> Numbered:
    """One object a line, blank lines passed over; or a list of them."""
    with _opened(path, name) as file:
        if may_be_list:
            yield from _either(file, name)
        else:
            yield from objects_in(_read_lines(file, name), name)


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


class RepeatedFieldError(ValueError):
    """A JSON object names a field twice."""


def refuse_repeated_fields(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object as a dict; raise `RepeatedFieldError` if it names a field twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = Counter(name for name, _ in pairs)
        twice = next(name for name, count in names.items() if count > 1)
        raise RepeatedFieldError(
            f"the field {format_value(twice)} is there {names[twice]} times: name it once"
        )
    return found


# json.loads looks at every text's type and encoding; the decoder alone takes half the time.
_decoder = json.JSONDecoder(object_pairs_hook=refuse_repeated_fields)
# A text of JSON as a value. Raises ValueError for what is no JSON, of which `RepeatedFieldError` is one.
decoded = _decoder.decode


def objects_in(lines: Iterable[bytes], name: str, start: int = 1) -> Numbered:
    """The object on each line; blank lines are passed over. `start` is the number of the first."""
    for number, line in _decoded_lines(lines, name, start):
        try:
            row: object = decoded(line)
        except (ValueError, RecursionError) as error:
            if not line.strip():
                continue
            raise _no_json(f"{name}:{number}", error) from None
        if type(row) is not dict:
            raise TableError(
                f'{name}:{number}: {format_value(row)} is no object: write one a line, {{"field": ...}}'
            )
        yield number, cast("dict[str, Any]", row)


def _decoded_lines(lines: Iterable[bytes], name: str, start: int = 1) -> Iterator[tuple[int, str]]:
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
            raise _no_json(f"{name}:{number}", error) from None
        yield number, text


def _no_json(where: str, error: Exception) -> TableError:
    said = f"no JSON: {error}"
    if isinstance(error, UnicodeDecodeError):
        said = f"no UTF-8: {error.reason} at byte {error.start + 1}: save it as UTF-8"
    elif isinstance(error, json.JSONDecodeError):
        # Some of these messages end in "at" already.
        said = f"no JSON: {error.msg.removesuffix(' at')} at column {error.colno}"
    elif isinstance(error, RecursionError):
        said = "its brackets are nested too deep to read"
    elif isinstance(error, RepeatedFieldError):
        said = str(error)
    return TableError(f"{where}: {said}")


def _either(file: IO[bytes], name: str) -> Numbered:
    """A list when the first thing in the file is a bracket, else lines."""
    lines = _read_lines(file, name)
    for number, line in enumerate(lines, start=1):
        first = line.removeprefix(_BOM).strip()
        if first.startswith(b"["):
            rest = file.read(MAX_LIST_BYTES + 1)
            if len(line) + len(rest) > MAX_LIST_BYTES:
                raise TableError(
                    f"{name}: this list is larger than {MAX_LIST_BYTES // 2**20} MiB, the most "
                    "that is read at once: write one object per line, as a .jsonl file"
                )
            # As many lines before it as there were, so that an error finds its line.
            yield from _listed(b"\n" * (number - 1) + line.removeprefix(_BOM) + rest, name)
        elif first:
            yield from objects_in(chain([line], lines), name, start=number)


def _listed(data: bytes, name: str) -> Numbered:
    try:
        found: object = decoded(data.decode())
    except (ValueError, RecursionError) as error:
        line = getattr(error, "lineno", None) or _line_of_first_wrong(data)
        raise _no_json(name if line is None else f"{name}:{line}", error) from None
    for number, row in enumerate(cast("list[object]", found), start=1):
        if type(row) is not dict:
            raise TableError(
                f"{name}: item {number} of the list is {format_value(row)}, and no object"
            )
        yield number, cast("dict[str, Any]", row)


def _line_of_first_wrong(data: bytes) -> int | None:
    """The line on which the first item of a list begins that cannot be read; None when that is unclear."""
    text = data.decode(errors="replace")
    place = text.index("[") + 1
    while found := _ITEM.match(text, place):
        try:
            _, place = _decoder.raw_decode(text, found.end())
        except (ValueError, RecursionError):
            return text.count("\n", 0, found.end()) + 1
    return None


def _separated(path: Path, name: str, *, delimiter: str = ",") -> Numbered:
    """Rows of cells under a header; every value is a text."""
    if csv.field_size_limit() < MAX_ROW_BYTES:
        csv.field_size_limit(MAX_ROW_BYTES)  # by default a long completion is too large
    with _opened(path, name) as file, TextIOWrapper(file, encoding="utf-8-sig", newline="") as text:
        lines = csv.reader(_read_lines(text, name), delimiter=delimiter, strict=True)
        try:
            header = [cell.strip() for cell in next(lines, list[str]())]
            if not any(header):
                raise TableError(f"{name}: there is no header: name the columns in the first line")
            if len(set(header)) < len(header):
                raise TableError(
                    f"{name}:1: the header is {format_value(header)}: give every column a name of its own"
                )
            for cells in lines:
                if len(cells) == len(header):
                    yield lines.line_num, dict(zip(header, cells, strict=True))
                elif cells:
                    said = f"it has {len(cells)} cells, and the header names {len(header)} ({', '.join(header)})"
                    raise TableError(
                        f"{name}:{lines.line_num}: {said}: put cells with a separator in quotes"
                    )
        except csv.Error as error:
            raise TableError(f"{name}:{lines.line_num}: {error}") from None
        except UnicodeDecodeError:
            # Where that is shows when the file is read again, for decoding runs ahead of the rows.
            with _opened(path, name) as again:
                deque(_decoded_lines(again, name), maxlen=0)
            raise


AT_ONCE = 1024  # how many rows are taken out of their columns at a time
_parquet_package = partial(import_extra, "pyarrow.parquet", "Reading Parquet", extra="tables")


def parquet_file(path: str | Path) -> Any:
    """A Parquet file, open for reading."""
    return _parquet_package().ParquetFile(path)


def _parquet_rows_of(path: Path, name: str) -> Numbered:
    """The rows of a Parquet file, a batch in memory at a time."""
    _parquet_package()  # what is not installed is said now, and not when the first row is wanted
    return _parquet_rows(path, name)


def _parquet_rows(path: Path, name: str) -> Numbered:
    try:
        with parquet_file(path) as file:
            refuse_repeated(file.schema_arrow.names, name)
            batches = (batch.to_pylist() for batch in file.iter_batches(batch_size=AT_ONCE))
            yield from enumerate(chain.from_iterable(batches), start=1)
    except (OSError, ValueError) as error:  # what pyarrow raises are kinds of these
        raise TableError(f"{name}: it cannot be read as Parquet: {error}") from error


def refuse_repeated(columns: Iterable[str], name: str) -> None:
    """Raise when two columns have one name, since a row would hold only the last of them."""
    twice = [column for column, count in Counter(columns).items() if count > 1]
    if twice:
        raise TableError(f"{name}: two columns are called {twice[0]!r}: rename one of them")


def _frame_rows(frame: Any) -> Numbered:
    """The rows of a pandas frame; what is missing there (NaN, NaT, NA) is None."""
    for name in frame.columns:
        if not isinstance(name, str):
            raise TableError(f"a column of the frame is called {name!r}: give it a text for a name")
    refuse_repeated(frame.columns, "the frame")
    for start in range(0, len(frame), AT_ONCE):
        part = frame.iloc[start : start + AT_ONCE]
        whole = part.astype(object).where(part.notna(), None)
        yield from enumerate(whole.to_dict("records"), start=start + 1)


def _listed_columns(columns: Mapping[Any, Any], name: str) -> Numbered:
    for column, values in columns.items():
        if not isinstance(values, list | tuple):
            said = f"{name} is a mapping, and {column!r} in it is no list but a {type(values).__name__}"
            raise TableError(
                f"{said}: give a list of rows, a mapping of lists, or one split of a data set"
            )
    if len(set(map(len, columns.values()))) > 1:
        found = ", ".join(f"{column} {len(values)}" for column, values in columns.items())
        raise TableError(f"the columns of {name} are of different lengths: {found}")
    rows = zip(*columns.values(), strict=True)
    return enumerate((dict(zip(columns, row, strict=True)) for row in rows), start=1)


_READERS: Mapping[str, Callable[[Path, str], Numbered]] = {
    **dict.fromkeys((".jsonl", ".ndjson"), partial(_json_file, may_be_list=False)),
    ".json": _json_file,
    ".csv": _separated,
    ".tsv": partial(_separated, delimiter="\t"),
    ".parquet": _parquet_rows_of,
}
