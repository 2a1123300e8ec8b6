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

# In the folder of a run, this folder holds a folder for each attempt at a shard.
ATTEMPTS_FOLDER = "parts"
PROGRESS_FILE = "progress.json"  # in the folder of an attempt, while it runs

# Returns the rubric and the judge. It is called in the process that uses them, because open
# connections cannot be sent to another process.
Make: TypeAlias = Callable[[], tuple[Any, JudgeSource | None]]

PROGRESS_SECONDS = 1.0  # how often a worker writes the progress of its shard

_MODULE_ADVICE = "make it in a function of a module, and pass that function"
# The fields of the ledger of a worker that the driver adds to its own ledger.
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
    pickled_make: bytes  # what `pickle_make` returns
    mapping: Mapping[str, str]  # the names of columns, as in `rows_of`
    max_concurrent: int  # rollouts that a worker scores at once if a model is asked
    workers: int = 1  # how many workers divide the limits of endpoints
    save_requests: bool = False  # whether rows keep the exact requests to judges and the replies
    may_ask_models: bool = False  # if models may be asked, their cost has to be saved
    deadline: float = float("inf")  # when the time of the run is up, in seconds since 1970

    def make_rubric(self) -> tuple[Any, Grader | None]:
        """Return the rubric and the grader of its judge; None if no judge was given.

        They are made once in a process, for all shards that it scores.
        """
        return _unpickle_and_make(self.pickled_make)


@cache
def _unpickle_and_make(pickled_make: bytes) -> tuple[Any, Grader | None]:
    make: Make = pickle.loads(pickled_make)
    rubric, judge = make()
    return rubric, grader_of(judge)


def pickle_make(make: Make) -> bytes:
    """Return the function that makes the rubric as bytes, which can be sent to workers.

    The standard library pickles the name of a function, so that only functions of a module can be
    sent. If cloudpickle is installed, any function can be sent.
    """
    try:
        pickler: Any = import_module("cloudpickle")
        advice = _MODULE_ADVICE
    except ImportError:
        pickler = pickle
        advice = f"pip install cloudpickle, or {_MODULE_ADVICE}"
    try:
        return pickler.dumps(make)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise RubricError(
            f"this rubric cannot be sent to other processes ({error}): {advice}"
        ) from error


def given(rubric: Any, judge: JudgeSource | None = None) -> Make:
    """Return a function for `score_shards` that returns this rubric and this judge.

    Both must be picklable, because workers are sent a copy. The name of a model always is.
    """
    grader_of(judge)  # raises if it cannot judge
    # This is a function that calls `tuple((rubric, judge))`. Unlike a lambda, it can be pickled.
    return cast("Make", partial(tuple, (rubric, judge)))


@dataclass(frozen=True)
class Task:
    """One attempt at a shard."""

    shard: Shard
    attempt: str  # the name of the folder that its rows are saved in, as of `make_attempt_name`
    slot: int = 0  # which share of the limits of endpoints it has; counted from 0
    dollars: float | None = None  # what it may spend; None for no limit
    rollout_cost: float | None = None  # dollars that a rollout is known to cost


class ShardResult(NamedTuple):
    """What a worker reports about a shard that it has scored."""

    shard: int  # the number of the shard
    attempt: str  # the name of the folder that holds its rows
    has_ids: bool  # whether its rows name their example; if not, each row is an example
    has_samples: bool  # whether its rows name their sample
    tally: Tally  # what the summary of the run is computed from
    progress: Progress
    counts: Mapping[str, Any]  # the `_COUNTED_FIELDS` of the ledger of the worker
    rollout_cost: float | None  # dollars that a rollout is known to cost, if they are limited


@dataclass(frozen=True)
class ShardFailure:
    """A shard that could not be scored as a whole. Errors of single rows are not failures."""

    shard: int  # the number of the shard
    error: str
    died: bool = False  # whether its worker died, so that another attempt may succeed


