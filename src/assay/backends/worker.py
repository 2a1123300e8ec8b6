"""score_shard scores one shard in a worker; it may be killed at any moment and run again."""

import hashlib
import json
import pickle
import secrets
import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing, suppress
from dataclasses import asdict, dataclass
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, cast

from assay.backends.shards import Shard, ShardNumbering
from assay.concurrency import run_sync
from assay.engine import logging_once
from assay.errors import RubricError
from assay.graders.grader import Grader
from assay.models.budgets import Ledger, counting_in
from assay.models.retry import Endpoint
from assay.runs.folder import Folder, RunError, RunRefused, numbered_lines, whole_file, whole_lines
from assay.runs.journal import Journal
from assay.runs.metadata import RunAbout
from assay.runs.pipeline import Feed, Pipeline, Progress, Sink, Watch
from assay.runs.row import opening_of
from assay.runs.row_rubrics import RowRubrics
from assay.runs.spending import SpendingLog
from assay.runs.summary import Tally

# Makes the rubric and the grader, in the process that uses them: connections do not travel.
Make: TypeAlias = Callable[[], tuple[Any, Grader | None]]

PROGRESS_SECONDS = 1.0  # how often a worker writes down how far its shard is

_ADVICE = "make it in a function of a module, and give that"
_COUNTED = ("calls", "retries", "hits", "shared", "models", "errors", "usage", "cost", "unpriced")


@dataclass(frozen=True)
class Job:
    """What every worker of a run has to know."""

    folder: str  # where parts are written; all workers see it
    about: Mapping[str, Any]  # what `RunAbout.to_dict` gives
    make: bytes  # a pickled `Make`
    mapping: Mapping[str, str]  # what columns are called, as in `rows_of`
    max_concurrent: int  # rollouts that a worker has under way at once where a model is waited for
    workers: int = 1  # how many there are, which divide the limits of endpoints among them
    judge_log: bool = False  # whether rows keep what judges were asked and said
    may_ask: bool = False  # whether models may be asked, so that spending has to be logged
    ends: float = float("inf")  # when the time of the run is up, in seconds since 1970

    def made(self) -> tuple[Any, Grader | None]:
        """The rubric and the grader, made once in a process."""
        return _made(self.make)


@cache
def _made(make: bytes) -> tuple[Any, Grader | None]:
    return pickle.loads(make)()


def packed(make: Make) -> bytes:
    """A `Make` as bytes: by name where it has one that others can import, else, with cloudpickle, as it is."""
    pickler: Any = pickle
    advice = f"pip install cloudpickle, or {_ADVICE}"
    with suppress(ImportError):
        pickler, advice = import_module("cloudpickle"), _ADVICE
    try:
        return pickler.dumps(make)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise RubricError(
            f"this rubric cannot be sent to other processes ({error}): {advice}"
        ) from error


def given(rubric: Any, grader: Grader | None = None) -> Make:
    # Of parts that pickle by name, where a function inside of this one would not.
    return cast("Make", partial(tuple, (rubric, grader)))


@dataclass(frozen=True)
class Task:
    """One attempt at a shard."""

    shard: Shard
    part: str  # what its files in the folder `parts` are called, without their endings; no other attempt has this name
    slot: int = 0  # which of the workers does it, for its share of the limits
    dollars: float | None = None  # what it may spend; None is no limit
    rollout: float | None = None  # dollars that a rollout is known to cost


@dataclass(frozen=True)
class Done:
    """A shard that was scored, and the part that came of it."""

    shard: int
    part: str  # what its files in the folder `parts` are called, without their endings
    rows: int
    errors: int  # rows that have an error
    size: int  # bytes of the part
    sha256: str
    named: bool  # whether its rows say which example they belong to; else they go by their number
    sampled: bool  # whether they say which sample of it they are
    seconds: float = 0.0  # that the worker took for it


class ShardResult(NamedTuple):
    """What a shard that is done comes to."""

    done: Done
    tally: Tally
    progress: Progress  # where it ended
    counts: Mapping[str, Any]  # what its ledger counted
    dearest: float | None  # dollars that a rollout is known to cost, where they are limited

    @property
    def shard(self) -> int:
        return self.done.shard


