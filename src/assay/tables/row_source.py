"""rows_of reads whatever holds rows as an iterator of dicts that streams."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

from assay.tables.table_readers import (
    TableError,
    frame_rows,
    is_frame,
    json_lines,
    json_rows,
    listed_columns,
    parquet_rows,
    separated,
    standard_input,
)
from assay.wording import short_repr

_READERS: Mapping[str, Callable[[Path, str], Iterator[tuple[int, dict[str, Any]]]]] = {
    ".jsonl": json_lines,
    ".ndjson": json_lines,
    ".json": json_rows,
    ".csv": separated,
    ".tsv": partial(separated, delimiter="\t"),
    ".parquet": parquet_rows,
}


def rows_of(
    source: object, *, mapping: Mapping[str, str] | None = None, fields: Sequence[str] = (), where: str | None = None
) -> Iterator[dict[str, Any]]:
    """The rows of a file, a list, a Hugging Face data set or a pandas frame, one dict after another.

    A path says by its ending what it is: `.jsonl`, `.ndjson`, `.json`, `.csv`, `.tsv` (these also
    with `.gz` after it) or `.parquet`; `-` is standard input. `mapping={"completion": "output"}`
    calls the foreign column `output` completion. Every row has these `fields`, or a `TableError`
    says where one is missing; `where` is what the source is called in such messages.

    >>> list(rows_of([{"output": "4", "answer": "4"}], mapping={"completion": "output"}))
    [{'completion': '4', 'answer': '4'}]
    """
    name = where or _name(source)
    numbered = _numbered(source, name)
    if not mapping and not fields:
        return (row for _, row in numbered)
    return _renamed(numbered, mapping or {}, fields, partial(_place, source, name))


def _place(source: object, name: str, number: int) -> str:
    """What a row is called in a message: a line of a file, or a row of something else."""
    by_line = _is_path(source) and not str(source).endswith((".json", ".parquet"))
    return f"{name}:{number}" if by_line else f"row {number} of {name}"


def _is_path(source: object) -> bool:
    return isinstance(source, str | os.PathLike)


def _name(source: object) -> str:
    if _is_path(source):
        return "standard input" if str(source) == "-" else str(source)
    kind = type(source)
    return "the rows" if kind.__module__ == "builtins" else f"the {kind.__name__}"


def _numbered(source: object, name: str) -> Iterator[tuple[int, dict[str, Any]]]:
    if _is_path(source):
        if str(source) == "-":
            return standard_input(name)
        return _file(Path(cast("str", source)), name)
    if is_frame(source):
        return frame_rows(source)
    if isinstance(source, Mapping):
        return listed_columns(cast("Mapping[Any, Any]", source), name)
    if isinstance(source, Iterable) and not isinstance(source, bytes):
        return _mappings(cast("Iterable[object]", source), name)
    raise TableError(f"{short_repr(source)} holds no rows: give a path, a list of mappings, a data set or a frame")


def _file(path: Path, name: str) -> Iterator[tuple[int, dict[str, Any]]]:
    endings = [ending.lower() for ending in path.suffixes if ending.lower() != ".gz"]
    reader = _READERS.get(endings[-1]) if endings else None
    if reader is None:
        what = f"{endings[-1]!r} is no kind of table" if endings else "its name has no ending"
        raise TableError(f"{name}: {what} that can be read: use {', '.join(_READERS)}")
    if not path.exists():
        raise TableError(f"File not found: {path}")
    return reader(path, name)


def _mappings(source: Iterable[object], name: str) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, row in enumerate(source, start=1):
        if not isinstance(row, Mapping):
            raise TableError(f"row {number} of {name} is {short_repr(row)}: give a mapping, name to value")
        yield number, dict(cast("Mapping[str, Any]", row))


def _renamed(
    numbered: Iterator[tuple[int, dict[str, Any]]],
    mapping: Mapping[str, str],
    fields: Sequence[str],
    place: Callable[[int], str],
) -> Iterator[dict[str, Any]]:
    foreign = frozenset(mapping.values())
    for number, row in numbered:
        try:
            named = {ours: row[theirs] for ours, theirs in mapping.items()}
        except KeyError as error:
            raise _lacking(place(number), error.args[0], row) from None
        if mapping:
            row = named | {k: v for k, v in row.items() if k not in foreign and k not in named}
        for field in fields:
            if field not in row:
                raise _lacking(place(number), field, row)
        yield row


def _lacking(where: str, field: str, row: Mapping[str, Any]) -> TableError:
    there = ", ".join(map(str, row)) or "none"
    return TableError(f"{where}: there is no field {field!r} (there: {there})")
