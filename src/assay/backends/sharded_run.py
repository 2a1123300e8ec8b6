"""A ShardedRun keeps a run's folder while the run is in shards, and joins their parts into one run at the end.

Each shard has numbered the rollouts of its examples from 0. Where no example is in two shards, which is so unless its
rollouts stand apart in the data, parts are copied as they are. Else those that come again are counted on, as one
process would have done.
"""

import hashlib
import json
import os
import shutil
from array import array
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import asdict, replace
from functools import partial
from heapq import merge
from itertools import pairwise
from pathlib import Path
from typing import Any

from assay.backends.shards import Shard, fingerprint
from assay.backends.worker import Done, ShardResult
from assay.criterion import hash_json
from assay.runs.folder import (
    Folder,
    RunError,
    RunRefused,
    numbered_lines,
    refuse_to_resume,
    whole_file,
    whole_lines,
)
from assay.runs.journal import Run
from assay.runs.metadata import RunAbout
from assay.runs.row import Key, RowForm, opening_of
from assay.runs.spending import fold_spending, larger, spent_by
from assay.runs.summary import Summary, Tally

FORMAT = "assay.shards/1"

_BLOCK = 1 << 20


def cuts_of(shards: Sequence[Shard]) -> str:
    """The hash of how the data is cut, wherever its files lie."""
    files = {
        path: number for number, path in enumerate(dict.fromkeys(shard.path for shard in shards))
    }
    return hash_json([[files[shard.path], shard.begin, shard.end] for shard in shards])