def make_attempt_name(shard: Shard) -> str:
    """Return a name for the folder of a new attempt at a shard.

    It begins with the rows of the shard, for `read_row_range`, and ends with a random number, so
    that no other attempt has the same name.
    """
    end_row = shard.first + shard.rows
    return f"{shard.first:09d}-{end_row:09d}-{secrets.token_hex(4)}"


def read_row_range(attempt: str) -> tuple[int, int]:
    """Return the rows of the shard that an attempt has scored: the first, and the last plus 1."""
    first_row, end_row, _ = attempt.split("-")
    return int(first_row), int(end_row)


def score_shard(job: Job, task: Task) -> ShardResult:
    """Score the rows of a shard that are not finished yet, and save them as a run of their own.

    That run is in the folder of this attempt. The driver merges it into the run of the job.
    """
    shard = task.shard
    folder = Path(job.folder) / ATTEMPTS_FOLDER / task.attempt
    progress_file = folder / PROGRESS_FILE
    seconds_left = None  # no limit
    if job.deadline != float("inf"):
        seconds_left = max(0.0, job.deadline - time.time())
    ledger = Ledger(dollars=task.dollars, seconds=seconds_left, rollout=task.rollout_cost)
    numbering = ShardNumbering(shard)

    def write_progress(progress: Progress) -> None:
        with suppress(OSError):  # a full disk is reported where rows are saved
            progress_file.write_text(json.dumps(asdict(progress)), encoding="utf-8")

    watch = Watch(write_progress, shard.rows, ledger, every=PROGRESS_SECONDS)
    finished_rows = _find_finished_rows(job, shard)

    def is_finished(row: Row) -> bool:
        if row.number not in finished_rows:
            return False
        watch.kept += 1  # counts as done in the progress
        return True

    with ExitStack() as stack:
        journal = stack.enter_context(Journal.open(folder, RunAbout.from_dict(job.about)))
        # Keep to this task's share of the limits of endpoints, and of the budget.
        stack.enter_context(Endpoint.share(task.slot, job.workers))
        stack.enter_context(counting_in(ledger))
        stack.enter_context(logging_once())  # logs an error that repeats only once
        if job.may_ask_models:
            journal.count_spending(ledger)
        rubric, grader = job.make_rubric()
        rubrics = rubric if isinstance(rubric, RowRubrics) else RowRubrics(rubric)
        # The feed reads the rows, the pipeline scores them, and the sink saves them.
        feed = Feed(shard.read(job.mapping), rubrics, is_finished, numbering)
        sink = Sink(journal, None, watch)
        pipeline = Pipeline(
            sink, grader or rubrics.grader, job.max_concurrent, save_requests=job.save_requests
        )
        run_sync(pipeline.run(feed.units(), None))
        if feed.error is not None:  # a row could not be read; those before it are saved
            raise feed.error
        _refuse_changed_data(shard, rows_read=numbering.rows - shard.first)
        # Merging into an empty tally leaves out the numbers per example, which the driver does not
        # need.
        tally = Tally(pass_rule=journal.about.pass_rule)
        tally.merge(journal.tally())
    return ShardResult(
        shard=shard.number,
        attempt=task.attempt,
        has_ids=numbering.has_ids,
        has_samples=numbering.has_samples,
        tally=tally,
        progress=watch.now(),
        counts={name: getattr(ledger, name) for name in _COUNTED_FIELDS},
        rollout_cost=ledger.rollout,
    )


def _refuse_changed_data(shard: Shard, *, rows_read: int) -> None:
    """Raise `RunRefused` if a shard has another number of rows than when the data was cut."""
    if rows_read != shard.rows:
        raise RunRefused(
            f"{shard.path} had {shard.rows:,} rows from line {shard.line} on, and now has "
            f"{rows_read:,}: leave data alone while it is scored"
        )


def _find_finished_rows(job: Job, shard: Shard) -> set[int]:
    """Return the numbers of the rows of a shard that the run of the job holds without an error."""
    query = "SELECT row FROM rollouts WHERE row >= ? AND row < ? AND error IS NULL"
    end_row = shard.first + shard.rows
    records = RunFile(job.folder).select(query, (shard.first, end_row))
    return {row_number for (row_number,) in records}