@dataclass(frozen=True)
class ShardFailure:
    """A shard that could not be scored: not that rows in it have errors, but that it has no part."""

    shard: int
    error: str
    died: bool = False  # whether its worker died of it, so that another one may do better


def score_shard(job: Job, task: Task) -> ShardResult:
    """Score one shard and write its part whole, or not at all.

    Rows go to a journal in `scratch`. An attempt that was killed leaves it behind, and the next one goes on
    from there. Once all rows are in it, its file becomes a part, by a name that no other attempt has.
    """
    shard, began = task.shard, time.monotonic()
    part = Path(job.folder) / "parts" / f"{task.part}.jsonl"
    progress_file = part.with_suffix(".progress")
    seconds = None if job.ends == float("inf") else max(0.0, job.ends - time.time())
    ledger = Ledger(dollars=task.dollars, seconds=seconds, rollout=task.rollout)
    numbering = ShardNumbering(shard)

    def write_progress(progress: Progress) -> None:
        with suppress(OSError):  # a full disk is told of where rows are written
            progress_file.write_text(json.dumps(asdict(progress)), encoding="utf-8")

    watch = Watch(write_progress, shard.rows, ledger, every=PROGRESS_SECONDS)
    with ExitStack() as stack:
        journal = stack.enter_context(
            _journal(Path(job.folder), shard.name, RunAbout.from_dict(job.about))
        )
        stack.enter_context(Endpoint.share(task.slot, job.workers))
        stack.enter_context(counting_in(ledger))
        stack.enter_context(logging_once())
        if job.may_ask:
            stack.enter_context(closing(SpendingLog(part.with_suffix(".spending"), ledger)))
        rubric, grader = job.made()
        rubrics = rubric if isinstance(rubric, RowRubrics) else RowRubrics(rubric)
        sink = Sink(journal, None, watch)
        feed = Feed(shard.read(job.mapping), rubrics, sink.has, numbering)
        pipeline = Pipeline(
            sink, grader or rubrics.autograder, job.max_concurrent, judge_log=job.judge_log
        )
        run_sync(pipeline.run(feed.units(), None))
        if feed.broken is not None:
            raise feed.broken
        if (found := numbering.rows - shard.first) != shard.rows:
            changed = f"{shard.path} had {shard.rows:,} rows from line {shard.line} on, and now has {found:,}"
            raise RunRefused(f"{changed}: leave data alone while it is scored")
        tally, rows = journal.tally(), Folder(journal.path).rollouts
        if journal.rows > shard.rows:
            # What failed in an earlier attempt was done again: the last line of a rollout counts.
            lines = {
                opening_of(line, where).key: line
                for where, _, line in numbered_lines(rows, whole_lines(rows))
            }
            with whole_file(rows) as file:
                file.writelines(lines.values())
        named, sampled = numbering.alike
        if named:
            part.with_suffix(".examples").write_bytes(numbering.fingerprints().tobytes())
        with rows.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        rows.replace(part)
        shutil.rmtree(journal.path, ignore_errors=True)
        progress_file.unlink(missing_ok=True)
    seconds = round(time.monotonic() - began, 3)
    size = part.stat().st_size
    done = Done(
        shard.number, task.part, shard.rows, watch.errors, size, digest, named, sampled, seconds
    )
    sums = Tally()
    sums.merge(tally)  # without the few numbers an example, which need not travel
    counts = {name: getattr(ledger, name) for name in _COUNTED}
    return ShardResult(done, sums, watch.now(), counts, ledger.rollout)


def _journal(folder: Path, name: str, about: RunAbout) -> Journal:
    """The journal that an earlier attempt has left; a new one while another process may still write to that."""
    place = folder / "scratch" / name
    try:
        return Journal.open(place, about, resume=True)
    except RunError:
        return Journal.open(place.with_name(f"{name}-{secrets.token_hex(4)}"), about)
