"""score_shard: the one function that every engine runs. It may be killed at any moment and run again."""

import hashlib
import json
import secrets
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from assay.backends.job import Job
from assay.backends.manifest import Done
from assay.backends.shards import Shard, ShardNumbering
from assay.backends.shared import counts_of, sharing
from assay.concurrency import run_sync
from assay.runs.errors import RunError, RunRefused
from assay.runs.folder import Folder
from assay.runs.form import data_of, opening_of
from assay.runs.lock import Lock
from assay.runs.progress import Progress
from assay.runs.reading import Run, numbered_lines, whole_lines
from assay.runs.scoring import score_rows
from assay.runs.tally import Tally

TELL_SECONDS = 1.0
"""How often the driver is told how far a shard is."""


class Scored(NamedTuple):
    """A shard that is done, and what it comes to."""

    done: Done
    tally: Tally
    progress: Progress
    """Where it ended."""
    counts: Mapping[str, Any]
    """What its ledger counted."""


def score_shard(job: Job, shard: Shard) -> Scored:
    """Score one shard and write its part whole, or not at all.

    Rows go to a journal in a folder of their own. An attempt that was killed leaves it behind, and the
    next one goes on from there. Once all rows are there, the file becomes a part, by a name that no
    other attempt has.
    """
    return run_sync(_Attempt(job, shard).scored())


class _Attempt:
    """One go at a shard."""

    def __init__(self, job: Job, shard: Shard) -> None:
        self._job = job
        self._shard = shard
        self._began = self._told = time.monotonic()
        self._place = Folder.of(_scratch(job, shard))
        self._is_begun = _keep_good(self._place, job)
        """Whether an earlier attempt has left rows."""
        self._numbering = ShardNumbering(shard)
        self._progress = Progress(0)

    async def scored(self) -> Scored:
        # Where examples come once, as they mostly do, nothing need be kept of each.
        tally = Tally(alone=not _begins_with_two_of_one(self._shard, self._job.mapping))
        async with sharing(self._job.permits) as shared:
            await self._score(tally, shared.tell)
        if self._is_begun or tally.summary() is None:
            tally = self._counted()
        sums = Tally()
        sums.merge(tally)  # without the few numbers an example, which need not travel
        return Scored(self._published(), sums, self._progress, counts_of(shared.ledger))

    async def _score(self, tally: Tally, tell: Callable[[Mapping[str, Any]], None]) -> None:
        job, shard = self._job, self._shard
        rubric, grader = job.made()
        summary = await score_rows(
            rubric,
            shard.read(job.mapping),
            folder=self._place.path,
            grader=grader,
            about=job.run_about(),
            resume=True,
            on_progress=partial(self._watch, tell),
            max_concurrent=job.max_concurrent,
            numbering=self._numbering,
            tally=tally,
        )
        if summary.rollouts != shard.rows:
            raise RunRefused(
                f"{shard.path} had {shard.rows:,} rows from line {shard.line} on, and now has "
                f"{summary.rollouts:,}: leave data alone while it is scored"
            )

    def _counted(self) -> Tally:
        """What the rows come to, from what was written."""
        tally = Tally()
        for row in Run.open(self._place.path).rows():
            tally.add(row)
        return tally

    def _watch(self, tell: Callable[[Mapping[str, Any]], None], progress: Progress) -> None:
        self._progress = progress
        if time.monotonic() - self._told >= TELL_SECONDS:
            self._told = time.monotonic()
            tell({"shard": self._shard.number, "progress": asdict(progress)})

    def _published(self) -> Done:
        """Make a part of what was written."""
        part = f"{self._shard.name}-{secrets.token_hex(4)}"
        path = Path(self._job.folder) / "parts" / part
        failures = _failures(self._place.rollouts) if self._progress.errors else []
        if failures:
            path.with_suffix(".failures").write_text("".join(failures), encoding="utf-8")
        if self._numbering.is_named:
            path.with_suffix(".examples").write_bytes(self._numbering.fingerprints().tobytes())
        digest, size = _digest(self._place.rollouts)
        self._place.rollouts.replace(path.with_suffix(".jsonl"))
        shutil.rmtree(self._place.path, ignore_errors=True)
        return Done(
            self._shard.number,
            part,
            rows=self._shard.rows,
            errors=len(failures),
            size=size,
            sha256=digest,
            named=self._numbering.is_named,
            sampled=self._numbering.is_sampled,
            seconds=round(time.monotonic() - self._began, 3),
        )


def _scratch(job: Job, shard: Shard) -> Path:
    """The folder that an earlier attempt has left; a new one while somebody may still be at that."""
    place = Path(job.folder) / "scratch" / shard.name
    place.mkdir(parents=True, exist_ok=True)
    try:
        Lock(Folder.of(place).lock).close()
    except RunError:
        place = place.with_name(f"{shard.name}-{secrets.token_hex(4)}")
        place.mkdir()
    return place


def _keep_good(place: Folder, job: Job) -> bool:
    """Keep the rows without an error of those that are there. Whether there were any."""
    size = whole_lines(place.rollouts)
    if not size:
        return False
    good = place.rollouts.with_suffix(".good")
    with good.open("wb") as file:
        for where, _, line in numbered_lines(place.rollouts, size):
            if not opening_of(line, where)[1]:
                file.write(line)
        kept = file.tell()
    good.replace(place.rollouts)
    place.write_about(job.run_about())
    return kept > 0


def _begins_with_two_of_one(shard: Shard, mapping: Mapping[str, str]) -> bool:
    """Whether the first two rows are rollouts of one example."""
    numbering = ShardNumbering(shard)
    keys = [numbering.key_of(row) for row in islice(shard.read(mapping), 2)]
    return len(keys) == 2 and keys[0][0] == keys[1][0]


def _failures(path: Path) -> list[str]:
    """A line for every row that has errors: its key, and what they are."""
    lines: list[str] = []
    for where, _, line in numbered_lines(path, whole_lines(path)):
        if opening_of(line, where)[1]:
            data = data_of(line, where)
            told = {name: data[name] for name in ("example", "sample", "errors")}
            lines.append(json.dumps(told, separators=(",", ":")) + "\n")
    return lines


def _digest(path: Path) -> tuple[str, int]:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest(), path.stat().st_size
