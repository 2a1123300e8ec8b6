"""score_shard: the one function that every engine runs. It may be killed at any moment and run again."""

import hashlib
import json
import os
import shutil
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from assay.backends.job import Job
from assay.backends.manifest import Done
from assay.backends.permits import asking_at
from assay.backends.shards import Shard
from assay.concurrency import run_sync
from assay.runs.folder import Folder
from assay.runs.row import Row
from assay.runs.scoring import score_rows
from assay.runs.tally import Tally


class Scored(NamedTuple):
    """A shard that is done, and what its rows come to."""

    done: Done
    tally: Tally


def score_shard(job: Job, shard: Shard) -> Scored:
    """Score one shard and write its part whole, or not at all.

    Rows go to a journal in a folder of their own; once all are there, the file is renamed. A second
    worker with the same shard writes the same rows, and the last rename wins.
    """
    started = time.monotonic()
    rubric, grader = job.made()
    folder = Path(job.folder)
    part = f"part-{shard.number:06d}.jsonl"
    failures: list[str] = []
    tally = Tally()

    def note(row: Row) -> None:
        tally.add(row)
        if row.errors:
            key = {"example": row.example, "sample": row.sample}
            failures.append(json.dumps({**key, "errors": row.errors}))

    with _scratch(folder, part) as scratch, asking_at(job.permits):
        run_sync(
            score_rows(
                rubric,
                shard.read(job.mapping),
                folder=scratch,
                grader=grader,
                about=job.run_about(),
                on_row=note,
                numbering=shard.numbering(),
            )
        )
        written = Folder.of(scratch).rollouts
        digest, size = _digest(written)
        _write_failures(folder / "failures" / part, failures)
        written.replace(folder / "parts" / part)
    seconds = round(time.monotonic() - started, 3)
    done = Done(shard.number, job.spec, part, shard.rows, len(failures), size, digest, seconds)
    return Scored(done, tally)


@contextmanager
def _scratch(folder: Path, part: str) -> Generator[Path]:
    """A folder that no other attempt has; what a killed one left behind the driver sweeps away."""
    place = folder / "scratch" / f"{part}-{os.getpid()}-{time.monotonic_ns()}"
    place.mkdir(parents=True)
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _digest(path: Path) -> tuple[str, int]:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest(), path.stat().st_size


def _write_failures(path: Path, lines: list[str]) -> None:
    if not lines:
        path.unlink(missing_ok=True)
        return
    new = path.with_name(f".{path.name}-{os.getpid()}")
    new.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    new.replace(path)
