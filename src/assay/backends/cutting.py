"""shards_of: files cut into shards, at a glance: ids are looked at only where one shard ends.

JSON Lines are cut between lines, Parquet between row groups, and neither between two rollouts of one
example that stand next to each other: they may have to be compared, and their mean has one variance.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias, cast

from assay.backends.shards import LINES, Shard
from assay.runs.folder import RunRefused
from assay.runs.metadata import data_about
from assay.tables.table_readers import parquet_file

ROWS = 10_000
"""Rows to a shard, unless said otherwise."""

ENDINGS = (*LINES, ".parquet")

_BLOCK = 1000
"""Lines that are looked at together."""

Names: TypeAlias = Sequence[str]
"""What the columns are called that name an example."""


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
        for piece in cut(path, rows, names):
            span = (piece.begin, piece.end, piece.line)
            shards.append(Shard(len(shards), str(path), *span, first, piece.rows))
            first += piece.rows
    return shards


def files_of(paths: Sequence[str | Path]) -> list[Path]:
    """The files that are named, and those in folders that are named, in the order of their names."""
    files: list[Path] = []
    for path in (Path(path).absolute() for path in paths):
        found = [path]
        if path.is_dir():
            found = tables_in(path)
            if not found:
                raise RunRefused(f"{path} holds no {', '.join(ENDINGS)} file: name another folder")
        files += found
    for path in files:
        if not path.is_file():
            raise RunRefused(f"there is no file {path}: name JSON Lines or Parquet files")
        if not path.name.endswith(ENDINGS):
            raise RunRefused(
                f"{path} is neither JSON Lines (.jsonl) nor Parquet, and nothing else can be cut "
                "into shards: convert it"
            )
    return files


def tables_in(folder: Path) -> list[Path]:
    """The files in a folder that can be cut, in the order of their names."""
    return sorted(path for path in folder.iterdir() if path.name.endswith(ENDINGS))


def files_about(files: Sequence[str | Path]) -> dict[str, Any]:
    """What several files go by, as if they were one."""
    each = [data_about(path) for path in files]
    if len(each) == 1:
        return each[0]
    prints = [str(data.get("fingerprint")) for data in each]
    return {
        "source": [str(path) for path in files],
        "bytes": sum(data.get("bytes", 0) for data in each),
        "fingerprint": hashlib.sha256(" ".join(prints).encode()).hexdigest(),
    }


@dataclass
class _Piece:
    begin: int
    line: int = 0
    end: int = 0
    rows: int = 0
    lines: int = 0

    def take(self, lines: Sequence[bytes]) -> None:
        self.lines += len(lines)
        self.rows += len(lines) - sum(map(bytes.isspace, lines))
        self.end += sum(map(len, lines))


def _cut_lines(path: Path, rows: int, names: Names) -> Iterator[_Piece]:
    piece = _Piece(0, line=1)
    last = b""
    with path.open("rb") as file:
        # Many at a time while the piece wants more; then one by one, to see where it may end.
        while block := list(islice(file, max(1, min(_BLOCK, rows - piece.rows)))):
            is_full = piece.rows >= rows
            if is_full and not block[0].isspace() and not _same_example(last, block[0], names):
                yield piece
                piece = _Piece(piece.end, piece.line + piece.lines, piece.end)
            piece.take(block)
            last = next((line for line in reversed(block) if not line.isspace()), last)
    if piece.rows:
        yield piece


def _cut_groups(path: Path, rows: int, names: Names) -> Iterator[_Piece]:
    with parquet_file(path) as file:
        piece = _Piece(0)
        for group in range(file.num_row_groups):
            if piece.rows >= rows and not _spans(file, group, names):
                yield piece
                piece = _Piece(group)
            piece.rows += file.metadata.row_group(group).num_rows
            piece.end = group + 1
        if piece.rows:
            yield piece


def _same_example(one: bytes, other: bytes, names: Names) -> bool:
    example = _example(_loaded(one), names)
    return example is not None and example == _example(_loaded(other), names)


def _spans(file: Any, group: int, names: Names) -> bool:
    """Whether an example goes on from the row group before into this one."""
    there = [name for name in names if name in file.schema_arrow.names]
    if not there:
        return False
    before, after = (file.read_row_group(number, columns=there).to_pylist() for number in (group - 1, group))
    example = _example(before[-1], there) if before and after else None
    return example is not None and example == _example(after[0], there)


def _example(row: Mapping[str, Any], names: Names) -> Any:
    return next((row[name] for name in names if row.get(name) is not None), None)


def _loaded(line: bytes) -> Mapping[str, Any]:
    """A row; an empty one for a line that is none, which whoever reads the shard says more about."""
    try:
        row: object = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return cast("dict[str, Any]", row) if isinstance(row, dict) else {}
