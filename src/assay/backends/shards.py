"""Shard: a piece of an input that never changes, so that it can be scored anywhere, and again."""

import hashlib
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from assay.runs.folder import RunRefused
from assay.runs.pipeline import Numbering
from assay.runs.row import Key
from assay.tables import rows_of
from assay.tables.table_readers import RepeatedFieldError, decoded, parquet_file, refuse_repeated
from assay.wording import short_repr

LINES = (".jsonl", ".ndjson")

_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Shard:
    """A piece of one file."""

    number: int
    """Its place among all shards."""
    path: str
    begin: int
    """The byte where it begins, or for Parquet the row group."""
    end: int
    """The byte or row group after its last."""
    line: int
    """The line of the file on which it begins; 0 for Parquet."""
    first: int
    """The number that its first row has in the whole input."""
    rows: int

    @property
    def name(self) -> str:
        """What the files that come of it begin with."""
        return f"{self.number:06d}"

    def read(self, mapping: Mapping[str, str] | None = None) -> Iterator[dict[str, Any]]:
        """Its rows, with columns renamed as in `rows_of`."""
        raw = self._lines() if self.path.endswith(LINES) else self._groups()
        if not mapping:
            return raw
        return rows_of(raw, mapping=mapping, where=f"{self.path}, shard {self.number}")

    def _lines(self) -> Iterator[dict[str, Any]]:
        with Path(self.path).open("rb") as file:
            file.seek(self.begin)
            place = self.begin
            for number, line in enumerate(file, start=self.line):
                try:
                    row: object = decoded(line.decode())
                except (ValueError, RecursionError) as error:
                    row = self._odd(line, number, error)
                if type(row) is dict:
                    yield cast("dict[str, Any]", row)
                elif row is not None or line.strip():
                    raise RunRefused(f"{self.path}:{number} holds {short_repr(row)}: give a JSON object")
                place += len(line)
                if place >= self.end:
                    return

    def _odd(self, line: bytes, number: int, error: Exception) -> object:
        """A line that is no JSON as it stands: what follows a byte order mark, or None for a blank one."""
        text = line.removeprefix(_MARK).strip()
        if not text:
            return None
        try:
            return decoded(text.decode())
        except (ValueError, RecursionError) as still:
            if isinstance(still, RepeatedFieldError):
                raise RunRefused(f"{self.path}:{number} cannot be read: {still}") from None
            raise RunRefused(f"{self.path}:{number} is no JSON ({error}): mend it") from None

    def _groups(self) -> Iterator[dict[str, Any]]:
        with parquet_file(self.path) as file:
            refuse_repeated(file.schema_arrow.names, self.path)
            for batch in file.iter_batches(row_groups=list(range(self.begin, self.end))):
                yield from batch.to_pylist()


class ShardNumbering(Numbering):
    """Gives the rows of a shard their keys, and remembers which examples there were.

    An example that came in an earlier shard is counted from 0 again; whoever joins the parts sees to
    that.
    """

    def __init__(self, shard: Shard) -> None:
        super().__init__(shard.first)
        self._examples: set[str] = set()

    def key_of(self, row: Mapping[str, Any]) -> Key:
        key = Numbering.key_of(self, row)  # at every row, and faster than by super()
        self._examples.add(key[0])
        return key

    @property
    def is_named(self) -> bool:
        """Whether rows say which example they belong to; else they go by their number."""
        return self._alike is not None and self._alike[0]

    @property
    def is_sampled(self) -> bool:
        """Whether rows say which sample of it they are."""
        return self._alike is not None and self._alike[1]

    def fingerprints(self) -> "array[int]":
        """A number for each example, in ascending order."""
        numbers = array("Q", b"".join(map(_hashed, self._examples)))
        return array("Q", sorted(numbers))


def fingerprint(example: str) -> int:
    """64 bits that stand for an example, in every process the same."""
    return array("Q", _hashed(example))[0]


def _hashed(example: str) -> bytes:
    return hashlib.blake2b(example.encode("utf-8", "surrogatepass"), digest_size=8).digest()
