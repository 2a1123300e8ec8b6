"""score_shard: the one function that every engine runs. It may be killed at any moment and run again."""

import hashlib
import secrets
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from assay.backends.job import Job
from assay.backends.manifest import Done
from assay.backends.part import PartSink, scratch
from assay.backends.shards import Shard, ShardNumbering
from assay.backends.shared import Sharing, counts_of, sharing
from assay.concurrency import run_sync
from assay.engine import logging_once
from assay.runs.folder import RunRefused
from assay.runs.pipeline import Feed, Pipeline, Progress, Watch
from assay.runs.row_rubrics import RowRubrics
from assay.runs.summary import Tally

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

    Rows go to a file of their own. An attempt that was killed leaves it behind, and the next one goes on
    from there. Once all rows are in it, it becomes a part, by a name that no other attempt has.
    """
    return run_sync(_Attempt(job, shard).scored())


class _Attempt:
    """One go at a shard."""

    def __init__(self, job: Job, shard: Shard) -> None:
        self._job = job
        self._shard = shard
        self._began = self._told = time.monotonic()
        self._numbering = ShardNumbering(shard)
        self._progress = Progress(0)

    async def scored(self) -> Scored:
        # Where examples come once, as they mostly do, nothing need be kept of each.
        tally = Tally(alone=not _begins_with_two_of_one(self._shard, self._job.mapping))
        folder = Path(self._job.folder)
        with scratch(folder, self._shard.name) as place:
            rows = place / "rollouts.jsonl"
            async with sharing(self._job.permits) as shared:
                sink = await self._score(rows, tally, shared)
            if tally.summary() is None:
                tally = sink.counted()
            done = self._published(rows, folder / "parts", sink.failures)
            shutil.rmtree(place, ignore_errors=True)
        sums = Tally()
        sums.merge(tally)  # without the few numbers an example, which need not travel
        return Scored(done, sums, self._progress, counts_of(shared.ledger))

    async def _score(self, path: Path, tally: Tally, shared: Sharing) -> PartSink:
        job, shard = self._job, self._shard
        rubric, grader = job.made()
        rubrics = rubric if isinstance(rubric, RowRubrics) else RowRubrics(rubric)
        watch = Watch(partial(self._tell, shared.tell), shard.rows, shared.ledger)
        with logging_once(), PartSink(path, job.run_about().criteria, tally, watch) as sink:
            feed = Feed(shard.read(job.mapping), rubrics, sink.has, self._numbering)
            scoring = Pipeline(sink, grader or rubrics.autograder, job.max_concurrent, exchanges=job.exchanges)
            await scoring.run(feed.units(), None)
        watch.tell(at_once=True)
        if feed.broken is not None:
            raise feed.broken
        if sink.rows != shard.rows:
            raise RunRefused(
                f"{shard.path} had {shard.rows:,} rows from line {shard.line} on, and now has "
                f"{sink.rows:,}: leave data alone while it is scored"
            )
        return sink

    def _tell(self, tell: Callable[[Mapping[str, Any]], None], progress: Progress) -> None:
        self._progress = progress
        if time.monotonic() - self._told >= TELL_SECONDS:
            self._told = time.monotonic()
            tell({"shard": self._shard.number, "progress": asdict(progress)})

    def _published(self, rows: Path, parts: Path, failures: Sequence[str]) -> Done:
        """Make a part of what was written."""
        name = f"{self._shard.name}-{secrets.token_hex(4)}"
        part = parts / f"{name}.jsonl"
        if failures:
            part.with_suffix(".failures").write_text("".join(failures), encoding="utf-8")
        if self._numbering.is_named:
            part.with_suffix(".examples").write_bytes(self._numbering.fingerprints().tobytes())
        with rows.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        rows.replace(part)
        return Done(
            self._shard.number,
            name,
            rows=self._shard.rows,
            errors=len(failures),
            size=part.stat().st_size,
            sha256=digest,
            named=self._numbering.is_named,
            sampled=self._numbering.is_sampled,
            seconds=round(time.monotonic() - self._began, 3),
        )


def _begins_with_two_of_one(shard: Shard, mapping: Mapping[str, str]) -> bool:
    """Whether the first two rows are rollouts of one example."""
    numbering = ShardNumbering(shard)
    keys = [numbering.key_of(row) for row in islice(shard.read(mapping), 2)]
    return len(keys) == 2 and keys[0][0] == keys[1][0]
