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
from assay.graders.grader import Grader, JudgeSource, grader_of
from assay.models.budgets import Ledger, counting_in
from assay.models.retry import Endpoint
from assay.runs.journal import Journal
from assay.runs.metadata import RunAbout
from assay.runs.pipeline import Feed, Pipeline, Progress, Sink, Watch
from assay.runs.row import Row
from assay.runs.row_rubrics import RowRubrics
from assay.runs.run_errors import RunRefused
from assay.runs.run_file import RunFile
from assay.runs.summary import Tally

PARTS = "parts"  # the folder in that of a run in which each attempt at a shard has one

# Returns the rubric and the judge, in the process that uses them: connections cannot be sent.
Make: TypeAlias = Callable[[], tuple[Any, JudgeSource | None]]

PROGRESS_SECONDS = 1.0  # how often a worker notes the progress of its shard

_ADVICE = "make it in a function of a module, and pass that function"
# What the driver adds to its own ledger.
_COUNTED_FIELDS = (
    "calls",
    "retries",
    "hits",
    "shared",
    "models",
    "errors",
    "usage",
    "cost",
    "unpriced",
)


@dataclass(frozen=True)
class Job:
    """What every worker of a run has to know."""

    folder: str  # the folder of the run; all workers can reach it
    about: Mapping[str, Any]  # what `RunAbout.to_dict` returns
    make: bytes  # a pickled `Make`
    mapping: Mapping[str, str]  # the names of columns, as in `rows_of`
    max_concurrent: int  # rollouts that a worker scores at once if a model is asked
    workers: int = 1  # how many workers divide the limits of endpoints
    save_requests: bool = False  # whether rows keep the exact requests to judges and the replies
    may_ask: bool = False  # whether models may be asked, so that spending has to be saved
    deadline: float = float("inf")  # when the time of the run is up, in seconds since 1970

    def make_rubric(self) -> tuple[Any, Grader | None]:
        """Return the rubric and the grader of its judge, which are made once in a process."""
        return _unpickle_and_make(self.make)


@cache
def _unpickle_and_make(make: bytes) -> tuple[Any, Grader | None]:
    rubric, judge = pickle.loads(make)()
    return rubric, grader_of(judge)


def pickle_make(make: Make) -> bytes:
    """Return a `Make` as bytes: by its name, or as a whole if cloudpickle is installed."""
    pickler: Any = pickle
    advice = f"pip install cloudpickle, or {_ADVICE}"
    with suppress(ImportError):
        pickler = import_module("cloudpickle")
        advice = _ADVICE
    try:
        return pickler.dumps(make)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise RubricError(
            f"this rubric cannot be sent to other processes ({error}): {advice}"
        ) from error


def given(rubric: Any, judge: JudgeSource | None = None) -> Make:
    """Return a `Make` for a rubric, and a judge, that can be pickled; the name of a model always can."""
    grader_of(judge)  # raises if it cannot judge
    # `partial` and `tuple` are pickled by name; a function inside of this one could not be.
    return cast("Make", partial(tuple, (rubric, judge)))


@dataclass(frozen=True)
class Task:
    """One attempt at a shard."""

    shard: Shard
    part: str  # the folder in `parts` that its rows are saved in; no other attempt has this name
    slot: int = 0  # the number of the worker, for its share of the limits
    dollars: float | None = None  # what it may spend; None for no limit
    rollout_cost: float | None = None  # dollars that a rollout is known to cost


class ShardResult(NamedTuple):
    """What came of a shard that was scored."""

    shard: int
    part: str  # the folder in `parts` that holds its rows
    has_ids: bool  # whether its rows name their example; otherwise they go by their number
    has_samples: bool  # whether its rows name their sample
    tally: Tally
    progress: Progress
    counts: Mapping[str, Any]  # what its ledger counted
    rollout_cost: float | None  # dollars that a rollout is known to cost, if they are limited


@dataclass(frozen=True)
class ShardFailure:
    """A shard that could not be scored as a whole. Errors of single rows are not failures."""

    shard: int
    error: str
    died: bool = False  # whether its worker died, so that another attempt may succeed


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
    seconds = None if job.deadline == float("inf") else max(0.0, job.deadline - time.time())
    ledger = Ledger(dollars=task.dollars, seconds=seconds, rollout=task.rollout_cost)
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
        rubric, grader = job.make_rubric()
        rubrics = rubric if isinstance(rubric, RowRubrics) else RowRubrics(rubric)
        sink = Sink(journal, None, watch)
        feed = Feed(shard.read(job.mapping), rubrics, is_finished, numbering)
        pipeline = Pipeline(
            sink, grader or rubrics.grader, job.max_concurrent, save_requests=job.save_requests
        )
        run_sync(pipeline.run(feed.units(), None))
        if feed.error is not None:
            raise feed.error
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
        counts={name: getattr(ledger, name) for name in _COUNTED_FIELDS},
        rollout_cost=ledger.rollout,
    )


def _find_finished_rows(job: Job, shard: Shard) -> set[int]:
    """Return the rows of a shard that the run holds without an error."""
    query = "SELECT row FROM rollouts WHERE row >= ? AND row < ? AND error IS NULL"
    rows = RunFile(job.folder).select(query, (shard.first, shard.first + shard.rows))
    return {row for (row,) in rows}
