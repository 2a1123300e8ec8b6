"""Parts become a run: one file, in the order of the shards, with every row once.

Each shard has numbered the rollouts of its examples from 0. Where no example is in two shards, which is so
unless its rollouts stand apart in the data, parts are copied as they are. Else those that come again are
counted on, as one process would have done.
"""

import hashlib
import os
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from assay.backends.manifest import Done
from assay.backends.shards import fingerprint
from assay.runs.folder import Folder, RunError, RunRefused
from assay.runs.row import Key, opening_of

_SLICES = 256
"""Turns that it takes to look for examples that come again, each with so small a share in memory."""
_BLOCK = 1 << 20


class Parts:
    """The parts of a run whose shards are all done."""

    def __init__(self, folder: Path, done: Sequence[Done]) -> None:
        """Raises `RunError` when their rows cannot stand in one run."""
        self._folder = folder
        self._done = done
        _refuse_unlike(done)
        self.repeated = self._repeated()
        """The fingerprints of examples that are in two shards or more."""

    def _repeated(self) -> set[int]:
        listed = [self._fingerprints(part) for part in self._done if part.named]
        repeated: set[int] = set()
        width = (1 << 64) // _SLICES
        for low in range(0, 1 << 64, width):
            pieces = [numbers[bisect_left(numbers, low) : bisect_left(numbers, low + width)] for numbers in listed]
            if len(set[int]().union(*pieces)) < sum(map(len, pieces)):
                times = Counter(number for piece in pieces for number in piece)
                repeated.update(number for number, count in times.items() if count > 1)
        return repeated

    def _fingerprints(self, part: Done) -> "array[int]":
        numbers = array("Q")
        numbers.frombytes(self._file(part, "examples").read_bytes())
        return numbers

    def join(self) -> None:
        """Write `rollouts.jsonl`, and `failures.jsonl` where there are any; each whole, or not at all."""
        failures = self._folder / "failures.jsonl"
        counting = _Counting(self.repeated)
        with _whole(Folder.of(self._folder).rollouts) as rows, _whole(failures) as failed:
            for part in self._done:
                self._copy(part, rows, counting)
                if part.errors:
                    lines = self._file(part, "failures").read_bytes().splitlines(keepends=True)
                    failed.writelines(counting.moved(line, part) for line in lines)
                counting.end_part()
        if not failures.stat().st_size:
            failures.unlink()

    def _copy(self, part: Done, into: IO[bytes], counting: "_Counting") -> None:
        digest = hashlib.sha256()
        with self._file(part, "jsonl").open("rb") as file:
            if self.repeated:
                for line in file:
                    digest.update(line)
                    into.write(counting.counted(line, part))
            else:
                for block in iter(lambda: file.read(_BLOCK), b""):
                    digest.update(block)
                    into.write(block)
        if digest.hexdigest() != part.sha256:
            self._file(part, "jsonl").unlink()
            raise RunError(f"the part of shard {part.shard} is not what its worker wrote: resume, which does it again")

    def _file(self, part: Done, ending: str) -> Path:
        return self._folder / "parts" / f"{part.part}.{ending}"


def _refuse_unlike(done: Sequence[Done]) -> None:
    """Raise when some rows have an id, or a sample, and others do not: their keys might clash."""
    for part in done:
        for field, has in (("id", "named"), ("sample", "sampled")):
            if getattr(part, has) != getattr(done[0], has):
                here, there = ("an", "no") if getattr(part, has) else ("no", "an")
                raise RunRefused(
                    f"the rows of shard {part.shard} have {here} `{field}` of their own, and those of "
                    f"shard {done[0].shard} have {there} own one: give every row one, or none"
                )


class _Counting:
    """Counts the rollouts of examples that are in several parts, from one part to the next."""

    def __init__(self, repeated: Collection[int]) -> None:
        self._repeated = repeated
        self._before: Counter[str] = Counter()
        self._here: Counter[str] = Counter()
        self._keys: set[Key] = set()

    def counted(self, line: bytes, part: Done) -> bytes:
        """A row, with the number that its rollout has in the whole run."""
        key = opening_of(line, f"shard {part.shard}").key
        if fingerprint(key[0]) not in self._repeated:
            return line
        if part.sampled:
            self._refuse_again(key, part)
            return line
        self._here[key[0]] += 1
        return self._moved(line, key)

    def moved(self, line: bytes, part: Done) -> bytes:
        """Another line about a row of this part, with the same number."""
        key = opening_of(line, f"failures of shard {part.shard}").key
        return line if part.sampled else self._moved(line, key)

    def end_part(self) -> None:
        self._before.update(self._here)
        self._here.clear()

    def _moved(self, line: bytes, key: Key) -> bytes:
        example, sample = key
        number = sample + self._before[example]
        # In a line of ours it stands right after the example, in which quotes are escaped.
        return line.replace(b'"sample":%d,' % sample, b'"sample":%d,' % number, 1)

    def _refuse_again(self, key: Key, part: Done) -> None:
        if key in self._keys:
            raise RunRefused(
                f"example {key[0]!r}, sample {key[1]}, is in shard {part.shard} and in one before it: "
                "give each rollout its own `sample`, or leave that out"
            )
        self._keys.add(key)


@contextmanager
def _whole(path: Path) -> Generator[IO[bytes]]:
    """A file that is there whole once the block has ended well, and not before."""
    new = path.with_name(f"{path.name}.new")
    with new.open("wb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
