"""Shards are pieces of input files, each of which can be scored on any machine, and scored again.

JSON Lines are cut between lines, and Parquet between row groups. Neighbouring rollouts of one example
stay in one shard: a criterion may compare them, and the summary needs their variance.
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

    number: int  # its index among all shards, from 0
    path: str
    begin: int  # the byte of the file where it begins; for Parquet the row group
    end: int  # the first byte, or row group, after it
    line: int  # the line of the file on which it begins; 0 for Parquet
    first: int  # the number of its first row in the whole input
    rows: int  # how many rows it has

    def read(self, mapping: Mapping[str, str] | None = None) -> Iterator[dict[str, Any]]:
        """Yield the rows of the shard, with columns renamed and media recognised as in `rows_of`."""
        if self.path.endswith(JSON_LINES_ENDINGS):
            numbered_rows = read_objects(self._read_lines(), self.path, self.line)
            rows = (row for _, row in numbered_rows)
        else:
            rows = self._read_row_groups()
        if mapping:
            # This also recognises media.
            return rows_of(rows, mapping=mapping, where=f"{self.path}, shard {self.number}")
        return map(with_media_columns, rows)

    def _read_lines(self) -> Iterator[bytes]:
        """Yield the lines of a shard of JSON Lines."""
        with Path(self.path).open("rb") as file:
            file.seek(self.begin)
            position = self.begin
            while position < self.end and (line := file.readline()):
                position += len(line)
                yield line

    def _read_row_groups(self) -> Iterator[dict[str, Any]]:
        """Yield the rows of a shard of a Parquet file."""
        with open_parquet(self.path) as file:
            refuse_repeated_columns(file.schema_arrow.names, self.path)
            for batch in file.iter_batches(row_groups=list(range(self.begin, self.end))):
                yield from batch.to_pylist()


class _Piece(NamedTuple):
    """The position of a shard in its file; the fields are those of `Shard` with the same names."""

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
    """Cut files into shards of at least this many rows, except for the last one of each file.

    A shard is longer if it would end between rows of one example, or within a row group. `mapping`
    renames columns, as in `rows_of`: its keys are the new names.
    """
    if rows < 1:
        raise RunRefused(f"the number of rows in a shard is {rows}: give 1 or more")
    # The names that the columns with the id of an example have in the files.
    id_columns = [(mapping or {}).get(name, name) for name in ("example_id", "id")]
    shards: list[Shard] = []
    first = 0  # the number of the first row of the next shard
    for path in list_files(paths):
        if path.name.endswith(JSON_LINES_ENDINGS):
            pieces = _cut_lines(path, rows, id_columns)
        else:
            pieces = _cut_row_groups(path, rows, id_columns)
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
    """Return the files to cut into shards: a folder stands for the tables in it, sorted by name.

    Raise `RunRefused` for a path that does not exist, or that cannot be cut.
    """
    files: list[Path] = []
    for path in map(Path, paths):
        path = path.absolute()
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
    """Return the files in a folder that can be cut into shards, sorted by name."""
    return sorted(path for path in folder.iterdir() if path.name.endswith(ENDINGS))


def _cut_lines(path: Path, rows: int, id_columns: Sequence[str]) -> Iterator[_Piece]:
    """Yield the shards of a file of JSON Lines, each of at least this many rows, but for the last.

    Empty lines are not rows. A shard does not end between two rows of one example.
    """
    # The shard that is being read: its bytes so far, its first line from 1, and its rows so far.
    begin = end = 0
    first_line = next_line = 1
    row_count = 0
    last_row = b""
    with path.open("rb") as file:
        while True:
            # Read many lines at once while the shard needs more rows. Once it has enough, read one
            # line at a time, because it may end before each of them.
            rows_needed = rows - row_count
            lines = list(islice(file, max(1, min(_BLOCK_LINES, rows_needed))))
            if not lines:  # the end of the file
                break
            # The shard ends here if it has enough rows and the next row is of another example.
            if (
                rows_needed <= 0
                and not lines[0].isspace()
                and not _have_same_example(last_row, lines[0], id_columns)
            ):
                yield _Piece(begin, end, first_line, row_count)
                begin, first_line, row_count = end, next_line, 0
            next_line += len(lines)
            end += sum(map(len, lines))
            row_count += len(lines) - sum(map(bytes.isspace, lines))
            last_row = next((line for line in reversed(lines) if not line.isspace()), last_row)
    if row_count:
        yield _Piece(begin, end, first_line, row_count)


def _cut_row_groups(path: Path, rows: int, id_columns: Sequence[str]) -> Iterator[_Piece]:
    """Yield the shards of a Parquet file, each of at least this many rows.

    A shard does not end between two row groups that share an example.
    """
    begin = 0  # the row group with which the shard begins
    row_count = 0
    with open_parquet(path) as file:
        for group in range(file.num_row_groups):
            if row_count >= rows and not _continues_example(file, group, id_columns):
                yield _Piece(begin, group, line=0, rows=row_count)
                begin, row_count = group, 0
            row_count += file.metadata.row_group(group).num_rows
        if row_count:
            yield _Piece(begin, file.num_row_groups, line=0, rows=row_count)


def _continues_example(file: Any, group: int, id_columns: Sequence[str]) -> bool:
    """Return whether a row group begins with the example with which the group before it ends."""
    columns = [name for name in id_columns if name in file.schema_arrow.names]
    if not columns:
        return False
    rows_before = file.read_row_group(group - 1, columns=columns).to_pylist()
    rows = file.read_row_group(group, columns=columns).to_pylist()
    if not rows_before or not rows:
        return False
    return _have_same_example(rows_before[-1], rows[0], columns)


def _have_same_example(
    row: bytes | dict[str, Any], other: bytes | dict[str, Any], id_columns: Sequence[str]
) -> bool:
    """Return whether two rows name the same example. A row may be a line of JSON Lines.

    Rows without an id are examples of their own.
    """
    example = _find_example(row, id_columns)
    return example is not None and example == _find_example(other, id_columns)


def _find_example(row: bytes | dict[str, Any], id_columns: Sequence[str]) -> Any:
    """Return the id of the example that a row names; None if it names none.

    The row is a dict, or a line of JSON Lines. The id is in the first of `id_columns` that it has.
    """
    data: object = row
    if isinstance(row, bytes):
        try:
            data = json.loads(row)
        except (ValueError, RecursionError):
            return None  # the worker that reads the shard reports what is wrong with the line
    if not isinstance(data, dict):
        return None
    fields = cast("dict[str, Any]", data)
    for name in id_columns:
        if fields.get(name) is not None:
            return fields[name]
    return None


class ShardNumbering(Numbering):
    """Gives each row of a shard its key: the example, and which sample of the example it is.

    It knows only this shard, so it numbers the samples of every example from 0. If an example is in
    several shards, its samples get new numbers when the shards are merged.
    """

    def __init__(self, shard: Shard) -> None:
        super().__init__(shard.first)

    @property
    def has_ids(self) -> bool:
        """Whether the rows name their example. All rows read so far agree in this."""
        return self._first_has is not None and self._first_has[0]

    @property
    def has_samples(self) -> bool:
        """Whether the rows name their sample. All rows read so far agree in this."""
        return self._first_has is not None and self._first_has[1]
