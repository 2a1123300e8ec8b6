"""What is kept by column: Parquet files, pandas frames, mappings of lists; as numbered rows."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from assay.errors import MissingExtraError
from assay.tables.error import TableError

Numbered = Iterator[tuple[int, dict[str, Any]]]

AT_ONCE = 1024
"""How many rows are taken out of their columns at a time."""


def parquet_file(path: str | Path) -> Any:
    """A Parquet file, open for reading."""
    return _parquet_package().ParquetFile(path)


def _parquet_package() -> Any:
    try:
        return import_module("pyarrow.parquet")
    except ImportError:
        raise MissingExtraError("Reading Parquet", package="pyarrow", extra="tables") from None


def parquet_rows(path: Path, name: str) -> Numbered:
    """The rows of a Parquet file, a batch in memory at a time."""
    _parquet_package()  # what is not installed is said now, and not when the first row is wanted
    return _parquet_rows(path, name)


def _parquet_rows(path: Path, name: str) -> Numbered:
    number = 0
    try:
        with parquet_file(path) as file:
            refuse_repeated(file.schema_arrow.names, name)
            for batch in file.iter_batches(batch_size=AT_ONCE):
                for row in batch.to_pylist():
                    number += 1
                    yield number, row
    except (OSError, ValueError) as error:  # what pyarrow raises are kinds of these
        raise TableError(f"{name}: it cannot be read as Parquet: {error}") from error


def refuse_repeated(columns: Iterable[str], name: str) -> None:
    """Raise when two columns have one name, since a row would hold only the last of them."""
    twice = [column for column, count in Counter(columns).items() if count > 1]
    if twice:
        raise TableError(f"{name}: two columns are called {twice[0]!r}: rename one of them")


def is_frame(source: object) -> bool:
    """Whether it is a pandas frame, or behaves as one."""
    return all(hasattr(source, name) for name in ("columns", "iloc", "to_dict", "notna"))


def frame_rows(frame: Any) -> Numbered:
    """The rows of a pandas frame; what is missing there (NaN, NaT, NA) is None."""
    for name in frame.columns:
        if not isinstance(name, str):
            raise TableError(f"a column of the frame is called {name!r}: give it a text for a name")
    refuse_repeated(frame.columns, "the frame")
    for start in range(0, len(frame), AT_ONCE):
        part = frame.iloc[start : start + AT_ONCE]
        whole = part.astype(object).where(part.notna(), None)
        yield from enumerate(whole.to_dict("records"), start=start + 1)


def listed_columns(columns: Mapping[Any, Any], name: str) -> Numbered:
    """The rows of a mapping of equally long lists."""
    lengths = {
        column: len(cast("list[Any]", values)) if isinstance(values, list | tuple) else None
        for column, values in columns.items()
    }
    if None in lengths.values():
        column = next(column for column, length in lengths.items() if length is None)
        raise TableError(
            f"{name} is a mapping, and {column!r} in it is no list but a {type(columns[column]).__name__}: "
            "give a list of rows, a mapping of lists, or one split of a data set"
        )
    if len(set(lengths.values())) > 1:
        found = ", ".join(f"{column} {length}" for column, length in lengths.items())
        raise TableError(f"the columns of {name} are of different lengths: {found}")
    rows = zip(*columns.values(), strict=True)
    return enumerate((dict(zip(columns, row, strict=True)) for row in rows), start=1)
