"""Shards are pieces of input files, each of which can be scored anywhere, and again.

JSON Lines are cut between lines, and Parquet between row groups. Neighbouring rollouts of one example
stay in one shard: they may be compared with each other, and they share one variance.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

from assay.runs.pipeline import Numbering
from assay.runs.run_errors import RunRefused
from assay.tables import (
    open_parquet,
    read_objects,
    refuse_repeated_columns,
    rows_of,
    with_media_columns,
)

DEFAULT_SHARD_ROWS: Final = 10_000
JSON_LINES_ENDINGS: Final = (".jsonl", ".ndjson")
ENDINGS: Final = (*JSON_LINES_ENDINGS, ".parquet")
_BLOCK_LINES: Final = 1000  # lines that are read together


@dataclass(frozen=True)
class Shard:
    """A piece of one file."""

    number: int  # its place among all shards
    path: str
    begin: int  # the byte where it begins, or for Parquet the row group
    end: int  # the first byte or row group behind it
    line: int  # the line of the file on which it begins; 0 for Parquet
    first: int  # the number of its first row in the whole input
    rows: int

    def read(self, mapping: Mapping[str, str] | None = None) -> Iterator[dict[str, Any]]:
        """Yield the rows of the shard, with columns renamed and media recognised as in `rows_of`."""
        if self.path.endswith(JSON_LINES_ENDINGS):
            rows = (row for _, row in read_objects(self._read_lines(), self.path, self.line))
        else:
            rows = self._read_row_groups()
        if mapping:
            return rows_of(rows, mapping=mapping, where=f"{self.path}, shard {self.number}")
        return map(with_media_columns, rows)

    def _read_lines(self) -> Iterator[bytes]:
        with Path(self.path).open("rb") as file:
            file.seek(self.begin)
            position = self.begin
            while position < self.end and (line := file.readline()):
                position += len(line)
                yield line

    def _read_row_groups(self) -> Iterator[dict[str, Any]]:
        with open_parquet(self.path) as file:
            refuse_repeated_columns(file.schema_arrow.names, self.path)
            for batch in file.iter_batches(row_groups=list(range(self.begin, self.end))):
                yield from batch.to_pylist()


class _Piece(NamedTuple):
    """Where a shard lies in its file; the fields are those of `Shard`."""

    begin: int
    end: int
    line: int
    rows: int


def shards_of(
    paths: Sequence[str | Path],
    *,
    rows: int = DEFAULT_SHARD_ROWS,
    mapping: Mapping[str, str] | None = None,
) -> list[Shard]:
    """Cut files into shards of this many rows or a few more; `mapping` is that of `rows_of`."""
    if rows < 1:
        raise RunRefused(f"the number of rows in a shard is {rows}: give 1 or more")
    id_columns = [(mapping or {}).get(name, name) for name in ("example_id", "id")]
    shards: list[Shard] = []
    first = 0
    for path in list_files(paths):
        is_lines = path.name.endswith(JSON_LINES_ENDINGS)
        pieces = (_cut_lines if is_lines else _cut_row_groups)(path, rows, id_columns)
        for piece in pieces:
            shards.append(
                Shard(
                    number=len(shards),
                    path=str(path),
                    begin=piece.begin,
                    end=piece.end,
                    line=piece.line,
                    first=first,
                    rows=piece.rows,
                )
            )
            first += piece.rows
    return shards


def list_files(paths: Sequence[str | Path]) -> list[Path]:
    """Return the files at these paths, and those in folders, in the order of their names."""
    files: list[Path] = []
    for path in [Path(path).absolute() for path in paths]:
        if not path.is_dir():
            files.append(path)
            continue
        files_in_folder = list_tables(path)
        if not files_in_folder:
            raise RunRefused(f"{path} holds no {', '.join(ENDINGS)} file: name another folder")
        files += files_in_folder
    for path in files:
        if not path.is_file():
            raise RunRefused(f"there is no file {path}: name JSON Lines or Parquet files")
        if not path.name.endswith(ENDINGS):
            raise RunRefused(
                f"{path} is neither JSON Lines (.jsonl) nor Parquet, and other files cannot be cut "
                "into shards: convert it"
            )
    return files


def list_tables(folder: Path) -> list[Path]:
    """Return the files in a folder that can be cut, in the order of their names."""
    return sorted(path for path in folder.iterdir() if path.name.endswith(ENDINGS))


def _cut_lines(path: Path, rows: int, id_columns: Sequence[str]) -> Iterator[_Piece]:
    begin = end = 0
    row_count = 0
    first_line = line = 1
    last_row = b""
    with path.open("rb") as file:
        # Many lines at a time while the shard needs more, then one at a time until it may end.
        while block := list(islice(file, max(1, min(_BLOCK_LINES, rows - row_count)))):
            if (
                row_count >= rows
                and not block[0].isspace()
                and not _have_same_example(last_row, block[0], id_columns)
            ):
                yield _Piece(begin, end, first_line, row_count)
                begin, first_line, row_count = end, line, 0
            line += len(block)
            end += sum(map(len, block))
            row_count += len(block) - sum(map(bytes.isspace, block))
            last_row = next((text for text in reversed(block) if not text.isspace()), last_row)
    if row_count:
        yield _Piece(begin, end, first_line, row_count)


def _cut_row_groups(path: Path, rows: int, id_columns: Sequence[str]) -> Iterator[_Piece]:
    begin = row_count = 0
    with open_parquet(path) as file:
        for group in range(file.num_row_groups):
            if row_count >= rows and not _continues_example(file, group, id_columns):
                yield _Piece(begin, group, 0, row_count)
                begin, row_count = group, 0
            row_count += file.metadata.row_group(group).num_rows
        if row_count:
            yield _Piece(begin, file.num_row_groups, 0, row_count)


def _continues_example(file: Any, group: int, id_columns: Sequence[str]) -> bool:
    """Return whether a row group begins with the example that the one before ends with."""
    columns = [name for name in id_columns if name in file.schema_arrow.names]
    if not columns:
        return False
    before = file.read_row_group(group - 1, columns=columns).to_pylist()
    after = file.read_row_group(group, columns=columns).to_pylist()
    return bool(before and after) and _have_same_example(before[-1], after[0], columns)


def _have_same_example(
    row: bytes | dict[str, Any], other: bytes | dict[str, Any], id_columns: Sequence[str]
) -> bool:
    """Return whether two rows, or lines with rows, name the same example."""
    example = _find_example(row, id_columns)
    return example is not None and example == _find_example(other, id_columns)


def _find_example(row: bytes | dict[str, Any], id_columns: Sequence[str]) -> Any:
    """Return the id of the example of a row; None if it has none."""
    data: object = row
    if isinstance(row, bytes):
        try:
            data = json.loads(row)
        except (ValueError, RecursionError):
            return None  # the worker that reads the shard reports what is wrong with the line
    if not isinstance(data, dict):
        return None
    fields = cast("dict[str, Any]", data)
    return next((fields[name] for name in id_columns if fields.get(name) is not None), None)


class ShardNumbering(Numbering):
    """Gives the rows of a shard their keys.

    The samples of an example that is in an earlier shard too are counted from 0 again; they get
    other numbers when the shards are merged.
    """

    def __init__(self, shard: Shard) -> None:
        super().__init__(shard.first)

    @property
    def alike(self) -> tuple[bool, bool]:
        """Whether rows have an id, and a sample, of their own."""
        return self._alike or (False, False)
