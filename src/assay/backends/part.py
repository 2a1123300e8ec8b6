"""PartSink: the rows of a shard on their way into a file, from which another attempt can go on."""

import json
import os
import secrets
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from assay.criterion import Criterion
from assay.runs.folder import Folder, Lock, RunError, numbered_lines, whole_lines
from assay.runs.pipeline import Sink, Texts, Watch
from assay.runs.row import Row, RowForm, data_of, opening_of
from assay.runs.summary import Tally


@contextmanager
def scratch(folder: Path, name: str) -> Generator[Path]:
    """The folder that an earlier attempt has left; a new one while somebody may still be at that."""
    place = folder / "scratch" / name
    place.mkdir(parents=True, exist_ok=True)
    try:
        lock = Lock(Folder.of(place).lock)
    except RunError:
        place = place.with_name(f"{name}-{secrets.token_hex(4)}")
        place.mkdir()
        lock = Lock(Folder.of(place).lock)
    try:
        yield place
    finally:
        lock.close()


class PartSink(Sink):
    """A file, and the rows that are written to it. Those without an error that it holds stay."""

    def __init__(self, path: Path, criteria: Sequence[Criterion], tally: Tally, watch: Watch) -> None:
        super().__init__(None, None, watch)
        self._path = path
        self._form = RowForm(criteria)
        self._tally = tally
        self.failures: list[str] = []
        """A line for every row that has errors: its key, and what they are."""
        self.rows = self._keep_good()
        """How many are in the file."""
        self.is_fresh = not self.rows
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def _keep_good(self) -> int:
        size = whole_lines(self._path)
        if not size:
            return 0
        good = self._path.with_suffix(".good")
        with good.open("wb") as file:
            for where, _, line in numbered_lines(self._path, size):
                key, _, has_errors = opening_of(line, where)
                if not has_errors and key not in self._done:
                    file.write(line)
                    self._done.add(key)
        good.replace(self._path)
        self._tally = self.counted(self._tally)
        return len(self._done)

    def counted(self, tally: Tally | None = None) -> Tally:
        """The rows of the file, counted."""
        tally = tally or Tally()
        for where, _, line in numbered_lines(self._path, whole_lines(self._path)):
            tally.add(self._form.read(line, where))
        return tally

    def take(self, rows: Sequence[Row], texts: Texts) -> None:
        lines = [self._form.written(row, text) for row, text in zip(rows, texts, strict=True)]
        self._write(b"".join(lines))
        self.rows += len(rows)
        before = self._watch.errors
        super().take(rows, texts)
        if self._watch.errors > before:
            self.failures += [_failure(line) for row, line in zip(rows, lines, strict=True) if row.errors]

    def _write(self, data: bytes) -> None:
        left = memoryview(data)
        try:
            while left:
                left = left[os.write(self._file, left) :]
        except OSError as error:
            raise RunError(f"{self._path} cannot be written ({error.strerror}): see to the disk, and resume") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            os.fsync(self._file)
        finally:
            os.close(self._file)


def _failure(line: bytes) -> str:
    # From what was written, in which secrets are struck out.
    data = data_of(line, "a row that was just written")
    told = {name: data[name] for name in ("example", "sample", "errors")}
    return json.dumps(told, separators=(",", ":")) + "\n"
