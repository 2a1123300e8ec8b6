"""rows_of reads whatever holds rows as an iterator of dicts that streams."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

from assay.tables.table_readers import (
    Numbered,
    TableError,
    frame_rows,
    is_frame,
    json_file,
    listed_columns,
    parquet_rows,
    separated,
    standard_input,
)
from assay.wording import short_repr

_READERS: Mapping[str, Callable[[Path, str], Numbered]] = {
    ".jsonl": partial(json_file, may_be_list=False),
    ".ndjson": partial(json_file, may_be_list=False),
    ".json": json_file,
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
    by_line = _is_path(source) and not str(source).endswith((".json", ".parquet"))

    def place(number: int) -> str:
        return f"{name}:{number}" if by_line else f"row {number} of {name}"

    return _renamed(numbered, mapping or {}, fields, place)


def _is_path(source: object) -> bool:
    return isinstance(source, str | os.PathLike)


def _name(source: object) -> str:
    if _is_path(source):
        return "standard input" if str(source) == "-" else str(source)
    kind = type(source)
    return "the rows" if kind.__module__ == "builtins" else f"the {kind.__name__}"


def _numbered(source: object, name: str) -> Numbered:
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
            raise TableError(f"row {number} of {name} is {short_repr(row)}: give a mapping, name to value")
        yield number, dict(cast("Mapping[str, Any]", row))


def _renamed(
    numbered: Numbered, mapping: Mapping[str, str], fields: Sequence[str], place: Callable[[int], str]
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
