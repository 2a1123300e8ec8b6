"""score_shard scores one shard in a worker; it may be killed at any moment and run again."""

import json
import pickle
import secrets
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
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
from assay.runs.journal import Journal
from assay.runs.metadata import RunAbout
from assay.runs.pipeline import Feed, Pipeline, Progress, Sink, Watch
from assay.runs.row import Row
from assay.runs.row_rubrics import RowRubrics
from assay.runs.run_store import RunFile, RunRefused
from assay.runs.summary import Tally

PARTS = "parts"  # the folder in that of a run in which each attempt at a shard has one

# Makes the rubric and the grader, in the process that uses them: connections do not travel.
Make: TypeAlias = Callable[[], tuple[Any, Grader | None]]

PROGRESS_SECONDS = 1.0  # how often a worker writes down how far its shard is

_ADVICE = "make it in a function of a module, and give that"
_COUNTED = ("calls", "retries", "hits", "shared", "models", "errors", "usage", "cost", "unpriced")


@dataclass(frozen=True)
class Job:
    """What every worker of a run has to know."""

    folder: str  # the folder of the run; all workers see it
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
    part: str  # the folder in `parts` that its rows are saved in; no other attempt has this name
    slot: int = 0  # which of the workers does it, for its share of the limits
    dollars: float | None = None  # what it may spend; None is no limit
    rollout: float | None = None  # dollars that a rollout is known to cost


class ShardResult(NamedTuple):
    """What a shard that is done comes to."""

    shard: int
    part: str  # the folder in `parts` that holds its rows
    has_ids: bool  # whether its rows say which example they belong to; else they go by their number
    has_samples: bool  # whether they say which sample of it they are
    tally: Tally
    progress: Progress  # where it ended
    counts: Mapping[str, Any]  # what its ledger counted
    dearest: float | None  # dollars that a rollout is known to cost, where they are limited


@dataclass(frozen=True)
class ShardFailure:
    """A shard that could not be scored: not that rows in it have errors, but that it has no part."""

    shard: int
    error: str
    died: bool = False  # whether its worker died of it, so that another one may do better


def make_part_name(shard: Shard) -> str:
    """Return a name for the folder of an attempt at a shard, which no other attempt has."""
    return f"{shard.first:09d}-{shard.first + shard.rows:09d}-{secrets.token_hex(4)}"


def read_part_name(name: str) -> tuple[int, int]:
    """Return the first row of the shard that a folder holds, and the first one behind it."""
    first, end, _ = name.split("-")
    return int(first), int(end)


def score_shard(job: Job, task: Task) -> ShardResult:
    """Score the rows of one shard that are not finished yet, into a run of their own."""
    shard = task.shard
    part = Path(job.folder) / PARTS / task.part
    progress_file = part / "progress.json"
    seconds = None if job.ends == float("inf") else max(0.0, job.ends - time.time())
    ledger = Ledger(dollars=task.dollars, seconds=seconds, rollout=task.rollout)
    numbering = ShardNumbering(shard)

    def write_progress(progress: Progress) -> None:
        with suppress(OSError):  # a full disk is reported where rows are saved
            progress_file.write_text(json.dumps(asdict(progress)), encoding="utf-8")

    watch = Watch(write_progress, shard.rows, ledger, every=PROGRESS_SECONDS)
    finished_rows = _find_finished_rows(job, shard)

    def is_finished(row: Row) -> bool:
        if row.number not in finished_rows:
            return False
        watch.kept += 1
        return True

    with ExitStack() as stack:
        journal = stack.enter_context(Journal.open(part, RunAbout.from_dict(job.about)))
        stack.enter_context(Endpoint.share(task.slot, job.workers))
        stack.enter_context(counting_in(ledger))
        stack.enter_context(logging_once())
        if job.may_ask:
            journal.count_spending(ledger)
        rubric, grader = job.made()
        rubrics = rubric if isinstance(rubric, RowRubrics) else RowRubrics(rubric)
        sink = Sink(journal, None, watch)
        feed = Feed(shard.read(job.mapping), rubrics, is_finished, numbering)
        pipeline = Pipeline(
            sink, grader or rubrics.autograder, job.max_concurrent, judge_log=job.judge_log
        )
        run_sync(pipeline.run(feed.units(), None))
        if feed.broken is not None:
            raise feed.broken
        row_count = numbering.rows - shard.first
        if row_count != shard.rows:
            raise RunRefused(
                f"{shard.path} had {shard.rows:,} rows from line {shard.line} on, and now has "
                f"{row_count:,}: leave data alone while it is scored"
            )
        tally = Tally(pass_rule=journal.about.pass_rule)
        tally.merge(journal.tally())  # without the few numbers per example, which need not travel
    has_ids, has_samples = numbering.alike
    return ShardResult(
        shard=shard.number,
        part=task.part,
        has_ids=has_ids,
        has_samples=has_samples,
        tally=tally,
        progress=watch.now(),
        counts={name: getattr(ledger, name) for name in _COUNTED},
        dearest=ledger.rollout,
    )


def _find_finished_rows(job: Job, shard: Shard) -> set[int]:
    """Return the rows of a shard that the run holds without an error."""
    query = "SELECT row FROM rollouts WHERE row >= ? AND row < ? AND error IS NULL"
    rows = RunFile(job.folder).select(query, (shard.first, shard.first + shard.rows))
    return {row for (row,) in rows}