class Manifest:
    """The file `manifest.jsonl` of a run's folder: a line for the run, one a finished shard, one for the end.

    A part counts when it has a line here, and not before. Only the driver writes to it.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / "manifest.jsonl"
        self.cuts = ""  # the hash of how the data was cut; empty when nothing was begun
        self.shards = 0  # how many there are in all
        self.done: dict[int, Done] = {}  # by number; of a shard that was done again, the last
        # The size of `rollouts.jsonl` once all parts are joined in it; None as long as they are not.
        self.joined: int | None = None
        self._size = whole_lines(self.path)
        for where, _, line in numbered_lines(self.path, self._size):
            try:
                self._take(json.loads(line))
            except (ValueError, TypeError, KeyError) as error:
                raise RunError(f"{where} is no line of a manifest ({error}): restore it") from None

    def _take(self, data: dict[str, Any]) -> None:
        if "joined" in data:
            self.joined = data["joined"]
        elif self.cuts:
            self.done[data["shard"]] = Done(**data)
        elif data["format"] == FORMAT:
            self.cuts, self.shards = data["cuts"], data["shards"]
        else:
            raise ValueError(f"its format is {data['format']!r}, and not {FORMAT!r}")

    def add(self, data: dict[str, Any]) -> None:
        self._take(data)
        line = json.dumps(data).encode() + b"\n"
        try:
            with self.path.open("ab") as file:
                file.truncate(self._size)  # half a line that a kill has left
                file.write(line)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise RunError(
                f"{self.path} cannot be written ({error.strerror}): see to the disk, and resume"
            ) from None
        self._size += len(line)


class ShardedRun:
    """One sitting of a run. What was done in earlier ones counts."""

    def __init__(
        self, place: Folder, about: RunAbout, shards: Sequence[Shard], compares: str = ""
    ) -> None:
        """`compares` is the criterion that weighs the rollouts of an example against each other; empty when none does."""
        self._place, self._about, self.shards, self._compares = place, about, shards, compares
        self._manifest = Manifest(place.path)
        self._parts = place.path / "parts"
        self._scratch = place.path / "scratch"
        self._fresh: dict[int, Tally] = {}  # what the shards of this sitting come to
        self._models: set[str] = set()  # the ids of the models that answered in this sitting

    @property
    def left(self) -> list[Shard]:
        if self._is_joined:
            return []
        return [shard for shard in self.shards if shard.number not in self._manifest.done]

    @property
    def rows(self) -> int:
        return sum(done.rows for done in self._manifest.done.values())

    @property
    def _is_joined(self) -> bool:
        return self._manifest.joined is not None and self._place.rollouts.exists()

    def begin(self, *, resume: bool) -> None:
        """Find out what is left. Raises `RunError` when the folder holds another run, or is not to be resumed."""
        path, manifest = self._place.path, self._manifest
        if not manifest.cuts:
            self._begin_anew()
            return
        different = RunAbout.saved(self._place).differences(self._about)
        if not different and manifest.cuts != cuts_of(self.shards):
            different = [
                f"it was cut into {manifest.shards} shards, and is cut into {len(self.shards)}"
            ]
        refuse_to_resume(path, different, resume=resume)
        if self._is_joined:
            if self._place.rollouts.stat().st_size != manifest.joined:
                raise RunRefused(
                    f"{path} was gone on with by one process: resume it without shards"
                )
            if not any(done.errors for done in manifest.done.values()):
                return
            # Back to the parts, since some rows are to be done again.
            if not all(map(self._is_there, manifest.done.values())):
                told = f"{path} has no parts any more, so only one process can do again what failed"
                raise RunRefused(f"{told}: resume it without shards")
            manifest.add({"joined": None})
            self._place.summary_json.unlink(missing_ok=True)
            self._place.rollouts.unlink()
        self._sort_parts()

    def _begin_anew(self) -> None:
        if self._place.has_rows:
            told = f"{self._place.path} holds a run that is not in shards"
            raise RunRefused(f"{told}: go on with it without them, or name another folder")
        for folder in (self._parts, self._scratch):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
        self._place.spending.unlink(missing_ok=True)
        self._about.save(self._place)
        self._manifest.add(
            {"format": FORMAT, "cuts": cuts_of(self.shards), "shards": len(self.shards)}
        )

    def _sort_parts(self) -> None:
        """Keep the parts that are well. What is not, the next attempt at the shard goes on from."""
        for folder in (self._parts, self._scratch):
            folder.mkdir(exist_ok=True)
        done = self._manifest.done
        for part in list(done.values()):
            if part.errors or not self._is_there(part):
                del done[part.shard]
        kept = {part.part for part in done.values()}
        for path in sorted(self._parts.glob("*-*")):
            name = path.name.partition("-")[0]
            if path.stem in kept or path.suffix == ".spending" or not name.isdecimal():
                continue
            if path.suffix == ".jsonl" and int(name) not in done:
                place = self._scratch / name
                place.mkdir(exist_ok=True)
                path.replace(Folder(place).rollouts)
                self._about.save(Folder(place))
            else:
                path.unlink()

    def _is_there(self, done: Done) -> bool:
        path = self._parts / f"{done.part}.jsonl"
        has_examples = not done.named or path.with_suffix(".examples").exists()
        return has_examples and path.exists() and path.stat().st_size == done.size

    def take(self, result: ShardResult) -> None:
        self._manifest.add(asdict(result.done))
        self._fresh[result.shard] = result.tally
        self._models.update(result.counts["models"])

    def finish(self) -> Summary:
        """What it comes to. Once all is done, the parts become the run that this was to be."""
        about = RunAbout.saved(self._place)
        if (met := about.having_met(self._models)) is not about:
            met.save(self._place)
        if self._is_joined:
            return self._finished()
        done = [self._manifest.done[number] for number in sorted(self._manifest.done)]
        for part in done:
            # Where some rows have an id, or a sample, and others do not, their keys might clash.
            for field, has, had in (
                ("id", part.named, done[0].named),
                ("sample", part.sampled, done[0].sampled),
            ):
                if has != had:
                    here, there = ("an", "no") if has else ("no", "an")
                    told = f"the rows of shard {part.shard} have {here} `{field}` of their own"
                    others = f"those of shard {done[0].shard} have {there} own one"
                    raise RunRefused(f"{told}, and {others}: give every row one, or none")
        repeated = _repeated(self._parts, done)
        if repeated and self._compares:
            told = f"criterion {self._compares!r} compares the rollouts of an example"
            apart = "there are examples whose rollouts do not stand together"
            raise RunRefused(f"{told}, and {apart}: sort the rows by example")
        tally, form = Tally(), RowForm(self._about.criteria, self._about.version)
        # Tallies merge where no example is in two of them. Else, and of earlier sittings, rows are read.
        for part in done:
            if repeated or part.shard not in self._fresh:
                path = self._parts / f"{part.part}.jsonl"
                tally.add_all(
                    form.read(line, where) for where, _, line in numbered_lines(path, part.size)
                )
        for number in sorted(() if repeated else self._fresh):
            tally.merge(self._fresh[number])
        found = tally.summary()
        found = replace(found, spent=larger(found.spent, spent_by(self._place.spending)))
        if self.left:
            return replace(found, complete=False)
        _join(self._place, done, repeated)
        return self._finished(found)

    def _finished(self, found: Summary | None = None) -> Summary:
        """Save the summary and sweep up. What a kill prevents of this is done when it is resumed."""
        size = self._place.rollouts.stat().st_size
        if self._manifest.joined != size:
            self._manifest.add({"joined": size})
        fold_spending(self._place.spending)
        found = replace(found or Run.open(self._place.path).summary(), complete=True)
        found.save(self._place.summary_json, size)
        shutil.rmtree(self._scratch, ignore_errors=True)
        if not any(done.errors for done in self._manifest.done.values()):
            shutil.rmtree(self._parts, ignore_errors=True)
        return found


def _repeated(parts: Path, done: Sequence[Done]) -> set[int]:
    """The fingerprints of examples that are in two shards or more."""
    # Each part lists its own once, in ascending order.
    listed = [
        array("Q", (parts / f"{part.part}.examples").read_bytes()) for part in done if part.named
    ]
    return {one for one, other in pairwise(merge(*listed)) if one == other}


def _join(place: Folder, done: Sequence[Done], repeated: Collection[int]) -> None:
    """Write `rollouts.jsonl` whole, or not at all."""
    before: Counter[str] = (
        Counter()
    )  # how many rollouts of an example that comes again were in earlier parts
    keys: set[Key] = set()
    with whole_file(place.rollouts) as rows:
        for part in done:
            path, digest = place.path / "parts" / f"{part.part}.jsonl", hashlib.sha256()
            here: Counter[str] = Counter()
            with path.open("rb") as file:
                for block in file if repeated else iter(partial(file.read, _BLOCK), b""):
                    digest.update(block)
                    rows.write(
                        _renumbered(block, part, repeated, keys, before, here)
                        if repeated
                        else block
                    )
            if digest.hexdigest() != part.sha256:
                path.unlink()
                told = f"the part of shard {part.shard} is not what its worker wrote"
                raise RunError(f"{told}: resume, which does it again")
            before += here


def _renumbered(
    line: bytes,
    part: Done,
    repeated: Collection[int],
    keys: set[Key],
    before: Counter[str],
    here: Counter[str],
) -> bytes:
    example, sample = key = opening_of(line, f"shard {part.shard}").key
    if fingerprint(example) not in repeated:
        return line
    if not part.sampled:
        here[example] += 1
        # In a line of ours it stands right after the example, in which quotes are escaped.
        return line.replace(
            b'"sample":%d,' % sample, b'"sample":%d,' % (sample + before[example]), 1
        )
    if key in keys:
        told = (
            f"example {example!r}, sample {sample}, is in shard {part.shard} and in one before it"
        )
        raise RunRefused(f"{told}: give each rollout its own `sample`, or leave that out")
    keys.add(key)
    return line
