"""Manifest: which shards are done. A part counts when it has a line here, and not before."""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from assay.runs.folder import RunError, numbered_lines, whole_lines

FORMAT = "assay.shards/1"


@dataclass(frozen=True)
class Done:
    """A shard that was scored, and the part that came of it."""

    shard: int
    part: str
    """What its files in the folder `parts` are called, without their endings."""
    rows: int
    errors: int
    """Rows that have an error, and stand in the file of failures too."""
    size: int
    """Bytes of the part."""
    sha256: str
    named: bool
    """Whether its rows say which example they belong to; else they go by their number."""
    sampled: bool
    """Whether they say which sample of it they are."""
    seconds: float = 0.0
    """That the worker took for it."""


class Manifest:
    """The file `manifest.jsonl` of a run's folder: a line for the run, one a finished shard, one for the end.

    Only the driver writes to it.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / "manifest.jsonl"
        self.spec = ""
        """The hash of what decides the results; empty when nothing was begun."""
        self.shards = 0
        """How many there are in all."""
        self.done: dict[int, Done] = {}
        """By number; of a shard that was done again, the last."""
        self.joined: int | None = None
        """The size of `rollouts.jsonl` once all parts are joined in it; None as long as they are not."""
        self._size = whole_lines(self.path)
        for where, _, line in numbered_lines(self.path, self._size):
            self._read(line, where)

    def begin(self, spec: str, shards: int) -> None:
        """Write down what is run."""
        self.spec, self.shards = spec, shards
        self._append({"format": FORMAT, "spec": spec, "shards": shards})

    def add(self, done: Done) -> None:
        """Count a shard as done, for good."""
        self.done[done.shard] = done
        self._append(asdict(done))

    def note_joined(self, size: int | None) -> None:
        """Write down that `rollouts.jsonl` holds all parts, in so many bytes; or no longer does."""
        self.joined = size
        self._append({"joined": size})

    def in_order(self) -> list[Done]:
        """What is done, in the order of the shards."""
        return [self.done[number] for number in sorted(self.done)]

    def _append(self, data: dict[str, Any]) -> None:
        line = json.dumps(data).encode() + b"\n"
        try:
            with self.path.open("ab") as file:
                file.truncate(self._size)  # half a line that a kill has left
                file.write(line)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise RunError(f"{self.path} cannot be written ({error.strerror}): see to the disk, and resume") from None
        self._size += len(line)

    def _read(self, line: bytes, where: str) -> None:
        try:
            data: dict[str, Any] = json.loads(line)
            if "joined" in data:
                self.joined = data["joined"]
            elif self.spec:
                done = Done(**data)
                self.done[done.shard] = done
            elif data["format"] == FORMAT:
                self.spec, self.shards = data["spec"], data["shards"]
            else:
                raise ValueError(f"its format is {data['format']!r}, and not {FORMAT!r}")
        except (ValueError, TypeError, KeyError) as error:
            raise RunError(f"{where} is no line of a manifest ({error}): restore it") from None
