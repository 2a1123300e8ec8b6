"""Shards are pieces of input files that never change, so that each can be scored anywhere, and again.

JSON Lines are cut between lines, Parquet between row groups, and neither between two rollouts of one example that
stand next to each other: they may have to be compared, and their mean has one variance.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, cast

from assay.runs.pipeline import Numbering
from assay.runs.run_store import RunRefused
from assay.tables import (
    open_parquet,
    read_objects,
    refuse_repeated_columns,
    rows_of,
    with_media_columns,
)

ROWS = 10_000  # rows of a shard, unless said otherwise
LINES = (".jsonl", ".ndjson")
ENDINGS = (*LINES, ".parquet")
_BLOCK = 1000  # lines that are looked at together


@dataclass(frozen=True)
class Shard:
    """A piece of one file."""

    number: int  # its place among all shards
    path: str
    begin: int  # the byte where it begins, or for Parquet the row group
    end: int  # the byte or row group after its last
    line: int  # the line of the file on which it begins; 0 for Parquet
    first: int  # the number that its first row has in the whole input
    rows: int

    def read(self, mapping: Mapping[str, str] | None = None) -> Iterator[dict[str, Any]]:
        """Its rows, with columns renamed as in `rows_of`."""
        if self.path.endswith(LINES):
            raw = (row for _, row in read_objects(self._lines(), self.path, self.line))
        else:
            raw = self._groups()
        where = f"{self.path}, shard {self.number}"
        return (
            rows_of(raw, mapping=mapping, where=where) if mapping else map(with_media_columns, raw)
        )

    def _lines(self) -> Iterator[bytes]:
        with Path(self.path).open("rb") as file:
            file.seek(self.begin)
            position = self.begin
            while position < self.end and (line := file.readline()):
                position += len(line)
                yield line

    def _groups(self) -> Iterator[dict[str, Any]]:
        with open_parquet(self.path) as file:
            refuse_repeated_columns(file.schema_arrow.names, self.path)
            for batch in file.iter_batches(row_groups=list(range(self.begin, self.end))):
                yield from batch.to_pylist()


def shards_of(
    paths: Sequence[str | Path], *, rows: int = ROWS, mapping: Mapping[str, str] | None = None
) -> list[Shard]:
    """All files in order, cut into shards of so many rows or a few more; `mapping` is that of `rows_of`."""
    if rows < 1:
        raise RunRefused(f"a shard of {rows} rows holds nothing: give 1 or more")
    names = [(mapping or {}).get(name, name) for name in ("example_id", "id")]
    shards: list[Shard] = []
    first = 0
    for path in files_of(paths):
        cut = _cut_lines if path.name.endswith(LINES) else _cut_groups
        for begin, end, line, count in cut(path, rows, names):
            shards.append(Shard(len(shards), str(path), begin, end, line, first, count))
            first += count
    return shards


def files_of(paths: Sequence[str | Path]) -> list[Path]:
    """The files that are named, and those in folders that are named, in the order of their names."""
    files: list[Path] = []
    for path in (Path(path).absolute() for path in paths):
        found = tables_in(path) if path.is_dir() else [path]
        if not found:
            raise RunRefused(f"{path} holds no {', '.join(ENDINGS)} file: name another folder")
        files += found
    for path in files:
        if not path.is_file():
            raise RunRefused(f"there is no file {path}: name JSON Lines or Parquet files")
        if not path.name.endswith(ENDINGS):
            told = f"{path} is neither JSON Lines (.jsonl) nor Parquet, and nothing else can be cut into shards"
            raise RunRefused(f"{told}: convert it")
    return files


def tables_in(folder: Path) -> list[Path]:
    """The files in a folder that can be cut, in the order of their names."""
    return sorted(path for path in folder.iterdir() if path.name.endswith(ENDINGS))


_Piece = tuple[
    int, int, int, int
]  # where a shard begins and ends, its line, and how many rows it has


def _cut_lines(path: Path, rows: int, names: Sequence[str]) -> Iterator[_Piece]:
    begin = end = count = 0
    first = line = 1
    last = b""
    with path.open("rb") as file:
        # Many lines at a time while the shard needs more; then one by one, to see where it may end.
        while block := list(islice(file, max(1, min(_BLOCK, rows - count)))):
            if (
                count >= rows
                and not block[0].isspace()
                and not _same_example((last, block[0]), names)
            ):
                yield begin, end, first, count
                begin, first, count = end, line, 0
            line += len(block)
            count += len(block) - sum(map(bytes.isspace, block))
            end += sum(map(len, block))
            last = next((text for text in reversed(block) if not text.isspace()), last)
    if count:
        yield begin, end, first, count


def _cut_groups(path: Path, rows: int, names: Sequence[str]) -> Iterator[_Piece]:
    begin = count = 0
    with open_parquet(path) as file:
        for group in range(file.num_row_groups):
            if count >= rows and not _continues(file, group, names):
                yield begin, group, 0, count
                begin, count = group, 0
            count += file.metadata.row_group(group).num_rows
        if count:
            yield begin, file.num_row_groups, 0, count


def _continues(file: Any, group: int, names: Sequence[str]) -> bool:
    """Whether an example goes on from the row group before into this one."""
    there = [name for name in names if name in file.schema_arrow.names]
    if not there:
        return False
    before, after = (
        file.read_row_group(number, columns=there).to_pylist() for number in (group - 1, group)
    )
    return _same_example((*before[-1:], *after[:1]), there)


def _same_example(rows: Sequence[Any], names: Sequence[str]) -> bool:
    found: list[Any] = []
    for row in rows:
        if isinstance(row, bytes):
            try:
                row = json.loads(row)
            except (ValueError, RecursionError):
                return False  # the worker that reads the shard says what is wrong with the line
        if isinstance(row, dict):
            known = cast("dict[str, Any]", row)
            found += [known[name] for name in names if known.get(name) is not None][:1]
    return len(found) == 2 and found[0] == found[1]


class ShardNumbering(Numbering):
    """Gives the rows of a shard their keys.

    An example that came in an earlier shard is counted from 0 again; merging the shards mends that.
    """

    def __init__(self, shard: Shard) -> None:
        super().__init__(shard.first)

    @property
    def alike(self) -> tuple[bool, bool]:
        """Whether rows have an id, and a sample, of their own."""
        return self._alike or (False, False)
