"""Shards: an input cut into pieces that never change, so that each can be scored anywhere, and again.

JSON Lines are cut between lines, Parquet between row groups. A shard knows the number of its first row
and how often its examples came before it, so its rows get the keys that they would get in one go.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from assay.runs.errors import RunError
from assay.runs.keys import Numbering
from assay.tables import rows_of
from assay.tables.columns import parquet_file
from assay.wording import shown

ROWS = 10_000
"""Rows to a shard, unless said otherwise."""

LINES = (".jsonl", ".ndjson")


def _empty() -> dict[str, int]:
    return {}


@dataclass(frozen=True)
class Shard:
    """A piece of one file."""

    number: int
    """Its place among all shards; it names the file that is written."""
    path: str
    begin: int
    """The byte where it begins, or for Parquet the row group."""
    end: int
    """The byte or row group after its last."""
    first: int
    """The number that its first row has in the whole input."""
    rows: int
    before: Mapping[str, int] = field(default_factory=_empty)
    """How often an example came in earlier shards, for those that come again in this one."""

    def read(self, mapping: Mapping[str, str] | None = None) -> Iterator[dict[str, Any]]:
        """Its rows, with columns renamed as in `rows_of`."""
        where = f"{self.path}, shard {self.number}"
        return rows_of(self._raw(), mapping=mapping, where=where)

    def numbering(self) -> Numbering:
        """What gives its rows the keys that they have in the whole input."""
        return Numbering(self.first, self.before)

    def _raw(self) -> Iterator[Mapping[str, Any]]:
        if not self.path.endswith(LINES):
            groups = range(self.begin, self.end)
            for batch in parquet_file(self.path).iter_batches(row_groups=list(groups)):
                yield from batch.to_pylist()
            return
        with Path(self.path).open("rb") as file:
            file.seek(self.begin)
            for number, line in enumerate(iter(file.readline, b""), start=self.first):
                if line.strip():
                    yield _row(line, f"{self.path}, row {number}")
                if file.tell() >= self.end:
                    return


def shards_of(
    paths: Sequence[str | Path],
    *,
    rows: int = ROWS,
    together: bool = False,
    mapping: Mapping[str, str] | None = None,
) -> list[Shard]:
    """All files in order, cut into shards of about so many rows; `mapping` is that of `rows_of`.

    With `together`, rollouts of one example that stand next to each other stay in one shard, since
    they are to be compared.
    """
    if rows < 1:
        raise RunError(f"a shard of {rows} rows holds nothing: give 1 or more")
    shards: list[Shard] = []
    seen: Counter[str] = Counter()
    for path in map(Path, paths):
        if not path.is_file():
            raise RunError(f"there is no file {path}: name JSON Lines or Parquet files")
        first = shards[-1].first + shards[-1].rows if shards else 0
        cut = _cut_lines if path.name.endswith(LINES) else _cut_parquet
        if not path.name.endswith((*LINES, ".parquet")):
            raise RunError(
                f"{path} is neither JSON Lines (.jsonl) nor Parquet, and nothing else can be cut "
                "into shards: convert it"
            )
        for piece in cut(path, rows, together, _names(mapping or {})):
            before = {name: seen[name] for name in piece.ids if seen[name]}
            seen.update(piece.ids)
            number = len(shards)
            span = (piece.begin, piece.end)
            shards.append(Shard(number, str(path), *span, first, piece.rows, before))
            first += piece.rows
    return shards


@dataclass
class _Piece:
    begin: int
    end: int = 0
    rows: int = 0
    ids: list[str] = field(default_factory=list[str])
    """The examples of its rows, where rows name one."""


def _names(mapping: Mapping[str, str]) -> tuple[str, ...]:
    """What the columns are called that name an example."""
    return tuple(mapping.get(name, name) for name in ("example_id", "id"))


def _cut_lines(path: Path, rows: int, together: bool, names: Sequence[str]) -> Iterator[_Piece]:
    piece = _Piece(0)
    with path.open("rb") as file:
        named = _names_examples(file.readline(), names)
        file.seek(0)
        end = 0
        for line in file:
            begin, end = end, end + len(line)
            if not line.strip():
                continue
            example = _example(line, names) if named else None
            joined = together and example is not None and piece.ids[-1:] == [example]
            if piece.rows >= rows and not joined:
                yield piece
                piece = _Piece(begin)
            piece.rows += 1
            piece.end = end
            if example is not None:
                piece.ids.append(example)
    if piece.rows:
        yield piece


def _cut_parquet(path: Path, rows: int, together: bool, names: Sequence[str]) -> Iterator[_Piece]:
    file = parquet_file(str(path))
    named = [name for name in names if name in file.schema_arrow.names][:1]
    if together and named:
        # A row group may end within an example, and only whole files surely do not.
        rows = file.metadata.num_rows
    piece = _Piece(0)
    for group in range(file.num_row_groups):
        if piece.rows >= rows:
            yield piece
            piece = _Piece(group)
        piece.rows += file.metadata.row_group(group).num_rows
        piece.end = group + 1
        if named:
            column: Iterable[Any] = file.read_row_group(group, columns=named)[named[0]].to_pylist()
            piece.ids += map(str, column)
    if piece.rows:
        yield piece


def _names_examples(line: bytes, names: Sequence[str]) -> bool:
    """Whether rows have an id and no sample of their own, so that repeats have to be counted."""
    return _example(line, names) is not None and "sample" not in _loaded(line)


def _example(line: bytes, names: Sequence[str]) -> str | None:
    row = _loaded(line)
    return next((str(row[name]) for name in names if row.get(name) is not None), None)


def _loaded(line: bytes) -> dict[str, Any]:
    """A row; an empty one for a line that is none, which whoever reads the shard says more about."""
    try:
        row: object = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return cast("dict[str, Any]", row) if isinstance(row, dict) else {}


def _row(line: bytes, where: str) -> dict[str, Any]:
    try:
        row: object = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise RunError(f"{where} is no JSON ({error}): mend it") from None
    if not isinstance(row, dict):
        raise RunError(f"{where} holds {shown(row)}: give a JSON object")
    return cast("dict[str, Any]", row)
