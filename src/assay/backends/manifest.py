"""Manifest: which shards are done. A part counts when it has a line here, and not before."""

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from assay.runs.errors import RunError
from assay.runs.reading import numbered_lines, whole_lines


@dataclass(frozen=True)
class Done:
    """A shard that was scored, and the part it was written to."""

    shard: int
    spec: str
    part: str
    """The file's name, in the folder `parts`."""
    rows: int
    errors: int
    """Rows that have an error, and stand in the file of failures too."""
    size: int
    """Bytes of the part."""
    sha256: str
    seconds: float = 0.0
    """That the worker took for it."""


class Manifest:
    """The file `manifest.jsonl` of a run's folder. Only the driver writes to it."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "manifest.jsonl"
        self.parts = folder / "parts"

    def done(self, spec: str) -> dict[int, Done]:
        """The shards of this spec that are done and whose parts are there, by number."""
        found = {line.shard: line for line in self._lines() if line.spec == spec}
        return {number: line for number, line in found.items() if self._is_there(line)}

    def specs(self) -> set[str]:
        """Every spec that parts were written under."""
        return {line.spec for line in self._lines()}

    def add(self, line: Done) -> None:
        """Count a shard as done, for good."""
        with self.path.open("ab") as file:
            file.write(json.dumps(asdict(line)).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def cut(self) -> None:
        """Drop half a line that a kill has left at the end."""
        size = whole_lines(self.path)
        if self.path.exists() and self.path.stat().st_size > size:
            os.truncate(self.path, size)

    def _is_there(self, line: Done) -> bool:
        part = self.parts / line.part
        return part.exists() and part.stat().st_size == line.size

    def _lines(self) -> Iterator[Done]:
        for where, _, line in numbered_lines(self.path, whole_lines(self.path)):
            try:
                data: Mapping[str, Any] = json.loads(line)
                yield Done(**data)
            except (ValueError, TypeError) as error:
                raise RunError(f"{where} is no line of a manifest ({error}): restore it") from None
